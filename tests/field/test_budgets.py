"""Cards that ran all night, or gave up for nothing: what counts, what trips, what comes back (RULES §4–5)."""

import pytest

from kanban.commands import Assign, Complete, Edit, Reopen, SetPolicy, Unblock
from ledger.clock import SECOND
from projections.budgets import most_runs
from tests import given
from tests.field.stories import ALIVE, counters, die, go, hold, night
from tests.fleets import sh
from tests.rules.world import WorldView, ended, evidence

COUNTED = {"crashed": 3, "spawn_failed": 127}


def test_a_worker_that_ends_politely_without_a_verb_does_not_loop(world):
    """B01: three clean ends trip the violation budget, a quota between them or not; no failure is counted."""
    world.policy(failure_limit=5, violation_limit=3)
    for task in ("t_a", "t_b"):
        world.create(task)
        go(world, 0, task)
        go(world, 0, task)
        assert hold(world, task) is None
    go(world, 75, "t_b")
    for task in ("t_a", "t_b"):
        go(world, 0, task)
        assert hold(world, task) == ("violation_budget", True)
        assert counters(world, task) == (0, 3, 3, 0)
    assert night(world, 0) == 0


def test_a_polite_ends_limit_is_the_cards_own_where_it_has_one(world):
    """B01: RULES §5 decide the limit: `max_retries` is that of violations too, so five on a card with five."""
    world.create(max_retries=5)
    assert night(world, 0) == 5
    assert hold(world) == ("violation_budget", True)


@pytest.mark.parametrize("between", [129, 130, 143, 75, None])
def test_no_neutral_end_starts_the_polite_ends_anew(world, between):
    """B01: a streak is broken by a verb or a counted failure, never by a quota, a deploy or a reboot."""
    world.create()
    for _ in range(2):
        go(world, 0)
        world.claim()
        if between is None:
            world.exit(outcome="lost")
        else:
            die(world, between)
    go(world, 0)
    assert hold(world) == ("violation_budget", True)


def test_a_polite_reviewer_is_no_exception(world):
    """B01: in lane review the reviewer's clean ends count and hold as an implementer's do."""
    world.create()
    world.claim()
    world.happened(given.review_requested(1), actor=given.WORKER)
    assert night(world, 0) == 3
    assert hold(world) == ("violation_budget", True)


def test_a_polite_worker_is_told_why_it_was_rejected(fleet):
    """B01: real workers that exit 0: three runs and no more, and each prompt tells how the last run ended."""
    fleet.staff({"w": {"command": sh("exit 0")}})
    card = fleet.create()
    fleet.finish(card, "blocked")
    for _ in range(3):
        fleet.clock.advance(4_000)
        fleet.sweep()
    assert [run["outcome"] for run in fleet.runs(card)] == ["clean"] * 3
    assert "clean" in (fleet.folder(card, 3) / "prompt.md").read_text()
    assert fleet.card(card)["hold"]["count"] == 3


@pytest.mark.parametrize("outcome", COUNTED)
@pytest.mark.parametrize("parents", [(), ("t_p",)])
def test_the_tick_that_gives_up_is_not_undone_by_any_tick(world, outcome, parents):
    """B03: with no parents or with done ones, at two failures it is over, however many ticks come."""
    for parent in parents:
        world.create(parent)
        world.do(Complete(parent))
    world.create(parents=parents)
    assert night(world, COUNTED[outcome], ticks=100) == 2
    assert hold(world) == ("failure_budget", False)
    assert world.kinds().count("unblocked") == 0
    assert world.last("blocked").facts["count"] == world.last("blocked").facts["limit"] == 2


@pytest.mark.parametrize(
    "limits", [{"failure_limit": 1}, {"violation_limit": 1}, {"attempt_limit": 1}, {"run_limit": 1}]
)
@pytest.mark.parametrize("code", [0, 3])
def test_what_tripped_at_one_limit_is_not_lifted_by_another(limits, code):
    """B03: tripping and lifting ask the same limit, whichever budget it was and wherever the limit came from."""
    world = WorldView(**limits)
    world.create()
    runs = night(world, code, ticks=100)
    assert runs <= 3
    assert hold(world) is not None
    assert world.kinds().count("unblocked") == 0


def test_todays_limit_does_not_rewrite_yesterdays_trip(world):
    """B03: the event carries the limit then in force; a lower one changes nothing, a higher one lifts by an event."""
    world.create()
    night(world, 3)
    world.do(SetPolicy({"failure_limit": 1}))
    world.tick()
    assert world.last("blocked").facts["limit"] == 2
    world.do(Edit("t_a", {"max_retries": 3}))
    assert night(world, 3) == 1
    lifted = world.last("unblocked")
    assert (lifted.facts["cause"], lifted.actor_kind) == ("limit_raised", "sweep")
    assert counters(world)[0] == 3, "no automatic path resets a counter"
    assert hold(world) == ("failure_budget", False)


def test_a_quota_wall_is_not_the_workers_fault(world):
    """B07: 75 counts nothing and waits; then one real failure on a card with one try gives up."""
    world.create(max_retries=1)
    assert go(world, 75) == "rate_limited"
    assert counters(world) == (0, 0, 0, 1)
    assert world.status() == "ready"
    until = world.card().not_before
    assert until >= world.now + 300 * SECOND
    world.now = until - 1
    assert world.admit().held == {"t_a": ("cooldown_until", until)}
    world.later(1)
    assert go(world, 1) == "crashed"
    assert (counters(world)[0], hold(world)) == (1, ("failure_budget", False))


@pytest.mark.parametrize("code", [0, 1])
def test_a_quota_that_an_agent_only_prints_counts_as_one(world, code):
    """B07: the same contract for agents that know no code: a declared pattern in the last lines, with 0 or 1."""
    world.create()
    world.claim(quota=("hit your limit",), on_success="complete")
    assert die(world, code, quota=True) == "rate_limited"
    assert counters(world) == (0, 0, 0, 1)


def test_a_quota_is_a_quota_even_where_somebody_asked_it_to_stop(world):
    """B07: 75 comes first in the table, before a stop for time, a drain or an operator's."""
    for step, cause in enumerate(("max_runtime", "drain", "operator", "stalled")):
        task = f"t_{step}"
        world.create(task)
        world.claim(task)
        world.happened(given.stop_requested(1, cause), task)
        assert die(world, 75, task) == "rate_limited"
        assert counters(world, task) == (0, 0, 0, 1)


def test_a_broken_configuration_parks_after_one_spawn(world):
    """B07: a fault that no retry mends has its own code, and its own hold: 78."""
    world.create()
    assert night(world, 78) == 1
    assert hold(world) == ("config", True)


@pytest.mark.parametrize("code", [75, 143])
def test_a_quota_that_never_returns_ends_in_a_visible_hold(world, code):
    """B08: neutral ends have a budget of their own, with growing waits, and end sticky with a reason."""
    world.create()
    assert night(world, code, ticks=80) == 25
    assert hold(world) == ("neutral_budget", True)
    assert "25 of 25" in world.last("blocked").words["reason"]
    assert counters(world)[:3] == (0, 0, 0)


def test_a_hold_for_quota_ends_by_time_and_by_a_later_success(world):
    """B08: no old text parks a card: the wait is an instant in the event, and a review starts after the success."""
    world.create()
    go(world, 75)
    world.now = world.card().not_before
    world.claim()
    world.happened(given.review_requested(2), actor=given.WORKER)
    card = world.card()
    assert (card.neutral, world.status()) == (0, "review")
    assert [start.worker for start in world.admit().starts] == ["critic"]


def test_cards_of_one_outage_do_not_come_back_in_one_moment(world):
    """B08: a part of each wait depends on the card's id alone; a reset that is asked for is kept within its cap."""
    names = [f"t_{number}" for number in range(8)]
    for name in names:
        world.create(name)
        world.claim(name)
    world.settle({(name, 1): ended(75) for name in names})
    assert len({world.card(name).not_before for name in names}) > 4
    world.create("t_far")
    world.claim("t_far")
    die(world, 75, "t_far", reset=world.now + 400 * 86_400 * SECOND)
    assert world.card("t_far").not_before <= world.now + 8 * 86_400 * SECOND


def test_a_crash_before_the_first_sign_of_life_is_counted(world):
    """B15: the class decides, not how far it came: bound, dead within a moment, no beat: two runs and it gives up."""
    world.create(max_retries=2)
    assert night(world, 1, ticks=4) == 2
    assert hold(world) == ("failure_budget", False)


def test_a_worker_that_cannot_even_start_is_counted(fleet):
    """B15: a mistyped command is `spawn_failed`, by record 127, and stops at the limit."""
    fleet.staff({"w": {"command": ["no-such-skill-anywhere"]}})
    card = fleet.create(max_retries=2)
    fleet.finish(card, "blocked")
    for _ in range(4):
        fleet.sweep()
    assert [(run["outcome"], run["code"]) for run in fleet.runs(card)] == [("spawn_failed", 127)] * 2


def test_an_operators_stop_and_a_lost_lease_count_nothing(world):
    """B15: proof of life before, or a person's wish, makes it neutral; and that has its own cap."""
    world.create()
    world.claim(by="hand")
    for _ in range(3):
        world.later(800)
        world.leases["t_a", 1] = world.leases["t_a", 1]._replace(until=world.now + 900 * SECOND, last_beat=world.now)
        world.settle()
    world.later(961)
    world.settle()
    assert (world.run("t_a", 1).outcome, counters(world)) == ("lost", (0, 0, 0, 1))
    world.claim()
    world.happened(given.stop_requested(2, "operator"))
    assert die(world, 9) == "interrupted"
    assert counters(world) == (0, 0, 0, 2)


def test_a_claim_that_is_never_bound_is_capped_too(world):
    """B15: RULES §6 call it interrupted, since it never ran; for ever it is not: the neutral budget holds it."""
    world.create()
    claims = 0
    for _ in range(60):
        if world.status() != "ready":
            break
        card = world.card()
        world.now = max(world.now, card.not_before or 0)
        world.claim(bound=False)
        claims += 1
        world.later(31)
        die(world)
    assert (claims, hold(world)) == (25, ("neutral_budget", True))


def test_one_counter_does_not_mix_unlike_causes(world):
    """B37: an unblock by a person starts at zero; a success too; a quota between two failures hides none."""
    world.create("t_u")
    go(world, 3, "t_u")
    go(world, 3, "t_u")
    assert hold(world, "t_u") == ("failure_budget", False)
    world.do(Unblock("t_u"))
    go(world, 3, "t_u")
    assert (counters(world, "t_u")[0], hold(world, "t_u")) == (1, None)

    world.create("t_s")
    go(world, 3, "t_s")
    world.do(Complete("t_s"))
    world.do(Reopen("t_s"))
    go(world, 3, "t_s")
    assert (counters(world, "t_s")[0], hold(world, "t_s")) == (1, None)

    world.create("t_q")
    go(world, 3, "t_q")
    go(world, 75, "t_q")
    go(world, 3, "t_q")
    assert (counters(world, "t_q")[0], hold(world, "t_q")) == (2, ("failure_budget", False))


def test_mixed_causes_are_still_bounded(world):
    """B37: crash, polite end, quota, crash after a hand-off… the attempt and run budgets bound what no counter sees."""
    world.policy(failure_limit=9, violation_limit=9, attempt_limit=4)
    world.create()
    runs = [go(world, code) for code in (3, 0, 75, 0, 3)]
    assert runs == ["crashed", "clean", "rate_limited", "clean", "crashed"]
    assert (counters(world)[2], hold(world)) == (4, ("attempt_budget", False))


def test_another_worker_is_not_charged_for_the_last_one(world):
    """B37: handing the card over lifts what waits for that, and the new worker starts from zero."""
    world.create()
    night(world, 3)
    world.do(Assign("t_a", "other"))
    assert night(world, 3) == 2
    assert [run.worker for run in world.world.runs.values()] == ["builder", "builder", "other", "other"]


def test_every_loop_has_a_worst_case_that_can_be_told(world):
    """B37: whatever the endings, between two acts of a person a card uses at most `run_limit` runs."""
    world.policy(failure_limit=90, violation_limit=90, neutral_limit=90, attempt_limit=90, run_limit=7)
    world.create()
    codes = iter([3, 0, 75, 143, 127, 0, 75, 3, 0])
    started = 0
    for _ in range(40):
        world.settle()
        for start in world.admit().starts:
            started += 1
            world.claim(start.task.id)
            die(world, next(codes))
        world.later(4_000)
    assert started == most_runs(world.settings.policy) == 7
    assert hold(world) == ("run_budget", True)


def test_a_worker_at_work_spends_nothing(world):
    """B37: what no end has booked moves no counter: beats, progress, bindings, requests to stop."""
    world.create()
    world.claim()
    before = counters(world)
    world.happened(given.progressed(1, "still here", tokens=9))
    world.happened(given.stop_requested(1, "operator"))
    world.settle({("t_a", 1): ALIVE._replace(evidence=evidence(3))})
    assert counters(world) == before
