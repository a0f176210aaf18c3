"""What a tick reads of the board: runs to watch, holds to lift, cards to start. Read-only, in any transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Table, func, select, text, tuple_

from kanban.admission import Live, live_of
from kanban.commands import Ahead, View, known, unmet
from kanban.plan import Lease
from ledger.recorded import Draft
from projections import tables
from projections.rows import run_from, task_from
from projections.run import Run
from projections.task import Task, claimable, evolve

RUNS, LEASES, HELD, TASKS = tables.runs, tables.leases, tables.held, tables.tasks


Report = Callable[[str, str], None]
"""Told of each card of which something stored cannot be read, and what."""
_UNREADABLE = (ValueError, TypeError, KeyError)


class Watched(NamedTuple):
    """A run whose processes may still be there: its board, itself and its lease."""

    board: str
    run: Run
    lease: Lease


@dataclass(frozen=True, slots=True)
class Watch:
    """The runs to look at: open ones of the board, and ended ones of any board whose processes may remain."""

    open: tuple[Watched, ...]
    ending: tuple[Watched, ...]
    errors: tuple[tuple[str, str], ...]

    def everyone(self) -> Iterable[Watched]:
        """All of them."""
        return (*self.open, *self.ending)


def watch(tx: Connection, board: str) -> Watch:
    """The runs to look at now. A row that cannot be read is an error of its card; the others go on."""
    joined = RUNS.outerjoin(
        LEASES, (LEASES.c.board == RUNS.c.board) & (LEASES.c.task == RUNS.c.task) & (LEASES.c.run == RUNS.c.run)
    )
    query = select(RUNS, LEASES.c.lease_until.label("leased"), LEASES.c.last_beat).select_from(joined)
    errors: list[tuple[str, str]] = []
    open_rows = tx.execute(query.where(RUNS.c.board == board, RUNS.c.ended_by.is_(None))).mappings().all()
    leased = tuple_(*_key(RUNS)).in_(select(*_key(LEASES)))  # else SQLite walks every run that there ever was
    ending_rows = tx.execute(query.where(leased, RUNS.c.ended_by.is_not(None))).mappings().all()
    return Watch(tuple(_watched(open_rows, errors)), tuple(_watched(ending_rows, errors)), tuple(errors))


def liftable(tx: Connection, board: str, report: Report | None = None) -> list[Task]:
    """The cards with a hold that is not sticky. A row that cannot be read is reported; the others go on."""
    query = select(TASKS).where(TASKS.c.board == board, ~TASKS.c.hold_sticky, ~TASKS.c.archived).order_by(TASKS.c.task)
    return list(_tasks(tx.execute(query).mappings(), report))


def candidates(tx: Connection, board: str, now: int, host: str, report: Report | None = None) -> Iterator[Task]:
    """The cards that only time or this host's slots could still hold back: larger priority, then older, then id.

    A row that cannot be read is reported; the others go on.
    """
    query = (
        select(TASKS)
        .where(TASKS.c.board == board, text(tables.CLAIMABLE))
        .where((TASKS.c.scheduled.is_(None)) | (TASKS.c.scheduled <= now))
        .where((TASKS.c.host.is_(None)) | (TASKS.c.host == host))
        .order_by(TASKS.c.priority.desc(), TASKS.c.created_at, TASKS.c.task)
    )
    return _tasks(tx.execute(query).mappings(), report)


def spawned_here(tx: Connection, host: str) -> int:
    """How many open runs were spawned on *host*, over all boards: what the host's cap counts."""
    query = select(func.count()).select_from(RUNS).where(RUNS.c.ended_by.is_(None))
    return int(tx.execute(query.where(RUNS.c.by == "spawn", RUNS.c.host == host)).scalar() or 0)


def live(view: View, tx: Connection, host: str, *, ending: int) -> Live:
    """The live counts of the board, with *ending* groups of ended runs that still use this host."""
    return live_of(view.live(), spawned_here(tx, host) + ending)


def stored_held(tx: Connection, board: str) -> dict[str, tuple[str, int | None]]:
    """The held reasons as the last tick left them."""
    rows = tx.execute(select(HELD.c.task, HELD.c.reason, HELD.c.until).where(HELD.c.board == board))
    return {task: (reason, until) for task, reason, until in rows}


def foreseen(view: View, drafts: Iterable[Draft]) -> dict[str, Task]:
    """Every card that *drafts* move, and the children of those they settle, as they will be."""
    moved: dict[str, Task] = {}
    unlinked: set[tuple[str, str]] = set()
    for draft in drafts:
        before = moved.get(draft.task) or view.task(draft.task) or Task(draft.task)
        recorded = draft.as_if(position=before.position + 1, version=before.version + 1, at=view.now)
        moved[draft.task] = evolve(before, recorded)
        if draft.kind == "unlinked":  # by the wish `archive --unlink` or `--cascade`
            unlinked.add((draft.task, recorded.facts["parent"]))
    ahead = Ahead(view, moved)
    children = {link.child for task in moved for link in view.children(task)}
    for task in children | set(moved):
        waits = [parent for parent in unmet(ahead, task) if (task, parent) not in unlinked]
        moved[task] = known(ahead, task)._replace(open_parents=len(waits))
    return moved


def merged(standing: Iterable[Task], moved: Mapping[str, Task], now: int, host: str) -> list[Task]:
    """The candidates once *moved* has come true, in the order of the board."""
    fresh = [task for task in moved.values() if _startable(task, now) and task.card.host in {None, host}]
    others = [task for task in standing if task.id not in moved]
    return sorted((*others, *fresh), key=lambda task: (-task.card.priority, task.card.created_at, task.id))


def _startable(task: Task, now: int) -> bool:
    return claimable(task._replace(not_before=None), now)


def _tasks(rows: Iterable[Mapping[Any, Any]], report: Report | None) -> Iterator[Task]:
    for row in rows:
        try:
            yield task_from(dict(row))
        except _UNREADABLE as fault:
            if report is not None:
                report(row["task"], _unreadable("its stored row", fault))


def _watched(rows: Iterable[Mapping[Any, Any]], errors: list[tuple[str, str]]) -> Iterator[Watched]:
    for row in rows:
        try:
            run = run_from(dict(row))
        except _UNREADABLE as fault:
            errors.append((row["task"], _unreadable("its stored run", fault)))
            continue
        leased = row["leased"]
        until = run.lease_until if leased is None else leased
        yield Watched(row["board"], run, Lease(until, row["last_beat"], leased is not None))


def _key(table: Table) -> tuple[Column[Any], ...]:
    return table.c.board, table.c.task, table.c.run


def _unreadable(what: str, fault: Exception) -> str:
    return f"{what} cannot be read: {fault}; ledger replay, ledger db rebuild"
