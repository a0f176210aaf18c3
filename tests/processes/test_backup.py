"""Copies of a store and their way back: whole or not there, verified, and never over something that would be lost."""

import os
import signal
import sqlite3
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kanban import backup as backups
from kanban import restore as restores
from kanban.backup import CopyThere, backup
from kanban.restore import RestoreRefused, restore
from kanban.soundness import CopyUnsound, verify
from ledger.copies import write_copy
from ledger.database import connect, sqlite_module
from ledger.errors import (
    InvalidInput,
    NotFound,
    StoreExists,
    StoreFull,
    StoreMissing,
    StoreOutdated,
    StoreTooNew,
    UnknownBoard,
)
from tests import fleets
from tests.fleets import until

BOARD = "default"


@pytest.fixture
def copy(fleet):
    """A copy of a board with three cards, taken at position 5."""
    for number in range(3):
        fleet.create(f"card {number}")
    return taken(fleet, "copy.db")


def taken(fleet, name, **how):
    """A copy beside the store."""
    return backup(fleet.url, BOARD, fleet.home / name, **how).file


def put(fleet, file, **how):
    """Restore *file*, with nothing of ours open."""
    fleet._close_boards()
    return restore(file, fleet.url, board=BOARD, **how)


def position(fleet):
    return fleet.board.columns()["position"]


def whole(fleet):
    """Whether a replay of what stands there finds nothing."""
    return fleet.board.replay().divergences == ()


def sql(file, *statements):
    """Change *file* as an outsider would, triggers or not."""
    with closing(sqlite_module().connect(str(file), isolation_level=None)) as forger:
        for statement in statements:
            forger.execute(statement)


def standing(fleet):
    """Every file of the store and its size and bytes, but for what a reader makes and takes away."""
    return {
        path.name: path.read_bytes()
        for path in sorted(fleet.home.iterdir())
        if path.is_file() and not path.name.endswith(("-shm", ".gate", "-wal"))
    }


def assert_refused(fleet, file, fault, match, **how):
    """Refused by a dry run and by a real one alike, and nothing was changed."""
    fleet._close_boards()
    before = standing(fleet)
    for dry_run in (True, False):
        with pytest.raises(fault, match=match):
            put(fleet, file, dry_run=dry_run, **how)
        assert standing(fleet) == before


@contextmanager
def opened_elsewhere(fleet):
    """Another process that has the store open."""
    other = fleet.outside("board.columns(); print('open', flush=True); sys.stdin.readline()")
    assert other.stdout.readline() == "open\n"
    yield other
    let_go(other)


def let_go(other):
    """Let a process that waits for a line go on, to its end."""
    other.stdin.write("\n")
    other.stdin.flush()
    other.wait()


# A copy


def test_a_copy_says_where_the_log_ends_and_can_be_replayed(fleet):
    """(position, hash) are those of the head, and the copy is a store that a replay finds nothing wrong with."""
    fleet.create()
    found = backup(fleet.url, BOARD, fleet.home / "copy.db")
    replayed = fleet.board.replay()
    shown = found.as_json(BOARD)
    assert (shown["position"], shown["hash"]) == (replayed.position, replayed.hash)
    assert shown["boards"] == {BOARD: {"position": replayed.position, "hash": replayed.hash}}
    elsewhere = fleets.Board.open(f"sqlite:///{found.file}", environ=fleet.environ, cwd=fleet.home)
    assert elsewhere.replay().digest == replayed.digest
    elsewhere.close()


def test_a_copy_is_its_owners_alone_whatever_the_umask(fleet):
    """Mode 0600: it holds every word of the board."""
    before = os.umask(0)
    try:
        file = taken(fleet, "copy.db")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_copy_leaves_nothing_beside_it(fleet, copy):
    """One file: no draft, no log, no lock."""
    assert sorted(path.name for path in fleet.home.iterdir() if "copy" in path.name) == ["copy.db"]


def test_a_copy_holds_what_lies_in_the_write_ahead_log_only(fleet):
    """A copy by hand would miss what the log of a live store has not folded in yet."""
    fleet.create()
    assert Path(f"{fleet.home}/ledger.db-wal").stat().st_size
    assert verify(taken(fleet, "copy.db")).heads[BOARD].position == 3


def test_every_board_of_the_store_is_in_the_copy(fleet):
    """A store is copied whole; position and hash are those of the board in question."""
    fleet.found("ops")
    found = backup(fleet.url, "ops", fleet.home / "copy.db").as_json("ops")
    assert set(found["boards"]) == {BOARD, "ops"}
    assert found["hash"] == found["boards"]["ops"]["hash"] != found["boards"][BOARD]["hash"]


def test_words_that_were_deleted_are_not_in_a_copy(fleet):
    """They stay in a live file's free pages; a copy is written anew."""
    secret = "the-secret-word"
    fleet.create(secret * 400)
    fleet._close_boards()
    store, file = fleet.home / "ledger.db", fleet.home / "copy.db"
    sql(store, "PRAGMA secure_delete=OFF", "DELETE FROM words WHERE position = 3")
    assert secret.encode() in store.read_bytes()
    write_copy(connect(fleet.url), file)
    assert secret.encode() not in file.read_bytes()


def test_a_name_that_is_taken_is_refused_unless_forced(fleet, copy):
    """An older copy is not written over by accident."""
    fleet.create()
    before = copy.read_bytes()
    with pytest.raises(CopyThere, match="is there already"):
        backup(fleet.url, BOARD, copy)
    assert copy.read_bytes() == before
    assert backup(fleet.url, BOARD, copy, force=True).heads[BOARD].position == 6
    assert verify(copy).heads[BOARD].position == 6


def test_a_name_taken_while_the_copy_is_made_is_not_written_over(fleet, monkeypatch):
    """Whoever came first keeps the name."""
    file = fleet.home / "copy.db"
    checked = backups.verify

    def meanwhile(draft, **how):
        file.write_text("somebody else's")
        return checked(draft, **how)

    monkeypatch.setattr(backups, "verify", meanwhile)
    with pytest.raises(CopyThere):
        backup(fleet.url, BOARD, file)
    assert file.read_text() == "somebody else's"


def test_where_there_are_no_hard_links_a_copy_gets_its_name_all_the_same(fleet, monkeypatch):
    """A memory stick's file system has none; a name that is taken is respected there too."""

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    file = taken(fleet, "copy.db")
    assert verify(file).heads[BOARD].position == 2
    monkeypatch.setattr(backups, "_check_target", lambda *_, **__: None)
    with pytest.raises(CopyThere):
        backup(fleet.url, BOARD, file)


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.gate"])
def test_the_store_itself_is_no_target(fleet, name):
    """Not even when forced."""
    with pytest.raises(InvalidInput, match="is the store itself"):
        taken(fleet, name, force=True)


def test_a_store_in_use_is_no_target(fleet, tmp_path):
    """A log left beside a fresh copy would be taken for its own."""
    (fleet.home / "copy.db-wal").touch()
    with pytest.raises(InvalidInput, match=r"copy\.db is a store in use"):
        taken(fleet, "copy.db", force=True)


def test_a_folder_that_is_missing_and_one_instead_of_a_file_are_named(fleet):
    """What to do is said: mkdir, or name a file."""
    with pytest.raises(NotFound, match="is no folder") as missing:
        taken(fleet, "away/copy.db")
    assert missing.value.remedy == f"mkdir -p {fleet.home / 'away'}"
    (fleet.home / "away").mkdir()
    with pytest.raises(InvalidInput, match="is a folder"):
        taken(fleet, "away")


def test_a_board_that_is_not_there_and_a_store_that_is_not_there_leave_no_file(fleet, tmp_path):
    """Refused before anything is written."""
    with pytest.raises(UnknownBoard):
        backup(fleet.url, "nosuch", fleet.home / "copy.db")
    with pytest.raises(StoreMissing):
        backup(f"sqlite:///{tmp_path}/none.db", BOARD, fleet.home / "copy.db")
    assert not (fleet.home / "copy.db").exists()


def test_a_store_whose_chain_is_broken_is_not_copied_in_silence(fleet):
    """The copy is verified before it has its name: a forged event is named."""
    fleet.create()
    fleet._close_boards()
    sql(fleet.home / "ledger.db", "DROP TRIGGER events_no_update", "UPDATE events SET at = at + 1 WHERE position = 3")
    with pytest.raises(CopyUnsound, match="position 3: its hash is not that of its columns"):
        taken(fleet, "copy.db")
    assert not [path for path in fleet.home.iterdir() if "copy" in path.name]


def test_a_projection_that_is_off_does_not_keep_a_log_from_being_copied(fleet):
    """The log is the truth and whole; that a stored row differs is said."""
    card = fleet.create()
    fleet._close_boards()
    sql(fleet.home / "ledger.db", "UPDATE tasks SET failures = 7")
    found = backup(fleet.url, BOARD, fleet.home / "copy.db")
    assert len(found.doubts) == 1
    assert "RULES §9 stored" in found.doubts[0]
    assert card


def test_a_full_disk_is_named_with_the_file(fleet, monkeypatch):
    """Not as if the store itself could not be written."""

    def full(*_):
        raise StoreFull("the store cannot be written: database or disk is full", remedy="free space")

    monkeypatch.setattr(backups, "write_copy", full)
    with pytest.raises(StoreFull, match=r"copy\.db: .*disk is full"):
        taken(fleet, "copy.db")
    assert not [path for path in fleet.home.iterdir() if "copy" in path.name]


def test_a_copy_while_two_others_write_holds_no_half_transaction(fleet):
    """Each append is a card and its hold, two events: every copy ends between appends and replays without a fault."""
    writers = fleet.writers(fleet.url)
    positions = []

    def another() -> bool:
        found = verify(taken(fleet, f"copy-{len(positions)}.db"))
        assert found.doubts == ()
        positions.append(found.heads[BOARD].position)
        return len(positions) >= 5 and len(set(positions)) >= 3

    until(another)
    assert positions == sorted(positions)
    assert all((at - 2) % 2 == 0 for at in positions)
    made = fleet.written(writers)
    assert position(fleet) == 2 + 2 * made


@pytest.mark.parametrize("step", ["verify", "settled", "_publish"])
def test_a_copy_killed_before_it_has_its_name_leaves_none(fleet, step):
    """`kill -9` with the draft written, verified, or on disk: the name is not there, and a second try goes well."""
    other = fleet.outside(
        f"import kanban.backup as b\nfrom pathlib import Path\nb.{step} = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        "b.backup(board.url, 'default', Path('copy.db'))"
    )
    assert other.wait() == -signal.SIGKILL
    left = [path for path in fleet.home.iterdir() if "copy" in path.name]
    assert [path.name.endswith(".part") for path in left] == [True]
    assert taken(fleet, "copy.db").exists()


def test_a_copy_killed_while_it_is_written_leaves_none_under_its_name(fleet):
    """`kill -9` in the middle of the writing itself."""
    for _ in range(40):
        fleet.create("x" * 60_000)
    other = fleet.outside(
        "import kanban.backup as b\nfrom pathlib import Path\nprint('go', flush=True)\n"
        "while True: b.backup(board.url, 'default', Path('copy.db'), force=True) and os.unlink('copy.db')"
    )
    other.stdout.readline()
    draft = until(lambda: [path for path in fleet.home.glob(".copy.db.*.part") if size_of(path) > 50_000])
    other.kill()
    other.wait()
    assert draft
    file = fleet.home / "copy.db"
    assert not file.exists() or verify(file).doubts == ()


def size_of(path):
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_what_killed_copies_left_is_removed_by_a_later_one_and_other_files_are_not(fleet):
    """Only drafts of the same name that nobody has written to for an hour."""
    old, fresh, other = (fleet.home / name for name in (".copy.db.00.part", ".copy.db.01.part", ".else.db.00.part"))
    for path in (old, fresh, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (1_000_000, 1_000_000))
    taken(fleet, "copy.db")
    assert [path.exists() for path in (old, fresh, other)] == [False, True, True]


# The way back


def test_a_copy_restores_a_store_that_is_gone(fleet, copy):
    """The store, its log and its projections stand as they stood when the copy was taken."""
    fleet._close_boards()
    (fleet.home / "ledger.db").unlink()
    found = put(fleet, copy)
    assert (found.kept, found.notes, found.heads[BOARD].position) == (None, (), 5)
    assert position(fleet) == 5
    assert whole(fleet)
    fleet.create()
    assert whole(fleet)


def test_a_restored_store_is_private_and_keeps_a_write_ahead_log(fleet, copy):
    """Whatever mode the copy has by now; and nothing is left beside it."""
    copy.chmod(0o644)
    put(fleet, copy)
    store = fleet.home / "ledger.db"
    assert store.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(store)) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert not list(fleet.home.glob(".ledger.db*"))


def test_the_copy_itself_stays_as_it_is(fleet, copy):
    """It may be restored again."""
    before = copy.read_bytes()
    fleet.create()
    put(fleet, copy, force=True)
    fleet.create()
    assert copy.read_bytes() == before


def test_what_stood_there_is_kept_beside_it_whole(fleet, copy):
    """`<name>.before-<position>`, in one file, with all that lay in its write-ahead log."""
    fleet.create("later")
    found = put(fleet, copy, force=True)
    assert found.kept == fleet.home / "ledger.db.before-6"
    assert verify(found.kept).heads[BOARD].position == 6
    assert found.kept.stat().st_nlink == 1
    assert not list(fleet.home.glob("ledger.db.before-6-*"))
    assert position(fleet) == 5


def test_the_same_position_is_kept_twice_under_two_names(fleet, copy):
    """Nothing that was kept is ever written over."""
    assert put(fleet, copy).kept == fleet.home / "ledger.db.before-5"
    assert put(fleet, copy).kept == fleet.home / "ledger.db.before-5.2"


def test_a_copy_that_is_ahead_with_the_same_history_is_taken(fleet, copy):
    """Forward is no loss: the copy goes on where the store ends."""
    later = (fleet.create("later"), taken(fleet, "later.db"))[1]
    put(fleet, copy, force=True)
    found = put(fleet, later)
    assert (found.notes, found.heads[BOARD].position) == ((), 6)
    assert position(fleet) == 6


def test_an_older_copy_is_refused_with_both_positions(fleet, copy):
    """Going backwards is said, and only forced."""
    fleet.create()
    fleet.create()
    assert_refused(fleet, copy, RestoreRefused, "go back from position 7 to 5: 2 events would be gone")
    found = put(fleet, copy, force=True)
    assert "go back from position 7 to 5" in found.notes[0]


def test_a_copy_with_another_history_is_refused(fleet, copy):
    """The same ledger that went two ways: neither is the other's past."""
    fleet.create("one way")
    fleet.create("and on")
    first = taken(fleet, "first.db")
    put(fleet, copy, force=True)
    fleet.create("the other way")
    assert_refused(fleet, first, RestoreRefused, "another history here than in the copy: they differ at position 6")
    for _ in range(3):
        fleet.create()
    assert_refused(fleet, first, RestoreRefused, "go back from position 9 to 7.*they differ at position 7")


def test_a_board_that_is_not_in_the_copy_is_named(fleet, copy):
    """It would be gone altogether."""
    fleet.found("ops")
    assert_refused(fleet, copy, RestoreRefused, "board ops, at position 2, is not in the copy")


def test_the_copy_of_another_ledger_is_refused_even_when_forced(fleet, tmp_path):
    """Another board id: it is not this store's past."""
    foreign = fleets.new_fleet(fleets.new_template(tmp_path), tmp_path / "other")
    file = taken(foreign, "copy.db")
    for force in (False, True):
        assert_refused(fleet, file, StoreExists, "the copy is of another ledger: its board default", force=force)
    foreign.end()


def test_a_truncated_copy_is_refused(fleet, copy):
    """SQLite's own check, whatever is missing."""
    whole_copy = copy.read_bytes()
    for size in (len(whole_copy) - 1, len(whole_copy) - 4096, 20_000, 100, 3):
        copy.write_bytes(whole_copy[:size])
        assert_refused(fleet, copy, CopyUnsound, "is no sound copy", force=True)


def test_a_copy_with_a_broken_index_is_refused(fleet, copy):
    """No fold reads it; SQLite's own check does."""
    with closing(sqlite3.connect(copy)) as reader:
        root = reader.execute("SELECT rootpage FROM sqlite_master WHERE name = 'tasks_key'").fetchone()[0]
        size = reader.execute("PRAGMA page_size").fetchone()[0]
    with copy.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * 64)
    assert_refused(fleet, copy, CopyUnsound, "is no sound copy: ", force=True)


def test_an_empty_file_and_a_text_are_no_copies(fleet):
    """Named as what they are."""
    file = fleet.home / "notes.txt"
    for text in ("", "hello " * 1000):
        file.write_text(text)
        assert_refused(fleet, file, CopyUnsound, "notes.txt is no sound copy")


def test_a_copy_in_which_one_bit_has_flipped_is_refused_or_it_does_not_matter(fleet, copy):
    """Wherever it flips: what could be restored replays as what was copied."""
    data, digest = copy.read_bytes(), fleet.board.replay().digest
    fleet._close_boards()
    before, refused, file = standing(fleet), 0, fleet.home.parent / "flipped.db"
    used = [place for place, byte in enumerate(data) if byte]
    for place in used[:: len(used) // 40]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        file.write_bytes(flipped)
        try:
            restore(file, fleet.url, board=BOARD, dry_run=True)
        except (CopyUnsound, StoreTooNew, StoreOutdated, StoreExists, RestoreRefused):
            refused += 1
            continue
        other = fleets.Board.open(f"sqlite:///{file}", environ=fleet.environ, cwd=fleet.home)
        assert other.replay().digest == digest
        other.close()
    assert standing(fleet) == before
    assert refused > 10


@pytest.mark.parametrize(
    ("table", "change", "where"),
    [
        ("events", "facts = replace(facts, '0', '1')", "position 2"),
        ("events", "actor_name = 'eve'", "position 3"),
        ("words", "words = replace(words, 'card', 'cart')", "position 3"),
        ("boards", "head_hash = zeroblob(32)", "the head's hash is not that of the last event"),
    ],
)
def test_a_copy_whose_chain_is_forged_is_refused_even_when_forced(fleet, copy, table, change, where):
    """The file is whole for SQLite; the chain says what is not."""
    triggers = ("events_no_update", "words_no_update", "boards_head_grows")
    place = "" if table == "boards" else f" WHERE position = {where[-1]}"
    sql(copy, *(f"DROP TRIGGER {name}" for name in triggers), f"UPDATE {table} SET {change}{place}")
    assert_refused(fleet, copy, CopyUnsound, where, force=True)


def test_a_copy_with_a_cut_tail_is_refused(fleet, copy):
    """The head says more than the log has."""
    sql(
        copy,
        "DROP TRIGGER events_no_delete",
        "PRAGMA foreign_keys=OFF",
        "DELETE FROM words WHERE position=5",
        "DELETE FROM events WHERE position=5",
    )
    assert_refused(fleet, copy, CopyUnsound, "the log ends at position 5, it ends at 4", force=True)


def test_a_copy_whose_board_id_was_changed_is_refused(fleet, copy):
    """The chain begins with it, and board_created tells it."""
    sql(copy, "DROP TRIGGER boards_head_grows", f"UPDATE boards SET board_id = '{'f' * 32}'")
    assert_refused(fleet, copy, CopyUnsound, "position 1", force=True)


def test_a_copy_whose_projections_are_off_is_refused_unless_forced(fleet, copy):
    """The log in it is whole: forced, it is put there, and `ledger db rebuild` mends the rest."""
    sql(copy, "UPDATE tasks SET failures = 7")
    assert_refused(fleet, copy, RestoreRefused, "a replay of the copy finds 3 divergences")
    put(fleet, copy, force=True)
    fleet.board.rebuild()
    assert whole(fleet)


@pytest.mark.parametrize(("revision", "fault"), [("9999", StoreTooNew), ("0000", StoreOutdated)])
def test_a_copy_of_another_revision_is_refused_even_when_forced(fleet, copy, revision, fault):
    """Newer: upgrade the program; older: upgrade the copy. Both revisions are named."""
    sql(copy, f"UPDATE alembic_version SET version_num = '{revision}'")
    assert_refused(fleet, copy, fault, f"revision {revision}, this program", force=True)


def test_a_copy_with_an_event_of_a_newer_program_is_refused(fleet, copy):
    """An event that cannot be read is never skipped."""
    sql(copy, "DROP TRIGGER events_no_update", "UPDATE events SET kind = 'teleported' WHERE position = 5")
    assert_refused(fleet, copy, CopyUnsound, "position 5", force=True)


def test_another_programs_database_is_neither_restored_nor_replaced(fleet, copy, tmp_path):
    """Whichever side of the command it stands on."""
    other = tmp_path / "other.db"
    sql(other, "CREATE TABLE things (name TEXT)")
    assert_refused(fleet, other, CopyUnsound, "a database without a ledger in it", force=True)
    before = other.read_bytes()
    with pytest.raises(StoreExists, match="another program's database"):
        restore(copy, f"sqlite:///{other}", board=BOARD, force=True)
    assert other.read_bytes() == before


def test_a_store_that_cannot_be_read_is_replaced_only_when_forced_and_kept(fleet, copy):
    """It may hold what no copy has."""
    fleet._close_boards()
    (fleet.home / "ledger.db").write_bytes(b"rubbish" * 1000)
    assert_refused(fleet, copy, RestoreRefused, "what stands there cannot be read: the store is damaged")
    found = put(fleet, copy, force=True)
    assert found.kept == fleet.home / "ledger.db.before-unreadable"
    assert found.kept.read_bytes() == b"rubbish" * 1000
    assert whole(fleet)


def test_a_log_that_a_lost_store_left_is_not_taken_for_the_new_ones(fleet, copy):
    """`ledger.db` was removed by hand and its write-ahead log forgotten."""
    fleet.create("later")
    log = (fleet.home / "ledger.db-wal").read_bytes()
    fleet._close_boards()
    (fleet.home / "ledger.db").unlink()
    (fleet.home / "ledger.db-wal").write_bytes(log)
    put(fleet, copy)
    assert position(fleet) == 5
    assert whole(fleet)
    assert (fleet.home / "ledger.db.before-missing-wal").read_bytes() == log


def test_a_log_that_its_owner_folds_in_at_that_moment_is_not_missed(fleet, copy, monkeypatch):
    """Whoever had the store open ends: what the log held is in the file, which is kept."""
    fleet._close_boards()
    (fleet.home / "ledger.db").unlink()
    (fleet.home / "ledger.db-wal").write_bytes(b"folded in soon")
    replaced = Path.replace

    def folding(path, target):
        if path.name.endswith("-wal"):
            path.unlink()
        return replaced(path, target)

    monkeypatch.setattr(Path, "replace", folding)
    put(fleet, copy)
    assert position(fleet) == 5


def test_a_store_that_another_process_has_open_is_not_replaced(fleet, copy, monkeypatch):
    """Who has it is said. Forced, what the other has open is kept, log and all, and that is said too."""
    monkeypatch.setattr("ledger.copies._PATIENCE", 0.1)
    fleet.create("later")
    with opened_elsewhere(fleet) as other:
        assert_refused(fleet, copy, RestoreRefused, rf"it is open in process {other.pid} \(")
        found = put(fleet, copy, force=True)
        assert any(note.startswith(f"it is open in process {other.pid}") for note in found.notes)
        assert found.notes[-1].startswith("somebody has it open")
        assert position(fleet) == 5
    assert whole(fleet)
    with closing(sqlite3.connect(found.kept)) as reader:
        assert reader.execute("SELECT head_position FROM boards").fetchone() == (6,)


def test_a_store_open_in_a_process_that_cannot_be_looked_into_is_not_replaced(fleet, copy, monkeypatch):
    """Another user's processes show no files; SQLite's own lock tells."""
    monkeypatch.setattr(restores, "holders", lambda _: ())
    monkeypatch.setattr("ledger.copies._PATIENCE", 0.1)
    with opened_elsewhere(fleet):
        fleet._close_boards()
        before = standing(fleet)
        with pytest.raises(RestoreRefused, match="somebody has it open"):
            put(fleet, copy)
        assert standing(fleet) == before


def test_a_restore_waits_for_a_writer_at_the_gate(fleet, copy, monkeypatch):
    """A transaction that has begun is not cut off, not even by a forced one."""
    monkeypatch.setattr("ledger.copies._PATIENCE", 0.0)
    writer = fleet.outside(
        "from ledger.database import writing\nwith writing(board.engine):\n"
        "    print('in', flush=True)\n    sys.stdin.readline()\nboard.close()\nprint('out', flush=True)"
    )
    writer.stdout.readline()
    found = []
    waiting = threading.Thread(target=lambda: found.append(put(fleet, copy, force=True)))
    waiting.start()
    waiting.join(0.3)
    assert found == []
    let_go(writer)
    waiting.join(fleets.PATIENCE)
    assert found[0].heads[BOARD].position == 5


def test_a_dry_run_says_what_would_be_and_changes_nothing(fleet, copy):
    """The same answer as of the real one, and the same refusals."""
    fleet.create()
    fleet._close_boards()
    before = standing(fleet)
    found = put(fleet, copy, force=True, dry_run=True)
    assert standing(fleet) == before
    real = put(fleet, copy, force=True)
    assert (found.dry_run, real.dry_run) == (True, False)
    assert (found.heads, found.kept, found.notes) == (real.heads, real.kept, real.notes)


def test_a_copy_that_is_missing_and_the_store_itself_are_named(fleet):
    """Nothing to restore from."""
    with pytest.raises(NotFound, match="no copy is at"):
        put(fleet, fleet.home / "none.db")
    with pytest.raises(InvalidInput, match="is the store itself"):
        put(fleet, fleet.home / "ledger.db")
    with pytest.raises(InvalidInput, match="is a folder"):
        restore(taken(fleet, "copy.db"), f"sqlite:///{fleet.home}", board=BOARD)


def test_a_live_store_is_no_copy(fleet, tmp_path):
    """Part of it lies in its log: say how to take a copy of it."""
    other = fleets.new_fleet(fleets.new_template(tmp_path), tmp_path / "other")
    other.create()
    with pytest.raises(CopyUnsound, match=r"ledger\.db-wal lies beside it") as refused:
        put(fleet, other.home / "ledger.db")
    assert refused.value.remedy.startswith("ledger backup OTHER --database sqlite:///")
    other.end()


@pytest.mark.parametrize("step", ["os.link", "Path.replace", "settled"])
def test_a_restore_killed_at_any_step_leaves_a_whole_store(fleet, copy, step):
    """`kill -9` before it is kept, before the switch, and after it: old or new, never none, never half."""
    fleet.create("later")
    fleet._close_boards()
    other = fleet.outside(
        "board.close()\nimport kanban.restore as r\nfrom pathlib import Path\n"
        f"switched = r._switched\ndef dying(*a):\n    r.{step} = lambda *_: os.kill(os.getpid(), 9)\n    switched(*a)\n"
        "r._switched = dying\nr.restore(Path('copy.db'), board.url, board='default', force=True)"
    )
    assert other.wait() == -signal.SIGKILL
    assert position(fleet) == (5 if step == "settled" else 6)
    assert whole(fleet)
    put(fleet, copy, force=True)
    assert position(fleet) == 5
    assert verify(fleet.home / "ledger.db.before-6").heads[BOARD].position == 6


def test_there_is_a_store_at_every_moment(fleet, copy, monkeypatch):
    """A command that came in between would find none, and somebody would found a new one."""
    fleet.create("later")
    there, replaced, store = [], Path.replace, fleet.home / "ledger.db"

    def watched(path, target):
        there.append(store.exists())
        replaced(path, target)
        there.append(store.exists())

    monkeypatch.setattr(Path, "replace", watched)
    put(fleet, copy, force=True)
    assert there
    assert all(there)


def test_a_store_behind_a_link_is_replaced_where_it_lies(fleet, copy, tmp_path):
    """The link stays a link."""
    fleet._close_boards()
    store, real = fleet.home / "ledger.db", tmp_path / "disk" / "ledger.db"
    real.parent.mkdir()
    store.rename(real)
    store.symlink_to(real)
    found = put(fleet, copy)
    assert store.is_symlink()
    assert found.kept == tmp_path / "disk" / "ledger.db.before-5"
    assert whole(fleet)
