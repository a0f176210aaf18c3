"""Cards of other systems as what they say comes to here: the same few values, whatever system they are from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kanban import commands as c
from ledger.recorded import canonical

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Remark:
    """Somebody's comment there. Who and when as they stand there; none: it does not say."""

    author: str | None
    at: str | None
    text: str

    @property
    def told(self) -> str:
        """The comment as ours, which is the importer's: so whose words it holds stands in it."""
        who = self.author or "an author that is not named"
        return f"{who} wrote{'' if self.at is None else f' at {self.at}'}:\n{self.text}"


@dataclass(frozen=True, slots=True)
class Done:
    """It is finished there, with these words."""

    summary: str | None = None
    result: str | None = None
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class Held:
    """It may not go on there until somebody says so. *reason*: none where no reason is given."""

    reason: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A card of another system. *said*: what else it says there, for the note that the card begins with.

    *parents* are ids of that system. *released*: somebody holds it there, who does not hold it here.
    """

    id: str
    title: str
    created_at: str | None = None
    body: str | None = None
    assignee: str | None = None
    priority: int = 0
    parents: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    tenant: str | None = None
    max_retries: int | None = None
    max_runtime: int | None = None
    workspace: str = "scratch"
    goal_max_turns: int | None = None
    triage: bool = False
    end: Done | Held | None = None
    archived: bool = False
    released: bool = False
    remarks: tuple[Remark, ...] = ()
    said: Mapping[str, Any] = field(default_factory=dict)

    def key(self, system: str) -> str:
        """Its idempotency key here: a fact, so that its first id and time are never lost."""
        return f"{system}:{self.id}" + ("" if self.created_at is None else f"@{self.created_at}")

    def commands(
        self, task: str, system: str, parents: Mapping[str, str], lost: Mapping[str, str], end: Done | Held | None
    ) -> Iterator[Any]:
        """What makes it the card *task*. *parents*: theirs → ours; *lost*: those that it cannot wait for → why."""
        yield c.Create(
            task, self.title, body=self.body, assignee=self.assignee, priority=self.priority,
            parents=tuple((ours, "ok") for ours in parents.values()), labels=self.labels, tenant=self.tenant,
            max_retries=self.max_retries, max_runtime=self.max_runtime, workspace=self.workspace,
            goal_max_turns=self.goal_max_turns, lane="triage" if self.triage else "work", key=self.key(system),
        )  # fmt: skip
        yield c.Comment(task, self._note(system, lost))
        for remark in self.remarks:
            yield c.Comment(task, remark.told)
        match end:
            case Done(summary, result, metadata):
                yield c.Complete(task, summary, result=result, metadata=metadata)
            case Held(reason, kind):
                yield c.Block(task, reason, kind)
            case None:
                pass
        if self.archived:
            yield c.Archive(task)

    def _note(self, system: str, lost: Mapping[str, str]) -> str:
        links = {"links_left_out": dict(lost)} if lost else {}
        return f"imported from {system}: {canonical({'id': self.id, **self.said, **links})}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A card that is not brought in, by its id there, and why."""

    id: str
    why: str

    def as_json(self) -> dict[str, str]:
        """As `--json` prints it."""
        return {"id": self.id, "why": self.why}


@dataclass(frozen=True, slots=True)
class Source:
    """What was read of another system, before anything is written here. *name*: where it was read."""

    system: str
    name: str
    cards: tuple[Origin, ...]
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()


def text(value: Any) -> str | None:
    """*value* as text; none where there is none, or only blanks."""
    match value:
        case None | bool():
            return None
        case str():
            return value if value.strip() else None
        case bytes():
            return text(value.decode("utf-8", "replace"))
        case _:
            return str(value)


def plain(value: Any) -> Any:
    """*value* as JSON can hold it: of numbers only finite ones. Raises `RecursionError` for what is too deep."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value


def told(row: Mapping[str, Any], *, but: frozenset[str]) -> dict[str, Any]:
    """What *row* says, without the columns in *but* and without what is unknown."""
    return {name: plain(value) for name, value in row.items() if value is not None and name not in but}
