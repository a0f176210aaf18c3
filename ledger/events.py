"""The vocabulary: one frozen class for each kind of event (RULES §2).

An event is a fact in the past tense that can be read alone. Its fields are *facts*, which folds read, or *words*,
which no fold reads and which can be redacted; words carry the mark `WORD`. Nothing has a default: a fact that is
missing must not look like one that is empty.
"""

from functools import cache
from json import dumps
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, model_validator

from ledger.values import (
    COUNTED,
    NEUTRAL,
    WORD,
    Actor,
    Cap,
    Children,
    Data,
    Exit,
    Frozen,
    Goal,
    Instant,
    Lane,
    Limit,
    Outcome,
    Parent,
    Priority,
    Require,
    RunRef,
    Scope,
    Seconds,
    StopCause,
    Usage,
    Verdict,
    Wish,
    Word,
    Words,
)

__all__ = [
    "COUNTED", "EDITABLE", "ENDINGS", "KINDS", "NEUTRAL", "SCHEMAS", "WORD", "Actor", "AnyEvent", "Archived",
    "Assigned", "Blocked", "BoardCreated", "BoardEvent", "Cap", "ChangesRequested", "Children", "Claimed",
    "Commented", "Completed", "Created", "Data", "Edited", "Event", "Exit", "Exited", "Goal", "Instant", "Lane",
    "LateResult", "Limit", "Linked", "Outcome", "Parent", "Paused", "PolicyChanged", "Priority", "Progressed",
    "Redacted", "Reopened", "Require", "Resumed", "ReviewRequested", "RunRef", "Scheduled", "Scope", "Seconds",
    "StopCause", "StopRequested", "Unblocked", "Unlinked", "Usage", "Verdict", "Violation", "Wish", "Word",
    "Words", "WorkerBound", "blank_words", "columns_of", "event_of", "words_of",
]  # fmt: skip


class Event(Frozen):
    """A fact: past tense, immutable, complete without the events before it."""


class BoardCreated(Event):
    kind: Literal["board_created"] = "board_created"
    board_id: str
    name: str


class PolicyChanged(Event):
    """The whole policy (RULES §5); durations in seconds, none = unset."""

    kind: Literal["policy_changed"] = "policy_changed"
    failure_limit: Limit
    violation_limit: Limit
    attempt_limit: Limit | None
    neutral_limit: Limit
    run_limit: Limit
    lease: Limit
    lease_grace: Seconds
    launch_grace: Seconds
    stop_grace: Seconds
    max_runtime: Limit
    progress_timeout: Limit | None
    cooldown: Limit
    cooldown_cap: Limit
    reset_cap: Limit
    max_running: Limit | None
    max_running_per_assignee: Limit | None


class Paused(Event):
    kind: Literal["paused"] = "paused"
    scope: Scope
    drain: bool
    reason: Words


class Resumed(Event):
    kind: Literal["resumed"] = "resumed"
    scope: Scope


class Created(Event):
    """Everything that is needed to rebuild the card."""

    kind: Literal["created"] = "created"
    title: Word
    body: Words
    assignee: str | None
    priority: Priority
    parents: tuple[Parent, ...]
    labels: tuple[str, ...]
    tenant: str | None
    max_retries: Limit | None
    max_runtime: Limit | None
    workspace: str
    goal: Goal | None
    lane: Literal["work", "triage"]
    host: str | None
    key: str | None
    made_by: RunRef | None


class Edited(Event):
    """Field → new value. *fields* names what changed; title and body stand among the words."""

    kind: Literal["edited"] = "edited"
    fields: tuple[str, ...]
    values: dict[str, JsonValue]
    title: Words
    body: Words

    @model_validator(mode="after")
    def _as_created(self) -> Self:
        """Every value is what `created` would accept for that field."""
        for name, value in self.values.items():
            if name not in EDITABLE:
                raise ValueError(f"{name} cannot be edited")
            wanted = EDITABLE[name]
            if dumps(wanted.dump_python(wanted.validate_python(value)), sort_keys=True) != dumps(value, sort_keys=True):
                raise ValueError(f"{name} is of another type")
        if set(self.fields) - {"title", "body"} != set(self.values):
            raise ValueError("fields and values do not name the same")
        return self


def _value(wanted: Any) -> TypeAdapter[Any]:
    return TypeAdapter(wanted, config=ConfigDict(defer_build=True))


EDITABLE: Final[dict[str, TypeAdapter[Any]]] = {
    "priority": _value(Priority),
    "labels": _value(tuple[str, ...]),
    "tenant": _value(str | None),
    "max_retries": _value(Limit | None),
    "max_runtime": _value(Limit | None),
    "workspace": _value(str),
    "goal": _value(Goal | None),
    "lane": _value(Literal["work", "triage"]),
}
"""What an `edited` may change besides title and body, and what each value must be."""


class Assigned(Event):
    kind: Literal["assigned"] = "assigned"
    role: Literal["assignee", "reviewer"]
    to: str | None
    previous: str | None


class Linked(Event):
    kind: Literal["linked"] = "linked"
    parent: str
    require: Require


class Unlinked(Event):
    kind: Literal["unlinked"] = "unlinked"
    parent: str
    require: Require


class Commented(Event):
    kind: Literal["commented"] = "commented"
    body: Word


class Scheduled(Event):
    kind: Literal["scheduled"] = "scheduled"
    not_before: Instant
    reason: Words


class Claimed(Event):
    """The only way to open a run."""

    kind: Literal["claimed"] = "claimed"
    run: Limit
    lock_hash: str
    by: Literal["spawn", "hand"]
    host: str
    boot: str
    worker: str
    lane: Lane
    lease_until: Instant
    max_runtime: Limit
    on_success: Literal["complete", "review", "violation"]
    reviewer: str | None
    result: str
    quota: tuple[str, ...]
    caps: tuple[Cap, ...]


class WorkerBound(Event):
    """A process has the run: *group* was started for it (group 0: only the pid), *turns* runs its turns."""

    kind: Literal["worker_bound"] = "worker_bound"
    run: Limit
    role: Literal["group", "turns"]
    pid: Limit
    start_tick: int
    group: int
    host: str
    boot: str
    namespace: str


class Progressed(Event):
    kind: Literal["progressed"] = "progressed"
    run: Limit
    note: Words
    usage: Usage | None


class StopRequested(Event):
    """Stands before any signal to an open run whose supervisor lives."""

    kind: Literal["stop_requested"] = "stop_requested"
    run: Limit
    cause: StopCause
    since: Instant
    limit: int | None
    wish: Wish | None
    wish_words: Annotated[dict[str, JsonValue] | None, WORD]


class Exited(Event):
    """A run ended without a verb of its own (RULES §6)."""

    kind: Literal["exited"] = "exited"
    run: Limit
    outcome: Exit
    code: int | None
    signal: int | None
    evidence: Literal["exit_record", "owner_result", "trailer", "none"]
    observer: str
    last_words: Words
    reset_asked: Instant | None
    not_before: Instant | None
    lease_until: Instant | None
    last_beat: Instant | None
    grace: Seconds | None


class Violation(Event):
    kind: Literal["violation"] = "violation"
    run: Limit
    streak: Limit
    limit: Limit
    limit_source: Literal["task", "policy"]


class Completed(Event):
    kind: Literal["completed"] = "completed"
    run: Limit | None
    outcome: Verdict
    summary: Words
    result: Words
    metadata: Data
    usage: Usage | None


class ReviewRequested(Event):
    kind: Literal["review_requested"] = "review_requested"
    run: Limit
    summary: Words
    reviewer: str | None


class ChangesRequested(Event):
    kind: Literal["changes_requested"] = "changes_requested"
    run: Limit | None
    reason: Words


class Blocked(Event):
    """*hold* false: nothing is held, the card waits for its parents (kind `dependency`)."""

    kind: Literal["blocked"] = "blocked"
    run: Limit | None
    cause: str
    block_kind: str | None
    reason: Words
    hold: bool
    sticky: bool
    count: int | None
    limit: int | None
    limit_source: Literal["task", "policy"] | None


class Unblocked(Event):
    kind: Literal["unblocked"] = "unblocked"
    cause: Literal["operator", "limit_raised", "reassigned"]
    reason: Words


class Reopened(Event):
    kind: Literal["reopened"] = "reopened"
    reason: Words


class Archived(Event):
    kind: Literal["archived"] = "archived"
    children: Children | None


class LateResult(Event):
    """A result that came too late or too early: kept, never accepted by itself."""

    kind: Literal["late_result"] = "late_result"
    run: Limit
    verdict: Verdict
    summary: Words
    result: Words
    metadata: Data
    usage: Usage | None
    why: str


class Redacted(Event):
    kind: Literal["redacted"] = "redacted"
    redacts: Annotated[int, Field(ge=1, description="the position whose words are gone")]
    reason: Words


BoardEvent = BoardCreated | PolicyChanged | Paused | Resumed
AnyEvent = (
    BoardEvent
    | Created
    | Edited
    | Assigned
    | Linked
    | Unlinked
    | Commented
    | Scheduled
    | Claimed
    | WorkerBound
    | Progressed
    | StopRequested
    | Exited
    | Violation
    | Completed
    | ReviewRequested
    | ChangesRequested
    | Blocked
    | Unblocked
    | Reopened
    | Archived
    | LateResult
    | Redacted
)

KINDS: Final[dict[str, type[Event]]] = {cls.model_fields["kind"].default: cls for cls in get_args(AnyEvent)}
SCHEMAS: Final[dict[str, int]] = dict.fromkeys(KINDS, 1)
"""The newest shape of each kind that this program writes and reads."""
ENDINGS: Final = frozenset({"exited", "completed", "review_requested", "changes_requested", "blocked"})
"""Kinds that end the run that they name."""


def words_of(kind: str) -> frozenset[str]:
    """The names of the fields of *kind* that are words."""
    return _WORDS[kind]


def blank_words(kind: str) -> dict[str, str | None]:
    """What the words of *kind* read as once they are redacted."""
    fields = KINDS[kind].model_fields
    return {name: "" if fields[name].annotation is str else None for name in _WORDS[kind]}


@cache
def columns_of(kind: str) -> frozenset[str]:
    """Which of the envelope's columns `run` and `outcome` the kind fills."""
    return frozenset(KINDS[kind].model_fields) & {"run", "outcome"}


_WORDS: Final[dict[str, frozenset[str]]] = {
    kind: frozenset(name for name, field in cls.model_fields.items() if WORD in field.metadata)
    for kind, cls in KINDS.items()
}


def event_of(kind: str, fields: dict[str, Any]) -> Event:
    """The typed event behind stored *fields* (facts, words, run and outcome together); raises `ValidationError`."""
    return KINDS[kind].model_validate({"kind": kind, **fields})
