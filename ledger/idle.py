"""Connections between two transactions: to fetch one from SQLAlchemy's pool and bring it back costs half a commit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, Engine, event

_OPTION: Final = "idle"


class Idle:
    """The connections of an engine that nobody uses now; a process that was forked has none of its parent's."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._connections: list[Connection] = []
        self._parents: list[Connection] = []

    @contextmanager
    def one(self, engine: Engine) -> Iterator[Connection]:
        """A connection of one's own; one that met an exception is not used again as it is."""
        self._leave_to_parent(engine)
        try:
            tx = self._connections.pop()
        except IndexError:  # none, or another thread was faster
            tx = engine.connect()
        try:
            yield tx
        except BaseException:
            tx.close()
            raise
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


def keep_idle(engine: Engine) -> None:
    """Let *engine* keep its connections between transactions, until it is disposed of."""
    idle = Idle()
    engine.update_execution_options(**{_OPTION: idle})
    event.listen(engine, "engine_disposed", lambda _: idle.close())


@contextmanager
def connection(engine: Engine) -> Iterator[Connection]:
    """A connection of *engine* that nobody else uses meanwhile."""
    idle = engine.get_execution_options().get(_OPTION)
    with engine.connect() if idle is None else idle.one(engine) as tx:
        yield tx
