"""The one way to change a board: lock → load → decide → append → evolve → commit.

A `Desk` is the board inside its lock. Decisions see it through the `View` protocol; nothing that was read before the
lock takes part in one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection

from ledger.clock import SECOND
from ledger.database import savepoint
from ledger.erasing import erase
from ledger.errors import LedgerError
from ledger.events import ENDINGS
from ledger.recorded import Draft, Recorded
from ledger.standing import Head
from ledger.store import Log, at_position, last_of_kind
from ledger.writes import Writes
from projections import leases, lookups, queries
from projections.at_once import (
    Known,
    Next,
    card_at_once,
    cards_at_once,
    versions_at_once,
)
from projections.graph import Link
from projections.read_models import Shelf, load_run, load_settings, load_task, relinks
from projections.run import Run
from projections.settings import Settings
from projections.shown import card_now
from projections.task import Task

if TYPE_CHECKING:
    from kanban.commands import Decision

_LATEST = 250_246_800_000 * SECOND  # about the year 9900


class ClockBroken(LedgerError):
    """The clock stands so far in the future that nothing can be dated: nothing was done."""


class Desk:
    """A board inside one transaction: reads what decisions look at, appends what they come to."""

    def __init__(self, tx: Connection, board: str, found: Head, now: int, settings: Settings | None = None) -> None:
        """*found* is where the log ends, *now* the store's instant, both read in *tx*, like *settings* where given."""
        self.board = board
        self._tx = tx
        self._log = Log(tx, board, found)
        self._shelf = Shelf(board)
        self._now = _datable(max(now, found.at))
        self._settings = settings
        self._tasks: dict[str, Task | None] = {}
        self._runs: dict[str, dict[int, Run | None]] = {}
        self._parents: dict[str, tuple[Link, ...]] = {}
        self._children: dict[str, tuple[Link, ...]] = {}
        self._said: dict[str, tuple[str | None, str]] = {}
        self._leased: dict[str, bool] = {}
        self._unheld: set[str] = set()

    @property
    def tx(self) -> Connection:
        """The transaction, with all in the store that was appended through this desk."""
        self.flush()
        return self._tx

    @property
    def rows(self) -> Connection:
        """The same for those who read no events: projections, leases, held reasons."""
        self._shelf.flush(self._tx)
        return self._tx

    @contextmanager
    def part(self) -> Iterator[None]:
        """What can fail alone: then nothing is left of it, and everything is read anew."""
        mark = self._log.mark
        try:
            with savepoint(self.rows):
                yield
                self._shelf.flush(self._tx)
        except BaseException:
            self._log.back(mark)
            self._shelf.clear()
            self.forget()
            raise

    @property
    def now(self) -> int:
        """The instant of this decision: the store's clock, never before the last event."""
        return self._now

    @property
    def settings(self) -> Settings:
        """The board's policy and pauses."""
        if self._settings is None:
            self._settings = load_settings(self._tx, self.board)
        return self._settings

    @property
    def position(self) -> int:
        """The board's last position as of now."""
        return self._log.end.position

    def task(self, task: str) -> Task | None:
        """The folded card."""
        if task not in self._tasks:
            self._tasks[task] = load_task(self._tx, self.board, task)
        return self._tasks[task]

    def forget(self) -> None:
        """Read everything anew: a savepoint was rolled back, or another connection wrote."""
        self._settings = None
        self._tasks.clear()
        self._runs.clear()
        self._forget_links()
        self._said.clear()
        self._leased.clear()
        self._unheld.clear()

    def _forget_links(self) -> None:
        self._parents.clear()
        self._children.clear()

    def know_one(self, task: str) -> None:
        """Read all of *task* that a command may ask for, at once."""
        if task not in self._tasks:
            self.take(task, card_at_once(self.tx, self.board, task))

    def take(self, task: str, found: Known) -> None:
        """Take all of *task*, read in this transaction, as it is stored."""
        self._tasks[task], self._leased[task] = found.task, found.is_leased
        self._log.know({task: found.version})
        if not found.is_held:
            self._unheld.add(task)
        if found.task is not None:
            self._said[task] = found.title, found.parents
        if found.run is not None:
            self.know([found.run])
        if found.parents == "[]":
            self._parents[task] = ()
        if not found.has_children:
            self._children[task] = ()

    def know_new(self, task: str) -> None:
        """Take it that there is no *task*, whose id was drawn just now: if there were, the keys would refuse this."""
        self._tasks[task], self._leased[task] = None, False
        self._parents[task] = self._children[task] = ()
        self._log.know({task: 0})

    def know_all(self, tasks: Iterable[str]) -> None:
        """Read *tasks* at once, with their open runs, their links and where their streams end."""
        wanted = [task for task in dict.fromkeys(tasks) if task not in self._tasks]
        found = cards_at_once(self.rows, self.board, wanted)
        self._tasks.update({**dict.fromkeys(wanted), **{task.id: task for task in found.tasks}})
        self.know(found.runs)
        parents, children = defaultdict(list), defaultdict(list)
        for link in found.links:
            parents[link.child].append(link)
            children[link.parent].append(link)
        self._parents.update((task, tuple(parents[task])) for task in wanted)
        self._children.update((task, tuple(children[task])) for task in wanted)
        self.know_versions(wanted)

    def know_versions(self, tasks: Collection[str]) -> None:
        """Read where the streams of *tasks* end, at once."""
        self._log.know(versions_at_once(self.tx, self.board, tasks))

    def know_next(self, found: Next) -> None:
        """Take a card that is next to be claimed, read in this transaction, as it is stored."""
        self._tasks.setdefault(found.task.id, found.task)
        self._leased.setdefault(found.task.id, found.is_leased)
        self._log.know({found.task.id: found.version})

    def know(self, runs: Iterable[Run]) -> None:
        """Take *runs*, read whole in this transaction, as they are stored."""
        for run in runs:
            self._runs.setdefault(run.task, {})[run.run] = run

    def run(self, task: str, run: int) -> Run | None:
        """The folded run."""
        known = self._runs.setdefault(task, {})
        if run not in known:
            known[run] = load_run(self._tx, self.board, task, run)
        return known[run]

    def run_by_lock(self, task: str, lock_hash: str) -> Run | None:
        """The card's run that this lock belongs to."""
        for run in self._runs.get(task, {}).values():
            if run is not None and run.lock_hash == lock_hash:
                return run
        number = lookups.run_by_lock(self.rows, self.board, task, lock_hash)
        return None if number is None else self.run(task, number)

    def parents(self, task: str) -> tuple[Link, ...]:
        """The links that the card waits for."""
        if task in self._parents:
            return self._parents[task]
        return lookups.parents(self._tx, self.board, task)

    def children(self, task: str) -> tuple[Link, ...]:
        """The links of those that wait for the card."""
        if task in self._children:
            return self._children[task]
        return lookups.children(self._tx, self.board, task)

    def is_leased(self, task: str) -> bool:
        """Whether any run of the card had a lease when it was read."""
        if task not in self._leased:
            self._leased[task] = leases.is_leased(self.rows, self.board, task)
        return self._leased[task]

    def event(self, position: int) -> Recorded | None:
        """The event at *position*, with words."""
        return at_position(self.tx, self.board, position)

    def completion(self, task: str) -> Recorded | None:
        """The card's last `completed`."""
        return last_of_kind(self.tx, self.board, task, "completed")

    def redacts(self, event: Recorded) -> bool:
        """Whether a `redacted` in its stream names *event*."""
        return event.position in lookups.redacted(self.tx, self.board, event.task)

    def created_with(self, key: str) -> Recorded | None:
        """The `created` that carries the idempotency *key*."""
        task = lookups.task_by_key(self.rows, self.board, key)
        return None if task is None else last_of_kind(self.tx, self.board, task, "created")

    def live(self) -> tuple[Run, ...]:
        """Every open run of the board, as caps count them: one that cannot be read whole keeps its slot."""
        return lookups.live(self.rows, self.board)

    def shown(self, task: str) -> dict[str, Any]:
        """The card as `projections.queries.task` shows it. Raises `UnknownTask`."""
        card, said = self._tasks.get(task), self._said.get(task)
        if card is None or said is None or card.hold is not None:  # the words of a hold are not folded
            return queries.task(self.tx, self.board, task)
        title, parents = said
        return card_now(card, title, parents)

    def release(self, task: str, run: int) -> None:
        """The run needs its lease no more: it has ended and its processes are gone."""
        self._shelf.release(task, run)
        self._leased.pop(task, None)

    def write(self, decision: Decision, *, command_id: str | None = None) -> list[Recorded]:
        """Append what *decision* came to, evolve the projections, move the leases. All in this transaction."""
        recorded: list[Recorded] = []
        for task, drafts in groupby(decision.drafts, key=lambda draft: draft.task):
            recorded += self._append(task, list(drafts), None if recorded else command_id)
        return recorded

    def flush(self) -> None:
        """Put into the store what was appended; `at_desk` does it at the end."""
        writes = Writes(self.board)
        self._log.add_to(writes)
        self._shelf.add_to(writes)
        writes.send(self._tx)

    def _append(self, task: str, drafts: Sequence[Draft], command_id: str | None) -> list[Recorded]:
        known = self.settings.version if task == "" else self._version(task)
        appended = self._log.append(drafts, expected=known, at=self._now, command_id=command_id)
        if "redacted" in [event.kind for event in appended]:
            erase(self.tx, self.board, appended)
        runs = self._runs.get(task, {})
        before, links = None if task == "" else self.task(task), self._children.get(task)
        children = None if links is None else [(link.child, link.require) for link in links]
        moved = self._shelf.take(self._tx, appended, before=before, runs=runs, children=children)
        if task == "":
            self._settings = None
        if any(map(relinks, appended)):
            self._forget_links()
        while self._shelf.stale:  # cards that wait for it have moved
            self._tasks.pop(self._shelf.stale.pop(), None)
        if moved is not None:
            self._tasks[task], self._runs[task] = moved, runs
        for event in appended:
            self._lease(event)
            self._hear(event)
        return appended

    def _hear(self, event: Recorded) -> None:
        """What is told of cards beside their folds: *event* says it, or makes what was read worth nothing."""
        if event.kind == "created" and event.version == 1 and not event.facts["parents"]:
            self._said[event.task] = event.words["title"], "[]"
        elif event.kind in _TELLING:
            self._said.clear()

    def _version(self, task: str) -> int:
        found = self.task(task)
        return 0 if found is None else found.version

    def _lease(self, event: Recorded) -> None:
        if event.run is None:
            return
        if event.kind == "claimed":
            held = event.task not in self._unheld
            opened = self.run(event.task, event.run)
            assert opened is not None  # by this very event
            self._shelf.grant(event.task, event.run, until=opened.lease_until, held=held)
            self._leased[event.task] = True
        elif event.kind in ENDINGS and not self._keeps_processes(event):
            self.release(event.task, event.run)

    def _keeps_processes(self, event: Recorded) -> bool:
        """Whether the ended run's processes may still be there: it was spawned, bound, and ended by a verb."""
        if event.kind == "exited":
            return False
        run = self.run(event.task, event.run or 0)
        return run is not None and run.by == "spawn" and run.group is not None


_TELLING: Final = frozenset({"created", "edited", "linked", "unlinked", "redacted"})
"""Kinds that change what is told of a card, or of those beside it."""


def _datable(now: int) -> int:
    """*now*; past the year 9900 leases and cooldowns would end where no calendar can say when."""
    if now > _LATEST:
        raise ClockBroken(f"this machine's clock says {now // SECOND} seconds since 1970", remedy="set the clock")
    return now
