"""Prepared statements: Core builds them once, the driver's own cursor runs them.

Building and compiling an expression costs ten times what SQLite needs to run it, so what is on a hot path is written
in Core, compiled once for each dialect, and then only its text and its values are handed over. Rows are the driver's
own tuples: booleans are 0 and 1 there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.sql import ClauseElement

Values = Mapping[str, Any]


class _Text(NamedTuple):
    """A statement as one driver wants it; *order*: the names of its values, in the order of its placeholders.

    *fixed* are the constants that stand in the statement itself.
    """

    text: str
    order: tuple[str, ...] | None
    fixed: Values

    def values(self, given: Values) -> Any:
        """*given* as the driver wants them."""
        if self.fixed:
            given = {**self.fixed, **given}
        return given if self.order is None else [given[name] for name in self.order]


class Prepared:
    """A Core statement whose `bindparam` names are the keyword arguments of every call."""

    __slots__ = ("_statement", "_texts")

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._texts: dict[str, _Text] = {}

    def all(self, tx: Connection, **values: Any) -> list[Any]:
        """Every row, as tuples."""
        return self._run(tx, values).fetchall()  # type: ignore[no-any-return]

    def one(self, tx: Connection, **values: Any) -> Any:
        """The first row as a tuple, or none."""
        return self._run(tx, values).fetchone()

    def run(self, tx: Connection, **values: Any) -> int:
        """How many rows it touched."""
        return self._run(tx, values).rowcount  # type: ignore[no-any-return]

    def each(self, tx: Connection, rows: Iterable[Values]) -> None:
        """Run it once for each of *rows*."""
        prepared = self._text(tx)
        tx.connection.cursor().executemany(prepared.text, [prepared.values(row) for row in rows])

    def _run(self, tx: Connection, values: Values) -> Any:
        prepared = self._text(tx)
        cursor = tx.connection.cursor()
        cursor.execute(prepared.text, prepared.values(values))
        return cursor

    def _text(self, tx: Connection) -> _Text:
        found = self._texts.get(tx.dialect.name)
        if found is None:
            compiled: Any = self._statement.compile(dialect=tx.dialect)
            order = compiled.positiontup
            fixed = {name: value for name, value in compiled.params.items() if value is not None}
            found = _Text(compiled.string, None if order is None else tuple(order), fixed)
            self._texts[tx.dialect.name] = found
        return found
