"""A board with two weeks of a fleet's life in it: what the screenshots show, and what the browser's tests look at.

What is drawn by lot comes from one seed, and time is the story's own, so that the board is the same each time.
Every event is one that the rules allow: limits are looked at by the program's own functions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, Final

from kanban.folders import LOG, run_folder
from ledger import store as log
from ledger.clock import instant
from ledger.database import connect, writing
from ledger.events import NEUTRAL, Actor, Event
from ledger.recorded import Draft
from ledger.upgrade import upgrade
from projections.budgets import tripped
from projections.policy import Policy, not_before_after
from projections.read_models import apply, load_task
from projections.tables import metadata
from projections.task import Task, evolve
from tests import given
from tests.ledgers import Ledger, new_board

MINUTE: Final = 60 * given.SECOND
HOUR: Final = 60 * MINUTE
ROUTINE: Final = 96
"""Cards of everyday work, which are over by today."""
DAY: Final = 24 * HOUR
BOARD: Final = "fleet"
END: Final = instant(datetime(2026, 11, 27, 14, 5, tzinfo=UTC))
"""When the story ends: that is when it is looked at."""
SWEEP: Final = Actor(kind="sweep", name="sweep", host="forge-1")
DANA: Final = Actor(kind="operator", name="dana", host="forge-1")
WORKERS: Final = {"builder": 0.86, "coder": 0.8, "tester": 0.9, "scribe": 0.95}
"""Worker → how often a run of its comes to a good end."""
ENDS: Final = (("crashed", 4), ("clean", 3), ("rate_limited", 4), ("timed_out", 1), ("interrupted", 1))
SAYINGS: Final = {
    "crashed": "Traceback (most recent call last): ModuleNotFoundError: No module named 'zoneinfo'",
    "clean": "All done, I think. Let me know if you need anything else!",
    "rate_limited": "You've hit your limit. It resets at 3pm (Europe/Berlin).",
    "timed_out": "Still running the integration tests…",
    "interrupted": "received SIGTERM, leaving the working tree as it is",
}
CODES: Final = {"crashed": 1, "clean": 0, "rate_limited": 75, "config": 78}
_VERBS: Final = ("Mend", "Speed up", "Document", "Test", "Split", "Rename", "Cache", "Validate", "Retry", "Log")
_THINGS: Final = (
    "the date parser", "invoice rounding", "the webhook signature", "the tenant switch", "CSV export of orders",
    "login by passkey", "the nightly backup", "search over attachments", "the rate limiter", "e-mail templates",
    "the audit trail", "the import of price lists", "avatars after a merge", "the currency table", "push notices",
)  # fmt: skip
_LABELS: Final = (("api",), ("billing",), ("web",), ("infra",), ("docs",), ("api", "urgent"), ())


@dataclass
class Fleet:
    """A board, its clock, and what is still to happen, in order of time."""

    ledger: Ledger
    home: Path
    lot: random.Random = field(default_factory=lambda: random.Random(11))
    policy: Policy = field(default_factory=Policy)
    at: int = 0
    _agenda: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _turn: Iterator[int] = field(default_factory=count)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def then(self, at: int, what: Callable[[], None]) -> None:
        """*what* happens at *at*."""
        heappush(self._agenda, (at, next(self._turn), what))

    def live(self) -> None:
        """Let everything happen."""
        while self._agenda:
            self.at, _, what = heappop(self._agenda)
            if self.at <= END:
                what()

    def say(self, task: str, *events: Event, actor: Actor = DANA) -> Task:
        """Append *events* to the stream of *task*, now, and the hold of a budget that they trip."""
        drafts = [given.draft(event, task=task, actor=actor) for event in events]
        with writing(self.ledger.engine) as tx:
            before = load_task(tx, BOARD, task)
            drafts += self._holds(before, drafts)
            version = log.version(tx, BOARD, task)
            apply(tx, BOARD, log.append(tx, BOARD, drafts, expected=version, at=self.at))
            after = load_task(tx, BOARD, task)
        assert after is not None
        return after

    def _holds(self, before: Task | None, drafts: list[Draft]) -> list[Draft]:
        if before is None or drafts[0].kind != "exited":
            return []
        after = before
        for place, draft in enumerate(drafts, 1):
            after = evolve(
                after, draft.as_if(position=before.position + place, version=before.version + place, at=self.at)
            )
        budget = tripped(before, after, self.policy, ended_by="exited")
        if budget is None:
            return []
        held = given.budget_blocked(
            budget.cause, count=budget.count, limit=budget.limit, sticky=budget.sticky, limit_source=budget.limit_source
        )
        return [given.draft(held, task=before.id, actor=SWEEP)]

    # Cards

    def create(self, title: str, **fields: Any) -> str:
        """A card, now."""
        task = f"t_{next(self._ids):03}{''.join(self.lot.choices('bcdfghkmnpqrstvwxz', k=6))}"
        self.say(task, given.created(title, **fields))
        return task

    def work(self, task: str, worker: str, wait: int, *, ends: str | None = None, took: int | None = None) -> None:
        """A run of *worker* begins after *wait*, if the card can be claimed then, and ends by itself or as *ends*."""
        self.then(self.at + wait, lambda: self._claim(task, worker, ends, took))

    def _claim(self, task: str, worker: str, ends: str | None, took: int | None) -> None:
        card = self._card(task)
        if card.run is not None or card.hold is not None or card.closed or card.open_parents > 0:
            return
        run = card.last_run + 1
        claim = given.claimed(run, worker=worker, host="forge-1", lane=card.lane, lease_until=self.at + 15 * MINUTE)
        bound = given.worker_bound(run, pid=4_000 + self.at // given.SECOND % 20_000, host="forge-1")
        self.say(task, claim, bound, actor=SWEEP)
        self._write(task, run, worker)
        how = ends or self._fate(worker)
        if how != "running":
            took = took or self.lot.randint(4, 90) * MINUTE
            self.then(self.at + took, lambda: self._end(task, run, worker, how, staged=ends is not None))

    def _fate(self, worker: str) -> str:
        if self.lot.random() < WORKERS.get(worker, 0.9):
            return "review" if worker in {"builder", "coder"} and self.lot.random() < 0.3 else "completed"
        return self.lot.choices([name for name, _ in ENDS], [weight for _, weight in ENDS])[0]

    def _end(self, task: str, run: int, worker: str, how: str, *, staged: bool) -> None:
        itself = Actor(kind="worker", name=worker, host="forge-1")
        used = given.usage(self.lot.randint(8, 220) * 1_000, f"{self.lot.randint(4, 260) / 100:.2f}")
        match how:
            case "completed":
                self.say(task, given.completed(run, summary="done, and the tests are green", usage=used), actor=itself)
            case "review" | "handed":
                asked = given.review_requested(run, reviewer="critic", summary="please look at the migration")
                self.say(task, asked, actor=itself)
            case "blocked":
                said = "Which of the two invoices is the real one?"
                self.say(task, given.blocked(run, "worker", block_kind="needs_input", reason=said), actor=itself)
            case _:
                self._exit(task, run, how)
        if how == "review":
            self.work(task, "critic", self.lot.randint(2, 40) * MINUTE, ends="completed")
        elif how in SAYINGS and not staged:
            self.work(task, worker, self.lot.randint(6, 70) * MINUTE)

    def _exit(self, task: str, run: int, how: str) -> None:
        card, code = self._card(task), CODES.get(how)
        back = None
        if how in NEUTRAL:
            back = not_before_after(
                self.policy, outcome=how, neutral=card.neutral + 1, task=task, now=self.at, reset_asked=None
            )
        ended: list[Event] = [
            given.exited(
                run, how, code=code, signal=15 if code is None else None, evidence="exit_record", observer="forge-1",
                last_words=SAYINGS.get(how), not_before=back,
            )
        ]  # fmt: skip
        if how == "timed_out":
            self.say(task, given.stop_requested(run, "max_runtime", since=self.at - HOUR, limit=3_600), actor=SWEEP)
        if how == "clean":
            ended.append(given.violation(run, streak=card.streak + 1, limit=self.policy.violation_limit))
        self.say(task, *ended, actor=SWEEP)

    def _card(self, task: str) -> Task:
        with writing(self.ledger.engine) as tx:
            card = load_task(tx, BOARD, task)
        assert card is not None
        return card

    def _write(self, task: str, run: int, worker: str) -> None:
        folder = run_folder(self.home, BOARD, task, run)
        folder.mkdir(parents=True)
        lines = [
            f"{worker}: reading the card and the last {run - 1} runs" if run > 1 else f"{worker}: reading the card",
            "git switch -c ledger/work", "$ pytest -q tests/unit", "........................................ [ 62%]",
            "......................... [100%]", "65 passed in 4.31s", "editing src/billing/rounding.py (+41 −12)",
            "$ pytest -q tests/integration", "..........",
        ]  # fmt: skip
        (folder / LOG).write_text("\n".join(lines) + "\n", encoding="utf-8")


def founded(url: str, home: Path) -> dict[str, str]:
    """Two weeks on a new board at *url*, whose runs wrote into *home*; the ids of the cards that stand on it today."""
    start = END - 13 * DAY
    ledger = Ledger(url, connect(url, create=True), given.FakeClock(start))
    upgrade(ledger.engine, metadata)
    new_board(ledger, BOARD, "f" * 32)
    fleet, named = Fleet(ledger, home), dict[str, str]()
    titles = [f"{verb} {thing}" for verb in _VERBS for thing in _THINGS]
    fleet.lot.shuffle(titles)
    for place, title in enumerate(titles[:ROUTINE]):
        at = start + HOUR + place * 12 * DAY // ROUTINE + fleet.lot.randint(0, 90) * MINUTE
        fleet.then(at, partial(_routine, fleet, title))
    _today(fleet, named)
    fleet.live()
    ledger.engine.dispose()
    return named


def _routine(fleet: Fleet, title: str) -> None:
    worker = fleet.lot.choice(list(WORKERS))
    labels, tenant = fleet.lot.choice(_LABELS), fleet.lot.choice((None, None, "acme"))
    priority = fleet.lot.choice((0, 0, 0, 1, 2))
    task = fleet.create(title, assignee=worker, labels=labels, tenant=tenant, priority=priority)
    patience = max(min(fleet.lot.randint(1, 40) * HOUR, END - fleet.at - 30 * HOUR), 20 * MINUTE)
    fleet.work(task, worker, patience)


BODY: Final = """\
Amounts in CHF are rounded to five centimes on the invoice and to one in the ledger, so the sums differ by up to 0.04.

Round once, at the line, half to even; add a test for each currency that we bill in.
"""


@dataclass
class _Today:
    """What stands on the board when it is looked at, told by how long ago it was (microseconds before the end)."""

    fleet: Fleet
    named: dict[str, str]

    def card(self, name: str, ago: int, title: str, *, after: tuple[str, ...] = (), **fields: Any) -> None:
        """A card, which waits for those named in *after*."""

        def made() -> None:
            parents = [self.named[each] for each in after]
            self.named[name] = self.fleet.create(title, parents=parents, **fields)

        self.fleet.then(END - ago, made)

    def run(self, name: str, ago: int, worker: str, ends: str, took: int = MINUTE) -> None:
        """A run of it that ended so."""
        self.fleet.then(END - ago, lambda: self.fleet.work(self.named[name], worker, 0, ends=ends, took=took))

    def said(self, name: str, ago: int, event: Event) -> None:
        """Something that a person did with it."""
        self.fleet.then(END - ago, lambda: self.fleet.say(self.named[name], event) and None)


def _today(fleet: Fleet, named: dict[str, str]) -> None:
    today = _Today(fleet, named)
    _billing(today)
    _stuck(today)
    _under_way(today)
    _to_come(today)


def _billing(today: _Today) -> None:
    """Cards that wait for each other, and one that has seen a lot."""
    billing = {"labels": ("billing",)}
    schema = "Draw the schema of the new billing tables"
    today.card("schema", 30 * HOUR, schema, assignee="builder", priority=5, **billing)
    today.run("schema", 29 * HOUR, "builder", "completed", 70 * MINUTE)
    today.card(
        "rounding", 26 * HOUR, "Round Swiss invoices once, at the line", assignee="builder", priority=5,
        labels=("billing", "urgent"), tenant="acme", after=("schema",), body=BODY,
    )  # fmt: skip
    today.run("rounding", 25 * HOUR, "builder", "crashed", 12 * MINUTE)
    today.run("rounding", 23 * HOUR, "builder", "rate_limited", 4 * MINUTE)
    today.said("rounding", 22 * HOUR, given.commented("The key for the staging bank is in the vault now."))
    today.run("rounding", 14 * MINUTE, "builder", "running")
    moved = {"assignee": "coder", "priority": 4, **billing}
    today.card("migrate", 25 * HOUR, "Move old invoices to the new tables", after=("rounding",), **moved)
    reports = {"assignee": "scribe", "labels": ("billing", "docs")}
    today.card("reports", 25 * HOUR, "Quarterly reports from the new tables", after=("migrate", "rounding"), **reports)
    today.card("switch", 24 * HOUR, "Switch every tenant over", after=("migrate",), **moved)


def _stuck(today: _Today) -> None:
    """A hold of each kind."""
    today.card("silent", 20 * HOUR, "Explain the retry policy in the manual", assignee="scribe", labels=("docs",))
    for ago in (18 * HOUR, 15 * HOUR, 9 * HOUR):
        today.run("silent", ago, "scribe", "clean", 9 * MINUTE)
    today.card("crash", 11 * HOUR, "Accept time zones in the date parser", assignee="coder", priority=2)
    today.run("crash", 10 * HOUR, "coder", "crashed", 5 * MINUTE)
    today.run("crash", 8 * HOUR, "coder", "crashed", 6 * MINUTE)
    today.card("input", 7 * HOUR, "Merge the two Lindqvist accounts", assignee="builder", tenant="acme")
    today.run("input", 6 * HOUR, "builder", "blocked", 20 * MINUTE)
    infra = {"labels": ("infra",)}
    today.card("key", 6 * HOUR, "Send receipts through the new mail provider", assignee="tester", **infra)
    today.run("key", 5 * HOUR, "tester", "config")
    today.card("after key", 5 * HOUR, "Retire the old mail server", assignee="builder", after=("key",), **infra)


def _under_way(today: _Today) -> None:
    """Runs that are open, and a card that waits for its reviewer."""
    today.card("signing", 4 * HOUR, "Sign webhooks with a key per tenant", assignee="coder", priority=3)
    today.run("signing", 3 * HOUR, "coder", "handed", 50 * MINUTE)
    for ago, title, worker, began, label in (
        (100, "Search over attachments in ten languages", "tester", 41, "web"),
        (95, "Passkeys beside passwords", "coder", 27, "web"),
        (90, "Thumbnails without a second upload", "builder", 6, "api"),
        (80, "Draft the release notes of 4.2", "scribe", 3, "docs"),
    ):
        today.card(title, ago * MINUTE, title, assignee=worker, priority=1, labels=(label,))
        today.run(title, began * MINUTE, worker, "running")


def _to_come(today: _Today) -> None:
    """What nobody has begun."""
    for ago, title, worker, labels in (
        (70, "Rotate the signing keys", "coder", ("infra",)),
        (65, "Measure the slowest ten queries", "tester", ("api",)),
        (50, "Choose a name for the mobile app", "dana", ()),
        (20, "Write a runbook for a lost region", "scribe", ("docs", "infra")),
    ):
        today.card(title, ago * MINUTE, title, assignee=worker, labels=labels)
    today.card("idea", 40 * MINUTE, "Maybe: a calendar feed of maintenance windows", assignee=None, lane="triage")
    today.card("pdf", 38 * MINUTE, "Maybe: invoices as PDF/A", assignee=None, lane="triage", labels=("billing",))
    today.card("later", 35 * MINUTE, "Renew the wildcard certificate", assignee="builder", labels=("infra",))
    today.said("later", 34 * MINUTE, given.scheduled(END + 20 * HOUR, "not before the freeze is over"))
