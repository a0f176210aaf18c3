"""One snapshot of a store for several processes at once.

A server lends the snapshot of one transaction to others. A file does not: there each process begins by itself, and
where writers came between, all begin again while these are kept out for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, text

from ledger.gate import gate

_PATIENCE: Final = 5.0
"""Seconds that a reader waits for the writers' gate."""


def lent(tx: Connection) -> str | None:
    """The name by which others can join the snapshot of *tx*, as long as that goes on; none where it has none."""
    if tx.dialect.name == "sqlite":
        return None
    return str(tx.execute(text("SELECT pg_export_snapshot()")).scalar_one())


def joined(tx: Connection, snapshot: str | None) -> None:
    """Let *tx*, in which nothing was read yet, read that *snapshot*."""
    if snapshot is not None:
        tx.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")


@contextmanager
def undisturbed(engine: Engine) -> Iterator[None]:
    """Nobody writes to a store that is a file meanwhile. Raises `StoreBusy`, `StoreFull`."""
    if engine.dialect.name != "sqlite":
        yield
        return
    with gate(Path(f"{engine.url.database}.gate"), timeout=_PATIENCE):
        yield
