"""Is the log what was once appended? Its chain, columns and words, without folding it (RULES §10)."""

from __future__ import annotations

import json

import pytest

from ledger.errors import UnknownBoard
from ledger.events import KINDS
from projections import verify as verifying
from projections.checkpoint import Checkpoint
from projections.verify import verify
from tests import given, ledgers
from tests.audits import ZEROS, mend, outside
from tests.engines import on


@pytest.fixture
def whole(board):
    """The lived-in log, of which what was redacted is really gone."""
    board.sql("DELETE FROM words WHERE position = 21")
    return board


def found(store, **options):
    """Position and rule of each divergence."""
    return [(each.position, each.rule) for each in verify(store.engine, ledgers.BOARD, **options).divergences]


def test_a_good_log_is_good(whole):
    """RULES §10: chain, columns, words, head."""
    verified = verify(whole.engine, ledgers.BOARD)
    assert (verified.divergences, verified.events, verified.position) == ((), 23, 23)
    assert verified.hash == whole.head().hash.hex()
    assert verified.first_bad is None


def test_a_board_that_has_just_begun_is_good(store):
    """RULES §10: hash(0) is made of the board's id."""
    assert found(store) == []


def test_an_unknown_board_is_said(store):
    """CLI: exit 5."""
    with pytest.raises(UnknownBoard):
        verify(store.engine, "nowhere")


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"redacted"}))
def test_every_kind_is_chained(store, kind):
    """RULES §10: whatever the event says; nothing is judged."""
    store.append(given.EXAMPLES[kind])
    assert found(store) == []


COLUMNS = [column.name for column in ledgers.log.events.columns if column.name != "board"]
FORGED = {
    "position": "position + 100", "version": "version + 100", "schema": "2", "at": "at + 1", "run": "7",
    "words_digest": ZEROS, "hash": ZEROS, "facts": "'{} '",
}  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_is_compared_with_what_was_hashed(whole, column):
    """RULES §10: `verify` compares every column with the hashed envelope."""
    value = FORGED.get(column, "'forged'")
    outside(whole, f"UPDATE events SET {column} = {value} WHERE position = 23")
    verified = verify(whole.engine, ledgers.BOARD)
    assert "§10 chain" in {each.rule for each in verified.divergences}
    assert verified.first_bad == 23


def test_legality_and_stored_rows_are_left_to_a_replay(whole):
    """RULES §9: an illegal event is in the log as it was written."""
    whole.append(given.completed(7), given.completed(7))
    outside(whole, "UPDATE tasks SET failures = 9")
    assert found(whole) == []


@pytest.mark.parametrize(("redacts", "unexplained"), [(19, [24]), (24, [19, 24])])
def test_words_that_are_gone_need_a_later_redaction(whole, redacts, unexplained):
    """RULES §10: one that names it; no event can excuse itself."""
    whole.append(given.redacted(redacts))
    outside(whole, "DELETE FROM words WHERE position IN (19, 24)")
    assert found(whole) == [(position, "§10 words") for position in unexplained]


def test_words_that_are_there_although_they_were_redacted_are_named(board):
    """RULES §2: the words of that event are gone; somebody has put them back."""
    (back,) = verify(board.engine, ledgers.BOARD).divergences
    assert (back.position, back.rule, back.stored) == (21, "§10 words", "words")


def test_a_redaction_of_nothing_that_is_there_yet_hides_nothing(whole):
    """RULES §10: `redacted` names what stands before it, however its facts were forged."""
    for facts in ('{"redacts":99}', '{"redacts":"4"}', '{"redacts":[4]}', "[]", f'{{"redacts":{2**100}}}'):
        (event,) = whole.append(given.redacted(1))
        outside(whole, f"UPDATE events SET facts = '{facts}' WHERE position = {event.position}")
    mend(whole)
    assert found(whole) == []


def test_words_without_an_event_are_named(whole):
    """RULES §9: nothing stands beside the log."""
    outside(whole, "INSERT INTO words SELECT board, 99, salt, words FROM words WHERE position = 4")
    assert found(whole) == [(99, "§10 words")]


@on("sqlite")
def test_a_column_of_another_type_is_named_and_no_crash(whole):
    """RULES §9: whatever an outsider wrote, the pass goes on to the end; PostgreSQL keeps its types."""
    outside(whole, "UPDATE events SET at = 'noon', hash = 'none' WHERE position = 20")
    verified = verify(whole.engine, ledgers.BOARD)
    assert verified.first_bad == 20
    json.dumps(verified.as_json())


def test_nothing_is_folded_without_a_checkpoint(whole, monkeypatch):
    """It is the quick look: a log of another program's kinds can be verified, too."""
    monkeypatch.setattr(verifying, "World", None.__class__)
    assert found(whole) == []
    outside(whole, "UPDATE events SET kind = 'dreamt' WHERE position = 19")
    mend(whole)
    assert found(whole) == []


def test_what_only_a_checkpoint_shows_is_said(whole):
    """RULES §9: the chain alone cannot show it."""
    (note,) = verify(whole.engine, ledgers.BOARD).notes
    assert "older checkpoint" in note
    given_one = Checkpoint(ledgers.BOARD, ledgers.BOARD_ID, 23, whole.head().hash.hex(), 1, "0" * 64)
    assert verify(whole.engine, ledgers.BOARD, since=(given_one,), fold=False).notes == ()


def test_progress_is_told(whole):
    """CLI: a progress bar for long work."""
    heard = []
    verify(whole.engine, ledgers.BOARD, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (23, 23)


def test_an_answer_is_the_object_of_the_command_line(whole):
    """CLI: verify."""
    outside(whole, "UPDATE events SET actor_name = 'eve' WHERE position = 20")
    shown = verify(whole.engine, ledgers.BOARD).as_json()
    assert set(shown) == {
        "events", "position", "hash", "seconds", "events_per_second", "checkpoints", "first_bad", "divergences",
        "notes",
    }  # fmt: skip
    assert (shown["first_bad"], shown["checkpoints"]) == (20, [])
    json.dumps(shown)
