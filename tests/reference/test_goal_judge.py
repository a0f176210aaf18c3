"""A judge that is a command: what it gets, what it may print, and all that is no verdict."""

import contextlib
import json
import os
import signal
import sys

import pytest

from kanban.processes import start_tick
from kanban.worker import verdict as verdicts
from kanban.worker.verdict import Asked, JudgeFailed, Ruling, Verdict, judge_of, verdict_of
from tests.fleets import PATIENCE, sh, until

ASKED = Asked("t_1", "Mend the roof\n\nIt leaks “here”.", "I did\nit", 2, 20)


def judged(script, environ=None):
    """What a shell script as a judge says."""
    return verdict_of(judge_of(sh(script), environ or {"PATH": "/usr/bin:/bin"})(ASKED))


def test_it_gets_one_json_object_on_standard_input(tmp_path):
    """The card's id, its goal, the reply and how far the turns are."""
    judged(f"""cat > {tmp_path}/asked; echo '{{"verdict": "wait"}}'""")
    assert json.loads((tmp_path / "asked").read_text()) == {
        "task": "t_1", "goal": ASKED.goal, "reply": "I did\nit", "turn": 2, "max_turns": 20,
    }  # fmt: skip


@pytest.mark.parametrize("ruling", list(Ruling))
def test_it_prints_its_verdict(ruling):
    """One JSON object; a reason may be left out, and is a text or nothing."""
    assert judged(f"""echo '{{"verdict": "{ruling}", "reason": "so"}}'""") == Verdict(ruling, "so")
    assert judged(f"""printf '\\n {{"verdict": "{ruling}"}} '""") == Verdict(ruling)
    assert judged(f"""echo '{{"verdict": "{ruling}", "reason": 7}}'""") == Verdict(ruling)


def test_it_runs_in_the_environment_that_it_is_given():
    """And in no other."""
    said = """printf '{"verdict": "done", "reason": "%s"}' "$LEDGER_TASK" """
    assert judged(said, {"LEDGER_TASK": "t_9"}).reason == "t_9"


def test_what_it_says_on_the_side_is_dropped(capfd):
    """The log holds the agent's last words, and not its judge's."""
    assert judged("""echo thinking >&2; echo '{"verdict": "done"}'""").ruling == Ruling.DONE
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 0", "printed no JSON"),
        ("echo done", "printed no JSON"),
        ("""echo '{"verdict": "done"}'; echo '{"verdict": "done"}'""", "printed no JSON"),
        ("printf '\\377'", "printed no JSON"),
        (f"{sys.executable} -c \"print('[' * 60000)\"", "printed no JSON"),
        ("echo '[]'", "no verdict"),
        ("""echo '{"verdict": "Done!"}'""", "no verdict"),
        ("""echo '{"verdict": "done"}'; echo no model >&2; exit 3""", "ended with 3: no model"),
        ("kill -9 $$", "ended with -9"),
    ],
)
def test_junk_is_no_verdict(script, why):
    """Nor is a verdict of a judge that failed."""
    with pytest.raises(JudgeFailed, match=why):
        judged(script)


def test_a_judge_that_does_not_answer_is_given_up(monkeypatch):
    """After a time that is looked up when it is asked."""
    monkeypatch.setattr(verdicts, "TIMEOUT", 0.1)
    with pytest.raises(JudgeFailed, match=r"did not answer within 0\.1 s"):
        judged("exec sleep 60")


def test_a_judge_that_is_given_up_is_ended(tmp_path, monkeypatch):
    """It itself: the rest of its group is the run's, where a stop reaches it."""
    for seconds in (0.3, 3, 30):  # long enough for it to say who it is, on a busy machine too
        monkeypatch.setattr(verdicts, "TIMEOUT", seconds)
        with pytest.raises(JudgeFailed, match="did not answer"):
            judged(f"cd {tmp_path}; ps -o pgid= -p $$ > group; echo $$ > me; mv me judge; exec sleep 600")
        if (tmp_path / "judge").exists():
            break
    assert int((tmp_path / "group").read_text()) == os.getpgrp()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "judge").read_text()), 0)


@pytest.mark.parametrize("script", ["yes", f"head -c {verdicts.LARGEST_VERDICT + 1} /dev/zero | tr '\\0' ' '"])
def test_what_a_judge_prints_without_end_is_no_verdict(script):
    """It is ended, and no more is kept of it."""
    with pytest.raises(JudgeFailed, match="printed more than 65536 bytes"):
        judged(script)


def test_the_longest_verdict_is_one():
    """To the byte."""
    said = '{"verdict": "done"}'
    assert judged(f"printf '%{verdicts.LARGEST_VERDICT}s' '{said}'").ruling == Ruling.DONE


def test_what_a_judge_left_behind_delays_no_verdict(tmp_path, monkeypatch):
    """It has its streams still; the judge itself has answered in time."""
    monkeypatch.setattr(verdicts, "TIMEOUT", PATIENCE)
    verdict = judged(f"""sleep 600 & echo $! > {tmp_path}/left; echo '{{"verdict": "done"}}'""")
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert verdict.ruling == Ruling.DONE


@pytest.mark.parametrize(("aside", "meanwhile", "told"), [("", "sleep 600", None), (">&2", "true", Ruling.DONE)])
def test_what_a_judge_left_behind_has_nobody_to_write_to(tmp_path, aside, meanwhile, told):
    """A flood that outlives its judge ends by itself, and fills no disk."""
    script = f"""yes {aside} & echo $! > {tmp_path}/left; {meanwhile}; echo '{{"verdict": "done"}}'"""
    if told is None:
        with pytest.raises(JudgeFailed, match="printed more than"):
            judged(script)
    else:
        assert judged(script).ruling == told
    left = int((tmp_path / "left").read_text())
    try:
        until(lambda: start_tick(left) is None)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


def test_a_judge_may_complain_at_length(monkeypatch):
    """What it says aside is read and let go, so that it is not held up."""
    monkeypatch.setattr(verdicts, "TIMEOUT", PATIENCE)
    script = """head -c 1000000 /dev/zero >&2; echo '{"verdict": "done"}'"""
    assert judged(script).ruling == Ruling.DONE


def test_a_judge_that_is_not_there_gives_no_verdict(tmp_path):
    """Nor one that may not be started."""
    (tmp_path / "judge").write_text("#!/bin/sh\n")
    for program, why in ((tmp_path / "none", "No such file"), (tmp_path / "judge", "Permission denied")):
        with pytest.raises(JudgeFailed, match=why):
            judge_of([str(program)], {})(ASKED)


def test_a_judge_need_not_listen():
    """It may end before it has read what it was told."""
    asked = Asked("t_1", "a goal", "x" * 10**6, 1, 20)
    assert judge_of(sh("""echo '{"verdict": "wait"}'"""), {})(asked) == {"verdict": "wait"}


def test_a_function_is_a_judge_as_it_is():
    """It is called with the same value."""
    assert judge_of(seen := [].append) is seen
