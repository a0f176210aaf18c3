"""Builders for sentences that start with "given": every event with defaults, actors, a clock, histories and folds.

Each builder takes any field of its event by name; what is not named has the plainest value that a real log would hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from ledger import events as e
from ledger.ids import lock_hash
from ledger.recorded import Draft, Recorded
from projections.policy import Policy
from projections.task import Task, evolve

SECOND: Final = 1_000_000
NOW: Final = 1_750_000_000 * SECOND
"""The instant of the first event of a `history`, in microseconds UTC; each later one is a second later."""
OPERATOR: Final = e.Actor(kind="operator", name="ada", host="desk")
SWEEP: Final = e.Actor(kind="sweep", name="sweep", host="node-1")
WORKER: Final = e.Actor(kind="worker", name="builder", host="node-1")
SYSTEM: Final = e.Actor(kind="system", name="ledger", host="node-1")


@dataclass
class FakeClock:
    """A clock that stands until it is told to move. Passed wherever a `Clock` is wanted."""

    now: int = NOW

    def __call__(self) -> int:
        """The instant it stands at, in microseconds UTC."""
        return self.now

    def advance(self, seconds: float) -> int:
        """Move on by *seconds*; answers the new instant."""
        self.now += round(seconds * SECOND)
        return self.now


def _stream(event: e.Event, task: str) -> str:
    return "" if isinstance(event, e.BoardEvent) else task


def _parent(each: Any) -> e.Parent:
    match each:
        case str():
            return parent(each)
        case e.Parent():
            return each
        case (task, require):
            return parent(task, require)
        case _:
            raise TypeError(each)


def _usage(tokens: int | None, cost: str | None) -> e.Usage | None:
    return None if tokens is None and cost is None else usage(tokens, cost)


# The board's own stream


def board_created(board_id: str = "b" * 32, name: str = "b") -> e.BoardCreated:
    """A board begins."""
    return e.BoardCreated(board_id=board_id, name=name)


def policy_changed(**limits: Any) -> e.PolicyChanged:
    """The default policy with *limits* changed."""
    return e.PolicyChanged(**(Policy()._asdict() | limits))


def scope(kind: str = "board", name: str = "") -> e.Scope:
    """What a pause stops; by default the whole board."""
    return e.Scope(kind=kind, name=name)


def paused(kind: str = "board", name: str = "", *, drain: bool = False, reason: str | None = None) -> e.Paused:
    """A pause of the board, of an assignee or of a host."""
    return e.Paused(scope=scope(kind, name), drain=drain, reason=reason)


def resumed(kind: str = "board", name: str = "") -> e.Resumed:
    """The end of that pause."""
    return e.Resumed(scope=scope(kind, name))


# Cards


def parent(task: str, require: str = "ok") -> e.Parent:
    """A card that must be done first."""
    return e.Parent(task=task, require=require)


def created(title: str = "A card", *, parents: Iterable[Any] = (), **fields: Any) -> e.Created:
    """A card; *parents* as ids, `(id, require)` pairs or `Parent`s."""
    defaults: dict[str, Any] = {
        "body": None,
        "assignee": "builder",
        "priority": 0,
        "labels": (),
        "tenant": None,
        "max_retries": None,
        "max_runtime": None,
        "workspace": "scratch",
        "goal": None,
        "lane": "work",
        "host": None,
        "key": None,
        "made_by": None,
    }
    return e.Created(title=title, parents=tuple(_parent(each) for each in parents), **(defaults | fields))


def edited(*, title: str | None = None, body: str | None = None, **values: Any) -> e.Edited:
    """New values by field: `edited(title="B", priority=3, lane="triage", goal={"max_turns": 3})`."""
    said = {"title": title, "body": body}
    names = tuple(sorted([*values, *(name for name, word in said.items() if word is not None)]))
    return e.Edited(fields=names, values=values, title=title, body=body)


def forged_edit(**values: Any) -> e.Edited:
    """An `edited` that no program of ours would write."""
    return e.Edited.model_construct(fields=tuple(sorted(values)), values=values, title=None, body=None)


def assigned(to: str | None = "other", *, role: str = "assignee", previous: str | None = "builder") -> e.Assigned:
    """The card goes to *to*."""
    return e.Assigned(role=role, to=to, previous=previous)


def linked(task: str = "t_p", require: str = "ok") -> e.Linked:
    """The card waits for the card *task*."""
    return e.Linked(parent=task, require=require)


def unlinked(task: str = "t_p", require: str = "ok") -> e.Unlinked:
    """The card waits for *task* no longer."""
    return e.Unlinked(parent=task, require=require)


def commented(body: str = "A word.") -> e.Commented:
    """Somebody said something."""
    return e.Commented(body=body)


def scheduled(not_before: int = NOW + 3_600 * SECOND, reason: str | None = None) -> e.Scheduled:
    """The card is parked until *not_before*."""
    return e.Scheduled(not_before=not_before, reason=reason)


# Runs


def claimed(run: int = 1, *, lock: str = "secret", **fields: Any) -> e.Claimed:
    """Run *run* opens; whoever holds *lock* has it."""
    defaults: dict[str, Any] = {
        "lock_hash": lock_hash(lock),
        "by": "spawn",
        "host": "node-1",
        "boot": "boot-1",
        "worker": "builder",
        "lane": "work",
        "lease_until": NOW + 900 * SECOND,
        "max_runtime": 21_600,
        "on_success": "violation",
        "reviewer": None,
        "result": "none",
        "quota": (),
        "caps": (),
    }
    return e.Claimed(run=run, **(defaults | fields))


def cap(kind: str = "board", live: int = 0, limit: int = 4) -> e.Cap:
    """A cap that let a claim in."""
    return e.Cap(cap=kind, live=live, limit=limit)


def worker_bound(run: int = 1, *, role: str = "group", pid: int = 4242, **fields: Any) -> e.WorkerBound:
    """A process has the run."""
    defaults: dict[str, Any] = {
        "start_tick": 777,
        "group": pid if role == "group" else 0,
        "host": "node-1",
        "boot": "boot-1",
        "namespace": "pid:1",
    }
    return e.WorkerBound(run=run, role=role, pid=pid, **(defaults | fields))


def usage(tokens: int | None = None, cost: str | None = None) -> e.Usage:
    """What a run says it has used."""
    return e.Usage.model_validate({"tokens": tokens, "cost": cost})


def progressed(
    run: int = 1, note: str | None = None, *, tokens: int | None = None, cost: str | None = None
) -> e.Progressed:
    """A worker's own words; usage only where *tokens* or *cost* is given."""
    return e.Progressed(run=run, note=note, usage=_usage(tokens, cost))


def wish(verb: str = "archive", *, actor: e.Actor = OPERATOR, **data: Any) -> e.Wish:
    """What an operator wants done once the run ends."""
    return e.Wish(verb=verb, data=data, actor=actor)


def stop_requested(run: int = 1, cause: str = "operator", **fields: Any) -> e.StopRequested:
    """Somebody, or a limit, asks the run to stop."""
    defaults: dict[str, Any] = {"since": NOW, "limit": None, "wish": None, "wish_words": None}
    return e.StopRequested(run=run, cause=cause, **(defaults | fields))


def exited(run: int = 1, outcome: str = "crashed", **fields: Any) -> e.Exited:
    """Run *run* ended without a verb of its own."""
    defaults: dict[str, Any] = {
        "code": None,
        "signal": None,
        "evidence": "none",
        "observer": "node-1",
        "last_words": None,
        "reset_asked": None,
        "not_before": None,
        "lease_until": None,
        "last_beat": None,
        "grace": None,
    }
    return e.Exited(run=run, outcome=outcome, **(defaults | fields))


def violation(run: int = 1, *, streak: int = 1, limit: int = 3, limit_source: str = "policy") -> e.Violation:
    """The run before it ended clean without a verb."""
    return e.Violation(run=run, streak=streak, limit=limit, limit_source=limit_source)


def completed(run: int | None = 1, outcome: str = "ok", **fields: Any) -> e.Completed:
    """The card is done; `run=None` by an operator."""
    defaults: dict[str, Any] = {"summary": None, "result": None, "metadata": None, "usage": None}
    return e.Completed(run=run, outcome=outcome, **(defaults | fields))


def review_requested(run: int = 1, *, reviewer: str | None = "critic", summary: str | None = None) -> e.ReviewRequested:
    """The run ends, the card goes to lane review."""
    return e.ReviewRequested(run=run, summary=summary, reviewer=reviewer)


def changes_requested(run: int | None = None, *, reason: str | None = None) -> e.ChangesRequested:
    """The card goes back to the implementer."""
    return e.ChangesRequested(run=run, reason=reason)


def blocked(run: int | None = None, cause: str = "operator", **fields: Any) -> e.Blocked:
    """A sticky hold by an operator; by a worker with *run*."""
    defaults: dict[str, Any] = {
        "block_kind": None,
        "reason": None,
        "hold": True,
        "sticky": True,
        "count": None,
        "limit": None,
        "limit_source": None,
    }
    return e.Blocked(run=run, cause=cause, **(defaults | fields))


def budget_blocked(
    cause: str = "failure_budget", *, count: int = 2, limit: int = 2, sticky: bool = False, limit_source: str = "policy"
) -> e.Blocked:
    """The hold that a budget sets; by default the one that is not sticky."""
    return blocked(None, cause, sticky=sticky, count=count, limit=limit, limit_source=limit_source)


def waiting(run: int = 1, reason: str | None = None) -> e.Blocked:
    """A worker's `blocked` of kind dependency with hold false: the card waits for its parents."""
    return blocked(run, "worker", block_kind="dependency", hold=False, sticky=False, reason=reason)


def unblocked(cause: str = "operator", reason: str | None = None) -> e.Unblocked:
    """The hold is lifted."""
    return e.Unblocked(cause=cause, reason=reason)


def reopened(reason: str | None = None) -> e.Reopened:
    """The card is open again."""
    return e.Reopened(reason=reason)


def archived(children: str | None = None) -> e.Archived:
    """The card is put away."""
    return e.Archived(children=children)


def late_result(run: int = 1, verdict: str = "ok", **fields: Any) -> e.LateResult:
    """A result that came too late or too early."""
    defaults: dict[str, Any] = {
        "summary": None,
        "result": None,
        "metadata": None,
        "usage": None,
        "why": "the run had ended",
    }
    return e.LateResult(run=run, verdict=verdict, **(defaults | fields))


def redacted(redacts: int = 1, reason: str | None = None) -> e.Redacted:
    """The words of the event at position *redacts* are gone."""
    return e.Redacted(redacts=redacts, reason=reason)


# Histories

EXAMPLES: Final[Mapping[str, e.Event]] = {
    event.kind: event  # type: ignore[attr-defined]
    for event in (
        board_created(),
        policy_changed(failure_limit=4),
        paused("assignee", "builder", drain=True, reason="WORD: deploy"),
        resumed("assignee", "builder"),
        created(
            "WORD: title",
            body="WORD: body",
            parents=["t_p", ("t_q", "any")],
            labels=("red", "blue"),
            tenant="acme",
            max_retries=3,
            max_runtime=600,
            goal=e.Goal(max_turns=5),
            host="node-2",
            key="k-1",
            made_by=e.RunRef(task="t_p", run=2),
        ),
        edited(title="WORD: title", body="WORD: body", priority=2, labels=["green"], goal={"max_turns": 3}),
        assigned("other"),
        linked("t_p", "any"),
        unlinked("t_p", "any"),
        commented("WORD: comment"),
        scheduled(reason="WORD: later"),
        claimed(1, caps=(cap(), cap("assignee", 1, 2)), quota=("quota exceeded",)),
        worker_bound(1),
        progressed(1, "WORD: note", tokens=12, cost="0.25"),
        stop_requested(
            1, "operator", limit=3, wish=wish("block", block_kind="operator"), wish_words={"reason": "WORD: reason"}
        ),
        exited(
            1,
            "lost",
            code=1,
            signal=9,
            last_words="WORD: last",
            reset_asked=NOW,
            not_before=NOW,
            lease_until=NOW,
            last_beat=NOW,
            grace=60,
        ),
        violation(1),
        completed(
            1, "ok", summary="WORD: sum", result="WORD: res", metadata={"WORD": ["WORD: deep"]}, usage=usage(7, "1.50")
        ),
        review_requested(1, summary="WORD: sum"),
        changes_requested(1, reason="WORD: reason"),
        blocked(1, "worker", block_kind="needs_input", reason="WORD: reason"),
        unblocked("operator", "WORD: reason"),
        reopened("WORD: reason"),
        archived("keep"),
        late_result(
            1, "ok", summary="WORD: sum", result="WORD: res", metadata={"a": "WORD: deep"}, usage=usage(1, None)
        ),
        redacted(1, "WORD: reason"),
    )
}
"""One event of every kind, every field filled that can be; each of its words says `WORD`."""

Told = e.Event | tuple[str, e.Event]
"""An event of a history, or `(task, event)` where a history is about several cards."""


def draft(event: e.Event, *, task: str = "t_a", actor: e.Actor = OPERATOR) -> Draft:
    """*event* on its way into the stream of *task* (the board's own events: into the board's)."""
    return Draft.of(_stream(event, task), event, actor)


def history(
    *events: Told, task: str = "t_a", actor: e.Actor = OPERATOR, after: Iterable[Recorded] = (), board: str = "b"
) -> list[Recorded]:
    """*events* as they would stand in a log, continuing *after*: positions 1…, versions 1… per card, a second apart.

    Only the new ones are returned. Hashes are empty: this log was never stored.
    """
    before = list(after)
    position = before[-1].position if before else 0
    at = before[-1].at if before else NOW - SECOND
    versions = {event.task: event.version for event in before}
    told: list[Recorded] = []
    for step, each in enumerate(events, 1):
        name, event = each if isinstance(each, tuple) else (task, each)
        sent = draft(event, task=name, actor=actor)
        versions[sent.task] = versions.get(sent.task, 0) + 1
        told.append(
            sent.as_if(board=board, position=position + step, version=versions[sent.task], at=at + step * SECOND)
        )
    return told


def fold(events: Iterable[Recorded | Told], start: Task | None = None) -> Task:
    """The card that *events* make: recorded ones, or bare ones that become the `history` of one card."""
    told = list(events)
    recorded = [event for event in told if isinstance(event, Recorded)]
    if len(recorded) != len(told):
        recorded = history(*(event for event in told if not isinstance(event, Recorded)))
    if start is None:
        start = Task(recorded[0].task if recorded else "t_a")
    return reduce(evolve, recorded, start)
