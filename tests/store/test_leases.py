"""Leases: the one row that heartbeats and sweeps move, and that no fold reads."""

from __future__ import annotations

import pytest

from ledger.database import reading, writing
from projections import leases
from tests import given

UNTIL, LATER, BEAT = given.NOW + 900, given.NOW + 1_800, given.NOW + 7


@pytest.fixture
def granted(store):
    """Run 1 of `t_a` has its lease, and so has a run of another card."""
    with writing(store.engine) as tx:
        leases.grant(tx, "b", "t_a", 1, until=UNTIL)
        leases.grant(tx, "b", "t_b", 1, until=UNTIL)
    return store


def lease_of(store, task="t_a", run=1):
    with reading(store.engine) as tx:
        return leases.lease_of(tx, "b", task, run)


def test_a_new_run_has_a_lease_and_no_beat(granted):
    """Nobody has proved life yet."""
    assert lease_of(granted) == (UNTIL, None)


def test_a_run_without_a_lease_has_none(granted):
    """A missing row is no proof of anything: it is told as missing."""
    assert lease_of(granted, run=2) is None


def test_a_beat_moves_the_lease_and_is_remembered(granted):
    """`lost` tells the last beat: a sweep's own renewal is none."""
    with writing(granted.engine) as tx:
        leases.renew(tx, "b", "t_a", 1, until=UNTIL + 1, beat=BEAT)
        leases.renew(tx, "b", "t_a", 1, until=LATER)
    assert (lease_of(granted), lease_of(granted, "t_b")) == ((LATER, BEAT), (UNTIL, None))


@pytest.mark.parametrize("beat", [None, BEAT])
def test_a_lost_lease_comes_back_when_it_is_renewed(store, beat):
    """The rows are disposable: whoever renews puts them back."""
    with writing(store.engine) as tx:
        leases.renew(tx, "b", "t_a", 3, until=LATER, beat=beat)
    assert lease_of(store, run=3) == (LATER, beat)


def test_a_released_lease_is_gone_and_no_other(granted):
    """The run has ended and its processes are gone; twice is harmless."""
    with writing(granted.engine) as tx:
        leases.release(tx, "b", "t_a", 1)
        leases.release(tx, "b", "t_a", 1)
    assert (lease_of(granted), lease_of(granted, "t_b")) == (None, (UNTIL, None))


def test_leases_move_no_event_and_no_folded_row(granted):
    """RULES §2: heartbeats are not events; §9: folds never read a lease."""
    granted.append(given.created(), given.claimed())
    before = granted.head(), granted.world().tasks
    with writing(granted.engine) as tx:
        leases.renew(tx, "b", "t_a", 1, until=LATER, beat=BEAT)
    assert (granted.head(), granted.world().tasks) == before


def test_a_card_is_leased_as_long_as_any_of_its_runs_is(granted):
    """An earlier run whose processes may still be there counts as much as the last."""
    with writing(granted.engine) as tx:
        leases.grant(tx, "b", "t_a", 2, until=UNTIL)
        leases.release(tx, "b", "t_a", 2)
        assert leases.is_leased(tx, "b", "t_a")
        leases.release(tx, "b", "t_a", 1)
        assert not leases.is_leased(tx, "b", "t_a")
        assert leases.is_leased(tx, "b", "t_b")
