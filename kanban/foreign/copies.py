"""A copy of another system's database as it is at one moment, taken without SQLite and without a write near it.

Opened by SQLite itself, even for reading, a live file gets a `-shm` beside it, or marks in the one that is there. So
its bytes are read, and SQLite only ever opens the copy. What makes a copy whole:

- A write-ahead log whose header is the same before and after holds every page that was written to the file
  meanwhile, because it is begun anew (with another header) only once all of it is in the file. A frame that was
  half written when it was read does not match its checksum and is left out by SQLite.
- Without one, the file has to read the same twice, with the same rollback journal, or none, beside it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from kanban.foreign.faults import ForeignBusy, ForeignDamaged, ForeignMissing

_MAGIC: Final = b"SQLite format 3\0"
_WAL_HEADER: Final = 32  # bytes
_CHUNK: Final = 1 << 20
_TRIES: Final = 60
_PAUSE: Final = 0.05  # seconds


class Copy(NamedTuple):
    """A private copy, and whether somebody was at work on the original."""

    path: Path
    live: bool


class _Marks(NamedTuple):
    file: int
    wal: bytes
    journal: str


@contextmanager
def copied(path: Path) -> Iterator[Copy]:
    """A copy of the database at *path*, gone at the end. Raises `ForeignMissing`, `ForeignDamaged`, `ForeignBusy`."""
    _must_be_a_database(path)
    path = Path(os.path.realpath(path))  # the logs lie beside the file itself
    with TemporaryDirectory(prefix="ledger-audit-") as folder:
        copy = Path(folder) / "board.db"
        for _ in range(_TRIES):
            marks = _taken(path, copy)
            if marks is not None:
                yield Copy(copy, live=bool(marks.wal or marks.journal))
                return
            time.sleep(_PAUSE)
    raise ForeignBusy(path)


def _must_be_a_database(path: Path) -> None:
    try:
        if not path.exists():
            raise ForeignMissing(path, "nothing is there")
        if path.is_dir():
            raise ForeignMissing(path, "that is a folder", f"name the file in it, such as {path}/kanban.db")
        if not path.is_file():
            raise ForeignMissing(path, "that is no file")
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except (OSError, ValueError) as fault:
        raise ForeignMissing(path, getattr(fault, "strerror", None) or str(fault)) from None
    if head != _MAGIC:
        raise ForeignDamaged(path, "the file is empty" if not head else "that is no SQLite database")


def _taken(path: Path, copy: Path) -> _Marks | None:
    """The marks of the board, if *copy* and what lies beside it are now what it was at one moment; else none."""
    try:
        before = _marks(path)
        digest = _copy(path, copy)
        for log in ("-wal", "-journal"):
            beside = Path(f"{copy}{log}")
            beside.unlink(missing_ok=True)
            if Path(f"{path}{log}").exists():
                _copy(Path(f"{path}{log}"), beside)
        whole = (bool(before.wal) or _digest(path) == digest) and _marks(path) == before
    except FileNotFoundError:
        if not path.exists():
            raise ForeignMissing(path, "the file went away while it was read") from None
        return None
    return before if whole else None


def _marks(path: Path) -> _Marks:
    journal = Path(f"{path}-journal")
    return _Marks(path.stat().st_ino, _head(Path(f"{path}-wal")), _digest(journal) if journal.exists() else "")


def _head(wal: Path) -> bytes:
    """The header of a write-ahead log; empty where there is none, or nothing in it yet."""
    if not wal.exists():
        return b""
    with wal.open("rb") as file:
        head = file.read(_WAL_HEADER)
    return head if len(head) == _WAL_HEADER else b""


def _copy(source: Path, target: Path) -> str:
    """Copy the bytes, and answer their digest."""
    digest = hashlib.blake2b()
    with source.open("rb") as file, target.open("wb") as out:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
