"""A board in memory: `decide`, the plan and the booking run purely on it, through the same `View` as in the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from kanban.admission import caps_of, claimed, live_of, refuse
from kanban.booking import decide_step
from kanban.commands import Create, Credential, Decision
from kanban.decide import decide
from kanban.evidence import NO_EVIDENCE, Evidence
from kanban.outcome import Verb
from kanban.plan import Admission, AskStop, Book, Here, Lease, Lift, Renew, Seen, Step, Worker, admit, settle
from kanban.processes import Presence
from ledger import ids
from ledger.errors import LedgerError
from ledger.events import ENDINGS, Actor, Event, Outcome
from ledger.recorded import Draft, Recorded
from projections.graph import Link
from projections.run import Run
from projections.settings import Settings
from projections.task import Task, status
from projections.world import World
from tests import given

HOST, BOOT, OBSERVER = "node-1", "boot-1", "node-1:7"
SECOND, NOW = given.SECOND, given.NOW
GONE = Seen(Presence.GONE)
"""The process group is empty, and nothing bears witness."""


class Claim(NamedTuple):
    """A run and the only copy of its lock."""

    task: str
    run: int
    lock: str

    @property
    def proof(self) -> Credential:
        """What its worker shows."""
        return Credential(self.lock, self.run)

    @property
    def own(self) -> tuple[str, Credential]:
        """What the worker's environment says."""
        return self.task, self.proof


def evidence(code: int | None = None, signal: int | None = None, *, reset: int | None = None) -> Evidence:
    """An exit record of *code* or *signal*."""
    return NO_EVIDENCE if code is signal is None else Evidence("exit_record", code, signal, reset, "bye", ("bye",))


def ended(code: int | None = None, signal: int | None = None, **seen: Any) -> Seen:
    """A group that is empty, with an exit record of *code* or *signal*."""
    reset = seen.pop("reset", None)
    return Seen(Presence.GONE, evidence=evidence(code, signal, reset=reset), **seen)


class WorldView:
    """The view of a decision over a log in memory, and the verbs that tests speak in. *limits*: the board's policy."""

    def __init__(self, **limits: Any) -> None:
        self.log: list[Recorded] = []
        self.world = World()
        self.leases: dict[tuple[str, int], Lease] = {}
        self.ending: set[str] = set()
        self.workers = {name: Worker(human=False, max_running=None) for name in ("builder", "other", "critic")}
        self.host_cap = 8
        self._now = NOW
        self.happened(given.board_created())
        if limits:
            self.policy(**limits)

    # The view of a decision

    @property
    def now(self) -> int:
        return self._now

    @now.setter
    def now(self, instant: int) -> None:
        assert instant >= self._now, "the store's clock never runs back"
        self._now = instant

    @property
    def settings(self) -> Settings:
        return self.world.settings

    def task(self, task: str) -> Task | None:
        return self.world.task(task)

    def run(self, task: str, run: int) -> Run | None:
        return self.world.runs.get((task, run))

    def run_by_lock(self, task: str, lock_hash: str) -> Run | None:
        return next((run for run in self.world.runs.values() if (run.task, run.lock_hash) == (task, lock_hash)), None)

    def parents(self, task: str) -> tuple[Link, ...]:
        found = self.world.graph.parents.get(task, {})
        return tuple(Link(parent, task, found[parent]) for parent in sorted(found))

    def children(self, task: str) -> tuple[Link, ...]:
        found = self.world.graph.children.get(task, {})
        return tuple(Link(task, child, found[child]) for child in sorted(found))

    def event(self, position: int) -> Recorded | None:
        return self.log[position - 1] if 0 < position <= len(self.log) else None

    def completion(self, task: str) -> Recorded | None:
        return next((event for event in reversed(self.of(task)) if event.kind == "completed"), None)

    def redacts(self, event: Recorded) -> bool:
        return any(each.kind == "redacted" and each.facts["redacts"] == event.position for each in self.log)

    def created_with(self, key: str) -> Recorded | None:
        born = (event for event in self.log if event.kind == "created")
        return next((event for event in born if event.facts["key"] == key), None)

    def live(self) -> tuple[Run, ...]:
        return tuple(run for run in self.world.runs.values() if run.open)

    # What a test reads

    def card(self, task: str = "t_a") -> Task:
        """The card, which must be there."""
        found = self.task(task)
        assert found is not None, task
        return found

    def status(self, task: str = "t_a") -> str:
        """The card's status."""
        return status(self.card(task))

    def of(self, task: str) -> list[Recorded]:
        """The card's stream."""
        return [event for event in self.log if event.task == task]

    def told(self, since: int) -> list[tuple[str, str]]:
        """(card, kind) of every event after position *since*."""
        return [(event.task, event.kind) for event in self.log[since:]]

    def kinds(self, since: int = 0, task: str | None = None) -> list[str]:
        """The kinds after position *since*."""
        return [event.kind for event in self.log[since:] if task in {None, event.task}]

    def last(self, kind: str) -> Recorded:
        """The last event of that kind."""
        return next(event for event in reversed(self.log) if event.kind == kind)

    @property
    def head(self) -> int:
        """The last position."""
        return len(self.log)

    @property
    def here(self) -> Here:
        """The host that plans."""
        return Here(HOST, BOOT, self.host_cap, self.workers)

    # What happens

    def happened(self, event: Event, task: str = "t_a", actor: Actor = given.OPERATOR) -> Recorded:
        """*event* stands in the log, whoever decided it."""
        self.write([given.draft(event, task=task, actor=actor)])
        return self.log[-1]

    def write(self, drafts: Iterable[Draft]) -> list[Recorded]:
        """Append *drafts* with the next positions and versions, now."""
        before = self.head
        for draft in drafts:
            version = len(self.of(draft.task)) + 1
            recorded = draft.as_if(board="b", position=self.head + 1, version=version, at=self.now)
            self.log.append(recorded)
            self.world.evolve(recorded)
            if recorded.kind in ENDINGS and recorded.run is not None:
                self.leases.pop((recorded.task, recorded.run), None)
        return self.log[before:]

    def policy(self, **limits: Any) -> None:
        """These limits change, the others stay."""
        self.happened(given.policy_changed(**(self.settings.policy._asdict() | limits)))

    def later(self, seconds: float) -> int:
        """Time goes on."""
        self.now += round(seconds * SECOND)
        return self.now

    def redact(self, position: int) -> None:
        """The words of the event at *position* are gone."""
        task = self.log[position - 1].task
        self.log[position - 1] = self.log[position - 1]._replace(words_text=None)
        self.happened(given.redacted(position), task)

    def do(self, command: Any, actor: Actor = given.OPERATOR, own: tuple[str, Credential] | None = None) -> Decision:
        """Decide and append *command*. Its refusal, if it has one beside events, is in the decision."""
        decision = decide(self, command, actor, own)
        self.write(decision.drafts)
        return decision

    def refuses(
        self,
        refusal: type[LedgerError],
        command: Any,
        actor: Actor = given.OPERATOR,
        own: tuple[str, Credential] | None = None,
    ) -> Any:
        """*command* is refused as exactly *refusal*, says what to run next, and appends nothing."""
        before = list(self.log)
        with pytest.raises(refusal) as caught:
            self.do(command, actor, own)
        assert caught.type is refusal
        assert caught.value.remedy
        assert self.log == before
        return caught.value

    def create(self, task: str = "t_a", *, parents: Iterable[Any] = (), **fields: Any) -> Task:
        """A card of builder's; *parents* as ids or (id, require)."""
        links = tuple((each, "ok") if isinstance(each, str) else each for each in parents)
        self.do(Create(task, **({"title": "A card", "assignee": "builder", "parents": links} | fields)))
        return self.card(task)

    def claim(
        self,
        task: str = "t_a",
        by: str = "spawn",
        *,
        bound: bool | None = None,
        worker: str | None = None,
        host: str = HOST,
        boot: str = BOOT,
        **asked: Any,
    ) -> Claim:
        """Open a run as a sweep's spawn (bound at once) or by hand (bound only if *bound*), if admission allows."""
        card = self.card(task)
        who = worker or card.worker or "ada"
        caps = caps_of(
            self.settings,
            who,
            live_of(self.live(), sum(run.by == "spawn" for run in self.live())),
            own_cap=None,
            host_cap=self.host_cap if by == "spawn" else None,
        )
        refuse(self, card, who, host, caps, ending=task in self.ending)
        lock = ids.lock()
        event = claimed(
            self, card, by=by, worker=who, lock_hash=ids.lock_hash(lock), host=host, boot=boot, caps=caps, **asked
        )
        actor = given.SWEEP if by == "spawn" else given.OPERATOR
        self.happened(event, task, actor)
        self.leases[task, event.run] = Lease(event.lease_until, None, row=True)
        if by == "spawn" if bound is None else bound:
            group = {"group": 0} if by == "hand" else {}
            self.happened(given.worker_bound(event.run, host=host, boot=boot, **group), task, actor)
        return Claim(task, event.run, lock)

    def book(self, task: str, outcome: str, seen: Seen = GONE, *, observer: str = OBSERVER) -> Decision:
        """The step that books the card's open run as *outcome*, decided and not appended."""
        run = self.run(task, self.card(task).run or 0)
        assert run is not None, f"{task} has no run"
        verb = Verb(outcome) if outcome in set(Verb) else Outcome(outcome)
        step = Book(run, verb, seen, self.leases[run.task, run.run])
        return decide_step(self, step, given.SWEEP, observer)

    def exit(self, task: str = "t_a", outcome: str = "crashed", **seen: Any) -> list[Recorded]:
        """The card's open run is booked as *outcome*."""
        return self.write(self.book(task, outcome, ended(**seen)).drafts)

    def attempt(self, task: str = "t_a", outcome: str = "crashed") -> list[Recorded]:
        """A run opens as soon as it may, and is booked as *outcome*."""
        card = self.card(task)
        self.now = max(self.now, card.not_before or 0, card.scheduled or 0)
        self.claim(task)
        return self.exit(task, outcome)

    def planned(self, seen: Mapping[tuple[str, int], Seen] | None = None) -> list[Step]:
        """What a tick would do with the runs and holds that stand now."""
        cards = (self.card(task) for task in sorted(self.world.tasks))
        return settle(
            self.now,
            self.settings,
            self.here,
            open_runs=[(run, self.leases[run.task, run.run]) for run in self.live()],
            ending=(),
            liftable=[card for card in cards if card.hold is not None],
            seen=seen or {},
        )

    def settle(self, seen: Mapping[tuple[str, int], Seen] | None = None) -> list[Step]:
        """Steps 1–5 of a tick: planned, decided again, and appended."""
        steps = self.planned(seen)
        for step in steps:
            match step:
                case Book() | AskStop() | Lift():
                    self.write(decide_step(self, step, given.SWEEP, OBSERVER).drafts)
                case Renew(run, until):
                    self.leases[run.task, run.run] = self.leases[run.task, run.run]._replace(until=until)
                case _:
                    pass
        return steps

    def candidates(self) -> list[Task]:
        """The cards that only time or slots could hold back, in the board's order."""
        cards = [self.card(task) for task in self.world.tasks]
        open_cards = [card for card in cards if status(card) in {"scheduled", "review", "ready"}]
        due = [card for card in open_cards if (card.scheduled or 0) <= self.now]
        return sorted(due, key=lambda card: (-card.card.priority, card.card.created_at, card.id))

    def admit(self, most: int | None = None) -> Admission:
        """Step 6 of a tick: which cards start, decided and not appended."""
        live = live_of(self.live(), sum(run.by == "spawn" for run in self.live()))
        ending = frozenset(self.ending)
        return admit(self.now, self.settings, self.here, self.candidates(), live, ending=ending, most=most)

    def tick(self, seen: Mapping[tuple[str, int], Seen] | None = None) -> tuple[list[Step], Admission]:
        """One tick: settle, then claim what may start."""
        steps = self.settle(seen)
        admission = self.admit()
        for start in admission.starts:
            self.claim(start.task.id)
        return steps, admission
