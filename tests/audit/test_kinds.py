"""Which version may have written an event, as far as columns and facts tell."""

import pytest

from kanban.foreign.kinds import KNOWN, MOVING, Era, era_of
from tests.audit.boards import Board


@pytest.mark.parametrize(
    ("version", "high"), [(13, 14), (14, 14), (15, 15), (16, 17), (17, 17), (18, 19), (19, 19), (20, 20)]
)
def test_the_columns_say_how_new_a_version_may_have_been(version, high, tmp_path):
    """Each version adds its columns when it opens a file; the oldest that may have written to it is always 0.13."""
    columns = Board(tmp_path, version).audit_columns()
    assert era_of(columns) == Era(13, high)


@pytest.mark.parametrize(
    ("kind", "facts", "low"),
    [
        ("claimed", {}, 13), ("created", {"branch_name": None}, 15), ("created", {"goal_mode": None}, 16),
        ("stale", {}, 15), ("rate_limited", {}, 16), ("reclaim_deferred", {}, 17), ("dependency_wait", {}, 18),
        ("blocked", {"recurrences": 1}, 18), ("protocol_violation", {"protocol_violation": True}, 19),
        ("assigned", {"from": None}, 20), ("reclaimed", {"retry_status": "ready"}, 20), ("review_requested", {}, 20),
    ],
)  # fmt: skip
def test_an_event_says_how_old_a_version_may_have_been(kind, facts, low):
    """What a version was the first to write, nobody before it has written; and nobody goes back."""
    era = Era(13, 20).after(kind, facts)
    assert era == Era(low, 20)
    assert era.after("claimed", {}) == era


def test_events_win_over_columns():
    """A file whose columns are older than its events was written by the newer of the two."""
    assert Era(13, 14).after("stale", {}) == Era(15, 15)


@pytest.mark.parametrize(("era", "within"), [((15, 19), True), ((13, 14), False), ((20, 20), False), ((14, 15), None)])
def test_a_range_of_versions_is_in_another_or_out_of_it_or_may_be_either(era, within):
    """Three answers, not two."""
    assert Era(*era).within(15, 19) is within


def test_every_kind_that_moves_something_is_known():
    """And many are known that move nothing."""
    assert MOVING < KNOWN
