"""The reference system's cases on dead workers, in our words.

Where our rules differ on purpose (RULES §11) our outcome stands: the log is per run, the code of a clean exit is 0 and
not null, limits are the policy's, and there is no promotion: where the reference recomputes, we sweep.
"""

import os
import signal
from pathlib import Path

import pytest

from tests import fleets
from tests.fleets import sh, until

ENDS = 'echo "All of it is done."; echo "[kanban-worker-exit] rc={}"; touch ready; exec sleep 300'
CLEAN, CRASH = sh("echo hm"), sh("echo no; exit 1")


def left_behind(fleet, code):
    """A run of a dispatcher that is gone; its worker wrote its trailer, and died with its supervisor."""
    fleet.staff({"w": {"command": sh(ENDS.format(code))}})
    card = fleet.create()
    assert fleet.outside("board.sweep()").wait() == 0
    fleet.in_scratch(card, "ready")
    os.killpg(fleet.supervisor(card), signal.SIGKILL)
    until(lambda: not fleet.members(card))
    fleet.clock.advance(120)
    return card


def assert_says_what_it_was(run):
    """The last words are the worker's own: neither the trailer nor a guess at a dead pid."""
    assert run["last_words"] == "All of it is done."
    assert "not alive" not in str(run)


def die(fleet, card, times):
    """Let *times* runs of the card end, ticking after each without starting another."""
    for _ in range(times):
        before = len(fleet.runs(card))
        assert [each["task"] for each in fleet.sweep(most=1).claimed] == [card]
        until(lambda: not fleet.members(card))
        fleet.sweep(most=0)
        assert len(fleet.runs(card)) == before + 1
        assert fleet.runs(card)[-1]["outcome"]


def test_a1_a_clean_exit_is_a_violation_and_no_crash(fleet):
    """A1, code 0: the newest event is the violation; the card is ready, its failures 0, its streak 1 (RULES §6, §4)."""
    card = left_behind(fleet, 0)
    fleet.sweep(most=0)
    newest, run, shown = fleet.events(card)[-1], fleet.runs(card)[0], fleet.card(card)
    assert (newest.kind, newest.facts["streak"]) == ("violation", 1)
    assert (run["outcome"], run["code"], run["evidence"]) == ("clean", 0, "trailer")
    assert (shown["status"], shown["failures"], shown["streak"]) == ("ready", 0, 1)
    assert_says_what_it_was(run)


def test_a1_a_limited_exit_is_rate_limited_and_no_crash(fleet):
    """A1, code 75: newest event and run are rate_limited; the card is ready, its failures 0 (RULES §6)."""
    card = left_behind(fleet, 75)
    fleet.sweep(most=0)
    newest, run, shown = fleet.events(card)[-1], fleet.runs(card)[0], fleet.card(card)
    assert (newest.kind, newest.outcome) == ("exited", "rate_limited")
    assert (run["outcome"], run["code"], run["evidence"]) == ("rate_limited", 75, "trailer")
    assert (shown["status"], shown["failures"]) == ("ready", 0)
    assert_says_what_it_was(run)


@pytest.mark.parametrize(("trailer", "outcome"), [("rc=75 run=1", "rate_limited"), ("rc=75 run=2", "crashed")])
def test_a1_a_trailer_that_names_its_run_counts_for_that_run_alone(fleet, trailer, outcome):
    """A1 and RULES §11: the trailer may name its run; one of another run is no evidence."""
    card = left_behind(fleet, trailer.removeprefix("rc="))
    fleet.sweep(most=0)
    assert fleet.runs(card)[0]["outcome"] == outcome


def test_a2_three_clean_exits_block_and_an_unblocked_card_stays_ready(fleet):
    """A2: blocked after the third, whatever the failure limit; once unblocked no sweep blocks it again (RULES §5)."""
    fleet.staff({"w": {"command": CLEAN}})
    fleet.board.set_policy(failure_limit=10)
    card = fleet.create()
    die(fleet, card, 2)
    assert fleet.card(card)["status"] == "ready"
    die(fleet, card, 1)
    shown = fleet.card(card)
    assert (shown["status"], shown["hold"]["cause"]) == ("blocked", "violation_budget")
    assert shown["failures"] < 10
    fleet.sweep(most=0)
    assert fleet.card(card)["status"] == "blocked"
    fleet.board.unblock(card)
    position = fleet.sweep(most=0).position
    assert fleet.card(card)["status"] == "ready"
    assert fleet.sweep(most=0).position == position


def test_a3_a_raised_limit_lifts_what_crashes_blocked(fleet):
    """A3: two crashes at limit 2 block; a sweep at 2 lifts none, at 5 both (RULES §5, limit_raised)."""
    fleet.staff({"w": {"command": CRASH}})
    fleet.board.set_policy(failure_limit=2)
    cards = []
    for title in ("one", "another"):
        cards.append(fleet.create(title))
        die(fleet, cards[-1], 2)
    assert [fleet.card(card)["hold"]["cause"] for card in cards] == ["failure_budget"] * 2
    assert fleet.sweep(most=0).lifted == []
    fleet.board.set_policy(failure_limit=5)
    lifted = fleet.sweep(most=0).lifted
    assert sorted(each["task"] for each in lifted) == sorted(cards)
    assert {each["cause"] for each in lifted} == {"limit_raised"}
    assert [fleet.card(card)["status"] for card in cards] == ["ready"] * 2


def test_a3_a_card_that_goes_to_somebody_else_is_lifted(fleet):
    """A3: two more crashes block again; assigned to another, one sweep at the same limit lifts it (RULES §5)."""
    fleet.staff({"w": {"command": CRASH}, "other": {"command": CRASH}})
    card = fleet.create()
    die(fleet, card, 2)
    fleet.board.edit(card, max_retries=4)
    assert len(fleet.sweep(most=0).lifted) == 1
    die(fleet, card, 2)
    assert fleet.card(card)["status"] == "blocked"
    fleet.board.assign(card, "other")
    assert fleet.sweep(most=0).lifted == [{"task": card, "cause": "reassigned"}]
    shown = fleet.card(card)
    assert (shown["status"], shown["failures"]) == ("ready", 0)


def test_a5_who_claimed_and_who_observed_is_written_with_the_host(fleet):
    """A5: an observer has the form host:something, and a claim by hand takes a name (RULES §2)."""
    fleet.staff({"w": {"command": CRASH}})
    card, by_hand = fleet.create(), fleet.create(assignee=None)
    fleet.sweep()
    fleet.ended(card)
    host = fleet.board.host.id
    assert fleet.events(card, "exited")[0].facts["observer"] == f"{host}:{os.getpid()}"
    fleet.board.claim(by_hand, assignee="eve")
    claimed = fleet.events(by_hand, "claimed")[0]
    assert (claimed.facts["worker"], claimed.facts["host"], claimed.actor_host) == ("eve", host, host)


def test_a5_the_log_is_per_run_and_opened_for_append(fleet):
    """A5 and RULES §11: a log per run, not per task, so no run inherits another's trailer; opened for append."""
    fleet.staff(
        {"w": {"command": sh('touch ready; while [ ! -e go ]; do sleep 0.02; done; echo "$LEDGER_RUN"; exit 1')}}
    )
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    files = Path(f"/proc/{fleet.supervisor(card)}/fd")
    logs = [fd.name for fd in files.iterdir() if str(fd.readlink()) == str(fleet.folder(card) / "log")]
    infos = [(files.parent / "fdinfo" / name).read_text() for name in logs]
    assert any(int(info.split("flags:\t")[1].split()[0], 8) & os.O_APPEND for info in infos)
    (fleet.scratch(card) / "go").touch()
    fleet.sweep_until(lambda: len(fleet.runs(card)) == 2 and fleet.runs(card)[1]["outcome"])
    said = [(fleet.folder(card, run) / "log").read_text() for run in (1, 2)]
    assert said == [f"{run}\n[kanban-worker-exit] rc=1 run={run}\n" for run in (1, 2)]
    assert not fleets.is_alive(fleet.supervisor(card))
