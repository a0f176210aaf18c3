"""RULES §8, row `claim`, and the caps and pauses of §7.6 that it shares with a sweep's spawn."""

from __future__ import annotations

import pytest

from kanban.admission import Live, caps_of, held_by_cap, live_of, refuse, why_not
from kanban.commands import AddLink, Archive, Block, Complete, Edit, Reopen, Schedule
from kanban.refusals import NotClaimable, Paused, Taken
from ledger.events import Cap
from projections.policy import Policy
from projections.run import Run
from projections.settings import NEW_BOARD
from tests import given
from tests.rules.world import BOOT, HOST, NOW, SECOND, WorldView


def board(**limits):
    """A board with one card of builder's."""
    world = WorldView(**limits)
    world.create()
    return world


def refused(world, refusal, **how):
    """The refusal of a claim of t_a now; nothing is appended, and it says what to run next."""
    before = list(world.log)
    with pytest.raises(refusal) as caught:
        world.claim(**how)
    assert caught.type is refusal
    assert caught.value.remedy
    assert world.log == before
    return caught.value


# Claimable


@pytest.mark.parametrize("by", ["spawn", "hand"])
def test_a_card_that_waits_for_nothing_can_be_claimed(by):
    """RULES §8: claim: allowed when claimable."""
    world = board()
    world.claim(by=by)
    assert world.status() == "running"


@pytest.mark.parametrize("by", ["spawn", "hand"])
def test_a_card_that_somebody_has_is_taken(by):
    """RULES §8: else `Taken` (names the run)."""
    world = board()
    world.claim()
    refusal = refused(world, Taken, by=by)
    assert (refusal.run, refusal.worker) == (1, "builder")
    assert "run 1" in str(refusal)


def parked(world, when=NOW + 60 * SECOND):
    world.do(Schedule("t_a", when))


def waits(world):
    world.create("t_p")
    world.do(AddLink("t_a", "t_p"))


REASONS = {
    "archived": lambda world: world.do(Archive("t_a")),
    "done": lambda world: world.do(Complete("t_a")),
    "blocked": lambda world: world.do(Block("t_a", "wait")),
    "triage": lambda world: world.do(Edit("t_a", {"lane": "triage"})),
    "waiting_on": waits,
    "scheduled_for": parked,
    "cooldown_until": lambda world: world.attempt(outcome="rate_limited"),
    "ending": lambda world: world.ending.add("t_a"),
}


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("by", ["spawn", "hand"])
def test_a_card_that_cannot_be_claimed_says_why(reason, by):
    """RULES §8: else `NotClaimable` (names the reason); not `ending`."""
    world = board()
    REASONS[reason](world)
    refusal = refused(world, NotClaimable, by=by)
    assert refusal.reason == reason
    assert reason in str(refusal)


def test_a_scheduled_card_that_also_cools_names_its_schedule():
    """RULES §3: both times must have come; the schedule is the first that stands."""
    world = board()
    world.attempt(outcome="rate_limited")
    parked(world, NOW + 10**6 * SECOND)
    assert why_not(world.card(), world.now) == "scheduled_for"


def test_a_schedule_whose_time_has_come_does_not_hide_a_cooldown():
    """RULES §3: `not before` ≤ t."""
    world = board()
    parked(world, NOW)
    assert why_not(world.card()._replace(not_before=NOW + 1), NOW) == "cooldown_until"


def test_a_card_is_claimable_at_the_instant_of_its_schedule():
    """RULES §3: `scheduled` ≤ t."""
    world = board()
    parked(world)
    world.later(60)
    world.claim()
    assert world.card().scheduled is None


@pytest.mark.parametrize(("kind", "name"), [("board", ""), ("assignee", "builder"), ("host", HOST)])
@pytest.mark.parametrize("by", ["spawn", "hand"])
def test_a_pause_refuses_a_claim(kind, name, by):
    """RULES §8: not paused (board, assignee, host)."""
    world = board()
    pause = world.happened(given.paused(kind, name))
    refusal = refused(world, Paused, by=by)
    assert (refusal.scope, refusal.position) == (kind, pause.position)


@pytest.mark.parametrize(("kind", "name"), [("assignee", "other"), ("host", "node-2")])
def test_a_pause_of_another_scope_does_not(kind, name):
    """RULES §7.6: pause (board, assignee, host)."""
    world = board()
    world.happened(given.paused(kind, name))
    world.claim(by="hand")
    assert world.status() == "running"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"max_running": 1}, "at_capacity"), ({"max_running_per_assignee": 1}, "assignee_at_capacity")],
)
@pytest.mark.parametrize("by", ["spawn", "hand"])
def test_a_cap_refuses_a_claim(limits, reason, by):
    """RULES §8: under the board's and the assignee's cap."""
    world = board(**limits)
    world.create("t_b")
    world.claim("t_b", by="hand")
    assert refused(world, NotClaimable, by=by).reason == reason


def test_another_workers_run_leaves_the_assignees_cap_alone():
    """RULES §7.6: caps (assignee)."""
    world = board(max_running_per_assignee=1)
    world.create("t_b", assignee="other")
    world.claim("t_b")
    world.claim("t_a")
    assert len(world.live()) == 2


def test_the_hosts_cap_holds_back_spawning_only():
    """RULES §8: the host's cap holds back spawning only."""
    world = board()
    world.create("t_b")
    world.host_cap = 1
    world.claim("t_b")
    assert refused(world, NotClaimable).reason == "at_capacity"
    world.claim("t_a", by="hand")
    assert world.status() == "running"


@pytest.mark.parametrize("assignee", [None, "stranger"])
def test_a_card_without_a_worker_that_can_be_started_can_be_claimed_by_hand(assignee):
    """RULES §8: `no_assignee`, `unknown_assignee`, `waiting_for_person` hold back spawning only."""
    world = WorldView()
    world.create(assignee=assignee)
    world.claim(by="hand", worker="ada")
    assert world.run("t_a", 1).worker == "ada"


def test_taken_is_said_before_anything_else():
    """RULES §8: `Taken` (names the run)."""
    world = board(max_running=1)
    world.claim()
    world.happened(given.paused())
    refused(world, Taken)


def test_what_the_card_says_is_said_before_a_pause_and_a_pause_before_a_cap():
    """RULES §7.6: pause → caps; a card that cannot be claimed anyway says its own reason."""
    world = board(max_running=1)
    world.create("t_b")
    world.claim("t_b")
    pause = world.happened(given.paused())
    assert refused(world, Paused).position == pause.position
    world.do(Block("t_a", "wait"))
    assert refused(world, NotClaimable).reason == "blocked"


# The claim itself


def test_a_claim_says_all_that_its_run_will_go_by():
    """RULES §2: `claimed`: lane, worker, lease until, max runtime, on_success, quota patterns, host and boot."""
    world = board(lease=60, max_runtime=99)
    world.claim(on_success="review", reviewer="critic", result="last-lines", quota=("q",))
    run = world.run("t_a", 1)
    assert (run.lane, run.worker, run.by, run.host, run.boot) == ("work", "builder", "spawn", HOST, BOOT)
    assert (run.lease_until, run.max_runtime) == (NOW + 60 * SECOND, 99)
    assert (run.on_success, run.reviewer, run.result, run.quota) == ("review", "critic", "last-lines", ("q",))


def test_a_claim_by_hand_expects_nothing_of_an_exit():
    """RULES §6: on_success is the claim's."""
    world = board()
    world.claim(by="hand")
    assert (world.run("t_a", 1).on_success, world.run("t_a", 1).quota) == ("violation", ())


def test_the_cards_own_runtime_wins_in_the_claim():
    """RULES §5: max_runtime 6 h (a task's own wins)."""
    world = WorldView(max_runtime=99)
    world.create(max_runtime=7)
    world.claim()
    assert world.run("t_a", 1).max_runtime == 7


def test_a_claim_in_review_is_the_reviewers():
    """RULES §1: worker of a card: in lane review its reviewer."""
    world = board()
    world.claim(on_success="review", reviewer="critic")
    world.exit(outcome="review")
    world.claim()
    assert (world.run("t_a", 2).worker, world.run("t_a", 2).lane) == ("critic", "review")


def test_runs_are_numbered_on_after_a_reopening():
    """RULES §1: a run is numbered 1, 2, 3… per task."""
    world = board()
    world.attempt()
    world.do(Complete("t_a"))
    world.do(Reopen("t_a"))
    assert world.claim().run == 2


def test_only_the_hash_of_a_lock_is_in_the_log():
    """RULES §1: the worker holds it; the log holds only its SHA-256."""
    world = board()
    claim = world.claim()
    assert not any(claim.lock in event.facts_text + (event.words_text or "") for event in world.log)


# Caps


def settings(**limits):
    return NEW_BOARD._replace(policy=Policy(**limits))


def test_every_cap_that_a_spawn_meets_is_named_with_what_is_live():
    """RULES §2: `claimed`: live and cap of each cap that let it in."""
    found = caps_of(
        settings(max_running=4, max_running_per_assignee=3), "ann", Live(2, {"ann": 1}, 5), own_cap=None, host_cap=8
    )
    assert found == [
        Cap(cap="board", live=2, limit=4), Cap(cap="assignee", live=1, limit=3), Cap(cap="host", live=5, limit=8),
    ]  # fmt: skip


def test_caps_that_are_unset_are_not_named():
    """RULES §5: max_running unset, max_running_per_assignee unset."""
    assert caps_of(settings(), "ann", Live(), own_cap=None, host_cap=None) == []


@pytest.mark.parametrize(("board_wide", "own", "limit"), [(3, None, 3), (None, 2, 2), (3, 2, 2), (2, 3, 2)])
def test_the_smaller_cap_of_an_assignee_counts(board_wide, own, limit):
    """RULES §7.6: caps (assignee)."""
    found = caps_of(settings(max_running_per_assignee=board_wide), "ann", Live(), own_cap=own, host_cap=None)
    assert found == [Cap(cap="assignee", live=0, limit=limit)]


@pytest.mark.parametrize(("live", "reason"), [(0, None), (1, None), (2, "at_capacity"), (3, "at_capacity")])
def test_a_cap_is_reached_when_as_many_are_live(live, reason):
    """RULES §7.6: caps counted from live runs."""
    assert held_by_cap([Cap(cap="board", live=live, limit=2)]) == reason


@pytest.mark.parametrize(
    ("full", "reason"),
    [("board", "at_capacity"), ("assignee", "assignee_at_capacity"), ("host", "at_capacity")],
)
def test_each_cap_has_its_reason(full, reason):
    """RULES §7.6: held reasons."""
    assert held_by_cap([Cap(cap=full, live=1, limit=1)]) == reason


def test_live_runs_are_counted_by_worker():
    """RULES §1: caps mean the worker of a card."""
    runs = [Run("t_a", 1, worker="ann"), Run("t_b", 1, worker="ann"), Run("t_c", 1, worker="bob")]
    assert live_of(runs, host=2) == Live(3, {"ann": 2, "bob": 1}, 2)


def test_one_more_run_counts_everywhere():
    """RULES §7.6: counted inside the claiming transaction: each claim of a tick counts for the next."""
    assert Live(1, {"ann": 1}, 1).plus("ann").plus("bob") == Live(3, {"ann": 2, "bob": 1}, 3)


def test_a_refusal_leaves_no_trace():
    """RULES §8: a forbidden one raises, and appends nothing."""
    world = board()
    with pytest.raises(NotClaimable):
        refuse(world, world.card(), "builder", HOST, [], ending=True)
    assert world.kinds(1) == ["created"]
