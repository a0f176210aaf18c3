"""The one way to change a board: lock → load → decide → append → evolve → commit.

A `Desk` is the board inside its lock. Decisions see it through the `View` protocol; nothing that was read before the
lock takes part in one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Table, bindparam, select

from ledger.clock import SECOND, Clock
from ledger.database import reading, savepoint, writing
from ledger.erasing import erase
from ledger.errors import LedgerError, StoreUnreachable, WrongExpectedVersion
from ledger.events import ENDINGS
from ledger.prepared import Prepared
from ledger.recorded import Draft, Recorded, parsed
from ledger.schema import events
from ledger.store import Head, Log, at_position, last_of_kind, standing
from ledger.writes import Writes
from projections import tables
from projections.at_once import cards_at_once, versions_at_once
from projections.graph import Link
from projections.read_models import Shelf, load_run, load_settings, load_task, relinks
from projections.run import Run
from projections.settings import Settings
from projections.task import Task

if TYPE_CHECKING:
    from kanban.commands import Decision

_TRIES = 3
APPENDED: Final[dict[str, tuple[int, float]]] = {}
"""How often this process has appended, and for how many seconds, by board, until a sweep writes that down."""
PATIENCE: Final = 15.0
"""Seconds for which a command that has been let in waits for a server that has gone."""
_LONGEST_NAP: Final = 1.0
T = TypeVar("T")
_LATEST = 250_246_800_000 * SECOND  # about the year 9900


class ClockBroken(LedgerError):
    """The clock stands so far in the future that nothing can be dated: nothing was done."""


class _Links(NamedTuple):
    """The links of a card: to its parents, and to its children."""

    parents: tuple[Link, ...]
    children: tuple[Link, ...]


class Desk:
    """A board inside one transaction: reads what decisions look at, appends what they come to."""

    def __init__(self, tx: Connection, board: str, found: Head, now: int) -> None:
        """*found* is where the log ends, and *now* the store's instant, both read in *tx*: see `standing`."""
        self.board = board
        self._tx = tx
        self._log = Log(tx, board, found)
        self._shelf = Shelf(board)
        self._now = _datable(max(now, found.at))
        self._settings: Settings | None = None
        self._tasks: dict[str, Task | None] = {}
        self._runs: dict[str, dict[int, Run | None]] = {}
        self._links: dict[str, _Links] = {}

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
        self._links.clear()

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
        self._links.update((task, _Links(tuple(parents[task]), tuple(children[task]))) for task in wanted)
        self.know_versions(wanted)

    def know_versions(self, tasks: Collection[str]) -> None:
        """Read where the streams of *tasks* end, at once."""
        self._log.know(versions_at_once(self.tx, self.board, tasks))

    def know_card(self, task: Task) -> None:
        """Take *task*, read whole in this transaction, as it is stored."""
        self._tasks.setdefault(task.id, task)

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
        row = _RUN_BY_LOCK.one(self.rows, board=self.board, task=task, lock_hash=lock_hash)
        return None if row is None else self.run(task, row[0])

    def parents(self, task: str) -> tuple[Link, ...]:
        """The links that the card waits for."""
        if task in self._links:
            return self._links[task].parents
        return tuple(Link(*row) for row in _PARENTS.all(self._tx, board=self.board, task=task))

    def children(self, task: str) -> tuple[Link, ...]:
        """The links of those that wait for the card."""
        if task in self._links:
            return self._links[task].children
        return tuple(Link(*row) for row in _CHILDREN.all(self._tx, board=self.board, task=task))

    def event(self, position: int) -> Recorded | None:
        """The event at *position*, with words."""
        return at_position(self.tx, self.board, position)

    def completion(self, task: str) -> Recorded | None:
        """The card's last `completed`."""
        return last_of_kind(self.tx, self.board, task, "completed")

    def redacts(self, event: Recorded) -> bool:
        """Whether a `redacted` in its stream names *event*."""
        redactions = _REDACTIONS.all(self.tx, board=self.board, task=event.task)
        return any(parsed(facts)["redacts"] == event.position for (facts,) in redactions)

    def created_with(self, key: str) -> Recorded | None:
        """The `created` that carries the idempotency *key*."""
        row = _TASK_BY_KEY.one(self.rows, board=self.board, key=key)
        return None if row is None else last_of_kind(self.tx, self.board, row[0], "created")

    def live(self) -> tuple[Run, ...]:
        """Every open run of the board, as caps count them: one that cannot be read whole keeps its slot."""
        rows = _LIVE.all(self.rows, board=self.board)
        return tuple(Run(task, run, by=by, host=host, worker=worker) for task, run, by, host, worker in rows)

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
        if any(event.kind == "redacted" for event in appended):
            erase(self.tx, self.board, appended)
        runs = self._runs.get(task, {})
        before, links = None if task == "" else self.task(task), self._links.get(task)
        children = None if links is None else [(link.child, link.require) for link in links.children]
        moved = self._shelf.take(self._tx, appended, before=before, runs=runs, children=children)
        if task == "":
            self._settings = None
        if any(relinks(event) for event in appended):
            self._links.clear()
        while self._shelf.stale:  # cards that wait for it have moved
            self._tasks.pop(self._shelf.stale.pop(), None)
        if moved is not None:
            self._tasks[task], self._runs[task] = moved, runs
        for event in appended:
            self._lease(event)
        return appended

    def _version(self, task: str) -> int:
        found = self.task(task)
        return 0 if found is None else found.version

    def _lease(self, event: Recorded) -> None:
        if event.run is None:
            return
        if event.kind == "claimed":
            self._shelf.grant(event.task, event.run, until=event.facts["lease_until"])
        elif event.kind in ENDINGS and not self._keeps_processes(event):
            self._shelf.release(event.task, event.run)

    def _keeps_processes(self, event: Recorded) -> bool:
        """Whether the ended run's processes may still be there: it was spawned, bound, and ended by a verb."""
        if event.kind == "exited":
            return False
        run = self.run(event.task, event.run or 0)
        return run is not None and run.by == "spawn" and run.group is not None


def _datable(now: int) -> int:
    """*now*; past the year 9900 leases and cooldowns would end where no calendar can say when."""
    if now > _LATEST:
        raise ClockBroken(f"this machine's clock says {now // SECOND} seconds since 1970", remedy="set the clock")
    return now


def _in(table: Table, *names: str) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(name) for name in names]


_RUNS, _LINKS, _TASKS = tables.runs, tables.links, tables.tasks
_LINK = select(_LINKS.c.parent, _LINKS.c.child, _LINKS.c.require).where(_LINKS.c.board == bindparam("board"))
_PARENTS = Prepared(_LINK.where(_LINKS.c.child == bindparam("task")).order_by(_LINKS.c.parent))
_CHILDREN = Prepared(_LINK.where(_LINKS.c.parent == bindparam("task")).order_by(_LINKS.c.child))
_RUN_BY_LOCK = Prepared(select(_RUNS.c.run).where(*_in(_RUNS, "board", "task", "lock_hash")))
_REDACTIONS = Prepared(select(events.c.facts).where(*_in(events, "board", "task"), events.c.kind == "redacted"))
_TASK_BY_KEY = Prepared(select(_TASKS.c.task).where(*_in(_TASKS, "board", "key")))
_LIVE = Prepared(
    select(_RUNS.c.task, _RUNS.c.run, _RUNS.c.by, _RUNS.c.host, _RUNS.c.worker).where(
        *_in(_RUNS, "board"), _RUNS.c.ended_by.is_(None)
    )
)


@contextmanager
def at_desk(engine: Engine, board: str, clock: Clock) -> Iterator[Desk]:
    """The board inside its lock; committed at the end, rolled back on any exception."""
    begun = time.perf_counter()
    with writing(engine) as tx:
        desk = Desk(tx, board, *standing(tx, board, clock, hold=True))
        before = desk.position
        yield desk
        desk.flush()
    if desk.position > before:
        times, seconds = APPENDED.get(board, (0, 0.0))
        APPENDED[board] = times + 1, seconds + time.perf_counter() - begun


@contextmanager
def looking(engine: Engine, board: str, clock: Clock) -> Iterator[Desk]:
    """One snapshot of the board, for reading only: nothing can be appended through it."""
    with reading(engine) as tx:
        yield Desk(tx, board, *standing(tx, board, clock))


def again(attempt: Callable[[], T], *, met: Callable[[WrongExpectedVersion], None] | None = None) -> T:
    """What *attempt* answers, tried again when another writer was first, and while a server is away for a moment.

    What was cut off may have been done: *attempt* must be able to tell, or be harmless twice. *met* hears of every
    other writer. Raises `WrongExpectedVersion` after three times, `StoreUnreachable` once `PATIENCE` is over.
    """
    deadline, nap, tries = time.monotonic() + PATIENCE, 0.05, _TRIES
    while True:
        try:
            return attempt()
        except WrongExpectedVersion as fault:
            tries -= 1
            if tries == 0:
                raise
            if met is not None:
                met(fault)
        except StoreUnreachable:
            if time.monotonic() + nap > deadline:
                raise
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
