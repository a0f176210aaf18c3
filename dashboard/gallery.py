"""The pictures of a board's flow, drawn of its numbers: each with a title, what it shows, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from markupsafe import Markup

from dashboard.figures import BANDS, ENDS, Figures, Sample
from dashboard.pictures import Area, Bar, Stack, areas, bars, stacks
from ledger.clock import SECOND, moment, rfc3339, show_age

_DAY: Final = 86_400 * SECOND
_SAID: Final = {
    "done": "done", "review": "in review", "running": "running", "blocked": "blocked", "waiting": "waiting",
    "completed": "completed", "handed_on": "handed on", "neutral": "no verdict", "clean": "without a word",
    "failed": "failed",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture; *key* names its colours, class and word; *rows* are its numbers below *headings*, the first a name."""

    name: str
    title: str
    said: str
    drawn: Markup | None
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    key: tuple[tuple[str, str], ...] = ()


def gallery(found: Figures) -> tuple[Picture, ...]:
    """Every picture, in the order of the page; one whose numbers nobody gave is not *drawn*."""
    return cumulative_flow(found), cycle_time(found), runs_per_completion(found), outcomes(found), cost(found)


def cumulative_flow(found: Figures) -> Picture:
    """How many cards stood in each band over time."""
    shown = [place for place, _ in enumerate(BANDS) if any(sample.counts[place] for sample in found.samples)]
    bands = [Area(BANDS[place], [sample.counts[place] for sample in found.samples]) for place in shown]
    said = f"How many cards stood where, from {_instant(found.samples[0])} to {_instant(found.samples[-1])} UTC"
    wide = found.samples[-1].at - found.samples[0].at > 2 * _DAY
    labels = [moment(sample.at).strftime("%-d %b" if wide else "%H:%M") for sample in found.samples]
    drawn = areas("flow", "Cumulative flow", said, bands, labels) if bands else None
    rows = tuple((_instant(sample), *map(str, sample.counts)) for sample in found.samples[:: len(found.samples) // 12])
    headings = ("At (UTC)", *(_SAID[name] for name in BANDS))
    key = _key(BANDS[place] for place in reversed(shown))
    return Picture("flow", "Cumulative flow", said, drawn, headings, rows, key)


def cycle_time(found: Figures) -> Picture:
    """How long cards took from their first claim to their completion."""
    ranks = found.flow["cycle_time"]
    said = "From the first claim to the completion"
    if ranks["count"]:
        said += f": half within {_age(ranks['p50'])}, 85 % within {_age(ranks['p85'])}, all within {_age(ranks['max'])}"
    heights = [Bar(name, count, f"{name}: {count} cards") for name, count in found.cycles.items()]
    drawn = bars("cycle", "Cycle time", said, heights) if ranks["count"] else None
    rows = tuple((name, str(count)) for name, count in found.cycles.items())
    return Picture("cycle", "Cycle time", said, drawn, ("Took", "Cards"), rows)


def runs_per_completion(found: Figures) -> Picture:
    """How many runs a completed card had needed."""
    shares = found.flow["runs_per_completion"]["distribution"]
    said = "How many runs a card needed until it was completed"
    heights = [Bar(runs, count, f"{runs} runs: {count} cards") for runs, count in shares.items()]
    drawn = bars("needed", "Runs per completion", said, heights) if heights else None
    rows = tuple((runs, str(count)) for runs, count in shares.items())
    return Picture("needed", "Runs per completion", said, drawn, ("Runs", "Cards"), rows)


def outcomes(found: Figures) -> Picture:
    """What the runs of each worker came to."""
    said = "What the runs of each worker came to"
    lying = [Stack(worker, parts) for worker, parts in found.outcomes.items()][:_MOST_WORKERS]
    drawn = stacks("ends", "Outcomes by worker", said, lying) if lying else None
    headings = ("Worker", *(_SAID[name] for name in ENDS))
    rows = tuple((worker, *(str(parts[name]) for name in ENDS)) for worker, parts in found.outcomes.items())
    present = [name for name in ENDS if any(parts[name] for parts in found.outcomes.values())]
    return Picture("ends", "Outcomes by worker", said, drawn, headings, rows, _key(present))


_MOST_WORKERS: Final = 20


def cost(found: Figures) -> Picture:
    """What the runs of each day said that they cost."""
    days = found.flow["days"]
    total, unsaid = found.flow["usage"]["cost"], found.flow["usage"]["runs_without_usage"]
    said = f"What runs cost by the day on which they ended, {total or 'nothing'} in all; {unsaid} runs did not say it"
    heights = [Bar(_day(day), float(day["cost"] or 0), f"{day['day']}: {day['cost'] or 'unknown'}") for day in days]
    drawn = bars("cost", "Cost", said, heights) if total is not None else None
    rows = tuple((day["day"], str(day["runs"]), _number(day["tokens"]), day["cost"] or "–") for day in days)
    return Picture("cost", "Cost", said, drawn, ("Day (UTC)", "Runs", "Tokens", "Cost"), rows)


def headline(found: Figures) -> tuple[tuple[str, str], ...]:
    """The numbers at the top of the page: what, and how much."""
    flow: Any = found.flow
    return (
        ("Created", str(flow["created"])),
        ("Completed", str(flow["completed"])),
        ("Failed", str(flow["failed"])),
        ("Runs", str(flow["runs"])),
        ("Median cycle time", _age(flow["cycle_time"]["p50"])),
        ("Median lead time", _age(flow["lead_time"]["p50"])),
        ("Tokens", _number(flow["usage"]["tokens"])),
        ("Cost", flow["usage"]["cost"] or "–"),
    )


def _key(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _SAID[name]) for name in names)


def _age(seconds: int | None) -> str:
    return "–" if seconds is None else show_age(seconds)


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _instant(sample: Sample) -> str:
    return rfc3339(sample.at)[:16].replace("T", " ")


def _day(day: Mapping[str, Any]) -> str:
    return date.fromisoformat(day["day"]).strftime("%-d %b")
