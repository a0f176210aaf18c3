"""Prepared statements: Core builds them once, the driver runs them.

Building and compiling an expression costs ten times what SQLite needs to run it, so what is on a hot path is written
in Core, compiled once, and then only its text and its values are handed over. Rows are the driver's own tuples:
booleans are 0 and 1 there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.sql import ClauseElement


class Prepared:
    """A Core statement whose `bindparam` names are the keyword arguments of every call."""

    __slots__ = ("_fixed", "_in_order", "_statement", "_text")

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._text: str | None = None
        self._in_order = _picked(())
        self._fixed: Mapping[str, Any] = {}

    def all(self, tx: Connection, **values: Any) -> list[Any]:
        """Every row, as tuples."""
        return self._run(tx, values).fetchall()  # type: ignore[no-any-return]

    def one(self, tx: Connection, **values: Any) -> Any:
        """The first row as a tuple, or none."""
        return self._run(tx, values).fetchone()

    def run(self, tx: Connection, **values: Any) -> int:
        """How many rows it touched."""
        return self._run(tx, values).rowcount  # type: ignore[no-any-return]

    def each_in_order(self, tx: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Run it once for each of *rows*, whose values stand in the order of its placeholders."""
        cursor, text = tx.connection.cursor(), self._text or self._compiled(tx)
        if len(rows) == 1:  # at half the price
            cursor.execute(text, rows[0])
        else:
            cursor.executemany(text, rows)

    def _run(self, tx: Connection, values: Mapping[str, Any]) -> Any:
        text = self._text or self._compiled(tx)
        if self._fixed:
            values = {**self._fixed, **values}
        driver: Any = tx.connection.dbapi_connection
        return driver.execute(text, self._in_order(values))

    def _compiled(self, tx: Connection) -> str:
        """Its text; also the names of its values in the order of the placeholders, and those it brings itself."""
        compiled: Any = self._statement.compile(dialect=tx.dialect)
        self._in_order = _picked(compiled.positiontup)
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._text = str(compiled.string)
        return self._text


def _picked(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What takes the values of *names* out of a mapping, in that order; at a third of a loop's price."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)
