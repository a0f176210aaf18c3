"""The audit of a real store: a good log has no divergence, and whatever was changed behind its back is named."""

from __future__ import annotations

import gc
import hashlib
import json

import pytest

from ledger import store as log
from ledger.database import writing
from ledger.errors import StoreDamaged, UnknownBoard, UnknownTask
from projections import tables
from projections.compared import SHAPES
from projections.read_models import PROJECTIONS, rebuild
from projections.replay import replay
from tests import given, ledgers
from tests.audits import ZEROS, audit, blob, mend, named, outside
from tests.engines import on

CRASH = given.exited(1, "crashed", code=2, evidence="exit_record", last_words="WORD")


def test_a_good_log_has_no_divergence(board):
    """RULES §9: positions, chain, stored columns, legality, budgets, caps."""
    found = audit(board)
    assert (found.divergences, found.events, found.tasks, found.position) == ((), 23, 2, 23)
    assert found.hash == board.head().hash.hex()


def test_a_good_log_is_good_to_a_strict_reader(board):
    """RULES §9: `--strict` reads every event through Pydantic."""
    assert audit(board, strict=True).divergences == ()


def test_a_board_that_has_just_begun_is_good(store):
    """RULES §2: a board begins with board_created."""
    found = audit(store)
    assert (found.divergences, found.events, found.tasks) == ((), 1, 0)


def test_a_board_without_any_event_is_no_board(store):
    """RULES §2: its first event is board_created; §10: the chain alone cannot show that all of it is gone."""
    with writing(store.engine) as tx:
        log.create_board(tx, "empty", "e" * 32)
    found = replay(store.engine, "empty")
    assert [(each.rule, each.computed) for each in found.divergences] == [("§9 head", "board_created")]


def test_an_unknown_board_or_card_is_said(board):
    """CLI: exit 5."""
    with pytest.raises(UnknownBoard):
        replay(board.engine, "nowhere")
    with pytest.raises(UnknownTask):
        audit(board, task="t_x")


# Stored columns

COLUMNS = [
    (table.name, column.name, owner)
    for table, owner in ((tables.tasks, "t_a"), (tables.runs, "t_p"), (tables.links, "t_a"), (tables.settings, None))
    for column in table.columns
    if not column.primary_key
]
OWNER = {"tasks": "task", "runs": "task", "links": "child"}
LAST = {"t_a": 22, "t_p": 23, None: 3}


def changed(value):
    """Another value of the same type, in SQL."""
    match value:
        case None:
            return "'7'"
        case bool():
            return str(not value)
        case int():
            return str(1 - value) if value in {0, 1} else str(value + 1)
        case _:
            return f"'{value}x'"


def spoil(board, table, column, owner):
    where = f" WHERE {OWNER[table]} = '{owner}'" if owner else ""
    ((value,),) = board.sql(f'SELECT "{column}" FROM {table}{where}')
    outside(board, f'UPDATE {table} SET "{column}" = {changed(value)}{where}')
    return value


@pytest.mark.parametrize(
    ("table", "column", "owner"), COLUMNS, ids=[f"{table}.{column}" for table, column, _ in COLUMNS]
)
def test_a_stored_column_that_is_not_what_the_log_makes_it_is_named(board, table, column, owner):
    """RULES §9: every stored column equals the refold."""
    value = spoil(board, table, column, owner)
    (fault,) = audit(board).divergences
    assert (fault.task, fault.position, fault.rule) == (owner, LAST[owner], "§9 stored")
    assert fault.text.startswith(f"{table}.{column} ")
    assert fault.computed == value
    assert fault.stored != fault.computed


@pytest.mark.parametrize("table", ["tasks", "runs", "links", "settings"])
def test_a_row_that_is_missing_is_named(board, table):
    """RULES §9: nothing of the refold is missing."""
    owner = None if table == "settings" else "t_a"
    key = {"runs": "task = 't_a' AND run = 2", "links": "child = 't_a'", "tasks": "task = 't_a'", "settings": "TRUE"}[
        table
    ]
    outside(board, f"DELETE FROM {table} WHERE {key}")
    (fault,) = audit(board).divergences
    assert (fault.task, fault.position, fault.rule, fault.stored) == (owner, LAST[owner], "§9 stored", None)
    assert "is missing" in fault.text


def copy_of(table, **changes):
    names = [column.name for column in table.columns]
    values = [f"'{changes[name]}'" if name in changes else f'"{name}"' for name in names]
    columns = ", ".join(f'"{name}"' for name in names)
    return f"INSERT INTO {table.name} ({columns}) SELECT {', '.join(values)} FROM {table.name} LIMIT 1"


@pytest.mark.parametrize(
    ("table", "changes", "task"),
    [
        (tables.tasks, {"task": "t_x", "key": "x"}, "t_x"),
        (tables.runs, {"task": "t_x"}, "t_x"),
        (tables.links, {"child": "t_p"}, "t_p"),
    ],
)
def test_a_row_that_no_event_made_is_named(board, table, changes, task):
    """RULES §9: nothing stands beside the refold."""
    outside(board, copy_of(table, **changes))
    (fault,) = audit(board).divergences
    assert (fault.task, fault.rule, fault.computed) == (task, "§9 stored", None)
    assert changes.items() <= fault.stored.items()
    assert "without an event" in fault.text


def test_one_divergence_a_column_and_cards_apart(board):
    """RULES §9: each column is named by itself."""
    outside(board, "UPDATE tasks SET failures = 9, streak = 9")
    assert sorted((each.task, each.text.split()[0]) for each in audit(board).divergences) == [
        ("t_a", "tasks.failures"), ("t_a", "tasks.streak"), ("t_p", "tasks.failures"), ("t_p", "tasks.streak"),
    ]  # fmt: skip


def test_a_yes_or_no_is_told_as_such(board):
    """RULES §9: stored and computed are of one kind."""
    outside(board, "UPDATE tasks SET archived = TRUE WHERE task = 't_a'")
    (fault,) = audit(board).divergences
    assert (fault.stored, fault.computed) == (True, False)


def test_a_rebuild_mends_what_is_stored(board):
    """DESIGN §3: projections are disposable."""
    outside(board, "UPDATE tasks SET failures = 9", "DELETE FROM runs")
    rebuild(board.engine, "b")
    assert audit(board).divergences == ()


def test_another_boards_rows_are_none_of_this_boards_business(board):
    """DESIGN §3: a board is a shard."""
    ledgers.new_board(board, "c", "c" * 32)
    board.append(given.created(), task="t_z", board="c")
    outside(board, "UPDATE tasks SET failures = 9 WHERE board = 'c'")
    assert audit(board).divergences == ()
    assert [each.task for each in replay(board.engine, "c").divergences] == ["t_z"]


# The chain

FORGED = {
    "at": "at + 1",
    "actor_kind": "'system'",
    "actor_name": "'eve'",
    "actor_host": "'elsewhere'",
    "outcome": "'ok'",
    "command_id": "'c-9'",
    "facts": "'{ }'",
    "hash": ZEROS,
}


@pytest.mark.parametrize("column", FORGED)
def test_a_forged_column_is_named_at_its_event_and_nowhere_else(board, column):
    """RULES §10: the first forged byte is named; after it the chain goes on."""
    outside(board, f"UPDATE events SET {column} = {FORGED[column]} WHERE position = 21")
    assert named(audit(board)) == [("t_a", 21, "§10 chain")]


def test_a_forged_kind_breaks_the_chain_and_the_rules(board):
    """RULES §9: the comment has become an archiving, so the rows and what follows are wrong as well."""
    outside(board, "UPDATE events SET kind = 'archived', facts = '{\"children\":null}' WHERE position = 21")
    assert named(audit(board))[0] == ("t_a", 21, "§10 chain")
    assert "tasks.archived" in [each.text.split()[0] for each in audit(board).divergences]


def test_a_forged_run_breaks_the_chain_and_is_illegal(board):
    """RULES §9: the result is of a run that never was."""
    outside(board, "UPDATE events SET run = 9 WHERE position = 19")
    assert named(audit(board))[:2] == [("t_a", 19, "§10 chain"), ("t_a", 19, "§2")]


def test_a_forged_card_breaks_both_streams(board):
    """RULES §9: the version is missed on one card, and is in the way on the other."""
    outside(board, "UPDATE events SET task = 't_p', version = 99 WHERE position = 21")
    found = {each for each in named(audit(board)) if each[2] != "§9 stored"}
    assert found == {
        ("t_p", 21, "§10 chain"), ("t_p", 21, "§2 version"), ("t_a", 22, "§2 version"), ("t_p", 23, "§2 version")
    }  # fmt: skip


def test_a_forged_digest_of_words_breaks_the_chain_and_the_words(board):
    """RULES §10: SHA-256(salt ‖ words) stands in the event's row and is chained."""
    outside(board, f"UPDATE events SET words_digest = {ZEROS} WHERE position = 21")
    assert named(audit(board)) == [("t_a", 21, "§10 words"), ("t_a", 21, "§10 chain")]


def test_two_forged_events_are_two_divergences(board):
    """RULES §10: one forged event yields one divergence, not a million."""
    outside(board, "UPDATE events SET actor_name = 'eve' WHERE position IN (4, 21)")
    assert named(audit(board)) == [("t_p", 4, "§10 chain"), ("t_a", 21, "§10 chain")]


def test_neighbours_that_are_forged_are_both_named(board):
    """RULES §10: also where a forged hash is followed by a forged event."""
    outside(board, f"UPDATE events SET hash = {ZEROS} WHERE position = 20",
            "UPDATE events SET actor_name = 'eve' WHERE position = 21")  # fmt: skip
    assert named(audit(board)) == [("t_a", 20, "§10 chain"), ("t_a", 21, "§10 chain")]


def test_a_forged_first_event_is_named(board):
    """RULES §10: hash(0) = SHA-256(board id)."""
    outside(board, "UPDATE events SET actor_name = 'eve' WHERE position = 1")
    assert named(audit(board)) == [(None, 1, "§10 chain")]


@on("sqlite")  # PostgreSQL's columns take no other type
@pytest.mark.parametrize("column", ["position", "at", "run", "facts", "words_digest", "hash", "task"])
def test_a_column_of_another_type_is_named_and_no_crash(board, column):
    """RULES §9: whatever an outsider wrote, the replay goes on to the end."""
    value = "'text'" if column not in {"facts", "task"} else "x'00ff'"
    outside(board, f"UPDATE events SET {column} = {value} WHERE position = 23")
    found = audit(board)
    assert "§10 chain" in [each.rule for each in found.divergences]
    json.dumps(found.as_json())


@on("sqlite")
@pytest.mark.parametrize("chained", [True, False])
def test_the_chain_goes_on_behind_a_column_of_another_type(board, chained):
    """RULES §10: it goes on from the hash that is stored there, so one forged event is named once."""
    outside(board, "UPDATE events SET at = 'noon' WHERE position = 20")
    assert [each.position for each in audit(board, chain=chained).divergences if each.rule == "§10 chain"] == [20]


def test_a_deleted_event_in_the_middle_is_a_hole(board):
    """RULES §9: positions and versions have no holes; the chain breaks at the event after it."""
    outside(board, "DELETE FROM events WHERE position = 20", "DELETE FROM words WHERE position = 20")
    found = [each for each in named(audit(board)) if each[2] != "§9 stored"]
    assert found == [("t_a", 21, "§2 position"), ("t_a", 21, "§2 version"), ("t_a", 21, "§10 chain")]


def test_instants_never_go_back(board):
    """RULES §2: at is never less than the `at` before it."""
    outside(board, "UPDATE events SET at = 5 WHERE position = 21")
    assert named(audit(board)) == [("t_a", 21, "§2 at"), ("t_a", 21, "§10 chain")]


@pytest.mark.parametrize("left", [22, 10])
def test_a_tail_that_was_cut_off_shows_through_the_head(board, left):
    """RULES §9: the board's row says where the log ends."""
    outside(board, f"DELETE FROM words WHERE position > {left}", f"DELETE FROM events WHERE position > {left}")
    faults = [each for each in audit(board).divergences if each.rule == "§9 head"]
    assert [(each.stored, each.computed) for each in faults] == [(23, left)]


@pytest.mark.parametrize(
    ("column", "value", "rules"),
    [("head_at", "head_at + 1", ["§9 head"]), ("head_hash", ZEROS, ["§9 head"]),
     ("head_position", "24", ["§9 head"]), ("board_id", "'eve'", ["§10 chain", "§9 head"])],
)  # fmt: skip
def test_a_forged_head_is_named(board, column, value, rules):
    """RULES §9: head and identity are those of the log."""
    outside(board, f"UPDATE boards SET {column} = {value}")
    assert [each.rule for each in audit(board).divergences] == rules


def test_a_forger_who_mends_the_whole_chain_is_still_found_by_the_rules(board):
    """RULES §9: legality and rows do not rest on hashes."""
    outside(board, "UPDATE events SET facts = replace(facts, '\"count\":1', '\"count\":3') WHERE position = 18")
    mend(board)
    assert named(audit(board)) == [("t_a", 18, "§5"), ("t_a", 22, "§9 stored")]


# Words


def test_changed_words_are_named(board):
    """RULES §10: the event's row keeps SHA-256(salt ‖ words)."""
    outside(board, "UPDATE words SET words = replace(words, 'Secret', 'Lie') WHERE position = 21")
    assert named(audit(board)) == [("t_a", 21, "§10 words")]


def test_a_letter_moved_from_the_words_to_the_salt_is_named(board):
    """RULES §10: a salt has 32 bytes, else one digest would fit two texts."""
    salt = next(event.salt for event in board.read() if event.position == 21)
    outside(board, f"UPDATE words SET salt = {blob(salt + b'{')}, words = substr(words, 2) WHERE position = 21")
    assert named(audit(board)) == [("t_a", 21, "§10 words")]


def test_words_that_are_missing_are_named(board):
    """RULES §10: words missing without a `redacted` are a divergence."""
    outside(board, "DELETE FROM words WHERE position IN (4, 23)")
    assert named(audit(board)) == [("t_p", 4, "§10 words"), ("t_p", 23, "§10 words")]


def test_redacted_words_are_no_divergence(board):
    """RULES §10: chain and proofs still verify."""
    outside(board, "DELETE FROM words WHERE position = 21")
    assert audit(board).divergences == ()


def test_a_redaction_of_the_past_does_not_excuse_the_future(board):
    """RULES §10: the `redacted` comes later than what it names; this one names itself."""
    board.append(given.redacted(25))
    board.append(given.commented())
    outside(board, "DELETE FROM words WHERE position = 25")
    assert ("t_a", 25, "§10 words") in named(audit(board))


def test_words_without_an_event_are_named(board):
    """RULES §9: nothing stands beside the log."""
    outside(board, "INSERT INTO words SELECT board, 99, salt, words FROM words LIMIT 1")
    assert named(audit(board)) == [(None, 99, "§10 words")]


# What cannot be read


def test_an_unknown_kind_stops_one_card_and_the_others_go_on(board):
    """RULES §2: it stops that task's fold with a named error; it is never skipped in silence."""
    outside(board, "UPDATE events SET kind = 'dreamt' WHERE position = 19",
            "UPDATE tasks SET failures = 9 WHERE task = 't_p'")  # fmt: skip
    found = audit(board)
    assert named(found) == [("t_a", 19, "§10 chain"), ("t_a", 19, "§2 kind"), ("t_p", 23, "§9 stored")]
    assert "unknown event kind 'dreamt'" in found.divergences[1].text


@pytest.mark.parametrize("position", [17, 18, 19])
def test_a_newer_schema_stops_one_card(board, position):
    """RULES §2: newer schemas stop that task's fold with a named error."""
    outside(board, f"UPDATE events SET schema = 2 WHERE position = {position}")
    mend(board)
    (fault,) = audit(board).divergences
    assert (fault.task, fault.position, fault.rule, fault.stored, fault.computed) == (
        "t_a",
        position,
        "§2 schema",
        2,
        1,
    )


def test_a_parent_that_cannot_be_read_still_lets_its_children_go(board):
    """RULES §2: others go on, with what the rest of that stream says."""
    outside(board, "UPDATE events SET kind = 'dreamt' WHERE position = 8")
    mend(board)
    assert named(audit(board)) == [("t_p", 8, "§2 kind")]


def test_a_child_of_a_parent_that_cannot_be_read_is_given_the_benefit(board):
    """RULES §9: what became of a dead parent after that is not known, so a link to it is not called illegal."""
    board.append(given.archived("keep"), given.commented())  # 24, 25
    board.append(given.created(parents=["t_a"], made_by=None), task="t_c")  # 26
    assert named(audit(board)) == [("t_c", 26, "§3")]
    outside(board, "UPDATE events SET kind = 'dreamt' WHERE position = 25")
    mend(board)
    assert named(audit(board)) == [("t_a", 25, "§2 kind")]


def test_what_follows_in_a_stream_that_cannot_be_read_is_passed_over(board):
    """RULES §2: its fold has stopped; nothing more is said of it, whatever it holds."""
    outside(board, "UPDATE events SET kind = 'dreamt' WHERE position = 13",
            "UPDATE events SET facts = '{}' WHERE position IN (15, 22)")  # fmt: skip
    mend(board)
    assert named(audit(board)) == [("t_a", 13, "§2 kind")]


def test_a_redaction_counts_in_a_stream_that_cannot_be_read(board):
    """RULES §10: words are gone with a `redacted`."""
    outside(board, "UPDATE events SET kind = 'dreamt' WHERE position = 13", "DELETE FROM words WHERE position = 21")
    mend(board)
    assert named(audit(board)) == [("t_a", 13, "§2 kind")]


def test_a_board_whose_own_stream_cannot_be_read_is_not_judged(board):
    """RULES §9: without policy and pauses nothing can be decided, and that is said."""
    outside(board, "UPDATE events SET kind = 'dreamt' WHERE position = 3")
    mend(board)
    found = audit(board)
    assert named(found) == [(None, 3, "§2 kind")]
    assert "no event after that was judged" in found.notes[-1]


@pytest.mark.parametrize("facts", ["{}", "[]", "null", "{", '{"not_before":1} ', '{"not_before":[]}'])
def test_facts_of_no_shape_are_named(board, facts):
    """RULES §9: a card whose facts cannot be folded stops; a strict reader sees more."""
    outside(board, f"UPDATE events SET facts = '{facts}' WHERE position = 20")
    found = audit(board, strict=True)
    assert ("t_a", 20, "§10 chain") in named(found)
    assert ("t_a", 20, "§2 shape") in named(found) or 'not_before":1' in facts
    json.dumps(found.as_json())


def test_only_a_strict_reader_sees_a_field_too_many(board):
    """RULES §9: `--strict` validates every field."""
    outside(board, "UPDATE events SET facts = '{\"a\":1}' WHERE position = 21")
    mend(board)
    assert audit(board).divergences == ()
    assert named(audit(board, strict=True)) == [("t_a", 21, "§2 shape")]


@on("sqlite")  # PostgreSQL keeps no text that is none
def test_a_store_that_is_damaged_is_called_so(board):
    """DESIGN §3: driver errors are translated once."""
    outside(board, "UPDATE events SET facts = CAST(x'80ff' AS TEXT) WHERE position = 21")
    with pytest.raises(Exception, match=r"(?i)utf-8") as caught:
        audit(board)
    assert type(caught.value).__module__ == StoreDamaged.__module__


# Parts


def test_of_one_card_only_its_own_divergences_are_told(board):
    """CLI `--task`: the others' are left out."""
    outside(board, "UPDATE tasks SET failures = 9", "UPDATE events SET actor_name = 'eve' WHERE position IN (12, 23)")
    found = audit(board, task="t_a")
    assert named(found) == [("t_a", 12, "§10 chain"), ("t_a", 22, "§9 stored")]
    assert (found.tasks, found.events) == (1, 23)


def test_of_one_card_the_boards_own_divergences_are_told_too(board):
    """CLI `--task`: a cut tail is everybody's."""
    outside(board, "UPDATE boards SET head_position = 99", "UPDATE settings SET name = 'x'")
    assert named(audit(board, task="t_a")) == [(None, 23, "§9 head")]


@pytest.mark.parametrize("until", range(1, 23))
def test_every_past_position_of_a_good_log_is_good(board, until):
    """RULES §9: also inside an append, where what must follow has not been read."""
    found = audit(board, until=until)
    assert (found.divergences, found.position, found.events) == ((), until, until)
    assert found.hash == board.read()[until - 1].hash.hex()


def test_the_past_is_compared_with_what_is_shown_of_it(board):
    """CLI `--at`: rows of the present are compared at the head alone; a run that was over then is a row of the past."""
    outside(board, "UPDATE tasks SET failures = 9")
    assert audit(board, until=22).divergences == ()
    assert len(audit(board, until=23).divergences) == len(audit(board, until=99).divergences) == 2
    outside(board, "UPDATE runs SET worker = 'eve' WHERE task = 't_p'")
    assert named(audit(board, until=10)) == []
    assert named(audit(board, until=11)) == [("t_p", 11, "§9 stored")]


def test_a_past_of_which_not_all_can_be_read_is_compared_with_nothing(board):
    """RULES §2: its fold stopped; that is said."""
    outside(board, "UPDATE events SET kind = 'dreamt' WHERE position = 12")
    found = audit(board, until=20)
    assert ("t_a", 12, "§2 kind") in named(found)
    assert "what is stored was not compared with the fold at 20: not all can be read" in found.notes


def test_words_that_were_redacted_after_that_position_may_be_missing(board):
    """RULES §10: words are gone from the day that they were redacted."""
    outside(board, "DELETE FROM words WHERE position IN (4, 21)")
    assert named(audit(board, until=21)) == [("t_p", 4, "§10 words")]


def test_what_a_replay_cannot_say_is_said(board):
    """RULES §9: it cannot check that a process or a lease was seen truly, and says so."""
    assert "a tail cut off" in audit(board).notes[0]


def test_progress_is_told(board):
    """CLI: a progress bar for long work."""
    heard = []
    audit(board, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (23, 23)


# The digest


def test_the_digest_is_the_same_after_a_rebuild_and_wherever_it_is_stored(board, lived, tmp_path):
    """RULES §10: a checkpoint's fold digest is of the log, not of its rows."""
    before = audit(board).digest
    outside(board, "UPDATE tasks SET failures = 9")
    assert audit(board).digest == before
    rebuild(board.engine, "b")
    copy = ledgers.copied(lived, tmp_path / "copy.db")
    assert audit(board).digest == audit(copy).digest == before
    copy.engine.dispose()


def test_different_logs_have_different_digests(board):
    """RULES §10: position by position."""
    digests = [audit(board, until=until).digest for until in range(1, 24)]
    assert len(set(digests)) == 23


def test_the_digest_is_sha256_over_canonical_json_by_table_and_key(board):
    """RULES §10: anybody can compute it from the folded rows."""
    world, digest = board.world(), hashlib.sha256()
    for shape in SHAPES:
        digest.update(json.dumps([shape.table.name, shape.names], separators=(",", ":")).encode())
        rows = sorted([row[name] for name in shape.names] for row in world.rows(shape.table))
        for row in rows:
            digest.update((json.dumps(row, separators=(",", ":"), ensure_ascii=False) + ",").encode())
    assert audit(board).digest == digest.hexdigest()


def test_every_projection_is_compared():
    """RULES §9: every stored column: none is left out, whatever table comes."""
    assert {shape.table.name for shape in SHAPES} == {table.name for table in PROJECTIONS}
    for shape in SHAPES:
        assert {"board", *shape.names} == {column.name for column in shape.table.columns}


def test_an_answer_is_the_object_of_the_command_line(board):
    """CLI: replay."""
    outside(board, f"UPDATE events SET hash = {ZEROS} WHERE position = 21")
    shown = audit(board).as_json()
    assert set(shown) == {
        "events", "tasks", "seconds", "events_per_second", "digest", "position", "hash", "divergences", "notes",
    }  # fmt: skip
    assert set(shown["divergences"][0]) == {"task", "position", "rule", "stored", "computed", "text"}
    assert shown["divergences"][0]["stored"] == "00" * 32
    json.dumps(shown)


def test_a_replay_leaves_the_collector_as_it_was(board):
    """Effects at the rim are undone."""
    audit(board)
    assert gc.isenabled()
    gc.disable()
    try:
        audit(board)
        assert not gc.isenabled()
    finally:
        gc.enable()
