"""What commands decide on, read at once: one card in one statement, many in five, whatever their number."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, exists, func, or_, select

from ledger.prepared import Prepared
from ledger.schema import boards, events
from projections import tables
from projections.graph import Link
from projections.rows import RUN_COLUMNS, TASK_VALUES, run_of, task_of
from projections.run import Run
from projections.task import Task

TASKS, RUNS, LINKS, LEASES, HELD = tables.tasks, tables.runs, tables.links, tables.leases, tables.held


class Known(NamedTuple):
    """A card as it is stored, none where it is not there, and what stands beside it."""

    task: Task | None
    run: Run | None
    """Its open run; none, too, where the stored row cannot be read."""
    version: int
    """Where its stream ends; 0: there is none."""
    title: str | None
    parents: str
    """The ids of those it waits for, in order, as JSON."""
    has_children: bool
    is_leased: bool
    """Whether any run of it has a lease."""
    is_held: bool
    """Whether a sweep has looked at it and not started it."""


class Next(NamedTuple):
    """A card that may be claimed next, and what a claim has to know beside it."""

    task: Task
    version: int
    """Where its stream ends."""
    is_leased: bool
    """Whether any run of it has a lease."""


class Cards(NamedTuple):
    """Cards that are there, their open runs, and all links to them and from them."""

    tasks: list[Task]
    runs: list[Run]
    links: list[Link]


def foresee_card(tx: Connection, board: str, task: str) -> None:
    """Say that `card_at_once` comes right after the next question."""
    _KNOWN.foresee(tx, board=board, task=task)


def card_at_once(tx: Connection, board: str, task: str) -> Known:
    """One card, with its open run, what is told of it, and whether other rows speak of it."""
    return known_of(_KNOWN.one(tx, board=board, task=task))


def with_card(query: Select[Any]) -> Select[Any]:
    """*query*, which reads a board's row, and all of the card `:task` in the same row: the last columns of it."""
    return query.add_columns(*_known_columns()).outerjoin(*_OF_BOARD).outerjoin(*_OF_CARD)


def known_of(row: tuple[Any, ...]) -> Known:
    """The card behind such columns."""
    card, beside, run = row[:_CARD], row[_CARD:_BESIDE], row[_BESIDE:]
    version, title, parents, has_children, is_leased, is_held = beside
    return Known(
        None if card[0] is None else task_of(card), _readable(run), version or 0, title, parents or "[]",
        bool(has_children), bool(is_leased), bool(is_held),
    )  # fmt: skip


def _readable(run: tuple[Any, ...]) -> Run | None:
    """The run of a stored row; one that cannot be read is missed where it is asked for."""
    if run[0] is None:
        return None
    try:
        return run_of(run)
    except (ValueError, TypeError, KeyError):
        return None


def foresee_cards(tx: Connection, board: str, tasks: Collection[str]) -> None:
    """Say that `cards_at_once` and `versions_at_once` come right after the next question."""
    for statement in (_TASKS, _RUNS, _LINKS, _VERSIONS):
        statement.foresee(tx, board=board, tasks=json.dumps(list(tasks)))


def cards_at_once(tx: Connection, board: str, tasks: Collection[str]) -> Cards:
    """Those of *tasks* that are there, as they are stored."""
    asked = {"board": board, "tasks": json.dumps(list(tasks))}
    return Cards(
        [task_of(row) for row in _TASKS.all(tx, **asked)],
        [run_of(row) for row in _RUNS.all(tx, **asked)],
        [Link(*row) for row in _LINKS.all(tx, **asked)],
    )


def versions_at_once(tx: Connection, board: str, tasks: Collection[str]) -> dict[str, int]:
    """Where the stream of each of *tasks* ends; 0: there is none."""
    ends = _VERSIONS.all(tx, board=board, tasks=json.dumps(list(tasks)))
    return {**dict.fromkeys(tasks, 0), **dict(ends)}


def _among(column: ColumnElement[str]) -> ColumnElement[bool]:
    return column.in_(select(func.json_each(bindparam("tasks")).table_valued("value").c.value))


def _of(columns: Any, *where: ColumnElement[bool]) -> Select[Any]:
    chosen = list(columns)
    return select(*chosen).where(chosen[0].table.c.board == bindparam("board"), *where)


def _known_columns() -> Iterator[ColumnElement[Any]]:
    card, run = tables.cards, RUNS
    asked = {table: table.c.board == bindparam("board") for table in (events, LINKS, LEASES, HELD)}
    yield from (card.c[name] for name in TASK_VALUES)
    yield select(func.max(events.c.version)).where(asked[events], events.c.task == bindparam("task")).scalar_subquery()
    yield card.c.title
    yield card.c.parents
    yield exists().where(asked[LINKS], LINKS.c.parent == bindparam("task"))
    yield exists().where(asked[LEASES], LEASES.c.task == bindparam("task"))
    yield exists().where(asked[HELD], HELD.c.task == bindparam("task"))
    yield from (run.c[name] for name in RUN_COLUMNS)


_OF_BOARD: Final = tables.cards, and_(tables.cards.c.board == boards.c.board, tables.cards.c.task == bindparam("task"))
_OF_CARD: Final = RUNS, and_(*(RUNS.c[name] == tables.cards.c[name] for name in ("board", "task", "run")))
_CARD: Final = len(TASK_VALUES)
_BESIDE: Final = _CARD + 6
_KNOWN: Final = Prepared(with_card(select().select_from(boards).where(boards.c.board == bindparam("board"))))
_TASKS: Final = Prepared(_of((TASKS.c[name] for name in TASK_VALUES), _among(TASKS.c.task)))
_RUNS: Final = Prepared(_of((RUNS.c[name] for name in RUN_COLUMNS), _among(RUNS.c.task), RUNS.c.ended_by.is_(None)))
_LINKS: Final = Prepared(
    _of((LINKS.c.parent, LINKS.c.child, LINKS.c.require), or_(_among(LINKS.c.child), _among(LINKS.c.parent))).order_by(
        LINKS.c.parent, LINKS.c.child
    )
)
_VERSIONS: Final = Prepared(
    _of((events.c.task, func.max(events.c.version)), _among(events.c.task)).group_by(events.c.task)
)
