"""The board that is audited is read, and nothing else: not one byte is written to it or beside it, alive or not."""

import multiprocessing
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from kanban.foreign import copies
from kanban.foreign.audit import audit
from kanban.foreign.copies import copied
from kanban.foreign.faults import ForeignBusy, ForeignMissing
from tests.audit.boards import Board, created
from tests.fleets import PATIENCE

PAIRS = 40  # writes of the live writer that belong together


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory, monkeypatch):
    """Copies go where the board is not, and an audit stops at every event to be watched."""
    monkeypatch.setattr("kanban.foreign.audit._OFTEN", 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("copies")))


def standing(folder):
    """Every file in *folder*: its name, bytes and when it was last written."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.iterdir())}


def in_journal_mode(path, mode):
    """A connection on the file in that mode, which keeps it open."""
    driver = sqlite3.connect(path, isolation_level=None)
    driver.execute(f"PRAGMA journal_mode={mode}")
    return driver


def unchanged(board):
    """Whether an audit leaves everything as it was; while it reads, too, and in memory that is shared."""
    folder = board.path.parent
    before, seen = standing(folder), []
    audit(board.path, progress=lambda *_: seen.append(standing(folder)))
    assert seen
    return all(each == before for each in [*seen, standing(folder)])


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_board_that_nobody_has_open_gets_no_file_beside_it(board, mode):
    """To open it for reading alone would leave a log and its index behind."""
    board.card(created())
    in_journal_mode(board.path, mode).close()
    assert [path.name for path in board.path.parent.iterdir()] == ["kanban.db"]
    assert unchanged(board)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_board_that_somebody_has_open_keeps_its_bytes(board, mode):
    """Also those of the index that all who read it share; what has been committed is seen."""
    with closing(in_journal_mode(board.path, mode)) as driver:
        driver.execute("INSERT INTO tasks (id, status) VALUES ('t_a', 'ready')")
        driver.execute("INSERT INTO task_events (task_id, kind) VALUES ('t_a', 'commented')")
        driver.execute("BEGIN IMMEDIATE")
        driver.execute("INSERT INTO tasks (id, status) VALUES ('t_b', 'ready')")
        assert unchanged(board)
        assert audit(board.path).tasks == 1


def test_a_transaction_that_is_half_in_the_file_is_not_seen(board):
    """Its rollback journal goes with the copy, and undoes it there."""
    board.card(created(), task="t_0")
    with closing(in_journal_mode(board.path, "DELETE")) as driver:
        driver.execute("PRAGMA cache_size=1")
        driver.execute("BEGIN IMMEDIATE")
        cards = [(f"t_{number}", "x" * 200) for number in range(1, 2_000)]
        driver.executemany("INSERT INTO tasks (id, status, title) VALUES (?, 'done', ?)", cards)
        driver.execute("COMMIT")
        at_rest = board.path.read_bytes()
        driver.execute("BEGIN IMMEDIATE")
        driver.execute("UPDATE tasks SET status = 'archived', title = ?", ("y" * 200,))
        assert board.path.read_bytes() != at_rest
        assert unchanged(board)
        with copied(board.path) as copy, closing(sqlite3.connect(copy.path)) as reader:
            assert reader.execute("SELECT count(*) FROM tasks WHERE status = 'archived'").fetchone() == (0,)
        assert audit(board.path).notes[0].startswith("a log lay beside the file")


def test_a_folder_that_cannot_be_written_to_can_be_read(board):
    """An operator may have no more than that."""
    board.card(created())
    in_journal_mode(board.path, "WAL").close()
    board.path.chmod(0o400)
    board.path.parent.chmod(0o500)
    try:
        assert audit(board.path).tasks == 1
    finally:
        board.path.parent.chmod(0o700)


def test_a_link_to_a_board_finds_the_log_beside_the_board_itself(board, tmp_path_factory):
    """SQLite keeps it there, too."""
    link = tmp_path_factory.mktemp("links") / "board.db"
    link.symlink_to(board.path)
    with closing(in_journal_mode(board.path, "WAL")) as driver:
        driver.execute("INSERT INTO tasks (id, status) VALUES ('t_a', 'done')")
        assert audit(link).tasks == 1


def test_the_copy_is_gone_when_the_audit_is_over(board, tmp_path_factory):
    """Also after a fault: boards hold what nobody else should read."""
    with copied(board.path) as copy:
        folder = copy.path.parent
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    with pytest.raises(RuntimeError), copied(board.path) as copy:
        raise RuntimeError
    assert not copy.path.exists()


def write(path, mode, stop):
    """A writer that commits two rows that belong together, again and again, and folds its log in often."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)) as driver:
        driver.execute(f"PRAGMA journal_mode={mode}")
        driver.execute("PRAGMA synchronous=OFF")
        driver.execute("PRAGMA wal_autocheckpoint=10")
        number = 0
        while not stop.is_set():
            number += 1
            driver.execute("BEGIN IMMEDIATE")
            driver.execute("INSERT INTO tasks (id, status, title) VALUES (?, 'ready', ?)", (f"t_{number}", "x" * 300))
            driver.execute("INSERT INTO task_events (task_id, kind) VALUES (?, 'created')", (f"t_{number}",))
            driver.execute("INSERT INTO task_runs (id, task_id, ended_at) VALUES (?, ?, 1)", (number, f"t_{number}"))
            driver.execute("COMMIT")
            if number % 200 == 0:
                driver.execute("BEGIN IMMEDIATE")
                for table in ("tasks", "task_events", "task_runs"):
                    driver.execute(f"DELETE FROM {table}")
                driver.execute("COMMIT")
            time.sleep(0.001)


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_beside_a_writer_every_copy_is_the_board_at_one_moment(board, mode):
    """Rows that are committed together are there together, the copy is whole, and later copies show more."""
    fork = multiprocessing.get_context("fork")
    stop = fork.Event()
    writer = fork.Process(target=write, args=(board.path, mode, stop))
    writer.start()
    seen = set()
    try:
        until = time.monotonic() + 20
        while len(seen) < PAIRS and time.monotonic() < until:
            seen.add(whole(board.path))
    finally:
        stop.set()
        writer.join()
    assert writer.exitcode == 0
    assert len(seen) > 5


def whole(path):
    """How many cards a copy has, once it is seen to be whole."""
    with copied(path) as copy, closing(sqlite3.connect(copy.path)) as driver:
        assert driver.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        counts = [
            driver.execute(f"SELECT count(*) FROM {table}").fetchone()
            for table in ("tasks", "task_events", "task_runs")
        ]
        assert len(set(counts)) == 1
        return counts[0], driver.execute("SELECT max(rowid) FROM tasks").fetchone()


# What is tried again, and what is given up


@pytest.fixture
def hasty(monkeypatch):
    """Two tries, without a pause."""
    monkeypatch.setattr(copies, "_TRIES", 2)
    monkeypatch.setattr(copies, "_PAUSE", 0)


def meddle(monkeypatch, act, after="board.db"):
    """Let *act* happen each time after the file itself was copied and nothing beside it, or *after* another copy."""
    honest = copies._copy

    def copy(source, target):
        digest = honest(source, target)
        if target.name == after:
            act(source)
        return digest

    monkeypatch.setattr(copies, "_copy", copy)


def append(path):
    """A byte more."""
    with path.open("ab") as file:
        file.write(b"x")


def begin_a_log(path):
    """Somebody opens it, and begins to write."""
    Path(f"{path}-wal").write_bytes(os.urandom(32))


def begin_a_transaction(path):
    """Somebody has a rollback journal."""
    Path(f"{path}-journal").write_bytes(os.urandom(32))


def put_another(path):
    """Another file of the same bytes takes its place."""
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.rename(path)


@pytest.mark.parametrize("act", [append, begin_a_log, begin_a_transaction, put_another])
def test_a_board_that_changes_under_every_copy_is_busy(board, hasty, monkeypatch, act):
    """Its bytes, a log that is begun anew, a journal, or the file as such: each might make the copy two half boards."""
    meddle(monkeypatch, act)
    with pytest.raises(ForeignBusy, match="written to at every try"), copied(board.path):
        pass


def test_a_board_that_changes_under_the_first_copy_is_copied_again(board, hasty, monkeypatch):
    """The second try finds it at rest."""
    left = [append]
    meddle(monkeypatch, lambda path: left and left.pop()(path))
    with copied(board.path) as copy:
        assert copy.path.read_bytes() == board.path.read_bytes()


def test_a_log_that_goes_on_is_no_reason_to_copy_again(board, monkeypatch, hasty):
    """It holds what was written meanwhile: only one that is begun anew may have lost it."""
    Path(f"{board.path}-wal").write_bytes(bytes(32))
    meddle(monkeypatch, lambda path: append(Path(f"{path}-wal")))
    with copied(board.path) as copy:
        assert copy.live
        assert Path(f"{copy.path}-wal").read_bytes() == bytes(32) + b"x"


def test_a_board_that_goes_away_while_it_is_read_is_missing(board, monkeypatch):
    """Its last copy is not taken for it."""
    meddle(monkeypatch, Path.unlink)
    with pytest.raises(ForeignMissing, match="went away"), copied(board.path):
        pass


@pytest.mark.parametrize("after", ["board.db", "board.db-wal"])
def test_a_log_that_goes_away_while_it_is_read_is_read_again(tmp_path, monkeypatch, hasty, after):
    """Whoever had the board open has closed it; a log that was copied before is not put beside the second copy."""
    board = Board(tmp_path)
    log = Path(f"{board.path}-wal")
    log.write_bytes(bytes(32))
    meddle(monkeypatch, lambda _: log.unlink(missing_ok=True), after)
    with copied(board.path) as copy:
        assert not copy.live
        assert not Path(f"{copy.path}-wal").exists()
