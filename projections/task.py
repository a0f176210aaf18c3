"""The whole meaning of a card's log: `evolve`, and the status that its state computes (RULES §3–4).

Pure: no clock, no database, no randomness, no words. Time is compared at query time only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ledger.errors import UnknownKind
from ledger.events import COUNTED, NEUTRAL, SCHEMAS, Outcome
from ledger.recorded import Recorded
from ledger.upcasters import check_readable
from projections.folding import shared


class Card(NamedTuple):
    """What people say about a card: changed by few kinds of event, shared by the states between them."""

    assignee: str | None = None
    reviewer: str | None = None
    last_assignee: str | None = None
    last_reviewer: str | None = None
    priority: int = 0
    labels: tuple[str, ...] = ()
    tenant: str | None = None
    max_retries: int | None = None
    max_runtime: int | None = None
    workspace: str = "scratch"
    goal_max_turns: int | None = None
    host: str | None = None
    key: str | None = None
    made_by_task: str | None = None
    made_by_run: int | None = None
    title_position: int = 0
    body_position: int = 0
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a card is blocked. One at a time; *sticky*: only a person lifts it."""

    cause: str
    kind: str | None
    sticky: bool
    count: int | None
    limit: int | None
    limit_source: str | None
    position: int


class Task(NamedTuple):
    """A card's state: the inputs of its status and of every budget. `open_parents` is moved by the graph alone."""

    id: str
    card: Card = Card()
    version: int = 0
    position: int = 0
    updated_at: int = 0
    lane: str = "work"
    failures: int = 0
    streak: int = 0
    spent: int = 0
    neutral: int = 0
    runs: int = 0
    last_run: int = 0
    run: int | None = None
    hold: Hold | None = None
    not_before: int | None = None
    scheduled: int | None = None
    outcome: str | None = None
    archived: bool = False
    open_parents: int = 0

    @property
    def worker(self) -> str | None:
        """In lane review the reviewer, in the other lanes the assignee (RULES §1)."""
        return self.card.reviewer if self.lane == "review" else self.card.assignee

    @property
    def done(self) -> bool:
        """Whether the last of completed / reopened is completed."""
        return self.outcome is not None

    @property
    def closed(self) -> bool:
        """Done or archived."""
        return self.archived or self.outcome is not None

    def frozen(self) -> Task:
        """This state, whatever comes: itself, which never changes."""
        return self

    def seen(self, event: Recorded, **changes: Any) -> Task:
        """The next state: *changes*, and that *event* was the last."""
        values = [*self[:2], event.version, event.position, event.at, *self[5:]]
        for name, value in changes.items():
            values[_PLACE[name]] = value
        return tuple.__new__(Task, values)


_PLACE = {name: place for place, name in enumerate(Task._fields)}
EPOCH: dict[str, Any] = {"failures": 0, "streak": 0, "spent": 0, "neutral": 0, "runs": 0}
"""What every start of an epoch writes: counters from zero; the history stays."""


def evolve(task: Task, event: Recorded) -> Task:
    """What *event* makes of *task*. Total: a fact is never refused here (RULES §4).

    Raises `UnknownKind`, `NewerSchema`: an event that this program cannot read is not skipped (RULES §2).
    """
    if SCHEMAS.get(event.kind) != event.schema:
        check_readable(event.kind, event.schema, position=event.position)
    match event.kind:
        case ("progressed" | "worker_bound" | "commented" | "linked" | "unlinked" | "stop_requested" | "violation"
              | "late_result" | "redacted"):  # fmt: skip
            return task.seen(event)
        case "claimed":
            return task.seen(event, run=event.run, last_run=event.run, runs=task.runs + 1, scheduled=None)
        case "exited" if event.outcome in COUNTED:
            return task.seen(event, run=None, failures=task.failures + 1, streak=0, spent=task.spent + 1, neutral=0)
        case "exited" if event.outcome == Outcome.CLEAN:
            return task.seen(event, run=None, streak=task.streak + 1, spent=task.spent + 1, neutral=0)
        case "exited" if event.outcome in NEUTRAL:
            return task.seen(event, run=None, neutral=task.neutral + 1, not_before=event.facts["not_before"])
        case "exited" if event.outcome == Outcome.CONFIG:
            return task.seen(event, run=None, failures=task.failures + 1, streak=0, spent=task.spent + 1, neutral=0,
                             hold=Hold("config", None, True, None, None, None, event.position))  # fmt: skip
        case "completed":
            return task.seen(event, **EPOCH, run=None, hold=None, outcome=event.outcome)
        case "blocked":
            return _blocked(task, event)
        case "review_requested":
            return task.seen(event, run=None, streak=0, neutral=0, lane="review", card=_reviewed(task.card, event))
        case "changes_requested":
            return task.seen(event, run=None, streak=0, neutral=0, lane="work")
        case "unblocked" if event.facts["cause"] == "operator":
            return task.seen(event, **EPOCH, hold=None, not_before=None)
        case "unblocked":
            return task.seen(event, hold=None)
        case "assigned":
            return _assigned(task, event)
        case "reopened":
            return task.seen(event, **EPOCH, hold=None, lane="work", scheduled=None, not_before=None,
                             outcome=None, archived=False)  # fmt: skip
        case "archived":
            return task.seen(event, archived=True)
        case "scheduled":
            return task.seen(event, scheduled=event.facts["not_before"])
        case "created":
            return _created(task, event)
        case "edited":
            return _edited(task, event)
        case _:
            raise UnknownKind(event.kind, event.position)


def status(task: Task) -> str:
    """The status of *task*: the first match of RULES §3. It is computed, never stored and never set."""
    if task.archived:
        return "archived"
    if task.outcome is not None:
        return "done"
    if task.run is not None:
        return "running"
    if task.hold is not None:
        return "blocked"
    if task.lane == "triage":
        return "triage"
    if task.open_parents > 0:
        return "todo"
    if task.scheduled is not None:
        return "scheduled"
    return "review" if task.lane == "review" else "ready"


def claimable(task: Task, now: int) -> bool:
    """Whether a run may be opened at *now* (microseconds UTC), as far as the card itself says (RULES §3)."""
    return status(task) in {"scheduled", "review", "ready"} and (task.scheduled or 0) <= now >= (task.not_before or 0)


def _blocked(task: Task, event: Recorded) -> Task:
    facts = event.facts
    hold = task.hold
    if facts["hold"]:
        hold = Hold(facts["cause"], facts["block_kind"], facts["sticky"], facts["count"], facts["limit"],
                    facts["limit_source"], event.position)  # fmt: skip
    if event.run is None:
        return task.seen(event, hold=hold)
    return task.seen(event, run=None, streak=0, neutral=0, hold=hold)


def _reviewed(card: Card, event: Recorded) -> Card:
    reviewer = event.facts["reviewer"] or card.reviewer
    return card._replace(reviewer=reviewer, last_reviewer=reviewer or card.last_reviewer)


def _assigned(task: Task, event: Recorded) -> Task:
    role, to = event.facts["role"], event.facts["to"]
    last = task.card.last_assignee if role == "assignee" else task.card.last_reviewer
    card = task.card._replace(**{role: to, f"last_{role}": to or last})
    if to is None or to == last:
        return task.seen(event, card=card)
    return task.seen(event, card=card, **EPOCH, not_before=None)


def _created(task: Task, event: Recorded) -> Task:
    facts = event.facts
    assignee = shared(facts["assignee"])
    made_by = facts["made_by"] or {"task": None, "run": None}
    card = Card(
        assignee=assignee,
        last_assignee=assignee,
        priority=facts["priority"],
        labels=tuple(facts["labels"]),
        tenant=facts["tenant"],
        max_retries=facts["max_retries"],
        max_runtime=facts["max_runtime"],
        workspace=shared(facts["workspace"]),
        goal_max_turns=facts["goal"]["max_turns"] if facts["goal"] else None,
        host=facts["host"],
        key=facts["key"],
        made_by_task=made_by["task"],
        made_by_run=made_by["run"],
        title_position=event.position,
        body_position=event.position,
        created_at=event.at,
    )
    return task.seen(event, card=card, lane=facts["lane"])


def _edited(task: Task, event: Recorded) -> Task:
    values = dict(event.facts["values"])
    lane = values.pop("lane", task.lane)
    if "labels" in values:
        values["labels"] = tuple(values["labels"])
    if "goal" in values:
        goal = values.pop("goal")
        values["goal_max_turns"] = goal["max_turns"] if goal else None
    for word in ("title", "body"):
        if word in event.facts["fields"]:
            values[f"{word}_position"] = event.position
    return task.seen(event, lane=lane, card=task.card._replace(**values))
