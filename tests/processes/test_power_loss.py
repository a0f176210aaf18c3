"""Loss of power, as far as copies of database and write-ahead log can show it: one taken at every commit.

What a copy cannot show is what a disk does with a write that it has acknowledged. A store on its own file system, cut
off between any two commits or inside one, holds a whole prefix of the log, and a sweep on the rebooted host goes on.
"""

import json
import random
import shutil
import struct
import time
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import ledger.sqlite
from kanban.folders import make_private
from ledger.database import sqlite_module
from tests import fleets
from tests.fleets import sh, until

SECTOR = 512
WAL_HEADER, FRAME_HEADER = 32, 24
SPY = """
import contextlib, json, os, subprocess, time
import ledger.sqlite

def spy(folder):
    gate = ledger.sqlite.gate

    @contextlib.contextmanager
    def copying(path, *, timeout, **kept):
        with gate(path, timeout=timeout, **kept):
            yield
            at, store = time.monotonic_ns(), str(path).removesuffix(".gate")
            to = os.path.join(folder, f"{len(os.listdir(folder)):05}-{at}")
            os.mkdir(to, 0o700)
            subprocess.run(["cp", store, store + "-wal", to], check=True)

    ledger.sqlite.gate = copying
"""
"""Copies the store after each commit, while the gate is still held; by `cp`, for closing the file drops its locks."""
SWEEPING = """
spy(sys.argv[1])
while not os.path.exists("stop"):
    tick = board.sweep()
    assert not tick.errors, tick.errors
    if not tick.skipped:
        print(json.dumps([time.monotonic_ns(), tick.position]), flush=True)
    time.sleep(0.03)
"""
STAFF = {
    "builder": {"command": sh("exit 0"), "on_success": "complete"},
    "author": {"command": sh("exit 0"), "on_success": "review", "reviewer": "builder"},
    "crasher": {"command": sh("exit 1")},
    "silent": {"command": sh("exit 0")},
    "sleeper": {"command": sh('[ -e "$LEDGER_HOME/rebooted" ] || exec sleep 300'), "on_success": "complete"},
}
OVER = {"done", "blocked", "archived"}


@dataclass(frozen=True)
class Copy:
    """The bytes of the store as they were right after a commit, at *at* of the machine's running clock.

    Opening a copy changes it: the log is folded into the database. So each look is at files made anew.
    """

    at: int
    database: bytes
    log: bytes

    def laid(self, folder):
        """The store as files in the fresh *folder*."""
        folder.mkdir(mode=0o700)
        (folder / "ledger.db").write_bytes(self.database)
        (folder / "ledger.db-wal").write_bytes(self.log)
        return folder

    def head(self):
        """(position, hash) of the board, read by SQLite alone; its integrity check must find nothing."""
        with (
            TemporaryDirectory() as folder,
            closing(sqlite_module().connect(str(self.laid(Path(folder) / "c") / "ledger.db"))) as db,
        ):
            db.execute("PRAGMA synchronous=OFF")  # these files need not outlive anything
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return db.execute("SELECT head_position, head_hash FROM boards").fetchone()


@dataclass
class Story:
    """What happened: a copy for each commit, what was acknowledged when, and the log in the end."""

    copies: list
    heads: list
    acknowledged: list
    log: dict
    cards: list


@pytest.fixture(scope="module")
def story(founded, tmp_path_factory):
    """Operators, workers and two sweeps at once on one board, each commit copied."""
    fleet = fleets.new_fleet(founded, tmp_path_factory.mktemp("power") / "home")
    folder = make_private(fleet.home.parent / "copies")
    names = {}
    exec(SPY, names)  # the same words as in the other processes
    gate = ledger.sqlite.gate
    try:
        fleet.staff(STAFF, max_running=20)
        fleet.board.columns()
        names["spy"](str(folder))
        sweeps = [fleet.outside(SPY + SWEEPING, str(folder)) for _ in range(2)]
        acknowledged = [*_busy(fleet)]
        (fleet.home / "stop").touch()
        for sweep in sweeps:
            told, _ = sweep.communicate(timeout=fleets.PATIENCE)
            assert (sweep.returncode, bool(told)) == (0, True)
            acknowledged += [tuple(json.loads(line)) for line in told.splitlines()]
        ledger.sqlite.gate = gate
        copies = [_read(each) for each in sorted(folder.iterdir())]
        log = {event.position: event.hash for event in fleet.board.events()}
        cards = [card["id"] for card in fleet.board.tasks(limit=None)["tasks"]]
        fleet.audit()
        yield Story(copies, [copy.head() for copy in copies], acknowledged, log, cards)
    finally:
        ledger.sqlite.gate = gate
        fleet.end()
        shutil.rmtree(folder)


def _read(folder):
    at = int(folder.name.partition("-")[2])
    return Copy(at, (folder / "ledger.db").read_bytes(), (folder / "ledger.db-wal").read_bytes())


def _busy(fleet):
    """Every act of an operator and of a worker; yields when what was acknowledged."""
    board = fleet.board

    def did(answer):
        return time.monotonic_ns(), answer.position

    cards = {}
    for worker in STAFF:
        answer = board.create(f"a {worker}'s", assignee=worker, priority=1, key=worker, max_runtime=3600)
        cards[worker] = answer.task["id"]
        yield did(answer)
    sleepers = [fleet.create(f"sleep {n}", "sleeper") for n in range(5)]
    until(lambda: all(fleet.events(card, "worker_bound") for card in sleepers))
    child = fleet.create("a child", "builder", parents=[sleepers[0]])
    locks = [fleet.lock(card) for card in sleepers]
    yield did(board.progress(sleepers[0], "half way", lock=locks[0]))
    yield did(board.heartbeat(sleepers[0], lock=locks[0]))
    yield did(board.assign(sleepers[1], "builder", force=True))
    yield did(board.archive(sleepers[2], force=True))
    yield did(board.stop(sleepers[3], reason="enough"))
    yield did(board.complete(sleepers[0], "made it", lock=locks[0]))
    yield did(board.block(sleepers[4], "what colour?", lock=locks[4]))
    yield did(board.comment(child, "look at this"))
    yield did(board.edit(cards["crasher"], title="another title " * 300, priority=3))
    yield did(board.pause(reason="a moment"))
    by_hand = fleet.create("by hand", None)
    yield did(board.resume())
    granted = board.claim(by_hand)
    yield did(board.review(by_hand, "look", reviewer="builder", lock=granted.lock))
    yield did(board.set_policy(stop_grace=1, failure_limit=3))
    until(lambda: fleet.card(child)["status"] == "done")
    until(lambda: all(fleet.card(card)["status"] in OVER for card in sleepers))
    yield did(board.reopen(child, reason="not quite"))
    yield did(board.unblock(sleepers[4], reason="green"))
    yield did(board.create("a child", assignee="builder", key="again"))
    until(lambda: fleet.card(child)["status"] == fleet.card(cards["author"])["status"] == "done")
    until(lambda: fleet.card(cards["silent"])["status"] == "blocked")


def test_every_commit_was_copied(story):
    """The premise: in order, one step of the log or none each, up to its end."""
    positions = [position for position, _ in story.heads]
    assert positions == sorted(positions)
    assert positions[-1] == len(story.log)
    assert len(set(positions)) > 30


def test_a_store_cut_off_after_any_commit_is_a_whole_prefix_of_the_log(story, tmp_path):
    """§9, §10: each copy opens, replays without a divergence, and is the log that went on, with nothing else in it."""
    for number, copy in enumerate(story.copies):
        with fleets.Fleet(copy.laid(tmp_path / str(number))).board as board:
            replayed = board.replay(strict=True)
        assert replayed.divergences == ()
        assert (replayed.position, replayed.hash) == (replayed.events, story.log[replayed.position].hex())


def test_whatever_was_acknowledged_is_in_every_later_copy(story):
    """An answer is given after the commit: what an operator, a worker or a sweep was told is never lost."""
    assert len(story.acknowledged) > 20
    for copy, (head, _) in zip(story.copies, story.heads, strict=True):
        assert head >= max((position for at, position in story.acknowledged if at < copy.at), default=0)


def test_a_commit_that_was_cut_off_anywhere_has_not_happened(story):
    """A write-ahead log that ends within its last commit, or lacks a sector of it: the board is as it was before."""
    both = zip(story.copies, story.heads, strict=True)
    steps = [(old, copy, new) for (_, old), (copy, new) in pairwise(both) if old != new]
    for old, copy, new in random.Random(7).sample(steps, 6):
        start, end = last_commit(copy.log)
        assert replace(copy, log=copy.log[:end]).head() == new
        for cut in range(start, end, SECTOR):
            sector = copy.log[cut : min(cut + SECTOR, end)]
            torn = [copy.log[:cut]]
            if sector.strip(b"\0"):
                torn.append(copy.log[:cut] + bytes(len(sector)) + copy.log[cut + len(sector) :])
            assert {replace(copy, log=log).head() for log in torn} == {old}


def test_a_log_cut_off_far_from_its_end_is_an_older_prefix(story):
    """Not even a disk that lost many commits at once makes a board that never was."""
    last, chance = story.copies[-1], random.Random(11)
    known = {*story.heads, replace(last, log=b"").head()}
    for _ in range(40):
        assert replace(last, log=last.log[: chance.randrange(len(last.log))]).head() in known


def test_a_checkpoint_that_was_cut_off_loses_nothing(story):
    """Pages half copied from the log into the database: the log still has them all."""
    for copy, head in list(zip(story.copies, story.heads, strict=True))[::8]:
        folded = replace(copy, database=checkpointed(copy))
        assert folded.database != copy.database
        assert folded.head() == head
        size = page_size(copy.log)
        for odd in (0, 1):
            pages = [
                (copy.database if number % 2 == odd else folded.database)[at : at + size]
                for number, at in enumerate(range(0, len(folded.database), size))
            ]
            assert replace(copy, database=b"".join(pages)).head() == head


@pytest.mark.parametrize("part", [0.05, 0.3, 0.45, 0.6, 0.8, 1])
def test_a_sweep_on_the_rebooted_host_goes_on_to_the_end(story, part, tmp_path):
    """§6: none, host booted since: interrupted; wishes that were acknowledged are applied; every card gets its end."""
    copy = story.copies[round((len(story.copies) - 1) * part)]
    fleet = fleets.Fleet(copy.laid(tmp_path / "home"))
    try:
        fleet.staff(STAFF, max_running=20)
        (fleet.home / "rebooted").touch()
        fleet.on_host(fleet.board, boot="after the power came back")
        if fleet.board.settings.pauses:
            fleet.board.resume()
        wishes = _wishes(fleet)
        first = fleet.sweep()
        assert {step["outcome"] for step in first.booked} <= {"interrupted"}
        for card, kind in wishes:
            assert kind in fleet.kinds(card)[fleet.kinds(card).index("stop_requested") :]
        fleet.clock.advance(4000)
        cards = [card["id"] for card in fleet.board.tasks(limit=None)["tasks"]]
        assert set(cards) <= set(story.cards)
        fleet.sweep_until(lambda: all(_is_over(fleet.card(card)) for card in cards))
        assert fleet.board.replay(strict=True).divergences == ()
    finally:
        fleet.end()


def _is_over(card):
    """Whether the card is where no sweep takes it any further; one that is nobody's waits for a person."""
    return card["status"] in OVER or (card["status"], card["assignee"]) == ("ready", None)


def _wishes(fleet):
    """(card, kind of event) of each wish whose run is still open."""
    kinds = {"assign": "assigned", "archive": "archived", "block": "blocked", "complete": "completed"}
    running = [card["id"] for card in fleet.board.tasks(status="running", limit=None)["tasks"]]
    asked = [(card, event) for card in running for event in fleet.events(card, "stop_requested")]
    return [(card, kinds[event.facts["wish"]["verb"]]) for card, event in asked if event.facts["wish"]]


def checkpointed(copy):
    """The database of *copy* once its log has been folded in."""
    with TemporaryDirectory() as folder:
        path = copy.laid(Path(folder) / "c") / "ledger.db"
        with closing(sqlite_module().connect(str(path))) as db:
            assert db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()[0] == 0
        return path.read_bytes()


def page_size(wal):
    return struct.unpack_from(">I", wal, 8)[0]


def last_commit(wal):
    """(start, end) of the frames of the last whole commit in *wal*: a frame counts while its salts are the header's."""
    ends, at, size = [WAL_HEADER], WAL_HEADER, page_size(wal)
    while wal[at + 8 : at + 16] == wal[16:24]:
        at += FRAME_HEADER + size
        if struct.unpack_from(">I", wal, at - size - FRAME_HEADER + 4)[0]:
            ends.append(at)
    return ends[-2], ends[-1]
