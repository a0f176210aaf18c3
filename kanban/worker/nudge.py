"""What an agent is told at the beginning of a turn that goes on after a failure."""

from __future__ import annotations

import re
from typing import Final

from kanban.worker.carrier import Carrier
from kanban.worker.result import TurnResult

LONGEST_ERROR: Final = 300
"""Characters that a nudge repeats of a failure, or of a verdict."""
_ODD: Final = re.compile("[\0\ud800-\udfff]")  # what neither a store nor a command line takes
_UNKNOWN: Final = "the model provider's API failed"


def recovery_nudge(
    carrier: Carrier | None,
    result: TurnResult,
    attempt: int,
    budget: int,
    *,
    complete: str = "ledger complete",
    block: str = "ledger block",
) -> str:
    """The text for attempt *attempt* of *budget* after *result*. *complete* and *block* are the verbs to end with.

    It holds neither the lock nor what looks like a secret.
    """
    card = "your card" if carrier is None else f"card {carrier.task}"
    return (
        f"[kanban] Your previous turn on {card} ended unfinished because the API failed ({failure(carrier, result)}); "
        f"this is recovery attempt {attempt}/{budget}. The card is still running and it is yours; this conversation "
        "and its context are whole. Do NOT start over. If a tool call was under way, look first whether it happened: "
        "check the state on disk before you repeat it. Then go on where you stopped, and end with one closing command: "
        f"`{complete}` when the work is done, `{block}` when you need something from a person."
    )


def failure(carrier: Carrier | None, result: TurnResult) -> str:
    """Why *result* failed, as `in_a_line`."""
    return in_a_line(carrier, result.error or result.output or "") or _UNKNOWN


def in_a_line(carrier: Carrier | None, said: str) -> str:
    """*said* in one line of at most `LONGEST_ERROR` characters that every store keeps, without secrets."""
    from kanban.evidence import redact

    if carrier is not None:
        said = said.replace(carrier.lock, "[redacted]")
    line = " ".join(redact(_ODD.sub("\ufffd", said)).split())
    return line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 1] + "…"
