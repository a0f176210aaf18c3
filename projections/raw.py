"""Rows as plain tuples straight from the driver's cursor: a million of them in seconds, never all in memory."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import count
from typing import Any, Final

from sqlalchemy import Connection, Select
from sqlalchemy.exc import DatabaseError

_PAGE: Final = {"sqlite": 100}
"""Rows: few enough to be looked at while they are still in the processor's cache."""
_SENT: Final = 1_000
"""Rows that a server sends at once."""
_names: Final = (f"pages_{number}" for number in count())


def pages(tx: Connection, query: Select[Any]) -> Generator[list[tuple[Any, ...]], None, None]:
    """The rows of *query* in pages, in its order. A driver's error becomes SQLAlchemy's, which the store translates."""
    driver: Any = tx.dialect.dbapi
    try:
        with closing(_opened(tx, query)) as cursor:
            size = _PAGE.get(tx.dialect.name, _SENT)
            while page := cursor.fetchmany(size):
                yield page
    except driver.Error as fault:
        raise DatabaseError(str(query), None, fault) from fault


def _opened(tx: Connection, query: Select[Any]) -> Any:
    """A cursor on the rows of *query*; a server keeps them until they are asked for, or it would send them all."""
    if tx.dialect.name == "sqlite":
        return tx.execute(query).cursor  # not stream_results: that would have read the first rows already
    compiled: Any = query.compile(dialect=tx.dialect, compile_kwargs={"render_postcompile": True})
    connection: Any = tx.connection.driver_connection
    cursor = connection.cursor(name=next(_names))
    try:
        return cursor.execute(compiled.string, [compiled.params[name] for name in compiled.positiontup])
    except BaseException:
        cursor.close()
        raise
