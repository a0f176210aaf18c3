"""The database itself refuses to change the log, whoever asks (RULES §10)."""

from __future__ import annotations

import pytest

from ledger.errors import StoreFault, WrongExpectedVersion
from tests import given, ledgers
from tests.engines import on

THERE = "an event stands there already"
ORPHAN = "(?i)foreign key"
AGAIN = (
    "INSERT {verb} INTO events SELECT board, {position}, {task}, {version}, kind, schema, at, actor_kind, actor_name,"
    " actor_host, run, outcome, {command}, facts, words_digest, hash FROM events WHERE position = 2 {conflict}"
)
PLACES = {
    "position": {"position": "2", "task": "'t_x'", "version": "1", "command": "NULL"},
    "version": {"position": "9", "task": "'t_a'", "version": "1", "command": "NULL"},
    "command id": {"position": "9", "task": "'t_x'", "version": "1", "command": "'c-1'"},
}
"""Where an event stands already, each in another key."""
FREE = {"position": "9", "task": "'t_x'", "version": "1", "command": "NULL"}


@pytest.fixture
def filled(store):
    """A log of four events; the second has the command id `c-1`."""
    store.append(given.created("one"), given.commented("two"), command_id="c-1")
    store.append(given.commented("three"))
    return store


def refused(filled, statement, said, kind=StoreFault):
    """Whether *statement* is refused in those words and the log is as it was."""
    before = (filled.read(), filled.head())
    with pytest.raises(kind, match=said):
        filled.sql(statement)
    assert (filled.read(), filled.head()) == before


def again(place, *, verb="", conflict=""):
    """The statement that puts the second event there once more."""
    return AGAIN.format(verb=verb, conflict=conflict, **place)


@pytest.mark.parametrize("column", [name.name for name in ledgers.log.events.columns])
def test_no_column_of_an_event_can_be_updated(filled, column):
    """RULES §10: UPDATE of events is refused."""
    refused(filled, f"UPDATE events SET {column} = {column} WHERE position = 2", "UPDATE refused")


@pytest.mark.parametrize("which", ["position = 4", "position = 2", "TRUE"])
def test_no_event_can_be_deleted(filled, which):
    """RULES §10: DELETE of events is refused, that of the last one too."""
    filled.sql("DELETE FROM words")
    refused(filled, f"DELETE FROM events WHERE {which}", "DELETE refused")


@on("sqlite")
@pytest.mark.parametrize("verb", ["", "OR REPLACE", "OR IGNORE", "OR ABORT"])
@pytest.mark.parametrize("place", PLACES)
def test_no_event_can_be_put_where_one_stands(filled, verb, place):
    """RULES §10: REPLACE is refused, also an insert at an existing position or version."""
    refused(filled, again(PLACES[place], verb=verb), THERE)


@on("postgresql")
@pytest.mark.parametrize("place", PLACES)
def test_an_event_that_is_put_where_one_stands_came_too_late(filled, place):
    """RULES §10: the keys refuse it: should a lock ever fail, another writer was first."""
    refused(filled, again(PLACES[place]), "another writer was first", WrongExpectedVersion)


@on("postgresql")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("key", ["board, position", "board, task, version"])
def test_no_event_becomes_another_by_a_conflict(filled, place, key):
    """RULES §10: what PostgreSQL has for REPLACE is an UPDATE, and that is refused before anything is looked at."""
    conflict = f"ON CONFLICT ({key}) DO UPDATE SET facts = '[]'"
    refused(filled, again(PLACES[place], conflict=conflict), "UPDATE refused")
    refused(filled, again(FREE, conflict=conflict), "UPDATE refused")


@on("postgresql")
@pytest.mark.parametrize("place", PLACES)
def test_a_conflict_that_does_nothing_does_nothing(filled, place):
    """RULES §10: who says so beforehand is not told, and nothing is written."""
    before = (filled.read(), filled.head())
    filled.sql(again(PLACES[place], conflict="ON CONFLICT DO NOTHING"))
    assert (filled.read(), filled.head()) == before


@on("postgresql")
def test_no_event_is_merged_into_another(filled):
    """RULES §10: nor does MERGE change one."""
    merge = "MERGE INTO events USING (SELECT 2 AS position) AS it ON events.position = it.position"
    refused(filled, f"{merge} WHEN MATCHED THEN UPDATE SET facts = '[]'", "UPDATE refused")
    refused(filled, f"{merge} WHEN MATCHED THEN DELETE", "DELETE refused")


@on("postgresql")
@pytest.mark.parametrize("tables", ["events", "words", "boards", "events, words", "boards, events, words"])
@pytest.mark.parametrize("more", ["", " CASCADE"])
def test_no_table_of_the_log_can_be_emptied(filled, tables, more):
    """RULES §10: TRUNCATE is refused, be it by the database's own keys."""
    refused(filled, f"TRUNCATE {tables}{more}", "TRUNCATE refused|referenced in a foreign key")


@on("postgresql")
def test_every_refusal_has_its_trigger_and_is_on(store):
    """RULES §10: also where another one, or a key, would have refused it first."""
    found = store.sql("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'O' ORDER BY tgname")
    assert [name for (name,) in found] == [
        "boards_head_grows", "boards_no_delete", "boards_no_truncate", "events_no_delete", "events_no_truncate",
        "events_no_update", "words_no_truncate", "words_no_update",
    ]  # fmt: skip


def test_two_events_without_a_command_id_do_not_collide(filled):
    """The id is optional: none is no id."""
    filled.sql(again(FREE))
    assert [event.position for event in filled.read()] == [1, 2, 3, 4, 9]


@pytest.mark.parametrize("column", ["words", "salt", "position"])
def test_words_cannot_be_changed(filled, column):
    """RULES §10: words can be redacted, not changed."""
    refused(filled, f"UPDATE words SET {column} = {column} WHERE position = 2", "words can be redacted, not changed")


@on("sqlite")
@pytest.mark.parametrize("verb", ["", "OR REPLACE"])
def test_words_cannot_be_put_where_some_stand(filled, verb):
    """RULES §10: words can be redacted, not changed."""
    refused(filled, f"INSERT {verb} INTO words SELECT * FROM words WHERE position = 2", "not changed")


@on("postgresql")
@pytest.mark.parametrize(
    ("conflict", "said", "kind"),
    [
        ("", "another writer was first", WrongExpectedVersion),
        ("ON CONFLICT (board, position) DO UPDATE SET words = ''", "not changed", StoreFault),
    ],
)
def test_words_cannot_be_put_over_others(filled, conflict, said, kind):
    """RULES §10: words can be redacted, not changed."""
    refused(filled, f"INSERT INTO words SELECT * FROM words WHERE position = 2 {conflict}", said, kind)


def test_words_can_be_deleted(filled):
    """RULES §10: `redact` deletes both salt and words."""
    filled.sql("DELETE FROM words WHERE position = 2")
    assert [event.position for event in filled.read() if event.words_text is None] == [2]


def test_words_without_an_event_are_refused(filled):
    """Foreign keys are on."""
    refused(filled, "INSERT INTO words VALUES ('b', 99, x'00', '{}')", ORPHAN)


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


@on("sqlite")
@pytest.mark.parametrize("verb", ["", "OR REPLACE"])
def test_a_board_cannot_be_replaced(filled, verb):
    """RULES §10: nor its head be set back by another row."""
    refused(filled, f"INSERT {verb} INTO boards VALUES ('b', 'x', 0, 0, x'00')", "that board stands there already")


@on("postgresql")
@pytest.mark.parametrize(
    ("conflict", "said", "kind"),
    [
        ("", "another writer was first", WrongExpectedVersion),
        ("ON CONFLICT (board) DO UPDATE SET head_position = 0", "the head only grows", StoreFault),
    ],
)
def test_a_board_cannot_be_put_over_another(filled, conflict, said, kind):
    """RULES §10: nor its head be set back by another row."""
    refused(filled, f"INSERT INTO boards VALUES ('b', 'x', 0, 0, x'00') {conflict}", said, kind)


def test_an_event_of_a_board_that_is_not_there_is_refused(filled):
    """Foreign keys are on."""
    refused(filled, again(FREE).replace("SELECT board", "SELECT 'nowhere'"), ORPHAN)
