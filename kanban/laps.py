"""The parts of one tick, and how long each took: for metrics and for spans."""

from __future__ import annotations

import time
from typing import NamedTuple


class Lap(NamedTuple):
    """A part of a tick: when it began and ended, in nanoseconds since 1970."""

    phase: str
    begun: int
    ended: int


class Laps:
    """The parts of one tick, one behind the other: told once each is over."""

    def __init__(self) -> None:
        self.begun = time.time_ns()
        self.told: list[Lap] = []
        self._started = time.perf_counter_ns()

    def end(self, phase: str) -> None:
        """What ran since the last part, or since the beginning, was *phase*."""
        last = self.told[-1].ended if self.told else self.begun
        self.told.append(Lap(phase, last, self.now))

    @property
    def now(self) -> int:
        """This moment, which no clock that is set moves: nanoseconds since 1970."""
        return self.begun + time.perf_counter_ns() - self._started
