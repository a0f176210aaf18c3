"""Measuring: cases in turn, ratios within a round, a table beside the targets. Nothing is stored.

The machine is shared and noisy, so absolute numbers mean little. Every case of a group runs once a round, the order
is rotated from round to round, and a ratio is taken between two figures of the same round; the table shows the
median of these ratios and their least and largest.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

SCALE: Final = float(os.environ.get("LEDGER_BENCH_SCALE", "1"))
ROUNDS: Final = 7
Clock = Callable[[], float]
wall: Clock = time.perf_counter
cpu: Clock = time.process_time
"""User and system time of this process: where the row is about work and not about waiting for a disk."""
Case = Callable[[], float | Mapping[str, float]]
"""Does its work once and answers seconds an operation: one figure, or several by name."""
Side = Callable[[Any], tuple[float, float]]
"""Does one operation on an item and answers its seconds on the wall, and of the processor."""
Times = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: *figures*, one a round, beside *target*; *least*: the target is a floor."""

    what: str
    beside: str
    figures: Sequence[float]
    target: float
    least: bool = True
    unit: str = "×"
    note: str = ""

    @property
    def figure(self) -> float:
        """The median."""
        return statistics.median(self.figures)

    @property
    def kept(self) -> bool:
        """Whether the median keeps the target."""
        return self.figure >= self.target if self.least else self.figure <= self.target

    def line(self) -> str:
        """The row in Markdown."""
        sign, spread = "≥" if self.least else "≤", f"{_short(min(self.figures))}…{_short(max(self.figures))}"
        figure, target = f"{_short(self.figure)} {self.unit}", f"{sign} {_short(self.target)} {self.unit}"
        verdict = "ok" if self.kept else "**FAIL**"
        return f"| {self.what} | {self.beside} | {figure} | {spread} | {target} | {verdict} | {self.note} |"


HEADER: Final = """\
| what | beside | figure | spread | target | | medians |
|---|---|---:|---|---:|---|---|"""


def scaled(size: int, *, least: int = 1) -> int:
    """*size* times `LEDGER_BENCH_SCALE`."""
    return max(least, round(size * SCALE))


def rounds(cases: Mapping[str, Case], *, times: int = ROUNDS, warm: int = 1) -> dict[str, list[float]]:
    """Run every case once a round, *warm* rounds unrecorded; figure name → seconds an operation, one a round."""
    names, found = list(cases), dict[str, list[float]]()
    for turn in range(-warm, times):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            figures = cases[name]()
            if turn < 0:
                continue
            for part, seconds in (figures if isinstance(figures, Mapping) else {"": figures}).items():
                found.setdefault(f"{name} {part}".strip(), []).append(seconds)
    return found


def timed(work: Callable[[Any], object]) -> Side:
    """*work* as a side: its seconds on the wall, and of the processor."""

    def once(item: Any) -> tuple[float, float]:
        busy, begun = cpu(), wall()
        work(item)
        return wall() - begun, cpu() - busy

    return once


class Duel:
    """Operations of several sides by turns, one of each at a time, so that a disk's bad moment meets them all.

    The figure of a round is its median operation: one sync in a hundred takes a hundred times as long as the others
    when somebody else uses the disk, and a mean would tell of that alone.
    """

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}
        self._round: dict[str, list[float]] = {}
        self._turn = 0

    def meet(self, what: str, sides: Mapping[str, Side], items: Mapping[str, Sequence[Any]]) -> None:
        """Every side does its next item, until all are done; *items*: side → what it works on."""
        names = list(sides)
        for place in range(len(items[names[0]])):
            self._turn += 1
            first = self._turn % len(names)
            for name in names[first:] + names[:first]:
                seconds, busy = sides[name](items[name][place])
                self._round.setdefault(f"{name} {what}", []).append(seconds)
                self._round.setdefault(f"{name} {what} cpu", []).append(busy)

    def end(self, *, warm: bool = False) -> None:
        """The round is over; *warm*: forget it."""
        for name, figures in self._round.items():
            if not warm:
                self.times.setdefault(name, []).append(statistics.median(figures))
        self._round = {}
        gc.collect()


def faster(times: Times, case: str, baseline: str) -> list[float]:
    """How many times the rate of *baseline* the rate of *case* is, round by round."""
    return [base / own for own, base in zip(times[case], times[baseline], strict=True)]


def growth(times: Times, large: str, small: str) -> list[float]:
    """How many times the price of *small* the price of *large* is, round by round."""
    return [more / less for more, less in zip(times[large], times[small], strict=True)]


def medians(times: Times, *names: str) -> str:
    """The medians of some figures, for the last column."""
    return ", ".join(f"{name} {duration(statistics.median(times[name]))}" for name in names)


def spent(work: Callable[[], object], clock: Clock = wall, *, per: int = 1) -> float:
    """Seconds of *clock* that *work* takes, divided by *per* operations."""
    begun = clock()
    work()
    return (clock() - begun) / per


def duration(seconds: float) -> str:
    """*seconds* in the unit that people would use."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"  # noqa: PLR2004 – three digits
