"""RULES §6: what a run's end is booked as, row by row of the table, and which row comes first."""

from __future__ import annotations

import pytest

from kanban.outcome import Circumstance, Verb, Witnessed, outcome_of
from ledger.events import Outcome
from projections.run import Run, Stop
from tests import given

GONE, REBOOTED = Circumstance.GONE, Circumstance.REBOOTED
NEVER_BOUND, LEASE_OVER = Circumstance.NEVER_BOUND, Circumstance.LEASE_OVER
RUN = Run("t_a", 1, by="spawn")


def asked(*causes):
    """Requests to stop, in the order of their positions."""
    return tuple(Stop(4 + step, cause, given.NOW, wish=False) for step, cause in enumerate(causes))


def booked(code=None, signal=None, *, quota=False, how=GONE, **run):
    """What that end is booked as; without code and signal nothing bears witness."""
    witnessed = None if code is signal is None else Witnessed(code, signal, quota)
    return outcome_of(witnessed, how, RUN._replace(**run))


# The rows


def test_75_is_a_quota():
    """RULES §6: 75 → rate_limited."""
    assert booked(75) is Outcome.RATE_LIMITED


def test_78_is_a_configuration_that_is_wrong():
    """RULES §6: 78 → config."""
    assert booked(78) is Outcome.CONFIG


@pytest.mark.parametrize(
    ("cause", "outcome"),
    [("max_runtime", "timed_out"), ("stalled", "stalled"), ("operator", "interrupted"), ("drain", "interrupted")],
)
@pytest.mark.parametrize("code", [None, 0, 1, 5, 127, 143])
def test_a_run_that_was_asked_to_stop_ended_for_that_cause(cause, outcome, code):
    """RULES §6: a `stop_requested` for this run stands before."""
    assert booked(code, stops=asked(cause)) == outcome


@pytest.mark.parametrize("causes", [("stalled", "operator"), ("stalled", "max_runtime"), ("stalled", "drain")])
def test_the_first_cause_counts(causes):
    """RULES §6: the first cause counts."""
    assert booked(0, stops=asked(*causes)) is Outcome.STALLED


@pytest.mark.parametrize("code", [0, 1])
def test_a_quota_pattern_in_the_last_lines_is_a_quota(code):
    """RULES §6: code 0 or 1, and a quota pattern of the claim matches."""
    assert booked(code, quota=True) is Outcome.RATE_LIMITED


@pytest.mark.parametrize(("code", "signal"), [(2, None), (255, None), (None, 9)])
def test_a_quota_pattern_says_nothing_of_other_ends(code, signal):
    """RULES §6: code 0 or 1 only."""
    assert booked(code, signal, quota=True) is Outcome.CRASHED


@pytest.mark.parametrize("lane", ["work", "review"])
def test_a_clean_exit_completes_where_the_claim_says_so(lane):
    """RULES §6: 0, and on_success is `complete`, in any lane."""
    assert booked(0, on_success="complete", lane=lane) is Verb.COMPLETE


def test_a_clean_exit_asks_for_a_review_where_the_claim_says_so():
    """RULES §6: 0, and on_success is `review`, in lane work."""
    assert booked(0, on_success="review") is Verb.REVIEW


def test_a_reviewer_that_leaves_without_a_verdict_is_clean():
    """RULES §6: on_success `review` counts in lane work only."""
    assert booked(0, on_success="review", lane="review") is Outcome.CLEAN


def test_0_is_clean():
    """RULES §6: 0 → clean."""
    assert booked(0) is Outcome.CLEAN


@pytest.mark.parametrize(("code", "signal"), [(129, None), (130, None), (143, None), (None, 1), (None, 2), (None, 15)])
def test_what_somebody_asked_to_stop_is_interrupted(code, signal):
    """RULES §6: 129, 130, 143, or signals HUP, INT, TERM → interrupted."""
    assert booked(code, signal) is Outcome.INTERRUPTED


@pytest.mark.parametrize("code", [126, 127])
def test_what_could_not_be_started_is_a_failed_spawn(code):
    """RULES §6: 126, 127 → spawn_failed."""
    assert booked(code) is Outcome.SPAWN_FAILED


def test_a_spawn_that_was_never_bound_is_interrupted():
    """RULES §6: claimed by spawn, never bound, launch grace over → interrupted."""
    assert booked(how=NEVER_BOUND) is Outcome.INTERRUPTED


@pytest.mark.parametrize("by", ["hand", "spawn"])
def test_what_nobody_could_ask_is_lost(by):
    """RULES §6: by hand and not bound, or host that cannot be asked: lease + grace over → lost."""
    assert booked(how=LEASE_OVER, by=by) is Outcome.LOST


@pytest.mark.parametrize(
    ("code", "signal"),
    [(1, None), (2, None), (74, None), (76, None), (77, None), (79, None), (125, None), (128, None), (131, None),
     (137, None), (142, None), (144, None), (255, None), (None, 3), (None, 6), (None, 9), (None, 11), (None, 14)],
)  # fmt: skip
def test_any_other_code_or_signal_is_a_crash(code, signal):
    """RULES §6: any other code or signal → crashed."""
    assert booked(code, signal) is Outcome.CRASHED


def test_a_signal_is_not_the_code_of_that_number():
    """RULES §6: 75 and 78 are codes."""
    assert booked(None, 75) is Outcome.CRASHED


def test_a_reboot_without_a_witness_is_interrupted():
    """RULES §6: none, host booted since → interrupted."""
    assert booked(how=REBOOTED) is Outcome.INTERRUPTED


def test_a_process_that_is_gone_without_a_witness_crashed():
    """RULES §6: none, same boot, process gone → crashed."""
    assert booked(how=GONE) is Outcome.CRASHED


# Which row comes first

FIRST = {
    "75 before a stop": (booked(75, stops=asked("max_runtime")), Outcome.RATE_LIMITED),
    "78 before a stop": (booked(78, stops=asked("operator")), Outcome.CONFIG),
    "a stop before a quota pattern": (booked(1, quota=True, stops=asked("stalled")), Outcome.STALLED),
    "a stop before on_success": (booked(0, on_success="complete", stops=asked("operator")), Outcome.INTERRUPTED),
    "a stop before clean": (booked(0, stops=asked("max_runtime")), Outcome.TIMED_OUT),
    "a stop before asked to stop": (booked(143, stops=asked("max_runtime")), Outcome.TIMED_OUT),
    "a stop before a failed spawn": (booked(127, stops=asked("max_runtime")), Outcome.TIMED_OUT),
    "a stop before never bound": (booked(how=NEVER_BOUND, stops=asked("max_runtime")), Outcome.TIMED_OUT),
    "a stop before lost": (booked(how=LEASE_OVER, stops=asked("max_runtime")), Outcome.TIMED_OUT),
    "a stop before a reboot": (booked(how=REBOOTED, stops=asked("max_runtime")), Outcome.TIMED_OUT),
    "a stop before gone": (booked(how=GONE, stops=asked("operator")), Outcome.INTERRUPTED),
    "a quota pattern before on_success": (booked(0, quota=True, on_success="complete"), Outcome.RATE_LIMITED),
    "a quota pattern before clean": (booked(0, quota=True), Outcome.RATE_LIMITED),
    "on_success before clean": (booked(0, on_success="review"), Verb.REVIEW),
    "a failed spawn before never bound": (booked(127, how=NEVER_BOUND), Outcome.SPAWN_FAILED),
    "asked to stop before lost": (booked(143, how=LEASE_OVER), Outcome.INTERRUPTED),
}


@pytest.mark.parametrize("rows", FIRST)
def test_where_two_rows_match_the_first_counts(rows):
    """RULES §6: the order of the table."""
    found, expected = FIRST[rows]
    assert found is expected


@pytest.mark.parametrize("how", Circumstance)
@pytest.mark.parametrize("code", [75, 78, 0, 126, 127, 129, 130, 143])
def test_a_witness_says_the_same_on_every_path(code, how):
    """RULES §6: the same for dead worker, expired lease, overdue run and operator's stop."""
    assert booked(code, how=how) == booked(code)
