"""What people do behind a program's back: other programs on its file, and disks that forget."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ledger.database import sqlite_module
from tests.fleets import Fleet

PAGE = 4_096


def raw(fleet: Fleet, *statements: str) -> list[Any]:
    """What somebody does who opens the file with another program; the rows of the last statement."""
    fleet.spoilt = True
    with sqlite_module().connect(fleet.home / "ledger.db") as other:
        rows = [list(other.execute(statement)) for statement in statements]
    other.close()
    return rows[-1]


def overwrite(path: Path, pages: Iterable[int], byte: int = 0xFF) -> None:
    """These *pages* hold nonsense."""
    data = bytearray(path.read_bytes())
    for page in pages:
        data[page * PAGE : (page + 1) * PAGE] = bytes([byte]) * PAGE
    path.write_bytes(data)
