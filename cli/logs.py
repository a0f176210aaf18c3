"""The log of a run: found, printed, and followed while its supervisor writes it and shortens it in place."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ledger.errors import NotFound, UnknownRun

if TYPE_CHECKING:
    from kanban.questions import Questions

HEAD: Final = 1024 * 1024
"""What the supervisor never drops from the beginning of a log (kanban/worker/supervise.py)."""
_MARK: Final = re.compile(rb"\n\[\.\.\. ([0-9]{1,20}) bytes dropped \.\.\.\]\n")
_LONGEST_MARK: Final = 64
_CHUNK: Final = 1024 * 1024
_PAUSE: Final = 0.2  # seconds between two looks
_LOOKS_A_QUESTION: Final = 10  # looks between two questions to the board


@dataclass(frozen=True, slots=True)
class RunLog:
    """Where a run's log lies."""

    task: str
    run: int
    path: Path


def find(board: Questions, task: str, run: int | None) -> RunLog:
    """The log of *run*, by default of the last. Raises `UnknownTask`, `UnknownRun`, and `NotFound` without any run."""
    from kanban.folders import LOG, run_folder

    numbers = [found["run"] for found in board.runs(task)["runs"]]
    if run is not None and run not in numbers:
        raise UnknownRun(task, run)
    if not numbers:
        raise NotFound(f"{task} has had no run yet", task=task, remedy=f"ledger why {task}")
    chosen = run or numbers[-1]
    return RunLog(task, chosen, run_folder(board.home, board.name, task, chosen) / LOG)


def text_of(log: RunLog) -> str:
    """The whole log; bytes that are no UTF-8 are replaced. Raises `NotFound` when there is none."""
    try:
        return log.path.read_bytes().decode("utf-8", "replace")
    except OSError as fault:
        raise missing(log, fault) from None


def missing(log: RunLog, fault: OSError) -> NotFound:
    """That there is no log to read: claimed by hand, on another host, or pruned."""
    return NotFound(
        f"run {log.run} of {log.task} has no log on this host: {log.path}: {fault.strerror}",
        task=log.task,
        remedy=f"ledger runs {log.task}",
    )


class Tail:
    """Reads a log on and on. Positions count what was ever written, so nothing is printed twice after a cut."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def more(self) -> bytes:
        """What came since the last time, at most a chunk; empty when nothing did or the file is not there yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(HEAD)
                mark = _MARK.match(file.read(_LONGEST_MARK))
                dropped, marked = (int(mark[1]), len(mark[0])) if mark else (0, 0)
                cut = HEAD + dropped
                if mark and HEAD <= self._read < cut:
                    self._read = cut
                    return mark[0]
                file.seek(self._read if self._read < HEAD else self._read - dropped + marked)
                room = HEAD - self._read if self._read < HEAD else _CHUNK
                found = file.read(min(room, _CHUNK))
        except FileNotFoundError:
            return b""
        self._read += len(found)
        return found


def follow_log(board: Questions, log: RunLog, *, pause: Callable[[float], None] = time.sleep) -> None:
    """Print the log as it grows, until the run is over and all of it is printed. Raises `NotFound` without a log."""
    from kanban.folders import EXIT_RECORD

    tail, looks = Tail(log.path), 0
    while True:
        over = (log.path.parent / EXIT_RECORD).exists()
        if not over and looks % _LOOKS_A_QUESTION == 0:
            over = _has_ended(board, log)
        while found := tail.more():
            sys.stdout.write(found.decode("utf-8", "replace"))
            sys.stdout.flush()
        if over:
            break
        looks += 1
        pause(_PAUSE)
    if not log.path.exists():
        raise missing(log, FileNotFoundError(2, "No such file or directory"))


def _has_ended(board: Questions, log: RunLog) -> bool:
    """Whether the log of events says that the run is over: its supervisor may have died without a word."""
    return any(run["run"] == log.run and run["ended_at"] is not None for run in board.runs(log.task)["runs"])
