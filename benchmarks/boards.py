"""Boards to measure on: written by `ledger.store.append`, folded by `read_models.rebuild`, legal under the rules.

A card of the long log has twenty events and three runs: one crashed, one ended clean without a word, one completed.
About a hundred cards are at work at the same time, so that the streams lie interleaved as on a live board.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from kanban import Board
from kanban.founding import found
from kanban.hosts import this_host
from kanban.processes import start_tick
from ledger import events as e
from ledger.clock import Clock, system_clock
from ledger.database import sqlite_module, writing
from ledger.ids import lock_hash
from ledger.recorded import Draft
from ledger.store import append
from ledger.upgrade import open_store
from projections import leases, read_models
from projections.policy import SECOND, Policy
from projections.run import Binding

ADA: Final = e.Actor(kind="operator", name="ada", host="0f3c9d2a71be")
SWEEP: Final = e.Actor(kind="sweep", name="sweep", host="0f3c9d2a71be")
BUILDER: Final = e.Actor(kind="worker", name="builder", host="0f3c9d2a71be")
LOCK: Final = "a-lock-that-every-claim-here-shares-0123456"
NOW: Final = system_clock()
BEGUN: Final = NOW - 3_600 * SECOND
"""Every log begins an hour ago: leases and runtimes are far from over."""
UNTIL: Final = NOW + 86_400 * SECOND
_TOGETHER: Final = 100
_TRANSACTION: Final = 1_000  # appends


class Kinds(NamedTuple):
    """How many cards of each status a board has."""

    done: int = 0
    running: int = 0
    ready: int = 0
    todo: int = 0
    blocked: int = 0


def constant(cards: int) -> Kinds:
    """A board on which what is live does not grow: 80 cards."""
    return Kinds(max(cards - 80, 0), 20, 30, 20, 10)


def growing(cards: int) -> Kinds:
    """A board on which everything grows: 1 % running, 10 % ready, 20 % waiting, 9 % blocked, the rest done."""
    shares = Kinds(0, max(cards // 100, 1), cards // 10, cards // 5, cards * 9 // 100)
    return shares._replace(done=cards - sum(shares))


@dataclass
class Store:
    """A store on disk, in a home of its own, and the boards that were opened on it."""

    home: Path
    boards: list[Board] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The database file."""
        return self.home / "ledger.db"

    @property
    def url(self) -> str:
        """Its address."""
        return f"sqlite:///{self.path}"

    @property
    def environ(self) -> dict[str, str]:
        """The operator's environment."""
        return {"LEDGER_HOME": str(self.home), "HOME": str(self.home), "PATH": os.environ["PATH"], "USER": "ada"}

    def open(self, clock: Clock = system_clock) -> Board:
        """The board, opened once more."""
        self.boards.append(Board.open(self.url, environ=self.environ, cwd=self.home, clock=clock))
        return self.boards[-1]

    def staff(self, **settings: Any) -> None:
        """A ledger.toml with one assignee, `builder`."""
        lines = [f"{name} = {value}" for name, value in settings.items()]
        (self.home / "ledger.toml").write_text("\n".join([*lines, "[assignees.builder]", 'command = ["true"]', ""]))

    def close(self) -> None:
        """Let the store go."""
        for board in self.boards:
            board.close()
        self.boards.clear()


def new_store(home: Path, policy: Policy = Policy()) -> Store:  # noqa: B008 – a tuple
    """An empty board."""
    home.mkdir(parents=True)
    found(f"sqlite:///{home}/ledger.db", "default", ADA, lambda: BEGUN, policy)
    return Store(home)


def copied(store: Store, home: Path) -> Store:
    """*store* in another home, wholly on the disk: its first checkpoint must not pay for the copy."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for name in ("ledger.db", "ledger.toml"):
        if (store.home / name).exists():
            shutil.copyfile(store.home / name, home / name)
    os.sync()
    return Store(home)


def mixed(home: Path, kinds: Kinds, bindings: Iterable[Binding] = (), *, long: bool = False) -> Store:
    """A board of *kinds*; running cards are bound to *bindings* in turn (without: under `LOCK`, on another host).

    A waiting card has up to four parents: the first card, which is blocked, another blocked one, a done one, and,
    for the first of them, a running one, so that each running card has one child. *long*: a done card has the twenty
    events of the long log, else four.
    """
    store, bound = new_store(home), list(bindings)
    ids = iter(range(1, 10**9))
    named = {
        status: [card_id(next(ids)) for _ in range(getattr(kinds, status))]
        for status in ("running", "blocked", "done", "todo", "ready")
    }
    blockers, dones, running = named["blocked"], named["done"], named["running"]

    def parents(place: int) -> list[str]:
        found = {blockers[0], blockers[place % len(blockers)], *running[place : place + 1]}
        return sorted(found | ({dones[place % len(dones)]} if dones else set()))

    def histories() -> Iterator[tuple[str, list[list[Draft]]]]:
        for place, card in enumerate(blockers):
            yield card, [[created(place), blocked()]]
        for place, card in enumerate(running):
            yield card, [[created(place), *claimed(1, bound[place % len(bound)] if bound else None)]]
        for place, card in enumerate(dones):
            yield card, twenty(place) if long else [[created(place), *claimed(1), completed(1)]]
        for place, card in enumerate(named["todo"]):
            yield card, [[created(place, parents=parents(place))]]
        for place, card in enumerate(named["ready"]):
            yield card, [[created(place)]]

    fill(store, histories())
    engine = open_store(store.url)
    with writing(engine) as tx:
        for card in running:
            leases.grant(tx, "default", card, 1, until=UNTIL)
    engine.dispose()
    return store


def long_log(home: Path, events: int) -> Store:
    """A log of *events*, twenty to a card."""
    store = new_store(home)
    fill(store, ((card_id(n), twenty(n)) for n in range(1, events // 20 + 1)))
    return store


def streams(home: Path, cards: int, length: int) -> tuple[Store, list[str]]:
    """*cards* of *length* events each, and their ids."""
    store, ids = new_store(home), [card_id(n) for n in range(1, cards + 1)]
    beats = length - 5
    history = [created(1), *claimed(1), *(progressed(1) for _ in range(beats)), commented(), completed(1)]
    fill(store, ((card, [history]) for card in ids))
    return store, ids


def fill(store: Store, histories: Iterable[tuple[str, list[list[Draft]]]]) -> None:
    """Append *histories* (card, its drafts in portions), a hundred cards side by side; fold, and close the file."""
    engine = open_store(store.url)
    salt, at = random.Random(7).randbytes, BEGUN
    for group in _portions(_side_by_side(histories), _TRANSACTION):
        with writing(engine) as tx:
            for card, expected, drafts in group:
                at += 1_000
                named = [draft._replace(task=card) for draft in drafts]
                append(tx, "default", named, expected=expected, at=at, salt=salt)
    read_models.rebuild(engine, "default")
    engine.dispose()
    settle(store)


def settle(store: Store) -> None:
    """Empty the write-ahead log into the file, and all of it onto the disk."""
    with bare(store.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    os.sync()


@contextmanager
def bare(path: Path) -> Iterator[Any]:
    """The file at *path* opened with the same SQLite library, and nothing between."""
    db = sqlite_module().connect(str(path), isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA cache_size=-16000")
        yield db
    finally:
        db.close()


def _portions(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while portion := list(islice(rest, size)):
        yield portion


def _side_by_side(histories: Iterable[tuple[str, list[list[Draft]]]]) -> Iterator[tuple[str, int, list[Draft]]]:
    for group in _portions(histories, _TOGETHER):
        versions = dict.fromkeys((card for card, _ in group), 0)
        for turn in range(max(len(portions) for _, portions in group)):
            for card, portions in group:
                if turn < len(portions):
                    yield card, versions[card], portions[turn]
                    versions[card] += len(portions[turn])


def card_id(number: int) -> str:
    """An id as long as a real one; neighbours in time are no neighbours in the index."""
    return f"t_{number * 0x9E3779B97F4A7C15 % 2**48:012x}"


# Drafts, encoded once and given a card later ---------------------------------------------------------------------


def created(number: int, *, parents: Iterable[str] = ()) -> Draft:
    """A new card for `builder`."""
    fields: Mapping[str, Any] = {
        "title": f"Mend parser number {number}", "body": "What is wrong, where it shows, and how to prove it mended.",
        "assignee": "builder", "priority": number % 5, "labels": ("bug",), "tenant": None, "max_retries": None,
        "max_runtime": None, "workspace": "scratch", "goal": None, "lane": "work", "host": None, "key": None,
        "made_by": None, "parents": tuple(e.Parent(task=parent, require="ok") for parent in parents),
    }  # fmt: skip
    return Draft.of("", e.Created(**fields), ADA)


def claimed(run: int, binding: Binding | None = None) -> list[Draft]:
    """A run opens and gets its process: *binding*, or one of another machine."""
    by, host = ("hand", ADA.host) if binding is None else ("spawn", binding.host)
    boot = "" if binding is None else binding.boot
    opened = e.Claimed(
        run=run, lock_hash=lock_hash(LOCK), by=by, host=host, boot=boot, worker="builder", lane="work",
        lease_until=UNTIL, max_runtime=21_600, on_success="violation", reviewer=None, result="none", quota=(), caps=(),
    )  # fmt: skip
    process = binding or Binding(1_000 + run, 123_456, 1_000 + run, "ffffffffffff", "another-boot", "pid:[1]")
    return [
        Draft.of("", opened, SWEEP),
        Draft.of("", e.WorkerBound(run=run, role="group", **process._asdict()), SWEEP),
    ]


def progressed(run: int) -> Draft:
    """A word from the worker."""
    return Draft.of("", e.Progressed(run=run, note="half of the tests are green", usage=None), BUILDER)


def exited(run: int, outcome: e.Exit, code: int) -> Draft:
    """A run is over without a verb."""
    ended = e.Exited(
        run=run, outcome=outcome, code=code, signal=None, evidence="exit_record", observer="0f3c9d2a71be:4711",
        last_words="Traceback: the parser met a brace", reset_asked=None, not_before=None, lease_until=None,
        last_beat=None, grace=None,
    )  # fmt: skip
    return Draft.of("", ended, SWEEP)


def completed(run: int) -> Draft:
    """The card is done."""
    return Draft.of(
        "",
        e.Completed(
            run=run, outcome=e.Outcome.OK, summary="did it and wrote tests", result=None, metadata=None, usage=None
        ),
        BUILDER,
    )


def commented() -> Draft:
    """Somebody says something."""
    return Draft.of("", e.Commented(body="please look at the third brace too"), ADA)


def blocked() -> Draft:
    """A person parks the card."""
    parked = e.Blocked(
        run=None, cause="operator", block_kind=None, reason="not now", hold=True, sticky=True, count=None, limit=None,
        limit_source=None,
    )  # fmt: skip
    return Draft.of("", parked, ADA)


_SHARED: list[list[Draft]] = []


def twenty(number: int) -> list[list[Draft]]:
    """A card of the long log, in the portions in which a board would see it."""
    if not _SHARED:
        words = [[progressed(run)] for run in (1, 2, 3)]
        violation = e.Violation(run=2, streak=1, limit=3, limit_source="policy")
        _SHARED.extend([
            [*claimed(1), *words[0] * 3],
            [exited(1, e.Outcome.CRASHED, 1)],
            [*claimed(2), *words[1] * 3],
            [exited(2, e.Outcome.CLEAN, 0), Draft.of("", violation, SWEEP)],
            [*claimed(3), *words[2] * 2],
            [completed(3)],
        ])  # fmt: skip
    return [[created(number), commented()], *_SHARED]


def here(home: Path, pid: int, start_tick: int) -> Binding:
    """The process *pid* of this machine, as the leader of its group."""
    host = this_host(home)
    return Binding(pid, start_tick, pid, host.id, host.boot, host.namespace)


@contextmanager
def workers(count: int) -> Iterator[list[int]]:
    """*count* live processes, each the leader of its group; they wait for a word, and end with this process too."""
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    started = [
        subprocess.Popen(["cat"], stdin=pipe, stdout=quiet, stderr=quiet, start_new_session=True) for _ in range(count)
    ]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.communicate()


def bindings_of(home: Path, pids: list[int]) -> list[Binding]:
    """The processes *pids* of this machine as runs name them."""
    return [here(home, pid, start_tick(pid) or 0) for pid in pids]
