"""The numbers behind the pictures: how cards stood over time, how long work took, how runs ended, what they cost.

One walk over a stretch of the log, by the same fold as everywhere, and what `projections.statistics` tells of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, func, select

from ledger.clock import SECOND
from ledger.events import NEUTRAL
from ledger.recorded import Recorded
from projections import tables
from projections.facts import facts_of
from projections.places import Stretch
from projections.rows import TASK_VALUES, task_of
from projections.statistics import Moved, completions, flow, moved_before
from projections.task import Task, evolve, status

RUNS, TASKS = tables.runs, tables.tasks
BANDS: Final = ("done", "review", "running", "blocked", "waiting")
"""What a cumulative flow tells apart, the lowest first; *waiting* is every card that nobody has begun."""
SAMPLES: Final = 60
"""Instants at which cards are counted."""
ENDS: Final = ("completed", "handed_on", "neutral", "clean", "failed")
"""What runs come to: done; a review or an answer asked for; no verdict; an exit without a word; a failure."""
BOUNDS: Final = {300: "5m", 900: "15m", 1_800: "30m", 3_600: "1h", 14_400: "4h", 86_400: "1d", 259_200: "3d"}
"""The longest cycle time of each bar, in seconds, and what it is called; what took longer has one more."""
_QUIET: Final = frozenset({"", "progressed", "worker_bound", "commented", "stop_requested", "violation", "redacted"})
"""Kinds that move no card, and need not be folded to see where it stands."""


@dataclass(frozen=True, slots=True)
class Sample:
    """How many cards stood in each of `BANDS` at an instant (microseconds UTC)."""

    at: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """All that the pictures show: *cycles* by the name of their bound, *outcomes* by worker in the order of `ENDS`."""

    flow: Mapping[str, Any]
    samples: tuple[Sample, ...]
    cycles: Mapping[str, int]
    outcomes: Mapping[str, Mapping[str, int]]


def figures(
    tx: Connection, board: str, stretch: Stretch, *, start: Mapping[str, Task], span: tuple[int, int]
) -> Figures:
    """The numbers of *stretch*; *start*: the cards before it, *span*: its first and last instant (microseconds UTC)."""
    inside: list[Moved] = []
    walk = _noted(facts_of(tx, board, after=stretch.after, until=stretch.until), inside)
    samples = tuple(_samples(walk, start, span))
    finished = sorted({each.task for each in inside if each.kind == "completed"})
    found = completions(moved_before(tx, board, stretch, finished), inside)
    cycles = [each.cycle // SECOND for each in found if each.cycle is not None]
    return Figures(flow(tx, board, stretch), samples, _by_bound(cycles), _outcomes(tx, board, stretch))


def cards_of(tx: Connection, board: str) -> dict[str, Task]:
    """Every card as it stands for *tx*."""
    query = select(*(TASKS.c[name] for name in TASK_VALUES)).where(TASKS.c.board == board)
    return {task.id: task for task in map(task_of, tx.execute(query))}


def band(task: Task) -> str | None:
    """Which of `BANDS` a card is in; none once it is archived."""
    match status(task):
        case "archived":
            return None
        case "done" | "running" | "blocked" | "review" as stands:
            return stands
        case _:
            return "waiting"


def _noted(events: Iterable[Recorded], inside: list[Moved]) -> Iterator[Recorded]:
    """*events*; on the way those that a flow is made of are put down."""
    for event in events:
        if event.kind in {"created", "reopened", "claimed", "completed"}:
            inside.append(Moved(event.position, event.task, event.kind, event.at, event.outcome))
        yield event


def _samples(events: Iterable[Recorded], start: Mapping[str, Task], span: tuple[int, int]) -> Iterator[Sample]:
    """How the cards stood at equal distances in *span*, its ends included."""
    tasks, (first, last) = dict(start), span
    counts = Counter(map(band, tasks.values()))
    due = [first + (last - first) * place // (SAMPLES - 1) for place in range(SAMPLES)]
    place = 0
    for event in events:
        while place < SAMPLES and due[place] < event.at:
            yield Sample(due[place], tuple(counts[name] for name in BANDS))
            place += 1
        if event.task and event.kind not in _QUIET:
            before = tasks.get(event.task)
            tasks[event.task] = after = evolve(before or Task(event.task), event)
            counts[band(after)] += 1
            counts[None if before is None else band(before)] -= 1
    for at in due[place:]:
        yield Sample(at, tuple(counts[name] for name in BANDS))


def _by_bound(cycles: Sequence[int]) -> dict[str, int]:
    bounds = list(BOUNDS)
    counts = Counter(bisect_left(bounds, seconds) for seconds in cycles)
    names = [*(f"≤ {name}" for name in BOUNDS.values()), f"> {BOUNDS[bounds[-1]]}"]
    return {name: counts[place] for place, name in enumerate(names)}


def _outcomes(tx: Connection, board: str, stretch: Stretch) -> dict[str, dict[str, int]]:
    ended = RUNS.c.ended_position > stretch.after, RUNS.c.ended_position <= stretch.until
    kinds = RUNS.c.worker, RUNS.c.ended_by, RUNS.c.outcome
    query = select(*kinds, func.count()).where(RUNS.c.board == board, *ended).group_by(*kinds)
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for worker, ended_by, outcome, count in tx.execute(query):
        found[worker][_end(ended_by, outcome)] += count
    by_most = sorted(found, key=lambda worker: (-found[worker].total(), worker))
    return {worker: {name: found[worker][name] for name in ENDS} for worker in by_most}


def _end(ended_by: str, outcome: str | None) -> str:
    """Which of `ENDS` a run came to."""
    match ended_by, outcome:
        case "completed", "ok":
            return "completed"
        case "completed", _:
            return "failed"
        case "exited", "clean":
            return "clean"
        case "exited", _:
            return "neutral" if outcome in NEUTRAL else "failed"
        case _:
            return "handed_on"
