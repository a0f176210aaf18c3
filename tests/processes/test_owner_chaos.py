"""Owners, clients, agents and whole groups killed at random: every card is done, and no turn is taken twice."""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress

from kanban.processes import ProcessTable
from tests.owners import CLIENT, OWNER, start_owner

CARDS, DEATHS = 12, 14
AGENT = """
import json, os, subprocess, sys, time
for line in sys.stdin:
    turn = json.loads(line)
    note = {"task": turn["task"], "run": turn["run"], "turn": turn["turn"], "pid": os.getpid()}
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps(note | {"at": time.monotonic()}) + "\\n")
    for _ in range(40):
        time.sleep(0.03)
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps(note | {"busy": time.monotonic()}) + "\\n")
    print(json.dumps({"final_response": "done"}), flush=True)
"""


def test_whatever_is_killed_every_card_is_done_and_no_turn_is_taken_twice(fleet):
    """Each run has at most one first turn, and no two agents are ever at work on one card at the same time."""
    dice = random.Random(os.environ.get("LEDGER_CHAOS_SEED", "7"))
    fleet.staff({"w": {"command": CLIENT, "on_success": "complete"}}, max_running=3)
    fleet.board.set_policy(failure_limit=1000, attempt_limit=1000, run_limit=1000, cooldown=1)
    journal = fleet.home / "journal"
    command = [sys.executable, "-c", OWNER, "w", "6", sys.executable, "-c", AGENT, str(journal)]
    owner = start_owner(fleet, command, {})
    cards = [fleet.create(f"card {number}") for number in range(CARDS)]
    deaths = 0
    deadline = time.monotonic() + 90
    while not all(fleet.card(card)["status"] == "done" for card in cards):
        assert time.monotonic() < deadline
        fleet.sweep()
        if deaths < DEATHS and journal.exists():
            deaths += 1
            owner = _one_dies(fleet, dice, owner, journal, command)
        time.sleep(dice.random() * 0.3)
    assert deaths == DEATHS
    told = [json.loads(line) for line in journal.read_text().splitlines()]
    begun = Counter((turn["task"], turn["run"]) for turn in told if "at" in turn)
    assert set(begun.values()) == {1}
    assert {task for task, _ in begun} == set(cards)
    assert not list(_overlaps(told))
    for card in cards:
        assert fleet.kinds(card).count("completed") == 1


def _one_dies(fleet, dice, owner, journal, command):
    """Kill one thing that is at work; the owner, which is another one if it was that."""
    live = [(card, run) for card, run in _open(fleet) if fleet.members(card)]
    what = dice.choice(["owner", "agent", "client", "group"])
    with suppress(ProcessLookupError, IndexError):
        match what:
            case "owner":
                owner.kill()
                owner.wait()
                return start_owner(fleet, command, {})
            case "agent":
                os.kill(dice.choice(_pids(journal)), signal.SIGKILL)
            case "client":
                card, _ = dice.choice(live)
                os.kill(dice.choice([pid for pid in fleet.members(card) if pid != fleet.supervisor(card)]), 9)
            case _:
                os.killpg(fleet.supervisor(dice.choice(live)[0]), signal.SIGKILL)
    return owner


def _open(fleet):
    with fleet.board.look() as desk:
        return sorted((run.task, run.run) for run in desk.live())


def _pids(journal):
    """The agents that live."""
    table = ProcessTable.snapshot().processes
    told = {json.loads(line)["pid"] for line in journal.read_text().splitlines()}
    return sorted(pid for pid in told if pid in table and not table[pid].dead)


def _overlaps(told):
    """Turns of one card of which the earlier was still busy when the later had begun."""
    begun = {}
    for turn in told:
        if "at" in turn:
            begun[turn["task"]] = turn
        elif turn["pid"] != begun[turn["task"]]["pid"] or turn["run"] != begun[turn["task"]]["run"]:
            yield begun[turn["task"]], turn
