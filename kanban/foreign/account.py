"""What the history of a card of the reference system says of it, as values. Pure.

What the events leave open stays open: a status is a set of those that are possible, a counter a range.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kanban.foreign.kinds import NEWER, OVER, STATUSES, Era
from kanban.foreign.tables import Event

Statuses = frozenset[str]
ONE: Final[Mapping[str, Statuses]] = MappingProxyType({status: frozenset({status}) for status in STATUSES})
"""Each status as the only one that is possible."""
BLOCKED: Final = ONE["blocked"]


class Count(NamedTuple):
    """A counter: at least *low*, at most *high* (none: no bound)."""

    low: int
    high: int | None

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.low <= value and (self.high is None or value <= self.high)

    def plus(self, least: int, most: int) -> Count:
        """Moved by *least* to *most*."""
        return Count(self.low + least, None if self.high is None else self.high + most)

    def or_(self, other: Count) -> Count:
        """Either of the two."""
        unbound = self.high is None or other.high is None
        return Count(min(self.low, other.low), None if unbound else max(self.high or 0, other.high or 0))


ZERO: Final = Count(0, 0)


class Block(NamedTuple):
    """The last typed block and how often it came back; *known*: whether the history says so."""

    kind: str | None = None
    recurrences: int = 0
    known: bool = False


class Budget(NamedTuple):
    """The arithmetic that a `gave_up` carries: how many of what, and the limit that it was measured by."""

    used: int | None
    limit: int | None
    what: str

    def __str__(self) -> str:
        return f"{self.used} of {self.limit} {self.what}"


class Hold(NamedTuple):
    """What blocks the card: the event, its kind, and the budget that it names, if any."""

    event: int
    kind: str
    budget: Budget | None = None


class Account(NamedTuple):
    """What the history of a card says of it. Numbers of events are ids of that system.

    *statuses*: those that are possible. *failures*: the counter; *counted*: the last events that make it; *unsure*:
    ends among them whose count may have been lost; *cleared*: the last that clears it in a second transaction.
    *sticky*: the `blocked` that no `unblocked` has followed, or 0. *run*: the open one; *claimed*: what opened it.
    *named*: whether the assignee is known. *whole*: whether the history begins with `created`. *moved*: what set the
    status; *strange*: the last of an unknown kind, or 0.
    """

    task: str
    statuses: Statuses = STATUSES
    failures: Count = Count(0, None)
    block: Block = Block()
    hold: Hold | None = None
    sticky: int = 0
    run: int | None = None
    claimed: int = 0
    assignee: str | None = None
    named: bool = False
    parents: frozenset[str] = frozenset()
    whole: bool = False
    first: int = 0
    moved: int = 0
    counted: tuple[int, ...] = ()
    unsure: int = 0
    cleared: int = 0
    strange: int = 0

    @property
    def status(self) -> str | None:
        """The one status that is possible, or none."""
        return next(iter(self.statuses)) if len(self.statuses) == 1 else None


def satisfied(parent: Account | None) -> bool | None:
    """Whether *parent* (none: not on the board) stands in nobody's way; none where its history leaves it open."""
    if parent is None or parent.statuses <= OVER:
        return True
    return None if parent.statuses & OVER else False


def budget_of(event: Event) -> Budget | None:
    """The budget that a `gave_up` says is used up; none where it names no limit."""
    count, limit = event.number("protocol_violations"), event.number("protocol_violation_limit")
    if count is not None and limit is not None:
        return Budget(count, limit, "exits without a word")
    limit = event.number("effective_limit")
    return None if limit is None else Budget(event.number("failures"), limit, "failures")


def stoppable(era: Era) -> Statuses:
    """Where a `gave_up` blocks a card and stores its counter."""
    return frozenset({"running", "ready", "review"} if era.high >= NEWER else {"running", "ready"})
