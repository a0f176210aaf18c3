"""SQLite's own library, and a glance at a store with it alone: for processes that load nothing heavier.

A glance never writes, folds no write-ahead log in, and makes no file: neither the store nor what lies beside it.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import quote, unquote

from ledger.errors import StoreFault, StoreMissing, StoreUnsupported

_ADDRESS: Final = re.compile(r"sqlite(?:\+\w+)?:///([^?]+)(?:\?.*)?", re.DOTALL)
_PATIENCE: Final = 5.0  # seconds that a glance waits for whoever has the store to himself
_TRIES: Final = 3
_LOGS: Final = ("-wal", "-journal")


def sqlite_module() -> ModuleType:
    """The newer of `sqlite3` and `pysqlite3`: one process never opens a board with two SQLite libraries."""
    try:
        import pysqlite3.dbapi2 as bundled
    except ImportError:
        return sqlite3
    newer: ModuleType = max((sqlite3, bundled), key=lambda module: module.sqlite_version_info)
    return newer


def file_of(url: str) -> Path:
    """The file behind a SQLite *url*, read without SQLAlchemy. Raises `StoreUnsupported` for any other address."""
    found = _ADDRESS.fullmatch(url)
    if found is None or (path := unquote(found[1])) == ":memory:":
        raise StoreUnsupported("that address names no SQLite file", remedy="use sqlite:////path/to/ledger.db")
    return Path(path).absolute()


def glance(url: str, statement: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row of *statement*, or none. Raises `StoreMissing`, and whatever the driver raises.

    Where a write-ahead log lies beside the store it is read with it; else the file alone is, and read again should
    somebody have written to it meanwhile.
    """
    path = file_of(url)
    for _ in range(_TRIES):
        before = _standing(path)
        row = _first_row(path, "mode=ro" if before[-1] else "mode=ro&immutable=1", statement, values)
        if before[-1] or _standing(path) == before:
            return row
    raise StoreFault("the store was written to at every glance", remedy="look again")


def _first_row(path: Path, how: str, statement: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    address = f"file:{quote(str(path))}?{how}"
    with closing(sqlite_module().connect(address, uri=True, timeout=_PATIENCE, isolation_level=None)) as driver:
        row: tuple[Any, ...] | None = driver.execute(statement, values).fetchone()
        return row


def _standing(path: Path) -> tuple[int, int, int, bool]:
    """Which file stands at *path* and since when, and whether SQLite is at work beside it, or was when it died."""
    try:
        found = path.stat()
    except OSError:
        raise StoreMissing(f"sqlite:///{path}") from None
    name = str(path)
    at_work = any(os.path.exists(name + log) for log in _LOGS)  # noqa: PTH110 – a proof waits for it
    return found.st_ino, found.st_mtime_ns, found.st_size, at_work
