"""Files of any version, and files that are none: what can be read is read, what cannot is named."""

import sqlite3
from contextlib import closing

import pytest

from kanban.foreign.audit import audit
from kanban.foreign.faults import ForeignDamaged, ForeignMissing, NoForeignBoard
from kanban.foreign.tables import Event, number, opened
from tests.audit.boards import CARD, FIXTURES, Board, claimed, created, event


def notes(board):
    """What an audit says that it could not look at, but for the limits that it took."""
    return list(board.audit().notes[:-1])


# What is there


@pytest.mark.parametrize("version", [13, 15, 16, 18, 19, 20])
def test_a_board_of_any_version_is_read(version, tmp_path):
    """Each has columns that the ones before it lack."""
    board = Board(tmp_path, version)
    board.card(created(), claimed(1), event("completed", 1), status="done")
    found = board.audit()
    assert (found.tasks, found.events, found.findings) == (1, 3, ())


def test_columns_and_tables_that_nobody_knows_are_left_alone(board):
    """A newer version may bring any number of them."""
    board.say("ALTER TABLE tasks ADD COLUMN mood TEXT")
    board.say('CREATE TABLE moods (id INTEGER PRIMARY KEY, "odd""name" TEXT)')
    board.card(created(), mood="good")
    assert board.audit().findings == ()


def test_a_board_without_runs_or_links_is_still_a_board(board):
    """Its cards and its events are enough."""
    board.card(created(), claimed(1))
    board.say("DROP TABLE task_runs")
    board.say("DROP TABLE task_links")
    assert [each.kind for each in board.audit().findings] == ["stored_against_history"]


def test_a_table_without_counters_says_nothing_of_counters(tmp_path):
    """The very first boards had another name for them; a table may be without types, and an id a number."""
    path = tmp_path / "kanban.db"
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("CREATE TABLE tasks (id, status, spawn_failures)")
        driver.execute("CREATE TABLE task_events (id TEXT, task_id TEXT, kind TEXT)")
        driver.execute("INSERT INTO tasks VALUES (7, 'ready', 3)")
        history = [("a", "claimed"), ("b", "crashed"), ("c", "heartbeat")]
        driver.executemany("INSERT INTO task_events VALUES (?, '7', ?)", history)
        driver.commit()
    found = audit(path)
    assert (found.events, found.findings) == (3, ())


def test_old_names_of_events_are_read_by_their_new_ones(board):
    """Later versions rewrite them; the oldest files still have them."""
    board.card(created("todo"), event("ready"), event("priority", priority=3))
    assert board.audit().findings == ()


# What cannot be read


def test_kinds_that_nobody_knows_are_counted_and_named(board):
    """They are never fatal, and never skipped in silence."""
    board.card(created(), event("teleported"), event("teleported"), event("sighed"), event(""), event("x" * 90))
    kinds = f"teleported (2), sighed (1), without a name (1), {'x' * 40} (1)"
    assert notes(board) == [f"5 events of kinds that are not known, passed over: {kinds}"]


def test_events_that_are_gone_are_counted(board):
    """The table keeps count of all that it ever held."""
    board.card(created(), claimed(1), event("completed", 1), status="done")
    board.say("DELETE FROM task_events WHERE kind <> 'completed'")
    assert notes(board) == [
        "2 of 3 events are gone: that system deletes them with cards, and after 30 days",
        "1 card with a history that begins in the middle: t_a",
    ]


def test_cards_of_which_nothing_is_left_are_counted(board):
    """As are events of cards that are gone, and links that no event tells of."""
    board.card(task="t_b", status="done")
    board.card(created(), status="ready")
    board.event(created(), task="t_gone")
    board.link("t_b", CARD)
    board.link("t_gone", CARD)
    assert notes(board) == [
        "1 event of cards that are not in the table of cards",
        "1 done or archived card without any event left: nothing is said of them",
        "1 link without an event: claims under them were not judged",
    ]


def test_a_payload_that_is_no_object_is_read_as_empty_and_counted(board):
    """Broken, or something else; no payload at all is what many kinds have."""
    board.card(created())
    for payload in ("{", "[1]", '"text"', "3", "[" * 100_000, b"\xff\xfe", "null", None):
        board.say("INSERT INTO task_events (task_id, kind, payload) VALUES ('t_a', 'heartbeat', ?)", payload)
    assert notes(board) == ["6 events with a payload that is no JSON object, read as empty"]


@pytest.mark.parametrize("odd", [None, b"\xff\xfe", 7, 2.5, "", "\udcff", "x" * 100_000, float("inf"), -(2**63)])
@pytest.mark.parametrize(
    "column", ["status", "assignee", "consecutive_failures", "max_retries", "block_kind", "current_run_id"]
)
def test_any_value_in_any_column_is_survived(column, odd, board):
    """SQLite keeps whatever it is given."""
    stored = (
        odd if not isinstance(odd, str) or odd.isprintable() else odd.encode("utf-8", "surrogatepass").decode("latin1")
    )
    if odd is None and column == "consecutive_failures":
        return
    board.card(created(), claimed(1), event("crashed", 1), **{column: stored})
    board.run(1, 1_000, None)
    assert board.audit().as_json()["tasks"] == 1


def test_text_that_is_not_utf8_is_read_as_far_as_it_goes(board):
    """What is not, is shown as such; a word of endless length is cut."""
    board.card(created())
    board.say("UPDATE tasks SET status = CAST(x'646ffe6e65' AS TEXT)")
    assert board.audit().findings[0].stored == {"status": "do\ufffdne"}
    board.say("UPDATE tasks SET status = ?", "x" * 100_000)
    assert board.audit().findings[0].stored == {"status": "x" * 40}


@pytest.mark.parametrize("odd", [None, [], {}, 7, "x", True, 2**70, 1e400, "\ud800"])
@pytest.mark.parametrize(
    "fact",
    ["status", "assignee", "parents", "run_id", "failures", "effective_limit", "recurrences", "kind", "reason",
     "parent", "child_ids", "retry_status", "prev_pid", "protocol_violations", "exit_code", "source"],
)  # fmt: skip
def test_any_value_of_any_fact_is_survived(fact, odd, board):
    """An event is what somebody once wrote."""
    kinds = (
        "created", "claimed", "crashed", "gave_up", "promoted", "claimed", "reclaimed", "claimed", "spawn_failed",
        "blocked", "unblocked", "linked", "assigned", "decomposed", "status", "timed_out", "completed",
    )  # fmt: skip
    board.card(*(event(kind, 1, **{fact: odd}) for kind in kinds))
    assert board.audit().events == len(kinds)


def test_a_card_without_an_id_is_left_out(board):
    """Nothing can be said of it, and nobody could find it."""
    board.say("INSERT INTO tasks (id, status) VALUES (NULL, 'ready')")
    assert board.audit().tasks == 0


@pytest.mark.parametrize(
    ("value", "read"),
    [(3, 3), (4.0, 4), ("5", 5), (-1, -1), (True, None), (2.5, None), ("x", None), ("٣", None), (b"6", None),
     (2**63, None), ("9" * 400, None), (None, None), (float("nan"), None)],
)  # fmt: skip
def test_a_number_is_a_whole_one_that_fits(value, read):
    """However it was written down."""
    assert number(value) == read


def test_an_event_gives_its_facts_by_type():
    """A fact of another type is none."""
    got = Event(1, CARD, "blocked", None, {"reason": 7, "kind": "x", "recurrences": "2"}, None)
    assert (got.text("reason"), got.text("kind"), got.text("gone"), got.number("recurrences")) == ("", "x", "", 2)


# What is no board


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "the file is empty"), (b"x", "no SQLite database"), (b"SQLite format 3", "no SQLite database")],
)
def test_a_file_that_is_no_database_is_damaged(content, says, tmp_path):
    """One byte or none: SQLite itself would take it for an empty one."""
    path = tmp_path / "kanban.db"
    path.write_bytes(content)
    with pytest.raises(ForeignDamaged, match=says):
        audit(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("cut", [100, 512, 5_000, 40_000])
def test_a_database_that_was_cut_off_is_damaged(cut, tmp_path):
    """Whenever that shows: at the first page or in the middle of the events."""
    path = tmp_path / "kanban.db"
    path.write_bytes((FIXTURES / "hermes-board-small.db").read_bytes()[:cut])
    with pytest.raises((ForeignDamaged, NoForeignBoard)):
        audit(path)


def test_pages_that_were_overwritten_are_damage(tmp_path):
    """SQLite finds them while the events are read."""
    path = tmp_path / "kanban.db"
    whole = bytearray((FIXTURES / "hermes-board-small.db").read_bytes())
    whole[8_192:] = b"\xa5" * (len(whole) - 8_192)
    path.write_bytes(whole)
    with pytest.raises(ForeignDamaged):
        audit(path)


@pytest.mark.parametrize(
    ("path", "says"), [("nowhere", "nothing is there"), (".", "that is a folder"), ("/dev/null", "that is no file"),
                       ("a\0b", "nothing is there"), ("x" * 5_000, "too long")],
)  # fmt: skip
def test_a_path_that_leads_to_no_file_is_missing(path, says, tmp_path):
    """It says what is there instead."""
    with pytest.raises(ForeignMissing, match=says):
        audit(tmp_path / path)


def test_a_folder_names_the_board_in_it(tmp_path):
    """As one would type it."""
    with pytest.raises(ForeignMissing) as fault:
        audit(tmp_path)
    assert fault.value.remedy == f"name the file in it, such as {tmp_path}/kanban.db"


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ([], "no table tasks; 0 tables: "),
        (["songs (id)", "bands (id)"], "no table tasks; 2 tables: bands, songs"),
        (["tasks (id)", "task_events (id, task_id, kind)"], "its table tasks has no column status"),
        (["tasks (id, status)"], "no table task_events; 1 table: tasks"),
        (["tasks (id, status)", "task_events (id)"], "its table task_events has no column task_id, kind"),
        (["boards (id)", "events (id)", "words (id)"], "it is a ledger of this program"),
    ],
)
def test_a_database_that_is_no_board_is_named_with_its_tables(tables, says, tmp_path):
    """So that one sees which file it is."""
    path = tmp_path / "kanban.db"
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("PRAGMA user_version=1")
        for table in tables:
            driver.execute(f"CREATE TABLE {table}")
    with pytest.raises(NoForeignBoard) as fault:
        audit(path)
    assert fault.value.message == f"{path} is no such board: {says}"


def test_views_and_virtual_tables_are_no_tables(tmp_path):
    """They run what their author wrote: a view may never end."""
    path = tmp_path / "kanban.db"
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("CREATE TABLE task_events (id, task_id, kind)")
        driver.execute("CREATE VIEW tasks AS WITH RECURSIVE r(id, status) AS "
                       "(SELECT 1, 'ready' UNION ALL SELECT id + 1, 'ready' FROM r) SELECT * FROM r")  # fmt: skip
        driver.execute("PRAGMA writable_schema=ON")
        driver.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'songs', 'songs', 0, 'CREATE VIRTUAL TABLE songs USING x')"
        )
        driver.commit()
    with pytest.raises(NoForeignBoard, match="no table tasks; 1 table: task_events"), opened(path):
        pass
