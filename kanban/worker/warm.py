"""A warm agent: a command that is started once and takes its turns as lines of JSON, one in and one out for each."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final

from kanban.worker.carrier import VARIABLES
from kanban.worker.frame import Frame, read_json
from kanban.worker.place import tie
from kanban.worker.turns import TurnLost

LARGEST_LINE: Final = 8 * 1024 * 1024
"""Bytes: an agent that writes a longer line is ended."""
ANSWER: Final = frozenset(
    {
        "final_response", "failed", "failure_retryable", "failure_reason", "error", "failure_resets_at",
        "interrupted", "partial", "completed", "turn_exit_reason", "session_id",
    }
)  # fmt: skip
"""What is read of an answer: an object with none of these is none."""
_LEASH: Final = Path(__file__).resolve().parent / "leash.py"
_CHUNK: Final = 64 * 1024
_LOOK: Final = 0.5  # seconds between two looks at a process whose output somebody else holds open


class AgentDied(TurnLost):
    """The agent ended, or was ended, in the middle of a turn: nothing was settled."""


class WarmAgent:
    """One process of the agent's command. It takes one turn at a time; `end` may be called from another thread.

    The next owner sees in *folder* that the process is still there (`untied`).
    """

    def __init__(self, command: tuple[str, ...], folder: Path) -> None:
        self._command, self._folder = command, folder
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._leash = -1
        self._held = b""
        self._frame: Frame | None = None
        self._turn = 0

    def start(self) -> None:
        """Start the command, once what ran before has ended with all its group. Raises OSError."""
        if shutil.which(self._command[0]) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._command[0])
        if self._process is not None:
            self.end()
            self._bury(self._process)
        tied = tie(self._folder)
        read_end, write_end = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LEASH), str(read_end), str(tied), "--", *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=own_environment(os.environ),
                pass_fds=(read_end, tied),
                start_new_session=True,
            )
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
            os.close(tied)
        with self._lock:
            self._process, self._leash, self._held, self._frame = process, write_end, b"", None

    def __call__(self, text: str, frame: Frame) -> dict[str, Any]:
        """One turn; of another frame than the last one's it is the first of a new conversation. Raises `AgentDied`.

        Also where the process that had the conversation is gone: another one knows nothing of it.
        """
        if not self._is_up():
            if self._frame is frame:
                raise AgentDied("the agent ended between two turns of a conversation, which is lost with it")
            self.start()
        self._turn = self._turn + 1 if self._frame is frame else 1
        self._frame = frame
        self._write(_line(text, frame, self._turn))
        while (answer := _object(self._read_line())) is None:
            continue
        return answer

    def end(self) -> None:
        """End the process and its group: TERM, and KILL 5 s later. It is started anew for the next turn."""
        with self._lock:
            if self._leash >= 0:
                os.close(self._leash)
                self._leash = -1

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self.end()
        if self._process is not None:
            self._bury(self._process)

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue

    def _is_up(self) -> bool:
        """Whether the process can take a turn. What it has said since its last answer is none: it is complained of."""
        process = self._process
        if process is None or self._leash < 0 or process.poll() is not None:
            return False
        assert process.stdout is not None
        output = process.stdout.fileno()
        stray, self._held = self._held, b""
        while len(stray) <= LARGEST_LINE and select.select([output], [], [], 0)[0]:
            read = os.read(output, _CHUNK)
            if not read:
                return False
            stray += read
        if stray:
            _complain(stray.removesuffix(b"\n"))
        return len(stray) <= LARGEST_LINE

    def _write(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._died() from None

    def _read_line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        while b"\n" not in self._held and len(self._held) <= LARGEST_LINE:
            if not select.select([output], [], [], _LOOK)[0]:
                if self._process.poll() is not None:
                    raise self._died()
                continue
            read = os.read(output, _CHUNK)
            if not read:
                raise self._died()
            self._held += read
        line, _, self._held = self._held.partition(b"\n")
        if len(line) > LARGEST_LINE:
            self.end()
            raise AgentDied(f"the agent wrote a line of more than {LARGEST_LINE} bytes")
        return line

    def _died(self) -> AgentDied:
        """It is not asked again: what is left of its group ends with the leash."""
        self.end()
        assert self._process is not None
        return AgentDied(f"the agent ended in the middle of a turn, with code {self._process.wait()}")


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """*environ* without any claim: what an agent is started with serves many of them, one after another."""
    return {name: value for name, value in environ.items() if name not in VARIABLES.values()}


def _line(text: str, frame: Frame, turn: int) -> bytes:
    claim = frame.claim
    said = {
        "schema": 1,
        "turn": turn,
        "text": text,
        "task": None if claim is None else claim.task,
        "run": None if claim is None else claim.run,
        "workspace": frame.environment.get("LEDGER_WORKSPACE"),
        "environment": dict(frame.environment),
    }
    return f"{json.dumps(said)}\n".encode()


def _object(line: bytes) -> dict[str, Any] | None:
    """The answer in *line*. What is none goes where the agent's complaints go."""
    try:
        said = read_json(line)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and not ANSWER.isdisjoint(said):
        return said
    _complain(line)
    return None


def _complain(said: bytes) -> None:
    sys.stderr.write(f"{said.decode(errors='replace')}\n")
