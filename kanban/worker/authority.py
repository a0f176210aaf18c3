"""May a failed turn be tried again in the same process? An allow-list over typed fields; first that holds decides.

This is not how the death of a run is recorded (`exits.py`): the two sets of reasons share quota and billing only. A
timeout is tried again first, and released as come-back-later once that is spent.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final

from kanban.worker.result import Status, TurnResult

NEVER_RETRIED: Final = frozenset({"rate_limit", "billing", "upstream_rate_limit"})
"""Walls that the board waits for, not the worker."""


class Denial(StrEnum):
    """Why a turn is not tried again, in the order in which it is looked at."""

    DISABLED = "disabled"  # no worker, or a budget of 0
    SPENT = "spent"  # as many attempts were made as the budget has
    UNSETTLED = "unsettled"  # there is no result to judge
    INTERRUPTED = "interrupted"  # a job that somebody stopped is not revived
    SETTLED = "settled"  # the turn spent its iterations: that is durable
    NOT_FAILED = "not_failed"  # success, or cut off: no failure
    NOT_RETRYABLE = "not_retryable"  # the agent did not say that another try may help
    NEVER = "never"  # its reason is one of those that are never tried again


def denied(
    result: TurnResult, *, is_worker: bool, made: int, budget: int, never: AbstractSet[str] = NEVER_RETRIED
) -> Denial | None:
    """Why *result*, after *made* attempts of *budget*, gives no other turn; none where it may (if the claim holds)."""
    match result.status:
        case _ if not is_worker or budget <= 0:
            return Denial.DISABLED
        case _ if made >= budget:
            return Denial.SPENT
        case Status.UNSETTLED:
            return Denial.UNSETTLED
        case Status.INTERRUPTED:
            return Denial.INTERRUPTED
        case Status.SETTLED:
            return Denial.SETTLED
        case Status.OK | Status.PARTIAL:
            return Denial.NOT_FAILED
        case Status.FAILED if not result.retryable:
            return Denial.NOT_RETRYABLE
        case Status.FAILED if result.reason in never:
            return Denial.NEVER
        case Status.FAILED:
            return None
