"""A run that ended by a verb keeps its card until its processes are gone (RULES §7.7)."""

import os
import signal

import pytest

from kanban.refusals import NotClaimable
from tests import fleets
from tests.fleets import sh, until

LEAVES_THREE = """
sleep 300 &
sh -c 'trap "" TERM; touch ready; while :; do sleep 0.1; done' &
setsid sh -c 'touch apart; exec sleep 300' &
echo $! > away
while [ ! -e apart ]; do sleep 0.02; done
while [ ! -e go ]; do sleep 0.02; done
"""
APART = "setsid sh -c 'touch apart; exec sleep 300' & echo $! > away; while [ ! -e apart ]; do sleep 0.02; done"
STAYS = "sleep 300 & touch ready; while [ ! -e go ]; do sleep 0.02; done"


def leave(fleet, card):
    """Let the worker go, and wait until its supervisor has."""
    fleet.in_scratch(card, "ready")
    (fleet.scratch(card) / "go").touch()
    until(lambda: not fleets.is_alive(fleet.supervisor(card)))


@pytest.fixture
def left(fleet):
    """A card whose worker asked for a review and left two children in its group and one outside of it."""
    fleet.staff({"w": {"command": sh(LEAVES_THREE)}, "r": {"command": sh("exec sleep 300")}})
    card = fleet.create()
    fleet.sweep()
    fleet.line_in(card, "away")
    fleet.board.review(card, "look", reviewer="r", lock=fleet.lock(card))
    leave(fleet, card)
    return card


def test_the_next_run_waits_until_the_last_ones_group_is_gone(fleet, left):
    """§7.7: `ending` holds the card; TERM after stop_grace, KILL after another; then, and not before, the next run."""
    group, away = fleet.supervisor(left), int((fleet.scratch(left) / "away").read_text())
    stubborn = sorted(fleet.members(left))
    assert len(stubborn) >= 2
    fleet.clock.advance(5)
    early = fleet.sweep()
    assert (early.held, early.stopped, early.claimed) == ({"ending": [left]}, [], [])
    fleet.clock.advance(6)
    asked = fleet.sweep()
    assert [stop["signal"] for stop in asked.stopped] == [signal.SIGTERM]
    assert asked.held == {"ending": [left]}
    assert not asked.idle
    until(lambda: len(fleet.members(left)) < len(stubborn))
    fleet.clock.advance(5)
    assert fleet.sweep().stopped == []
    fleet.clock.advance(6)
    forced = fleet.sweep()
    assert [stop["signal"] for stop in forced.stopped] == [signal.SIGKILL]
    assert forced.claimed == []
    until(lambda: not fleet.members(left))
    assert [each["task"] for each in fleet.sweep().claimed] == [left]
    assert fleet.supervisor(left) != group
    assert fleets.is_alive(away)
    assert [stop for stop in (*asked.stopped, *forced.stopped) if stop.get("run") != 1] == []


def test_a_member_that_left_the_group_is_named_and_not_signalled(fleet, left):
    """§7.7: members that left the group are named in the tick's output, never signalled."""
    away = int((fleet.scratch(left) / "away").read_text())
    fleet.clock.advance(11)
    assert fleet.sweep().notes == [f"{left}: left its group, not signalled: {away}"]
    fleet.clock.advance(11)
    fleet.sweep()
    until(lambda: not fleet.members(left))
    assert fleets.is_alive(away)


@pytest.mark.parametrize("on_success", ["complete", "violation"])
def test_what_left_an_empty_group_is_named_when_the_run_is_over(fleet, on_success):
    """§7.7: members that left the group are named in the tick's output, also where nothing has to be signalled."""
    fleet.staff({"w": {"command": sh(f"{APART}; exit 0"), "on_success": on_success}})
    card = fleet.create()
    fleet.sweep()
    away = int(fleet.line_in(card, "away"))
    until(lambda: not fleet.members(card))
    tick = fleet.sweep(most=0)
    assert len(tick.booked) == 1
    assert tick.notes == [f"{card}: left its group, not signalled: {away}"]
    assert fleets.is_alive(away)


def test_a_claim_by_hand_waits_too(fleet, left):
    """§8: claim is refused as `ending` while the processes of the last run are still there."""
    with pytest.raises(NotClaimable, match="ending"):
        fleet.board.claim(left)
    os.killpg(fleet.supervisor(left), signal.SIGKILL)
    until(lambda: not fleet.members(left))
    assert fleet.board.claim(left).run == 2


def test_a_group_that_stays_counts_against_the_hosts_cap(fleet):
    """§7.7: while its group has a live member, the run's group counts against the host's cap."""
    fleet.staff({"w": {"command": sh(STAYS)}}, max_running=1)
    card = fleet.create(priority=1)
    other = fleet.create()
    fleet.sweep()
    fleet.board.complete(card, "done", lock=fleet.lock(card))
    leave(fleet, card)
    assert fleet.sweep().claimed == []
    os.killpg(fleet.supervisor(card), signal.SIGKILL)
    until(lambda: not fleet.members(card))
    assert [each["task"] for each in fleet.sweep().claimed] == [other]


def test_a_done_card_whose_processes_remain_is_something_to_wait_for(fleet):
    """§7.7: a loop until idle does not leave a group behind that is still to be ended."""
    fleet.staff({"w": {"command": sh(STAYS)}})
    card = fleet.create()
    fleet.sweep()
    fleet.board.complete(card, "done", lock=fleet.lock(card))
    leave(fleet, card)
    assert not fleet.sweep().idle
    fleet.clock.advance(11)
    assert fleets.signals([fleet.sweep()], card) == [signal.SIGTERM]
    fleet.sweep_until(lambda: not fleet.members(card))
    fleet.sweep()
    assert fleet.sweep().idle


def test_a_worker_that_used_its_verb_is_done_however_it_exits(fleet):
    """§6: exit codes count only while the run is open."""
    fleet.staff({"w": {"command": sh("while [ ! -e go ]; do sleep 0.02; done; exit 78")}})
    card = fleet.create()
    fleet.sweep()
    fleet.board.complete(card, "done", lock=fleet.lock(card))
    (fleet.scratch(card) / "go").touch()
    until(lambda: not fleet.members(card))
    fleet.sweep()
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "completed"]


def test_a_command_that_ends_before_its_children_is_booked_once_they_are_gone(fleet):
    """§6: a spawned run has ended when its group is empty; what a supervisor left gets TERM, then it is booked."""
    fleet.staff({"w": {"command": sh("sleep 300 & echo made"), "on_success": "complete"}})
    card = fleet.create()
    fleet.sweep()
    until(lambda: not fleets.is_alive(fleet.supervisor(card)))
    tick = fleet.sweep()
    assert (tick.booked, fleets.signals([tick], card)) == ([], [signal.SIGTERM])
    assert fleet.card(card)["status"] == "running"
    until(lambda: not fleet.members(card))
    assert [each["outcome"] for each in fleet.sweep().booked] == ["complete"]
    assert fleet.events(card)[-1].words["summary"] == "made"


def test_what_an_ended_run_left_is_forgotten_after_a_boot(fleet, left):
    """§7.7: only a group on this host that lives keeps the card; none survives a boot."""
    fleet.on_host(fleet.board, boot="another boot")
    tick = fleet.sweep()
    assert (tick.held, tick.stopped) == ({}, [])
    assert [each["run"] for each in tick.claimed] == [2]
