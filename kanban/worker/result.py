"""How a turn of an agent ended: one typed value, made from what agents answer (a mapping, an exit code, nothing)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

SETTLEMENT: Final = "max_iterations_reached"
"""How a `turn_exit_reason` begins where the turn spent its iterations: that is settled, and never tried again."""


class Status(StrEnum):
    """What became of a turn."""

    OK = "ok"
    FAILED = "failed"  # the provider or the agent's loop failed
    PARTIAL = "partial"  # cut off: an outcome, never a reason to try again
    INTERRUPTED = "interrupted"  # somebody stopped it
    SETTLED = "settled"  # unfinished for good: the turn spent what it was allowed
    UNSETTLED = "unsettled"  # no result at all: the turn never ran, or broke


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One turn's end. *retryable* is the agent's own typed verdict on a failure, *reason* its classifier's word.

    *error* and *output* are text for people and for the next turn; *resets_at* is when the provider's wall is gone,
    in seconds since 1970.
    """

    status: Status
    retryable: bool = False
    reason: str | None = None
    error: str | None = None
    output: str | None = None
    resets_at: float | None = None


OK: Final = TurnResult(Status.OK)
UNSETTLED: Final = TurnResult(Status.UNSETTLED)


def result_of(said: object) -> TurnResult:
    """What an agent's answer means: a `TurnResult` is itself, a mapping is read, anything else settled nothing.

    Read of a mapping: `failed`, `failure_retryable`, `failure_reason`, `error`, `final_response`, `interrupted`,
    `partial`, `completed` (only a literal False is unfinished), `turn_exit_reason`, `failure_resets_at`.
    """
    if isinstance(said, TurnResult):
        return said
    if not isinstance(said, Mapping):
        return UNSETTLED
    return TurnResult(
        status=_status(said),
        retryable=said.get("failed") is True and said.get("failure_retryable") is True,
        reason=_text(said.get("failure_reason")),
        error=_text(said.get("error")),
        output=_text(said.get("final_response")),
        resets_at=_instant(said.get("failure_resets_at")),
    )


def result_of_exit(code: int, output: str | None = None) -> TurnResult:
    """How a command that was one turn ended, by its exit code (minus a signal's number where that killed it).

    75 (come back later), 78 (configuration is broken) and what a stop leaves (RULES §6) keep their meaning; no code
    asks for another try, since a command that cannot go on with the same conversation has none.
    """
    match code:
        case 0:
            return TurnResult(Status.OK, output=output)
        case 75:
            return TurnResult(Status.FAILED, reason="rate_limit", error="exit code 75", output=output)
        case 78:
            return TurnResult(Status.FAILED, reason="auth_permanent", error="exit code 78", output=output)
        case 129 | 130 | 143 | -1 | -2 | -15:
            return TurnResult(Status.INTERRUPTED, error="interrupted", output=output)
        case _:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return TurnResult(Status.FAILED, error=how, output=output)


def _status(said: Mapping[Any, Any]) -> Status:
    unfinished = bool(said.get("failed")) or bool(said.get("partial")) or said.get("completed") is False
    if said.get("interrupted"):
        return Status.INTERRUPTED
    if not unfinished:
        return Status.OK
    if str(said.get("turn_exit_reason") or "").startswith(SETTLEMENT):
        return Status.SETTLED
    return Status.FAILED if said.get("failed") else Status.PARTIAL


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _instant(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        at = float(value)
    except OverflowError:
        return None
    return at if math.isfinite(at) else None
