"""`why`: one answer to "why does this card stand where it stands", with the events that prove it and a next step."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from sqlalchemy import Connection, select

from ledger.clock import rfc3339
from ledger.errors import InvalidInput, UnknownTask
from ledger.events import ENDINGS
from ledger.store import at_position, last_of_kind, read_task
from projections import tables
from projections.asked import Asked
from projections.budgets import at_limit, budgets
from projections.grounds import Ground, Held, bring_back, by_log, by_placement, by_sweep, told_of, untold, waiting_for
from projections.kept import kept
from projections.proof import COUNTED_BY, Clump, Proof, counted, prove, prove_waiting
from projections.read_models import load_task
from projections.task import Hold, Task, evolve, status
from projections.waiting import Cause, Wait, causes

TOPICS: Final = ("status", "failures", "streak", "hold", "held")
HELD = tables.held


def why(
    tx: Connection, board: str, task_id: str, *, now: int, topic: str | None = None, then: bool = False
) -> dict[str, Any]:
    """Why the card has its status, counters, hold, or was not started; with event positions and what to run next.

    `proof` holds, for each topic told, the smallest set of events that gives its value (`projections.proof`), with the
    clause of the rules. `chain` leads from a waiting card to what must happen first, `also` names what else must.
    *topic* is one of `status`, `failures`, `streak`, `hold`, `held`; none means all that applies. *now* is microseconds
    UTC. *then*: it is asked of the past, of which no sweep tells, and in which nothing can be done.
    Raises `UnknownTask`, `InvalidInput`; `UnknownKind`, `NewerSchema` for events that this program cannot read.
    """
    if topic is not None and topic not in TOPICS:
        raise InvalidInput(f"{topic!r} is no topic of why", remedy=f"one of: {', '.join(TOPICS)}")
    stored = load_task(tx, board, task_id)
    if stored is None:
        raise UnknownTask(task_id)
    answer = _Answer(Asked(tx, board, stored, now), then=then)
    topics = [topic] if topic is not None else _that_apply(stored)
    chain, also = answer.chain
    return {
        "task": task_id,
        "status": status(stored),
        "because": [ground.as_json() for name in topics for ground in answer.grounds(name)],
        "proof": [proof.as_json() for name in topics if (proof := answer.proof(name)) is not None],
        "waits_on": [_wait_json(answer.since(wait)) for wait in answer.asked.waits],
        "chain": chain,
        "also": also,
        "try": None if then else answer.remedy,
    }


def _that_apply(task: Task) -> list[str]:
    match status(task):
        case "blocked":
            return ["status", "hold"]
        case "ready" | "review" | "scheduled":
            return ["status", "failures", "held"] if task.failures else ["status", "held"]
        case _:
            return ["status"]


def _wait_json(wait: Wait) -> dict[str, Any]:
    shown = ("parent", "require", "status", "outcome", "hold", "dead", "position")
    return {name: getattr(wait, name) for name in shown}


class _Answer:
    """All that can be told of one card; each part is worked out when it is first asked for."""

    def __init__(self, asked: Asked, *, then: bool) -> None:
        self.asked = asked
        self.then = then
        self._proofs: dict[str, Proof | None] = {}

    def proof(self, about: str) -> Proof | None:
        """The smallest set of events that gives what is told *about* the card; none: what is stored is not so."""
        if about not in self._proofs:
            self._proofs[about] = prove(about, self.asked)
        return self._proofs[about]

    def grounds(self, about: str) -> list[Ground]:
        """The reasons for one topic; where its log does not give what is stored of it, that first."""
        told: dict[str, Callable[[], list[Ground]]] = {
            "status": self._status,
            "hold": self._hold,
            "failures": lambda: self._counter("failures", ("failure_budget", "attempt_budget")),
            "streak": lambda: self._counter("streak", ("violation_budget",)),
            "held": lambda: [] if self._held is None else [self._held.ground],
        }
        return told[about]() if self.proof(about) is not None else [self._drifted(about), *told[about]()]

    @cached_property
    def chain(self) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        """The way from a waiting card to what must happen first, link by link; and the other cards that must move."""
        if self._cause is None:
            return [], []
        steps = [_step(self._other(wait.child), wait) for wait in self._cause.path]
        if not self._cause.ring:
            steps.append(self._end(self._cause.wait))
        others = {each.wait.parent: each.wait.status for each in self._causes if not each.ring}
        first = {self.asked.task.id, self._cause.wait.parent}
        return steps, [{"task": card, "status": stands} for card, stands in others.items() if card not in first]

    @cached_property
    def remedy(self) -> str | None:
        """What to run next."""
        task = self.asked.task
        match status(task):
            case "archived" | "done":
                return f"ledger reopen {task.id}"
            case "blocked" if task.hold is not None and not task.hold.sticky:
                lifts = f"ledger edit {task.id} --max-retries N, ledger assign {task.id} ANOTHER"
                return f"{lifts}, or ledger unblock {task.id}"
            case "blocked":
                return f"ledger runs {task.id}, then ledger unblock {task.id} --reason …"
            case "triage":
                return f"ledger edit {task.id} --lane work"
            case "todo":
                return None if self._cause is None else self._start_of(self._cause)
            case "running":
                return f"ledger log {task.id} --follow, or ledger stop {task.id}"
            case _:
                return None if self._held is None else self._held.remedy

    def since(self, wait: Wait) -> Wait:
        """*wait* with the position that the parent's status rests on, where one event made it."""
        made = {"archived": "archived", "done": "completed", "running": "claimed"}.get(wait.status)
        found = None if made is None else last_of_kind(self.asked.tx, self.asked.board, wait.parent, made)
        return wait if found is None else wait._replace(position=found.position)

    # Waiting

    @cached_property
    def _causes(self) -> list[Cause]:
        asked = self.asked
        return causes(asked.tx, asked.board, asked.task.id) if status(asked.task) == "todo" else []

    @property
    def _cause(self) -> Cause | None:
        return self._causes[0] if self._causes else None

    def _start_of(self, cause: Cause) -> str | None:
        """The command that makes happen what must happen first."""
        wait = cause.wait
        if cause.ring:
            return f"ledger unlink {wait.child} {wait.parent}"
        return bring_back(wait) if wait.dead else self._other(wait.parent).remedy

    def _other(self, card: str) -> _Answer:
        """The answer for another card of the board, which must be there."""
        asked = self.asked
        if card == asked.task.id:
            return self
        found = load_task(asked.tx, asked.board, card)
        return _Answer(Asked(asked.tx, asked.board, found or Task(card), asked.now), then=self.then)

    def _end(self, wait: Wait) -> dict[str, Any]:
        """The last step of a chain: where the card that must move first stands, and why."""
        if wait.status == "unknown":
            return told_of(wait.parent, "unknown", Ground("there is no such card on this board", "§3"))
        answer = self._other(wait.parent)
        grounds = [*answer.grounds("status"), *answer.grounds("hold" if wait.status == "blocked" else "held")]
        of_it = grounds[1] if len(grounds) > 1 else grounds[0]
        places = {place for ground in (grounds[0], of_it) for place in ground.positions}
        return told_of(wait.parent, wait.status, of_it._replace(positions=tuple(sorted(places))))

    # The reasons

    def _status(self) -> list[Ground]:
        task = self.asked.task
        match status(task):
            case "archived":
                text = "it was archived"
            case "done":
                text = f"it was completed with outcome {task.outcome}"
            case "running":
                return self._running()
            case "blocked":
                text = "a hold is in force"
            case "triage":
                text = "it waits in triage for somebody to take it into work"
            case "todo":
                return [waiting_for(self.since(wait)) for wait in self.asked.waits]
            case "scheduled":
                text = f"it is parked until {rfc3339(task.scheduled or 0)}"
            case "review":
                text = f"it waits for its reviewer {task.worker or '(none)'}"
            case _:
                text = "it is open: no hold is in force, and it waits for no other card"
        return [Ground(text, "§3", self._places("status"))]

    def _running(self) -> list[Ground]:
        run, tx, board, card = self.asked.task.run, self.asked.tx, self.asked.board, self.asked.task.id
        claimed = next(self.asked.newest("claimed"))
        grounds = [Ground(f"run {run} by {claimed.facts['worker']} is open", "§3", (claimed.position,))]
        bound = last_of_kind(tx, board, card, "worker_bound")
        if bound is not None and bound.run == run:
            has = "takes its turns" if bound.facts["role"] == "turns" else "has the run"
            grounds.append(Ground(f"process {bound.facts['pid']} {has}", "§7", (bound.position,)))
        stop = last_of_kind(tx, board, card, "stop_requested")
        if stop is not None and stop.run == run:
            grounds.append(Ground(f"it was asked to stop: {stop.facts['cause']}", "§7", (stop.position,)))
        return grounds

    def _hold(self) -> list[Ground]:
        hold = self.asked.task.hold
        if hold is None:
            return [Ground("no hold is in force", "§5"), *self._at_limit(None)]
        lifts = (
            "only a person lifts it" if hold.sticky else "it lifts when a limit is raised or the card is handed over"
        )
        limit = f": {hold.count} of {hold.limit} ({hold.limit_source} limit)" if hold.count is not None else ""
        kind = f" ({hold.kind})" if hold.kind is not None else ""
        text = f"{hold.cause}{kind}{limit}{self._said(hold)}; {'only a person lifts it' if hold.sticky else lifts}"
        grounds = [Ground(text, "§5", self._places("hold")), *self._at_limit(hold.cause)]
        ending = next((event for event in self.asked.newest(*ENDINGS) if event.run is not None), None)
        if ending is not None and ending.outcome is not None:
            code = ending.facts.get("code")
            how = f" with code {code}" if code is not None else ""
            grounds.append(Ground(f"run {ending.run} ended as {ending.outcome}{how}", "§6", (ending.position,)))
        return grounds

    def _said(self, hold: Hold) -> str:
        """The words that came with a hold, where somebody said them."""
        if hold.cause not in {"operator", "worker", "config"}:
            return ""
        made = at_position(self.asked.tx, self.asked.board, hold.position)
        words = {} if made is None else made.words
        reason = words.get("reason") or words.get("last_words")
        return "" if reason is None else f' "{reason}"'

    def _at_limit(self, but: str | None) -> list[Ground]:
        """Every budget that is at its limit now (RULES §5), *but* the one that was told already."""
        others = [each for each in at_limit(self.asked.task, self.asked.settings.policy) if each.cause != but]
        return [
            Ground(
                f"{each.cause} is at its limit now: {each.count} of {each.limit} ({each.limit_source})",
                "§5",
                _positions(counted(self.asked, COUNTED_BY[each.cause], each.count)),
            )
            for each in others
        ]

    def _counter(self, counter: str, causes: tuple[str, ...]) -> list[Ground]:
        limits = [each for each in budgets(self.asked.task, self.asked.settings.policy) if each.cause in causes]
        told = ", ".join(f"{each.cause} {each.count} of {each.limit} ({each.limit_source})" for each in limits)
        number = getattr(self.asked.task, counter)
        return [Ground(f"{counter} {number} in this epoch; {told}", "§4", self._places(counter))]

    @cached_property
    def _held(self) -> Held | None:
        """The first thing that keeps a card from being started that no hold, run or parent keeps back; else none."""
        asked = self.asked
        found = kept(asked.task, asked.settings, asked.live, asked.now)
        if found is None:
            return None
        if self.then and found.reason == "claimable":
            return untold(asked.task.id)
        if found.reason in {"no_assignee", "at_capacity", "claimable"}:
            query = select(HELD.c.reason, HELD.c.since).where(HELD.c.board == asked.board, HELD.c.task == asked.task.id)
            row = asked.tx.execute(query).one_or_none()
            if row is not None:
                return by_sweep(row.reason, row.since, asked.task.id)
        host = asked.task.card.host
        if found.reason == "claimable" and host is not None:
            return by_placement(host, asked.task.id)
        return by_log(found, asked.task.id, self._places("held"))

    def _places(self, about: str) -> tuple[int, ...]:
        found = self.proof(about)
        return () if found is None else found.positions

    def _drifted(self, about: str) -> Ground:
        """What is stored is not what the card's log gives. Raises `UnknownKind`, `NewerSchema` where that is why."""
        asked = self.asked
        task = Task(asked.task.id)
        for event in read_task(asked.tx, asked.board, task.id):
            task = evolve(task, event)
        return Ground(f"what is stored of its {about} is not what its log gives: ledger replay --task {task.id}", "§9")


def _step(answer: _Answer, wait: Wait) -> dict[str, Any]:
    """A step of a chain: a waiting card, and the events that make it wait for the next."""
    proof = prove_waiting(answer.asked, wait.parent)
    places = () if proof is None else proof.positions
    return told_of(wait.child, "todo", waiting_for(wait)._replace(positions=places))


def _positions(events: Clump) -> tuple[int, ...]:
    return tuple(event.position for event in events)
