"""The refold of a board as rows: their digest, and their difference from the rows that are stored (RULES §9)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from hashlib import sha256
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pydantic_core import to_json
from sqlalchemy import Boolean, ColumnElement, Select, Table, select

from projections import tables
from projections.divergence import Divergence
from projections.rows import RUN_COLUMNS, SETTINGS_COLUMNS, TASK_COLUMNS, settings_row
from projections.run import Run
from projections.task import Card, Hold, Task
from projections.world import World

Row = tuple[Any, ...]
Stored = Callable[[Select[Any]], Iterable[list[tuple[Any, ...]]]]
"""Answers a query in pages."""

_PAGE: Final = 100
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def _bytes(value: Any) -> bytes:
    try:
        return to_json(value)
    except ValueError:  # a forged fact may hold anything
        return _encode(value).encode("utf-8", "surrogatepass")


class Shape(NamedTuple):
    """A projection as columns, without the board: first the *key* of them that are its primary key."""

    table: Table
    names: tuple[str, ...]
    key: int
    owner: int | None
    """The column that names the card a row belongs to; none: it is the board's own."""

    def owner_of(self, row: tuple[Any, ...]) -> str:
        """The card that *row* belongs to; empty: the board's own."""
        return "" if self.owner is None else str(row[self.owner])

    def said(self, row: tuple[Any, ...] | None) -> dict[str, Any] | None:
        """A row by column, for people."""
        return None if row is None else dict(zip(self.names, row, strict=True))

    def is_bool(self, column: str) -> bool:
        """Whether the column says yes or no: drivers answer 1 and 0."""
        return isinstance(self.table.c[column].type, Boolean)


class Cards(NamedTuple):
    """The cards whose ids stand from *low* on and before *high* (none: no bound), by code points as databases compare.

    What belongs to the board itself belongs to the first of such ranges.
    """

    low: str | None = None
    high: str | None = None

    def __contains__(self, task: object) -> bool:
        return (self.low is None or self.low <= task) and (self.high is None or task < self.high)  # type: ignore[operator]

    def bounds(self, column: ColumnElement[Any]) -> list[ColumnElement[bool]]:
        """The conditions by which *column* names one of them."""
        low = [] if self.low is None else [column >= self.low]
        return low if self.high is None else [*low, column < self.high]


ALL: Final = Cards()
SHAPES: Final = (
    Shape(tables.links, ("child", "parent", "require"), 2, 0),
    Shape(tables.runs, RUN_COLUMNS, 2, 0),
    Shape(tables.settings, SETTINGS_COLUMNS, 0, None),
    Shape(tables.tasks, (*TASK_COLUMNS, "open_parents"), 1, 0),
)
"""Every projection, by name."""


class Comparison:
    """A refolded *world* beside what is stored: the digest of all its rows, and where the store differs.

    *task*: only that card's rows are compared. *unread*: cards (empty: the board) whose stream could not be read, so
    that nothing can be said about their rows. *cards*: all other rows are left out, of both sides.
    """

    def __init__(self, world: World, *, task: str | None, unread: frozenset[str], cards: Cards = ALL) -> None:
        self.world = world
        self.found: list[Divergence] = []
        self._cards = cards
        self._task = task
        self._unread = unread

    def run(self, stored: Stored | None, board: str) -> str:
        """Compare with what *stored* answers (none: not at all); SHA-256 of the refold, in hex.

        Over canonical JSON: for each table by name `[name,[column,…]]`, then for each of its rows by key `[value,…],`.
        """
        digest = sha256()
        for shape in SHAPES:
            digest.update(heading(shape))
            self.table(shape, stored, board, digest.update)
        return digest.hexdigest()

    def table(self, shape: Shape, stored: Stored | None, board: str, said: Callable[[bytes], object]) -> None:
        """Compare one table; *said* is given what is digested of its rows."""
        if shape.owner is None and self._cards.low is not None:
            return
        folded = _told(rows(self.world, shape.table.name, self._cards), said)
        if stored is None or (shape.owner is None and self._task is not None):
            deque(folded, maxlen=0)
        else:
            self._compare(shape, _of(board, stored(self._query(shape, board))), self._wanted(shape, folded))

    def _compare(self, shape: Shape, stored: Iterable[list[Row]], folded: Iterator[Row]) -> None:
        """Both sides come by key: page beside page, and only what differs is kept until its counterpart comes."""
        missing: dict[Row, Row] = {}
        stray: dict[Row, Row] = {}
        for page in stored:
            computed = list(islice(folded, len(page)))
            if computed != page:
                missing.update([(row[: shape.key], row) for row in computed])
                stray.update([(row[: shape.key], row) for row in page])
                for key in missing.keys() & stray.keys():
                    self._differs(shape, stray.pop(key), missing.pop(key))
        missing.update([(row[: shape.key], row) for row in folded])
        for key in sorted({*missing, *stray}, key=str):
            self._differs(shape, stray.get(key), missing.get(key))

    def _wanted(self, shape: Shape, folded: Iterator[Row]) -> Iterator[Row]:
        """Those of *folded* that are looked at."""
        if not self._unread and self._task is None:
            return folded
        return (row for row in folded if self._is_wanted(shape.owner_of(row)))

    def _is_wanted(self, owner: str) -> bool:
        return owner not in self._unread and (self._task is None or self._task == owner)

    def _query(self, shape: Shape, board: str) -> Select[Any]:
        columns = shape.table.c
        query = select(columns.board, *(columns[name] for name in shape.names)).where(columns.board == board)
        if shape.owner is not None:
            query = query.where(*self._cards.bounds(columns[shape.names[shape.owner]]))
        if self._task is not None:
            query = query.where(columns[shape.names[shape.owner or 0]] == self._task)
        return query.order_by(*(columns[name] for name in shape.names[: shape.key]))

    def _differs(self, shape: Shape, stored: Row | None, computed: Row | None) -> None:
        if stored == computed:
            return
        row = stored or computed or ()
        owner = shape.owner_of(row)
        if owner in self._unread:
            return
        name, card = shape.table.name, self.world.tasks.get(owner)
        last = self.world.settings.position if owner == "" else card.position if card is not None else None
        which = " ".join(str(part) for part in row[: shape.key]) or "of the board"
        if stored is None or computed is None:
            text = f"{name}: the row {which} " + ("is missing" if stored is None else "stands there without an event")
            self._say(owner, last, shape.said(stored), shape.said(computed), text)
            return
        for column, was, should in zip(shape.names, stored, computed, strict=True):
            if was != should:
                told = bool(was) if shape.is_bool(column) and was in {0, 1} else was
                text = f"{name}.{column} of {which} is {told!r}, the log makes it {should!r}"
                self._say(owner, last, told, should, text)

    def _say(self, owner: str, last: int | None, stored: Any, computed: Any, text: str) -> None:
        self.found.append(Divergence(owner or None, last, "§9 stored", stored, computed, text))


def _of(board: str, stored: Iterable[list[Row]]) -> Iterator[list[Row]]:
    """*stored* without its first column, the board; a walk of the key looks at where it ends only, so each is asked."""
    for page in stored:
        yield [row[1:] for row in page if row[0] == board]


def heading(shape: Shape) -> bytes:
    """What is digested before the rows of a table."""
    return _bytes([shape.table.name, shape.names])


def _told(folded: Iterator[Row], said: Callable[[bytes], object]) -> Iterator[Row]:
    """*folded* as it is, and *said* what is digested of it, in pages."""
    while page := list(islice(folded, _PAGE)):
        said(_bytes(page)[1:-1] + b",")  # without the brackets: pages leave no trace
        yield from page


def rows(world: World, table: str, cards: Cards = ALL) -> Iterator[tuple[Any, ...]]:
    """The rows that *world* makes of one table for *cards*, by key: as `World.rows`, without a dictionary for each."""
    match table:
        case "tasks":
            waiting = world.graph.open
            return (_task_values(world.tasks[task], waiting.get(task, 0)) for task in _sorted(world.tasks, cards))
        case "runs":
            return (_run_values(world.runs[key]) for key in sorted(world.runs))  # of no other card is one folded
        case "links":
            parents_of = world.graph.parents
            links = ((child, sorted(parents_of[child].items(), key=str)) for child in _sorted(parents_of, cards))
            return ((child, parent, require) for child, parents in links for parent, require in parents)
        case _:
            settings = [settings_row(world.settings)] if world.settings.version else []  # empty: nothing was written
            return (tuple(row[name] for name in SETTINGS_COLUMNS) for row in settings)


def _sorted(names: Iterable[str], cards: Cards) -> list[str]:
    return sorted(names) if cards == ALL else sorted(name for name in names if name in cards)


_LABELS: Final = Card._fields.index("labels")
_QUOTA, _GROUP, _TURNS, _STOPS = (Run._fields.index(name) for name in ("quota", "group", "turns", "stops"))
_RUN: Final = attrgetter(*Run._fields)
_STATE: Final = attrgetter(*(name for name in Task._fields if name in TASK_COLUMNS))
_HOLD: Final = attrgetter(*(field.name for field in fields(Hold)))
_NO_HOLD: Final = (None,) * len(fields(Hold))


def _task_values(task: Task, open_parents: int) -> tuple[Any, ...]:
    card = list(task.card)
    card[_LABELS] = _nested(card[_LABELS])
    return (task.id, *card, *_STATE(task), *(_HOLD(task.hold) if task.hold else _NO_HOLD), open_parents)


def _run_values(run: Run) -> tuple[Any, ...]:
    values = list(_RUN(run))
    group, turns = values[_GROUP], values[_TURNS]
    values[_QUOTA], values[_STOPS] = _nested(values[_QUOTA]), _nested(values[_STOPS])
    if group is not None:
        values[_GROUP] = _nested(group)
    if turns is not None:
        values[_TURNS] = _nested(turns)
    return tuple(values)


def _nested(value: Any) -> str:
    return str(_bytes(tuple(value)), "utf-8", "surrogatepass") if value else "[]"  # nearly all are empty
