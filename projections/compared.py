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
from sqlalchemy import Boolean, Select, Table, select

from projections import tables
from projections.divergence import Divergence
from projections.rows import RUN_COLUMNS, SETTINGS_COLUMNS, TASK_COLUMNS, settings_row
from projections.run import Run
from projections.task import Card, Hold, Task
from projections.world import World

Row = tuple[Any, ...]

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
    that nothing can be said about their rows.
    """

    def __init__(self, world: World, *, task: str | None, unread: frozenset[str]) -> None:
        self.world = world
        self.found: list[Divergence] = []
        self._digest = sha256()
        self._task = task
        self._unread = unread

    def run(self, stored: Callable[[Select[Any]], Iterable[list[tuple[Any, ...]]]] | None, board: str) -> str:
        """Compare with what *stored* answers (none: not at all); SHA-256 of the refold, in hex.

        Over canonical JSON: for each table by name `[name,[column,…]]`, then for each of its rows by key `[value,…],`.
        """
        for shape in SHAPES:
            self._digest.update(_bytes([shape.table.name, shape.names]))
            folded = self._digested(rows(self.world, shape.table.name))
            if stored is None or (shape.owner is None and self._task is not None):
                deque(folded, maxlen=0)
            else:
                self._compare(shape, _of(board, stored(self._query(shape, board))), self._wanted(shape, folded))
        return self._digest.hexdigest()

    def _digested(self, folded: Iterator[Row]) -> Iterator[Row]:
        """*folded* as it is, digested in pages."""
        while page := list(islice(folded, _PAGE)):
            self._digest.update(_bytes(page)[1:-1] + b",")  # without the brackets: pages leave no trace
            yield from page

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


def rows(world: World, table: str) -> Iterator[tuple[Any, ...]]:
    """The rows that *world* makes of one table, by key: those of `World.rows` without a dictionary for each."""
    match table:
        case "tasks":
            waiting = world.graph.open
            return (_task_values(world.tasks[task], waiting.get(task, 0)) for task in sorted(world.tasks))
        case "runs":
            return (_run_values(world.runs[key]) for key in sorted(world.runs))
        case "links":
            links = (
                (child, sorted(parents.items(), key=str)) for child, parents in sorted(world.graph.parents.items())
            )
            return ((child, parent, require) for child, parents in links for parent, require in parents)
        case _:
            settings = [settings_row(world.settings)] if world.settings.version else []  # empty: nothing was written
            return (tuple(row[name] for name in SETTINGS_COLUMNS) for row in settings)


_LABELS: Final = Card._fields.index("labels")
_NESTED: Final = tuple(Run._fields.index(name) for name in ("quota", "stops", "group", "turns"))
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
    for index in _NESTED:
        value = values[index]
        if value is not None:
            values[index] = _nested(value)
    return tuple(values)


def _nested(value: Any) -> str:
    return _bytes(tuple(value)).decode("utf-8", "surrogatepass") if value else "[]"  # nearly all are empty
