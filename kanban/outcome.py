"""Evidence and outcome: the class that a run's end is booked as, one table for every path (RULES §6). Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from ledger.events import Outcome
from projections.run import Run

_ASKED_TO_STOP: Final = frozenset({129, 130, 143})
_STOP_SIGNALS: Final = frozenset({1, 2, 15})  # HUP, INT, TERM
_BY_STOP: Final = {
    "max_runtime": Outcome.TIMED_OUT,
    "stalled": Outcome.STALLED,
    "operator": Outcome.INTERRUPTED,
    "drain": Outcome.INTERRUPTED,
}


class Circumstance(StrEnum):
    """How a run was found ended, where no witness says more."""

    GONE = "gone"  # same boot, and its process group is empty
    REBOOTED = "rebooted"  # the host has booted since
    NEVER_BOUND = "never_bound"  # claimed by spawn, never bound, launch grace over
    LEASE_OVER = "lease_over"  # by hand and not bound, or a host that cannot be asked; lease and grace over


class Witnessed(NamedTuple):
    """What the first witness says: an exit code or a signal; *quota*: its last lines match a quota pattern."""

    code: int | None
    signal: int | None
    quota: bool


class Verb(StrEnum):
    """What `on_success` books a clean exit as, instead of `exited`."""

    COMPLETE = "complete"
    REVIEW = "review"


def outcome_of(witnessed: Witnessed | None, circumstance: Circumstance, run: Run) -> Outcome | Verb:
    """The row of RULES §6 that matches first. *witnessed* is none where there is no evidence at all."""
    code = None if witnessed is None else witnessed.code
    match code:
        case 75:
            return Outcome.RATE_LIMITED
        case 78:
            return Outcome.CONFIG
        case _ if run.stops:
            return _BY_STOP[run.stops[0].cause]
        case 0 | 1 if witnessed is not None and witnessed.quota:
            return Outcome.RATE_LIMITED
        case 0 if run.on_success == "complete":
            return Verb.COMPLETE
        case 0 if run.on_success == "review" and run.lane == "work":
            return Verb.REVIEW
        case 0:
            return Outcome.CLEAN
        case 126 | 127:
            return Outcome.SPAWN_FAILED
        case _ if witnessed is not None:
            asked = code in _ASKED_TO_STOP or witnessed.signal in _STOP_SIGNALS
            return Outcome.INTERRUPTED if asked else Outcome.CRASHED
        case _:
            return _without_witness(circumstance)


def _without_witness(circumstance: Circumstance) -> Outcome:
    match circumstance:
        case Circumstance.LEASE_OVER:
            return Outcome.LOST
        case Circumstance.GONE:
            return Outcome.CRASHED
        case Circumstance.NEVER_BOUND | Circumstance.REBOOTED:
            return Outcome.INTERRUPTED
