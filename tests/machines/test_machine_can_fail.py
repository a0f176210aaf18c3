"""The board's machine is no decoration: with a fault planted in each part of the program it fails."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kanban import booking, claims, commands, desk, endings, evidence, observe, plan, snapshot, starting, sweep
from kanban.desk import Desk
from kanban.plan import AskStop
from projections import leases, read_models
from projections import task as cards
from tests.machines.board_machine import BoardMachine

EVOLVE, DECIDE_STEP, SEE, RENEW = cards.evolve, booking.decide_step, observe.see, leases.renew
FAULTS = {}


def fault(*places):
    """The decorated rule, named for what is wrong with it, is planted at *places*."""

    def plant(wrong):
        FAULTS[wrong.__name__] = (wrong, places)
        return wrong

    return plant


folding = fault((commands, "evolve"), (read_models, "evolve"), (snapshot, "evolve"))


# The fold


@folding
def a_completion_keeps_the_hold(task, event):
    after = EVOLVE(task, event)
    return after._replace(hold=task.hold) if event.kind == "completed" else after


@folding
def a_crash_keeps_the_streak(task, event):
    after = EVOLVE(task, event)
    crashed = event.kind == "exited" and event.outcome == "crashed"
    return after._replace(streak=task.streak) if crashed else after


@folding
def a_quota_costs_nothing(task, event):
    after = EVOLVE(task, event)
    return after._replace(neutral=task.neutral) if event.outcome == "rate_limited" else after


# What is stored


@fault((read_models, "_settle"))
def children_are_not_told_of_a_completion(*_):
    return None


@fault((Desk, "_keeps_processes"))
def a_verb_lets_the_lease_go(*_):
    return False


@fault((leases, "renew"))
def a_renewal_is_not_written(tx, board, task, run, *, until, beat=None):
    del until
    if beat is not None:
        RENEW(tx, board, task, run, until=beat, beat=beat)


# The plan


@fault((plan, "held_by_cap"), (plan, "_full"))
def a_sweep_ignores_the_caps(*_):
    return None


@fault((sweep, "decide_step"))
def a_stop_is_not_written(view, step, actor, observer):
    return booking.NOTHING if isinstance(step, AskStop) else DECIDE_STEP(view, step, actor, observer)


@fault((snapshot, "foreseen"))
def a_dry_run_looks_no_further_than_the_bookings(*_):
    return {}


# The world


@fault((observe, "see"))
def an_orphaned_group_is_not_seen(board, run, host, home, table):
    seen = SEE(board, run, host, home, table)
    return seen._replace(members=()) if seen.presence == "gone" else seen


@fault((evidence, "_within"))
def the_record_of_another_run_is_believed(value, *_):
    return isinstance(value, int)


@fault((starting, "may_bind"))
def a_pause_does_not_keep_a_worker_from_starting(*_):
    return True


@fault((starting, "_bind"))
def a_gate_opens_before_it_is_bound(*_):
    return {}


# Wishes, claims and transactions


@fault((endings, "_wishes"))
def wishes_are_dropped(_):
    return ()


@fault((endings, "_wishes"))
def only_the_last_wish_counts(run):
    return [stop.position for stop in run.stops if stop.wish][-1:]


@fault((plan, "_held"))
def a_sweep_asks_for_nothing_but_caps(*_):
    return None, None


@fault((claims, "_ending_cards"))
def a_claim_by_hand_ignores_what_is_ending(*_):
    return frozenset()


@fault((desk, "writing"))
@contextmanager
def half_a_transaction_is_committed(engine):
    with engine.connect().execution_options(immediate=True) as tx, tx.begin() as whole:
        try:
            yield tx
        finally:
            whole.commit()


@pytest.mark.parametrize("name", FAULTS)
def test_the_machine_catches(name, monkeypatch):
    """Every fault breaks something that the machine checks, within few examples."""
    wrong, places = FAULTS[name]
    for place, attribute in places:
        monkeypatch.setattr(place, attribute, wrong)
    few = settings(
        max_examples=60, stateful_step_count=25, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    with pytest.raises(AssertionError):
        run_state_machine_as_test(BoardMachine, settings=few)
