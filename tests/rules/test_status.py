"""Status is a fact: the first condition of RULES §3 that holds, computed from the card's state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from projections.task import Hold, Task, claimable, status
from tests import given

HOLD = Hold("failure_budget", None, sticky=False, count=2, limit=2, limit_source="policy", position=3)
ALL_AT_ONCE = Task(
    "t_a",
    archived=True,
    outcome="ok",
    run=1,
    hold=HOLD,
    lane="triage",
    open_parents=2,
    scheduled=given.NOW,
)
"""Every condition of the table holds; each row takes the ones above it away."""
ROWS = {
    "archived": ALL_AT_ONCE,
    "done": ALL_AT_ONCE._replace(archived=False),
    "running": ALL_AT_ONCE._replace(archived=False, outcome=None),
    "blocked": ALL_AT_ONCE._replace(archived=False, outcome=None, run=None),
    "triage": ALL_AT_ONCE._replace(archived=False, outcome=None, run=None, hold=None),
    "todo": Task("t_a", lane="review", open_parents=2, scheduled=given.NOW),
    "scheduled": Task("t_a", lane="review", scheduled=given.NOW),
    "review": Task("t_a", lane="review"),
    "ready": Task("t_a"),
}


@pytest.mark.parametrize("expected", ROWS)
def test_status_is_the_first_condition_that_holds(expected):
    """RULES §3: the rows above are false, this one and all below it are true."""
    assert status(ROWS[expected]) == expected


@pytest.mark.parametrize(
    ("expected", "events"),
    [
        ("archived", [given.completed(None), given.archived()]),
        ("done", [given.archived(), given.reopened(), given.completed(None, "fail")]),
        ("running", [given.claimed()]),
        ("blocked", [given.blocked()]),
        ("triage", [given.edited(lane="triage")]),
        ("scheduled", [given.scheduled()]),
        ("review", [given.claimed(), given.review_requested()]),
        ("ready", [given.completed(None), given.archived(), given.reopened()]),
    ],
)
def test_status_follows_from_the_log_alone(expected, events):
    """RULES §3: no event sets a status; the fold's inputs do."""
    assert status(given.fold([given.created(), *events])) == expected


def test_a_claim_consumes_the_schedule():
    """RULES §3 row 7: in force until a claim consumed its time."""
    task = given.fold([given.created(), given.scheduled(), given.claimed(), given.exited()])
    assert status(task) == "ready"


def test_a_schedule_stays_in_force_when_its_time_has_come():
    """RULES §3: time never enters a fold."""
    assert status(given.fold([given.created(), given.scheduled(0)])) == "scheduled"


@pytest.mark.parametrize("name", ["archived", "done", "running", "blocked", "triage", "todo"])
def test_a_card_that_waits_or_is_over_is_not_claimable(name):
    """RULES §3: claimable asks for none of the first six rows."""
    assert not claimable(ROWS[name], 2 * given.NOW)


@pytest.mark.parametrize("name", ["scheduled", "review", "ready"])
def test_a_card_that_waits_for_nothing_is_claimable(name):
    """RULES §3: at the very instant of its schedule, too."""
    assert claimable(ROWS[name], given.NOW)


def test_a_scheduled_card_is_not_claimable_before_its_time():
    """RULES §3: `scheduled` ≤ t."""
    assert not claimable(Task("t_a", scheduled=given.NOW), given.NOW - 1)


def test_a_cooling_card_is_not_claimable_before_its_time():
    """RULES §3: `not before` ≤ t."""
    assert not claimable(Task("t_a", not_before=given.NOW), given.NOW - 1)


def test_a_cooled_card_is_claimable_at_that_instant():
    """RULES §3: `not before` ≤ t."""
    assert claimable(Task("t_a", not_before=given.NOW), given.NOW)


def test_both_times_must_have_come():
    """RULES §3: the later of schedule and cooldown decides."""
    assert not claimable(Task("t_a", scheduled=given.NOW - 9, not_before=given.NOW + 9), given.NOW)


def test_a_sticky_hold_blocks_as_one_that_is_not():
    """RULES §3 row 4: a hold is a hold."""
    assert status(Task("t_a", hold=replace(HOLD, sticky=True))) == "blocked"


@pytest.mark.parametrize(("lane", "worker"), [("work", "ann"), ("triage", "ann"), ("review", "bob")])
def test_the_worker_of_a_card_is_its_reviewer_in_lane_review_only(lane, worker):
    """RULES §1: worker of a card."""
    card = Task("t_a").card._replace(assignee="ann", reviewer="bob")
    assert Task("t_a", card=card, lane=lane).worker == worker


@pytest.mark.parametrize(
    ("task", "done", "closed"),
    [
        (Task("t_a"), False, False),
        (Task("t_a", outcome="fail"), True, True),
        (Task("t_a", archived=True), False, True),
    ],
)
def test_closed_is_done_or_archived(task, done, closed):
    """RULES §8: what `Closed` refuses."""
    assert (task.done, task.closed) == (done, closed)
