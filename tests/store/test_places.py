"""Where in a log a moment stands."""

from __future__ import annotations

import random

import pytest

from ledger.database import reading
from ledger.errors import InvalidInput
from projections.places import Mark, Stretch, place_of, position_at, stretch_between
from tests import given, ledgers
from tests.given import NOW, SECOND


@pytest.fixture
def log(store):
    """Thirty events after the board's own, some of them at one instant; their instants by position."""
    dice = random.Random(3)
    for _ in range(30):
        store.clock.advance(dice.choice([0, 0, 1, 7]))
        store.append(given.created(), task=f"t_{store.head().position}")
    return {event.position: event.at for event in store.read()}


def ask(store, question, *args):
    with reading(store.engine) as tx:
        return question(tx, ledgers.BOARD, *args)


def test_a_moment_stands_behind_all_that_had_happened_by_then(store, log):
    """The last event at that instant or before it; 0 before the first."""
    for instant in range(NOW - SECOND, max(log.values()) + 2 * SECOND, SECOND // 2):
        expected = max((position for position, at in log.items() if at <= instant), default=0)
        assert ask(store, position_at, instant) == expected


def test_a_mark_is_a_position_a_time_or_the_end(store, log):
    """None stands behind the end of the log."""
    last = max(log)
    assert ask(store, place_of, Mark()) == last
    assert [ask(store, place_of, Mark(number=number)) for number in (0, 5, last, last + 9)] == [0, 5, last, last]
    assert ask(store, place_of, Mark(instant=log[7])) == max(position for position, at in log.items() if at == log[7])


def test_a_stretch_has_both_its_ends(store, log):
    """From the first event of an instant to the last of another."""
    assert ask(store, stretch_between, Mark(number=3), Mark(number=9)) == Stretch(2, 9)
    assert ask(store, stretch_between, Mark(number=1), Mark()) == Stretch(0, max(log))
    first, last = log[4], log[20]
    inside = [position for position, at in log.items() if first <= at <= last]
    found = ask(store, stretch_between, Mark(instant=first), Mark(instant=last))
    assert found == Stretch(inside[0] - 1, inside[-1])


def test_a_stretch_beyond_the_log_is_empty(store, log):
    """It begins where it ends."""
    last = max(log)
    for first in (Mark(number=last + 5), Mark(instant=max(log.values()) + SECOND)):
        assert ask(store, stretch_between, first, Mark()) == Stretch(last, last)
    assert ask(store, stretch_between, Mark(instant=0), Mark(instant=NOW - SECOND)) == Stretch(0, 0)


@pytest.mark.parametrize(
    ("first", "last"), [(Mark(number=9), Mark(number=3)), (Mark(instant=NOW + 5 * SECOND), Mark(instant=NOW))]
)
def test_a_stretch_that_runs_back_is_refused(store, log, first, last):
    """`InvalidInput`: it says which to give first."""
    with pytest.raises(InvalidInput, match="ends before it begins"):
        ask(store, stretch_between, first, last)
