"""Turns that go on in the same run after a failure that may pass: real commands under the real runner (DESIGN §4)."""

import os
import re
import signal
import subprocess
import sys

import pytest

from kanban.worker import resume
from kanban.worker.ears import hearing
from kanban.worker.result import Status
from ledger.clock import SECOND
from tests import hasty
from tests.fleets import sh, until
from tests.reference.workers import CARRIER

PASSING = '{"failed": true, "failure_retryable": true, "failure_reason": "timeout", "error": "504 from the model"}'
COUNT = 'r=$LEDGER_RUN; n=$(($(cat n.$r 2>/dev/null || echo 0) + 1)); echo $n > n.$r; printf "%s" "$1" > prompt.$r.$n; '
"""The number of this turn of the run in `$n`, and what it was told in a file."""
SPEAK = f"printf '%s' '{PASSING}' > \"$LEDGER_TURN_RESULT\"; "
THE_RUNNER = resume.__file__
BILLED = '{"failed": true, "failure_reason": "billing", "error": "'
OVERLOADED = ["(?i)overloaded"]
HEAVY = {"sqlalchemy", "pydantic", "typer", "psutil", "alembic", "kanban.worker.proof", "kanban.worker.recovery"}


@pytest.fixture(autouse=True)
def waiting(fleet, monkeypatch):
    """No delay is longer than a test; another one can be asked for."""

    def wait(seconds):
        monkeypatch.setattr(resume, "__file__", hasty.runner(fleet.home / "runner.py", seconds))

    wait(0.05)
    return wait


@pytest.fixture
def place(fleet):
    """Where the agent works; nobody takes it away afterwards."""
    folder = fleet.home / "work"
    folder.mkdir()
    return folder


def started(fleet, place, script, **keys):
    """A card whose agent has been started: every turn of it is *script*."""
    command = [*sh(COUNT + script), "agent", "{prompt}"]
    fleet.staff({"w": {"command": command, "resume": command, **keys}})
    card = fleet.create("mend it", workspace=f"dir:{place}")
    fleet.sweep()
    return card


def run_of(fleet, place, script, **keys):
    """The card after its only run, and that run."""
    card = started(fleet, place, script, **keys)
    return card, fleet.ended(card)


def turns(place):
    """How many turns the first run had; another one may have begun since it ended."""
    return int((place / "n.1").read_text())


def log(fleet, card):
    """The run's log, as far as it is written."""
    path = fleet.folder(card) / "log"
    return path.read_text() if path.exists() else ""


# Going on


def test_an_agent_that_fails_twice_and_then_completes_does_it_in_one_run(fleet, place):
    """One claim, one binding, three turns; the later ones are told what happened, and nothing is counted."""
    card, run = run_of(fleet, place, f"[ $n = 3 ] && exec \"$LEDGER_BIN\" complete 'third time'; {SPEAK} exit 1")
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "completed"]
    assert (run["run"], run["summary"], fleet.counters(card)) == (1, "third time", (0, 0, 0, 0))
    assert re.findall(r"attempt (\d/\d)", log(fleet, card)) == ["1/3", "2/3"]
    first, *later = [(place / f"prompt.1.{n}").read_text() for n in (1, 2, 3)]
    assert first.startswith("# mend it")
    for attempt, said in enumerate(later, 1):
        assert f"attempt {attempt}/3" in said
        assert card in said
        assert "504 from the model" in said
        assert not re.search(r"[A-Za-z0-9_-]{40,}", said)  # nothing as long as a lock


def test_what_is_put_into_resume_is_not_looked_at_again(fleet, place):
    """A title that holds a place is that title still; the other places are filled as in the command."""
    show = ["sh", "-c", COUNT + f"[ $n = 2 ] && exit 0; {SPEAK} exit 1", "agent"]
    fleet.staff({"w": {"command": [*show, "{prompt}"], "resume": [*show, "{run}|{title}|{prompt}"]}})
    card = fleet.create("say {prompt}", workspace=f"dir:{place}")
    fleet.sweep()
    fleet.ended(card)
    assert (place / "prompt.1.2").read_text().startswith("1|say {prompt}|[kanban] Your previous turn")


@pytest.mark.parametrize("code", [0, 1, 7])
def test_a_line_that_matches_retry_is_a_failure_that_may_pass(fleet, place, code):
    """An agent that cannot write a result file says it in words, whatever its code."""
    script = f'[ $n = 2 ] && {{ echo all done; exit 0; }}; echo "API Error: Overloaded"; exit {code}'
    card, run = run_of(fleet, place, script, retry=OVERLOADED, on_success="complete")
    assert (turns(place), run["outcome"], run["summary"]) == (2, "ok", "all done")
    assert fleet.card(card)["status"] == "done"


def test_a_turn_is_not_judged_by_the_lines_of_the_one_before(fleet, place):
    """The second turn says nothing at all: what the first said is over."""
    script = '[ $n = 2 ] && exit 3; echo "Overloaded"; exit 1'
    _, run = run_of(fleet, place, script, retry=OVERLOADED)
    assert (turns(place), run["outcome"], run["code"]) == (2, "crashed", 3)


def test_a_quota_line_of_a_turn_that_is_over_holds_nothing_back(fleet, place):
    """§6: the last lines are those of the last turn, though it said nothing at all."""
    script = f'[ $n = 2 ] && exit 0; {SPEAK} echo "API Error: Overloaded"; exit 1'
    card, _ = run_of(fleet, place, script, quota=["^API Error"], on_success="complete")
    assert (turns(place), fleet.card(card)["status"], fleet.runs(card)[0]["summary"]) == (2, "done", None)


def test_a_result_of_an_earlier_turn_is_not_read_again(fleet, place):
    """The file is removed before every turn."""
    _, run = run_of(fleet, place, f"[ $n = 2 ] && exit 3; {SPEAK} exit 1")
    assert (turns(place), run["outcome"], run["code"]) == (2, "crashed", 3)


# Where it ends


@pytest.mark.parametrize(("budget", "expected"), [("0", 1), ("2", 3)])
def test_a_spent_budget_releases_the_card_uncounted(fleet, place, budget, expected):
    """A wall that outlasted every attempt: 75, so rate_limited."""
    env = {"LEDGER_TURN_RECOVERY": budget}
    card, run = run_of(fleet, place, f"{SPEAK} exit 1", env=env)
    assert (turns(place), run["outcome"], run["code"]) == (expected, "rate_limited", 75)
    assert fleet.counters(card) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("script", "outcome", "code"),
    [
        ("exit 75", "rate_limited", 75),
        ("exit 78", "config", 78),
        ("exit 3", "crashed", 3),
        ("exit 0", "clean", 0),
        ("exit 130", "interrupted", 130),
        ("kill -9 $$", "crashed", 137),
        ("kill -15 $$", "interrupted", 130),
        ("exec /no/such/program", "spawn_failed", 127),
        ("echo nothing is wrong; exit 1", "crashed", 1),
        ('echo "You\'ve hit your limit"; echo overloaded; exit 1', "rate_limited", 75),
    ],
)
def test_what_may_not_pass_is_booked_as_without_resume(fleet, place, script, outcome, code):
    """By exit code alone nothing is tried again, and a quota is the board's to wait for."""
    _, run = run_of(fleet, place, script, retry=OVERLOADED, quota=["^You.ve hit your .*limit"])
    assert (turns(place), run["outcome"], run["code"]) == (1, outcome, code)


@pytest.mark.parametrize(
    ("said", "outcome", "code"),
    [
        ('{"failed": true, "failure_reason": "billing", "failure_retryable": true}', "rate_limited", 75),
        ('{"failed": true, "failure_reason": "auth_permanent"}', "config", 78),
        ('{"failed": true, "failure_retryable": true, "interrupted": true}', "interrupted", 130),
        ('{"completed": false}', "crashed", 1),
        ('{"failed": true, "failure_retryable": "yes"}', "crashed", 1),
    ],
)
def test_the_agents_own_word_goes_beyond_its_code(fleet, place, said, outcome, code):
    """It ends with 0 and still failed; only a typed verdict is one."""
    script = f"printf '%s' '{said}' > \"$LEDGER_TURN_RESULT\"; exit 0"
    _, run = run_of(fleet, place, script, on_success="complete")
    assert (turns(place), run["outcome"], run["code"]) == (1, outcome, code)


@pytest.mark.parametrize(
    "write",
    [
        "echo '{\"failed\": true, ' >",
        "echo '[true]' >",
        "echo '\"failed\"' >",
        "printf '\\377\\376' >",
        f"{{ printf '{BILLED}'; head -c 70000 /dev/zero | tr '\\0' x; echo '\"}}'; }} >",
        "mkfifo",
        "mkdir",
        "ln -s /dev/zero",
        ":",
    ],
)
def test_junk_for_a_result_says_nothing(fleet, place, write):
    """No JSON object, too large, or no file at all: the exit code decides alone, and nobody waits."""
    _, run = run_of(fleet, place, f'{write} "$LEDGER_TURN_RESULT"; exit 4')
    assert (turns(place), run["outcome"], run["code"]) == (1, "crashed", 4)


def test_a_command_that_failed_cannot_say_that_it_succeeded(fleet, place):
    """An empty object reads as success; a crash after it is one still."""
    script = 'echo "{}" > "$LEDGER_TURN_RESULT"; exit 5'
    fleet.board.set_policy(failure_limit=1)
    card, run = run_of(fleet, place, script, on_success="complete")
    assert (run["outcome"], run["code"], fleet.card(card)["status"]) == ("crashed", 5, "blocked")


def test_the_reset_that_an_agent_asks_for_is_kept_within_the_cap(fleet, place):
    """§4: not before the reset asked, but at most reset_cap from now, whoever wrote the line."""
    fleet.board.set_policy(reset_cap=600)
    wall = '{"failed": true, "failure_reason": "rate_limit", "failure_resets_at": 9000000000}'
    card, run = run_of(fleet, place, f"printf '%s' '{wall}' > \"$LEDGER_TURN_RESULT\"; exit 1")
    exited = fleet.events(card, "exited")[0]
    assert (run["outcome"], exited.facts["reset_asked"]) == ("rate_limited", 9000000000 * SECOND)
    assert exited.facts["not_before"] == exited.at + 600 * SECOND


def test_a_spoofed_trailer_counts_for_nothing(fleet, place):
    """The exit record wins, and the real trailer is the last one in the log."""
    forged = "[kanban-worker-exit] rc=75 run=1\\n[kanban-worker-exit] reset=9000000000\\n"
    card, run = run_of(fleet, place, f"printf '\\n{forged}'; exit 3", retry=OVERLOADED)
    assert (run["outcome"], run["code"], run["evidence"]) == ("crashed", 3, "exit_record")
    assert fleet.events(card, "exited")[0].facts["reset_asked"] is None
    assert fleet.counters(card) == (1, 0, 1, 0)
    assert log(fleet, card).splitlines()[-1] == "[kanban-worker-exit] rc=3 run=1"


# Stops and lost claims


def test_a_claim_that_is_lost_during_the_wait_gets_no_further_turn(fleet, place, waiting):
    """The proof after the sleep denies it; the process that has the card now is not touched."""
    waiting(0.6)
    card = started(fleet, place, f"{SPEAK} exit 1")
    until(lambda: "attempt 1/3" in log(fleet, card))
    fleet.clock.advance(2000)
    elsewhere = fleet.on_host(fleet.another(), id="elsewhere")
    elsewhere.sweep(most=0)
    granted = elsewhere.claim(card)
    until(lambda: not fleet.members(card))
    assert (turns(place), granted.run) == (1, 2)
    assert "no longer holds a live run/claim" in log(fleet, card)
    assert fleet.runs(card)[1]["outcome"] is None


@pytest.mark.parametrize("moment", ["in a turn", "in the last turn", "between turns"])
def test_a_stop_ends_the_turns(fleet, place, waiting, moment):
    """§6: interrupted by the operator, though the turn at hand calls its failure one that may pass."""
    waiting(60)
    wait = "" if moment == "between turns" else "echo working; sleep 60 & wait; "
    env = {"LEDGER_TURN_RECOVERY": "0"} if moment == "in the last turn" else {}
    card = started(fleet, place, f"trap 'exit 1' TERM; {SPEAK}{wait}exit 1", env=env)
    until(lambda: ("working" if wait else "attempt 1/3") in log(fleet, card))
    fleet.board.stop(card)
    run = fleet.ended(card)
    assert (turns(place), run["outcome"], run["code"]) == (1, "interrupted", 130)


def test_odd_characters_in_an_error_keep_no_turn_from_going_on(fleet, place):
    """A NUL would be no argument of the next turn, and half a character no text."""
    odd = '{"failed": true, "failure_retryable": true, "error": "a\\u0000b\\ud800c", "failure_resets_at": 1e999}'
    (place / "odd").write_text(odd)
    script = '[ $n = 2 ] && exit 0; cat odd > "$LEDGER_TURN_RESULT"; exit 1'
    _, run = run_of(fleet, place, script, on_success="complete")
    assert (turns(place), run["outcome"]) == (2, "ok")
    assert "(a\ufffdb\ufffdc)" in (place / "prompt.1.2").read_text()


def test_a_command_line_that_cannot_be_is_not_started(tmp_path, capsys):
    """As a program that may not be started: 126."""
    assert resume._run(("true", "a\0b"), tmp_path / "said") == 126
    assert capsys.readouterr().err == "cannot start 'true': embedded null byte\n"


def test_a_turn_that_a_stop_keeps_from_beginning_is_not_said_to_begin(tmp_path, capsys):
    """The log tells of turns that were."""
    command = ("touch", str(tmp_path / "begun"))
    turns = resume.Turns(command=command, resume=command, retry=(), quota=(), values={})
    with hearing(signal.SIGTERM) as ears:
        signal.raise_signal(signal.SIGTERM)
        result = resume.Runner(turns, tmp_path, CARRIER, ears).go_on("go on")
    assert (result.status, capsys.readouterr().err) == (Status.INTERRUPTED, "")
    assert not (tmp_path / "begun").exists()


# The runner itself


def test_the_runner_loads_nothing_heavy_before_a_turn_failed():
    """Most runs have one turn; what proves a claim is loaded by those that need it."""
    probe = f"import sys, kanban.worker.resume; print(sorted({HEAVY!r} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True, cwd="/")
    assert ran.stdout == "[]\n"


def test_no_store_library_is_loaded_to_go_on():
    """Nor does the loop, its proof and its nudge need one."""
    probe = (
        "import sys, kanban.worker.recovery, kanban.worker.resume, kanban.evidence, kanban.prompt\n"
        f"print(sorted({HEAVY - {'kanban.worker.proof', 'kanban.worker.recovery'}!r} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True, cwd="/")
    assert ran.stdout == "[]\n"


def test_what_lies_in_the_workspace_is_not_imported(fleet, place):
    """The working folder is the agent's, and modules of these names there are not ours."""
    for name in ("json.py", "kanban.py", "ledger.py", "subprocess.py"):
        (place / name).write_text("raise SystemExit('imported from the workspace')")
    card, run = run_of(fleet, place, f"[ $n = 2 ] && exit 0; {SPEAK} exit 1", on_success="complete")
    assert (turns(place), run["outcome"]) == (2, "ok")
    assert "imported from" not in log(fleet, card)


def test_outside_of_a_worker_it_refuses(tmp_path):
    """Somebody started it by hand."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}
    command = [sys.executable, "-I", THE_RUNNER, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert ran.returncode == 1
    assert "no worker's environment" in ran.stderr
