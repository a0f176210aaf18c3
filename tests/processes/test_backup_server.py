"""Copies of a store on a server and their way back, into either database, by the same rules as those of a file."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from kanban import restore_server
from kanban.address import address_of
from kanban.backup import backup
from kanban.doctor import examine
from kanban.restore import RestoreRefused, restore
from kanban.soundness import CopyUnsound, verify
from ledger.database import connected, reading, sqlite_module, writing
from ledger.errors import StoreBusy, StoreDenied, StoreExists, StoreFull, StoreMissing, UnknownBoard
from ledger.store import board_names
from projections import carried
from projections.carried import carry, differing
from projections.replay import replay
from tests import audits, fleets, ledgers, served, servers
from tests.fleets import until
from tests.processes.test_backup import sql
from tests.served import BOARD, asked, forged, opened

LEDGER = Path(sys.executable).parent / "ledger"


@pytest.fixture
def url():
    """The address of a store with the board `default` and three cards, its log ends at position 5."""
    with served.lent(cards=3) as found:
        yield found


@pytest.fixture
def empty():
    """The address of a database in which nothing is."""
    with servers.shared().lent() as found:
        yield found


def created(url, *titles):
    """Make cards there."""
    with opened(url) as board:
        return [board.create(title).task["id"] for title in titles]


def state(url, board=BOARD):
    """Position and digest of a log that replays without a fault."""
    with connected(url) as engine:
        found = replay(engine, board)
    assert found.divergences == ()
    return found.position, found.digest


def kept_at(url, schema):
    """The address of what a restore has kept."""
    return f"{url}&options=-csearch_path%3D{schema}"


def schemas(url):
    """What restores have kept there."""
    rows = asked(url, "SELECT nspname FROM pg_namespace WHERE nspname ~ '^(before|ledger)_' ORDER BY 1")
    return [name for (name,) in rows]


def taken(url, folder, name="copy.db", **how):
    """A copy of the store there."""
    return backup(url, BOARD, folder / name, **how).file


# A copy


def test_a_copy_is_one_sqlite_file_and_says_where_the_log_ends(url, tmp_path):
    """Verified, its owner's alone, and nothing beside it; the same log, the same projections."""
    found = backup(url, BOARD, tmp_path / "copy.db")
    assert (found.heads[BOARD].position, found.doubts) == (5, ())
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("copy.db", 0o600)]
    assert verify(found.file).heads == found.heads
    assert state(f"sqlite:///{found.file}") == state(url)


def test_a_lived_in_store_comes_back_as_it_was_from_a_copy(empty, tmp_path):
    """Every column of every row of two boards: to a file, and into another database of a server."""
    with servers.shared().lent() as old:
        store = ledgers.founded(old)
        ledgers.new_board(store, "ops", "c" * 32)
        audits.live(store)
        store.sql("INSERT INTO leases VALUES ('b', 't_a', 2, 7, NULL), ('b', 't_p', 1, 8, 9)")
        store.sql("INSERT INTO held VALUES ('b', 't_a', 'cooldown_until', 5, 6), ('ops', 't_x', 'paused', NULL, 1)")
        store.sql("INSERT INTO sweeps VALUES ('b', 'host', 5, NULL, 0)")
        backup(old, "b", tmp_path / "copy.db")
        restore(tmp_path / "copy.db", empty, board="b")
        with connected(empty) as engine, reading(engine) as there, reading(store.engine) as here:
            assert differing(here, there) is None
        store.engine.dispose()


def test_either_database_takes_the_copy_of_the_other(fleet, url, empty, tmp_path):
    """From a server into a file, from a file to a server, and both go on."""
    restore(taken(url, tmp_path), f"sqlite:///{tmp_path}/new.db", board=BOARD)
    assert state(f"sqlite:///{tmp_path}/new.db") == state(url)
    fleet.create("on a file")
    before = fleet.board.replay()
    restore(backup(fleet.url, BOARD, tmp_path / "file.db").file, empty, board=BOARD)
    assert state(empty) == (before.position, before.digest)
    for new in (f"sqlite:///{tmp_path}/new.db", empty):
        created(new, "later")
        assert state(new)


def test_a_board_that_is_not_there_leaves_no_file(url, tmp_path):
    """Refused before anything is written; so is a database that is not there."""
    with pytest.raises(UnknownBoard):
        backup(url, "nosuch", tmp_path / "copy.db")
    with pytest.raises(StoreMissing):
        backup(url.replace("?", "_none?"), BOARD, tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


def test_a_log_whose_chain_is_broken_is_not_copied_in_silence(url, tmp_path):
    """The copy is verified before it has its name."""
    forged(url, "UPDATE events SET at = at + 1 WHERE position = 3")
    with pytest.raises(CopyUnsound, match="position 3: its hash is not that of its columns"):
        taken(url, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_while_two_others_write_is_one_snapshot(fleet, url, tmp_path):
    """Each append is a card and its hold, two events: every copy ends between appends and replays without a fault."""
    writers = fleet.writers(url)
    positions = []

    def another() -> bool:
        found = backup(url, BOARD, tmp_path / f"copy-{len(positions)}.db")
        assert found.doubts == ()
        positions.append(found.heads[BOARD].position)
        return len(positions) >= 5 and len(set(positions)) >= 3

    until(another)
    assert positions == sorted(positions)
    assert all((at - 5) % 2 == 0 for at in positions)
    made = fleet.written(writers)
    assert state(url)[0] == 5 + 2 * made


def test_a_copy_killed_in_the_middle_leaves_none_under_its_name(fleet, url, tmp_path):
    """`kill -9` with half of the rows written; a second try goes well."""
    dies = (
        "c.pour = lambda tx, table, rows: os.kill(os.getpid(), 9) if table.name == 'words' else pour(tx, table, rows)"
    )
    other = fleet.outside(
        "import kanban.backup as b, projections.carried as c\nfrom pathlib import Path\npour = c.pour\n"
        f"{dies}\nb.backup(sys.argv[1], 'default', Path(sys.argv[2]) / 'copy.db')",
        url,
        str(tmp_path),
    )
    assert other.wait() == -signal.SIGKILL
    assert not (tmp_path / "copy.db").exists()
    assert verify(taken(url, tmp_path)).doubts == ()


def test_a_disk_that_gets_full_is_named_with_the_file(url, tmp_path, monkeypatch):
    """Not as if the server could not be written to."""

    def full(*_):
        raise sqlite_module().OperationalError("database or disk is full")

    monkeypatch.setattr(carried, "pour", full)
    with pytest.raises(StoreFull, match=r"copy\.db: .*disk is full"):
        taken(url, tmp_path)
    assert list(tmp_path.iterdir()) == []


# The way back


def test_a_copy_is_put_into_an_empty_database_and_into_one_that_is_made(url, empty, tmp_path):
    """Nothing stood there, so nothing is kept; the planner knows how large it is."""
    copy = taken(url, tmp_path)
    found = restore(copy, empty, board=BOARD)
    assert (found.kept, found.notes, found.heads[BOARD].position) == (None, (), 5)
    assert state(empty) == state(url)
    assert schemas(empty) == []
    assert asked(empty, "SELECT reltuples FROM pg_class WHERE oid = 'tasks'::regclass") == [(3.0,)]
    made = empty.replace("?", "_made?")
    assert restore(copy, made, board=BOARD, dry_run=True).kept is None
    with pytest.raises(StoreMissing):
        state(made)
    restore(copy, made, board=BOARD)
    assert state(made) == state(url)
    asked(empty, f"DROP DATABASE {made.partition('?')[0].rpartition('/')[2]} WITH (FORCE)")


def test_what_stood_there_is_kept_whole_in_a_schema_of_its_own(url, tmp_path):
    """`before_<position>`; a second one of that position gets another name, and nothing is ever written over."""
    copy = taken(url, tmp_path)
    created(url, "later")
    later = state(url)
    with pytest.raises(RestoreRefused, match="go back from position 6 to 5: 1 event would be gone"):
        restore(copy, url, board=BOARD)
    assert state(url) == later
    found = restore(copy, url, board=BOARD, force=True)
    assert found.kept == "schema before_6"
    assert "go back from position 6 to 5" in found.notes[0]
    assert state(url)[0] == 5
    assert state(kept_at(url, "before_6")) == later
    assert [restore(copy, url, board=BOARD).kept for _ in range(2)] == ["schema before_5", "schema before_5_2"]
    assert schemas(url) == ["before_5", "before_5_2", "before_6"]
    created(url, "and on")
    assert state(url)[0] == 6


def test_the_database_still_refuses_that_a_restored_log_is_changed(url, tmp_path):
    """The triggers came along."""
    restore(taken(url, tmp_path), url, board=BOARD)
    at = address_of(url, BOARD, actor=None, config=None, environ={"LEDGER_HOME": str(tmp_path)}, cwd=tmp_path)
    told = {each.check: each for each in examine(at)}
    assert told["append_only"].level == "ok"
    with psycopg.connect(url.replace("+psycopg", "", 1)) as tx, pytest.raises(psycopg.errors.RaiseException):
        tx.execute("UPDATE events SET at = 0")


def test_the_rules_of_a_file_hold_on_a_server(url, tmp_path, founded):
    """Another history, a board that would be gone; and whatever is forced, another ledger and a forged copy."""
    copy = taken(url, tmp_path)
    created(url, "one way", "and on")
    first = taken(url, tmp_path, "first.db")
    restore(copy, url, board=BOARD, force=True)
    created(url, "the other way")
    with pytest.raises(RestoreRefused, match="another history here than in the copy: they differ at position 6"):
        restore(first, url, board=BOARD)
    fleets.found(url, "ops", fleets.FOUNDER, fleets.system_clock)
    with pytest.raises(RestoreRefused, match="board ops, at position 2, is not in the copy"):
        restore(first, url, board=BOARD)
    foreign = fleets.new_fleet(founded, tmp_path / "other")
    strange = backup(foreign.url, BOARD, tmp_path / "strange.db").file
    sql(first, "DROP TRIGGER words_no_update", "UPDATE words SET words = '{}' WHERE position = 4")
    before = state(url)
    for file, fault in ((strange, StoreExists), (first, CopyUnsound)):
        for dry_run in (True, False):
            with pytest.raises(fault):
                restore(file, url, board=BOARD, force=True, dry_run=dry_run)
    assert state(url) == before


def test_another_programs_database_is_not_replaced(url, empty, tmp_path):
    """Not even when forced."""
    copy = taken(url, tmp_path)
    asked(empty, "CREATE TABLE things (name text)")
    with pytest.raises(StoreExists, match="another program's database"):
        restore(copy, empty, board=BOARD, force=True)
    assert asked(empty, "SELECT count(*) FROM things") == [(0,)]


def test_a_store_that_cannot_be_read_is_replaced_only_when_forced_and_kept(url, tmp_path):
    """It may hold what no copy has."""
    copy = taken(url, tmp_path)
    asked(url, "DROP TABLE boards CASCADE")
    with pytest.raises(RestoreRefused, match="what stands there cannot be read: the store lacks a table"):
        restore(copy, url, board=BOARD)
    assert restore(copy, url, board=BOARD, force=True).kept == "schema before_unreadable"
    assert state(url)[0] == 5
    assert asked(url, "SELECT count(*) FROM before_unreadable.events") == [(5,)]


def test_a_store_that_others_have_open_is_replaced_only_when_forced(url, tmp_path):
    """Who has it is said; what it writes after that is in the new store, or refused."""
    copy = taken(url, tmp_path)
    with opened(url) as other:
        pid = asked(url, "SELECT pid FROM pg_stat_activity WHERE application_name = 'kanban-ledger'")[0][0]
        with pytest.raises(RestoreRefused, match=rf"it is open in process {pid} \(kanban-ledger, \w+ on"):
            restore(copy, url, board=BOARD)
        (note,) = restore(copy, url, board=BOARD, force=True).notes
        assert note.startswith(f"it is open in process {pid}")
        other.create("through the old connection")
    assert state(url)[0] == 6
    assert state(kept_at(url, "before_5"))[0] == 5


def test_a_restore_waits_for_a_writer_and_says_that_it_wrote(url, tmp_path):
    """A transaction that has begun is not cut off; nor is what it wrote replaced unseen."""
    copy = taken(url, tmp_path)
    said = []

    def put():
        try:
            restore(copy, url, board=BOARD, force=True)
        except StoreBusy as fault:
            said.append(fault)

    waiting = threading.Thread(target=put)
    with connected(url) as engine:
        store = ledgers.Ledger(url, engine)
        with writing(engine) as tx:
            tx.exec_driver_sql("UPDATE boards SET head_at = head_at + 1")
            waiting.start()
            waiting.join(1)
            assert waiting.is_alive()
        waiting.join(fleets.PATIENCE)
        store.sql("UPDATE boards SET head_at = head_at - 1")
    assert "was written to meanwhile" in said[0].message
    assert (state(url)[0], schemas(url)) == (5, [])


@pytest.mark.parametrize("step", ["make_tables", "carry", "differing", "_check_still", "schemas.exchange"])
def test_a_restore_killed_at_any_step_leaves_what_stood_there(fleet, url, tmp_path, step):
    """`kill -9` before the one commit: nothing was changed, and nothing is left of it."""
    copy = taken(url, tmp_path)
    created(url, "later")
    before = state(url)
    other = fleet.outside(
        "import kanban.restore as r, kanban.restore_server as s\nfrom pathlib import Path\n"
        f"s.{step} = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        "r.restore(Path(sys.argv[1]), sys.argv[2], board='default', force=True)",
        str(copy),
        url,
    )
    assert other.wait() == -signal.SIGKILL
    assert (state(url), schemas(url)) == (before, [])
    restore(copy, url, board=BOARD, force=True)
    assert state(url)[0] == 5


def test_rows_that_came_otherwise_than_they_are_in_the_copy_are_noticed(url, empty, tmp_path, monkeypatch):
    """Somebody writes to the file meanwhile, or the way there changes a value: nothing is put in place."""

    def changed(source, target, **how):
        carry(source, target, **how)
        target.exec_driver_sql("UPDATE tasks SET priority = 9")

    copy = taken(url, tmp_path)
    monkeypatch.setattr(restore_server, "carry", changed)
    with pytest.raises(CopyUnsound, match="it changed while it was read: tasks"):
        restore(copy, empty, board=BOARD)
    with connected(empty) as engine, pytest.raises(Exception, match="boards"), reading(engine) as tx:
        board_names(tx)


def test_a_dry_run_says_what_would_be_and_changes_nothing(url, tmp_path):
    """The same answer as of the real one."""
    copy = taken(url, tmp_path)
    created(url, "later")
    before = state(url)
    found = restore(copy, url, board=BOARD, force=True, dry_run=True)
    assert (state(url), schemas(url)) == (before, [])
    real = restore(copy, url, board=BOARD, force=True)
    assert (found.dry_run, real.dry_run) == (True, False)
    assert (found.heads, found.kept, found.notes) == (real.heads, real.kept, real.notes)


def test_a_restore_that_takes_long_is_not_cut_off(url, empty, tmp_path, monkeypatch):
    """A server ends transactions that stand still; this one stands still while the file is read."""
    copy = taken(url, tmp_path)
    monkeypatch.setenv("PGOPTIONS", "-c idle_in_transaction_session_timeout=2s")
    monkeypatch.setattr(restore_server, "carry", lambda *rest, **how: (time.sleep(2.5), carry(*rest, **how)))
    restore(copy, empty, board=BOARD)
    assert state(empty)[0] == 5


def test_rights_owner_and_other_peoples_views_go_with_what_they_belong_to(url, tmp_path):
    """Whoever restores: the owner and the roles of before work on; a view shows what it showed, and is kept."""
    copy = taken(url, tmp_path)
    asked(
        url, "CREATE ROLE kept_owner", "CREATE ROLE kept_reader", "ALTER TABLE events OWNER TO kept_owner",
        "GRANT SELECT ON cards TO kept_reader", "GRANT UPDATE (head_at) ON boards TO kept_reader",
        "GRANT SELECT ON tasks TO PUBLIC", "CREATE VIEW mine AS SELECT count(*) FROM tasks",
    )  # fmt: skip
    try:
        restore(copy, url, board=BOARD)
        asked_for = (
            "SELECT has_table_privilege('kept_reader', 'cards', 'SELECT'), "
            "has_column_privilege('kept_reader', 'boards', 'head_at', 'UPDATE'), "
            "has_column_privilege('kept_reader', 'boards', 'board', 'UPDATE'), "
            "has_table_privilege('kept_reader', 'tasks', 'SELECT'), "
            "has_table_privilege('kept_reader', 'runs', 'SELECT'), "
            "pg_get_userbyid((SELECT relowner FROM pg_class WHERE oid = 'events'::regclass))"
        )
        assert asked(url, asked_for) == [(True, True, False, True, False, "kept_owner")]
        assert asked(url, "SELECT * FROM before_5.mine") == [(3,)]
    finally:
        asked(url, "DROP OWNED BY kept_owner, kept_reader CASCADE", "DROP ROLE kept_owner, kept_reader")


def test_a_role_that_may_not_make_a_schema_is_told_so(url, empty, tmp_path):
    """Nothing is changed."""
    copy, weak = taken(url, tmp_path), make_url(empty).set(username="weak", password="pw")
    asked(url, "CREATE ROLE weak LOGIN PASSWORD 'pw'")
    try:
        with pytest.raises(StoreDenied, match="permission denied for database"):
            restore(copy, weak.render_as_string(hide_password=False), board=BOARD)
    finally:
        asked(url, "DROP ROLE weak")


def test_the_commands_print_what_they_print_of_a_file(fleet, url, tmp_path):
    """The same JSON; people are told in which schema lies what stood there."""

    def ledger(*words):
        environ = fleet.environ | {"LEDGER_DATABASE_URL": url}
        return subprocess.run([LEDGER, *words], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)

    made = json.loads(ledger("backup", "copy.db", "--json").stdout)
    assert made.keys() == {"schema", "file", "position", "hash", "boards", "notes"}
    put = json.loads(ledger("restore", "copy.db", "--json").stdout)
    assert put.keys() == {"schema", "file", "position", "hash", "boards", "kept", "dry_run", "notes"}
    assert (put["position"], put["hash"], put["kept"]) == (5, made["hash"], "schema before_5")
    assert "what stood there is kept as schema before_5_2" in ledger("restore", "copy.db").stdout
    assert ledger("backup", "copy.db", "--json").returncode == 1


def test_what_is_restored_can_be_restored_again(url, empty, tmp_path):
    """A copy of a copy of a copy is the same store."""
    first = taken(url, tmp_path)
    restore(first, empty, board=BOARD)
    second = taken(empty, tmp_path, "second.db")
    with (
        connected(f"sqlite:///{first}") as one,
        connected(f"sqlite:///{second}") as other,
        reading(one) as here,
        reading(other) as there,
    ):
        assert differing(here, there) is None
