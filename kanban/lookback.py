"""Snapshots of the past, taken by the sweep as the log grows: then a look at any position is near one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Engine

from ledger.errors import LedgerError
from projections import snapshots

AT_ONCE: Final = 4
"""Snapshots of one tick: so many are a fraction of a second, and a log that was brought in is caught up with."""


@dataclass(slots=True)
class Lookback:
    """Takes the snapshots of one board that are due, and asks the store for none before the log has grown."""

    engine: Engine
    board: str
    due: int = field(default_factory=lambda: snapshots.SPACING)
    """The position from which there may be one to take."""

    def take(self, position: int) -> str | None:
        """Take what is due now that the log has reached *position*; what kept it from that, for people, or none."""
        if position < self.due:
            return None
        try:
            taken = snapshots.take(self.engine, self.board, most=AT_ONCE)
        except LedgerError as fault:
            self.due = _next(position)
            return f"no snapshot of the past was taken: {fault.message}"
        if taken < AT_ONCE:
            self.due = _next(position)
        return None


def _next(position: int) -> int:
    return (position // snapshots.SPACING + 1) * snapshots.SPACING
