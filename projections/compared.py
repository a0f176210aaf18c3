"""The refold of a board as rows: their digest, and their difference from the rows that are stored (RULES §9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Boolean, Select, Table, select

from projections import tables
from projections.divergence import Divergence
from projections.read_models import World
from projections.rows import run_row, settings_row, task_row

_PAGE: Final = 500
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def _bytes(value: Any) -> bytes:
    return _encode(value).encode("utf-8", "surrogatepass")  # a forged fact may hold anything


class _Shape(NamedTuple):
    """A projection as columns by name, without the board: *key* counts those of its primary key, which come first."""

    table: Table
    names: tuple[str, ...]
    key: int
    owner: str
    """The column that names the card a row belongs to; empty: the board's own."""
    pick: Callable[[dict[str, Any]], tuple[Any, ...]]

    def owner_of(self, row: tuple[Any, ...]) -> str:
        """The card that *row* belongs to; empty: the board's own."""
        return str(row[self.names.index(self.owner)]) if self.owner else ""

    def said(self, row: tuple[Any, ...] | None) -> dict[str, Any] | None:
        """A row by column, for people."""
        return None if row is None else dict(zip(self.names, row, strict=True))

    def is_bool(self, column: str) -> bool:
        """Whether the column says yes or no: drivers answer 1 and 0."""
        return isinstance(self.table.c[column].type, Boolean)


def _shape(table: Table, owner: str) -> _Shape:
    key = [column.name for column in table.primary_key if column.name != "board"]
    rest = sorted(column.name for column in table.columns if column.name not in {"board", *key})
    names = (*key, *rest)
    return _Shape(table, names, len(key), owner, itemgetter(*names))


SHAPES: Final = (
    _shape(tables.links, "child"),
    _shape(tables.runs, "task"),
    _shape(tables.settings, ""),
    _shape(tables.tasks, "task"),
)


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
            expected = self._expected(shape, keep=stored is not None)
            if stored is None or (shape.owner == "" and self._task is not None):
                continue
            for page in stored(self._query(shape, board)):
                for row in page:
                    computed = expected.pop(row[: shape.key], None)
                    if computed != row:
                        self._differs(shape, row, computed)
            for computed in expected.values():
                self._differs(shape, None, computed)
        return self._digest.hexdigest()

    def _expected(self, shape: _Shape, *, keep: bool) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        self._digest.update(_bytes([shape.table.name, shape.names]))
        expected = {}
        picked = map(shape.pick, rows(self.world, shape.table.name))
        while page := list(islice(picked, _PAGE)):
            self._digest.update(_bytes(page)[1:-1] + b",")  # without the brackets: pages leave no trace
            if keep:
                expected.update((row[: shape.key], row) for row in page if self._wanted(shape.owner_of(row)))
        return expected

    def _wanted(self, owner: str) -> bool:
        return owner not in self._unread and (self._task is None or self._task == owner)

    def _query(self, shape: _Shape, board: str) -> Select[Any]:
        columns = shape.table.c
        query = select(*(columns[name] for name in shape.names)).where(columns.board == board)
        return query if self._task is None else query.where(columns[shape.owner] == self._task)

    def _differs(self, shape: _Shape, stored: tuple[Any, ...] | None, computed: tuple[Any, ...] | None) -> None:
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


def rows(world: World, table: str) -> Iterator[dict[str, Any]]:
    """The rows that *world* makes of one table, each in its turn by key."""
    match table:
        case "tasks":
            for task, card in sorted(world.tasks.items()):
                yield {**task_row(card), "open_parents": world.graph.open.get(task, 0)}
        case "runs":
            for _, run in sorted(world.runs.items()):
                yield run_row(run)
        case "links":
            for child, parents in sorted(world.graph.parents.items()):
                for parent, require in sorted(parents.items(), key=str):
                    yield {"child": child, "parent": parent, "require": require}
        case _:
            yield settings_row(world.settings)
