"""The example agents, as real workers: whoever copies them gets what they say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleets import PATIENCE, until
from tests.reference.workers import hold

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JUDGE, QUESTION = str(EXAMPLES / "judge.sh"), b'{"task": "t_1", "goal": "mend it"}'
NOTHING = "it ended well and said nothing"
JUDGE = str(EXAMPLES / "judge.sh")
NOTHING = "it ended well and said nothing"
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


def by_hand(fleet, command, **variables):
    """The ended process of *command* as the worker of a card that was claimed by hand, and that card."""
    held = hold(fleet)
    (fleet.home / "prompt.md").write_text("mend it")
    path = f"{Path(sys.executable).parent}:{fleet.path}"
    environ = held.environment(**{"PATH": path, "LEDGER_PROMPT": str(fleet.home / "prompt.md"), **variables})
    ran = subprocess.run(command, env=environ, cwd=fleet.home, capture_output=True, check=False, timeout=PATIENCE)
    return ran, held.carrier.task


@pytest.mark.parametrize(
    ("agent", "answer", "summary"),
    [
        pytest.param(SHELL, b"first\n- wrote the tests\n", "- wrote the tests", id="shell-dash"),
        pytest.param(SHELL, b"--force\n", "--force", id="shell-option"),
        pytest.param(SHELL, b"t_0123456789", "t_0123456789", id="shell-card"),
        pytest.param(SHELL, b"caf\xe9 men\0ded \xc3\xbcber\n \n", "caf mended über", id="shell-bytes"),
        pytest.param(SHELL, b"", NOTHING, id="shell-nothing"),
        pytest.param(SHELL, b"x" * 200_000, "x" * 4000, id="shell-long"),
        pytest.param(PYTHON, b"- caf\xe9 men\0ded \xc3\xbcber", "- caf\ufffd mended über", id="python-bytes"),
        pytest.param(PYTHON, b"\0\n", NOTHING, id="python-nothing"),
    ],
)
def test_whatever_a_model_answers_completes_its_card(fleet, agent, answer, summary):
    """What looks like an option or a card, what is not UTF-8, nothing at all, and what fits into no argument."""
    (fleet.home / "answer").write_bytes(answer)
    ran, card = by_hand(fleet, [*agent, "cat", "answer"])
    assert (ran.returncode, fleet.card(card)["status"]) == (0, "done"), ran
    assert fleet.events(card)[-1].words["summary"] == summary


def test_the_shell_example_needs_no_iconv(fleet, tmp_path):
    """Without it, what is left is ASCII."""
    (tmp_path / "ledger").symlink_to(Path(sys.executable).parent / "ledger")
    for name in ("cat", "sed", "tail", "head", "tr"):
        (tmp_path / name).symlink_to(shutil.which(name))
    (fleet.home / "answer").write_bytes(b"- caf\xe9 men\0ded \xc3\xbcber\n")
    ran, card = by_hand(fleet, [*SHELL, "cat", "answer"], PATH=str(tmp_path))
    assert ran.returncode == 0, ran
    assert fleet.events(card)[-1].words["summary"] == "- caf mended ber"


def test_a_model_that_completes_its_card_itself_has_done_so(fleet):
    """The Python example ends well, with its trailer and without a traceback; the model's own words stay."""
    ran, card = by_hand(fleet, [*PYTHON, *model("ledger complete mine >&2; echo so I did")])
    assert ran.returncode == 0, ran
    assert b"rc=0 run=1" in ran.stderr
    assert b"no longer holds the claim" in ran.stderr
    assert b"Traceback" not in ran.stderr
    assert fleet.events(card, "completed")[0].words["summary"] == "mine"
    assert fleet.card(card)["status"] == "done"


def judged(*check):
    """The ended process of the example judge with *check*."""
    return subprocess.run([JUDGE, *check], input=b"{}", capture_output=True, check=False, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("check", "why"),
    [((), b"which check?"), (("no-such-program", "test"), b"cannot be run: no-such-program test"), (("/",), b"run: /")],
)
def test_without_a_check_that_runs_there_is_no_verdict(check, why):
    """None at all, a typo, and what is no program: that says nothing of a goal."""
    ran = judged(*check)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert why in ran.stderr


@pytest.mark.parametrize(("code", "verdict"), [(0, "done"), (1, "continue"), (125, "continue"), (128, "continue")])
def test_a_check_that_runs_is_a_verdict(code, verdict):
    """By its exit code alone."""
    ran = judged("sh", "-c", f"echo so; exit {code}")
    assert (ran.returncode, json.loads(ran.stdout)["verdict"]) == (0, verdict)


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
