"""What a trial of other limits comes to: where each card would part from the log, what that saved, what is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from ledger.errors import InvalidInput
from projections.task import Task
from projections.usage import Used, summed

LIMITS: Final = ("failure_limit", "violation_limit", "attempt_limit", "neutral_limit", "run_limit")
"""What can be tried: the other limits decide how long a run takes, and what it would have done then is not told."""
NOTES: Final = (
    "each card is looked at alone: slots that would have been free are given to nobody",
    "runs that would not have started are counted until a person acts on their card: what comes then is unknown",
    "what comes after a hold that would not have come, or would have been lifted, is unknown",
)


def check_limits(limits: Mapping[str, int | None]) -> None:
    """Raise `InvalidInput` for a name that cannot be tried, or for a number that is no limit."""
    for name, value in limits.items():
        if name not in LIMITS:
            raise InvalidInput(f"{name!r} cannot be tried", remedy=f"one of: {', '.join(LIMITS)}")
        unset = value is None and name == "attempt_limit"
        if not unset and (not isinstance(value, int) or value < 1):
            raise InvalidInput(f"{name} is {value}; a limit is a whole number from 1")


@dataclass(frozen=True, slots=True)
class Held:
    """A hold that a budget sets."""

    cause: str
    sticky: bool
    count: int | None
    limit: int | None
    limit_source: str | None

    def __str__(self) -> str:
        return f"{self.cause}: {self.count} of {self.limit} ({self.limit_source})"


@dataclass(slots=True)
class Fate:
    """The first decision about a card that would differ, and what is known of the time after it.

    *decision*: `held_earlier` (the log has no hold there), `held_later` (the log's hold would not have come),
    `held_otherwise` (by another budget, which other acts lift), `held_longer` (the sweep would not have lifted the
    hold), `held_shorter` (a tick could have lifted it). *runs* would not have started. *known_until* is the position
    at which knowledge ends, none: it reaches to the end of the log; *ended_by* says why.
    """

    task: str
    position: int
    decision: str
    in_log: Held | None
    instead: Held | None
    stands: Task
    runs: list[int] = field(default_factory=list)
    known_until: int | None = None
    ended_by: str | None = None

    @property
    def leaves_held(self) -> bool:
        """Whether the card would be held from there on: of what follows a hold something is known."""
        return self.instead is not None


class Tried(NamedTuple):
    """What limits came to: the cards that differ in the order of the log, and those that became unknown by others."""

    limits: dict[str, int | None]
    events: int
    tasks: int
    position: int
    fates: tuple[Fate, ...]
    used: dict[str, Used]
    unknown: dict[str, tuple[int, str]]

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger replay --what-if --json` prints."""
        return {
            "what_if": self.limits,
            "events": self.events,
            "tasks": self.tasks,
            "position": self.position,
            "cards": [_fate_json(fate, self.used[fate.task]) for fate in self.fates],
            "unknown": [{"task": task, "since": at, "because": why} for task, (at, why) in self.unknown.items()],
            "totals": self.totals,
            "notes": list(NOTES),
        }

    @property
    def totals(self) -> dict[str, Any]:
        """How many cards differ and how, and what would have been saved as far as that is known."""
        kinds = Counter(fate.decision for fate in self.fates)
        decisions = ("held_earlier", "held_later", "held_otherwise", "held_longer", "held_shorter")
        saved = summed(self.used.values())
        return {
            "cards": len(self.fates),
            **{decision: kinds[decision] for decision in decisions},
            "unknown": len(self.unknown),
            "runs_saved": saved.runs,
            "seconds": saved.seconds,
            "tokens": saved.tokens,
            "cost": saved.cost,
            "runs_without_usage": saved.unsaid,
        }


def _fate_json(fate: Fate, used: Used) -> dict[str, Any]:
    return {
        "task": fate.task,
        "position": fate.position,
        "decision": fate.decision,
        "rule": "§5",
        "in_log": None if fate.in_log is None else asdict(fate.in_log),
        "instead": None if fate.instead is None else asdict(fate.instead),
        "runs": fate.runs if fate.leaves_held else None,
        "seconds": used.seconds,
        "tokens": used.tokens,
        "cost": used.cost,
        "runs_without_usage": used.unsaid,
        "known_until": fate.known_until,
        "ended_by": fate.ended_by,
    }
