"""Many processes on one store, some killed in the middle: nothing acknowledged is lost, nothing is there twice.

`LEDGER_SOAK` of a minute or more makes it 500 appends for each writer and 100 rounds of claims.
"""

import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from kanban import Board, backup
from ledger.database import reading, sqlite_module
from ledger.errors import Refusal
from ledger.store import board_names
from ledger.upgrade import open_store
from tests import fleets, given, ledgers, servers

LONG = float(os.environ.get("LEDGER_SOAK", "0")) >= 60
CLAIMERS = 64


class Size(NamedTuple):
    """How many write, how often each, how many of them are killed; how many rounds of claims there are."""

    writers: int
    appends: int
    kills: int
    rounds: int


SIZES = {
    "sqlite": Size(24, 500, 12, 100) if LONG else Size(24, 40, 5, 10),
    "postgresql": Size(24, 500, 12, 100) if LONG else Size(12, 25, 3, 4),
}
PATIENCE = 600 if LONG else 60
"""Seconds after which a process that should have ended is the test's failure."""


@pytest.fixture(scope="module")
def forks():
    """How processes are made: forked from one that has loaded everything, and has opened no store."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "kanban.board", "kanban.claims", "kanban.soundness"])
    return context


def started(forks, work, *arguments):
    """A process at *work*; one that a failing test left behind does not outlive the tests."""
    process = forks.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def joined(processes):
    """Wait for their end; the exit codes."""
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0, deadline - time.monotonic()))
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes


# Writers, killed


def write(url, number, appends, said):
    """Append, and write down each position once it is committed."""
    ledger = ledgers.opened(url)
    with open(said, "ab", buffering=0) as acknowledged:  # noqa: PTH123 – unbuffered, a line a write
        for nth in range(appends):
            (event,) = ledger.append(given.commented(f"{number} {nth}"), task=f"t_{number}")
            acknowledged.write(f"{event.position} {number} {nth}\n".encode())
            os.fsync(acknowledged.fileno())
    ledger.engine.dispose()


def read(url, over):
    """Read the whole log again and again: gapless, and what was read before is the beginning of what is read now."""
    ledger = ledgers.opened(url)
    before = []
    while not over.is_set():
        events = [(event.position, event.hash) for event in ledger.read()]
        assert [position for position, _ in events] == list(range(1, len(events) + 1))
        assert events[: len(before)] == before
        before = events
        time.sleep(0.02)
    ledger.engine.dispose()
    sys.exit(0 if len(before) > 1 else "nothing was read")


def copy(url, folder, over):
    """Take verified copies one after the other, two at least, however soon the others end."""
    count = 0
    while count < _COPIES or not over.is_set():
        copied = backup.backup(url, ledgers.BOARD, Path(folder) / f"{count}.db")
        assert copied.doubts == ()
        count += 1
        time.sleep(0.3)
    sys.exit(0)


_COPIES = 2


@pytest.fixture(scope="module")
def fray(forks, lend, engine_name, tmp_path_factory):
    """Many writers, some killed at any moment, beside a reader and a backup; what was left when all had ended."""
    folder, size = tmp_path_factory.mktemp("fray"), SIZES[engine_name]
    with lend("founded") as ledger:
        for number in range(size.writers):
            ledger.append(given.created(), task=f"t_{number}")
        ledger.engine.dispose()
        yield {
            "ledger": ledger,
            "size": size,
            **fought(forks, ledger.url, folder, size),
            "copies": sorted(folder.glob("*.db")),
        }


def fought(forks, url, folder, size):
    """Let them work on the store at *url*; what became of each, and what it said in *folder*."""
    over = forks.Event()
    others = [started(forks, read, url, over), started(forks, copy, url, str(folder), over)]
    writers = [
        started(forks, write, url, number, size.appends, str(folder / f"said-{number}"))
        for number in range(size.writers)
    ]
    killed = kill_some(writers, folder, size)
    codes = joined(writers)
    over.set()
    said = [line.split() for file in folder.glob("said-*") for line in file.read_text().splitlines()]
    return {
        "killed": killed,
        "codes": codes,
        "others": joined(others),
        "acknowledged": {int(position): f"{number} {nth}" for position, number, nth in said},
        "said": len(said),
    }


def kill_some(writers, folder, size):
    """`kill -9` writers in the middle of their work, spread over the run; which ones."""
    chance, killed = random.Random(5), []
    while len(killed) < size.kills:
        lines = sum(file.read_bytes().count(b"\n") for file in folder.glob("said-*"))
        if lines >= (len(killed) + 1) * size.writers * size.appends // (2 * size.kills + 2):
            number = chance.choice([number for number, writer in enumerate(writers) if writer.is_alive()] or [0])
            writers[number].kill()
            writers[number].join(PATIENCE)
            if writers[number].exitcode == -signal.SIGKILL:
                killed.append(number)
        if not any(writer.is_alive() for writer in writers):
            break
        time.sleep(chance.random() / 50)
    return killed


def test_the_fray_was_one(fray):
    """Writers were killed in the middle of it; all others, the reader and the backup among them, met no fault."""
    assert len(fray["killed"]) == fray["size"].kills
    codes = {number: code for number, code in enumerate(fray["codes"]) if number not in fray["killed"]}
    assert set(codes.values()) == {0}
    assert fray["others"] == [0, 0]
    assert len(fray["copies"]) >= _COPIES


def test_the_log_is_whole(fray):
    """§2, §10: no hole, no duplicate, the chain holds, every column is what a refold gives; SQLite agrees."""
    ledger = fray["ledger"]
    if ledger.is_file:
        with closing(sqlite_module().connect(str(ledger.path))) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert ledgers.faults(ledger) == []


def test_every_acknowledged_append_is_there_and_at_most_one_more_for_each_kill(fray):
    """What a writer was told is in the log, where it was told; a kill can come between commit and word, once."""
    written = {event.position: event.words["body"] for event in fray["ledger"].read() if event.kind == "commented"}
    acknowledged = fray["acknowledged"]
    assert len(acknowledged) == fray["said"]
    assert {position: written.get(position) for position in acknowledged} == acknowledged
    more = written.keys() - acknowledged.keys()
    by_writer = Counter(int(written[position].split()[0]) for position in more)
    assert set(by_writer.values()) <= {1}
    assert by_writer.keys() <= set(fray["killed"])


def test_every_writer_wrote_in_order_without_a_gap(fray):
    """§2: each stream counts 1, 2, 3…; one that was not killed has all of its appends, each once."""
    streams = {}
    for event in fray["ledger"].read():
        if event.kind != "commented":
            continue
        streams.setdefault(event.task, []).append(event.words["body"])
    for number in range(fray["size"].writers):
        bodies = streams.get(f"t_{number}", [])
        assert bodies == [f"{number} {nth}" for nth in range(len(bodies))]
        assert number in fray["killed"] or len(bodies) == fray["size"].appends


def test_every_copy_taken_meanwhile_is_a_prefix(fray):
    """A backup holds the log up to a moment, whole."""
    log = [event.hash for event in fray["ledger"].read()]
    for file in fray["copies"]:
        engine = open_store(f"sqlite:///{file}")
        with reading(engine) as tx:
            assert board_names(tx) == [ledgers.BOARD]
        held = [event.hash for event in ledgers.Ledger(f"sqlite:///{file}", engine).read()]
        engine.dispose()
        assert held == log[: len(held)]


# Claims, at once


def act(environ, start, pipe):
    """Be one of a crew: do what is said at the moment when all others do."""
    with Board.open(environ=environ, cwd=Path(environ["LEDGER_HOME"])) as board:
        while (asked := pipe.recv()) is not None:
            verb, what = asked
            start.wait(PATIENCE)
            try:
                answer = board.claim(what) if verb == "claim" else board.create("one card", key=what)
                told = ("won", answer.run, answer.lock) if verb == "claim" else (answer.task["id"], answer.replayed)
            except Refusal as refusal:
                told = (type(refusal).__name__, getattr(refusal, "run", None))
            pipe.send(told)


class Crew:
    """Processes that were started once and then do one thing at the same moment, as often as asked."""

    def __init__(self, forks, fleet):
        self.barrier = forks.Barrier(CLAIMERS)
        self.pipes, self.processes = [], []
        for _ in range(CLAIMERS):
            ours, theirs = forks.Pipe()
            self.pipes.append(ours)
            self.processes.append(started(forks, act, fleet.environ, self.barrier, theirs))
            theirs.close()

    def do(self, verb, what):
        """Let all do *verb* at once; what each was told."""
        for pipe in self.pipes:
            pipe.send((verb, what))
        assert all(pipe.poll(PATIENCE) for pipe in self.pipes)
        return [pipe.recv() for pipe in self.pipes]

    def end(self):
        """Let them go; their exit codes."""
        for pipe in self.pipes:
            with suppress(BrokenPipeError):
                pipe.send(None)
        return joined(self.processes)


@pytest.fixture(scope="module")
def crowd(forks, engine_name, tmp_path_factory):
    """A fleet's board and 64 processes that have it open."""
    folder = tmp_path_factory.mktemp("crowd")
    with (filed if engine_name == "sqlite" else served)(folder) as fleet:
        crew = Crew(forks, fleet)
        try:
            yield fleet, crew
        finally:
            codes = crew.end()
            fleet.end()
    assert set(codes) == {0}


@dataclass
class Served(fleets.Fleet):
    """A fleet whose store is a database of a server."""

    address: str = ""

    @property
    def url(self):
        """The store's address."""
        return self.address

    @property
    def environ(self):
        """The operator's environment."""
        return super().environ | {"LEDGER_DATABASE_URL": self.address}


@contextmanager
def filed(folder):
    """A fleet whose store is a file."""
    yield fleets.new_fleet(fleets.new_template(folder), folder / "home")


@contextmanager
def served(folder):
    """A fleet whose store is a fresh database."""
    (folder / "home").mkdir()
    with servers.shared().lent() as url:
        fleet = Served(folder / "home", address=url)
        fleet.found("default")
        yield fleet


def test_of_64_that_claim_one_card_at_once_one_gets_it(crowd, engine_name):
    """§8: one `claimed` and one lock; the others are told `Taken`, and by which run."""
    fleet, crew = crowd
    for _ in range(SIZES[engine_name].rounds):
        card = fleet.create()
        told = crew.do("claim", card)
        assert Counter(each[0] for each in told) == {"won": 1, "Taken": CLAIMERS - 1}
        assert {each[1] for each in told} == {1}
        (lock,) = (each[2] for each in told if each[0] == "won")
        assert fleet.kinds(card) == ["created", "claimed"]
        assert fleet.board.complete(card, "made it", lock=lock).changed


def test_of_64_that_create_with_one_key_at_once_one_makes_the_card(crowd):
    """§8: new key, or same key and same request: the first answer, `replayed`."""
    fleet, crew = crowd
    told = crew.do("create", "the key")
    (card,) = {each[0] for each in told}
    assert Counter(each[1] for each in told) == {False: 1, True: CLAIMERS - 1}
    assert fleet.kinds(card) == ["created"]
    fleet.audit()
