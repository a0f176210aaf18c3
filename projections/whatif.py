"""What other limits would have made of a log: the first decision of each card that differs, and where knowledge ends.

Pure, beside the fold of the board as it was. Up to the first decision that differs the two histories of a card are one.
From there on the log tells of the other one only what follows from a hold: no run starts under it until a person acts.
What a run that never was would have come to, nobody knows; nor what became of the cards that waited for it, and each
card is looked at alone: a slot that would have been free is given to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ledger.events import ENDINGS
from ledger.recorded import Recorded
from projections.budgets import Budget, lift, tripped
from projections.policy import Policy
from projections.task import Hold, Task
from projections.tried import Fate, Held, Tried, check_limits
from projections.usage import Used, summed, used_by
from projections.world import World

_ONLY_WORDS: Final = frozenset({"commented", "redacted"})
"""What people do to a card that changes nothing of it."""


def what_if(events: Iterable[Recorded], limits: Mapping[str, int | None], *, task: str | None = None) -> Tried:
    """What *limits* would have made of *events*, the whole log of a board; *task*: only that card is reported.

    They stand throughout, whatever the log's `policy_changed` say of them; a card's own `max_retries` goes on to win.
    Raises `InvalidInput` for a limit that cannot be tried, `UnknownKind` and `NewerSchema` for what cannot be read.
    """
    check_limits(limits)
    trial = _Trial(limits)
    for event in events:
        trial.take(event)
    return trial.end(task)


class _Ended(NamedTuple):
    """A run ended; the next event of its card tells what the log made of that."""

    event: Recorded
    instead: Budget | None
    after: Task


class _Trial:
    """One pass over a log beside its fold."""

    def __init__(self, limits: Mapping[str, int | None]) -> None:
        self.limits: dict[str, Any] = dict(limits)
        self.world = World()
        self.count = 0
        self.fates: dict[str, Fate] = {}
        self.unknown: dict[str, tuple[int, str]] = {}
        self._ended: _Ended | None = None
        self._held: set[str] = set()
        """Cards under a hold that a tick may lift."""

    @property
    def policy(self) -> Policy:
        """The policy in force, with the limits that are tried."""
        return self.world.settings.policy._replace(**self.limits)

    def take(self, event: Recorded) -> None:
        """Go on by one event."""
        was = self.world.tasks.get(event.task)
        if event.kind != "violation":
            self._decided(event, was)
        self.world.evolve(event)
        self.count += 1
        if event.task == "":
            self._policy_moved(event)
        elif event.task in self.fates:
            self._afterwards(event)
        elif self._is_known(event.task):
            self._goes_on(event, was)
        self._spreads(event)

    def end(self, task: str | None) -> Tried:
        """The log is over: no run's end is followed by anything any more."""
        self._compare(None)
        fates = [fate for fate in self.fates.values() if task in {None, fate.task}]
        return Tried(
            limits=self.limits,
            events=self.count,
            tasks=len(self.world.tasks),
            position=self.world.position,
            fates=tuple(fates),
            used={fate.task: self._used(fate) for fate in fates},
            unknown={card: why for card, why in self.unknown.items() if task in {None, card}},
        )

    def _is_known(self, task: str) -> bool:
        return task not in self.fates and task not in self.unknown

    # While both histories are one

    def _decided(self, event: Recorded, was: Task | None) -> None:
        """What the log decided by *event*, beside what the other limits come to."""
        self._compare(event)
        if was is not None and self._is_known(event.task) and _by_sweep(event) and lift(was, self.policy) is None:
            self._differs("held_longer", event.position, was, in_log=None, instead=_of_hold(was.hold))

    def _goes_on(self, event: Recorded, was: Task | None) -> None:
        """Remember what the next events of the card have to be looked at for."""
        now = self.world.tasks[event.task]
        if event.kind in ENDINGS and event.run is not None and was is not None:
            self._ended = _Ended(event, tripped(was, now, self.policy, ended_by=event.kind), now)
        if now.hold is None or now.hold.sticky or now.closed:
            self._held.discard(event.task)
            return
        self._held.add(event.task)
        if event.kind == "edited":
            self._may_lift(event, now)

    def _policy_moved(self, event: Recorded) -> None:
        if event.kind != "policy_changed":
            return
        for card in sorted(self._held):
            if self._is_known(card):
                self._may_lift(event, self.world.tasks[card])
        for fate in self.fates.values():
            if fate.known_until is None and lift(fate.stands, self.policy) is not None:
                self._ends(fate, event, "a limit was changed so that a tick could have lifted the hold")

    def _may_lift(self, event: Recorded, card: Task) -> None:
        """A tick could lift the hold from *event* on, which it could not by the policy of the log."""
        if lift(card, self.policy) is not None and lift(card, self.world.settings.policy) is None:
            self._differs("held_shorter", event.position, card, in_log=_of_hold(card.hold), instead=None)

    def _compare(self, event: Recorded | None) -> None:
        """A run has ended: *event* comes next, perhaps the hold that a budget set, for that is in the same append."""
        ended, self._ended = self._ended, None
        if ended is None:
            return
        in_log = None if event is None else _set_by(event)
        instead = None if ended.instead is None else _of_budget(ended.instead)
        if (in_log and in_log.cause) != (instead and instead.cause):
            decision = "held_otherwise" if in_log and instead else "held_earlier" if instead else "held_later"
            self._differs(decision, ended.event.position, ended.after, in_log, instead)

    def _differs(self, decision: str, position: int, card: Task, in_log: Held | None, instead: Held | None) -> None:
        stands = card._replace(hold=None if instead is None else _as_hold(instead, position))
        fate = self.fates[card.id] = Fate(card.id, position, decision, in_log, instead, stands)
        if not fate.leaves_held:
            more = max(self.policy.run_limit - card.runs, 0)
            fate.known_until = position
            fate.ended_by = f"without the hold it could have used up to {more} more runs, and nobody knows how they end"

    # After the first that differs

    def _afterwards(self, event: Recorded) -> None:
        fate = self.fates[event.task]
        if fate.known_until is not None:
            return
        if event.actor_kind == "operator" and event.kind not in _ONLY_WORDS:
            self._ends(fate, event, f"a person acted: {event.kind}")
        elif event.kind == "claimed" and event.run is not None:
            fate.runs.append(event.run)

    def _ends(self, fate: Fate, event: Recorded, why: str) -> None:
        fate.known_until, fate.ended_by = event.position, f"{why}, at position {event.position}"

    def _spreads(self, event: Recorded) -> None:
        """What an event leaves unknown that perhaps would not be there, or not so."""
        match event.kind:
            case "completed" | "reopened" if not self._is_known(event.task):
                for child in self.world.graph.children.get(event.task, ()):
                    self._lose(child, event, f"its parent {event.task} would perhaps not be {event.kind}")
            case "created":
                maker = (event.facts["made_by"] or {}).get("task")
                if maker is not None and not self._is_known(maker):
                    self._lose(event.task, event, f"a run of {maker} made it, which perhaps would not have been")
                self._waits(event, *(parent["task"] for parent in event.facts["parents"]))
            case "linked":
                self._waits(event, event.facts["parent"])

    def _waits(self, event: Recorded, *parents: str) -> None:
        for parent in parents:
            if not self._is_known(parent) and self.world.graph.outcomes.get(parent) is not None:
                self._lose(event.task, event, f"its parent {parent} would perhaps not be done")

    def _lose(self, card: str, event: Recorded, why: str) -> None:
        if self._is_known(card):
            self.unknown[card] = event.position, f"{why}, at position {event.position}"

    def _used(self, fate: Fate) -> Used:
        return summed(used_by(self.world.runs[fate.task, number]) for number in fate.runs)


def _set_by(event: Recorded) -> Held | None:
    """The hold that a budget set by *event*, or none."""
    if event.kind != "blocked" or event.run is not None or not event.facts["cause"].endswith("_budget"):
        return None
    facts = event.facts
    return Held(facts["cause"], facts["sticky"], facts["count"], facts["limit"], facts["limit_source"])


def _by_sweep(event: Recorded) -> bool:
    """Whether *event* lifts a hold because no budget is at its limit any more."""
    return event.kind == "unblocked" and event.facts["cause"] != "operator"


def _of_budget(budget: Budget) -> Held:
    return Held(budget.cause, budget.sticky, budget.count, budget.limit, budget.limit_source)


def _of_hold(hold: Hold | None) -> Held | None:
    return None if hold is None else Held(hold.cause, hold.sticky, hold.count, hold.limit, hold.limit_source)


def _as_hold(held: Held, position: int) -> Hold:
    return Hold(held.cause, None, held.sticky, held.count, held.limit, held.limit_source, position)
