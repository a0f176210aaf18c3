"""The small values that everything else is made of: ids, locks, instants, errors."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ledger import clock, errors, ids

MICROSECONDS = st.integers(0, 10**16)


def test_a_cards_id_can_be_read_aloud():
    """`t_` and 12 characters without i, l, o and u."""
    assert re.fullmatch(r"t_[0-9a-hjkmnp-tv-z]{12}", ids.task_id())


@pytest.mark.parametrize("make", [ids.task_id, ids.board_id, ids.lock])
def test_two_ids_are_never_the_same(make):
    """RULES §1: the lock is an unguessable token; offline stores never mint the same id."""
    assert len({make() for _ in range(1_000)}) == 1_000


def test_a_boards_id_is_128_bits_in_hex():
    """RULES §10: it seeds the chain."""
    assert re.fullmatch(r"[0-9a-f]{32}", ids.board_id())


def test_a_lock_opens_its_own_hash():
    """RULES §1: the worker holds it; the log holds only its SHA-256."""
    lock = ids.lock()
    assert ids.opens(lock, ids.lock_hash(lock))


@pytest.mark.parametrize("token", ["", "secret ", "SECRET", "\ud800"])
def test_no_other_token_opens_it(token):
    """RULES §8: with a wrong lock `Forbidden`; whatever a worker sends, nothing breaks."""
    assert not ids.opens(token, ids.lock_hash("secret"))


def test_an_instant_is_printed_with_microseconds_and_utc():
    """Every JSON answer prints it so."""
    assert clock.rfc3339(1_750_000_000_000_001) == "2025-06-15T15:06:40.000001Z"


@drawn(MICROSECONDS)
def test_an_instant_survives_being_a_moment(at):
    """Microseconds are exact; no binary fraction in between."""
    assert clock.instant(clock.moment(at)) == at


def test_a_moment_of_another_zone_is_the_same_instant():
    """Instants are UTC."""
    moment = datetime(2025, 6, 15, 17, 6, 40, tzinfo=timezone(timedelta(hours=2)))
    assert clock.instant(moment) == 1_750_000_000_000_000


def test_the_machines_clock_counts_microseconds():
    """Read from one clock that is passed in."""
    before = clock.instant(datetime.now(UTC))
    assert before - clock.SECOND <= clock.system_clock() <= before + 60 * clock.SECOND


def subclasses(root):
    """The tree below *root*, as (depth, name)."""
    own = [kind for kind in root.__subclasses__() if kind.__module__ == "ledger.errors"]
    return {root.__name__: {name: below for kind in own for name, below in subclasses(kind).items()}}


def drawn_tree():
    """The tree on top of the file."""
    path, root = [], {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"^((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+)(?:  |$)", line)
        if found is None:
            continue
        depth = len(found[1]) // 4
        place = root
        for name in path[:depth]:
            place = place[name]
        place[found[2]] = {}
        path = [*path[:depth], found[2]]
    return root


def test_the_tree_on_top_of_the_errors_is_the_tree_of_the_errors():
    """One root, drawn as a tree on top of the file."""
    assert drawn_tree() == subclasses(errors.LedgerError)


@pytest.mark.parametrize(
    ("error", "code", "task"),
    [
        (errors.UnknownTask("t_a"), "unknown_task", "t_a"),
        (errors.UnknownRun("t_a", 3), "unknown_run", "t_a"),
        (errors.UnknownBoard("b"), "unknown_board", None),
        (errors.WrongExpectedVersion("t_a", expected=1, actual=2), "wrong_expected_version", "t_a"),
        (errors.WrongExpectedVersion("", expected=1, actual=2), "wrong_expected_version", None),
        (errors.InvalidText("x", "that"), "invalid_text", None),
    ],
    ids=str,
)
def test_an_error_says_what_scripts_compare_and_which_card_it_means(error, code, task):
    """Facts are attributes."""
    assert (error.code, error.task, error.message) == (code, task, str(error))


def test_an_unknown_run_names_its_number():
    """Facts are attributes."""
    error = errors.UnknownRun("t_a", 3)
    assert (error.run, str(error), error.remedy) == (3, "t_a has no run 3", "ledger runs t_a")
