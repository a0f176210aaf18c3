"""What the program says to its database, statement by statement, however it sends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from unittest import mock

import psycopg
from sqlalchemy import Engine

from ledger.database import reading, serves_hosts
from ledger.line import Line

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
        mock.patch.object(Line, "begin", _telling_begin(Line.begin, listener)),
        mock.patch.object(Line, "ask", _telling_line(Line.ask, listener)),
        mock.patch.object(Line, "later", _telling_line(Line.later, listener)),
        mock.patch.object(psycopg.Cursor, "execute", _telling(psycopg.Cursor.execute, listener)),
        mock.patch.object(psycopg.Cursor, "executemany", _telling_each(psycopg.Cursor.executemany, listener)),
        mock.patch.object(psycopg.Cursor, "copy", _telling_rows(psycopg.Cursor.copy, listener)),
        mock.patch.object(psycopg.ServerCursor, "execute", _telling(psycopg.ServerCursor.execute, listener)),
    ):
        yield


@contextmanager
def trips() -> Iterator[list[None]]:
    """One for each time that this process waits for an answer of PostgreSQL meanwhile."""
    found: list[None] = []
    real = psycopg.Connection.wait

    def wait(connection: psycopg.Connection[Any], *given: Any, **named: Any) -> Any:
        found.append(None)
        return real(connection, *given, **named)

    with mock.patch.object(psycopg.Connection, "wait", wait):
        yield found


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


def _telling_begin(real: Any, listener: Listener) -> Any:
    def begin(line: Line, statements: Sequence[str]) -> None:
        for text in statements:
            _tell(listener, line, text, [()])
        real(line, statements)

    return begin


def _telling_line(real: Any, listener: Listener) -> Any:
    def say(line: Line, text: str, values: Sequence[Any]) -> Any:
        _tell(listener, line, text, [values])
        return real(line, text, values)

    return say


def _telling(real: Any, listener: Listener) -> Any:
    def execute(cursor: Any, query: Any, params: Any = None, **how: Any) -> Any:
        _tell(listener, cursor.connection, query, [params])
        return real(cursor, query, params, **how)

    return execute


def _telling_each(real: Any, listener: Listener) -> Any:
    def executemany(cursor: Any, query: Any, params_seq: Iterable[Any], **how: Any) -> Any:
        rows = list(params_seq)
        _tell(listener, cursor.connection, query, rows)
        return real(cursor, query, rows, **how)

    return executemany


def _telling_rows(real: Any, listener: Listener) -> Any:
    @contextmanager
    def copy(cursor: Any, statement: Any, params: Any = None, **how: Any) -> Iterator[Any]:
        with real(cursor, statement, params, **how) as copying:
            write_row = copying.write_row

            def told(row: Sequence[Any]) -> None:
                _tell(listener, cursor.connection, statement, [row])
                write_row(row)

            copying.write_row = told
            yield copying

    return copy


def _tell(listener: Listener, connection: psycopg.Connection[Any], query: Any, rows: Sequence[Any]) -> None:
    if connection.info.parameter_status("application_name") == PROGRAM:
        for values in rows:
            listener(connection, query if isinstance(query, str) else query.decode(), tuple(values or ()))
