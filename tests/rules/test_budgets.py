"""RULES §5: the limits and where they come from, what trips, what lifts, and how long a card cools."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from projections.budgets import (
    Budget,
    at_limit,
    attempt_can_trip_alone,
    budgets,
    lift,
    most_runs,
    tripped,
)
from projections.policy import Policy, cooldown, not_before_after, policy_from
from projections.task import Card, Hold, Task, evolve
from tests import given

POLICY = Policy()
HELD = Hold("failure_budget", None, sticky=False, count=2, limit=2, limit_source="policy", position=3)
CAUSES = ["violation_budget", "neutral_budget", "run_budget", "failure_budget", "attempt_budget"]
SECOND = given.SECOND


def task(*, max_retries=None, **counters):
    return Task("t_a", Card(max_retries=max_retries), **counters)


def trip(before, event, policy=POLICY):
    """The cause that *event* trips on *before*, or none."""
    (recorded,) = given.history(event)
    budget = tripped(before, evolve(before, recorded), policy, ended_by=event.kind)
    return None if budget is None else budget.cause


# Limits


def test_the_default_limits_are_those_of_the_table():
    """RULES §5: 3, 25, 50, 2 and 6."""
    assert [(budget.cause, budget.limit) for budget in budgets(task(), POLICY)] == list(
        zip(CAUSES, [3, 25, 50, 2, 6], strict=True)
    )


def test_each_budget_counts_its_own_counter():
    """RULES §5: the column *count*."""
    counted = task(streak=1, neutral=2, runs=3, failures=4, spent=5)
    assert [budget.count for budget in budgets(counted, POLICY)] == [1, 2, 3, 4, 5]


def test_the_sticky_budgets_stand_before_those_that_are_not():
    """RULES §5: sticky before not sticky."""
    assert [budget.sticky for budget in budgets(task(), POLICY)] == [True, True, True, False, False]


def test_a_cards_own_limit_replaces_the_policys_in_three_budgets():
    """RULES §5: task.max_retries, else the policy's; neutral and run know no limit of the task."""
    assert [budget.limit for budget in budgets(task(max_retries=9), POLICY)] == [9, 25, 50, 9, 9]


def test_the_source_of_each_limit_is_named():
    """RULES §5: limit source (`task`, `policy`)."""
    sources = [budget.limit_source for budget in budgets(task(max_retries=9), POLICY)]
    assert sources == ["task", "policy", "policy", "task", "task"]


def test_without_a_limit_of_its_own_every_source_is_the_policy():
    """RULES §5: limit source (`task`, `policy`)."""
    assert {budget.limit_source for budget in budgets(task(), POLICY)} == {"policy"}


@pytest.mark.parametrize(
    ("limits", "attempts"),
    [({}, 6), ({"failure_limit": 4}, 8), ({"violation_limit": 1}, 4), ({"failure_limit": 4, "attempt_limit": 5}, 5)],
)
def test_the_attempt_limit_follows_the_other_two_unless_set(limits, attempts):
    """RULES §5: failure_limit + violation_limit + 1 unless set."""
    assert Policy(**limits).attempts == attempts


def test_the_policy_in_the_log_is_read_whole():
    """RULES §1: policy is itself in the log."""
    (event,) = given.history(given.policy_changed(failure_limit=7, progress_timeout=60))
    assert policy_from(event.facts) == Policy(failure_limit=7, progress_timeout=60)


def test_a_policy_with_a_field_missing_is_not_guessed():
    """RULES §2: a fact that is missing must not look like one that is empty."""
    (event,) = given.history(given.policy_changed())
    with pytest.raises(KeyError):
        policy_from({name: value for name, value in event.facts.items() if name != "lease"})


def test_the_most_runs_between_two_acts_of_a_person_is_the_run_limit():
    """RULES §5: `policy` prints it."""
    assert most_runs(Policy(run_limit=12)) == 12


# At the limit


def test_a_count_below_its_limit_is_not_at_it():
    """RULES §5: ≥ its limit."""
    assert at_limit(task(streak=2, neutral=24, runs=49, failures=1, spent=5), POLICY) == ()


def test_every_budget_at_its_limit_is_named_in_order():
    """RULES §5: `why` lists every budget that is at its limit now."""
    full = task(streak=3, neutral=25, runs=50, failures=2, spent=6)
    assert [budget.cause for budget in at_limit(full, POLICY)] == CAUSES


# Tripping

ENDS = {
    "violation_budget": (task(streak=2), given.exited(1, "clean")),
    "neutral_budget": (task(neutral=24), given.exited(1, "lost")),
    "run_budget": (task(runs=50), given.exited(1, "lost")),
    "failure_budget": (task(failures=1, spent=1), given.exited(1, "crashed")),
    "attempt_budget": (task(failures=0, spent=5), given.exited(1, "crashed")),
}


@pytest.mark.parametrize("cause", ENDS)
def test_the_end_that_brings_a_count_to_its_limit_trips_the_budget(cause):
    """RULES §5: one trips if its count was raised by that end and is ≥ its limit."""
    before, event = ENDS[cause]
    assert trip(before._replace(run=1), event) == cause


@pytest.mark.parametrize("cause", ENDS)
def test_an_end_before_the_limit_trips_nothing(cause):
    """RULES §5: ≥ its limit."""
    before, event = ENDS[cause]
    fewer = {
        name: getattr(before, name) - 1 for name in ("streak", "neutral", "runs", "spent") if getattr(before, name)
    }
    assert trip(before._replace(run=1, **(fewer | {"failures": 0})), event) is None


def test_a_tripped_budget_carries_count_limit_and_source():
    """RULES §5: its `blocked` carries count, limit and limit source."""
    before = task(max_retries=3, failures=2, spent=2, run=1)
    (event,) = given.history(given.exited(1, "crashed"))
    assert tripped(before, evolve(before, event), POLICY, ended_by="exited") == Budget(
        "failure_budget", 3, 3, "task", sticky=False
    )


@pytest.mark.parametrize(
    ("before", "event", "named"),
    [
        (task(streak=2, spent=5, runs=50), given.exited(1, "clean"), "violation_budget"),
        (task(neutral=24, runs=50), given.exited(1, "lost"), "neutral_budget"),
        (task(failures=1, spent=5, runs=50), given.exited(1, "crashed"), "run_budget"),
        (task(failures=1, spent=5), given.exited(1, "crashed"), "failure_budget"),
    ],
    ids=["violation", "neutral", "run", "failure"],
)
def test_if_several_trip_at_once_the_first_of_the_table_names_the_hold(before, event, named):
    """RULES §5: in the order of the table, sticky before not sticky."""
    assert trip(before._replace(run=1), event) == named


def test_a_lowered_limit_acts_at_the_next_counted_end():
    """RULES §5: a neutral end raises no failure, so a limit that was lowered meanwhile does not act."""
    assert trip(task(failures=3, spent=3, run=1), given.exited(1, "lost"), Policy(failure_limit=2)) is None


def test_a_lowered_limit_does_act_when_its_count_is_raised():
    """RULES §5: it acts at the next counted end."""
    assert trip(task(failures=3, spent=3, run=1), given.exited(1, "crashed")) == "failure_budget"


@pytest.mark.parametrize(
    "event",
    [given.exited(1, "lost"), given.review_requested(1), given.changes_requested(1), given.waiting(1)],
    ids=["exited", "review", "changes", "dependency"],
)
def test_the_run_budget_is_looked_at_whenever_a_run_ends(event):
    """RULES §5: by anything but `completed` or a sticky `blocked`."""
    assert trip(task(runs=50, run=1), event) == "run_budget"


@pytest.mark.parametrize(
    "event", [given.completed(1), given.completed(1, "fail"), given.blocked(1, "worker")], ids=["ok", "fail", "blocked"]
)
def test_the_run_budget_is_not_looked_at_when_a_person_is_needed_anyway_or_the_card_is_done(event):
    """RULES §5: by anything but `completed` or a sticky `blocked`."""
    assert trip(task(runs=50, run=1), event) is None


def test_a_completion_trips_no_run_budget_even_under_a_count_that_it_did_not_reset():
    """RULES §5: `completed` is named itself; that it also resets `runs` is another row."""
    before = task(runs=50, run=1)
    assert tripped(before, before, POLICY, ended_by="completed") is None


@drawn(
    st.lists(st.integers(0, 60), min_size=5, max_size=5), st.none() | st.integers(1, 5), st.sampled_from(["ok", "fail"])
)
def test_a_completion_trips_no_budget_whatever_was_counted(counts, own, outcome):
    """RULES §5: an epoch begins, and no count is raised by it; so nobody asks."""
    counted = dict(zip(["failures", "streak", "spent", "neutral", "runs"], counts, strict=True))
    assert trip(task(max_retries=own, run=1, last_run=1, **counted), given.completed(1, outcome)) is None


def test_a_config_exit_trips_no_budget_since_its_own_hold_is_sticky():
    """RULES §4: a budget writes none where the end itself set a sticky hold."""
    assert trip(task(failures=1, spent=5, runs=50, run=1), given.exited(1, "config")) is None


def test_an_old_sticky_hold_does_not_keep_a_budget_from_tripping():
    """RULES §4: only a hold that the end itself set does."""
    before = task(failures=1, spent=1, run=1, hold=replace(HELD, cause="operator", sticky=True))
    assert trip(before, given.exited(1, "crashed")) == "failure_budget"


# Lifting


def test_a_hold_that_is_not_sticky_lifts_when_a_limit_was_raised():
    """RULES §5: no budget is at its limit any more."""
    assert lift(task(failures=2, spent=2, hold=HELD), Policy(failure_limit=3)) == "limit_raised"


def test_a_hold_that_is_not_sticky_lifts_when_the_cards_own_limit_was_raised():
    """RULES §5: the policy's or the task's limit was raised."""
    assert lift(task(max_retries=3, failures=2, spent=2, hold=HELD), POLICY) == "limit_raised"


def test_a_hold_that_is_not_sticky_lifts_when_the_card_went_to_somebody_else():
    """RULES §5: `reassigned`: the epoch that it starts leaves nothing spent."""
    held = given.fold(
        [given.created(), *(event for n in (1, 2) for event in (given.claimed(n), given.exited(n))),
         given.budget_blocked(), given.assigned("other")]
    )  # fmt: skip
    assert lift(held, POLICY) == "reassigned"


def test_a_hold_stands_while_its_budget_is_at_its_limit():
    """RULES §5: a hold can never lift in the tick that set it."""
    assert lift(task(failures=2, spent=2, hold=HELD), POLICY) is None


@pytest.mark.parametrize(
    "counter",
    [{"spent": 6}, {"streak": 3}, {"neutral": 25}, {"runs": 50}],
    ids=["attempt", "violation", "neutral", "run"],
)
def test_a_hold_stands_while_any_other_budget_is_at_its_limit(counter):
    """RULES §5: when *no* budget is at its limit any more."""
    held = task(**({"failures": 2, "spent": 2, "hold": HELD} | counter))
    assert lift(held, Policy(failure_limit=3, attempt_limit=6)) is None


def test_a_sticky_hold_is_never_lifted_by_the_sweep():
    """RULES §1: only a person lifts it."""
    assert lift(task(hold=replace(HELD, sticky=True)), POLICY) is None


def test_a_card_without_a_hold_has_nothing_to_lift():
    """RULES §5: a wish that is already true."""
    assert lift(task(), POLICY) is None


@drawn(
    st.lists(st.sampled_from(["crashed", "clean", "lost", "spawn_failed"]), max_size=12),
    st.builds(Policy, failure_limit=st.integers(1, 4), violation_limit=st.integers(1, 4), run_limit=st.integers(1, 9)),
    st.none() | st.integers(1, 4),
)
def test_what_trips_does_not_lift_under_the_same_limits(ends, policy, own):
    """RULES §5: tripping and lifting call the same function, so no hold comes and goes by itself."""
    card = task(max_retries=own)
    for number, outcome in enumerate(ends, 1):
        claim, end = given.history(given.claimed(number), given.exited(number, outcome))
        before = evolve(card, claim)
        card = evolve(before, end)
        budget = tripped(before, card, policy, ended_by="exited")
        if budget is not None:
            (hold,) = given.history(
                given.budget_blocked(budget.cause, count=budget.count, limit=budget.limit, sticky=budget.sticky)
            )
            assert lift(evolve(card, hold), policy) is None
            return


# The net for mixed endings


def first_trips(policy, own, length):
    """The causes that the possible sequences of counted ends of a fresh card trip first."""
    causes = set()
    for ends in itertools.product(["crashed", "clean"], repeat=length):
        card = task(max_retries=own)
        for outcome in ends:
            (event,) = given.history(given.exited(1, outcome))
            before, card = card, evolve(card, event)
            budget = tripped(before, card, policy, ended_by="exited")
            if budget is not None:
                causes.add(budget.cause)
                break
    return causes


@pytest.mark.parametrize(("failures", "violations"), [(f, v) for f in (1, 2, 3) for v in (1, 2, 3, 4)])
def test_the_attempt_budget_trips_alone_exactly_when_the_two_limits_leave_room(failures, violations):
    """RULES §5: when (failure_limit − 1) × (violation_limit − 1) ≥ 3; found by trying every sequence of ends."""
    policy = Policy(failure_limit=failures, violation_limit=violations)
    possible = "attempt_budget" in first_trips(policy, None, policy.attempts)
    assert possible == attempt_can_trip_alone(policy, None) == ((failures - 1) * (violations - 1) >= 3)


@pytest.mark.parametrize("own", [2, 3])
def test_the_attempt_budget_can_trip_alone_on_a_card_with_max_retries_of_two_or_more(own):
    """RULES §5: max_retries ≥ 2."""
    assert attempt_can_trip_alone(POLICY, own)
    assert "attempt_budget" in first_trips(POLICY, own, own)


def test_a_card_that_may_try_once_trips_another_budget_first():
    """RULES §5: max_retries ≥ 2, not 1."""
    assert not attempt_can_trip_alone(POLICY, 1)
    assert first_trips(POLICY, 1, 1) == {"failure_budget", "violation_budget"}


def test_a_set_attempt_limit_can_trip_alone():
    """RULES §5: attempt_limit is set."""
    assert attempt_can_trip_alone(Policy(attempt_limit=2), None)
    assert "attempt_budget" in first_trips(Policy(attempt_limit=2), None, 2)


# Cooling


def plain(neutral, policy=POLICY):
    """The cooldown in seconds without the card's part."""
    return min(policy.cooldown * 2 ** (neutral - 1), policy.cooldown_cap)


@pytest.mark.parametrize(
    ("neutral", "seconds"), [(1, 300), (2, 600), (3, 1_200), (4, 2_400), (5, 3_600), (6, 3_600), (25, 3_600)]
)
def test_the_cooldown_doubles_up_to_its_cap(neutral, seconds):
    """RULES §5: 300 s × 2^(neutral − 1) up to 3,600 s, plus up to 10 %."""
    assert seconds * SECOND <= cooldown(POLICY, neutral, "t_a") <= seconds * SECOND * 11 // 10


@pytest.mark.parametrize("neutral", [10_000, 10**18])
def test_the_cooldown_of_a_very_long_outage_is_the_cap(neutral):
    """RULES §5: a limit may be any number ≥ 1; the power must not be computed."""
    assert cooldown(Policy(neutral_limit=10**18), neutral, "t_a") == cooldown(POLICY, 5, "t_a")


@drawn(st.text(max_size=20), st.integers(1, 30))
def test_the_cards_part_is_at_most_a_tenth(name, neutral):
    """RULES §5: plus up to 10 %."""
    base = plain(neutral) * SECOND
    assert base <= cooldown(POLICY, neutral, name) <= base + base // 10


@drawn(st.text(max_size=20), st.integers(1, 30), st.integers(1, 30))
def test_the_cards_part_depends_on_its_id_alone(name, one, other):
    """RULES §5: the same share at every length."""
    assert cooldown(POLICY, one, name) * plain(other) == cooldown(POLICY, other, name) * plain(one)


def test_the_cards_of_one_outage_do_not_come_back_together():
    """RULES §5: so that cards do not come back together."""
    assert len({cooldown(POLICY, 1, f"t_{n}") for n in range(100)}) > 80


def wait_after(outcome, *, neutral=1, asked=None, policy=POLICY):
    """How long the card waits after that end, in microseconds; none: not at all."""
    until = not_before_after(
        policy, outcome=outcome, neutral=neutral, task="t_a", now=given.NOW, reset_asked=asked and given.NOW + asked
    )
    return None if until is None else until - given.NOW


COOL = cooldown(POLICY, 1, "t_a")
DAY = 86_400 * SECOND


@pytest.mark.parametrize("outcome", ["interrupted", "lost"])
def test_the_first_neutral_end_in_a_row_costs_no_wait(outcome):
    """RULES §4: not before: none for the first neutral end in a row."""
    assert wait_after(outcome) is None


@pytest.mark.parametrize("outcome", ["interrupted", "lost"])
def test_the_second_neutral_end_in_a_row_costs_the_cooldown(outcome):
    """RULES §4: then now + cooldown."""
    assert wait_after(outcome, neutral=2) == cooldown(POLICY, 2, "t_a")


def test_a_quota_without_a_reset_costs_the_cooldown_from_the_first_time():
    """RULES §4: at least now + cooldown."""
    assert wait_after("rate_limited") == COOL


def test_a_quota_waits_for_the_reset_that_it_asked():
    """RULES §4: not before = reset asked."""
    assert wait_after("rate_limited", asked=DAY) == DAY


def test_a_reset_that_comes_too_soon_waits_for_the_cooldown():
    """RULES §4: but at least now + cooldown."""
    assert wait_after("rate_limited", asked=1) == COOL


def test_a_reset_in_the_past_waits_for_the_cooldown():
    """RULES §4: but at least now + cooldown."""
    assert wait_after("rate_limited", asked=-DAY) == COOL


def test_a_reset_that_is_too_far_is_cut_to_the_cap():
    """RULES §4: at most now + reset_cap (8 days)."""
    assert wait_after("rate_limited", asked=30 * DAY) == 8 * DAY


def test_a_cap_below_the_cooldown_does_not_shorten_the_cooldown():
    """RULES §4: *at least* now + cooldown comes first."""
    assert wait_after("rate_limited", asked=DAY, policy=Policy(reset_cap=1)) == COOL
