"""Claims, the verbs of a worker, and what operators do about holds and late results."""

import io
import os
import sys
from types import SimpleNamespace

import pytest


def test_claim_gives_run_and_lock(ledger):
    """The only copy of the lock; the lease in UTC."""
    card = ledger.create("a", "--assignee", "ann")
    said = ledger.json("claim", card)
    assert said.keys() == {"schema", "task", "run", "lock", "lease_until"}
    assert (said["task"], said["run"]) == (card, 1)
    assert said["lease_until"].endswith("Z")


def test_claim_in_words(ledger):
    """A table with the lock in it."""
    card = ledger.create("a")
    out = ledger.ok("claim", card, "--pid", str(os.getpid())).out
    assert out.splitlines()[0].split()[:2] == ["CARD", "RUN"]
    assert "(Europe/Berlin)" in out
    assert card in out


def test_claim_next(ledger):
    """The larger priority first; of one assignee where one is named; nothing to do is 6."""
    ledger.create("a", "--assignee", "ann")
    urgent = ledger.create("b", "--assignee", "bob", "--priority", "5")
    assert ledger("claim", "--next", "--assignee", "zoe", "--json").error["code"] == "nothing_to_do"
    assert ledger.json("claim", "--next")["task"] == urgent
    assert ledger.json("claim", "--next", "--assignee", "ann")["task"] != urgent
    assert ledger("claim", "--next").code == 6


def test_claim_refusals(ledger):
    """Taken 3, not claimable 4, paused 9, no such process 2."""
    card, parked = ledger.create("a"), ledger.create("b", "--triage")
    assert ledger("claim", card, "--pid", "2147483646", "--json").code == 2
    ledger.claim(card)
    taken, held = ledger("claim", card, "--json"), ledger("claim", parked, "--json")
    assert (taken.code, taken.error["code"]) == (3, "taken")
    assert (held.code, held.error["code"]) == (4, "not_claimable")
    ledger.ok("pause")
    other = ledger.create("c")
    paused = ledger("claim", other, "--json")
    assert (paused.code, paused.error["code"]) == (9, "paused")


def test_the_verbs_of_a_run_with_its_lock(ledger):
    """heartbeat, progress, review, and then changes by an operator and complete by the next run."""
    card = ledger.create("a", "--assignee", "ann")
    lock = ledger.claim(card)
    assert ledger.json("heartbeat", card, *lock)["task"]["status"] == "running"
    assert ledger.json("progress", card, "half way", "--tokens", "12", "--cost", "0.25", *lock)["changed"] is True
    assert ledger.json("review", card, "look", "--reviewer", "dana", *lock)["task"]["status"] == "review"
    assert ledger.json("changes", card, "tests first")["task"]["status"] == "ready"
    lock = ledger.claim(card)
    done = ledger.json("complete", card, "did it", *lock)
    assert (done["task"]["status"], done["changed"]) == ("done", True)
    assert ledger.json("complete", card, "did it", *lock)["changed"] is False
    run = ledger.json("runs", card)["runs"][0]
    assert run["usage"] == {"tokens": 12, "cost": "0.25"}


def test_complete_carries_a_result_and_data(ledger, tmp_path, monkeypatch):
    """From a file or from stdin; JSON for programs."""
    card, other = ledger.create("a"), ledger.create("b")
    (tmp_path / "r.txt").write_text("größer\n")
    ledger.ok("complete", card, "s", "--result", str(tmp_path / "r.txt"), "--metadata", '{"tests": 12}')
    words = ledger.json("events", card)["events"][-1]["words"]
    assert words == {"summary": "s", "result": "größer\n", "metadata": {"tests": 12}}
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"piped")))
    ledger.ok("complete", other, "--outcome", "fail", "--result", "-")
    event = ledger.json("events", other)["events"][-1]
    assert (event["words"]["result"], event["outcome"]) == ("piped", "fail")


def test_a_result_that_is_no_text_is_refused(ledger, tmp_path):
    """Usage; the card stays as it was."""
    card = ledger.create("a")
    (tmp_path / "r").write_bytes(b"\xff\xfe")
    said = ledger("complete", card, "--result", str(tmp_path / "r"), "--json")
    assert (said.code, said.error["code"]) == (2, "invalid_input")
    assert ledger.json("show", card)["task"]["status"] == "ready"


def test_operators_complete_and_block(ledger):
    """Without a run; a repeat changes nothing; otherwise than it is, is AlreadyDone; parents come first."""
    a, b, c = ledger.create("a"), ledger.create("b"), ledger.create("c")
    ledger.ok("link", b, a)
    assert ledger("complete", b, "--json").error["code"] == "unmet"
    assert ledger("complete", b).code == 4
    ledger.ok("complete", a, "done")
    assert ledger.json("complete", a, "done")["changed"] is False
    assert ledger("complete", a, "otherwise", "--json").error["code"] == "already_done"
    assert ledger.json("block", c, "why not", "--kind", "needs_input")["task"]["hold"]["kind"] == "needs_input"
    assert ledger.json("block", c, "why not", "--kind", "needs_input")["changed"] is False


def test_lost_claims_and_late_results(ledger):
    """A completion after the end of its run is kept, refused with 3, and can be accepted."""
    card = ledger.create("a")
    lock = ledger.claim(card)
    ledger.ok("block", card, "cannot", *lock)
    ledger.ok("unblock", card)
    late = ledger("complete", card, "after all", *lock, "--json")
    assert (late.code, late.error["code"]) == (3, "lost_claim")
    assert ledger("heartbeat", card, *lock).code == 3
    assert ledger("accept", card, "7", "--json").error["code"] == "unknown_run"
    assert ledger.json("accept", card, "1")["task"]["status"] == "done"


def test_accept_needs_a_late_result(ledger):
    """NoLateResult is a rule's refusal."""
    card = ledger.create("a")
    ledger.ok("block", card, "cannot", *ledger.claim(card))
    said = ledger("accept", card, "1", "--json")
    assert (said.code, said.error["code"]) == (4, "no_late_result")


def test_a_wrong_lock_is_forbidden(ledger):
    """A run without its lock is a usage error: the lock is what proves the worker."""
    card = ledger.create("a")
    ledger.claim(card)
    wrong = ledger("complete", card, "--run", "1", "--lock", "guess", "--json")
    assert (wrong.code, wrong.error["code"]) == (4, "forbidden")
    assert ledger("complete", card, "--run", "1").code == 2
    assert ledger("review", card, "--json").error["code"] == "forbidden"


def test_unblock_one_lifts_its_hold(ledger):
    """The answer is the card; again changes nothing."""
    card = ledger.create("a", "--blocked", "x")
    said = ledger.json("unblock", card, "--reason", "fine now")
    assert (said["task"]["status"], said["changed"]) == ("ready", True)
    assert ledger.json("unblock", card)["changed"] is False


def test_unblock_several_is_all_or_none(ledger):
    """One of them unknown: none is unblocked."""
    a, b = ledger.create("a", "--blocked", "x"), ledger.create("b", "--blocked", "x")
    assert ledger("unblock", a, "t_nowhere").code == 5
    assert ledger.json("show", a)["task"]["status"] == "blocked"
    said = ledger.json("unblock", a, b)
    assert [task["status"] for task in said["tasks"]] == ["ready", "ready"]
    assert said["changed"] is True


def test_unblock_all_of_a_cause(ledger):
    """A dry run only says which; the others stay."""
    a, b = ledger.create("a", "--blocked", "x"), ledger.create("b", "--blocked", "y")
    before = ledger.position()
    dry = ledger.json("unblock", "--all", "--cause", "operator", "--dry-run")
    assert ({task["id"] for task in dry["tasks"]}, dry["changed"], dry["dry_run"]) == ({a, b}, False, True)
    assert ledger.ok("unblock", "--all", "--cause", "operator", "--dry-run").out.count("would be unblocked") == 2
    assert ledger.position() == before
    assert "no card is held by config" in ledger.ok("unblock", "--all", "--cause", "config").err
    assert ledger.ok("unblock", "--all", "--cause", "operator").out.count("unblocked") == 2
    assert ledger.json("unblock", "--all", "--cause", "operator")["tasks"] == []


def test_stop(ledger):
    """A card without a run is blocked; one with a run is asked to stop, which the note says."""
    idle, busy = ledger.create("a"), ledger.create("b")
    ledger.claim(busy)
    assert ledger.json("stop", idle)["task"]["status"] == "blocked"
    assert "run 1 was asked to stop" in ledger.ok("stop", busy, "--reason", "enough").err
    assert ledger.json("events", busy)["events"][-1]["words"]["wish_words"] == {"reason": "enough"}


def test_changes_needs_a_card_in_review(ledger):
    """NotInReview names what it is."""
    card = ledger.create("a")
    said = ledger("changes", card, "better", "--json")
    assert (said.code, said.error["code"]) == (4, "not_in_review")


@pytest.mark.parametrize("text", ["-1", "NaN", "1e99", "Infinity", "much", ""])
def test_a_cost_is_an_amount(ledger, text):
    """Finite, not negative, not larger than anybody pays."""
    card = ledger.create("a")
    assert ledger("progress", card, "--cost", text, *ledger.claim(card)).code == 2
