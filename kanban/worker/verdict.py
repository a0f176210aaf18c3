"""Who judges whether a goal is met, what such a judge is asked and may answer: a function, or a command."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from tempfile import TemporaryFile
from typing import Any, Final

TIMEOUT: float = 300
"""Seconds that a judge's command may take, looked up when it is asked."""
LARGEST_VERDICT: Final = 64 * 1024
"""Bytes: what a judge prints beyond that is no verdict."""
_PAUSE: Final = 0.01  # seconds
_READS: Final = 16  # of what a pipe holds, between two looks at the process


class Ruling(StrEnum):
    """What a judge says of a goal."""

    CONTINUE = "continue"  # it is not met yet
    WAIT = "wait"  # it is not met yet, and something else is under way: as continue
    DONE = "done"  # it is met
    BLOCKED = "blocked"  # only a person can help


@dataclass(frozen=True, slots=True)
class Verdict:
    """A ruling, and why."""

    ruling: Ruling
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a judge is told: the card's id, its goal, the agent's reply in turn *turn* of *max_turns*."""

    task: str
    goal: str
    reply: str
    turn: int
    max_turns: int


Judge = Callable[[Asked], object]
"""Answers what `verdict_of` understands. Whatever it raises ends the turns."""


class JudgeFailed(Exception):
    """There is no verdict: the judge did not answer in time, not at all, or with what is none."""


def verdict_of(said: object) -> Verdict:
    """What a judge's answer means: a `Verdict` is itself; of a mapping `verdict` is read, and `reason`.

    Raises `JudgeFailed` for anything else, and for a word that is no ruling.
    """
    if isinstance(said, Verdict):
        return said
    found: Mapping[Any, Any] = said if isinstance(said, Mapping) else {}
    try:
        ruling = Ruling(str(found.get("verdict")))
    except ValueError:
        raise JudgeFailed(f"no verdict: {said!r:.200}") from None
    reason = found.get("reason")
    return Verdict(ruling, reason if isinstance(reason, str) else "")


def judge_of(judge: Judge | Sequence[str], environ: Mapping[str, str] = os.environ) -> Judge:
    """*judge* as a function; a command gets `Asked` as one JSON object on standard input, and prints its verdict."""
    if callable(judge):
        return judge
    command = tuple(judge)
    return lambda asked: _asked_of(command, asked, environ)


def _asked_of(command: tuple[str, ...], asked: Asked, environ: Mapping[str, str]) -> Any:
    """The JSON that *command* printed. What it writes to standard error is told where it failed, else dropped."""
    try:
        code, said, aside = _ran(command, json.dumps(asdict(asked)).encode(), environ)
    except OSError as fault:
        raise JudgeFailed(f"{command[0]}: {fault.strerror}") from None
    if len(said) > LARGEST_VERDICT:
        raise JudgeFailed(f"{command[0]} printed more than {LARGEST_VERDICT} bytes")
    if code is None:
        raise JudgeFailed(f"{command[0]} did not answer within {TIMEOUT:g} s")
    if code != 0:
        why = aside.decode(errors="replace").strip()
        raise JudgeFailed(f"{command[0]} ended with {code}{f': {why}' if why else ''}")
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        raise JudgeFailed(f"{command[0]} printed no JSON") from None


def _ran(command: tuple[str, ...], question: bytes, environ: Mapping[str, str]) -> tuple[int | None, bytes, bytes]:
    """The code of *command*, none where it had to be killed, and the beginning of what it wrote.

    What it started and left behind holds nobody up, and has nobody to write to. It stays in the group of whoever asks,
    so that a stop reaches it too.
    """
    said = aside = b""
    with TemporaryFile() as told:
        told.write(question)
        told.seek(0)
        child = subprocess.Popen(command, stdin=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)
    assert child.stdout is not None
    assert child.stderr is not None
    deadline = time.monotonic() + TIMEOUT
    with child.stdout as out, child.stderr as complaints:
        try:
            while True:
                code = child.poll()  # before its last words are read
                said, aside = _more(out.fileno(), said), _more(complaints.fileno(), aside)
                if code is not None or len(said) > LARGEST_VERDICT or time.monotonic() >= deadline:
                    return code, said, aside
                time.sleep(_PAUSE)
        finally:
            child.kill()
            child.wait()


def _more(pipe: int, known: bytes) -> bytes:
    """*known* and what *pipe* holds now, up to a byte more than a verdict may have; the rest is let go."""
    os.set_blocking(pipe, False)
    for _ in range(_READS):
        try:
            read = os.read(pipe, LARGEST_VERDICT)
        except BlockingIOError:
            break
        if not read:
            break
        known = (known + read)[: LARGEST_VERDICT + 1]
    return known
