"""What a tick reads of the board: runs to watch, holds to lift, cards to start. Read-only, in any transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Table, and_, bindparam, func, select, text, tuple_

from kanban.commands import Ahead, View, known, unmet
from kanban.plan import Lease
from ledger.prepared import Prepared
from ledger.recorded import Draft
from ledger.schema import events
from projections import tables
from projections.at_once import Next
from projections.rows import RUN_COLUMNS, TASK_VALUES, run_of, task_of
from projections.run import Run
from projections.task import Task, claimable, evolve

RUNS, LEASES, HELD, TASKS, SETTINGS = tables.runs, tables.leases, tables.held, tables.tasks, tables.settings

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
    errors: list[tuple[str, str]] = []
    open_runs = tuple(_watched(_OPEN.all(tx, board=board), errors))
    return Watch(open_runs, tuple(_watched(_ENDING.all(tx), errors)), tuple(errors))


def liftable(tx: Connection, board: str, report: Report | None = None) -> list[Task]:
    """The cards with a hold that is not sticky and may have lost its reason: card or policy were changed after it.

    A row that cannot be read is reported; the others go on.
    """
    return list(_tasks(_LIFTABLE.all(tx, board=board), report))


def candidates(
    tx: Connection, board: str, now: int, names: tuple[str, str], report: Report | None = None
) -> Iterator[Task]:
    """The cards that only time or this host's slots could still hold back: larger priority, then older, then id.

    *names*: the host's id and node name; a card that is placed is placed by either. Read when they are asked for, a
    page at a time. A row that cannot be read is reported; the others go on.
    """
    asked = _asked(board, now, names)
    page = _FIRST.all(tx, **asked, most=_FEW)
    yield from _tasks(page, report)
    yield from _further(tx, asked, page, _FEW, report)


def first_candidates(
    tx: Connection, board: str, now: int, names: tuple[str, str], most: int
) -> tuple[list[Next], Iterator[Task]]:
    """The first *most* of them with what a claim has to know of each, and the others, read when they are asked for."""
    asked = _asked(board, now, names)
    page = _NEXT.all(tx, **asked, most=most)
    return list(_nexts(page)), _further(tx, asked, page, most, None)


def _asked(board: str, now: int, names: tuple[str, str]) -> dict[str, Any]:
    return {"board": board, "now": now, "here": names[0], "named": names[1]}


def _further(
    tx: Connection, asked: Mapping[str, Any], page: list[Any], most: int, report: Report | None
) -> Iterator[Task]:
    """The cards behind a *page* of at most *most* rows, page by page."""
    while len(page) == most:
        page, most = _behind(tx, asked, page[-1]), _MANY
        yield from _tasks(page, report)


def _behind(tx: Connection, asked: Mapping[str, Any], last: Sequence[Any]) -> list[Any]:
    """The page behind the row *last*: the rest of its priority, then smaller ones; each a range of the index."""
    priority = last[_PRIORITY]
    same = _SAME.all(tx, **asked, priority=priority, created_at=last[_CREATED], task=last[0], most=_MANY)
    left = _MANY - len(same)
    return same + _SMALLER.all(tx, **asked, priority=priority, most=left) if left else same


def spawned_here(tx: Connection, host: str) -> int:
    """How many open runs were spawned on *host*, over all boards: what the host's cap counts."""
    return int(_SPAWNED.one(tx, here=host)[0])


def stored_held(tx: Connection, board: str) -> dict[str, tuple[str, int | None]]:
    """The held reasons as the last tick left them."""
    return {task: (reason, until) for task, reason, until in _HELD.all(tx, board=board)}


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


def merged(standing: Iterable[Task], moved: Mapping[str, Task], now: int, names: tuple[str, str]) -> list[Task]:
    """The candidates once *moved* has come true, in the order of the board; *names* as for `candidates`."""
    fresh = [task for task in moved.values() if _startable(task, now) and task.card.host in {None, *names}]
    others = [task for task in standing if task.id not in moved]
    return sorted((*others, *fresh), key=lambda task: (-task.card.priority, task.card.created_at, task.id))


def _startable(task: Task, now: int) -> bool:
    return claimable(task._replace(not_before=None), now)


def _tasks(rows: Iterable[Sequence[Any]], report: Report | None) -> Iterator[Task]:
    for row in rows:
        try:
            yield task_of(row)
        except _UNREADABLE as fault:
            if report is not None:
                report(row[0], _unreadable("its stored row", fault))


def _nexts(rows: Iterable[Sequence[Any]]) -> Iterator[Next]:
    for *row, version, is_leased in rows:
        with suppress(*_UNREADABLE):
            yield Next(task_of(row), version or 0, bool(is_leased))


def _watched(rows: Iterable[Sequence[Any]], errors: list[tuple[str, str]]) -> Iterator[Watched]:
    for board, leased, beat, *stored in rows:
        try:
            run = run_of(stored)
        except _UNREADABLE as fault:
            errors.append((stored[0], _unreadable("its stored run", fault)))
            continue
        yield Watched(board, run, Lease(run.lease_until if leased is None else leased, beat, leased is not None))


def _unreadable(what: str, fault: Exception) -> str:
    return f"{what} cannot be read: {fault}; ledger replay, ledger db rebuild"


def _key(table: Table) -> tuple[Column[Any], ...]:
    return table.c.board, table.c.task, table.c.run


_CARD = select(*(TASKS.c[name] for name in TASK_VALUES)).where(TASKS.c.board == bindparam("board"))
_LIFTABLE = Prepared(
    _CARD.where(text(tables.LIFTABLE))
    .where(
        (TASKS.c.position > TASKS.c.hold_position)
        | (
            TASKS.c.hold_position
            < select(SETTINGS.c.policy_position).where(SETTINGS.c.board == bindparam("board")).scalar_subquery()
        )
    )
    .order_by(TASKS.c.task)
)
_candidates = (
    _CARD.where(text(tables.CLAIMABLE))
    .where((TASKS.c.scheduled.is_(None)) | (TASKS.c.scheduled <= bindparam("now")))
    .where(TASKS.c.host.is_(None) | TASKS.c.host.in_((bindparam("here"), bindparam("named"))))
    .order_by(TASKS.c.priority.desc(), TASKS.c.created_at, TASKS.c.task)
    .limit(bindparam("most"))
)
_younger = tuple_(TASKS.c.created_at, TASKS.c.task) > tuple_(bindparam("created_at"), bindparam("task"))
_FIRST = Prepared(_candidates)
_NEXT = Prepared(
    _candidates.add_columns(
        select(func.max(events.c.version))
        .where(events.c.board == TASKS.c.board, events.c.task == TASKS.c.task)
        .scalar_subquery(),
        select(LEASES.c.run)  # not `exists`, which a server that saw few leases answers by reading all there are now
        .where(LEASES.c.board == TASKS.c.board, LEASES.c.task == TASKS.c.task)
        .limit(1)
        .scalar_subquery()
        .is_not(None),
    )
)
_SAME = Prepared(_candidates.where(TASKS.c.priority == bindparam("priority"), _younger))
_SMALLER = Prepared(_candidates.where(TASKS.c.priority < bindparam("priority")))
_FEW, _MANY = 16, 500
"""Cards of the first page, which is mostly all that is asked for, and of the others."""
_PRIORITY, _CREATED = TASK_VALUES.index("priority"), TASK_VALUES.index("created_at")
_LEASED = and_(*(of_lease == of_run for of_lease, of_run in zip(_key(LEASES), _key(RUNS), strict=True)))
_RUN = select(RUNS.c.board, LEASES.c.lease_until, LEASES.c.last_beat, *(RUNS.c[name] for name in RUN_COLUMNS))
_OPEN = Prepared(
    _RUN.select_from(RUNS.outerjoin(LEASES, _LEASED)).where(
        RUNS.c.board == bindparam("board"), RUNS.c.ended_by.is_(None)
    )
)
# From the leases: else SQLite walks every run that there ever was.
_ENDING = Prepared(
    _RUN.select_from(RUNS.outerjoin(LEASES, _LEASED)).where(
        tuple_(*_key(RUNS)).in_(select(*_key(LEASES))), RUNS.c.ended_by.is_not(None)
    )
)
_SPAWNED = Prepared(
    select(func.count())
    .select_from(RUNS)
    .where(RUNS.c.ended_by.is_(None), RUNS.c.by == "spawn", RUNS.c.host == bindparam("here"))
)
_HELD = Prepared(select(HELD.c.task, HELD.c.reason, HELD.c.until).where(HELD.c.board == bindparam("board")))
