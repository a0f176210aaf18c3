"""Prepared statements: Core builds them once, the driver runs them.

Building and compiling an expression costs ten times what SQLite needs to run it, so what is on a hot path is written
in Core, compiled once for each database, and then only its text and its values are handed over. Rows are the driver's
own tuples: booleans are 0 and 1 in SQLite's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.sql import ClauseElement

LINE: Final = "line"
"""Where a connection to a server keeps its own way to ask for what is fetched at once: `ledger.line.Line`."""


class Prepared:
    """A Core statement whose `bindparam` names are the keyword arguments of every call."""

    __slots__ = ("_spoken", "_statement")

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._spoken: dict[str, _Spoken] = {}

    def all(self, tx: Connection, **values: Any) -> list[Any]:
        """Every row, as tuples."""
        return self._run(tx, values).fetchall()  # type: ignore[no-any-return]

    def rows(self, tx: Connection, **values: Any) -> Iterable[Any]:
        """The same one by one, for whoever makes something else of each: then many are never there twice."""
        spoken = self._in(tx)
        driver: Any = tx.connection.dbapi_connection
        return driver.execute(spoken.text, spoken.in_order({**spoken.fixed, **values}))  # type: ignore[no-any-return]

    def one(self, tx: Connection, **values: Any) -> Any:
        """The first row as a tuple, or none."""
        return self._run(tx, values).fetchone()

    def foresee(self, tx: Connection, **values: Any) -> None:
        """Say that this will be asked right after the next question, so that a server answers both in one go."""
        if tx.dialect.name != "sqlite":
            tx.info[LINE].foresee(*self.spoken(tx, values))

    def run(self, tx: Connection, **values: Any) -> int:
        """How many rows it touched."""
        return self._run(tx, values).rowcount  # type: ignore[no-any-return]

    def each_in_order(self, tx: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Run it once for each of *rows*, whose values stand in the order of its placeholders."""
        text = self._in(tx).text
        if len(rows) == 1:  # at half the price
            _say(tx, text, rows[0])
        else:
            tx.connection.cursor().executemany(text, rows)

    def each(self, tx: Connection, many: Sequence[Mapping[str, Any]]) -> None:
        """Run it once for each of *many*, values by name."""
        if len(many) == 1:
            self._run(tx, many[0])
            return
        spoken = self._in(tx)
        self.each_in_order(tx, [spoken.in_order({**spoken.fixed, **values}) for values in many])

    def text(self, tx: Connection) -> str:
        """Its text, in the language of *tx*."""
        return self._in(tx).text

    def spoken(self, tx: Connection, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """Its text and its *values*, in the order of the placeholders."""
        spoken = self._in(tx)
        return spoken.text, spoken.in_order({**spoken.fixed, **values})

    def _run(self, tx: Connection, values: Mapping[str, Any]) -> Any:
        text, in_order, fixed = self._in(tx)
        return _say(tx, text, in_order({**fixed, **values} if fixed else values))

    def _in(self, tx: Connection) -> _Spoken:
        return self._spoken.get(tx.dialect.name) or self._compiled(tx)

    def _compiled(self, tx: Connection) -> _Spoken:
        compiled: Any = self._statement.compile(dialect=tx.dialect)
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        spoken = _Spoken(str(compiled.string), _picked(compiled.positiontup), fixed)
        self._spoken[tx.dialect.name] = spoken
        return spoken


def _say(tx: Connection, text: str, values: Sequence[Any]) -> Any:
    if tx.dialect.name != "sqlite":
        return tx.info[LINE].ask(text, values)
    driver: Any = tx.connection.dbapi_connection
    return driver.execute(text, values)


class _Spoken(NamedTuple):
    """A statement in one database's language: its text, its values in the order of the placeholders, and its own."""

    text: str
    in_order: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    fixed: Mapping[str, Any]


def _picked(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What takes the values of *names* out of a mapping, in that order; at a third of a loop's price."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)
