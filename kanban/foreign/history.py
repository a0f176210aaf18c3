"""What is wrong within the history of a card, seen event by event between one account and the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kanban.findings import counted
from kanban.foreign.account import Account, Budget, Count, budget_of, satisfied
from kanban.foreign.findings import NEW, REVIEWED, STICKY, Finding, Sure
from kanban.foreign.kinds import FREED, NEWER, Era
from kanban.foreign.tables import Card, Event

_FROM: Final = {
    "claimed": frozenset({"ready", "review"}),
    "promoted": frozenset({"todo", "blocked"}),
    "unblocked": frozenset({"blocked", "scheduled"}),
    "completed": frozenset({"running", "ready", "blocked", "review"}),
    **dict.fromkeys(FREED - {"spawn_failed", "timed_out", "reclaimed"}, frozenset({"running"})),
}  # fmt: skip
"""Kinds that are written only where the card had one of these statuses."""
_PERSON: Final = frozenset({"unblocked", "promoted_manual", "status", "review_reopened", "completed", "archived"})
"""Acts after which a budget may be used again, or nothing more of it is used."""
_HELD: Final = {"created": "created blocked", "status": "blocked by a move on the dashboard"}
_NAMED: Final = 5  # events or cards that are named where there are many
_LOST: Final = "there an end and its count are two transactions: a dispatcher killed between them loses the count"


class _Over(NamedTuple):
    """A budget that is used up, and the finding that it becomes with the next claim."""

    used: Budget
    finding: Finding


class Judge:
    """The findings within the histories of one board."""

    def __init__(self, cards: Mapping[str, Card], accounts: Mapping[str, Account]) -> None:
        self.found: list[Finding] = []
        self._cards, self._accounts = cards, accounts
        self._costing: dict[str, list[Finding]] = {}
        self._over: dict[str, _Over] = {}
        self._given: dict[str, int] = {}
        self._survivors: dict[str, Event] = {}

    def see(self, was: Account, event: Event, now: Account, era: Era) -> None:
        """*event* made *now* of *was*."""
        self._from_nowhere(was, event, era)
        match event.kind:
            case "claimed":
                self._claimed(was, event, now, era)
            case "gave_up":
                self._costing.pop(event.task, None)
                self._counter(was, event)
                self._gave_up(event)
            case "timed_out" | "spawn_failed":
                self._counter(was, event)
            case "promoted":
                self._promoted(was, event)
            case "blocked" | "block_loop_detected":
                self._costing.pop(event.task, None)
                self._reasonless(event)
            case "reclaimed" if event.facts.get("termination_attempted") and event.facts.get("terminated") is False:
                self._survivors[event.task] = event
            case "terminal_worker_reaped":
                self._reaped(was, event)
            case _:
                pass
        self._made_good(was, event)

    def _made_good(self, was: Account, event: Event) -> None:
        if _gives_away(was, event):
            self._given[event.task] = event.id
        if _acted(was, event):
            self._over.pop(event.task, None)
            self._costing.pop(event.task, None)

    # A claim

    def _claimed(self, was: Account, event: Event, now: Account, era: Era) -> None:
        if now.run is not None:
            for finding in self._costing.get(event.task, ()):
                finding.runs.append(now.run)
        self._beyond(was, event, now)
        self._second(was, event, now)
        self._early(was, event, now, era)

    def _beyond(self, was: Account, event: Event, now: Account) -> None:
        """A claim although the budget is used up: the card's own limit, or the one that a gave_up has named."""
        limit, low = self._cards[event.task].max_retries, was.failures.low
        if event.task not in self._over and limit is not None and low >= limit > 0:
            used = Budget(low, limit, "failures (a limit of its own)")
            self._over[event.task] = _Over(used, Finding("budget_exceeded", event.task, "", was.counted[-_NAMED:]))
        over = self._over.get(event.task)
        if over is None or now.run is None:
            return
        found = over.finding
        if not found.runs:
            self.found.append(found)
        found.runs.append(now.run)
        found.events = (*found.events, event.id)
        found.text = f"{counted(len(found.runs), 'run')} beyond {over.used}, before anybody acted"

    def _second(self, was: Account, event: Event, now: Account) -> None:
        survivor = self._survivors.pop(event.task, None)
        if was.run is not None:
            text = f"run {now.run} was claimed while run {was.run} had not ended"
            because = "whether its process still ran is in no table"
            pair = (was.claimed, event.id)
            self._add("two_live_runs", was, event, text, events=pair, sure=Sure.LIKELY, because=because, run=now.run)
        elif survivor is not None:
            pid = survivor.number("prev_pid")
            text = f"run {now.run} was claimed although process {pid} of run {survivor.run} outlived its kill"
            because = "it was alive when the claim was taken from it; how much longer is in no table"
            pair = (survivor.id, event.id)
            self._add("two_live_runs", was, event, text, events=pair, sure=Sure.LIKELY, because=because, run=now.run)

    def _early(self, was: Account, event: Event, now: Account, era: Era) -> None:
        waiting = [name for name in sorted(was.parents) if satisfied(self._accounts.get(name)) is False]
        if not waiting:
            return
        text = f"run {now.run} was claimed while {', '.join(waiting[:_NAMED])} was open"
        reviewed = event.text("source_status") == "review" and era.high < NEWER
        finding = self._add("claimed_with_open_parents", was, event, text, run=now.run)
        finding.rule = REVIEWED if reviewed else None
        if any(self._is_strange(self._accounts[name]) for name in waiting):
            finding.sure, finding.because = Sure.UNKNOWN, "a kind that is not known stands in the parent's history"

    # Holds and budgets

    def _promoted(self, was: Account, event: Event) -> None:
        hold = was.hold
        if was.status != "blocked" or hold is None:
            return
        if hold.kind == "gave_up" and self._given.get(event.task, 0) > hold.event:
            return  # somebody else has the card: that lifts it by our rules too
        what = _HELD.get(hold.kind, hold.kind)
        text = f"{what}{f' at {hold.budget}' if hold.budget else ''}; then promoted, though nobody had acted"
        finding = self._add("promoted_while_held", was, event, text, events=(hold.event, event.id))
        finding.rule = STICKY if was.sticky else None
        self._costing.setdefault(event.task, []).append(finding)

    def _gave_up(self, event: Event) -> None:
        used = budget_of(event)
        if used is not None and event.task not in self._over:
            self._over[event.task] = _Over(used, Finding("budget_exceeded", event.task, "", (event.id,)))

    def _counter(self, was: Account, event: Event) -> None:
        """The counter that the event carries is the one that the events before it make."""
        told = event.number("failures")
        expected = _expected(was, event)
        if told is None or told in expected:
            return
        fewer = told < expected.low
        text = f"{event.kind} says failure {told} where the events before it make {_said(expected)}"
        lost = fewer and expected.low - told <= was.unsure
        finding = self._add("counter_without_event", was, event, text, events=(*was.counted[-_NAMED:], event.id))
        finding.stored, finding.history = {"failures": told}, {"failures": _said(expected)}
        if lost and finding.sure is Sure.CERTAIN:
            finding.sure, finding.because = Sure.LIKELY, _LOST

    def _reasonless(self, event: Event) -> None:
        if not event.text("reason").strip() and not event.facts.get("classified_in_place"):
            self.found.append(
                Finding("blocked_without_reason", event.task, f"{event.kind} without a reason", (event.id,))
            )

    # Moves from nowhere

    def _from_nowhere(self, was: Account, event: Event, era: Era) -> None:
        wanted = _FROM.get(event.kind)
        if wanted is None or was.statuses & wanted:
            return
        stood = " or ".join(sorted(was.statuses))
        text = f"{event.kind}, but by the events before it the card was {stood}: it was moved without one"
        finding = self._add("status_without_event", was, event, text, events=(was.moved, event.id))
        if event.kind == "claimed":
            self._costing.setdefault(event.task, []).append(finding)
        if finding.sure is Sure.CERTAIN and era.high >= NEWER:
            finding.sure, finding.because = Sure.LIKELY, NEW

    def _reaped(self, was: Account, event: Event) -> None:
        if was.run is None or event.run in {None, was.run}:
            return
        text = f"a process of run {event.run}, which had ended, was still alive while run {was.run} was open"
        self._add("two_live_runs", was, event, text, events=(was.claimed, event.id), run=was.run)

    # Helpers of all

    def _add(
        self,
        kind: str,
        was: Account,
        event: Event,
        text: str,
        *,
        events: tuple[int, ...] = (),
        sure: Sure = Sure.CERTAIN,
        because: str | None = None,
        run: int | None = None,
    ) -> Finding:
        if self._is_strange(was):
            sure, because = Sure.UNKNOWN, f"event {was.strange} is of a kind that is not known"
        runs = [] if run is None else [run]
        finding = Finding(kind, event.task, text, events or (event.id,), sure, because, runs=runs)
        self.found.append(finding)
        return finding

    @staticmethod
    def _is_strange(account: Account) -> bool:
        """Whether an event of an unknown kind stands behind the last that moved the card."""
        return account.strange > account.moved


def _gives_away(was: Account, event: Event) -> bool:
    """Whether somebody else has the card from now on."""
    to = event.text("assignee")
    return event.kind == "assigned" and not event.text("source") and bool(to) and to != was.assignee


def _acted(was: Account, event: Event) -> bool:
    """Whether a person, or the end of the work, makes good what was used up."""
    if event.kind == "reclaimed":
        return bool(event.facts.get("manual"))
    return event.kind in _PERSON or _gives_away(was, event)


def _expected(was: Account, event: Event) -> Count:
    """What the counter in *event* must be: most count the end themselves, a gave_up after an end does not."""
    if event.facts.get("infrastructure"):
        return was.failures.plus(0, 1)
    if event.kind != "gave_up" or event.run is not None:
        return was.failures.plus(1, 1)
    if "protocol_violations" in event.facts or "budget_used" in event.facts:
        return was.failures.plus(1, 1)
    known = event.text("trigger_outcome") in {"crashed", "timed_out"}
    return was.failures if known else was.failures.plus(0, 1)


def _said(count: Count) -> str:
    if count.low == count.high:
        return str(count.low)
    return f"{count.low} or more" if count.high is None else f"{count.low} to {count.high}"
