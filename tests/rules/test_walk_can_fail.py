"""The walk of `test_every_state` finds a wrong rule: each fault planted here breaks a law within a few acts."""

from __future__ import annotations

from functools import cache

import pytest

from kanban import booking, commands, endings, plan
from ledger.events import NEUTRAL
from projections import budgets as rules
from projections import task as cards
from tests.rules import walk as w

DEPTH = 4
ALL_LAWS = (*w.LAWS, w.raising_blocks_no_more)
ZERO = dict.fromkeys(w.COUNTS, 0)
EVOLVE, BUDGETS, TRIPPED, LIFT, AT_LIMIT = cards.evolve, rules.budgets, rules.tripped, rules.lift, rules.at_limit
FAULTS = {}


def fault(*places):
    """The decorated rule, named for what is wrong with it, is planted at *places*."""

    def plant(wrong):
        FAULTS[wrong.__name__] = (wrong, places)
        return wrong

    return plant


folding = fault((cards, "evolve"), (commands, "evolve"))
counting = fault((rules, "budgets"), (endings, "budgets"))
comparing = fault((rules, "at_limit"))
tripping = fault((endings, "tripped"), (rules, "tripped"))
lifting = fault((booking, "lift"), (plan, "lift"))


def is_exit(event, *outcomes):
    """Whether a run ended so."""
    return event.kind == "exited" and event.outcome in outcomes


# The fold


@folding
def a_crash_is_not_counted(task, event):
    after = EVOLVE(task, event)
    return after._replace(failures=task.failures) if is_exit(event, "crashed") else after


@folding
def a_clean_exit_is_not_spent(task, event):
    after = EVOLVE(task, event)
    return after._replace(spent=task.spent) if is_exit(event, "clean") else after


@folding
def a_crash_keeps_the_streak(task, event):
    after = EVOLVE(task, event)
    return after._replace(streak=task.streak) if is_exit(event, "crashed") else after


@folding
def a_neutral_end_breaks_the_streak(task, event):
    after = EVOLVE(task, event)
    return after._replace(streak=0) if is_exit(event, *NEUTRAL) else after


@folding
def a_neutral_end_is_spent(task, event):
    after = EVOLVE(task, event)
    return after._replace(spent=task.spent + 1) if is_exit(event, "lost") else after


@folding
def a_quota_is_free_for_ever(task, event):
    after = EVOLVE(task, event)
    return after._replace(neutral=task.neutral) if is_exit(event, "rate_limited") else after


@folding
def a_neutral_end_sends_the_card_back(task, event):
    after = EVOLVE(task, event)
    return after._replace(lane="work") if is_exit(event, *NEUTRAL) else after


@folding
def config_holds_until_somebody_raises_a_limit(task, event):
    after = EVOLVE(task, event)
    return after._replace(hold=w.NOT_STICKY) if is_exit(event, "config") else after


@folding
def a_review_starts_an_epoch(task, event):
    after = EVOLVE(task, event)
    return after._replace(**ZERO) if event.kind == "review_requested" else after


@folding
def a_claim_is_not_counted(task, event):
    after = EVOLVE(task, event)
    return after._replace(runs=task.runs) if event.kind == "claimed" else after


@folding
def an_unblock_leaves_the_streak(task, event):
    after = EVOLVE(task, event)
    return after._replace(streak=task.streak) if event.kind == "unblocked" else after


@folding
def an_epoch_keeps_runs_when_nothing_was_spent(task, event):
    after = EVOLVE(task, event)
    unspent = after.runs == 0 and task.spent == 0 and event.kind != "completed"
    return after._replace(runs=task.runs) if unspent else after


@folding
def a_raised_limit_starts_an_epoch(task, event):
    after = EVOLVE(task, event)
    return after._replace(**ZERO) if event.kind == "unblocked" else after


@folding
def somebody_else_inherits_the_counts(task, event):
    after = EVOLVE(task, event)
    return after._replace(**{name: getattr(task, name) for name in w.COUNTS}) if event.kind == "assigned" else after


@folding
def a_completion_keeps_the_counts(task, event):
    after = EVOLVE(task, event)
    return after._replace(failures=task.failures) if event.kind == "completed" else after


@folding
def an_assignment_lifts_the_hold(task, event):
    after = EVOLVE(task, event)
    return after._replace(hold=None) if event.kind == "assigned" else after


@folding
def a_new_hold_does_not_replace_an_old_one(task, event):
    after = EVOLVE(task, event)
    return after._replace(hold=task.hold or after.hold) if event.kind == "blocked" else after


# The limits


def replaced(found, cause, **fields):
    """The budgets *found*, that of *cause* changed."""
    return tuple(budget._replace(**fields) if budget.cause == cause else budget for budget in found)


@counting
def the_cards_own_limit_is_forgotten(task, policy):
    return BUDGETS(task._replace(card=task.card._replace(max_retries=None)), policy)


@counting
def the_cards_own_limit_is_for_quotas_too(task, policy):
    own = task.card.max_retries or policy.neutral_limit
    return replaced(BUDGETS(task, policy), "neutral_budget", limit=own)


@counting
def the_attempt_limit_is_one_short(task, policy):
    return replaced(BUDGETS(task, policy), "attempt_budget", limit=max(1, BUDGETS(task, policy)[4].limit - 1))


@counting
def a_violation_is_lifted_by_a_raised_limit(task, policy):
    return replaced(BUDGETS(task, policy), "violation_budget", sticky=False)


@counting
def the_failure_budget_comes_first(task, policy):
    violation, neutral, run, failure, attempt = BUDGETS(task, policy)
    return failure, violation, neutral, run, attempt


@counting
def the_limit_is_said_to_be_the_policys(task, policy):
    return tuple(budget._replace(limit_source="policy") for budget in BUDGETS(task, policy))


@comparing
def one_more_than_the_limit_is_allowed(task, policy):
    return tuple(budget for budget in BUDGETS(task, policy) if budget.count > budget.limit)


# Tripping


@tripping
def a_lowered_limit_takes_a_card_back(before, after, policy, *, ended_by):
    hold = after.hold is not None and after.hold != before.hold and after.hold.sticky
    return None if hold else next(iter(AT_LIMIT(after, policy)), None)


@tripping
def runs_are_never_looked_at(before, after, policy, *, ended_by):
    found = TRIPPED(before, after, policy, ended_by=ended_by)
    return None if found is not None and found.cause == "run_budget" else found


@tripping
def a_budget_blocks_what_config_holds_already(before, after, policy, *, ended_by):
    return TRIPPED(before, after._replace(hold=before.hold), policy, ended_by=ended_by)


@tripping
def only_exits_are_looked_at(before, after, policy, *, ended_by):
    return TRIPPED(before, after, policy, ended_by=ended_by) if ended_by == "exited" else None


@tripping
def the_limit_falls_when_it_is_raised(before, after, policy, *, ended_by):
    limit = policy if policy.failure_limit < 3 else policy._replace(failure_limit=1)
    return TRIPPED(before, after, limit, ended_by=ended_by)


# Lifting


@lifting
def a_promoter_lifts_every_hold_that_is_not_sticky(task, policy):
    return "limit_raised" if task.hold is not None and not task.hold.sticky else None


@lifting
def the_sweep_lifts_sticky_holds_under_their_limit(task, policy):
    return LIFT(task._replace(hold=task.hold and w.NOT_STICKY), policy)


@lifting
def only_failures_keep_a_hold(task, policy):
    return LIFT(task._replace(streak=0, spent=0, neutral=0, runs=0), policy)


@lifting
def the_policys_limit_lifts_what_the_cards_own_has_set(task, policy):
    return LIFT(task._replace(card=task.card._replace(max_retries=None)), policy)


@lifting
def no_hold_is_ever_lifted(task, policy):
    return None


@cache
def broken(name):
    """The first law that the walk finds broken with that fault planted, and the step; or none."""
    wrong, places = FAULTS[name]
    with pytest.MonkeyPatch.context() as patch:
        for module, attribute in places:
            patch.setattr(module, attribute, wrong)
        return next(w.faults(w.walk(w.STARTS, DEPTH), ALL_LAWS), None)


@pytest.mark.parametrize("name", FAULTS)
def test_the_walk_finds_it(name):
    """Some step within a few acts breaks a law."""
    assert broken(name) is not None


def test_no_law_is_idle():
    """Each law is the first to find some fault."""
    assert {broken(name)[0] for name in FAULTS} == {law.__name__ for law in ALL_LAWS}


def test_the_walk_finds_nothing_where_nothing_is_planted():
    """The rules themselves break no law that near; `test_every_state` goes on from there."""
    assert next(w.faults(w.walk(w.STARTS, DEPTH - 1), ALL_LAWS), None) is None
