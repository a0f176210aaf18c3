"""Owners of warm agents for tests: real processes, an agent that answers from a list, and a journal of its turns."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kanban.worker.place import DOOR, folder_of
from tests.fleets import PATIENCE, Fleet, until

AGENT = """
import json, os, subprocess, sys, time
answers, journal = json.loads(sys.argv[1]), sys.argv[2]
for line in sys.stdin:
    turn = json.loads(line)
    with open(journal, "a") as file:
        file.write(json.dumps({"pid": os.getpid(), "own": dict(os.environ), **turn}) + "\\n")
    with open(journal) as file:
        taken = len(file.readlines())
    answer = answers[min(taken, len(answers)) - 1]
    environ = {**os.environ, **turn["environment"]}
    if "verb" in answer:
        subprocess.run([environ["LEDGER_BIN"], *answer["verb"]], env=environ, check=True, stdout=subprocess.DEVNULL)
    while "until" in answer and not os.path.exists(answer["until"]):
        time.sleep(0.02)
    if "die" in answer:
        os._exit(3)
    print(json.dumps(answer), flush=True)
"""
"""Takes turns by a list of answers, the last one again and again, and writes down each turn before it answers."""
OWNER = """
import logging, sys
import kanban.worker.recovery
from kanban.worker import Owner
kanban.worker.recovery.DELAYS = (0.05,)
logging.basicConfig(format="%(message)s")
Owner(sys.argv[3:], assignee=sys.argv[1], at_once=int(sys.argv[2])).serve()
"""
"""An owner that loses no time between two turns of a run."""
CLIENT = ["ledger", "worker", "client", "--assignee", "w", "--wait", "60s"]
"""What is started for an assignee that has an owner."""


@dataclass
class Owned:
    """An owner at work, and what its agent was asked."""

    fleet: Fleet
    process: subprocess.Popen[str]
    journal: Path

    @property
    def pid(self) -> int:
        """The owner's process."""
        return self.process.pid

    @property
    def turns(self) -> list[dict[str, Any]]:
        """What the agent was asked so far, and as which process."""
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_text().splitlines()]

    def asked(self, times: int = 1) -> dict[str, Any]:
        """The last turn, once the agent has begun so many."""
        until(lambda: len(self.turns) >= times)
        return self.turns[-1]

    def ends(self) -> int:
        """Tell it to stop, and wait until it has; its code."""
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE)


def door(fleet: Fleet, assignee: str = "w") -> Path:
    """Where the owner of *assignee* listens."""
    return folder_of(fleet.home, fleet.board.host.id, assignee) / DOOR


def own(fleet: Fleet, *answers: Any, at_once: int = 1, **environ: str) -> Owned:
    """Start an owner of `w` whose agent gives *answers*, in an environment that says *environ* besides."""
    journal = fleet.home / "journal"
    agent = [sys.executable, "-c", AGENT, json.dumps(answers), str(journal)]
    return Owned(fleet, start_owner(fleet, [sys.executable, "-c", OWNER, "w", str(at_once), *agent], environ), journal)


def start_owner(fleet: Fleet, command: list[str], environ: dict[str, str]) -> subprocess.Popen[str]:
    """Start the owner *command* and wait until its door is there."""
    with (fleet.home / "owner.log").open("a") as log:
        process = subprocess.Popen(command, env=fleet.environ | environ, cwd=fleet.home, stderr=log, text=True)
    fleet.others.append(process)
    until(lambda: door(fleet).exists() or process.poll() is not None)
    return process
