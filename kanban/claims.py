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
from projections.leases import lease_of
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
    if ask.task is not None:
        return _claim(desk, known(desk, ask.task), ask, (actor, host), gone)
    refused: Paused | None = None
    for task in _next(desk, ask, host.id):
        try:
            return _claim(desk, task, ask, (actor, host), gone)
        except Paused as pause:
            refused = refused or pause
        except (Ruled, Taken):
            continue
    raise refused or NothingToDo(ask.assignee)


def _next(desk: Desk, ask: HandClaim, host: str) -> Iterable[Task]:
    for task in snapshot.candidates(desk.tx, desk.board, desk.now, host):
        if ask.assignee is None or task.worker in {ask.assignee, None}:
            yield task


def _claim(desk: Desk, task: Task, ask: HandClaim, by: tuple[Actor, Host], gone: frozenset[Key]) -> Granted:
    actor, host = by
    worker = task.worker or maybe_named(ask.assignee, "a worker") or actor.name
    if ask.assignee is not None and worker != ask.assignee:
        raise NotClaimable(task.id, "other_assignee", f"it is {worker}'s")
    caps = caps_of(desk.settings, worker, live_of(desk.live()), own_cap=ask.worker_caps.get(worker), host_cap=None)
    refuse(desk, task, worker, host.id, caps, ending=_is_ending(desk, task, host, gone))
    lock = ids.lock()
    event = claimed(
        desk, task, by="hand", worker=worker, lock_hash=ids.lock_hash(lock), host=host.id, boot=host.boot, caps=caps
    )
    drafts = [Draft.of(task.id, event, actor)]
    if ask.pid is not None:
        drafts.append(Draft.of(task.id, _binding(event.run, ask.pid, host), actor))
    desk.write(Decision(tuple(drafts)))
    return Granted(task.id, event.run, lock, event.lease_until)


def _is_ending(desk: Desk, task: Task, host: Host, gone: frozenset[Key]) -> bool:
    """Whether the last run's processes may still be there: its lease stands, and nobody saw them gone (RULES §7.7).

    A run that ended between the look and the lock was seen alive, so it keeps its card.
    """
    if (task.id, task.last_run) in gone or lease_of(desk.tx, desk.board, task.id, task.last_run) is None:
        return False
    run = desk.run(task.id, task.last_run)
    return run is not None and _spawned_on(run, host)


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
