"""What people and workers may ask for, as values; what a decision may look at; and what it answers (RULES §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

from ledger.errors import Refusal, UnknownTask
from ledger.events import Actor, Children
from ledger.recorded import Draft, Recorded
from projections.graph import Link, satisfied
from projections.run import Run, evolve_run
from projections.settings import Settings
from projections.task import Task, evolve

Verdict = Literal["ok", "fail"]


@dataclass(frozen=True, slots=True)
class Credential:
    """What proves a worker: the lock of its run, and the run's number when it knows it."""

    lock: str
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a worker says it used; none = unknown."""

    tokens: int | None = None
    cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Create:
    task: str
    title: str
    body: str | None = None
    assignee: str | None = None
    priority: int = 0
    parents: tuple[tuple[str, str], ...] = ()
    labels: tuple[str, ...] = ()
    tenant: str | None = None
    max_retries: int | None = None
    max_runtime: int | None = None
    workspace: str = "scratch"
    goal_max_turns: int | None = None
    lane: Literal["work", "triage"] = "work"
    host: str | None = None
    key: str | None = None
    blocked: str | None = None
    made_by: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    task: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Assign:
    task: str
    to: str | None
    force: bool = False
    role: Literal["assignee", "reviewer"] | None = None


@dataclass(frozen=True, slots=True)
class AddLink:
    task: str
    parent: str
    require: Literal["ok", "any"] = "ok"
    claim: Credential | None = None


@dataclass(frozen=True, slots=True)
class RemoveLink:
    task: str
    parent: str


@dataclass(frozen=True, slots=True)
class Comment:
    task: str
    body: str


@dataclass(frozen=True, slots=True)
class Schedule:
    task: str
    not_before: int
    reason: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class Archive:
    task: str
    children: Children | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class Reopen:
    task: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    task: str
    reason: str | None
    kind: str | None = None
    force: bool = False
    claim: Credential | None = None
    only_run: int | None = None
    """Meant for that run alone: refused once another, or none, is open."""


@dataclass(frozen=True, slots=True)
class Unblock:
    task: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Complete:
    task: str
    summary: str | None = None
    outcome: Verdict = "ok"
    result: str | None = None
    metadata: Any = None
    used: Spent | None = None
    force: bool = False
    claim: Credential | None = None


@dataclass(frozen=True, slots=True)
class Accept:
    task: str
    run: int


@dataclass(frozen=True, slots=True)
class AskReview:
    task: str
    claim: Credential
    summary: str | None = None
    reviewer: str | None = None


@dataclass(frozen=True, slots=True)
class AskChanges:
    task: str
    reason: str | None
    claim: Credential | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    task: str
    claim: Credential
    note: str | None = None
    used: Spent | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    scope: Literal["board", "assignee", "host"] = "board"
    name: str = ""
    drain: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    scope: Literal["board", "assignee", "host"] = "board"
    name: str = ""


@dataclass(frozen=True, slots=True)
class SetPolicy:
    changes: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Redact:
    position: int
    reason: str | None = None


BoardCommand = Pause | Resume | SetPolicy
CardCommand = (
    Create
    | Edit
    | Assign
    | AddLink
    | RemoveLink
    | Comment
    | Schedule
    | Archive
    | Reopen
    | Block
    | Unblock
    | Complete
    | Accept
    | AskReview
    | AskChanges
    | Progress
)


class View(Protocol):
    """The board as a decision sees it: read inside the lock, or folded in a test."""

    @property
    def now(self) -> int:
        """The instant of the decision, microseconds UTC; never before the last event."""

    @property
    def settings(self) -> Settings:
        """The board's policy and pauses."""

    def task(self, task: str) -> Task | None:
        """The folded card."""

    def run(self, task: str, run: int) -> Run | None:
        """The folded run."""

    def run_by_lock(self, task: str, lock_hash: str) -> Run | None:
        """The card's run that this lock belongs to."""

    def parents(self, task: str) -> tuple[Link, ...]:
        """The links that the card waits for."""

    def children(self, task: str) -> tuple[Link, ...]:
        """The links of those that wait for the card."""

    def event(self, position: int) -> Recorded | None:
        """The event at *position*, with words."""

    def completion(self, task: str) -> Recorded | None:
        """The card's last `completed`."""

    def redacts(self, event: Recorded) -> bool:
        """Whether a `redacted` in its stream names *event*."""

    def created_with(self, key: str) -> Recorded | None:
        """The `created` that carries the idempotency *key*, whatever became of its card."""

    def live(self) -> tuple[Run, ...]:
        """Every open run of the board."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a command comes to: events to append, and perhaps a refusal to raise once they are committed."""

    drafts: tuple[Draft, ...] = ()
    refusal: Refusal | None = None
    notes: tuple[str, ...] = ()
    replayed: str | None = None
    """The card that an idempotency key gave before."""


NOTHING = Decision()


@dataclass(frozen=True, slots=True)
class Ahead:
    """A view in which some cards have moved on already: for deciding on top of events not yet appended.

    *foretold* holds the events of the card that is decided on, by the positions that `ahead` gave them.
    """

    view: View
    moved: Mapping[str, Task] = field(default_factory=dict)
    foretold: Mapping[int, Recorded] = field(default_factory=dict)
    runs: Mapping[tuple[str, int], Run] = field(default_factory=dict)

    @property
    def now(self) -> int:
        return self.view.now

    @property
    def settings(self) -> Settings:
        return self.view.settings

    def task(self, task: str) -> Task | None:
        return self.moved.get(task) or self.view.task(task)

    def run(self, task: str, run: int) -> Run | None:
        return self.runs.get((task, run)) or self.view.run(task, run)

    def run_by_lock(self, task: str, lock_hash: str) -> Run | None:
        return self.view.run_by_lock(task, lock_hash)

    def parents(self, task: str) -> tuple[Link, ...]:
        return self.view.parents(task)

    def children(self, task: str) -> tuple[Link, ...]:
        return self.view.children(task)

    def event(self, position: int) -> Recorded | None:
        return self.foretold.get(position) or self.view.event(position)

    def completion(self, task: str) -> Recorded | None:
        return self.view.completion(task)

    def redacts(self, event: Recorded) -> bool:
        return self.view.redacts(event)

    def created_with(self, key: str) -> Recorded | None:
        return self.view.created_with(key)

    def live(self) -> tuple[Run, ...]:
        return self.view.live()


class Foresight:
    """A board as it will be once the drafts taken so far are appended: what a dry run decides its next step on."""

    def __init__(self, view: View, position: int) -> None:
        self._moved: dict[str, Task] = {}
        self._foretold: dict[int, Recorded] = {}
        self._runs: dict[tuple[str, int], Run] = {}
        self._position = position
        self.view = Ahead(view, self._moved, self._foretold, self._runs)

    def take(self, drafts: Iterable[Draft]) -> None:
        """See *drafts* as appended."""
        for draft in drafts:
            self._position += 1
            before = self.view.task(draft.task) or Task(draft.task)
            event = draft.as_if(position=self._position, version=before.version + 1, at=self.view.now)
            self._foretold[self._position] = event
            self._moved[draft.task] = evolve(before, event)
            run = None if event.run is None else evolve_run(self.view.run(event.task, event.run), event)
            if run is not None:
                self._runs[run.task, run.run] = run


def foretell(task: Task, drafts: tuple[Draft, ...] | list[Draft], now: int) -> list[Recorded]:
    """The events that the *drafts* of *task* will be, at positions after its last; those of others are passed over."""
    own = (draft for draft in drafts if draft.task == task.id)
    return [
        draft.as_if(position=task.position + step, version=task.version + step, at=now)
        for step, draft in enumerate(own, 1)
    ]


def ahead(task: Task, drafts: tuple[Draft, ...] | list[Draft], now: int) -> Task:
    """*task* once its *drafts* are appended; drafts of other cards are passed over."""
    for event in foretell(task, drafts, now):
        task = evolve(task, event)
    return task


def known(view: View, task: str) -> Task:
    """The card, or `UnknownTask`."""
    found = view.task(task)
    if found is None:
        raise UnknownTask(task)
    return found


def unmet(view: View, task: str) -> list[str]:
    """The parents of *task* that are not satisfied, by id."""
    waits = view.parents(task)
    return [link.parent for link in waits if not met(view, link)]


def has_open_parent(view: View, task: str) -> bool:
    """Whether a parent of *task* is neither done nor archived: what a `dependency` block may wait for."""
    parents = (view.task(link.parent) for link in view.parents(task))
    return any(parent is not None and not parent.closed for parent in parents)


def system(actor: Actor) -> Actor:
    """The actor of what follows by rule from what *actor* did."""
    return Actor(kind="system", name="ledger", host=actor.host)


def met(view: View, link: Link) -> bool:
    """Whether the link's parent is done with the outcome that it requires (RULES §3)."""
    parent = view.task(link.parent)
    return parent is not None and satisfied(parent.outcome, link.require)
