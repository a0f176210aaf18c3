"""How a board flows: what was done in a stretch of its log, how long it took, how many runs and what they cost.

A card's work begins when it is created or reopened. *Lead time* runs from there to its `completed`, *cycle time* from
the first `claimed` after that; a card that a person completed without any run has no cycle time. Usage belongs to the
runs that ended in the stretch, and to the day on which they did. Days are UTC. What nobody said is none, never 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from decimal import Decimal
from math import ceil
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, literal_column, select

from ledger.clock import SECOND, moment, rfc3339
from ledger.schema import events
from projections import tables
from projections.places import Stretch, instant_of
from projections.raw import pages
from projections.usage import Used, summed

RUNS: Final = tables.runs
DEAREST: Final = 10
"""So many cards are named, by cost and then by tokens."""
_DAY: Final = 86_400 * SECOND
_CHUNK: Final = 500
_KINDS: Final = ("created", "reopened", "claimed", "completed")


class Moved(NamedTuple):
    """An event that a flow is made of."""

    position: int
    task: str
    kind: str
    at: int
    outcome: str | None


class Completion(NamedTuple):
    """A card was completed: when, how, after how long (microseconds) and after how many runs."""

    at: int
    outcome: str | None
    lead: int | None
    cycle: int | None
    runs: int


class Spent(NamedTuple):
    """A run that ended: whose it was, on which day (days since 1970, UTC), what it used."""

    task: str
    worker: str
    day: int
    done: bool
    used: Used


def flow(tx: Connection, board: str, stretch: Stretch) -> dict[str, Any]:
    """The flow of *board* in *stretch*, as plain JSON values: times in seconds, cost as decimal text."""
    inside = list(_moved(tx, board, stretch))
    finished = {each.task for each in inside if each.kind == "completed"}
    found = completions(moved_before(tx, board, stretch, sorted(finished)), inside)
    spent = list(_spent(tx, board, stretch))
    cards = _grouped((each.task, each) for each in spent)
    counts = Counter(each.kind for each in inside)
    return {
        "between": _between(tx, board, stretch),
        "created": counts["created"],
        "completed": sum(each.outcome == "ok" for each in found),
        "failed": sum(each.outcome == "fail" for each in found),
        "runs": counts["claimed"],
        "lead_time": _seconds(each.lead for each in found),
        "cycle_time": _seconds(each.cycle for each in found),
        "runs_per_completion": _of_runs(found),
        "usage": summed(each.used for each in spent).as_json(),
        "cost_per_card": _ranked(Decimal(used.cost) for used in cards.values() if used.cost is not None),
        "tokens_per_card": _ranked(used.tokens for used in cards.values() if used.tokens is not None),
        "dearest": [{"task": task, **used.as_json()} for task, used in _dearest(cards)],
        "assignees": _assignees(spent),
        "days": list(_days(inside, found, spent)),
    }


# Reading


def _moved(tx: Connection, board: str, stretch: Stretch) -> Iterator[Moved]:
    inside = events.c.position > stretch.after, events.c.position <= stretch.until
    query = _columns().where(events.c.board == board, *inside, _of_kinds()).order_by(events.c.position)
    for page in pages(tx, query):
        yield from map(Moved._make, page)


def moved_before(tx: Connection, board: str, stretch: Stretch, cards: Sequence[str]) -> Iterator[Moved]:
    """What had happened to these *cards* before the stretch."""
    if not stretch.after:
        return
    for start in range(0, len(cards), _CHUNK):
        earlier = events.c.task.in_(cards[start : start + _CHUNK]), events.c.position <= stretch.after
        query = _columns().where(events.c.board == board, *earlier, _of_kinds()).order_by(events.c.position)
        yield from map(Moved._make, tx.execute(query))


def _columns() -> Any:
    return select(events.c.position, events.c.task, events.c.kind, events.c.at, events.c.outcome)


def _of_kinds() -> Any:
    return events.c.kind.in_([literal_column(f"'{kind}'") for kind in _KINDS])  # no values: as `pages` wants it


def _spent(tx: Connection, board: str, stretch: Stretch) -> Iterator[Spent]:
    ended = RUNS.c.ended_position > stretch.after, RUNS.c.ended_position <= stretch.until
    query = select(
        RUNS.c.task, RUNS.c.worker, RUNS.c.claimed_at, RUNS.c.ended_at, RUNS.c.ended_by, RUNS.c.outcome,
        RUNS.c.tokens, RUNS.c.cost,
    ).where(RUNS.c.board == board, *ended)  # fmt: skip
    for page in pages(tx, query.order_by(RUNS.c.ended_position)):
        for task, worker, claimed_at, ended_at, ended_by, outcome, tokens, cost in page:
            used = Used(1, (ended_at - claimed_at) // SECOND, tokens, cost, int(tokens is None or cost is None))
            yield Spent(task, worker, ended_at // _DAY, (ended_by, outcome) == ("completed", "ok"), used)


def _between(tx: Connection, board: str, stretch: Stretch) -> dict[str, Any]:
    first, last = stretch.after + 1, stretch.until
    whole = first <= last
    return {
        "from_position": first,
        "to_position": last,
        "from": rfc3339(instant_of(tx, board, first)) if whole else None,
        "to": rfc3339(instant_of(tx, board, last)) if whole else None,
    }


# Folding


class _Work(NamedTuple):
    """A stretch of work on a card: when it began, when a run was first opened in it, and how many were."""

    begun: int | None = None
    claimed: int | None = None
    runs: int = 0


def completions(before: Iterable[Moved], inside: Iterable[Moved]) -> list[Completion]:
    """The completions *inside*, in order; *before*: what had happened to those cards until then."""
    work: defaultdict[str, _Work] = defaultdict(_Work)
    found: list[Completion] = []
    for event in before:
        work[event.task] = _worked(work[event.task], event)
    for event in inside:
        card = work[event.task] = _worked(work[event.task], event)
        if event.kind == "completed":
            lead, cycle = (None if since is None else event.at - since for since in (card.begun, card.claimed))
            found.append(Completion(event.at, event.outcome, lead, cycle, card.runs))
    return found


def _worked(work: _Work, event: Moved) -> _Work:
    match event.kind:
        case "created" | "reopened":
            return _Work(event.at)
        case "claimed":
            return _Work(work.begun, event.at if work.claimed is None else work.claimed, work.runs + 1)
        case _:
            return work


# Summing up


def _grouped(parts: Iterable[tuple[Any, Spent]]) -> dict[Any, Used]:
    groups: defaultdict[Hashable, list[Used]] = defaultdict(list)
    for key, each in parts:
        groups[key].append(each.used)
    return {key: summed(group) for key, group in groups.items()}


def _dearest(cards: dict[str, Used]) -> list[tuple[str, Used]]:
    said = [(task, used) for task, used in cards.items() if used.cost is not None or used.tokens is not None]
    said.sort(key=lambda card: (-Decimal(card[1].cost or 0), -(card[1].tokens or 0), card[0]))
    return said[:DEAREST]


def _assignees(spent: Sequence[Spent]) -> list[dict[str, Any]]:
    used, done = _grouped((each.worker, each) for each in spent), Counter(each.worker for each in spent if each.done)
    return [{"assignee": name, "completed": done[name], **used[name].as_json()} for name in sorted(used)]


def _days(inside: Sequence[Moved], found: Sequence[Completion], spent: Sequence[Spent]) -> Iterator[dict[str, Any]]:
    """Every day from the first to the last on which anything happened: the quiet ones too."""
    seen = [event.at // _DAY for event in (*inside[:1], *inside[-1:])]
    seen += [each.day for each in (*spent[:1], *spent[-1:])]
    if not seen:
        return
    counts = Counter((event.at // _DAY, event.kind) for event in inside)
    ends = Counter((each.at // _DAY, each.outcome) for each in found)
    used = _grouped((each.day, each) for each in spent)
    for day in range(min(seen), max(seen) + 1):
        yield {
            "day": moment(day * _DAY).date().isoformat(),
            "created": counts[day, "created"],
            "claimed": counts[day, "claimed"],
            "completed": ends[day, "ok"],
            "failed": ends[day, "fail"],
            **used.get(day, Used(0, None, None, None, 0)).as_json(),
        }


def _of_runs(found: Sequence[Completion]) -> dict[str, Any]:
    shares = Counter(each.runs for each in found)
    return {
        **_ranked(each.runs for each in found),
        "distribution": {str(runs): shares[runs] for runs in sorted(shares)},
    }


def _seconds(times: Iterable[int | None]) -> dict[str, Any]:
    return _ranked(time // SECOND for time in times if time is not None)


def _ranked(values: Iterable[Any]) -> dict[str, Any]:
    """How many, and the values that half, 85 % and 95 % of them do not exceed; none where there are none."""
    ordered = sorted(values)
    marks = {"p50": 50, "p85": 85, "p95": 95, "max": 100}
    of_rank = {
        name: ordered[ceil(len(ordered) * share / 100) - 1] if ordered else None for name, share in marks.items()
    }
    return {"count": len(ordered), **{name: str(v) if isinstance(v, Decimal) else v for name, v in of_rank.items()}}
