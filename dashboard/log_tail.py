"""The end of a run's log, read on this host: never another file, whatever an agent has put in its place."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kanban.folders import LOG, run_folder
from ledger.errors import NotFound

TAIL: Final = 16 * 1024
"""Bytes of a log that are shown."""
_COLOURS: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


@dataclass(frozen=True, slots=True)
class LogTail:
    """The end of a log: its text, and how many bytes stand before it."""

    text: str
    before: int


def log_tail(home: Path, board: str, task: str, run: int) -> LogTail:
    """The last `TAIL` bytes of the log of *run*, from the beginning of a line, without a terminal's colours.

    Raises `NotFound` where this host has no such log: it was claimed by hand, ran elsewhere, or was pruned.
    """
    folder = run_folder(home, board, task, run)
    found = _read(folder) if folder.resolve() == home.resolve() / folder.relative_to(home) else None
    if found is None:
        raise NotFound(f"run {run} of {task} has no log on this host", task=task, remedy=f"ledger runs {task}")
    raw, before = found
    if before:
        cut = raw.find(b"\n") + 1
        raw, before = raw[cut:], before + cut
    return LogTail(_COLOURS.sub("", raw.decode("utf-8", "replace")), before)


def _read(folder: Path) -> tuple[bytes, int] | None:
    """The end of the log in *folder* and where it begins; none where nothing can be read."""
    with suppress(OSError):
        descriptor = os.open(folder / LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            start = max(os.fstat(descriptor).st_size - TAIL, 0)
            return os.pread(descriptor, TAIL, start), start
        finally:
            os.close(descriptor)
    return None
