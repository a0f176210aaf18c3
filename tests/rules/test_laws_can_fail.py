"""Each law is shown to catch a fault: one is planted, and the law must fail on stories where it holds without it."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from kanban import admission, booking, endings
from ledger import ids
from ledger.events import NEUTRAL, Outcome
from ledger.recorded import Draft
from projections import budgets, graph, task
from projections.run import evolve_run
from tests.rules.laws import LAWS, random_story

SEEDS = range(300)
ALL = sorted(LAWS)


def plant(monkeypatch, original, faulty):
    """Put *faulty* in the place of *original* wherever a module knows it."""
    name, found = original.__name__, 0
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(("kanban", "projections", "tests.rules", "ledger")):
            for known in [key for key, value in vars(module).items() if value is original]:
                monkeypatch.setattr(module, known, faulty)
                found += 1
    assert found, name


def fails(law, seeds=SEEDS):
    """Whether *law* fails on one of the stories."""
    for seed in seeds:
        try:
            LAWS[law](random_story(seed))
        except AssertionError:
            return True
    return False


# The faults


def evolving(change):
    """`evolve`, and then *change*(before, event, after)."""
    honest = task.evolve

    def faulty(before, event):
        return change(before, event, honest(before, event))

    return honest, faulty


def clean_raises_failures():
    """A clean exit counts as a failure too."""
    return evolving(
        lambda _, event, after: after._replace(failures=after.failures + 1) if event.outcome == Outcome.CLEAN else after
    )


def neutral_resets_the_streak():
    """A neutral end ends the row of clean exits."""
    return evolving(lambda _, event, after: after._replace(streak=0) if event.outcome in NEUTRAL else after)


def neutral_counts_as_spent():
    """A neutral end uses up an attempt."""
    return evolving(
        lambda _, event, after: after._replace(spent=after.spent + 1) if event.outcome in NEUTRAL else after
    )


def a_claim_forgets_the_cooldown():
    """`claimed` clears what the table leaves."""
    return evolving(lambda _, event, after: after._replace(not_before=None) if event.kind == "claimed" else after)


def a_claim_is_not_counted():
    """`claimed` does not raise `runs`."""
    return evolving(lambda before, event, after: after._replace(runs=before.runs) if event.kind == "claimed" else after)


def the_fold_reads_a_global():
    """How often it was called decides."""
    calls = count()
    return evolving(
        lambda _, event, after: after._replace(streak=next(calls) % 97) if event.kind == "commented" else after
    )


def an_edit_lifts_a_sticky_hold():
    """Something else than a person's unblock ends a sticky hold."""
    return evolving(lambda _, event, after: after._replace(hold=None) if event.kind == "edited" else after)


def an_assignment_lifts_a_hold():
    """`assigned` to somebody else lifts: the table says `=`."""
    return evolving(lambda _, event, after: after._replace(hold=None) if event.kind == "assigned" else after)


def nothing_trips():
    """No budget ever names a hold."""
    return budgets.tripped, lambda *_, **__: None


def only_the_run_budget_is_forgotten():
    """The one budget that every chain comes to is never looked at."""
    honest = budgets.tripped

    def faulty(before, after, policy, *, ended_by):
        found = honest(before, after, policy, ended_by=ended_by)
        return None if found is not None and found.cause == "run_budget" else found

    return honest, faulty


def lift_ignores_attempts():
    """A hold lifts while the attempt budget is at its limit."""

    def faulty(card, policy):
        if card.hold is None or card.hold.sticky:
            return None
        full = [each for each in budgets.at_limit(card, policy) if each.cause != "attempt_budget"]
        return None if full else "limit_raised"

    return budgets.lift, faulty


def lift_asks_nothing():
    """A hold that is not sticky lifts in the tick that set it."""
    return budgets.lift, lambda card, _: None if card.hold is None or card.hold.sticky else "limit_raised"


def lift_takes_sticky_holds():
    """The sweep lifts what only a person may."""
    return budgets.lift, lambda card, _: None if card.hold is None else "limit_raised"


def a_hold_does_not_keep_a_card():
    """A card under a hold can be claimed."""
    honest = task.claimable
    return honest, lambda card, now: honest(card._replace(hold=None), now)


def a_cooldown_does_not_keep_a_card():
    """`not before` is not looked at."""
    honest = task.claimable
    return honest, lambda card, now: honest(card._replace(not_before=None), now)


def a_parent_does_not_keep_a_card():
    """Open parents are not looked at."""
    honest = task.claimable
    return honest, lambda card, now: honest(card._replace(open_parents=0), now)


def triage_does_not_keep_a_card():
    """Lane triage is not looked at."""
    honest = task.claimable
    return honest, lambda card, now: honest(card._replace(lane="work"), now)


def any_outcome_satisfies():
    """A parent that failed satisfies a link that requires `ok`."""
    return graph.satisfied, lambda outcome, _: outcome is not None


def one_lock_for_all():
    """Every run gets the same token."""
    return ids.lock, lambda: "the lock"


def runs_are_counted_by_epoch():
    """The number of a run starts again with the epoch."""
    honest = admission.claimed

    def faulty(view, card, **how):
        return honest(view, card._replace(last_run=card.runs), **how)

    return honest, faulty


def a_running_card_is_claimed_again():
    """Nobody asks whether a run is open."""
    return admission.refuse, lambda *_, **__: None


def the_observer_is_in_the_words():
    """Whoever books a death leaves a trace of itself."""
    honest = booking._exited

    def faulty(view, card, book, outcome, observer):
        event = honest(view, card, book, outcome, observer)
        return event.model_copy(update={"last_words": observer})

    return honest, faulty


def the_observer_decides_when():
    """Whoever books a death has its own cooldown."""
    honest = booking._exited

    def faulty(view, card, book, outcome, observer):
        event = honest(view, card, book, outcome, observer)
        return event.model_copy(update={"not_before": (event.not_before or 0) + len(observer) + int(observer[-1])})

    return honest, faulty


def the_end_is_booked_twice():
    """An end is written once more by what follows it."""
    honest = endings.ending

    def faulty(view, run, first, actor):
        drafts, idle = honest(view, run, first, actor)
        return [*drafts, Draft.of(run.task, first, actor)], idle

    return honest, faulty


def the_fold_of_a_run_reads_a_global():
    """How often it was called decides."""
    calls, honest = count(), evolve_run

    def faulty(run, event):
        after = honest(run, event)
        return after._replace(claimed_at=next(calls)) if after is not None and event.kind == "worker_bound" else after

    return honest, faulty


CAUGHT = [
    (clean_raises_failures, "counters_are_what_the_log_says"),
    (neutral_resets_the_streak, "counters_are_what_the_log_says"),
    (neutral_resets_the_streak, "neutral_ends_move_only_neutral"),
    (neutral_counts_as_spent, "neutral_ends_move_only_neutral"),
    (a_claim_forgets_the_cooldown, "neutral_ends_move_only_neutral"),
    (nothing_trips, "no_count_exceeds_its_limit"),
    (nothing_trips, "no_card_runs_on_by_itself"),
    (only_the_run_budget_is_forgotten, "no_count_exceeds_its_limit"),
    (only_the_run_budget_is_forgotten, "no_card_runs_on_by_itself"),
    (a_claim_is_not_counted, "no_card_runs_on_by_itself"),
    (lift_ignores_attempts, "no_count_exceeds_its_limit"),
    (lift_ignores_attempts, "no_hold_lifts_by_itself"),
    (lift_asks_nothing, "no_hold_lifts_by_itself"),
    (lift_asks_nothing, "no_count_exceeds_its_limit"),
    (lift_takes_sticky_holds, "a_sticky_hold_ends_with_a_person"),
    (an_edit_lifts_a_sticky_hold, "a_sticky_hold_ends_with_a_person"),
    (an_assignment_lifts_a_hold, "a_sticky_hold_ends_with_a_person"),
    (an_edit_lifts_a_sticky_hold, "no_run_opens_under_a_hold"),
    (a_hold_does_not_keep_a_card, "no_run_opens_under_a_hold"),
    (a_hold_does_not_keep_a_card, "a_card_is_claimable_when_the_rules_say_so"),
    (a_cooldown_does_not_keep_a_card, "a_card_is_claimable_when_the_rules_say_so"),
    (a_parent_does_not_keep_a_card, "a_card_is_claimable_when_the_rules_say_so"),
    (triage_does_not_keep_a_card, "a_card_is_claimable_when_the_rules_say_so"),
    (any_outcome_satisfies, "a_card_is_claimable_when_the_rules_say_so"),
    (any_outcome_satisfies, "the_board_is_the_sum_of_its_cards"),
    (the_fold_reads_a_global, "folding_does_not_depend_on_the_cut"),
    (the_fold_reads_a_global, "the_board_is_the_sum_of_its_cards"),
    (the_fold_of_a_run_reads_a_global, "the_board_is_the_sum_of_its_cards"),
    (one_lock_for_all, "runs_are_numbered_and_locks_are_never_used_again"),
    (runs_are_counted_by_epoch, "runs_are_numbered_and_locks_are_never_used_again"),
    (a_running_card_is_claimed_again, "never_two_live_runs"),
    (the_end_is_booked_twice, "never_two_live_runs"),
    (the_observer_is_in_the_words, "the_same_death_is_booked_alike"),
    (the_observer_decides_when, "the_same_death_is_booked_alike"),
]


@pytest.mark.parametrize(("fault", "law"), CAUGHT, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_the_law_catches_the_fault(monkeypatch, fault, law):
    """A property must be shown to catch a planted fault."""
    plant(monkeypatch, *fault())
    assert fails(law)


@pytest.mark.parametrize("law", ALL)
def test_without_a_fault_the_law_holds_on_the_same_stories(law):
    """It is the fault that is caught."""
    assert not fails(law, range(15))


def test_every_law_is_shown_to_fail():
    """A law without a planted fault may be one that cannot fail."""
    assert {law for _, law in CAUGHT} == set(ALL) - {"the_log_has_no_gaps"}


def test_a_gap_in_the_log_is_seen():
    """RULES §2: the log is the harness's own here: a position that is missing must not pass."""
    story = random_story(3)
    del story.world.log[len(story.world.log) // 2]
    with pytest.raises(AssertionError):
        LAWS["the_log_has_no_gaps"](story)
