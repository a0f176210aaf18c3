"""Whoever writes to the store past this program is found: by `verify`, by `replay`, or by an older checkpoint only.

Each way to forge (change, delete, insert, swap, truncate, chain anew) is tried on events, on words and on stored rows.
"""

from __future__ import annotations

import pytest

from ledger.chain import words_digest
from ledger.schema import events
from projections.checkpoint import OtherCheckpoint, checkpoint
from projections.read_models import PROJECTIONS, rebuild
from projections.verify import verify
from tests import given, ledgers
from tests.audits import ZEROS, audit, blob, mend, outside

COLUMNS = [column.name for column in events.columns]
OTHERS = ", ".join(name for name in COLUMNS if name not in {"board", "position"})
SHORT = "DELETE FROM words WHERE position > 15", "DELETE FROM events WHERE position > 15"


@pytest.fixture
def whole(board):
    """The lived-in log of 23 events, of which what was redacted is really gone; nothing is wrong with it."""
    board.sql("DELETE FROM words WHERE position = 21")
    return board


def verified(store, *since):
    """The first position that `verify` names, or none."""
    return verify(store.engine, ledgers.BOARD, since=since).first_bad


def replayed(store):
    """The first position that a replay names, or none."""
    return next((each.position for each in audit(store).divergences), None)


def mark(store):
    """A checkpoint of now."""
    return checkpoint(store.engine, ledgers.BOARD)


def head_mended(store, last):
    """Statements that make the board's row say that the log ends at *last*."""
    event = store.read()[last - 1]
    return f"UPDATE boards SET head_position = {last}, head_at = {event.at}, head_hash = {blob(event.hash)}"


def moved(position, to):
    """A statement that gives an event another position."""
    return f"UPDATE events SET position = {to} WHERE position = {position}"


def swapped(table, columns, one, two, key="position"):
    """Statements that exchange what stands in *columns* of two rows."""
    said = ", ".join(columns)
    asked = ", ".join(f"(SELECT {name} FROM kept)" for name in columns)
    return (
        f"CREATE TABLE kept AS SELECT {said} FROM {table} WHERE {key} = {one}",
        f"UPDATE {table} SET ({said}) = (SELECT {said} FROM {table} WHERE {key} = {two}) WHERE {key} = {one}",
        f"UPDATE {table} SET ({said}) = ({asked}) WHERE {key} = {two}",
        "DROP TABLE kept",
    )


# Events


@pytest.mark.parametrize("position", range(1, 24))
def test_a_changed_event_is_named(whole, position):
    """RULES §10: whichever it is, by its own position."""
    outside(whole, f"UPDATE events SET actor_name = 'eve' WHERE position = {position}")
    assert (verified(whole), replayed(whole)) == (position, position)


@pytest.mark.parametrize("position", range(1, 23))
def test_a_deleted_event_is_named_where_the_log_goes_on(whole, position):
    """RULES §9: the next one follows on nothing; a replay may name what the missing one had to follow or explain."""
    outside(whole, f"DELETE FROM words WHERE position = {position}", f"DELETE FROM events WHERE position = {position}")
    assert verified(whole) == (21 if position == 22 else position + 1)  # without 22 the words of 21 are unexplained
    assert replayed(whole) in range(1, position + 2)


def test_an_event_that_was_put_between_is_named(whole):
    """RULES §10: all that comes after it has moved, and it is chained to nothing."""
    outside(
        whole,
        *(moved(position, position + 101) for position in range(12, 24)),
        *(moved(position + 101, position + 1) for position in range(12, 24)),
        f"INSERT INTO events (board, position, {OTHERS}) SELECT board, 12, {OTHERS.replace('version', 'version + 90')} "
        "FROM events WHERE position = 11",
    )
    assert (verified(whole), replayed(whole)) == (12, 12)


@pytest.mark.parametrize("chained", [False, True])
def test_an_event_that_was_put_behind_the_end_is_named(whole, chained):
    """RULES §10: the head only grows by an append, and it says where the log ends."""
    with_hash = "'eve'" if chained else "actor_name"
    names = OTHERS.replace("version", "version + 1").replace("actor_name", with_hash)
    outside(whole, f"INSERT INTO events (board, position, {OTHERS}) SELECT board, 24, {names} FROM events "
                   "WHERE position = 23")  # fmt: skip
    if chained:
        mend(whole)
    assert verified(whole) == 24
    assert replayed(whole) is not None


def test_two_events_that_changed_places_are_named(whole):
    """RULES §10: the first of them."""
    outside(whole, moved(12, 100), moved(19, 12), moved(100, 19))
    assert (verified(whole), replayed(whole)) == (12, 12)


def test_a_tail_that_was_cut_off_is_named(whole):
    """RULES §9: the board's row says that the log went on."""
    outside(whole, *SHORT)
    assert verified(whole) == 15


def test_a_tail_that_was_cut_off_together_with_the_boards_row_shows_only_in_an_older_checkpoint(whole):
    """RULES §9: once the rows are folded anew nothing here knows that there was more."""
    seen = mark(whole)
    outside(whole, *SHORT, head_mended(whole, 15))
    assert replayed(whole) is not None
    rebuild(whole.engine, ledgers.BOARD)
    assert (verified(whole), replayed(whole)) == (None, None)
    assert verified(whole, seen) == 16


def test_a_log_that_was_chained_anew_shows_only_in_an_older_checkpoint(whole):
    """RULES §9: every hash is right; two checkpoints say between which positions something was changed."""
    early = mark_at(whole, 11)
    seen = mark(whole)
    outside(whole, "UPDATE events SET actor_name = 'eve' WHERE position = 20")
    mend(whole)
    assert (verified(whole), replayed(whole)) == (None, None)
    (fault,) = verify(whole.engine, ledgers.BOARD, since=(early, seen)).divergences
    assert (fault.position, fault.rule, fault.computed) == (23, "§10 checkpoint", seen.hash)
    assert "from position 12 to 23 something was changed, and the chain made anew" in fault.text
    assert verified(whole, early) is None


def test_the_first_checkpoint_that_disagrees_is_the_one_that_is_named(whole):
    """RULES §10: those behind it say no more."""
    early, seen = mark_at(whole, 11), mark(whole)
    outside(whole, "UPDATE events SET actor_name = 'eve' WHERE position = 5")
    mend(whole)
    (fault,) = verify(whole.engine, ledgers.BOARD, since=(early, seen)).divergences
    assert (fault.position, "from position 1 to 11 something was changed" in fault.text) == (11, True)


def mark_at(store, position):
    """The checkpoint that was made when the log ended at *position*."""
    past = audit(store, until=position)
    return mark(store)._replace(position=position, hash=past.hash, digest=past.digest)


def test_a_board_that_was_replaced_by_another_is_refused_by_its_checkpoint(whole):
    """RULES §10: hash(0) is made of the board's id; another board may well be whole."""
    seen = mark(whole)
    ledgers.new_board(whole, "c", "c" * 32)
    with pytest.raises(OtherCheckpoint, match=f"id {seen.board_id}; this is board c, id cccc"):
        verify(whole.engine, "c", since=(seen,))


def test_what_was_appended_after_a_checkpoint_is_no_forgery(whole):
    """RULES §10: an older checkpoint still holds."""
    seen = mark(whole)
    whole.append(given.commented("more"))
    assert verified(whole, seen) is None


def test_what_was_forged_after_the_last_checkpoint_and_chained_anew_shows_nowhere(whole):
    """What a checkpoint cannot show: keep one often, and elsewhere."""
    seen = mark_at(whole, 11)
    outside(whole, "UPDATE events SET actor_name = 'eve' WHERE position = 20")
    mend(whole)
    assert (verified(whole, seen), replayed(whole)) == (None, None)


# Words


def test_changed_words_are_named(whole):
    """RULES §10: the event's row keeps their digest."""
    outside(whole, "UPDATE words SET words = replace(words, 'Parent', 'Forged') WHERE position = 4")
    assert (verified(whole), replayed(whole)) == (4, 4)


def test_deleted_words_are_named(whole):
    """RULES §10: words missing without a `redacted`."""
    outside(whole, "DELETE FROM words WHERE position = 19")
    assert (verified(whole), replayed(whole)) == (19, 19)


def test_words_that_were_put_beside_the_log_are_named(whole):
    """RULES §9: where no event stands."""
    outside(whole, "INSERT INTO words SELECT board, 99, salt, words FROM words WHERE position = 4")
    assert (verified(whole), replayed(whole)) == (99, 99)


def test_words_that_changed_places_are_named(whole):
    """RULES §10: the first of them."""
    outside(whole, *swapped("words", ["salt", "words"], 4, 23))
    assert (verified(whole), replayed(whole)) == (4, 4)


def test_words_that_were_cut_off_are_named(whole):
    """RULES §10: the first that is missing."""
    outside(whole, "DELETE FROM words WHERE position > 15")
    assert (verified(whole), replayed(whole)) == (16, 16)


def test_words_that_were_forged_with_digest_and_chain_show_only_in_an_older_checkpoint(whole):
    """RULES §9: salt, digest and every hash after it fit."""
    seen = mark(whole)
    event = whole.read()[22]
    text = event.words_text.replace("Bye", "Forged")
    outside(
        whole,
        f"UPDATE words SET words = '{text}' WHERE position = 23",
        f"UPDATE events SET words_digest = {blob(words_digest(event.salt, text))} WHERE position = 23",
    )
    assert verified(whole) == 23
    mend(whole)
    assert (verified(whole), replayed(whole)) == (None, None)
    assert verified(whole, seen) == 23


# Stored rows

ROWS = {
    "change": ["UPDATE tasks SET failures = 9 WHERE task = 't_a'"],
    "delete": ["DELETE FROM runs WHERE task = 't_a' AND run = 2"],
    "insert": ["INSERT INTO links SELECT board, 't_a', 't_z', require FROM links"],
    "swap": swapped("tasks", ["updated_at", "runs"], "'t_a'", "'t_p'", key="task"),
    "truncate": [f"DELETE FROM {table.name}" for table in PROJECTIONS],
}


@pytest.mark.parametrize("how", ROWS)
def test_a_forged_row_is_named_by_a_replay_and_mended_by_a_rebuild(whole, how):
    """RULES §9: projections are folded anew and compared; the log itself is whole."""
    outside(whole, *ROWS[how])
    assert replayed(whole) in {2, 3, 22, 23}
    assert verified(whole) is None
    rebuild(whole.engine, ledgers.BOARD)
    assert replayed(whole) is None


def test_a_row_that_was_forged_together_with_its_event_is_named(whole):
    """RULES §9–10: a row that fits is one more event that does not."""
    outside(whole, "UPDATE events SET facts = replace(facts, 'red', 'hot') WHERE position = 5",
            "UPDATE tasks SET labels = replace(labels, 'red', 'hot')")  # fmt: skip
    assert (verified(whole), replayed(whole)) == (5, 5)


def test_a_forged_head_is_named(whole):
    """RULES §9: it is the last event's."""
    outside(whole, f"UPDATE boards SET head_hash = {ZEROS}")
    assert (verified(whole), replayed(whole)) == (23, 23)
