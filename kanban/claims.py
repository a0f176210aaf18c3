"""Claiming by hand: a person or a script of its own takes a card, and holds its lock (RULES §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kanban import snapshot
from kanban.admission import caps_of, claimed, live_of, refuse
from kanban.commands import Decision, known
from kanban.desk import Desk
from kanban.hosts import Host
from kanban.making import maybe_named
from kanban.plan import Key
from kanban.processes import ProcessTable, start_tick
from kanban.refusals import NotClaimable, NothingToDo, Paused, Ruled, Taken
from ledger import ids
from ledger.errors import InvalidInput
from ledger.events import Actor, WorkerBound
from ledger.recorded import Draft
from projections.run import Run
from projections.task import Task


@dataclass(frozen=True, slots=True)
class HandClaim:
    """What a claim by hand asks for; without *task* the next card (of *assignee*, if given); *pid* is bound."""

    task: str | None
    assignee: str | None
    pid: int | None
    worker_caps: Mapping[str, int | None]
    """The assignees' own caps, as far as this host's configuration knows them."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A claim: the run, and the only copy of its lock."""

    task: str
    run: int
    lock: str
    lease_until: int


def seen_gone(desk: Desk, host: Host) -> frozenset[Key]:
    """The runs spawned on this host, ended or not, whose processes are gone by now. Looked at before the lock."""
    watched = [w.run for w in snapshot.watch(desk.tx, desk.board).everyone() if w.board == desk.board]
    spawned = [run for run in watched if _spawned_on(run, host)]
    if not spawned:
        return frozenset()
    table = ProcessTable.snapshot()
    return frozenset(
        (run.task, run.run) for run in spawned if run.group is not None and not table.members(run.group, host)
    )


def claim_by_hand(desk: Desk, ask: HandClaim, actor: Actor, host: Host, gone: frozenset[Key]) -> Granted:
    """Open a run for the caller. Raises `Taken`, `NotClaimable`, `Paused`, `NothingToDo`; one transaction."""
    ending = _ending_cards(desk, host, gone)
    if ask.task is not None:
        return _claim(desk, known(desk, ask.task), ask, (actor, host), ending)
    refused: Paused | None = None
    for task in _next(desk, ask, host.id):
        try:
            return _claim(desk, task, ask, (actor, host), ending)
        except Paused as pause:
            refused = refused or pause
        except (Ruled, Taken):
            continue
    raise refused or NothingToDo(ask.assignee)


def _next(desk: Desk, ask: HandClaim, host: str) -> Iterable[Task]:
    for task in snapshot.candidates(desk.tx, desk.board, desk.now, host):
        if ask.assignee is None or task.worker in {ask.assignee, None}:
            yield task


def _claim(desk: Desk, task: Task, ask: HandClaim, by: tuple[Actor, Host], ending: frozenset[str]) -> Granted:
    actor, host = by
    worker = task.worker or maybe_named(ask.assignee, "a worker") or actor.name
    if ask.assignee is not None and worker != ask.assignee:
        raise NotClaimable(task.id, "other_assignee", f"it is {worker}'s")
    caps = caps_of(desk.settings, worker, live_of(desk.live()), own_cap=ask.worker_caps.get(worker), host_cap=None)
    refuse(desk, task, worker, host.id, caps, ending=task.id in ending)
    lock = ids.lock()
    event = claimed(
        desk, task, by="hand", worker=worker, lock_hash=ids.lock_hash(lock), host=host.id, boot=host.boot, caps=caps
    )
    drafts = [Draft.of(task.id, event, actor)]
    if ask.pid is not None:
        drafts.append(Draft.of(task.id, _binding(event.run, ask.pid, host), actor))
    desk.write(Decision(tuple(drafts)))
    return Granted(task.id, event.run, lock, event.lease_until)


def _ending_cards(desk: Desk, host: Host, gone: frozenset[Key]) -> frozenset[str]:
    """The cards of which a run, be it the last or not, may still have processes here (RULES §7.7).

    Its lease stands, and nobody saw it gone: one that ended between the look and the lock was seen alive.
    """
    watched = [w.run for w in snapshot.watch(desk.tx, desk.board).ending if w.board == desk.board]
    return frozenset(run.task for run in watched if _spawned_on(run, host) and (run.task, run.run) not in gone)


def _spawned_on(run: Run, host: Host) -> bool:
    return run.by == "spawn" and run.group is not None and run.group.host == host.id


def _binding(run: int, pid: int, host: Host) -> WorkerBound:
    tick = start_tick(pid) if pid > 0 else None
    if tick is None:
        raise InvalidInput(f"no process {pid} on this host", remedy="--pid of a live process")
    return WorkerBound(
        run=run, role="group", pid=pid, start_tick=tick, group=0, host=host.id, boot=host.boot,
        namespace=host.namespace,
    )  # fmt: skip
