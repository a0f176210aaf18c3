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
from typing import Final

SCALE: Final = float(os.environ.get("LEDGER_BENCH_SCALE", "1"))
ROUNDS: Final = 7
Clock = Callable[[], float]
wall: Clock = time.perf_counter
cpu: Clock = time.process_time
"""User and system time of this process: where the row is about work and not about waiting for a disk."""
Case = Callable[[], float | Mapping[str, float]]
"""Does its work once and answers seconds an operation: one figure, or several by name."""
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
