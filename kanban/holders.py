"""Which other processes have a file open, and which carry a claim in their environment: read from /proc alone.

Best effort: another user's processes cannot be looked into, and elsewhere than on Linux nothing is seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ledger.copies import BESIDE

PROC: Final = Path("/proc")
_CLAIM: Final = ("LEDGER_BOARD", "LEDGER_TASK", "LEDGER_RUN")


class Holder(NamedTuple):
    """A process by its pid and the name that the kernel gives it."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.name})"


class Carrier(NamedTuple):
    """A process that was started for a run, or by something that was."""

    board: str
    task: str
    run: str
    pid: int
    url: str
    """The store's address, a secret."""


def holders(store: Path) -> tuple[Holder, ...]:
    """The other processes that have the file *store*, or what SQLite keeps beside it, open."""
    wanted = set(_identities(Path(f"{store}{suffix}") for suffix in ("", *BESIDE)))
    return tuple(Holder(pid, _name(pid)) for pid in _others() if wanted & set(_identities(_open_files(pid))))


def carriers(home: Path) -> tuple[Carrier, ...]:
    """The other processes whose environment names a run of *home*."""
    mine = home.resolve()
    found = []
    for pid in _others():
        environment = _environment(pid)
        board, task, run = (environment.get(name, "") for name in _CLAIM)
        if board and task and run and Path(environment.get("LEDGER_HOME", "")).resolve() == mine:
            found.append(Carrier(board, task, run, pid, environment.get("LEDGER_DATABASE_URL", "")))
    return tuple(found)


def _others() -> Iterator[int]:
    if PROC.is_dir():
        own = os.getpid()
        yield from (int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal() and int(entry.name) != own)


def _open_files(pid: int) -> Iterator[Path]:
    with suppress(OSError):  # it ended, or it is another user's
        yield from (PROC / str(pid) / "fd").iterdir()


def _identities(paths: Iterable[Path]) -> Iterator[tuple[int, int]]:
    for path in paths:
        with suppress(OSError):
            found = path.stat()
            yield found.st_dev, found.st_ino


def _name(pid: int) -> str:
    """Not the command line, which may hold a lock or a password."""
    try:
        return (PROC / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return "gone"


def _environment(pid: int) -> dict[str, str]:
    try:
        text = (PROC / str(pid) / "environ").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return {}
    return {name: value for name, _, value in (line.partition("=") for line in text.split("\0"))}
