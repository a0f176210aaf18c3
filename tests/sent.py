"""What the program says to its database, statement by statement, however it sends it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from unittest import mock

import psycopg
from sqlalchemy import Engine

from ledger.database import reading, serves_hosts

PROGRAM: Final = "kanban-ledger"
"""The name by which PostgreSQL knows the connections of the program's engines."""

Listener = Callable[[psycopg.Connection, str, Sequence[Any]], None]


class Sent(NamedTuple):
    """A statement, and the values of its placeholders; SQLite tells them as one text."""

    text: str
    values: Sequence[Any] = ()


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Tell *listener* each statement that the program sends to PostgreSQL meanwhile, before it is sent.

    One that is sent with many rows is told with each of them.
    """
    with (
        mock.patch.object(psycopg.Cursor, "execute", _telling(psycopg.Cursor.execute, listener)),
        mock.patch.object(psycopg.Cursor, "executemany", _telling_each(psycopg.Cursor.executemany, listener)),
        mock.patch.object(psycopg.Cursor, "copy", _telling_rows(psycopg.Cursor.copy, listener)),
        mock.patch.object(psycopg.ServerCursor, "execute", _telling(psycopg.ServerCursor.execute, listener)),
    ):
        yield


@contextmanager
def sent(engine: Engine) -> Iterator[list[Sent]]:
    """The statements that are sent through *engine* meanwhile, one transaction after the other, as they come."""
    found: list[Sent] = []
    if serves_hosts(engine):
        with heard(lambda _, text, values: found.append(Sent(text, values))):
            yield found
        return
    with reading(engine) as tx:
        driver: Any = tx.connection.driver_connection  # the next transaction has it too
    driver.set_trace_callback(lambda text: found.append(Sent(text)))
    try:
        yield found
    finally:
        driver.set_trace_callback(None)


def _telling(real: Any, listener: Listener) -> Any:
    def execute(cursor: Any, query: Any, params: Any = None, **how: Any) -> Any:
        raw = isinstance(cursor, psycopg.RawCursor)  # its places are numbered, one after the other
        _tell(listener, cursor, re.sub(r"\$\d+", "%s", query) if raw else query, [params])
        return real(cursor, query, params, **how)

    return execute


def _telling_each(real: Any, listener: Listener) -> Any:
    def executemany(cursor: Any, query: Any, params_seq: Iterable[Any], **how: Any) -> Any:
        rows = list(params_seq)
        _tell(listener, cursor, query, rows)
        return real(cursor, query, rows, **how)

    return executemany


def _telling_rows(real: Any, listener: Listener) -> Any:
    @contextmanager
    def copy(cursor: Any, statement: Any, params: Any = None, **how: Any) -> Iterator[Any]:
        with real(cursor, statement, params, **how) as copying:
            write_row = copying.write_row

            def told(row: Sequence[Any]) -> None:
                _tell(listener, cursor, statement, [row])
                write_row(row)

            copying.write_row = told
            yield copying

    return copy


def _tell(listener: Listener, cursor: Any, query: Any, rows: Sequence[Any]) -> None:
    if cursor.connection.info.parameter_status("application_name") == PROGRAM:
        for values in rows:
            listener(cursor.connection, query if isinstance(query, str) else query.decode(), tuple(values or ()))
