"""Whole files of a store: written from a live one, read where they lie, and a live one closed to everybody else.

All of it by SQLite's own means: a live store that is opened or copied outside of them loses its locks or its last
transactions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, create_engine
from sqlalchemy.exc import OperationalError

from ledger.database import reading, sqlite_module

BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a store; left beside another file of that name it would be taken for that file's own."""
_PATIENCE: Final = 2.0  # seconds in which short commands of others end
_PAUSE: Final = 0.05


def write_copy(engine: Engine, to: Path) -> None:
    """Write all that is committed now into the empty file *to*, without what was deleted, while others go on writing.

    It is not on the disk for certain before `settled`.
    """
    with reading(engine) as tx:
        _end_transaction(tx)  # VACUUM takes a snapshot of its own
        tx.exec_driver_sql("VACUUM INTO ?", (str(to),))


def open_copy(path: Path) -> Engine:
    """An engine on a file that nobody writes: read as it lies there, nothing is made beside it."""
    return _engine(path, "mode=ro&immutable=1")


def open_to_look(path: Path) -> Engine:
    """An engine that cannot write: unlike any other, it does not fold a write-ahead log in when it is closed."""
    return _engine(path, "mode=ro")


@contextmanager
def drafting(path: Path) -> Iterator[Connection]:
    """A transaction on the file *path*, which nobody else has: if it fails, what is in the file is worth nothing."""
    engine = _engine(path, "mode=rw")
    with reading(engine) as tx:
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-64000"):
            tx.exec_driver_sql(f"PRAGMA {pragma}")
        yield tx
    engine.dispose()


def keep_write_ahead_log(path: Path) -> None:
    """Let the store in the file *path*, which nobody else has, keep a write-ahead log from its next opening on."""
    engine = _engine(path, "mode=rw")
    with reading(engine) as tx:
        tx.exec_driver_sql("PRAGMA journal_mode=WAL")
    engine.dispose()


def faults_of_file(tx: Connection, *, quick: bool = False, most: int = 3) -> list[str]:
    """What SQLite finds wrong with its own file, at most *most* faults; *quick*: without comparing the indexes."""
    found = tx.exec_driver_sql(f"PRAGMA {'quick' if quick else 'integrity'}_check({most})").scalars()
    return [str(line) for line in found if line != "ok"]


def journal_mode(tx: Connection) -> str:
    """How the store keeps transactions whole: `wal`, once it has been written to."""
    return str(tx.exec_driver_sql("PRAGMA journal_mode").scalar())


@contextmanager
def alone(engine: Engine) -> Iterator[Connection]:
    """The store folded into its one file, and locked until the end against everybody who uses SQLite.

    The caller holds the gate. Raises `StoreBusy` while anybody has the store open, whoever's process it is.
    """
    with reading(engine) as tx:
        _end_transaction(tx)
        _fold(tx)
        tx.exec_driver_sql("BEGIN EXCLUSIVE")
        try:
            yield tx
        finally:
            _end_transaction(tx)


def settled(path: Path) -> None:
    """See to it that the file (or the folder's list of names) is on the disk. Nobody may have it open in SQLite here:

    closing any descriptor of a file drops this process's locks on it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fold(tx: Connection) -> None:
    """Leave the write-ahead log, which SQLite grants to the last connection only; it does not wait by itself."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            tx.exec_driver_sql("PRAGMA journal_mode=DELETE")
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _end_transaction(tx: Connection) -> None:
    tx.exec_driver_sql("ROLLBACK")


def _engine(path: Path, how: str) -> Engine:
    module = sqlite_module()
    address = f"file:{quote(str(path))}?{how}"
    return create_engine(
        "sqlite://", module=module, creator=lambda: module.connect(address, uri=True), poolclass=NullPool
    )
