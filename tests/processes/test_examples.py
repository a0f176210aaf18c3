"""The example agents, as real workers: whoever copies them gets what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fleets import until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PYTHON, SHELL = [sys.executable, str(EXAMPLES / "agent.py")], [str(EXAMPLES / "agent.sh")]
AT_ONCE = (
    "import runpy, sys, kanban.worker.recovery as r; r.DELAYS = (0,); script = sys.argv.pop(1); "
    "sys.argv[0] = script; runpy.run_path(script, run_name='__main__')"
)
"""Runs an example whose agent is tried again without a wait."""


def model(script):
    """A program that reads a prompt on stdin."""
    return ["sh", "-c", f"cat >> texts; {script}"]


@pytest.mark.parametrize("agent", [PYTHON, SHELL])
def test_an_example_completes_its_card(fleet, agent):
    """With the model's own words, after the prompt that the board wrote."""
    fleet.staff({"w": {"command": [*agent, *model("echo all of it")]}})
    card = fleet.create("Mend the parser")
    fleet.finish(card)
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "progressed", "completed"]
    assert fleet.events(card)[-1].words["summary"].strip() == "all of it"
    until(lambda: not fleet.members(card))
    assert "all of it" in (fleet.folder(card) / "log").read_text()


@pytest.mark.parametrize(("agent", "code"), [(PYTHON, 1), (SHELL, 7)])
def test_an_example_tells_a_failure(fleet, agent, code):
    """The Python agent by its policy (an unknown failure is 1), the shell one by the model's own code."""
    fleet.staff({"w": {"command": [*agent, *model("echo no >&2; exit 7")]}})
    run = fleet.ended(card := fleet.create())
    assert (run["outcome"], run["code"]) == ("crashed", code)
    assert fleet.counters(card)[0] == 1


def test_the_shell_example_stops_once_its_card_is_taken_away(fleet):
    """It completes nothing: somebody blocked the card while the model worked."""
    fleet.staff({"w": {"command": [*SHELL, *model("ledger block enough; echo too late")]}})
    card = fleet.create()
    fleet.sweep_until(lambda: fleet.card(card)["status"] == "blocked")
    until(lambda: not fleet.members(card))
    assert fleet.kinds(card)[-1] == "blocked"
    assert "rc=1 " in (fleet.folder(card) / "log").read_text()


def test_the_python_example_goes_on_where_the_model_was_overloaded(fleet):
    """The second turn gets the nudge, and the card is done by one run."""
    busy = "[ -e once ] || { touch once; echo overloaded >&2; exit 1; }; echo at last"
    fleet.staff({"w": {"command": [sys.executable, "-P", "-c", AT_ONCE, PYTHON[1], *model(f"cp texts seen; {busy}")]}})
    card = fleet.create(workspace=f"dir:{fleet.home}")
    fleet.finish(card)
    assert len(fleet.runs(card)) == 1
    assert "attempt 1/3" in (fleet.home / "seen").read_text()
    until(lambda: not fleet.members(card))
    log = (fleet.folder(card) / "log").read_text()
    assert "[kanban]" in log
    assert "rc=0 run=1" in log


def test_the_python_example_comes_back_later_from_a_model_that_stays_overloaded(fleet):
    """Three more tries, then 75: no failure is counted."""
    fleet.staff(
        {"w": {"command": [sys.executable, "-P", "-c", AT_ONCE, PYTHON[1], *model("echo overloaded >&2; exit 1")]}}
    )
    card = fleet.create(workspace=f"dir:{fleet.home}")
    run = fleet.ended(card)
    assert (run["outcome"], run["code"]) == ("rate_limited", 75)
    assert fleet.counters(card) == (0, 0, 0, 1)
    assert (fleet.home / "texts").read_text().count("Do NOT start over") == 3
