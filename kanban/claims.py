"""Claiming by hand: a person or a script of its own takes a card, and holds its lock (RULES §8)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from sqlalchemy import Connection, and_, bindparam, select

from kanban import snapshot
from kanban.admission import Live, caps_of, claimed, live_of, refuse
from kanban.commands import Decision, known
from kanban.desk import Desk
from kanban.hosts import Host
from kanban.making import maybe_named
from kanban.plan import Key
from kanban.processes import ProcessTable, start_tick
from kanban.refusals import NotClaimable, NothingToDo, Paused, Ruled, Taken
from ledger import ids
from ledger.errors import InvalidInput
from ledger.events import Actor, Cap, WorkerBound
from ledger.prepared import Prepared
from ledger.recorded import Draft
from ledger.store import by_command
from projections import tables
from projections.run import Binding
from projections.task import Task


class HandClaim(NamedTuple):
    """What a claim by hand asks for; without *task* the next card (of *assignee*, if given); *pid* is bound.

    *lock* is the run's, should it be granted; *command_id* tells a repetition, where an answer can be lost.
    """

    task: str | None
    assignee: str | None
    pid: int | None
    worker_caps: Mapping[str, int | None]
    """The assignees' own caps, as far as this host's configuration knows them."""
    lock: str
    command_id: str | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """A claim: the run, and the only copy of its lock."""

    task: str
    run: int
    lock: str
    lease_until: int


class Unseen(Exception):
    """The processes of an ended run of the card may still be on this host, and nobody has looked."""


class _Spawned(NamedTuple):
    """A spawned run, its process, and whether it has ended."""

    key: Key
    group: Binding
    ended: bool


def seen_gone(tx: Connection, board: str, task: str | None, host: Host) -> frozenset[Key]:
    """The runs of *task* (none: of any card) spawned on this host, ended or not, whose processes are gone by now.

    Looked at before the lock.
    """
    spawned = _spawned(tx, board, task, host)
    if not spawned:
        return frozenset()
    table = ProcessTable.snapshot()
    return frozenset(each.key for each in spawned if not table.members(each.group, host))


def claim_all(
    desk: Desk, asks: Sequence[HandClaim], actor: Actor, host: Host, gone: frozenset[Key] | None
) -> list[Granted]:
    """Open a run for each of *asks*: one names its card, several want the next ones, as many as there are.

    Raises `Taken`, `NotClaimable`, `Paused`, `NothingToDo` where none was granted. *gone* is what `seen_gone` saw;
    none: nobody has looked yet, and `Unseen` is raised where that is needed.
    """
    task = asks[0].task
    ending = _Ending(desk, task, host, gone)
    if task is not None:
        desk.know_one(task)
        return [_claim(desk, known(desk, task), asks[0], (actor, host), ending)]
    return _claim_next(desk, asks, (actor, host), ending)


def granted_before(desk: Desk, asks: Iterable[HandClaim]) -> list[Granted]:
    """What this very command was granted before its answer was lost: all of it, or nothing."""
    found = []
    for ask in asks:
        event = None if ask.command_id is None else by_command(desk.tx, desk.board, ask.command_id)
        if event is None:
            break
        found.append(Granted(event.task, event.run or 0, ask.lock, event.facts["lease_until"]))
    return found


def _claim_next(desk: Desk, asks: Sequence[HandClaim], by: tuple[Actor, Host], ending: _Ending) -> list[Granted]:
    granted: list[Granted] = []
    refused: Paused | None = None
    for task in _next(desk, asks, by[1]):
        try:
            granted.append(_claim(desk, task, asks[len(granted)], by, ending))
        except Paused as pause:
            refused = refused or pause
            if pause.scope == "board":
                break
        except (Ruled, Taken):
            continue
        if len(granted) == len(asks):
            break
    if not granted:
        raise refused or NothingToDo(asks[0].assignee)
    return granted


def _next(desk: Desk, asks: Sequence[HandClaim], host: Host) -> Iterator[Task]:
    assignee = asks[0].assignee
    most = len(asks) if assignee is None else max(len(asks), _LOOKED_THROUGH)
    first, others = snapshot.first_candidates(desk.rows, desk.board, desk.now, host.names, most)
    for found in first:
        desk.know_next(found)
    for task in chain((found.task for found in first), others):
        if assignee is None or task.worker in {assignee, None}:
            yield task


def _claim(desk: Desk, task: Task, ask: HandClaim, by: tuple[Actor, Host], ending: _Ending) -> Granted:
    actor, host = by
    worker = claimant(task, ask.assignee, actor)
    caps = _caps(desk, worker, ask.worker_caps.get(worker))
    refuse(desk, task, worker, host.id, caps, ending=task.id in ending)
    hashed = ids.lock_hash(ask.lock)
    event = claimed(desk, task, by="hand", worker=worker, lock_hash=hashed, host=host.id, boot=host.boot, caps=caps)
    drafts = [Draft.of(task.id, event, actor)]
    if ask.pid is not None:
        drafts.append(Draft.of(task.id, _binding(event.run, ask.pid, host), actor))
    desk.write(Decision(tuple(drafts)), command_id=ask.command_id)
    return Granted(task.id, event.run, ask.lock, event.lease_until)


def claimant(task: Task, assignee: str | None, actor: Actor) -> str:
    """The worker that *task* is claimed for: its own, else *assignee*, else *actor*. Raises `NotClaimable`."""
    worker = task.worker or maybe_named(assignee, "a worker") or actor.name
    if assignee is not None and worker != assignee:
        raise NotClaimable(task.id, "other_assignee", f"it is {worker}'s")
    return worker


def _caps(desk: Desk, worker: str, own_cap: int | None) -> list[Cap]:
    """The caps that this claim meets; runs are counted only where there is one."""
    if not caps_of(desk.settings, worker, Live(), own_cap=own_cap, host_cap=None):
        return []
    return caps_of(desk.settings, worker, live_of(desk.live()), own_cap=own_cap, host_cap=None)


class _Ending:
    """The cards of which a run may still have processes here, be it the last or not (§7.7).

    It has ended, its lease stands, and nobody saw it gone: one that ended between look and lock was seen alive.
    """

    def __init__(self, desk: Desk, task: str | None, host: Host, gone: frozenset[Key] | None) -> None:
        """*task*: the only card that will be asked for; none: any."""
        self._desk, self._task, self._host, self._gone = desk, task, host, gone
        self._spawned: list[_Spawned] | None = None

    def __contains__(self, task: str) -> bool:
        if not self._desk.is_leased(task):
            return False
        if self._spawned is None:
            self._spawned = _spawned(self._desk.rows, self._desk.board, self._task, self._host)
        of_card = [each for each in self._spawned if each.key[0] == task]
        if of_card and self._gone is None:
            raise Unseen
        return any(each.ended and each.key not in (self._gone or ()) for each in of_card)


def _spawned(tx: Connection, board: str, task: str | None, host: Host) -> list[_Spawned]:
    """The runs that were spawned on this host and have a lease; one whose process cannot be read is passed over."""
    rows = _LEASED.all(tx, board=board) if task is None else _LEASED_CARD.all(tx, board=board, task=task)
    found = []
    for card, run, group, ended_by in rows:
        with suppress(ValueError, TypeError):
            binding = Binding(*json.loads(group))
            if binding.host == host.id:
                found.append(_Spawned((card, run), binding, ended_by is not None))
    return found


_LOOKED_THROUGH: Final = 16
"""Cards that are read first where some may be another worker's."""
_RUNS, _LEASES = tables.runs, tables.leases
_OF_SPAWNED: Final = (
    select(_RUNS.c.task, _RUNS.c.run, _RUNS.c.group, _RUNS.c.ended_by)
    .select_from(_LEASES.join(_RUNS, and_(*(_RUNS.c[name] == _LEASES.c[name] for name in ("board", "task", "run")))))
    .where(_LEASES.c.board == bindparam("board"), _RUNS.c.by == "spawn", _RUNS.c.group.is_not(None))
)
_LEASED: Final = Prepared(_OF_SPAWNED)
_LEASED_CARD: Final = Prepared(_OF_SPAWNED.where(_LEASES.c.task == bindparam("task")))


def _binding(run: int, pid: int, host: Host) -> WorkerBound:
    tick = start_tick(pid) if pid > 0 else None
    if tick is None:
        raise InvalidInput(f"no process {pid} on this host", remedy="--pid of a live process")
    return WorkerBound(
        run=run, role="group", pid=pid, start_tick=tick, group=0, host=host.id, boot=host.boot,
        namespace=host.namespace,
    )  # fmt: skip
