"""The fair gate before every write: writers take turns, and no wait is without a limit."""

import fcntl
import multiprocessing
import os
import signal
import subprocess
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ledger import gate as gates
from ledger.database import writing
from ledger.errors import StoreBusy
from ledger.gate import Kept, gate
from tests.engines import on
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


def most_at_once(turn):
    """How many of six threads are in a *turn* at the same moment, at the most, and how many turns there were."""
    inside, most = [], []

    def pass_through():
        for _ in range(20):
            with turn():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=pass_through) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(most), len(most)


def test_one_at_a_time_passes(tmp_path):
    """Threads and the processes around them pass one by one."""
    assert most_at_once(lambda: gate(tmp_path / "g", timeout=10)) == (1, 120)


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


def of_file(path):
    """This process's descriptors of *path*, also once it was removed."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if str(link.readlink()).removesuffix(" (deleted)") == str(path):
                found.append(int(link.name))
    return found


def is_free(path):
    """Whether the gate can be passed at once."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_kept_file_is_locked_in_its_turn_and_free_between_two(tmp_path):
    """It is opened once; whoever keeps it shuts nobody out."""
    path, kept = tmp_path / "g", Kept()
    for _ in range(3):
        with gate(path, timeout=1, kept=kept):
            (descriptor,) = of_file(path)
            assert not is_free(path)
        assert of_file(path) == [descriptor]
        assert is_free(path)
    del kept
    assert of_file(path) == []


def test_a_kept_file_that_was_removed_is_opened_anew(tmp_path):
    """Others would lock the new one, and both would be in at once."""
    path, kept = tmp_path / "g", Kept()
    with gate(path, timeout=1, kept=kept):
        pass
    path.unlink()
    with gate(path, timeout=1, kept=kept):
        assert not is_free(path)


def test_a_turn_that_failed_or_never_came_keeps_nothing(tmp_path):
    """The connection that a file is kept with may be another's by then."""
    path, kept = tmp_path / "g", Kept()
    with pytest.raises(ZeroDivisionError), gate(path, timeout=1, kept=kept):
        1 / 0  # noqa: B018
    assert of_file(path) == []
    with gate(path, timeout=1), pytest.raises(StoreBusy), gate(path, timeout=0.01, kept=kept):
        pytest.fail("two held the gate at once")
    assert is_free(path)
    with gate(path, timeout=1, kept=kept):
        assert not is_free(path)


def _fork_and_hold(path, entered, child):
    kept = Kept()
    with gate(path, timeout=5, kept=kept):
        pass
    forked = os.fork()
    if forked == 0:
        signal.pause()
    child.value = forked
    with gate(path, timeout=5, kept=kept):
        entered.set()
        signal.pause()


def test_a_holder_that_is_killed_lets_go_though_a_process_that_it_forked_lives_on(tmp_path):
    """A fork copies what is open, and a lock is gone once no copy is left."""
    spawn = multiprocessing.get_context("spawn")
    entered, child = spawn.Event(), spawn.Value("i")
    holder = spawn.Process(target=_fork_and_hold, args=(tmp_path / "g", entered, child))
    holder.start()
    assert entered.wait(timeout=PATIENCE)
    holder.kill()
    holder.join()
    try:
        with gate(tmp_path / "g", timeout=5):
            os.kill(child.value, 0)
    finally:
        os.kill(child.value, signal.SIGKILL)


def test_a_process_that_was_forked_in_a_turn_does_not_prolong_it(tmp_path):
    """The child has the open file as well; it is unlocked for both."""
    path, kept = tmp_path / "g", Kept()
    with gate(path, timeout=1, kept=kept):
        pass
    with gate(path, timeout=1, kept=kept):
        child = subprocess.Popen(["sleep", "60"], pass_fds=of_file(path))
    try:
        assert is_free(path)
    finally:
        child.kill()
        child.wait()


@on("sqlite")
def test_a_connection_opens_the_gate_of_its_store_once(store):
    """And with the connections it goes: many writes, then none of its files is open."""
    path = store.path.with_name(f"{store.path.name}.gate")
    held = []
    for _ in range(5):
        with writing(store.engine):
            held.append(of_file(path))
            assert not is_free(path)
        assert is_free(path)
    assert held == [held[0]] * 5
    assert len(held[0]) == 1
    with pytest.raises(ZeroDivisionError), writing(store.engine):
        1 / 0  # noqa: B018
    assert is_free(path)
    with writing(store.engine):
        pass
    store.engine.dispose()
    assert of_file(path) == []


@on("sqlite")
def test_writers_of_one_process_pass_one_by_one(store):
    """Each thread's connection has an open file of its own."""
    assert most_at_once(lambda: writing(store.engine)) == (1, 120)
