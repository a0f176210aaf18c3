"""The board's machine is no decoration: with a fault planted in each part of the program it fails."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test

from kanban import (
    applying,
    at_desk,
    booking,
    claims,
    commands,
    desk,
    endings,
    evidence,
    observe,
    plan,
    snapshot,
    starting,
)
from kanban.desk import Desk
from kanban.plan import AskStop
from ledger import erasing
from projections import leases, read_models
from projections import task as cards
from tests.machines.board_machine import BoardMachine
from tests.machines.served_machine import ServedMachine

EVOLVE, DECIDE_STEP, SEE = cards.evolve, booking.decide_step, observe.see
RENEW, ERASE = leases.renew, erasing.erase
FAULTS = {}


def fault(*places, by):
    """The decorated rule, named for what is wrong with it, is planted at *places*; *by* are the steps that meet it."""

    def plant(wrong):
        FAULTS[wrong.__name__] = (wrong, places, by)
        return wrong

    return plant


def folding(by):
    """A fault of the fold, wherever it is called."""
    return fault((commands, "evolve"), (read_models, "evolve"), (snapshot, "evolve"), by=by)


def focused(*names, machine=BoardMachine):
    """The *machine* with these rules and a few that keep the board moving: a fault is met in few steps."""
    kept = {"a_board_begins", "a_card", "a_round", "a_tick", *names}
    others = {name for name, rule in vars(BoardMachine).items() if hasattr(rule, RULE_MARKER) and name not in kept}
    return type("Focused", (machine,), {name: _no_rule(getattr(BoardMachine, name)) for name in others})


def _no_rule(method):
    def called(self, *arguments, **named):
        return method(self, *arguments, **named)

    return called


# The fold


@folding("wishes")
def a_completion_keeps_the_hold(task, event):
    after = EVOLVE(task, event)
    return after._replace(hold=task.hold) if event.kind == "completed" else after


@folding("a_card_is_tried")
def a_crash_keeps_the_streak(task, event):
    after = EVOLVE(task, event)
    crashed = event.kind == "exited" and event.outcome == "crashed"
    return after._replace(streak=task.streak) if crashed else after


@folding("a_card_is_tried")
def a_quota_costs_nothing(task, event):
    after = EVOLVE(task, event)
    return after._replace(neutral=task.neutral) if event.outcome == "rate_limited" else after


# What is stored


@fault((read_models.Shelf, "_settle"), by="an_operator")
def children_are_not_told_of_a_completion(*_):
    return False


@fault((Desk, "_keeps_processes"), by="a_worker_lingers")
def a_verb_lets_the_lease_go(*_):
    return False


@fault((desk, "erase"), by="words_are_redacted")
def a_redaction_leaves_the_words(*_):
    return None


@fault((desk, "erase"), by="words_are_redacted")
def a_redaction_takes_the_words_of_its_neighbour_too(tx, board, recorded):
    for event in [each for each in recorded if each.kind == "redacted"]:
        for named in (event.facts["redacts"], event.facts["redacts"] - 1):
            ERASE(tx, board, [event._replace(facts_text=f'{{"redacts":{named}}}')])


@fault((leases, "renew"), by="time_passes")
def a_renewal_is_not_written(tx, board, task, run, *, until, beat=None):
    del until
    if beat is not None:
        RENEW(tx, board, task, run, until=beat, beat=beat)


# The plan


@fault((plan, "held_by_cap"), (plan, "_full"), by="a_card")
def a_sweep_ignores_the_caps(*_):
    return None


@fault((applying, "decide_step"), by="a_pause")
def a_stop_is_not_written(view, step, actor, observer):
    return booking.NOTHING if isinstance(step, AskStop) else DECIDE_STEP(view, step, actor, observer)


@fault((snapshot, "foreseen"), by="a_worker_ends")
def a_dry_run_looks_no_further_than_the_bookings(*_):
    return {}


# The world


@fault((observe, "see"), by="a_group_falls_apart")
def an_orphaned_group_is_not_seen(board, run, host, home, table):
    seen = SEE(board, run, host, home, table)
    return seen._replace(members=()) if seen.presence == "gone" else seen


@fault((evidence, "_within"), by="a_worker_ends")
def the_record_of_another_run_is_believed(value, *_):
    return isinstance(value, int)


@fault((starting, "may_bind"), by="a_pause_comes_between")
def a_pause_does_not_keep_a_worker_from_starting(*_):
    return True


@fault((starting, "_bind"), by="a_card")
def a_gate_opens_before_it_is_bound(*_):
    return {}


# Wishes, claims and transactions


@fault((endings, "_wishes"), by="wishes")
def wishes_are_dropped(_):
    return ()


@fault((endings, "_wishes"), by="wishes")
def only_the_last_wish_counts(run):
    return [stop.position for stop in run.stops if stop.wish][-1:]


@fault((plan, "_held"), by="a_pause")
def a_sweep_asks_for_nothing_but_caps(*_):
    return None, None


@fault((claims._Ending, "__contains__"), by="a_worker_lingers")
def a_claim_by_hand_ignores_what_is_ending(*_):
    return False


@fault((at_desk, "writing"), by="a_sweep_dies")
@contextmanager
def half_a_transaction_is_committed(engine):
    with engine.connect().execution_options(immediate=True, writes=True) as tx, tx.begin() as whole:
        try:
            yield tx
        finally:
            whole.commit()


FEW = settings(
    max_examples=60, stateful_step_count=25, deadline=None, database=None, derandomize=True,
    phases=[Phase.generate], report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
)  # fmt: skip


def planted(name, monkeypatch):
    """Plant the fault of that *name*; which steps meet it."""
    wrong, places, by = FAULTS[name]
    for place, attribute in places:
        monkeypatch.setattr(place, attribute, wrong)
    return by


@pytest.mark.parametrize("name", FAULTS)
def test_the_machine_catches(name, monkeypatch):
    """Every fault breaks something that the machine checks, within few examples."""
    by = planted(name, monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(focused(by), settings=FEW)


@pytest.mark.parametrize("name", ["half_a_transaction_is_committed"])
def test_the_machine_on_a_server_catches(name, monkeypatch):
    """It sees what is wrong with a store that has a server, too."""
    by = planted(name, monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(focused(by, machine=ServedMachine), settings=FEW)
