"""`why`: one answer to "why does this card stand where it stands", with the positions that it rests on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from ledger.clock import rfc3339
from ledger.errors import InvalidInput, UnknownTask
from ledger.events import ENDINGS
from ledger.recorded import Recorded
from ledger.store import last_of_kind, read_task
from projections import tables
from projections.budgets import at_limit, budgets
from projections.graph import dead, satisfied
from projections.read_models import load_settings, load_task
from projections.settings import Settings
from projections.task import Task, evolve, status

TOPICS: Final = ("status", "failures", "streak", "hold", "held")
LINKS, TASKS, HELD = tables.links, tables.tasks, tables.held


class Ground(NamedTuple):
    """One reason: a sentence, the rule that it follows, and the positions that it rests on."""

    text: str
    rule: str
    positions: tuple[int, ...] = ()


class Past(NamedTuple):
    """A card's stream folded with its memory: which events moved each counter in this epoch."""

    task: Task
    moved: dict[str, tuple[int, ...]]
    last: dict[str, Recorded]
    said: dict[int, str]


class Held(NamedTuple):
    """Why a claimable card was not started, and what to run next."""

    ground: Ground
    remedy: str


class Wait(NamedTuple):
    """A parent that is not satisfied, and whether it can ever be without a person."""

    parent: str
    require: str
    status: str
    outcome: str | None
    hold: str | None
    dead: bool
    position: int


def why(tx: Connection, board: str, task_id: str, *, now: int, topic: str | None = None) -> dict[str, Any]:
    """Why the card has its status, counters, hold, or was not started; with event positions and what to run next.

    *topic* is one of `status`, `failures`, `streak`, `hold`, `held`; none means all that applies. *now* is microseconds
    UTC. Raises `UnknownTask`, `InvalidInput`.
    """
    if topic is not None and topic not in TOPICS:
        raise InvalidInput(f"{topic!r} is no topic of why", remedy=f"one of: {', '.join(TOPICS)}")
    stored = load_task(tx, board, task_id)
    if stored is None:
        raise UnknownTask(task_id)
    past = _past(read_task(tx, board, task_id), task_id, stored.open_parents)
    settings = load_settings(tx, board)
    waits = _waits(tx, board, task_id)
    held = _held(tx, board, past, settings, now)
    told: dict[str, Callable[[], list[Ground]]] = {
        "status": lambda: _status(past, waits),
        "hold": lambda: _hold(past, settings),
        "failures": lambda: _counter(past, settings, "failures", ("failure_budget", "attempt_budget")),
        "streak": lambda: _counter(past, settings, "streak", ("violation_budget",)),
        "held": lambda: [] if held is None else [held.ground],
    }
    topics = [topic] if topic is not None else _that_apply(past.task)
    return {
        "task": task_id,
        "status": status(past.task),
        "because": [_ground(ground) for name in topics for ground in told[name]()],
        "waits_on": [wait._asdict() for wait in waits],
        "try": _remedy(past.task, waits, held),
    }


def _ground(ground: Ground) -> dict[str, Any]:
    return {"text": ground.text, "rule": ground.rule, "positions": list(ground.positions)}


def _that_apply(task: Task) -> list[str]:
    match status(task):
        case "blocked":
            return ["status", "hold"]
        case "ready" | "review" | "scheduled":
            return ["status", "failures", "held"] if task.failures else ["status", "held"]
        case _:
            return ["status"]


def _past(stream: list[Recorded], task_id: str, open_parents: int) -> Past:
    task = Task(task_id)
    moved: dict[str, tuple[int, ...]] = dict.fromkeys(("failures", "streak", "spent", "neutral", "runs"), ())
    last: dict[str, Recorded] = {}
    for event in stream:
        after = evolve(task, event)
        for counter, positions in moved.items():
            was, now = getattr(task, counter), getattr(after, counter)
            moved[counter] = (*positions, event.position) if now > was else positions if now == was else ()
        last[event.kind] = event
        if event.kind == "created" or after.lane != task.lane:
            last["lane"] = event
        if event.kind in ENDINGS and task.run is not None and after.run is None:
            last["ending"] = event
        task = after
    said = {event.position: str(text) for event in stream if (text := _reason(event.words)) is not None}
    return Past(task._replace(open_parents=open_parents), moved, last, said)


def _reason(words: dict[str, Any]) -> Any:
    return words.get("reason") or words.get("last_words")


def _waits(tx: Connection, board: str, task_id: str) -> list[Wait]:
    query = select(LINKS.c.parent, LINKS.c.require).where(LINKS.c.board == board, LINKS.c.child == task_id)
    found = []
    for parent, require in tx.execute(query.order_by(LINKS.c.parent)).all():
        above = load_task(tx, board, parent)
        outcome = None if above is None else above.outcome
        if satisfied(outcome, require):
            continue
        never = dead(outcome, require, archived=above is not None and above.archived, known=above is not None)
        position = 0 if above is None else _stands_since(tx, board, above)
        found.append(_wait(parent, require, above, never, position))
    return found


def _wait(parent: str, require: str, above: Task | None, never: bool, position: int) -> Wait:
    if above is None:
        return Wait(parent, require, "unknown", None, None, never, position)
    cause = above.hold.cause if above.hold is not None and status(above) == "blocked" else None
    return Wait(parent, require, status(above), above.outcome, cause, never, position)


def _stands_since(tx: Connection, board: str, above: Task) -> int:
    """The position that the parent's status rests on; that of its last event where no one event made it."""
    if above.hold is not None and status(above) == "blocked":
        return above.hold.position
    kind = {"archived": "archived", "done": "completed", "running": "claimed"}.get(status(above))
    made = last_of_kind(tx, board, above.id, kind) if kind is not None else None
    return above.position if made is None else made.position


def _status(past: Past, waits: list[Wait]) -> list[Ground]:
    task, last = past.task, past.last
    match status(task):
        case "archived":
            return [Ground("it was archived", "§3", _at(last, "archived"))]
        case "done":
            return [Ground(f"it was completed with outcome {task.outcome}", "§3", _at(last, "completed"))]
        case "running":
            return _running(last)
        case "blocked":
            return [Ground("a hold is in force", "§3", (task.hold.position,) if task.hold else ())]
        case "triage":
            return [Ground("it waits in triage for somebody to take it into work", "§3", _at(last, "lane"))]
        case "todo":
            return [_waiting(wait) for wait in waits]
        case "scheduled":
            return [Ground(f"it is parked until {rfc3339(task.scheduled or 0)}", "§3", _at(last, "scheduled"))]
        case "review":
            return [Ground(f"it waits for its reviewer {task.worker or '(none)'}", "§3", _at(last, "review_requested"))]
        case _:
            return [Ground("it is open: no hold is in force, and it waits for no other card", "§3", (task.position,))]


def _running(last: dict[str, Recorded]) -> list[Ground]:
    claimed = last["claimed"]
    grounds = [Ground(f"run {claimed.run} by {claimed.facts['worker']} is open", "§3", (claimed.position,))]
    bound = last.get("worker_bound")
    if bound is not None and bound.run == claimed.run:
        has = "takes its turns" if bound.facts["role"] == "turns" else "has the run"
        grounds.append(Ground(f"process {bound.facts['pid']} {has}", "§7", (bound.position,)))
    stop = last.get("stop_requested")
    if stop is not None and stop.run == claimed.run:
        grounds.append(Ground(f"it was asked to stop: {stop.facts['cause']}", "§7", (stop.position,)))
    return grounds


def _waiting(wait: Wait) -> Ground:
    why_there = wait.outcome or wait.hold
    stands = f"{wait.status}{': ' + why_there if why_there else ''}"
    reason = "waiting_for_ever" if wait.dead else "waiting_on"
    places = (wait.position,) if wait.position else ()
    return Ground(f"{reason}: {wait.parent} is {stands}, the link requires {wait.require}", "§3", places)


def _hold(past: Past, settings: Settings) -> list[Ground]:
    hold = past.task.hold
    if hold is None:
        return [Ground("no hold is in force", "§5"), *_at_limit(past, settings, None)]
    sticky = "only a person lifts it" if hold.sticky else "it lifts when a limit is raised or the card is handed over"
    counted = f": {hold.count} of {hold.limit} ({hold.limit_source} limit)" if hold.count is not None else ""
    moved = past.moved.get(_COUNTED_BY.get(hold.cause, ""), ())
    reason = past.said.get(hold.position)
    told = f' "{reason}"' if reason is not None and hold.cause in {"operator", "worker", "config"} else ""
    kind = f" ({hold.kind})" if hold.kind is not None else ""
    grounds = [Ground(f"{hold.cause}{kind}{counted}{told}; {sticky}", "§5", (*moved, hold.position))]
    grounds += _at_limit(past, settings, hold.cause)
    ending = past.last.get("ending")
    if ending is not None and ending.outcome is not None:
        code = ending.facts.get("code")
        how = f" with code {code}" if code is not None else ""
        grounds.append(Ground(f"run {ending.run} ended as {ending.outcome}{how}", "§6", (ending.position,)))
    return grounds


def _at_limit(past: Past, settings: Settings, but: str | None) -> list[Ground]:
    """Every budget that is at its limit now (RULES §5), *but* the one that was told already."""
    return [
        Ground(f"{budget.cause} is at its limit now: {budget.count} of {budget.limit} ({budget.limit_source})", "§5",
               past.moved[_COUNTED_BY[budget.cause]])
        for budget in at_limit(past.task, settings.policy)
        if budget.cause != but
    ]  # fmt: skip


_COUNTED_BY: Final = {
    "violation_budget": "streak",
    "neutral_budget": "neutral",
    "run_budget": "runs",
    "failure_budget": "failures",
    "attempt_budget": "spent",
}


def _counter(past: Past, settings: Settings, counter: str, causes: tuple[str, ...]) -> list[Ground]:
    limits = [budget for budget in budgets(past.task, settings.policy) if budget.cause in causes]
    told = ", ".join(f"{budget.cause} {budget.count} of {budget.limit} ({budget.limit_source})" for budget in limits)
    number = getattr(past.task, counter)
    return [Ground(f"{counter} {number} in this epoch; {told}", "§4", past.moved[counter])]


def _held(tx: Connection, board: str, past: Past, settings: Settings, now: int) -> Held | None:
    """The first thing that keeps a card from being started that no hold, run or parent keeps back; else none."""
    task, last = past.task, past.last
    if status(task) not in {"ready", "review", "scheduled"}:
        return None
    if (task.not_before or 0) > now:
        until = rfc3339(task.not_before or 0)
        return Held(Ground(f"cooldown_until {until}", "§4", _at(last, "exited")), f"ledger unblock {task.id}")
    if (task.scheduled or 0) > now:
        until = rfc3339(task.scheduled or 0)
        return Held(Ground(f"scheduled_for {until}", "§7", _at(last, "scheduled")), f"ledger schedule {task.id} TIME")
    pause = settings.pause_of(worker=task.worker, host=task.card.host)
    if pause is not None:
        whose = "" if pause.scope == "board" else f" --{pause.scope} {pause.name}"
        said = f"paused: the {pause.scope} {pause.name}".rstrip()
        return Held(Ground(said, "§7", (pause.position,)), f"ledger resume{whose}")
    query = select(HELD.c.reason, HELD.c.since).where(HELD.c.board == board, HELD.c.task == task.id)
    row = tx.execute(query).one_or_none()
    if row is not None:
        remedy = _REMEDIES.get(row.reason, "ledger sweep").format(task=task.id)
        return Held(Ground(f"held by the sweep since {rfc3339(row.since)}: {row.reason}", "§7"), remedy)
    if task.worker is None:
        return Held(Ground("no_assignee: no sweep starts it", "§7"), _REMEDIES["no_assignee"].format(task=task.id))
    if _board_is_full(tx, board, settings):
        full = Ground("at_capacity: every slot of the board is taken", "§7", (settings.policy_position,))
        return Held(full, _REMEDIES["at_capacity"])
    return Held(Ground("no sweep has looked at it since it became claimable", "§7"), "ledger sweep")


_REMEDIES: Final = {
    "no_assignee": "ledger assign {task} NAME",
    "unknown_assignee": "ledger assign {task} NAME",
    "waiting_for_person": "ledger claim {task}",
    "at_capacity": "ledger list --status running",
    "assignee_at_capacity": "ledger list --status running",
}
"""What to run next about a reason that a tick stored; about the others the next tick itself."""


def _board_is_full(tx: Connection, board: str, settings: Settings) -> bool:
    most = settings.policy.max_running
    live = tx.execute(select(TASKS.c.task).where(TASKS.c.board == board, TASKS.c.run.is_not(None))).all()
    return most is not None and len(live) >= most


def _remedy(task: Task, waits: list[Wait], held: Held | None) -> str | None:
    match status(task):
        case "archived" | "done":
            return f"ledger reopen {task.id}"
        case "blocked" if task.hold is not None and not task.hold.sticky:
            return (
                f"ledger edit {task.id} --max-retries N, ledger assign {task.id} ANOTHER, or ledger unblock {task.id}"
            )
        case "blocked":
            return f"ledger runs {task.id}, then ledger unblock {task.id} --reason …"
        case "triage":
            return f"ledger edit {task.id} --lane work"
        case "todo":
            stuck = [wait for wait in waits if wait.dead]
            return _bring_back(task, stuck[0]) if stuck else f"ledger why {waits[0].parent}" if waits else None
        case "running":
            return f"ledger log {task.id} --follow, or ledger stop {task.id}"
        case _:
            return None if held is None else held.remedy


def _bring_back(task: Task, wait: Wait) -> str:
    """What frees a card from a dead parent: nobody can reopen an unknown one; `any` asks that it is done."""
    ways = [f"ledger reopen {wait.parent}"] if wait.status != "unknown" else []
    ways.append(f"ledger unlink {task.id} {wait.parent}")
    if wait.outcome is not None:
        ways.append(f"ledger link {task.id} {wait.parent} --require any")
    return ", or ".join(ways)


def _at(last: dict[str, Recorded], *kinds: str) -> tuple[int, ...]:
    return tuple(sorted(last[kind].position for kind in kinds if kind in last))
