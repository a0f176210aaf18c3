"""Rows as plain tuples straight from the driver's cursor: a million of them in seconds, never all in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Select
from sqlalchemy.exc import DatabaseError

_PAGE: Final = 1_000


def pages(tx: Connection, query: Select[Any]) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of *query* in pages, in its order. A driver's error becomes SQLAlchemy's, which the store translates."""
    result = tx.execute(query)  # not stream_results: that would have read the first rows already
    cursor = result.cursor
    assert cursor is not None
    driver: Any = tx.dialect.dbapi
    try:
        while page := cursor.fetchmany(_PAGE):
            yield page  # type: ignore[misc] # the drivers answer with tuples
    except driver.Error as fault:
        raise DatabaseError(str(query), None, fault) from fault
    finally:
        result.close()
