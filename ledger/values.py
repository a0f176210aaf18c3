"""The values that events are made of: instants, limits, outcomes, actors, usage (RULES §1–2)."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

WORD: Final = "word"
Word = Annotated[str, WORD]
Words = Annotated[str | None, WORD]
Data = Annotated[JsonValue, WORD]
Instant = Annotated[int, Field(ge=0, le=253_402_300_799_999_999, description="microseconds UTC, up to the year 9999")]
Limit = Annotated[int, Field(ge=1, le=1_000_000_000)]
Seconds = Annotated[int, Field(ge=0, le=1_000_000_000, description="seconds")]
Priority = Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)]


class Outcome(StrEnum):
    """How a run ended (`exited`), or what a finished card says (`completed`)."""

    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    SPAWN_FAILED = "spawn_failed"
    CLEAN = "clean"
    RATE_LIMITED = "rate_limited"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    CONFIG = "config"
    OK = "ok"
    FAIL = "fail"


COUNTED: Final = frozenset({Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.STALLED, Outcome.SPAWN_FAILED})
"""Endings that raise `failures` and may be tried again (RULES §4)."""
NEUTRAL: Final = frozenset({Outcome.RATE_LIMITED, Outcome.INTERRUPTED, Outcome.LOST})
"""Endings that say nothing about the worker: they move only `neutral` (RULES §4)."""

Exit = Literal[
    Outcome.CRASHED,
    Outcome.TIMED_OUT,
    Outcome.STALLED,
    Outcome.SPAWN_FAILED,
    Outcome.CLEAN,
    Outcome.RATE_LIMITED,
    Outcome.INTERRUPTED,
    Outcome.LOST,
    Outcome.CONFIG,
]
Verdict = Literal[Outcome.OK, Outcome.FAIL]
Require = Literal["ok", "any"]
Lane = Literal["triage", "work", "review"]
StopCause = Literal["max_runtime", "stalled", "operator", "drain"]
Children = Literal["keep", "unlink", "cascade"]
ActorKind = Literal["operator", "worker", "sweep", "system"]


class Frozen(BaseModel):
    """A value that never changes and knows no field but its own. What checks it is built at its first use."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Actor(Frozen):
    """Who did it: every change has one."""

    kind: ActorKind
    name: str
    host: str


class Parent(Frozen):
    """A card that must be done first, and the outcome that the link requires."""

    task: str
    require: Require


class Goal(Frozen):
    """The card goes on turn by turn until a judge agrees, at most so many turns."""

    max_turns: Limit


class RunRef(Frozen):
    """The run that made a card."""

    task: str
    run: Limit


class Scope(Frozen):
    """What a pause stops: the whole board (name empty), an assignee, or a host."""

    kind: Literal["board", "assignee", "host"]
    name: str


class Usage(Frozen):
    """What a run says it has used: tokens and cost. Unknown is none, never 0."""

    tokens: Annotated[int, Field(ge=0, le=2**60)] | None
    cost: Annotated[Decimal, Field(ge=0, le=10**12)] | None


class Cap(Frozen):
    """A cap that let a claim in: how many were live before it, and the limit."""

    cap: Literal["board", "assignee", "host"]
    live: Annotated[int, Field(ge=0)]
    limit: Limit


class Wish(Frozen):
    """What an operator wants done to a running card once its run ends. Its words are kept beside it."""

    verb: Literal["complete", "block", "schedule", "assign", "archive"]
    data: dict[str, JsonValue]
    actor: Actor
