"""One supervisor as a real process: its gate, its run folder and its workspace."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.fleets import PATIENCE, until

SUPERVISE: Final = Path(__file__).parents[1] / "kanban" / "worker" / "supervise.py"
PYTHON: Final = [sys.executable, "-I", "-S"]
MIB: Final = 1024 * 1024
TASK: Final = "t_1a2b3c"


def wait_until(true: Callable[[], object]) -> None:
    """Poll *true*; a deadline that passes is the test's failure."""
    until(true, pause=0.005)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def script(text: str) -> list[str]:
    return [*PYTHON, "-c", text]


class Run:
    """One supervisor with a gate, a run folder and a workspace of its own."""

    def __init__(
        self, folder: Path, *, limit: int = 20 * MIB, task: str = TASK, preexec: Callable[[], object] | None = None
    ):
        self.folder, self.workspace = folder / "run", folder / "workspace"
        self.folder.mkdir()
        self.workspace.mkdir()
        self._limit, self._task, self._preexec = limit, task, preexec
        self._gate = -1

    def spawn(self, *command: str, program: tuple[str | Path, ...] = (SUPERVISE,)) -> None:
        """Start the supervisor; it waits at its gate."""
        end, self._gate = os.pipe()
        arguments = [self.folder, self._task, 3, end, self._limit, self.workspace, "--", *command]
        self.process = subprocess.Popen(
            [*PYTHON, *program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[end],
            preexec_fn=self._preexec,  # noqa: PLW1509 - no threads here, and limits cannot be set otherwise
        )
        os.close(end)

    def start(self, *command: str) -> None:
        """Start the supervisor and open its gate."""
        self.spawn(*command)
        self.open()

    def open(self, byte: bytes = b"g") -> None:
        os.write(self._gate, byte)
        self.shut()

    def shut(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    def wait(self) -> int:
        """The code with which the supervisor ends."""
        return self.process.wait(timeout=PATIENCE)

    def complete(self, *command: str) -> int:
        self.start(*command)
        return self.wait()

    def signal(self, number: int) -> None:
        """What a stop does: the whole group hears it."""
        os.killpg(self.process.pid, number)

    def at_gate(self) -> bool:
        """The thread that watches the gate is the last thing before the wait."""
        return len(names(Path(f"/proc/{self.process.pid}/task"))) == 2

    def says(self, words: bytes) -> Callable[[], bool]:
        return lambda: (self.folder / "log").exists() and words in self.log

    @property
    def log(self) -> bytes:
        return (self.folder / "log").read_bytes()

    @property
    def output(self) -> bytes:
        """The log without its trailer, which must be its last line."""
        *_, last = self.log.splitlines(keepends=True)
        assert last.startswith(b"[kanban-worker-exit] rc=")
        assert last.endswith(b" run=3\n")
        return self.log[: -len(last)]

    @property
    def trailer(self) -> bytes:
        return self.log.splitlines()[-1]

    @property
    def record(self) -> dict[str, object]:
        return json.loads((self.folder / "exit.json").read_text())

    @property
    def end(self) -> tuple[object, object]:
        return self.record["code"], self.record["signal"]

    def clear(self) -> None:
        self.shut()
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def complaint(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()
