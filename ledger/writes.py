"""What a transaction writes, put together first: a server takes all of it as one statement, a file row after row.

A statement costs a server and its client more than most of the rows that it writes; SQLite's cost next to nothing.
Parts of one statement see none of each other's rows, so no row may stand in two of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Table, bindparam, delete, insert, update

from ledger.bulk import MANY, put
from ledger.prepared import Prepared

Row = Mapping[str, Any]
"""Values by column."""


class Writes:
    """Rows to insert, to change and to delete, all of one *board*; `send` writes them, in that order."""

    def __init__(self, board: str) -> None:
        self._board = board
        self._parts: list[_Part] = []

    def insert(self, table: Table, rows: Iterable[Row]) -> None:
        """New *rows*, whole but for their board."""
        self._add(_inserting(table), rows)

    def change(self, table: Table, names: tuple[str, ...], rows: Iterable[Row]) -> None:
        """The columns *names* of *rows*, which hold them and the rest of their key."""
        self._add(_changing(table, names), rows)

    def remove(self, table: Table, keys: tuple[str, ...], rows: Iterable[Row]) -> None:
        """All rows whose *keys* are those of one of *rows*."""
        self._add(_removing(table, keys), rows)

    def put(self, table: Table, rows: Sequence[Sequence[Any]]) -> None:
        """New *rows* whole, whose values stand in the order of the table's columns."""
        if rows:
            self._parts.append(_Part(_inserting(table), [], rows))

    def say(self, statement: Prepared, values: Row) -> None:
        """A statement of its own."""
        self._parts.append(_Part(_Saying(None, statement, (), ""), [values], ()))

    def send(self, tx: Connection) -> None:
        """Write what was put together, and begin anew."""
        parts, self._parts = self._parts, []
        if tx.dialect.name == "sqlite" or any(part.is_long for part in parts):
            for part in parts:
                part.send(tx)
        elif parts:
            texts, values = zip(*(part.spoken(tx, self._board) for part in parts), strict=True)
            from ledger.postgres import say_later

            say_later(tx, _joined(texts), list(chain.from_iterable(values)))

    def _add(self, saying: _Saying, rows: Iterable[Row]) -> None:
        whole = [{"board": self._board, **row} for row in rows]
        if whole:
            self._parts.append(_Part(saying, whole, ()))


class _Saying(NamedTuple):
    """How something is done to one row, in any database, and to many at once, at a server."""

    table: Table | None
    one: Prepared
    keys: tuple[str, ...]
    many: str

    def values(self, row: Row) -> Row:
        """*row* as `one` takes it: what finds a row is called otherwise than what it is set to."""
        return {**row, **{f"of_{key}": row[key] for key in self.keys}} if self.keys else row


class _Part(NamedTuple):
    """Rows to which the same is done, by name or in the order of the columns."""

    saying: _Saying
    rows: Sequence[Row]
    whole: Sequence[Sequence[Any]]

    @property
    def is_long(self) -> bool:
        """Whether there is a faster way into the table than a statement."""
        return len(self.whole) >= MANY

    def send(self, tx: Connection) -> None:
        """Do it."""
        if self.whole:
            assert self.saying.table is not None
            put(tx, self.saying.table, self.whole)
        else:
            self.saying.one.each(tx, [self.saying.values(row) for row in self.rows])

    def spoken(self, tx: Connection, board: str) -> tuple[str, Sequence[Any]]:
        """A server's statement that does it, and its values."""
        if len(self.whole) == 1:
            return self.saying.one.text(tx), self.whole[0]
        if len(self.rows) == 1:
            return self.saying.one.spoken(tx, self.saying.values(self.rows[0]))
        table = self.saying.table
        assert table is not None
        rows = self.rows or [dict(zip(table.columns.keys(), row, strict=True)) for row in self.whole]
        return self.saying.many, (json.dumps(rows, default=_hex), board)


@lru_cache(maxsize=512)
def _joined(texts: tuple[str, ...]) -> str:
    """Statements that write, as one."""
    *before, last = texts
    named = ", ".join(f"part_{place} AS ({text})" for place, text in enumerate(before))
    return f"WITH {named} {last}" if before else last


def _hex(data: bytes) -> str:
    return f"\\x{data.hex()}"


_ROWS: Final = "FROM json_populate_recordset(NULL::{table}, CAST(%s AS json)) AS each"


@lru_cache(maxsize=64)
def _inserting(table: Table) -> _Saying:
    names, rows = _listed(table.columns.keys()), _ROWS.format(table=table.name)
    many = f"INSERT INTO {table.name} ({names}) SELECT {names} {rows} WHERE each.board = %s"
    return _Saying(table, Prepared(insert(table)), (), many)


@lru_cache(maxsize=512)
def _changing(table: Table, names: tuple[str, ...]) -> _Saying:
    keys = table.primary_key.columns.keys()
    found = [table.c[key] == bindparam(f"of_{key}") for key in keys]
    one = Prepared(update(table).where(*found).values({name: bindparam(name) for name in names}))
    set_to = ", ".join(f"{_quoted(name)} = each.{_quoted(name)}" for name in names)
    many = f"UPDATE {table.name} SET {set_to} {_ROWS.format(table=table.name)} WHERE {_same(table, keys)}"  # noqa: S608
    return _Saying(table, one, tuple(keys), many)


@lru_cache(maxsize=64)
def _removing(table: Table, keys: tuple[str, ...]) -> _Saying:
    keys = ("board", *keys)
    one = Prepared(delete(table).where(*(table.c[key] == bindparam(f"of_{key}") for key in keys)))
    using = _ROWS.format(table=table.name).replace("FROM", "USING", 1)
    return _Saying(table, one, keys, f"DELETE FROM {table.name} {using} WHERE {_same(table, keys)}")  # noqa: S608


def _same(table: Table, keys: Iterable[str]) -> str:
    same = [f"{table.name}.{_quoted(key)} = each.{_quoted(key)}" for key in keys if key != "board"]
    return " AND ".join([f"{table.name}.board = %s", *same])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return f'"{name}"'
