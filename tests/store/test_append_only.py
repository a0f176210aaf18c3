"""The database itself refuses to change the log, whoever asks (RULES §10)."""

from __future__ import annotations

import pytest

from ledger.errors import StoreFault
from tests import given, ledgers

AGAIN = (
    "INSERT {verb} INTO events SELECT board, {position}, {task}, {version}, kind, schema, at, actor_kind, actor_name,"
    " actor_host, run, outcome, {command}, facts, words_digest, hash FROM events WHERE position = 2"
)


@pytest.fixture
def filled(store):
    """A log of four events; the second has the command id `c-1`."""
    store.append(given.created("one"), given.commented("two"), command_id="c-1")
    store.append(given.commented("three"))
    return store


def refused(filled, statement, said):
    """Whether *statement* is refused in those words and the log is as it was."""
    before = (filled.read(), filled.head())
    with pytest.raises(StoreFault, match=said):
        filled.sql(statement)
    assert (filled.read(), filled.head()) == before


@pytest.mark.parametrize("column", [name.name for name in ledgers.log.events.columns])
def test_no_column_of_an_event_can_be_updated(filled, column):
    """RULES §10: UPDATE of events is refused."""
    refused(filled, f"UPDATE events SET {column} = {column} WHERE position = 2", "UPDATE refused")


@pytest.mark.parametrize("which", ["position = 4", "position = 2", "1"])
def test_no_event_can_be_deleted(filled, which):
    """RULES §10: DELETE of events is refused, that of the last one too."""
    filled.sql("DELETE FROM words")
    refused(filled, f"DELETE FROM events WHERE {which}", "DELETE refused")


@pytest.mark.parametrize("verb", ["", "OR REPLACE", "OR IGNORE", "OR ABORT"])
@pytest.mark.parametrize(
    "place",
    [
        {"position": "2", "task": "'t_x'", "version": "1", "command": "NULL"},
        {"position": "9", "task": "'t_a'", "version": "1", "command": "NULL"},
        {"position": "9", "task": "'t_x'", "version": "1", "command": "'c-1'"},
    ],
    ids=["position", "version", "command id"],
)
def test_no_event_can_be_put_where_one_stands(filled, verb, place):
    """RULES §10: REPLACE is refused, also an insert at an existing position or version."""
    refused(filled, AGAIN.format(verb=verb, **place), "an event stands there already")


def test_two_events_without_a_command_id_do_not_collide(filled):
    """The id is optional: none is no id."""
    filled.sql(AGAIN.format(verb="", position="9", task="'t_x'", version="1", command="NULL"))
    assert [event.position for event in filled.read()] == [1, 2, 3, 4, 9]


@pytest.mark.parametrize("column", ["words", "salt", "position"])
def test_words_cannot_be_changed(filled, column):
    """RULES §10: words can be redacted, not changed."""
    refused(filled, f"UPDATE words SET {column} = {column} WHERE position = 2", "words can be redacted, not changed")


@pytest.mark.parametrize("verb", ["", "OR REPLACE"])
def test_words_cannot_be_put_where_some_stand(filled, verb):
    """RULES §10: words can be redacted, not changed."""
    refused(filled, f"INSERT {verb} INTO words SELECT * FROM words WHERE position = 2", "not changed")


def test_words_can_be_deleted(filled):
    """RULES §10: `redact` deletes both salt and words."""
    filled.sql("DELETE FROM words WHERE position = 2")
    assert [event.position for event in filled.read() if event.words_text is None] == [2]


def test_words_without_an_event_are_refused(filled):
    """Foreign keys are on."""
    refused(filled, "INSERT INTO words VALUES ('b', 99, x'00', '{}')", "FOREIGN KEY")


@pytest.mark.parametrize(
    "change", ["head_position = head_position - 1", "head_position = 0", "board_id = 'x'", "board = 'x'"]
)
def test_the_head_only_grows_and_the_board_stays_itself(filled, change):
    """RULES §10: the head only grows; hash(0) comes from the board's id."""
    refused(filled, f"UPDATE boards SET {change}", "the head only grows")


def test_the_head_grows_with_an_append(filled):
    """RULES §10: the trigger lets the store's own work through."""
    filled.append(given.commented())
    assert filled.head().position == 5


def test_a_board_cannot_be_deleted(filled):
    """RULES §10: a log is never thrown away."""
    refused(filled, "DELETE FROM boards", "a board is never deleted")


@pytest.mark.parametrize("verb", ["", "OR REPLACE"])
def test_a_board_cannot_be_replaced(filled, verb):
    """RULES §10: nor its head be set back by another row."""
    refused(filled, f"INSERT {verb} INTO boards VALUES ('b', 'x', 0, 0, x'00')", "that board stands there already")


def test_an_event_of_a_board_that_is_not_there_is_refused(filled):
    """Foreign keys are on."""
    statement = AGAIN.format(verb="", position="9", task="'t_x'", version="1", command="NULL")
    refused(filled, statement.replace("SELECT board", "SELECT 'nowhere'"), "FOREIGN KEY")
