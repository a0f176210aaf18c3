"""What our rules would have done: the same history told in our events and folded by `evolve` and the budgets (§4–5).

Up to the first run that our rules would not have started this is what would have been. The runs after it would not
have been, so nothing is known of them; only an act of a person sets the count to zero in both, and from there on it
is what would have been if people had acted the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from json import dumps
from typing import Any, Final

from kanban.endings import blocked_by
from kanban.foreign.account import Account
from kanban.foreign.findings import Sure
from kanban.foreign.kinds import FREED, KNOWN
from kanban.foreign.tables import Event
from ledger.events import SCHEMAS, Outcome
from ledger.recorded import Recorded
from projections.budgets import lift, tripped
from projections.policy import Policy
from projections.task import Card, Hold, Task, evolve

POLICY: Final = Policy()
"""Our limits where a card has none of its own: the other system's are not on its board."""
_ASKED: Final = frozenset({1, 2, 15})
"""HUP, INT, TERM: somebody asked it to stop (§6)."""
_ASKED_CODES: Final = frozenset({129, 130, 143})
_OUTCOMES: Final = {
    "timed_out": Outcome.TIMED_OUT, "stale": Outcome.STALLED, "spawn_failed": Outcome.SPAWN_FAILED,
    "protocol_violation": Outcome.CLEAN, "rate_limited": Outcome.RATE_LIMITED, "reclaimed": Outcome.LOST,
    "reconciled": Outcome.LOST,
}  # fmt: skip
_BLOCKS: Final = frozenset({"blocked", "block_loop_detected", "dependency_wait"})
_AT_WORK: Final = frozenset({"todo", "ready", "review"})
_PERSON: Final = frozenset({"unblocked", "promoted_manual", "status", "review_reopened"})


@dataclass(slots=True)
class Difference:
    """A hold of ours under which that system went on. *runs*: those that would not have started, until *until*."""

    task: str
    at: int
    cause: str
    count: int | None
    limit: int | None
    limit_source: str | None
    sure: Sure
    runs: list[int] = field(default_factory=list)
    known_until: int = 0
    until: int | None = None
    finished: bool = False

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger audit --json` prints below `ours`."""
        shown = {name: getattr(self, name) for name in self.__slots__ if name not in {"sure", "at"}}
        return {**shown, "held_at": self.at, "certainty": str(self.sure), "not_started": len(self.runs)}


class Ours:
    """One card told in our events. Positions are the ids of that system's events."""

    def __init__(self, task: str, max_retries: int | None) -> None:
        own = max_retries if max_retries is not None and max_retries >= 1 else None
        self._task = Task(task, card=Card(max_retries=own))
        self._now: Difference | None = None
        self._sure = Sure.CERTAIN
        self.found: list[Difference] = []

    def see(self, event: Event, now: Account) -> None:
        """*event*, after which the history of the card comes to *now*."""
        kind = event.kind
        if not now.whole and self._sure is Sure.CERTAIN:
            self._sure = Sure.LIKELY  # the counts are at least what is told here
        if kind not in KNOWN:
            self._sure = Sure.UNKNOWN
        elif kind == "claimed":
            self._claimed(event, now)
        elif kind in _PERSON or (kind == "reclaimed" and event.facts.get("manual")):
            self._acted(event)
        elif kind == "assigned":
            self._assigned(event)
        elif self._now is None:
            self._told(event, now)
        elif kind == "completed":
            self._now.finished = True

    # What goes on in both

    def _claimed(self, event: Event, now: Account) -> None:
        run = now.run or 0
        if self._now is None and self._task.run is not None:
            self._end("exited", event, Outcome.LOST, {"not_before": None})
        if self._now is None and self._task.hold is not None:
            self._now = _difference(self._task, self._task.hold, event, self._sure)
            self.found.append(self._now)
        if self._now is not None:
            self._now.runs.append(run)
        else:
            self._apply("claimed", event, run=run)

    def _told(self, event: Event, now: Account) -> None:
        kind = event.kind
        if kind == "created":
            self._created(event, now)
        elif kind == "completed":
            self._end("completed", event, Outcome.OK, {})
        elif kind in FREED:
            self._end("exited", event, _outcome(event), {"not_before": None})
        elif kind == "gave_up" and event.run is not None and self._task.run is not None:
            self._end("exited", event, _of_trigger(event), {})
        elif kind in {"review_requested", "changes_requested"}:
            self._end(kind, event, None, {"reviewer": None})
        elif kind in _BLOCKS and not event.facts.get("classified_in_place"):
            self._end("blocked", event, None, _block(event, by_worker=self._task.run is not None))

    def _created(self, event: Event, now: Account) -> None:
        card = self._task.card._replace(assignee=now.assignee, last_assignee=now.assignee)
        self._task = Task(self._task.id, card=card)
        if now.status == "blocked":
            self._end("blocked", event, None, _block(event, by_worker=False))

    def _end(self, kind: str, event: Event, outcome: Outcome | None, facts: dict[str, Any]) -> None:
        """The event that ends a run, and the block of the budget that it trips."""
        before = self._task
        self._apply(kind, event, run=before.run, outcome=outcome, facts=facts)
        if before.run is None and kind != "exited":
            return
        budget = tripped(before, self._task, POLICY, ended_by=kind)
        if budget is not None:
            self._apply("blocked", event, facts=blocked_by(budget).model_dump(mode="json"))

    # What people do, and what is only known if they had done the same

    def _acted(self, event: Event) -> None:
        self._resume(event)
        self._task = self._task._replace(run=None)
        if self._task.closed:
            self._apply("reopened", event)
        elif event.kind != "status" or event.text("status") in _AT_WORK:
            self._apply("unblocked", event, facts={"cause": "operator"})

    def _assigned(self, event: Event) -> None:
        self._apply("assigned", event, facts={"role": "assignee", "to": event.text("assignee") or None})
        cause = lift(self._task, POLICY)
        if cause is not None:
            self._resume(event)
            self._apply("unblocked", event, facts={"cause": cause})

    def _resume(self, event: Event) -> None:
        """A person acted: what was hypothetical ends here."""
        if self._now is not None:
            self._now.until = event.id
            self._now = None
            self._sure = Sure.LIKELY if self._sure is Sure.CERTAIN else self._sure

    def _apply(
        self,
        kind: str,
        event: Event,
        *,
        run: int | None = None,
        outcome: Outcome | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        text = "{}" if not facts else _encoded(tuple(facts.items()))
        version, at = self._task.version + 1, (event.at or 0) * 1_000_000
        self._task = evolve(
            self._task,
            Recorded("", event.id, event.task, version, kind, SCHEMAS[kind], at, "system", "", "", run,
                     None if outcome is None else str(outcome), None, text, b"", b""),
        )  # fmt: skip


@lru_cache(maxsize=4_096)
def _encoded(facts: tuple[tuple[str, Any], ...]) -> str:
    return dumps(dict(facts))


def _difference(task: Task, hold: Hold, event: Event, sure: Sure) -> Difference:
    return Difference(
        task.id, hold.position, hold.cause, hold.count, hold.limit, hold.limit_source, sure, known_until=event.id
    )


def _outcome(event: Event) -> Outcome:
    """How our rules book that end (§6): as far as the event says, its evidence; a lease that ran out is nobody's."""
    if event.facts.get("infrastructure"):
        return Outcome.INTERRUPTED
    if event.kind != "crashed":
        return _OUTCOMES[event.kind]
    if event.facts.get("terminal_provider"):
        return Outcome.CONFIG
    code = event.number("exit_code")
    asked = _ASKED if event.text("exit_kind") == "signaled" else _ASKED_CODES
    return Outcome.INTERRUPTED if code in asked else Outcome.CRASHED


def _of_trigger(event: Event) -> Outcome:
    return {"spawn_failed": Outcome.SPAWN_FAILED, "timed_out": Outcome.TIMED_OUT}.get(
        event.text("trigger_outcome"), Outcome.CRASHED
    )


def _block(event: Event, *, by_worker: bool) -> dict[str, Any]:
    return {
        "cause": "worker" if by_worker else "operator",
        "block_kind": None,
        "hold": event.kind != "dependency_wait",
        "sticky": True,
        "count": None,
        "limit": None,
        "limit_source": None,
    }
