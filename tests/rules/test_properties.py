"""The laws of the rules hold for every history that `decide`, the plan and the booking can produce."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, example, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

from tests.rules import laws
from tests.rules.laws import VERBS, Move, played, random_story, said

MOVES = st.lists(
    st.builds(Move, st.sampled_from(VERBS), st.integers(0, 2), st.integers(0, 2), st.integers(0, 59)),
    min_size=15,
    max_size=80,
)
"""Operators' commands, claims, workers' verbs, ends that are seen, changes of policy, ticks and time."""
STORIES = st.builds(played, st.integers(1, 3), MOVES)


def law(check):
    """*check* is tried on many stories."""
    tried = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    return tried(drawn(STORIES)(check))


@law
def test_counters_are_what_the_log_says(story):
    """RULES §4: nothing but the table moves a counter."""
    laws.counters_are_what_the_log_says(story)


@law
def test_no_count_exceeds_its_limit(story):
    """RULES §5: trips if its count is ≥ its limit; only a limit that fell may be below its count."""
    laws.no_count_exceeds_its_limit(story)


@law
def test_no_run_opens_under_a_hold(story):
    """RULES §3: claimable: no hold."""
    laws.no_run_opens_under_a_hold(story)


@law
def test_a_sticky_hold_ends_with_a_person(story):
    """RULES §1: sticky: an operator's `unblocked`, a `completed` or a `reopened`."""
    laws.a_sticky_hold_ends_with_a_person(story)


@law
def test_neutral_ends_move_only_neutral(story):
    """RULES §4: the rows of the neutral ends, and of `claimed`."""
    laws.neutral_ends_move_only_neutral(story)


@law
def test_folding_does_not_depend_on_the_cut(story):
    """RULES §4: a fold can be stopped, stored and taken up again anywhere."""
    laws.folding_does_not_depend_on_the_cut(story)


@law
def test_the_board_is_the_sum_of_its_cards(story):
    """RULES §3: a card's row is touched by another card's event only in `open_parents`."""
    laws.the_board_is_the_sum_of_its_cards(story)


@law
def test_a_card_is_claimable_when_the_rules_say_so(story):
    """RULES §3: claimable at time *t*."""
    laws.a_card_is_claimable_when_the_rules_say_so(story)


@law
def test_runs_are_numbered_and_locks_are_never_used_again(story):
    """RULES §1: run, lock."""
    laws.runs_are_numbered_and_locks_are_never_used_again(story)


@law
def test_never_two_live_runs(story):
    """RULES §1: opened by `claimed`, ended by exactly one event."""
    laws.never_two_live_runs(story)


@law
def test_no_hold_lifts_by_itself(story):
    """RULES §5: a hold can never lift in the tick that set it unless an operator's event came between."""
    laws.no_hold_lifts_by_itself(story)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@drawn(STORIES, st.integers(0, 10**6))
def test_no_card_runs_on_by_itself(story, seed):
    """RULES §5: the most runs that a card can use between two acts of a person is run_limit."""
    laws.no_card_runs_on_by_itself(story, seed)


@law
def test_the_same_death_is_booked_alike(story):
    """RULES §6: equal kinds, outcomes and facts but for the observer."""
    laws.the_same_death_is_booked_alike(story)


@law
def test_the_log_has_no_gaps(story):
    """RULES §2: positions and versions 1, 2, 3…; every event is whole."""
    laws.the_log_has_no_gaps(story)


@settings(max_examples=40)
@drawn(STORIES)
@example(random_story(1))
def test_a_refusal_is_the_only_thing_that_stops_a_move(story):
    """RULES §8: a forbidden one raises a refusal: no other error ever comes out of a decision."""
    assert story.world.head >= 1


@pytest.fixture(scope="module")
def told():
    """How often each thing happens in the stories that the laws are tried on."""
    events = [event for seed in range(200) for event in random_story(seed).world.log]
    blocks = Counter(said(event)["cause"] for event in events if event.kind in {"blocked", "unblocked"})
    return Counter(event.kind for event in events) + Counter(event.outcome for event in events) + blocks


@pytest.mark.parametrize(
    "what",
    ["completed", "archived", "reopened", "linked", "unlinked", "late_result", "stop_requested", "review_requested",
     "changes_requested", "crashed", "clean", "spawn_failed", "timed_out", "rate_limited", "interrupted", "lost",
     "config", "failure_budget", "violation_budget", "neutral_budget", "run_budget", "attempt_budget", "limit_raised",
     "reassigned", "worker"],
)  # fmt: skip
def test_the_stories_are_not_idle(told, what):
    """A law that nothing ever tries says nothing: each of these happens in them."""
    assert told[what] >= 3
