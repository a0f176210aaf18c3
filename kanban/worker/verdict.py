"""Who judges whether a goal is met, what such a judge is asked and may answer: a function, or a command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

TIMEOUT: float = 300
"""Seconds that a judge's command may take, looked up when it is asked."""


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
    question = json.dumps(asdict(asked)).encode()
    try:
        ran = subprocess.run(command, input=question, capture_output=True, env=environ, timeout=TIMEOUT, check=True)
        return json.loads(ran.stdout)
    except subprocess.TimeoutExpired:
        raise JudgeFailed(f"{command[0]} did not answer within {TIMEOUT:g} s") from None
    except subprocess.CalledProcessError as fault:
        said = fault.stderr.decode(errors="replace").strip()
        raise JudgeFailed(f"{command[0]} ended with {fault.returncode}{f': {said}' if said else ''}") from None
    except (ValueError, RecursionError):
        raise JudgeFailed(f"{command[0]} printed no JSON") from None
    except OSError as fault:
        raise JudgeFailed(f"{command[0]}: {fault.strerror}") from None
