"""`ledger replay --what-if`: other limits, tried on the log."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from cli.output import Out, clean
from cli.wiring import Call, number
from ledger.clock import show_age
from ledger.errors import InvalidInput
from projections.tried import LIMITS, check_limits

if TYPE_CHECKING:
    from projections.tried import Fate, Tried

_ROWS: Final = 50
_WAYS: Final = {
    "held_earlier": "held earlier",
    "held_later": "held later or never",
    "held_otherwise": "held by another budget",
    "held_longer": "not lifted",
    "held_shorter": "lifted earlier",
}


def try_limits(call: Call, said: Sequence[str], task: str | None, *, until: int | None = None) -> None:
    """Print what the limits that were *said*, as `failure_limit=1`, would have made of the log up to *until*."""
    found = call.board.what_if(parsed(said), task=task, until=until)
    if call.out.json:
        call.out.answer(found.as_json())
    else:
        _shown(call.out, found)


def parsed(said: Sequence[str]) -> dict[str, int | None]:
    """The limits by name. Raises `InvalidInput`."""
    limits: dict[str, int | None] = {}
    for each in said:
        name, equals, value = each.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise InvalidInput(f"--what-if is {each!r}; wanted LIMIT=N, as failure_limit=1")
        if name not in LIMITS:
            near = get_close_matches(name, LIMITS, n=1, cutoff=0.6) or [f"one of: {', '.join(LIMITS)}"]
            raise InvalidInput(f"{name!r} cannot be tried", remedy=near[0])
        if name in limits:
            raise InvalidInput(f"{name} is said twice")
        limits[name] = number(value, name)
    check_limits(limits)
    return limits


def _shown(out: Out, found: Tried) -> None:
    tried = ", ".join(f"{name}={'none' if value is None else value}" for name, value in found.limits.items())
    out.line(f"{tried}, on {found.events} events and {found.tasks} cards")
    headings = ("CARD", "POSITION", "WOULD BE", "IN THE LOG", "INSTEAD", "RUNS SAVED", "COST", "KNOWN UNTIL")
    out.table(headings, [_row(fate, found) for fate in found.fates[:_ROWS]], empty="no decision would have differed")
    if len(found.fates) > _ROWS:
        out.note(f"there are {len(found.fates) - _ROWS} cards more: --json has them all")
    for line in _totals(found.totals):
        out.line(line)
    for note in found.as_json()["notes"] if found.fates else ():
        out.note(f"note: {note}")


def _row(fate: Fate, found: Tried) -> tuple[Any, ...]:
    in_log = fate.in_log or ("went on" if fate.decision == "held_earlier" else "lifted")
    used = found.used[fate.task]
    until = "the end" if fate.known_until is None else fate.known_until
    runs = len(fate.runs) if fate.leaves_held else "unknown"
    return fate.task, fate.position, _WAYS[fate.decision], in_log, fate.instead or "no hold", runs, used.cost, until


def _totals(totals: dict[str, Any]) -> list[str]:
    ways = [f"{totals[name]} {told}" for name, told in _WAYS.items() if totals[name]]
    lines = [f"cards: {clean(', '.join(ways))}"] if ways else []
    if totals["unknown"]:
        lines.append(f"{totals['unknown']} cards more became unknown, because others would have gone another way")
    if totals["runs_saved"]:
        lines.append(_saved(totals))
    return lines


def _saved(totals: dict[str, Any]) -> str:
    parts = [f"runs that would not have started: at least {totals['runs_saved']}"]
    if totals["seconds"] is not None:
        parts.append(f"they took {show_age(totals['seconds'])}")
    if totals["tokens"] is not None:
        parts.append(f"{totals['tokens']} tokens")
    if totals["cost"] is not None:
        parts.append(f"cost {totals['cost']}")
    if totals["runs_without_usage"]:
        parts.append(f"{totals['runs_without_usage']} of them did not say all that they used")
    return "; ".join(parts)
