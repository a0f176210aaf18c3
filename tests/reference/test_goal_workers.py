"""Cards with a goal under real workers: what they are told, and a command that goes on until its judge agrees."""

import json
import os
import signal
from pathlib import Path

import pytest

from kanban.worker import resume
from tests import hasty
from tests.fleets import sh, until

COUNT = 'r=$LEDGER_RUN; n=$(($(cat n.$r 2>/dev/null || echo 0) + 1)); echo $n > n.$r; printf "%s" "$1" > prompt.$r.$n; '
"""The number of this turn of the run in `$n`, and what it was told in a file."""
JUDGE = "m=$(($(cat m 2>/dev/null || echo 0) + 1)); echo $m > m; cat > asked.$m; "
"""The number of this verdict in `$m`, and what was asked in a file."""
EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "judge.sh")


def say(ruling, reason="so it is"):
    """A shell command that gives a verdict."""
    return f"""echo '{{"verdict": "{ruling}", "reason": "{reason}"}}'; """


@pytest.fixture(autouse=True)
def _no_delay(fleet, monkeypatch):
    monkeypatch.setattr(resume, "__file__", hasty.runner(fleet.home / "runner.py", 0.02))


@pytest.fixture
def place(fleet):
    """Where the agent works; nobody takes it away afterwards."""
    folder = fleet.home / "work"
    folder.mkdir()
    return folder


def started(fleet, place, script, judge, *, max_turns=20, **keys):
    """A card with a goal whose agent and judge have been started: every turn is *script*."""
    command = [*sh(COUNT + script), "agent", "{prompt}"]
    fleet.staff({"w": {"command": command, "resume": command, "judge": judge, **keys}})
    card = fleet.create("mend it", body="all of it", workspace=f"dir:{place}", goal_max_turns=max_turns)
    fleet.sweep()
    return card


def turns(place):
    """How many turns the first run had; another one may have begun since it ended."""
    return int((place / "n.1").read_text())


def asked(place, at):
    """What the judge was asked at its *at*-th verdict."""
    return json.loads((place / f"asked.{at}").read_text())


def log(fleet, card):
    """The run's log."""
    return (fleet.folder(card) / "log").read_text()


def test_the_environment_and_the_prompt_say_that_a_card_has_a_goal(fleet):
    """And say nothing of it where a card has none, or is in review."""
    fleet.staff({"w": {"command": sh('echo "[$LEDGER_GOAL_MAX_TURNS]"; "$LEDGER_BIN" review --reviewer v')},
                 "v": {"command": sh('echo "[$LEDGER_GOAL_MAX_TURNS]"; "$LEDGER_BIN" complete good')}})  # fmt: skip
    goal, plain = fleet.create(goal_max_turns=7), fleet.create()
    for card, said in ((goal, ["[7]", "[]"]), (plain, ["[]", "[]"])):
        fleet.finish(card)
        until(lambda card=card: not fleet.members(card))
        folders = [fleet.folder(card, run) for run in (1, 2)]
        assert [(folder / "log").read_text().splitlines()[0] for folder in folders] == said
        prompts = [(folder / "prompt.md").read_text() for folder in folders]
        assert ["## Until the goal is met" in prompt for prompt in prompts] == ["7" in each for each in said]
        assert all("for 7 turns at most" in text for text, each in zip(prompts, said, strict=True) if each == "[7]")


def test_a_command_goes_on_until_its_judge_agrees_and_then_closes_its_card(fleet, place):
    """One run: two turns that the judge sends on, one that closes. The judge sees each turn's own words alone."""
    script = "[ $n = 3 ] && exec \"$LEDGER_BIN\" complete 'all of it'; echo reply $n; echo on the side >&2"
    judge = sh(f"{JUDGE} [ $m = 1 ] && {{ {say('continue', 'one test fails')} exit; }}; {say('done')}")
    card = started(fleet, place, script, judge)
    fleet.finish(card)
    until(lambda: not fleet.members(card))
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "completed"]
    assert (turns(place), (place / "m").read_text()) == (3, "2\n")
    wanted = {"task": card, "goal": "mend it\n\nall of it", "turn": 1, "max_turns": 20}
    assert asked(place, 1) == wanted | {"reply": "reply 1\non the side"}
    assert asked(place, 2) == wanted | {"reply": "reply 2\non the side", "turn": 2}
    assert "is not met yet: one test fails; this is turn 2/20" in (place / "prompt.1.2").read_text()
    assert "is met: so it is" in (place / "prompt.1.3").read_text()
    assert "rc=0 run=1" in log(fleet, card)


@pytest.mark.parametrize(
    ("on_success", "status"), [("complete", "done"), ("review", "review"), ("violation", "blocked")]
)
def test_what_exit_0_means_decides_who_closes_a_goal_that_is_met(fleet, place, on_success, status):
    """The board, by the assignee's on_success, without another turn; or else the agent, which is asked once."""
    keys = {"reviewer": "dana"} if on_success == "review" else {}
    judge = sh(JUDGE + "echo thinking >&2; " + say("done"))
    card = started(fleet, place, "echo reply $n", judge, on_success=on_success, **keys)
    shown = fleet.finish(card, status)
    assert turns(place) == (2 if on_success == "violation" else 1)
    if on_success == "violation":
        assert "no closing command was given" in shown["hold"]["reason"]
        assert fleet.events(card, "blocked")[0].actor_kind == "worker"
    else:
        assert fleet.runs(card)[0]["summary"] == "reply 1"


def test_a_goal_turn_recovers_in_place(fleet, place):
    """What passes is tried again within the turn; the judge sees the reply that came of it."""
    script = "[ $n = 2 ] && { echo overloaded; exit 1; }; echo reply $n"
    judge = sh(f"{JUDGE} [ $m = 1 ] && {{ {say('continue')} exit; }}; {say('blocked', 'no key')}")
    card = started(fleet, place, script, judge, retry=["overloaded"])
    shown = fleet.finish(card, "blocked")
    assert (turns(place), "no key" in shown["hold"]["reason"]) == (3, True)
    assert "attempt 1/3" in (place / "prompt.1.3").read_text()
    assert asked(place, 2)["reply"] == "reply 3"
    assert asked(place, 2)["turn"] == 2


def test_a_quota_wall_is_not_judged(fleet, place):
    """A command that says so and ends with 0: come back later, whatever on_success would make of it."""
    card = started(fleet, place, "echo usage limit", sh(JUDGE), quota=["usage limit"], on_success="complete")
    run = fleet.ended(card)
    assert (run["outcome"], turns(place), (place / "m").exists()) == ("rate_limited", 1, False)


@pytest.mark.parametrize("judge", [["/no/such/judge"], sh("exit 1"), sh("echo yes")])
def test_a_judge_that_fails_is_no_success(fleet, place, judge):
    """The run ends with 1: a goal that nobody saw met is not completed."""
    card = started(fleet, place, "echo reply", judge, on_success="complete")
    run = fleet.ended(card)
    assert (run["outcome"], run["code"], turns(place)) == ("crashed", 1, 1)
    assert "the judge failed" in log(fleet, card)


def test_a_goal_is_blocked_once_its_turns_are_used_up(fleet, place):
    """With the judge's last word."""
    card = started(fleet, place, "echo reply", sh(JUDGE + say("continue", "one test fails")), max_turns=2)
    shown = fleet.finish(card, "blocked")
    assert turns(place) == 2
    assert (
        shown["hold"]["reason"] == "the goal has used 2 of 2 turns; the judge's last word was continue: one test fails"
    )


def test_a_stop_while_the_judge_thinks_is_an_interrupt(fleet, place):
    """The judge is of the run's group, and hears it too; no turn follows, and nothing is completed."""
    card = started(fleet, place, "echo reply", sh("touch judging; exec sleep 60"), on_success="complete")
    until((place / "judging").exists)
    os.killpg(fleet.supervisor(card), signal.SIGTERM)
    run = fleet.ended(card)
    assert (run["outcome"], run["code"], turns(place)) == ("interrupted", 130, 1)


def test_a_card_without_a_goal_is_not_judged(fleet, place):
    """Its assignee has a judge all the same."""
    command = [*sh(COUNT + "echo reply"), "agent", "{prompt}"]
    keys = {"command": command, "resume": command, "judge": sh(JUDGE), "on_success": "complete"}
    fleet.staff({"w": keys})
    card = fleet.create(workspace=f"dir:{place}")
    fleet.finish(card)
    until(lambda: not fleet.members(card))
    assert (turns(place), (place / "m").exists()) == (1, False)
    assert "[kanban] " not in log(fleet, card)


def test_the_places_of_a_judge_are_filled(fleet, place):
    """As those of the command."""
    judge = [*sh(JUDGE + 'echo "$@" > places; ' + say("done")), "judge", "{task}", "{workspace}"]
    card = started(fleet, place, "echo reply", judge, on_success="complete")
    fleet.finish(card)
    assert (place / "places").read_text().split() == [card, str(place)]


def test_the_example_judges_by_a_check(fleet, place):
    """It sends the agent on while the check fails, and says why."""
    check = ["sh", "-c", "[ -e mended ] || { echo 'no \"roof\"' >&2; exit 1; }"]
    card = started(fleet, place, "[ $n = 2 ] && touch mended; echo reply $n", [EXAMPLE, *check], on_success="complete")
    fleet.finish(card)
    assert turns(place) == 2
    assert "the check fails: no roof;" in (place / "prompt.1.2").read_text()
