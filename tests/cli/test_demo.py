"""`ledger demo`: the main job on a throw-away home, with real worker processes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleets import PATIENCE

LEDGER = Path(sys.executable).with_name("ledger")
ENDS = {
    "Draw the schema": ("done", None),
    "Write the parser": ("done", None),
    "Write the tests": ("done", None),
    "Ship it": ("done", None),
    "Exit 0 without a word, once": ("done", None),
    "Exit 0 without a word, always": ("blocked", "violation_budget"),
    "Exit 1, always": ("blocked", "failure_budget"),
    "Meet a quota wall: exit 75": ("done", None),
    "Lack a key: exit 78": ("blocked", "config"),
    "Use what the key unlocks": ("todo", None),
    "Die by kill -9": ("done", None),
    "Run over time": ("done", None),
    "Leave children behind": ("done", None),
    "Choose a name": ("ready", None),
}


@pytest.fixture(scope="module")
def shown():
    """What one run of the demo prints with --json; its home is removed."""
    said = json.loads(subprocess.check_output([LEDGER, "demo", "--json"], timeout=PATIENCE))
    yield said
    shutil.rmtree(said["home"])


def test_every_card_of_the_demo_ends_where_the_rules_say(shown):
    """Workers that complete, fall silent, fail, meet a wall, lack a key, die, run over and leave children behind."""
    ends = {task["title"]: (task["status"], task["hold"] and task["hold"]["cause"]) for task in shown["tasks"]}

    assert ends == ENDS


def test_the_demos_log_passes_the_audit(shown):
    """RULES §9: nothing diverges, over real deaths and real claims."""
    assert shown["replay"]["divergences"] == []
    assert shown["replay"]["tasks"] == len(ENDS)


def test_the_demo_in_words_explains_two_stuck_cards_and_tells_the_verdict():
    """What a stranger sees: things happen line by line, then `why`, then the audit."""
    said = subprocess.check_output([LEDGER, "demo"], timeout=PATIENCE, text=True)
    home = said.rsplit("rm -r ", 1)[1].strip()
    shutil.rmtree(home)

    assert "started  Draw the schema · run 1" in said
    assert "violation_budget: 3 of 3 (policy limit); only a person lifts it" in said
    assert "waiting_on: " in said
    assert "no divergence" in said
