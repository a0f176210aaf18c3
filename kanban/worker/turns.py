"""The turns of one run: prove, run, recover, and say with which code the worker ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Unpack

from kanban.worker.carrier import Carrier
from kanban.worker.exits import FAILED, Credentials, exit_code
from kanban.worker.recovery import Means, Turn, checking, holds, recover
from kanban.worker.result import UNSETTLED, Status, TurnResult, result_of

_log = logging.getLogger(__name__)


class TurnLost(Exception):
    """A turn that broke, of which its message says all: it is logged in one line."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What the turns of a run came to: the code to exit with, and the last result."""

    code: int
    result: TurnResult


def run_turns(
    turn: Turn,
    prompt: str,
    carrier: Carrier,
    *,
    environ: Mapping[str, str],
    credentials: Callable[[Exception], Credentials] | None = None,
    **means: Unpack[Means],
) -> Ended:
    """Run *turn* on *prompt*, and again where it failed and the claim still holds (`recover`, which takes *means*).

    Without a claim no turn is begun: code 1. A turn that raises has settled nothing, and its exception is logged;
    *credentials* says what it means for the code.
    """
    known = Credentials.FINE

    def settled(text: str) -> TurnResult:
        nonlocal known
        try:
            return result_of(turn(text))
        except Exception as fault:  # noqa: BLE001 – whatever it is, the run still ends with a code that says so
            log_broken(_log, f"{carrier.task}: the turn broke", fault)
            known = Credentials.FINE if credentials is None else credentials(fault)
            return UNSETTLED

    check = means["check"] = means.get("check") or checking(carrier, environ, means.get("clock"))
    if not holds(carrier.task, check(), means.get("emit")):
        return Ended(FAILED, UNSETTLED)
    try:
        result = recover(settled, settled(prompt), carrier, environ=environ, **means).result
    except KeyboardInterrupt:
        result = TurnResult(Status.INTERRUPTED)
    return Ended(exit_code(result, is_worker=True, credentials=known), result)


def log_broken(log: logging.Logger, line: str, fault: BaseException) -> None:
    """Log that a turn broke: with a traceback, but where *fault* says all."""
    log.error("[kanban] %s: %s", line, fault, exc_info=None if isinstance(fault, TurnLost) else fault)
