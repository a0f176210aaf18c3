"""The audit of a board of the reference system: its history folded by its rules and by ours, and what that shows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kanban.findings import counted, listed
from kanban.foreign.account import Account
from kanban.foreign.findings import UNSEEN, Finding, Sure
from kanban.foreign.fold import step
from kanban.foreign.history import Judge
from kanban.foreign.kinds import KNOWN, OVER, Era, era_of
from kanban.foreign.ours import POLICY, Difference, Ours
from kanban.foreign.stored import against_history, left_open, overlapping
from kanban.foreign.tables import Event, Tables, opened

_LATEST: Final = 2**63
_OFTEN: Final = 4_096  # events between two looks at the clock
_SHORT: Final = 40  # characters of a name that nobody knows


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found. *board*: the file. *events*: those that are still there."""

    board: str
    tasks: int
    runs: int
    events: int
    seconds: float
    findings: tuple[Finding, ...]
    ours: tuple[Difference, ...]
    notes: tuple[str, ...]

    @property
    def totals(self) -> dict[str, Any]:
        """The findings in numbers; a run that several of them cost is counted once."""
        sure = Counter(str(finding.sure) for finding in self.findings)
        return {
            "findings": len(self.findings),
            "by_finding": dict(Counter(finding.kind for finding in self.findings)),
            "by_certainty": {str(each): sure[each] for each in Sure},
            "tasks": len({finding.task for finding in self.findings}),
            "runs": self.runs,
            "runs_cost": len({run for finding in self.findings for run in finding.runs}),
            "runs_not_started_by_ours": sum(len(each.runs) for each in self.ours),
        }

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger audit --json` prints."""
        return {
            "board": self.board,
            "tasks": self.tasks,
            "events": self.events,
            "findings": [finding.as_json() for finding in self.findings],
            "ours": [difference.as_json() for difference in self.ours],
            "totals": self.totals,
            "notes": list(self.notes),
        }


def audit(path: Path, *, progress: Callable[[int, int], None] | None = None) -> Audit:
    """Audit the board in the file at *path*, which is copied and never written to.

    *progress* hears (events done, events in all).
    Raises `ForeignMissing`, `ForeignDamaged`, `ForeignBusy`, `NoForeignBoard`.
    """
    started = time.perf_counter()
    with opened(path) as tables:
        auditor = _Auditor(tables)
        auditor.read(progress)
        findings, ours = auditor.end()
        notes = tuple(auditor.notes())
    return Audit(
        str(path), len(tables.cards), len(tables.runs), auditor.count, time.perf_counter() - started, findings, ours,
        notes,
    )  # fmt: skip


class _Auditor:
    """One pass over the events of a board, in their order: all cards side by side, since they wait for each other."""

    def __init__(self, tables: Tables) -> None:
        self.count = 0
        self._tables = tables
        self._era: Era = era_of(tables.columns["tasks"])
        self._accounts: dict[str, Account] = {}
        self._ours: dict[str, Ours] = {}
        self._claims: dict[int, int] = {}
        self._unknown: Counter[str] = Counter()
        self._strangers: Counter[str] = Counter()
        self._judge = Judge(tables.cards, self._accounts)
        self._newest = 0

    def read(self, progress: Callable[[int, int], None] | None) -> None:
        """Take every event of the board, in order."""
        total = self._tables.count() if progress else 0
        for event in self._tables.events():
            self._take(event)
            if progress is not None and self.count % _OFTEN == 0:
                progress(self.count, total)

    def _take(self, event: Event) -> None:
        self.count += 1
        self._newest = event.id
        card = self._tables.cards.get(event.task)
        if event.kind not in KNOWN:
            self._unknown[event.kind] += 1
        if card is None:
            self._strangers[event.task] += 1
            return
        self._era = self._era.after(event.kind, event.facts)
        was = self._accounts.get(event.task) or Account(card.id)
        now = step(was, event, self._era, self._accounts)
        self._accounts[card.id] = now
        if event.kind == "claimed" and now.run is not None:
            self._claims[now.run] = event.id
        self._judge.see(was, event, now, self._era)
        ours = self._ours.get(card.id)
        if ours is None:
            ours = self._ours[card.id] = Ours(card.id, card.max_retries)
        ours.see(event, now)

    def end(self) -> tuple[tuple[Finding, ...], tuple[Difference, ...]]:
        """All that was found, in the order of the events."""
        ours = tuple(difference for card in self._ours.values() for difference in card.found)
        found = [
            *self._judge.found,
            *against_history(self._tables, self._accounts, newest=self._newest, era=self._era),
            *left_open(self._tables, self._claims),
            *overlapping(self._tables, self._accounts),
        ]
        found.extend(_compared(found, ours))
        found.sort(key=lambda each: (each.events[-1] if each.events else _LATEST, each.task, each.kind))
        return tuple(found), tuple(sorted(ours, key=lambda each: each.known_until))

    def notes(self) -> Iterator[str]:
        """What this audit could not look at, and what it took for granted."""
        yield from _of_the_file(self._tables, self.count)
        if self._unknown:
            kinds = [f"{kind[:_SHORT] or 'without a name'} ({times})" for kind, times in self._unknown.most_common()]
            yield f"{counted(self._unknown.total(), 'event')} of kinds that are not known, passed over: {listed(kinds)}"
        if self._strangers:
            yield f"{counted(self._strangers.total(), 'event')} of cards that are not in the table of cards"
        yield from self._of_the_cards()
        yield (
            f"ours: the limits of a new board (failure_limit {POLICY.failure_limit}, violation_limit "
            f"{POLICY.violation_limit}, neutral_limit {POLICY.neutral_limit}, run_limit {POLICY.run_limit}), a card's "
            "max_retries before them; that system's own configuration is not on its board"
        )

    def _of_the_cards(self) -> Iterator[str]:
        cut = [card for card, account in self._accounts.items() if not account.whole]
        if cut:
            yield f"{counted(len(cut), 'card')} with a history that begins in the middle: {listed(cut)}"
        cards = self._tables.cards
        silent = [card for card in cards if card not in self._accounts and cards[card].status in OVER]
        if silent:
            yield f"{counted(len(silent), 'done or archived card')} without any event left: nothing is said of them"
        told = {(parent, card) for card, account in self._accounts.items() for parent in account.parents}
        untold = [child for parent, child in self._tables.links - told if parent in cards and child in cards]
        if untold:
            yield f"{counted(len(untold), 'link')} without an event: claims under them were not judged"


def _of_the_file(tables: Tables, count: int) -> Iterator[str]:
    if tables.live:
        yield "a log lay beside the file, so somebody was at work or had died: this is the board at one moment"
    written = tables.written()
    if written is not None and written > count:
        yield f"{written - count} of {written} events are gone: that system deletes them with cards, and after 30 days"
    if tables.unread:
        yield f"{counted(tables.unread, 'event')} with a payload that is no JSON object, read as empty"


def _compared(found: Iterable[Finding], ours: Iterable[Difference]) -> Iterator[Finding]:
    """Tell the findings that cost runs what our rules would have done; yield what no finding shows yet."""
    shown: set[int] = set()
    holds: dict[int, Difference] = {run: difference for difference in ours for run in difference.runs}
    for finding in found:
        if finding.kind not in {"budget_exceeded", "promoted_while_held"}:
            continue
        shown.update(finding.runs)
        difference = next((holds[run] for run in finding.runs if run in holds), None)
        finding.ours = _told(difference) if difference else _SAME if finding.runs else None
    for difference in ours:
        if not shown & set(difference.runs):
            yield _unseen(difference)


_SAME: Final = "no hold by our rules at that time: started too"


def _told(difference: Difference) -> str:
    counts = f" {difference.count} of {difference.limit}" if difference.limit is not None else ""
    runs = counted(len(difference.runs), "run")
    return f"held at event {difference.at} ({difference.cause}{counts}): {runs} not started"


def _unseen(difference: Difference) -> Finding:
    runs = counted(len(difference.runs), "run")
    cause = difference.cause.replace("_", " ")
    text = f"{runs} beyond our {cause}, {difference.count} of {difference.limit} at event {difference.at}"
    because = None if difference.sure is Sure.CERTAIN else "its history is known in part, or people acted meanwhile"
    return Finding(
        "budget_exceeded", difference.task, text, (difference.at, difference.known_until), difference.sure, because,
        rule=UNSEEN, runs=list(difference.runs), ours=_told(difference),
    )  # fmt: skip
