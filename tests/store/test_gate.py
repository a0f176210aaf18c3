"""The fair gate before every write: writers take turns, and no wait is without a limit."""

import multiprocessing
import os
import threading
from contextlib import ExitStack

import pytest

from ledger import gate as gates
from ledger.errors import StoreBusy
from ledger.gate import gate
from tests.fleets import PATIENCE


def test_a_writer_that_is_stopped_in_the_middle_does_not_hang_the_others(tmp_path):
    """A holder that never lets go ends in `StoreBusy`, naming the file."""
    second = gate(tmp_path / "g", timeout=0.05)

    with gate(tmp_path / "g", timeout=1), pytest.raises(StoreBusy, match=r"/g for 0\.05 seconds"), second:
        pytest.fail("two held the gate at once")


def test_a_place_that_was_given_up_keeps_nobody_out(tmp_path):
    """Whoever gave up waiting does not take the gate later."""
    with ExitStack() as held:
        held.enter_context(gate(tmp_path / "g", timeout=1))
        with pytest.raises(StoreBusy):
            held.enter_context(gate(tmp_path / "g", timeout=0.01))
    with gate(tmp_path / "g", timeout=5):
        pass


def test_one_at_a_time_passes(tmp_path):
    """Threads and the processes around them pass one by one."""
    inside, most = [], []

    def pass_through():
        for _ in range(20):
            with gate(tmp_path / "g", timeout=10):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=pass_through) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(most), max(most)) == (120, 1)


def _hold(path, entered):
    with gate(path, timeout=5):
        entered.set()
        threading.Event().wait(60)


def test_a_holder_that_is_killed_lets_go(tmp_path):
    """`kill -9` of a writer opens the gate: the lock dies with its process."""
    spawn = multiprocessing.get_context("spawn")
    entered = spawn.Event()
    holder = spawn.Process(target=_hold, args=(tmp_path / "g", entered))
    holder.start()
    assert entered.wait(timeout=PATIENCE)
    holder.kill()
    with gate(tmp_path / "g", timeout=5):
        pass
    holder.join()


def test_a_writer_that_finds_the_gate_shut_for_a_moment_goes_through_without_queueing(tmp_path, monkeypatch):
    """Most turns are short: to be woken in the kernel's queue costs more than a commit."""
    monkeypatch.setattr(gates, "_Turn", None)
    held = ExitStack()
    held.enter_context(gate(tmp_path / "g", timeout=1))
    monkeypatch.setattr(gates.time, "sleep", lambda _: held.close())
    with gate(tmp_path / "g", timeout=5):
        pass


def test_a_writer_that_finds_the_gate_shut_for_long_gets_its_turn(tmp_path, monkeypatch):
    """It queues: whoever lets go lets it in, and nobody needs to look again."""
    monkeypatch.setattr(gates, "_LOOKING", 0)
    passed, held = threading.Event(), ExitStack()

    def wait():
        with gate(tmp_path / "g", timeout=PATIENCE):
            passed.set()

    held.enter_context(gate(tmp_path / "g", timeout=1))
    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not passed.wait(0.05)
    held.close()
    assert passed.wait(timeout=PATIENCE)
    waiter.join()


def test_a_writer_that_is_interrupted_while_it_looks_keeps_nobody_out(tmp_path, monkeypatch):
    """Its descriptor is closed: what it may have locked a moment later it would hold for ever."""
    opened = []
    monkeypatch.setattr(gates, "_opened", lambda path: opened.append(os.open(path, os.O_RDWR)) or opened[-1])
    (tmp_path / "g").touch()

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gates.time, "sleep", interrupt)
    with gate(tmp_path / "g", timeout=1), pytest.raises(KeyboardInterrupt), gate(tmp_path / "g", timeout=5):
        pytest.fail("two held the gate at once")
    for descriptor in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
