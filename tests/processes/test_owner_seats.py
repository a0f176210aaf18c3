"""The seats of an owner: what cannot be ended from outside, what waits for it, and what outlives the owner."""

import os
import signal
import subprocess
import sys

import pytest

from kanban.worker.place import OwnerRunning, only_owner
from tests.fleets import PATIENCE, is_alive, until
from tests.owners import CLIENT, start_owner

LEDGER = [sys.executable, "-c", "from cli.main import main; main()"]


@pytest.fixture
def staffed(fleet):
    """A fleet whose assignee has an owner; exit 0 completes the card."""
    fleet.staff({"w": {"command": CLIENT, "on_success": "complete"}})
    return fleet


def client_of(fleet, card):
    """The client of the card's run."""
    (pid,) = fleet.workers(card)
    return pid


def bindings(fleet, card):
    """(run, role, pid) of the card's bindings."""
    return [(e.run, e.facts["role"], e.facts["pid"]) for e in fleet.events(card, "worker_bound")]


PYTHON = """
import logging, sys, time
from pathlib import Path
from kanban.worker import Owner
logging.basicConfig(format="%(message)s")
here = Path(sys.argv[1])
def turn(text, frame):
    with (here / "turns").open("a") as file:
        file.write(f"{frame.claim.run} began\\n")
    if frame.claim.run == 1:
        frame.over.wait(120)
        time.sleep(1)
    with (here / "turns").open("a") as file:
        file.write(f"{frame.claim.run} ended\\n")
    return {}
Owner(turn, assignee="w", at_once=2).serve()
"""


def test_an_agent_in_python_is_told_that_nobody_waits_and_its_card_waits_for_it(staffed):
    """It cannot be ended from outside: the next run's turn begins only after it has returned."""
    start_owner(staffed, [sys.executable, "-c", PYTHON, str(staffed.home)], {})
    turns = staffed.home / "turns"
    card = staffed.create()
    staffed.sweep()
    until(turns.exists)
    os.kill(client_of(staffed, card), signal.SIGKILL)
    staffed.finish(card)
    assert turns.read_text().splitlines() == ["1 began", "1 ended", "2 began", "2 ended"]
    assert not (staffed.folder(card) / "owner.json").exists()
    assert (staffed.folder(card, 2) / "owner.json").exists()


STUCK = """
import logging, sys, time
from pathlib import Path
from kanban.worker import Owner
here = Path(sys.argv[1])
def turn(text, frame):
    (here / f"turn of {frame.claim.task} {frame.claim.run}").touch()
    while "it is stuck" in text and not (here / "go").exists():
        time.sleep(0.02)
    return {}
Owner(turn, assignee="w", at_once=2).serve()
"""


def test_a_stuck_turn_takes_one_seat_alone(staffed):
    """The card's next runs wait for it, but nobody else's."""
    owner = start_owner(staffed, [sys.executable, "-c", STUCK, str(staffed.home)], {})
    card = staffed.create("it is stuck")
    staffed.sweep()
    until((staffed.home / f"turn of {card} 1").exists)
    os.kill(client_of(staffed, card), signal.SIGKILL)
    until(lambda: not staffed.members(card))
    until(lambda: staffed.sweep() and (2, "turns", owner.pid) in bindings(staffed, card))
    other = staffed.create("it is quick")
    staffed.finish(other)
    (staffed.home / "go").touch()
    staffed.finish(card)
    owner.terminate()
    assert owner.wait(timeout=PATIENCE) == 0


SLOW_TO_END = """
import os, signal, sys, time
def end(*_):
    time.sleep(3)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1], "w").write(f"{os.getpid()}\\n")
while True:
    time.sleep(0.1)
"""


def test_a_new_owner_waits_for_the_agents_of_one_that_was_killed(fleet):
    """It takes no turn before they are gone: they may still be at work on the same card."""
    pid = fleet.home / "pid"
    first = start_owner(
        fleet, [*LEDGER, "owner", "--assignee", "w", "--", sys.executable, "-c", SLOW_TO_END, str(pid)], {}
    )
    agent = until(lambda: pid.exists() and pid.read_text().endswith("\n") and int(pid.read_text()))
    first.kill()
    first.wait()
    assert is_alive(agent)
    start_owner(fleet, [*LEDGER, "owner", "--assignee", "w", "--", "cat"], {})
    until(lambda: (fleet.home / "owner.log").read_text().count("takes 1 turns at once") == 2)
    assert not is_alive(agent)


FORKED = """
import os, sys, time
from pathlib import Path
from kanban.worker.place import only_owner
with only_owner(Path(sys.argv[1]), "w"):
    if os.fork() == 0:
        print("up", flush=True)
    time.sleep(60)
"""


def test_a_child_of_an_owner_is_none(tmp_path):
    """It may outlive it, and does not keep the next one out."""
    command = [sys.executable, "-c", FORKED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout.readline() == "up\n"
        with pytest.raises(OwnerRunning), only_owner(tmp_path, "w"):
            pass
        process.kill()
        process.wait()
        with only_owner(tmp_path, "w"):
            os.killpg(process.pid, signal.SIGKILL)  # the child is still there
