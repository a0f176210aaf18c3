"""Engines and transactions, whatever the database: what is each one's own lives in `sqlite.py` and `postgres.py`.

A store is one SQLite file, or a database of a PostgreSQL server that many hosts share. Driver errors become ours here
and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType, TracebackType
from typing import Any, Final

from sqlalchemy import Connection, Engine

from ledger import sqlite
from ledger.clock import Clock, system_clock
from ledger.masked import masked
from ledger.sqlite import BUSY_TIMEOUT, SAFE_SQLITE, sqlite_module, sqlite_path

__all__ = [
    "BUSY_TIMEOUT", "SAFE_SQLITE", "apart", "connect", "connected", "is_postgres", "masked", "reading", "savepoint",
    "serves_hosts", "sqlite_module", "sqlite_path", "store_instant", "whole", "writing",
]  # fmt: skip


def connect(url: str, *, create: bool = False) -> Engine:
    """An engine on the store at *url*. Without *create* a store that is missing or empty is `StoreMissing`.

    With it a SQLite file or a PostgreSQL database is made where none is. Raises `StoreUnsupported`,
    `StoreUnreachable`.
    """
    return _speaking(is_postgres(url)).connect(url, create=create)  # type: ignore[no-any-return]


def whole(url: str) -> str:
    """*url*, so that it means the same store in another folder, and without `PGHOST`, `PGPASSWORD` and their like.

    A secret even where *url* was none. Raises `StoreUnsupported`.
    """
    return _speaking(is_postgres(url)).whole(url)  # type: ignore[no-any-return]


@contextmanager
def connected(url: str, *, create: bool = False) -> Iterator[Engine]:
    """The same, let go at the end."""
    engine = connect(url, create=create)
    try:
        yield engine
    finally:
        engine.dispose()


def is_postgres(url: str) -> bool:
    """Whether *url* names a PostgreSQL server, or what speaks like one."""
    return url.startswith(("postgresql", "postgres:"))


def serves_hosts(engine: Engine) -> bool:
    """Whether several hosts may share the store: it has a server, whose clock is theirs."""
    return engine.dialect.name != "sqlite"


def reading(engine: Engine) -> AbstractContextManager[Connection]:
    """One snapshot of the store, for reading only."""
    speaking = _speaking(serves_hosts(engine))
    return _Translated(speaking, speaking.transaction(engine, to_write=False))


def writing(engine: Engine) -> AbstractContextManager[Connection]:
    """The right to write, committed at the end, rolled back on any exception.

    On SQLite one writer at a time has it, on PostgreSQL any number: there `ledger.standing` locks a board.
    """
    speaking = _speaking(serves_hosts(engine))
    return _Translated(speaking, speaking.transaction(engine, to_write=True))


def apart(engine: Engine) -> AbstractContextManager[Connection]:
    """One snapshot of the store, in which tables and views can be made that nobody else sees, and that do not stay."""
    speaking = _speaking(serves_hosts(engine))
    return _Translated(speaking, speaking.apart(engine))


@contextmanager
def savepoint(tx: Connection) -> Iterator[None]:
    """A part of a transaction that can fail alone. A fault of the store itself is raised as such, and ends it all."""
    say = tx.connection.cursor().execute  # Core's own savepoints cost ten times as much
    say("SAVEPOINT part")
    speaking = _speaking(tx.dialect.name != "sqlite")
    try:
        yield
        speaking.settle(tx)
    except BaseException as fault:
        whole = speaking.of_store(fault)
        if whole is not None:
            raise whole from fault
        say("ROLLBACK TO part")
        say("RELEASE part")
        raise
    say("RELEASE part")


def store_instant(told: int | None, clock: Clock) -> int:
    """Now, as what is decided in a transaction counts it (µs UTC): *told* by the server, else the machine's clock.

    A *clock* that is not the machine's own is a test's, and is believed.
    """
    return clock() if told is None or clock is not system_clock else told


class _Translated:
    """A transaction, and the border at which a driver's errors become ours. A class: a generator costs more."""

    __slots__ = ("_speaking", "_within")

    def __init__(self, speaking: Any, within: AbstractContextManager[Connection]) -> None:
        self._speaking, self._within = speaking, within

    def __enter__(self) -> Connection:
        try:
            return self._within.__enter__()
        except BaseException as fault:
            self._translate(fault)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._within.__exit__(kind, fault, trace)
        except BaseException as raised:
            self._translate(raised)
            raise
        if fault is not None:
            self._translate(fault)

    def _translate(self, fault: BaseException) -> None:
        said = self._speaking.translated(fault)
        if said is not None:
            raise said from fault


_SQLITE: Final = sqlite


def _speaking(postgres: bool) -> Any:
    """The module that knows the database."""
    return _postgres() if postgres else _SQLITE


def _postgres() -> ModuleType:
    from ledger import postgres

    return postgres
