"""RULES §5 and the end of a run: what follows it in the same append, which budget names the hold, and what lifts it."""

from __future__ import annotations

import pytest

from kanban.booking import decide_step
from kanban.commands import AskChanges, Assign, Block, Complete, Edit, SetPolicy, Unblock
from kanban.plan import AskStop, Book, Lift
from ledger.events import COUNTED, NEUTRAL, Outcome
from projections.policy import cooldown
from tests import given
from tests.rules.world import NOW, SECOND, WorldView, ended

ENDS = sorted({*COUNTED, *NEUTRAL, Outcome.CLEAN, Outcome.CONFIG})


def board(max_retries=None, **limits):
    """A board with one card of builder's."""
    world = WorldView(**limits)
    world.create("t_a", max_retries=max_retries)
    return world


def hold(world):
    """(cause, sticky, count, limit, source) of the hold."""
    found = world.card().hold
    return None if found is None else (found.cause, found.sticky, found.count, found.limit, found.limit_source)


def lifted(world):
    """The causes of the holds that this tick lifts."""
    return [step.cause for step in world.settle() if isinstance(step, Lift)]


def running(**counters):
    """A card with a run open and *counters* brought about by ends before it; limits far away meanwhile."""
    world = board(failure_limit=99, violation_limit=99, neutral_limit=99, run_limit=99)
    for outcome, times in counters.items():
        for _ in range(times):
            world.attempt(outcome=outcome)
    world.later(7_200)
    world.claim()
    return world


# What follows in the same append


def test_a_clean_end_is_followed_by_its_violation():
    """RULES §2: `violation` follows an `exited` whose outcome is `clean`, in the same append."""
    world = board()
    events = world.attempt(outcome="clean")
    assert [event.kind for event in events] == ["exited", "violation"]
    assert events[1].facts == {"streak": 1, "limit": 3, "limit_source": "policy"}
    assert events[1].run == 1


def test_a_violation_names_the_limit_of_the_card():
    """RULES §5: violation: task.max_retries, else policy.violation_limit."""
    violation = board(max_retries=7).attempt(outcome="clean")[1]
    assert (violation.facts["limit"], violation.facts["limit_source"]) == (7, "task")


@pytest.mark.parametrize("outcome", sorted({*ENDS} - {Outcome.CLEAN}))
def test_no_other_end_is_a_violation(outcome):
    """RULES §4: only `clean` is followed by `violation`."""
    assert [event.kind for event in board().attempt(outcome=outcome)] == ["exited"]


def test_a_budget_blocks_in_the_same_append_as_the_end():
    """RULES §5: its `blocked` is in the same append and carries count, limit and limit source."""
    world = board()
    world.attempt()
    events = world.attempt()
    assert [event.kind for event in events] == ["exited", "blocked"]
    assert hold(world) == ("failure_budget", False, 2, 2, "policy")


def test_the_violation_stands_between_the_end_and_the_budget():
    """RULES §2: follows the `exited`; RULES §5: the budget's `blocked` is in the same append."""
    world = board(violation_limit=1)
    assert [event.kind for event in world.attempt(outcome="clean")] == ["exited", "violation", "blocked"]


def test_what_follows_by_rule_is_the_systems():
    """RULES §8: every change has an actor; a budget's block is nobody's wish."""
    world = board(violation_limit=1)
    assert [event.actor_kind for event in world.attempt(outcome="clean")] == ["sweep", "system", "system"]


def test_a_budgets_block_names_no_run_and_says_its_arithmetic():
    """RULES §4: blocked by a budget: the run has ended already."""
    world = board(failure_limit=1)
    blocked = world.attempt()[1]
    assert (blocked.run, blocked.words["reason"]) == (None, "failure budget: 1 of 1 (policy limit)")


# Each budget


def test_the_failure_budget_holds_at_two_failures():
    """RULES §5: failure: task.max_retries, else policy.failure_limit (2); not sticky."""
    world = board()
    world.attempt()
    assert hold(world) is None
    world.attempt()
    assert hold(world) == ("failure_budget", False, 2, 2, "policy")


def test_the_violation_budget_holds_at_three_clean_exits():
    """RULES §5: violation: streak, 3, sticky."""
    world = board()
    world.attempt(outcome="clean")
    world.attempt(outcome="clean")
    assert hold(world) is None
    world.attempt(outcome="clean")
    assert hold(world) == ("violation_budget", True, 3, 3, "policy")


def test_the_neutral_budget_holds_at_its_limit():
    """RULES §5: neutral: policy.neutral_limit (25), sticky."""
    world = board()
    for _ in range(24):
        world.attempt(outcome="interrupted")
    assert hold(world) is None
    world.attempt(outcome="interrupted")
    assert hold(world) == ("neutral_budget", True, 25, 25, "policy")


def test_the_run_budget_holds_at_its_limit():
    """RULES §5: run: policy.run_limit, sticky."""
    world = board(run_limit=2)
    world.attempt(outcome="lost")
    assert hold(world) is None
    world.attempt(outcome="lost")
    assert hold(world) == ("run_budget", True, 2, 2, "policy")


def test_the_attempt_budget_is_the_net_for_mixed_endings():
    """RULES §5: attempt: spent, not sticky."""
    world = board(failure_limit=9, violation_limit=9, attempt_limit=3)
    for outcome in ("crashed", "clean", "crashed"):
        assert hold(world) is None
        world.attempt(outcome=outcome)
    assert hold(world) == ("attempt_budget", False, 3, 3, "policy")


@pytest.mark.parametrize(("outcome", "cause"), [("crashed", "failure_budget"), ("clean", "violation_budget")])
def test_the_cards_own_limit_wins_and_is_named(outcome, cause):
    """RULES §5: task.max_retries, else the policy's; limit source `task`."""
    world = board(max_retries=1)
    world.attempt(outcome=outcome)
    assert hold(world)[0] == cause
    assert hold(world)[2:] == (1, 1, "task")


def test_the_cards_own_limit_is_also_that_of_its_attempts():
    """RULES §5: attempt: task.max_retries, else policy.attempt_limit."""
    world = board(max_retries=2)
    world.attempt(outcome="clean")
    world.attempt()
    assert hold(world) == ("attempt_budget", False, 2, 2, "task")


@pytest.mark.parametrize("outcome", ["interrupted", "crashed", "clean"])
def test_the_cards_own_limit_says_nothing_of_neutral_ends_and_runs(outcome):
    """RULES §5: neutral and run know the policy's limit only."""
    world = board(max_retries=1, neutral_limit=1, run_limit=1)
    world.attempt(outcome=outcome)
    assert hold(world)[4] == ("task" if outcome == "clean" else "policy")


# The run budget is looked at whenever a run ends by anything but `completed` or a sticky `blocked`


@pytest.mark.parametrize(
    ("verb", "cause"),
    [("lost", "run_budget"), ("crashed", "run_budget"), ("clean", "run_budget"), ("review", "run_budget"),
     ("complete", None)],
)  # fmt: skip
def test_the_run_budget_is_looked_at_at_every_end_but_a_completion(verb, cause):
    """RULES §5: looked at when a run ends by anything but `completed` or a sticky `blocked`."""
    world = board(run_limit=1)
    world.attempt(outcome=verb)
    assert (hold(world) or (None,))[0] == cause


def test_the_run_budget_is_looked_at_when_changes_are_asked():
    """RULES §5: anything but `completed` or a sticky `blocked`."""
    world = board()
    world.attempt(outcome="review")
    world.do(Assign("t_a", "critic"))
    world.policy(run_limit=1)
    claim = world.claim()
    since = world.head
    world.do(AskChanges("t_a", "not yet", claim.proof))
    assert world.kinds(since) == ["changes_requested", "blocked"]
    assert (hold(world)[0], world.card().lane) == ("run_budget", "work")


def test_the_run_budget_is_looked_at_when_a_card_waits_for_its_parents():
    """RULES §5: a `blocked` with hold false is not sticky."""
    world = board(run_limit=1)
    world.create("t_p")
    claim = world.claim()
    world.happened(given.linked("t_p"))
    since = world.head
    world.do(Block("t_a", "waits", "dependency", claim=claim.proof))
    assert world.kinds(since) == ["blocked", "blocked"]
    assert hold(world) == ("run_budget", True, 1, 1, "policy")


def test_the_run_budget_is_not_looked_at_when_a_worker_blocks():
    """RULES §5: not at a sticky `blocked`."""
    world = board(run_limit=1)
    claim = world.claim()
    world.do(Block("t_a", "no key", claim=claim.proof))
    assert hold(world)[:2] == ("worker", True)


def test_runs_count_from_zero_after_an_operators_unblock():
    """RULES §4: `unblocked` by operator: runs 0."""
    world = board(run_limit=2)
    world.attempt(outcome="lost")
    world.attempt(outcome="lost")
    world.do(Unblock("t_a"))
    world.attempt(outcome="lost")
    assert hold(world) is None


# Which one names the hold


def test_a_sticky_budget_names_the_hold_before_one_that_is_not():
    """RULES §5: if several trip at once, the first in the order of the table: sticky before not sticky."""
    world = board(failure_limit=1, run_limit=1)
    world.attempt()
    assert hold(world)[0] == "run_budget"


def test_violation_names_the_hold_before_run_and_attempt():
    """RULES §5: the order of the table."""
    world = board(violation_limit=1, run_limit=1, attempt_limit=1)
    world.attempt(outcome="clean")
    assert hold(world)[0] == "violation_budget"


def test_neutral_names_the_hold_before_run():
    """RULES §5: the order of the table."""
    world = board(neutral_limit=1, run_limit=1)
    world.attempt(outcome="lost")
    assert hold(world)[0] == "neutral_budget"


def test_failure_names_the_hold_before_attempt():
    """RULES §5: the order of the table."""
    world = board(failure_limit=1, attempt_limit=1)
    world.attempt()
    assert hold(world)[0] == "failure_budget"


def test_one_hold_at_a_time():
    """RULES §1: hold: one at a time."""
    world = board(failure_limit=1, run_limit=1, attempt_limit=1)
    assert [event.kind for event in world.attempt()] == ["exited", "blocked"]


# config


def test_a_config_end_holds_by_itself_and_no_budget_stands_beside_it():
    """RULES §4: sticky at once; a budget writes none where the end itself set a sticky hold."""
    world = board(failure_limit=1, attempt_limit=1, run_limit=1)
    events = world.attempt(outcome="config")
    assert [event.kind for event in events] == ["exited"]
    assert hold(world) == ("config", True, None, None, None)
    assert world.card().hold.position == events[0].position


def test_a_config_end_counts_as_a_failure():
    """RULES §4: `exited` config: failures +1, spent +1."""
    world = board()
    world.attempt(outcome="config")
    assert (world.card().failures, world.card().spent) == (1, 1)


# Nothing trips that was not counted


@pytest.mark.parametrize("outcome", ["interrupted", "lost", "rate_limited", "clean", "review"])
def test_a_failure_budget_that_was_lowered_waits_for_a_failure(outcome):
    """RULES §5: one trips only if its count was raised by that end; a lowered limit acts at the next counted end."""
    world = running(crashed=3)
    world.policy(failure_limit=2)
    world.exit(outcome=outcome)
    assert hold(world) is None
    world.later(7_200)
    world.attempt()
    assert hold(world)[:3] == ("failure_budget", False, 4)


@pytest.mark.parametrize("outcome", ["crashed", "interrupted", "review"])
def test_a_violation_budget_that_was_lowered_waits_for_a_clean_exit(outcome):
    """RULES §5: one trips only if its count was raised by that end."""
    world = running(clean=3)
    world.policy(violation_limit=2)
    world.exit(outcome=outcome)
    assert hold(world) is None


@pytest.mark.parametrize("outcome", ["crashed", "clean", "review"])
def test_a_neutral_budget_that_was_lowered_waits_for_a_neutral_end(outcome):
    """RULES §5: one trips only if its count was raised by that end."""
    world = running(interrupted=3)
    world.policy(neutral_limit=2)
    world.exit(outcome=outcome)
    assert hold(world) is None


@pytest.mark.parametrize("outcome", ["interrupted", "rate_limited", "review"])
def test_an_attempt_budget_that_was_lowered_waits_for_a_counted_end(outcome):
    """RULES §5: one trips only if its count was raised by that end."""
    world = running(crashed=2, clean=1)
    world.policy(attempt_limit=2)
    world.exit(outcome=outcome)
    assert hold(world) is None


def test_a_run_budget_that_was_lowered_acts_when_the_run_ends():
    """RULES §5: run: its count was raised by the `claimed` of that run."""
    world = running(interrupted=3)
    world.policy(run_limit=2)
    world.exit()
    assert hold(world) == ("run_budget", True, 4, 2, "policy")


def test_a_lowered_limit_takes_no_card_back():
    """RULES §5: a lowered limit takes no card back."""
    world = running(crashed=3)
    world.exit(outcome="review")
    since = world.head
    world.do(SetPolicy({"failure_limit": 1}))
    world.do(Edit("t_a", {"max_retries": 1}))
    world.settle()
    assert world.kinds(since) == ["policy_changed", "edited"]
    assert world.status() == "review"


# Lifting


def held():
    """A card that the failure budget holds, and the position of its hold."""
    world = board()
    world.attempt()
    world.attempt()
    return world


def test_the_tick_that_set_a_hold_does_not_lift_it():
    """RULES §5: a hold can never lift in the tick that set it."""
    world = held()
    assert lifted(world) == []
    world.later(10 * 86_400)
    assert lifted(world) == []


def test_a_hold_lifts_when_the_policys_limit_is_raised():
    """RULES §5: the policy's limit was raised (`limit_raised`); the sweep appends the `unblocked`."""
    world = held()
    world.do(SetPolicy({"failure_limit": 3}))
    assert lifted(world) == ["limit_raised"]
    event = world.last("unblocked")
    assert (event.facts["cause"], event.actor_kind, event.words["reason"]) == ("limit_raised", "sweep", None)
    assert world.status() == "ready"


def test_a_hold_lifts_when_the_cards_own_limit_is_raised():
    """RULES §5: the task's limit was raised (`limit_raised`)."""
    world = held()
    world.do(Edit("t_a", {"max_retries": 3}))
    assert lifted(world) == ["limit_raised"]


def test_lifting_leaves_the_counters():
    """RULES §4: `unblocked` limit_raised: = = = = =."""
    world = held()
    before = world.card()
    world.do(SetPolicy({"failure_limit": 3}))
    world.settle()
    after = world.card()
    assert (after.failures, after.spent, after.runs) == (before.failures, before.spent, before.runs) == (2, 2, 2)


def test_a_lifted_card_is_held_again_at_the_new_limit():
    """RULES §5: tripping and lifting call the same function."""
    world = held()
    world.do(SetPolicy({"failure_limit": 3}))
    world.settle()
    world.attempt()
    assert hold(world) == ("failure_budget", False, 3, 3, "policy")


def test_a_hold_lifts_when_the_card_went_to_somebody_else():
    """RULES §5: the card went to somebody else after the hold (`reassigned`)."""
    world = held()
    world.do(Assign("t_a", "other"))
    assert lifted(world) == ["reassigned"]
    assert world.status() == "ready"


def test_a_card_that_went_to_nobody_and_back_stays_held():
    """RULES §1: somebody else differs from the last worker in that role that was not none."""
    world = held()
    world.do(Assign("t_a", None))
    world.do(Assign("t_a", "builder"))
    assert lifted(world) == []


def test_a_hold_stands_while_another_budget_is_at_its_limit():
    """RULES §5: lifts when *no* budget is at its limit any more."""
    world = board(attempt_limit=2)
    world.attempt()
    world.attempt()
    world.do(SetPolicy({"failure_limit": 9}))
    assert lifted(world) == []
    world.do(SetPolicy({"attempt_limit": 9}))
    assert lifted(world) == ["limit_raised"]


@pytest.mark.parametrize("outcome", ["clean", "interrupted"])
def test_a_sticky_hold_is_lifted_by_no_tick(outcome):
    """RULES §1: sticky: only a person lifts it."""
    world = board(violation_limit=1, neutral_limit=1)
    world.attempt(outcome=outcome)
    world.do(SetPolicy({"violation_limit": 9, "neutral_limit": 9, "attempt_limit": 9}))
    world.do(Assign("t_a", "other"))
    assert lifted(world) == []
    assert world.status() == "blocked"


def test_a_person_lifts_any_hold_and_counters_start_from_zero():
    """RULES §4: `unblocked` by operator: 0 0 0 0, lifted."""
    world = board(violation_limit=1)
    world.attempt(outcome="clean")
    world.do(Unblock("t_a", "again"))
    card = world.card()
    assert (card.hold, card.failures, card.streak, card.spent, card.neutral, card.runs) == (None, 0, 0, 0, 0, 0)


def test_an_operators_block_replaces_the_budgets_hold_and_no_tick_lifts_it():
    """RULES §4: an operator's `blocked` replaces any hold."""
    world = held()
    world.do(Block("t_a", "wait for me"))
    world.do(SetPolicy({"failure_limit": 9}))
    assert lifted(world) == []
    assert hold(world)[:2] == ("operator", True)


# What an end says


def test_a_quota_waits_for_its_reset():
    """RULES §4: not before = reset asked."""
    world = board()
    world.claim()
    asked = NOW + 7_200 * SECOND
    (event,) = world.exit(outcome="rate_limited", code=75, reset=asked)
    assert (event.facts["reset_asked"], event.facts["not_before"], world.card().not_before) == (asked, asked, asked)


def test_a_reset_that_another_end_names_is_not_kept():
    """RULES §4: only `rate_limited` waits for a reset."""
    world = board()
    world.claim()
    (event,) = world.exit(outcome="crashed", code=5, reset=NOW + 7_200 * SECOND)
    assert (event.facts["reset_asked"], event.facts["not_before"]) == (None, None)


def test_a_first_interruption_costs_no_wait_and_the_second_cools():
    """RULES §4: not before: none for the first neutral end in a row, then now + cooldown."""
    world = board()
    (first,) = world.attempt(outcome="interrupted")
    (second,) = world.attempt(outcome="lost")
    assert first.facts["not_before"] is None
    assert second.facts["not_before"] == world.now + cooldown(world.settings.policy, 2, "t_a")


def test_a_lost_run_says_lease_beat_and_grace():
    """RULES §2: when lost: lease until, last beat, grace."""
    world = board()
    claim = world.claim(by="hand")
    lease = world.leases["t_a", claim.run]
    (event,) = world.exit(outcome="lost")
    assert (event.facts["lease_until"], event.facts["last_beat"], event.facts["grace"]) == (lease.until, None, 60)


@pytest.mark.parametrize("outcome", sorted({*ENDS} - {Outcome.LOST}))
def test_another_end_says_nothing_of_the_lease(outcome):
    """RULES §2: when lost only."""
    event = board().attempt(outcome=outcome)[0]
    assert (event.facts["lease_until"], event.facts["grace"]) == (None, None)


def test_an_end_carries_its_evidence():
    """RULES §2: `exited`: code, signal, evidence, observer, last words."""
    world = board()
    world.claim()
    (event,) = world.exit(outcome="crashed", code=5)
    said = {name: event.facts[name] for name in ("code", "signal", "evidence", "observer")}
    assert said == {"code": 5, "signal": None, "evidence": "exit_record", "observer": "node-1:7"}
    assert event.words["last_words"] == "bye"


@pytest.mark.parametrize("outcome", ENDS)
def test_an_automatic_ending_keeps_the_lane(outcome):
    """RULES §8: an automatic ending keeps the lane."""
    world = board()
    world.attempt(outcome="review")
    world.do(Assign("t_a", "critic"))
    world.attempt(outcome=outcome)
    assert world.card().lane == "review"


# on_success


def test_a_clean_exit_completes_the_card_by_the_system():
    """RULES §6: `completed` by the system actor, summary as the assignee's `result` says."""
    world = board()
    world.claim(on_success="complete")
    (event,) = world.exit(outcome="complete", code=0, summary="all green")
    assert (event.kind, event.actor_kind, event.outcome, event.run) == ("completed", "system", "ok", 1)
    assert event.words["summary"] == "all green"


def test_a_clean_exit_asks_the_reviewer_of_the_claim():
    """RULES §6: `review_requested` by the system actor."""
    world = board()
    world.claim(on_success="review", reviewer="critic")
    (event,) = world.exit(outcome="review", code=0, summary="look")
    assert (event.kind, event.actor_kind, event.words["summary"]) == ("review_requested", "system", "look")
    assert (world.card().lane, world.card().worker) == ("review", "critic")


def test_a_completion_by_exit_before_the_parents_is_kept():
    """RULES §6: RULES §8 decides as for the worker's own verb (`Unmet` too)."""
    world = board()
    world.create("t_p")
    world.claim(on_success="complete")
    world.happened(given.linked("t_p"))
    decision = world.book("t_a", "complete", ended(0, summary="early"))
    events = world.write(decision.drafts)
    assert [event.kind for event in events] == ["late_result", "blocked"]
    assert events[0].words["summary"] == "early"
    assert world.status() == "todo"
    assert any("t_p" in note for note in decision.notes)


# The same death, whoever books it


@pytest.mark.parametrize("outcome", [*ENDS, "complete", "review"])
def test_the_same_death_is_booked_alike_by_any_process(outcome):
    """RULES §6: equal kinds, outcomes and facts but for the observer."""
    world = board(violation_limit=1, failure_limit=1)
    world.claim()
    told = []
    for observer in ("node-1:1", "node-1:2"):
        drafts = world.book("t_a", outcome, ended(0), observer=observer).drafts
        facts = [draft.as_if(position=1, version=1, at=0).facts | {"observer": None} for draft in drafts]
        told.append([(draft.kind, draft.outcome, each) for draft, each in zip(drafts, facts, strict=True)])
    assert told[0] == told[1]


# Decided again inside the lock


def test_an_end_that_somebody_booked_meanwhile_is_not_booked_twice():
    """RULES §7: each card is checked again inside the board's lock."""
    world = board()
    claim = world.claim()
    (step,) = (step for step in world.planned({("t_a", 1): ended(5)}) if isinstance(step, Book))
    world.do(Complete("t_a", claim=claim.proof))
    assert decide_step(world, step, given.SWEEP, "node-1:7").drafts == ()


def test_a_hold_that_changed_meanwhile_is_not_lifted():
    """RULES §7: each card is checked again inside the board's lock."""
    assert decide_step(held(), Lift("t_a", "limit_raised"), given.SWEEP, "node-1:7").drafts == ()


def test_a_hold_is_lifted_only_for_the_cause_that_holds_now():
    """RULES §7: each card is checked again inside the board's lock."""
    world = held()
    world.do(Assign("t_a", "other"))
    assert decide_step(world, Lift("t_a", "limit_raised"), given.SWEEP, "node-1:7").drafts == ()


def test_a_run_that_was_asked_meanwhile_is_not_asked_again():
    """RULES §2: at most one stop by the sweep for a run and cause."""
    world = board()
    world.claim()
    step = AskStop(world.run("t_a", 1), "max_runtime", NOW, 5)
    world.write(decide_step(world, step, given.SWEEP, "node-1:7").drafts)
    assert decide_step(world, step, given.SWEEP, "node-1:7").drafts == ()


def test_a_run_that_ended_meanwhile_is_not_asked_to_stop():
    """RULES §2: `stop_requested`: an open run."""
    world = board()
    world.claim()
    step = AskStop(world.run("t_a", 1), "max_runtime", NOW, 5)
    world.exit()
    assert decide_step(world, step, given.SWEEP, "node-1:7").drafts == ()
