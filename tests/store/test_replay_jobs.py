"""A replay in several processes: what they find, and what becomes of them when one of them, or all, must end."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from ledger.database import connect
from ledger.errors import UnknownTask
from projections import replay, replay_jobs
from tests import given
from tests.audits import audit, outside
from tests.engines import once
from tests.hands import timeless

ROOT = Path(__file__).parents[2]
LONG = 60
"""Seconds that a process may take to go, on a busy machine."""


@pytest.fixture
def by(monkeypatch):
    """Who looked at the whole log by himself: nobody, as a rule."""
    looked, by_one = [], replay._by_one

    def one(*said):
        looked.append("one")
        return by_one(*said)

    monkeypatch.setattr(replay, "_by_one", one)
    return looked


@pytest.mark.parametrize("wish", [{}, {"strict": True, "chain": False}, {"until": 12}, {"task": "t_p"}])
def test_two_processes_find_what_one_finds(board, by, wish):
    """RULES §9: every field but the time."""
    one = timeless(audit(board, **wish))
    by.clear()
    heard = []
    found = audit(board, jobs=2, progress=lambda *said: heard.append(said), **wish)
    assert (timeless(found), by) == (one, [])
    assert heard[-1] == (one.events, one.events)


def test_three_processes_share_three_cards(board, by):
    """A process more for each of them."""
    board.append(given.created(), task="t_z")
    one = timeless(audit(board))
    by.clear()
    assert (timeless(audit(board, jobs=3)), by) == (one, [])


def test_what_another_process_comes_upon_is_named_here(board, by):
    """RULES §9: in the words of one process."""
    outside(board, "UPDATE tasks SET failures = 9 WHERE task = 't_p'")
    one = timeless(audit(board))
    by.clear()
    assert (timeless(audit(board, jobs=2)), by) == (one, ["one"])


def test_an_unknown_card_is_refused_at_once(board, by):
    """CLI: exit 5."""
    with pytest.raises(UnknownTask):
        audit(board, jobs=2, task="t_x")
    assert by == []


def test_a_process_that_is_killed_costs_a_second_look_only(board, by, monkeypatch):
    """Whatever it was at: what it would have said is not known."""
    ask = replay_jobs.Hand.ask

    def ask_and_kill(hand, *said):
        hand._started.kill()
        ask(hand, *said)

    monkeypatch.setattr(replay_jobs.Hand, "ask", ask_and_kill)
    assert (audit(board, jobs=2).divergences, by) == ((), ["one"])


def test_no_process_can_be_started(board, by, monkeypatch):
    """Where there is no interpreter to start, one process does it all."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert (audit(board, jobs=2).divergences, by) == ((), ["one"])


def is_shut(board):
    """Whether somebody holds the writers' gate."""
    with board.path.with_name("ledger.db.gate").open("wb") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_write_that_comes_between_is_waited_for(board, by, monkeypatch):
    """The other process sees another board, so both begin again while writers are kept out."""
    ask, times, shut, later = replay_jobs.Hand.ask, [], [], []

    def ask_late(hand, part, snapshot):
        if not times:
            board.append(given.commented(), task="t_p")
        times.append(part.last.position)
        shut.append(board.is_file and is_shut(board))
        ask(hand, part, snapshot)

    monkeypatch.setattr(replay_jobs.Hand, "ask", ask_late)
    found = audit(board, jobs=2, progress=lambda *_: later.append(board.is_file and is_shut(board)))
    again = [23, 24] if board.is_file else [23]  # a server lends its snapshot
    assert (found.divergences, by, times, found.position) == ((), [], again, again[-1])
    assert shut == [False, True][: len(again)], "writers wait until both have begun"
    assert not any(later), "and no longer"


def test_a_board_that_is_written_to_all_the_time_is_shared(board, by):
    """Neither the writer nor the replay is kept waiting for long."""
    stop, written = threading.Event(), []

    def write():
        while not stop.is_set():
            written.append(board.append(given.commented(), task="t_p"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [audit(board, jobs=2) for _ in range(2)]
    finally:
        stop.set()
        writer.join()
    assert ([each.divergences for each in found], by) == ([(), ()], [])
    assert len(written) > 0


@once
def test_no_file_is_made_beside_a_store_that_nobody_writes_to(board, by):
    """A replay only looks: there is a gate for writers where one has written."""
    gate = board.path.with_name("ledger.db.gate")
    gate.unlink(missing_ok=True)
    audit(board, jobs=2)
    assert (gate.exists(), by) == (False, [])


@once
def test_a_store_whose_gate_cannot_be_made_is_looked_at_by_one(board, by, monkeypatch):
    """As in a folder that is not ours, where somebody else writes."""
    gate = board.path.with_name("ledger.db.gate")
    ask = replay_jobs.Hand.ask

    def ask_late(hand, *said):
        board.append(given.commented(), task="t_p")
        gate.unlink()
        gate.mkdir()
        ask(hand, *said)

    monkeypatch.setattr(replay_jobs.Hand, "ask", ask_late)
    assert (audit(board, jobs=2).divergences, by) == ((), ["one"])


@once
def test_modules_in_the_working_folder_are_not_loaded(board, by, monkeypatch, tmp_path):
    """It may be an agent's: DESIGN §4."""
    for name in ("json", "queue", "sqlalchemy", "projections"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert (audit(board, jobs=2).divergences, by) == ((), [])


@once
def test_a_password_stands_on_no_command_line():
    """Whoever may call `ps` may not read the board."""
    engine = connect("postgresql+psycopg://ada:hush@nowhere.example/x")
    with replay_jobs._hands(engine, 1) as [hand]:
        hand.wait(replay_jobs.READY)
        told = psutil.Process(hand._started.pid).cmdline()
    assert ("hush" in " ".join(told), told[1]) == (False, "-I")


_PARENT = """
import sys, time
from ledger.database import connect
from projections import replay_jobs
from projections.replay import replay

def stand(done, total):
    hands[0].wait(replay_jobs.SEEN)  # it has nothing to do any more, and nothing to say
    print(*(hand._started.pid for hand in hands), flush=True)
    time.sleep(600)

kept, hands = replay_jobs.Hand, []
replay_jobs.Hand = lambda engine: hands.append(kept(engine)) or hands[-1]
replay(connect(sys.argv[1]), "b", jobs=2, progress=stand)
"""


@pytest.fixture
def parent(board):
    """A process that stands still in the middle of a replay, and the pid of the other one that it started."""
    command = [sys.executable, "-c", _PARENT, board.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as started:
        try:
            yield started, psutil.Process(int(started.stdout.readline()))
        finally:
            started.kill()


@once
def test_a_replay_that_is_killed_leaves_no_process(parent):
    """The other ones live as long as their pipe."""
    started, other = parent
    started.send_signal(signal.SIGKILL)
    other.wait(LONG)
    assert started.wait(LONG) == -signal.SIGKILL


@once
def test_an_interrupt_ends_all(parent):
    """Ctrl-C: no other process goes on, and none says a word."""
    started, other = parent
    started.send_signal(signal.SIGINT)
    other.wait(LONG)
    said = started.communicate(timeout=LONG)[1]
    assert (said.count("Traceback"), said.count("KeyboardInterrupt")) == (1, 1)  # the parent's own, of `python -c`


def test_as_many_as_are_worth_it(monkeypatch):
    """A new process takes as long to start as many events to look at; and no more than there are processors."""
    monkeypatch.setattr(replay_jobs, "cores", lambda: 4)
    assert [replay_jobs.jobs_for(length) for length in (0, 1_000, 10**6, 10**9)] == [1, 1, 4, 4]
    monkeypatch.setattr(replay_jobs, "cores", lambda: 64)
    assert replay_jobs.jobs_for(10**9) == 8


def test_processors_are_those_that_this_process_may_use(monkeypatch):
    """As a container or `taskset` leaves it; where no system says so, all of them."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 5}, raising=False)
    assert replay_jobs.cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert replay_jobs.cores() == 1
