"""The fold of one run: who claimed it, what has it, who asked it to stop, what it used, how it ended."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ledger.events import ENDINGS, Outcome
from ledger.ids import lock_hash
from projections.run import Binding, Run, Stop, evolve_run
from tests import given

ENDS = {
    "exited": given.exited(1, "crashed", code=7, evidence="exit_record"),
    "completed": given.completed(1, "ok"),
    "review_requested": given.review_requested(1),
    "changes_requested": given.changes_requested(1),
    "blocked": given.blocked(1, "worker"),
}

RUNS = st.integers(1, 3)
ODD = st.one_of(
    st.builds(given.claimed, RUNS),
    st.builds(given.exited, RUNS, st.sampled_from(sorted(set(Outcome) - {Outcome.OK, Outcome.FAIL}))),
    st.builds(given.completed, st.none() | RUNS),
    st.builds(given.review_requested, RUNS),
    st.builds(given.changes_requested, st.none() | RUNS),
    st.builds(given.blocked, st.none() | RUNS),
    st.sampled_from([given.reopened(), given.archived(), given.unblocked(), given.late_result()]),
)
"""Also what no decision comes to, but a forged or foreign log may hold."""


def fold(*events, start=None):
    """The run that *events* make, the first of them at `given.NOW`."""
    return reduce(evolve_run, given.history(*events), start)


def at(step):
    """The instant of the event at position *step*."""
    return given.NOW + (step - 1) * given.SECOND


def test_a_claim_opens_a_run_with_all_that_it_says():
    """RULES §2: the only way to open a run."""
    claim = given.claimed(
        3, by="hand", lane="review", on_success="review", reviewer="eve", result="file", quota=("q",), lease_until=9
    )
    assert fold(claim) == Run(
        "t_a",
        3,
        by="hand",
        lock_hash=lock_hash("secret"),
        host="node-1",
        boot="boot-1",
        worker="builder",
        lane="review",
        lease_until=9,
        max_runtime=21_600,
        on_success="review",
        reviewer="eve",
        result="file",
        quota=("q",),
        claimed_at=given.NOW,
        claimed_position=1,
        progress_at=given.NOW,
    )


@pytest.mark.parametrize("kind", sorted({*ENDINGS, "worker_bound", "progressed", "stop_requested", "late_result"}))
def test_a_run_that_was_never_claimed_is_made_by_nothing_else(kind):
    """RULES §2: `claimed` is the only way to open a run."""
    assert fold(given.EXAMPLES[kind]) is None


@pytest.mark.parametrize("role", ["group", "turns"])
def test_a_process_has_the_run_in_its_role(role):
    """RULES §2: role `group` or `turns`."""
    run = fold(given.claimed(), given.worker_bound(role=role, pid=5, group=0))
    assert getattr(run, role) == Binding(5, 777, 0, "node-1", "boot-1", "pid:1")


@pytest.mark.parametrize("role", ["group", "turns"])
def test_the_first_process_in_a_role_keeps_it(role):
    """RULES §2: at most one of each."""
    run = fold(given.claimed(), given.worker_bound(role=role, pid=5), given.worker_bound(role=role, pid=6))
    assert getattr(run, role).pid == 5


@pytest.mark.parametrize("event", [given.worker_bound(), given.worker_bound(role="turns"), given.progressed()])
def test_binding_and_progress_are_signs_of_life(event):
    """RULES §7.2: stalled is no `claimed`, `worker_bound` or `progressed` for progress_timeout."""
    assert fold(given.claimed(), event).progress_at == at(2)


def test_a_request_to_stop_is_no_sign_of_life():
    """RULES §7.2."""
    assert fold(given.claimed(), given.stop_requested()).progress_at == at(1)


def test_stops_are_kept_in_order_with_their_wishes():
    """RULES §6: the first cause counts; §8: requests queue."""
    run = fold(given.claimed(), given.stop_requested(1, "max_runtime"), given.stop_requested(1, wish=given.wish()))
    assert run.stops == (Stop(2, "max_runtime", at(2), wish=False), Stop(3, "operator", at(3), wish=True))


def test_the_first_stop_starts_the_grace():
    """RULES §7.2: KILL after the grace."""
    assert fold(given.claimed(), given.stop_requested(), given.stop_requested()).stop_at == at(2)


def test_a_run_that_nobody_asked_has_no_stop():
    """RULES §7.2."""
    assert fold(given.claimed()).stop_at is None


def test_a_new_max_runtime_holds_for_the_open_run_too():
    """RULES §2: `edited`."""
    assert fold(given.claimed(), given.edited(max_runtime=60)).max_runtime == 60


@pytest.mark.parametrize("edit", [given.edited(priority=1), given.edited(max_runtime=None)])
def test_another_edit_leaves_the_run_its_runtime(edit):
    """RULES §2: an unset limit of the card does not shorten a run that is under way."""
    assert fold(given.claimed(), edit).max_runtime == 21_600


@pytest.mark.parametrize("kind", sorted(ENDINGS))
def test_a_run_is_ended_by_exactly_one_event(kind):
    """RULES §1: ended by exactly one event."""
    run = fold(given.claimed(), ENDS[kind])
    assert (run.open, run.ended_by, run.ended_at, run.ended_position) == (False, kind, at(2), 2)


@pytest.mark.parametrize("kind", sorted(ENDINGS))
def test_a_second_end_changes_nothing(kind):
    """RULES §6: exit codes count only while the run is open."""
    ended = fold(given.claimed(), given.completed(1, "ok"))
    assert fold(ENDS[kind], start=ended) == ended


@drawn(st.lists(ODD, max_size=12))
def test_the_run_of_a_card_is_open_in_any_log_however_odd(events):
    """So the cards that run are found among those that have an open run."""
    told = given.history(*events)
    card = given.fold(told)
    if card.run is not None:
        run = reduce(evolve_run, [event for event in told if event.run == card.run], None)
        assert run.open


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("exited", "crashed"), ("completed", "ok"), ("review_requested", "review_requested"), ("blocked", "blocked")],
)
def test_the_outcome_of_a_run_is_its_class_or_the_verb_that_ended_it(kind, outcome):
    """RULES §1: outcome."""
    assert fold(given.claimed(), ENDS[kind]).outcome == outcome


def test_an_exit_keeps_its_evidence():
    """RULES §6: what is known of how a worker ended."""
    run = fold(given.claimed(), given.exited(1, "crashed", code=7, signal=9, evidence="trailer"))
    assert (run.code, run.signal, run.evidence) == (7, 9, "trailer")


def test_usage_adds_up_over_a_run():
    """RULES §2: progress, completion and a late result say what was used since the last time."""
    run = fold(
        given.claimed(),
        given.progressed(tokens=10, cost="0.10"),
        given.progressed(tokens=5, cost="0.20"),
        given.completed(1, usage=given.usage(1, "0.05")),
        given.late_result(1, usage=given.usage(2, None)),
    )
    assert (run.tokens, run.cost) == (18, "0.35")


def test_usage_that_nobody_said_stays_unknown():
    """RULES §2: unknown is none, never 0."""
    run = fold(given.claimed(), given.progressed(), given.completed(1))
    assert (run.tokens, run.cost) == (None, None)


def test_one_kind_of_usage_does_not_invent_the_other():
    """RULES §2: unknown is none, never 0."""
    run = fold(given.claimed(), given.progressed(tokens=3), given.progressed(cost="1.5"))
    assert (run.tokens, run.cost) == (3, "1.5")


def test_a_late_result_is_remembered_with_the_run():
    """RULES §2: kept, never lost, never accepted by itself."""
    run = fold(given.claimed(), given.exited(), given.late_result())
    assert (run.late_position, run.ended_by) == (3, "exited")


def test_other_words_about_the_run_leave_it_alone():
    """Evolve is total."""
    run = fold(given.claimed())
    assert fold(given.violation(1), start=run) == run
