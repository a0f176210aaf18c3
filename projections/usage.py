"""What runs used, as far as they said it: what is unknown is none and never 0. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from projections.policy import SECOND
from projections.run import Run


class Used(NamedTuple):
    """What runs used: none where none of them said anything; *unsaid* of them did not say all of it.

    *seconds*: how long those took that have ended, by the wall clock.
    """

    runs: int
    seconds: int | None
    tokens: int | None
    cost: str | None
    unsaid: int

    def as_json(self) -> dict[str, Any]:
        """A plain JSON object."""
        shown = {"runs": self.runs, "seconds": self.seconds, "tokens": self.tokens, "cost": self.cost}
        return {**shown, "runs_without_usage": self.unsaid}


def used_by(run: Run) -> Used:
    """What one run used."""
    seconds = None if run.ended_at is None else (run.ended_at - run.claimed_at) // SECOND
    return Used(1, seconds, run.tokens, run.cost, int(run.tokens is None or run.cost is None))


def summed(parts: Iterable[Used]) -> Used:
    """All of *parts* together. What is unknown is none and adds nothing; it is counted."""
    found = list(parts)
    seconds = [part.seconds for part in found if part.seconds is not None]
    tokens = [part.tokens for part in found if part.tokens is not None]
    costs = [Decimal(part.cost) for part in found if part.cost is not None]
    return Used(
        runs=sum(part.runs for part in found),
        seconds=sum(seconds) if seconds else None,
        tokens=sum(tokens) if tokens else None,
        cost=str(sum(costs)) if costs else None,
        unsaid=sum(part.unsaid for part in found),
    )
