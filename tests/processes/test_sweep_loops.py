"""Dispatchers that share a board take turns, and no card is lost or worked on twice (RULES §7)."""

import json
import subprocess
import sys
from collections import Counter

import pytest

import kanban.starting
import kanban.sweep
from kanban.observe import observe
from tests.fleets import PATIENCE, sh, until

CARDS = 200
PLAIN = 8
LOOP = """
claimed = skipped = 0
while True:
    tick = board.sweep()
    assert not tick.errors, tick.errors
    claimed += len(tick.claimed)
    skipped += tick.skipped is not None
    if tick.idle:
        break
    time.sleep(0.2)
print(json.dumps({"claimed": claimed, "skipped": skipped}))
"""
WORK = "from kanban import Worker; Worker.from_environment().complete('done')"
NURSERY = """
import json, os, socket, sys
import kanban.board
from kanban import Worker
with socket.socket(socket.AF_UNIX) as server:
    server.bind(sys.argv[1])
    server.listen(64)
    print("ready", flush=True)
    while True:
        asked = server.accept()[0]
        if os.fork() == 0:
            os.environ.clear()
            os.environ.update(json.loads(asked.makefile().readline()))
            Worker.from_environment().complete("done")
            asked.sendall(b"done")
            os._exit(0)
        asked.close()
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
"""
"""Python with `kanban` loaded costs half a second of a processor to start: this one is forked for each worker."""
RELAY = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as nursery:
    nursery.connect(sys.argv[1])
    nursery.sendall(json.dumps(dict(os.environ)).encode() + b"\\n")
    sys.exit(nursery.recv(4) != b"done")
"""


@pytest.fixture
def nursery(fleet):
    """The socket at which a Python that has loaded `kanban` does the work of whoever sends its environment."""
    path = str(fleet.home / "nursery")
    command = [sys.executable, "-c", NURSERY, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=fleet.environ) as started:
        assert started.stdout.readline() == "ready\n"
        yield path
        started.kill()


def test_two_loops_do_every_card_once(fleet, nursery):
    """§7: one sweep a host and tick; two loops take turns, and each card is claimed, run and completed once."""
    python = [sys.executable, "-I", "-S", "-c", RELAY, nursery]
    fleet.staff({"w": {"command": python}, "plain": {"command": [sys.executable, "-c", WORK]}}, max_running=8)
    cards = [fleet.create(str(n), "plain" if n < PLAIN else "w") for n in range(CARDS)]
    loops = [fleet.outside(LOOP) for _ in range(2)]
    told = [json.loads(loop.communicate(timeout=PATIENCE)[0]) for loop in loops]
    events = list(fleet.board.events())
    for kind in ("claimed", "worker_bound", "completed"):
        assert Counter(event.task for event in events if event.kind == kind) == dict.fromkeys(cards, 1)
    assert {event.kind for event in events if event.task} == {"created", "claimed", "worker_bound", "completed"}
    assert sum(loop["claimed"] for loop in told) == CARDS
    assert all(loop["claimed"] for loop in told)


def test_a_second_tick_at_the_same_moment_is_told_that_the_lock_is_held(fleet, monkeypatch):
    """§7: the host's lock is held for a tick; a second tick at the same moment reports `lock held` and does nothing."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    card = fleet.create()
    second, seen = fleet.another(), []
    launch = kanban.starting.launch

    def meanwhile(order):
        seen.append(second.sweep())
        return launch(order)

    monkeypatch.setattr(kanban.starting, "launch", meanwhile)
    first = fleet.sweep()
    assert [tick.skipped for tick in seen] == ["lock held"]
    assert not seen[0].idle
    assert (first.skipped, len(first.claimed)) == (None, 1)
    assert second.sweep().skipped is None
    until(lambda: fleet.ended(card)["outcome"] == "rate_limited")


def test_another_process_is_locked_out_for_the_tick_alone(fleet):
    """§7: the lock is another process's too, and is free between two ticks of its loop."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    fleet.create()
    other = fleet.outside("""
launch = kanban.starting.launch
def slowly(order):
    print("in the tick", flush=True)
    sys.stdin.readline()
    return launch(order)
kanban.starting.launch = slowly
board.sweep()
print("after it", flush=True)
sys.stdin.readline()
""")
    assert other.stdout.readline() == "in the tick\n"
    assert fleet.board.sweep().skipped == "lock held"
    print(file=other.stdin, flush=True)
    assert other.stdout.readline() == "after it\n"
    assert fleet.sweep().skipped is None


def test_a_verb_that_comes_between_the_look_and_the_lock_stands(fleet, monkeypatch):
    """§7: inside the board's lock each card is checked again: a run that has ended meanwhile is not booked."""
    fleet.staff({"w": {"command": sh("while [ ! -e go ]; do sleep 0.02; done")}})
    card = fleet.create()
    fleet.sweep()
    lock, worker = fleet.lock(card), fleet.another()
    (fleet.scratch(card) / "go").touch()
    until(lambda: not fleet.members(card))

    def then_the_verb(*what):
        seen = observe(*what)
        worker.complete(card, "made it", lock=lock)
        return seen

    monkeypatch.setattr(kanban.sweep, "observe", then_the_verb)
    assert fleet.sweep().booked == []
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "completed"]


def test_what_people_do_between_the_look_and_the_lock_counts(fleet, monkeypatch):
    """§7: nothing that was read before the lock takes part in a decision."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    first, second, operator = fleet.create(priority=1), fleet.create(), fleet.another()

    def then_people_act(*what):
        seen = observe(*what)
        operator.block(first, "not now")
        operator.set_policy(max_running=1)
        return seen

    monkeypatch.setattr(kanban.sweep, "observe", then_people_act)
    third = fleet.create(priority=-1)
    assert [each["task"] for each in fleet.sweep().claimed] == [second]
    assert fleet.kinds(third) == ["created"]
