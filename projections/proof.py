"""The smallest set of events that gives what is told of a card: proofs that anybody can check by folding. Pure.

A slice of a log is folded as the whole log is (`told`): the card from `Task(id)` by `evolve`, links by the graph, the
board's own state from its defaults. A card of which the slice has no event has no status, and nobody asks why it was
not started; its counters are 0, and it has no hold. Told of a hold is the hold in force and, where a budget set it,
the count that the slice itself comes to at that moment.

The law of a `Proof`: its events alone give its value, and without any one of them they do not. What could be proved
is found by meaning, newest first, so that the length of a card's life does not matter; then it is folded and tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from ledger.recorded import Recorded
from projections.clauses import Clause, clause_of
from projections.graph import satisfied
from projections.kept import Kept, kept
from projections.moment import Moment
from projections.settings import Settings
from projections.task import Card, Hold, Task, evolve, status
from projections.world import World

COUNTED_BY: Final = {
    "violation_budget": "streak",
    "neutral_budget": "neutral",
    "run_budget": "runs",
    "failure_budget": "failures",
    "attempt_budget": "spent",
}
"""The counter that each budget counts (RULES §5)."""
Clump = tuple[Recorded, ...]
"""Events that are left out together or not at all: by counting, each of them is needed where one is."""


class Known(Protocol):
    """What is known of the card that is asked about, as it stands now."""

    @property
    def task(self) -> Task:
        """The folded card."""

    @property
    def now(self) -> int:
        """When it is asked, in microseconds UTC."""

    @property
    def settings(self) -> Settings:
        """The board's own state."""

    @property
    def live(self) -> int:
        """How many runs of the board are open."""

    @property
    def links(self) -> Mapping[str, str]:
        """Every parent of the card, and what the link to it requires."""

    @property
    def open_parents(self) -> Sequence[str]:
        """Those of its parents that are not satisfied."""

    def newest(self, *kinds: str) -> Iterator[Recorded]:
        """The card's events of these kinds, the newest first."""

    def at(self, position: int) -> Recorded | None:
        """The event at that position of the board's log."""

    def completed(self, parent: str) -> Recorded | None:
        """The newest `completed` of another card."""

    def claims(self, count: int) -> Iterable[Recorded]:
        """So many of the events that opened the board's live runs."""


class Proof(NamedTuple):
    """What is told *about* a card, the clause that makes it so, and the smallest set of events that gives it."""

    about: str
    value: Any
    clause: Clause
    events: Clump

    @property
    def positions(self) -> tuple[int, ...]:
        """Where its events stand."""
        return tuple(event.position for event in self.events)

    def as_json(self) -> dict[str, Any]:
        """A plain JSON object."""
        told_of = ("position", "task", "kind", "outcome")
        return {
            "about": self.about,
            "value": _json(self.value),
            "rule": self.clause.rule,
            "clause": self.clause.words,
            "events": [{name: getattr(event, name) for name in told_of} for event in self.events],
        }


def told(about: str, events: Iterable[Recorded], card: str, *, now: int) -> Any:
    """What *events* alone tell *about* the card (`status`, `failures`, `streak`, `hold`, `held`) at *now*."""
    if about not in {"status", "held"}:
        return _of_itself(about, card, events)
    moment = Moment(World())
    for event in events:
        moment.world.evolve(event)
        moment.take(event)
    task = moment.world.task(card)
    if task is None:
        return None
    return status(task) if about == "status" else kept(task, moment.world.settings, len(moment.live), now)


def _of_itself(about: str, card: str, events: Iterable[Recorded]) -> Any:
    """What the card's own events tell; no other card and no time has a part in it."""
    task, counted = Task(card), None
    for event in events:
        if event.task == card:
            after = evolve(task, event)
            if after.hold != task.hold:
                counted = None if after.hold is None else count_of(task, after.hold.cause)
            task = after
    return (task.hold, counted) if about == "hold" else getattr(task, about)


def count_of(task: Task, cause: str) -> int | None:
    """What the budget that is called *cause* counts of *task*; none where no budget is."""
    return getattr(task, COUNTED_BY[cause]) if cause in COUNTED_BY else None


def prove(about: str, known: Known) -> Proof | None:
    """The proof of what is told *about* a card; none where its log does not give what is known of it."""
    value = _value(about, known)
    if about == "status" and value == "todo":
        ways = [prove_waiting(known, parent) for parent in known.open_parents[:_TRIED]]
        return min((proof for proof in ways if proof is not None), key=lambda proof: len(proof.events), default=None)
    return _proved(about, value, _clumps(about, value, known), known)


def prove_waiting(known: Known, parent: str) -> Proof | None:
    """The proof that a card of status `todo` waits, by its link to *parent*."""
    return _proved("status", "todo", _waiting(known, parent), known)


def _proved(about: str, value: Any, clumps: Iterable[Clump], known: Known) -> Proof | None:
    events = smallest(clumps, lambda events: told(about, events, known.task.id, now=known.now) == value)
    return None if events is None else Proof(about, value, clause_of(about, value), events)


def smallest(clumps: Iterable[Clump], gives: Callable[[Clump], bool]) -> Clump | None:
    """The events of those *clumps* that cannot be left out: the first that can is left out first. In log order.

    None where not even all of them together are enough.
    """
    left = [clump for clump in clumps if clump]
    if not gives(_joined(left)):
        return None
    while spare := next((each for each in left if gives(_joined(left, without=each))), None):
        left = [each for each in left if each is not spare]
    return _joined(left)


def counted(known: Known, counter: str, count: int) -> Clump:
    """The newest *count* events each of which, alone, moves *counter* up; in log order.

    Nothing between them took the counter back, or it had not come to *count*. Under a hold no run opens, so that none
    is newer than a hold that stands.
    """
    moving = known.newest("exited", "claimed")
    up = (event for event in moving if getattr(evolve(_BLANK, event), counter) > getattr(_BLANK, counter))
    return tuple(islice(up, count))[::-1] if count else ()


def _value(about: str, known: Known) -> Any:
    task = known.task
    match about:
        case "status":
            return status(task)
        case "hold":
            counts = task.hold is not None and task.hold.cause in COUNTED_BY
            return task.hold, task.hold.count if counts and task.hold else None
        case "held":
            return kept(task, known.settings, known.live, known.now)
        case _:
            return getattr(task, about)


def _clumps(about: str, value: Any, known: Known) -> list[Clump]:
    """What should give *value*, and what could be left out of it: first what tells least."""
    match about, value:
        case "status", _:
            return _standing(known)
        case "hold", (Hold() as hold, count):
            return [counted(known, COUNTED_BY.get(hold.cause, ""), count or 0), _at(known, hold)]
        case "held", Kept() as found:
            return _keeping(known, found)
        case (("failures" | "streak"), _):
            return [counted(known, about, value)]
        case _:
            return []


def _standing(known: Known) -> list[Clump]:
    """The event that a status rests on, unless it is `todo`; of `ready` the last that could make it so."""
    task = known.task
    match status(task):
        case "archived":
            return [_first(known.newest("archived"))]
        case "done":
            return [_first(known.newest("completed"))]
        case "running":
            return [_first(known.newest("claimed"))]
        case "blocked" if task.hold is not None:
            return [_at(known, task.hold)]
        case "triage" | "review":
            return [_lane(known)]
        case "scheduled":
            return [_first(known.newest("scheduled"))]
        case _:
            return _alive(known, _first(event for event in known.newest(*_TURNS) if _turns(event)))


def _waiting(known: Known, parent: str) -> list[Clump]:
    """The link to *parent*, and what took a card that was born in triage out of it."""
    linked = _first(event for event in known.newest("linked", "created") if _links(event, parent))
    return [_lane(known), linked]


def _keeping(known: Known, found: Kept) -> list[Clump]:
    """What keeps a claimable card, beside what makes it claimable and whose it is."""
    stands, whose = _standing(known), _whose(known)
    match found.reason:
        case "cooldown_until":
            return [*whose, *stands, _first(known.newest("exited"))]
        case "paused" if found.scope == "host":
            born = _alive(known, _first(known.newest("created")))
            return [*whose, *stands, *born, _placed(known, found.position)]
        case "paused":
            return [*whose, *stands, _placed(known, found.position)]
        case "at_capacity":
            return [*stands, *whose, (*_placed(known, found.position), *known.claims(found.limit or 0))]
        case "scheduled_for":
            return [*whose, *stands]
        case _:
            return [*stands, *whose]


def _alive(known: Known, clump: Clump) -> list[Clump]:
    """*clump*; where it is a card's birth, with all that let the card go that it was born with: triage and parents."""
    if not clump or clump[0].kind != "created":
        return [clump]
    born = clump[0].facts
    out = _lane(known) if born["lane"] != "work" else ()
    ways = [event for parent in born["parents"] for event in _way(known, parent["task"], parent["require"])]
    return [clump, *((event,) for event in (*out, *ways))]


def _way(known: Known, parent: str, require: str) -> Clump:
    """Why a parent that a card was born with keeps it no more: unlinked, or done as the link has it."""
    if parent not in known.links:
        return _first(event for event in known.newest("unlinked") if event.facts["parent"] == parent)
    done = known.completed(parent)
    if done is None or satisfied(done.outcome, require):
        return () if done is None else (done,)
    return (*_first(event for event in known.newest("linked") if event.facts["parent"] == parent), done)


def _whose(known: Known) -> list[Clump]:
    """What gave the card the worker that it has now, and the lane in which it is that one's."""
    reviewed = known.task.lane == "review"
    role = "reviewer" if reviewed else "assignee"
    gave = (event for event in known.newest("created", "assigned", "review_requested") if _gives(event, role))
    return [*_alive(known, _first(gave)), _lane(known) if reviewed else ()]


def _lane(known: Known) -> Clump:
    moved = known.newest("created", "edited", "review_requested", "changes_requested", "reopened")
    return _first(event for event in moved if evolve(_BLANK, event).lane != _BLANK.lane)


def _at(known: Known, hold: Hold) -> Clump:
    return _placed(known, hold.position)


def _placed(known: Known, position: int | None) -> Clump:
    found = known.at(position or 0)
    return () if found is None else (found,)


_TRIED: Final = 8
"""So many parents are tried for the one whose link proves the wait alone: any link does that was made later than a
card born in triage was taken into work."""
_BLANK: Final = Task("", Card(assignee="?", reviewer="?"), lane="?", run=-1)
"""A card whose fields hold what no event writes: what an event changes of it, it sets."""
_TURNS: Final = (
    "exited", "blocked", "review_requested", "changes_requested", "unblocked", "reopened", "edited", "created",
)  # fmt: skip


def _turns(event: Recorded) -> bool:
    """Whether *event* ends a run, lifts a hold or sets a lane: what a card may be ready after."""
    after = evolve(_BLANK, event)
    return after.run is None or after.lane != _BLANK.lane or event.kind == "unblocked"


def _gives(event: Recorded, role: str) -> bool:
    return bool(getattr(evolve(_BLANK, event).card, role) != getattr(_BLANK.card, role))


def _links(event: Recorded, parent: str) -> bool:
    if event.kind == "linked":
        return bool(event.facts["parent"] == parent)
    return any(each["task"] == parent for each in event.facts["parents"])


def _first(events: Iterable[Recorded]) -> Clump:
    return tuple(islice(events, 1))


def _joined(clumps: Iterable[Clump], *, without: Clump | None = None) -> Clump:
    events = {event.position: event for clump in clumps if clump is not without for event in clump}
    return tuple(events[position] for position in sorted(events))


def _json(value: Any) -> Any:
    match value:
        case Kept():
            return value.as_json()
        case (Hold() as hold, count):
            names = ("cause", "kind", "sticky", "count", "limit", "limit_source", "position")
            return {**{name: getattr(hold, name) for name in names}, "counted": count}
        case (None, _):
            return None
        case _:
            return value
