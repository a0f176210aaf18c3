"""Connections between two transactions: to fetch one from SQLAlchemy's pool and bring it back costs half a commit."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from sqlalchemy import Connection, Engine, event

_OPTION: Final = "idle"


class Idle:
    """The connections of an engine that nobody uses now; a process that was forked has none of its parent's."""

    def __init__(self, sound: Callable[[Connection], bool] | None) -> None:
        self._process = os.getpid()
        self._sound = sound
        self._connections: list[Connection] = []
        self._parents: list[Connection] = []

    def take(self, engine: Engine) -> Connection:
        """A connection of one's own."""
        kept = self.kept(engine)
        return engine.connect() if kept is None else kept

    def kept(self, engine: Engine) -> Connection | None:
        """One that was given back, and is still sound; none where there is none."""
        self._leave_to_parent(engine)
        while True:
            try:
                tx = self._connections.pop()
            except IndexError:  # none, or another thread was faster
                return None
            if self._sound is None or self._sound(tx):
                return tx
            drop(tx)

    def give_back(self, tx: Connection) -> None:
        """*tx* is not needed any more, and nothing of a transaction is left in it."""
        self._connections.append(tx)

    def close(self) -> None:
        """Close them all."""
        while self._connections:
            tx = self._connections.pop()
            tx.detach()
            tx.close()

    def _leave_to_parent(self, engine: Engine) -> None:
        if self._process == os.getpid():
            return
        self._parents += self._connections  # kept, since to close one here would drop locks that are not ours
        self._process, self._connections = os.getpid(), []
        engine.dispose(close=False)


def drop(tx: Connection) -> None:
    """Let *tx* go, as one that may be broken."""
    tx.invalidate()
    tx.close()


def idle_of(engine: Engine) -> Idle:
    """The idle connections of *engine*, which keeps some."""
    found: Idle = engine.get_execution_options()[_OPTION]
    return found


def keep_idle(engine: Engine, *, sound: Callable[[Connection], bool] | None = None) -> None:
    """Let *engine* keep its connections between transactions, until it is disposed of; those that are still *sound*."""
    idle = Idle(sound)
    engine.update_execution_options(**{_OPTION: idle})
    event.listen(engine, "engine_disposed", lambda _: idle.close())


class _Lent:
    """A connection of *idle* for one transaction. A class: a generator costs three times as much."""

    __slots__ = ("_engine", "_idle", "_tx")

    def __init__(self, engine: Engine, idle: Idle) -> None:
        self._engine, self._idle = engine, idle

    def __enter__(self) -> Connection:
        self._tx = self._idle.take(self._engine)
        return self._tx

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._idle.give_back(self._tx)
        else:  # not used again as it is
            self._tx.close()


def connection(engine: Engine) -> AbstractContextManager[Connection]:
    """A connection of *engine* that nobody else uses meanwhile."""
    idle: Idle | None = engine.get_execution_options().get(_OPTION)
    return engine.connect() if idle is None else _Lent(engine, idle)
