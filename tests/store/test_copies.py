"""Whole files of a store: copies taken while others write, copies read where they lie, a store closed to all others."""

from __future__ import annotations

import os

import pytest

from ledger import copies
from ledger.database import reading, sqlite_module, writing
from ledger.errors import StoreBusy, StoreFault, StoreFull
from ledger.store import read_board
from tests import given, ledgers
from tests.engines import on

pytestmark = on("sqlite")


@pytest.fixture
def written(store):
    """Three cards, and a write-ahead log that holds them."""
    for task in ("t_a", "t_b", "t_c"):
        store.append(given.created("SECRET"), task=task)
    return store


@pytest.fixture
def stranger(written):
    """Another program that has the store open."""
    other = sqlite_module().connect(written.path, check_same_thread=False)
    other.execute("SELECT count(*) FROM events").fetchone()
    yield other
    other.close()


def log_in(engine):
    with reading(engine) as tx:
        return list(read_board(tx, "b"))


def beside(path):
    return sorted(file.name for file in path.parent.iterdir() if file.name.startswith(f"{path.name}-"))


def test_a_copy_holds_all_that_is_committed_and_reading_it_makes_nothing(written, tmp_path):
    """The write-ahead log is folded in: the one file is the whole store."""
    copy = tmp_path / "copy é.db"
    copies.write_copy(written.engine, copy)
    before = copy.read_bytes()
    engine = copies.open_copy(copy)
    assert log_in(engine) == written.read()
    engine.dispose()
    assert (copy.read_bytes(), beside(copy)) == (before, [])


def test_a_copy_is_one_snapshot_while_others_write(written, tmp_path):
    """A writer in the middle of its transaction neither waits nor is seen."""
    expected = written.read()
    with writing(written.engine) as tx:
        more = [given.draft(given.created(), task="t_d")]
        ledgers.log.append(tx, "b", more, expected=0, at=written.clock())
        copies.write_copy(written.engine, tmp_path / "copy.db")
    engine = copies.open_copy(tmp_path / "copy.db")
    assert (log_in(engine), len(written.read())) == (expected, len(expected) + 1)
    engine.dispose()


def test_a_copy_holds_no_word_that_was_deleted(written, tmp_path):
    """RULES §10: what was redacted is not in the copy's free pages."""
    written.append(given.commented("once a PASSPHRASE"))
    written.sql("DELETE FROM words WHERE position = 5")
    copies.write_copy(written.engine, tmp_path / "copy.db")
    assert b"PASSPHRASE" not in (tmp_path / "copy.db").read_bytes()


def test_a_copy_is_not_written_over_another(written, tmp_path):
    """The file must be empty: SQLite says so, as a fault of the store."""
    (tmp_path / "there.db").write_bytes(written.path.read_bytes())
    with pytest.raises(StoreFault, match="already exists"):
        copies.write_copy(written.engine, tmp_path / "there.db")


@pytest.mark.parametrize("opened", [copies.open_copy, copies.open_to_look])
def test_what_is_opened_to_be_read_cannot_be_written(written, opened):
    """Neither a copy nor a store that one only looks at."""
    engine = opened(written.path)
    with pytest.raises(StoreFull, match="readonly"), reading(engine) as tx:
        tx.exec_driver_sql("DELETE FROM words")
    engine.dispose()


def test_a_look_sees_the_write_ahead_log_and_leaves_it(written):
    """It may be another program's: it is not folded in when the look ends."""
    looker = copies.open_to_look(written.path)
    assert log_in(looker) == written.read()
    size = written.path.with_name("ledger.db-wal").stat().st_size
    looker.dispose()
    assert written.path.with_name("ledger.db-wal").stat().st_size == size > 0


def test_a_copy_put_in_place_keeps_a_write_ahead_log_again(written, tmp_path):
    """`VACUUM INTO` makes files in the old mode."""
    copy = tmp_path / "copy.db"
    copies.write_copy(written.engine, copy)
    modes = []
    for _ in range(2):
        engine = copies.open_to_look(copy)
        with reading(engine) as tx:
            modes.append(copies.journal_mode(tx))
        engine.dispose()
        copies.keep_write_ahead_log(copy)
    assert modes == ["delete", "wal"]


@pytest.mark.parametrize("quick", [False, True])
def test_a_whole_file_has_no_faults(written, quick):
    """SQLite's own check says `ok`."""
    with reading(written.engine) as tx:
        assert copies.faults_of_file(tx, quick=quick) == []


def test_the_faults_of_a_broken_file_are_told_but_not_all_of_them(written):
    """An index that does not fit its table: the whole check finds it, the quick one does not look."""
    for task in ("t_a", "t_b"):
        written.append(given.blocked(), task=task)
    written.engine.dispose()
    other = sqlite_module().connect(written.path)
    other.execute("PRAGMA writable_schema=ON")
    other.execute("UPDATE sqlite_schema SET sql = replace(sql, 'hold_cause IS NULL', 'hold_cause IS NOT NULL')")
    other.commit()
    other.close()
    engine = copies.open_to_look(written.path)
    with reading(engine) as tx:
        found = copies.faults_of_file(tx), copies.faults_of_file(tx, most=1), copies.faults_of_file(tx, quick=True)
    engine.dispose()
    assert [len(faults) for faults in found] == [2, 1, 0]
    assert "tasks_claimable" in found[0][0]


# Alone


def outsider_writes(path):
    """What another program gets that tries to write now."""
    other = sqlite_module().connect(path, timeout=0)
    try:
        other.execute("BEGIN IMMEDIATE")
    except sqlite_module().OperationalError as fault:
        return str(fault)
    finally:
        other.close()
    return "it may"


def test_a_store_that_is_ours_alone_is_one_file_that_nobody_else_can_use(written):
    """What stands there can be moved away whole; afterwards everything goes on."""
    before = written.read()
    with copies.alone(written.engine) as tx:
        assert [name for name in beside(written.path) if not name.endswith("-journal")] == []
        assert outsider_writes(written.path) == "database is locked"
        assert list(read_board(tx, "b")) == before
    assert outsider_writes(written.path) == "it may"
    written.append(given.commented())
    assert len(written.read()) == len(before) + 1


def test_a_fault_while_alone_lets_everybody_in_again(written):
    """Nothing was changed, and the lock is gone."""
    with pytest.raises(RuntimeError), copies.alone(written.engine):
        raise RuntimeError
    assert outsider_writes(written.path) == "it may"


def test_a_store_that_somebody_has_open_is_busy(written, stranger, monkeypatch):
    """Whoever's process it is: `StoreBusy` once short commands would have ended, and nothing was changed."""
    monkeypatch.setattr(copies, "_PATIENCE", 0.1)
    with pytest.raises(StoreBusy), copies.alone(written.engine):
        pytest.fail("two had the store alone")
    assert stranger.execute("SELECT count(*) FROM events").fetchone() == (4,)


def test_a_short_command_of_somebody_else_is_waited_for(written, stranger, monkeypatch):
    """It ends, and the store is ours."""
    monkeypatch.setattr(copies.time, "sleep", lambda _: stranger.close())
    with copies.alone(written.engine):
        assert outsider_writes(written.path) == "database is locked"


# On the disk


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_is_settled_was_flushed_and_is_as_it_was(tmp_path, monkeypatch, what):
    """A copy that is told to be there survives a power cut: its bytes, and its name in the folder."""
    (tmp_path / "x").write_bytes(b"abc")
    target = tmp_path / "x" if what == "file" else tmp_path
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    copies.settled(target)
    assert (flushed, (tmp_path / "x").read_bytes()) == ([target.stat().st_ino], b"abc")


def test_a_flush_that_fails_is_told_and_leaves_no_descriptor(tmp_path, monkeypatch):
    """A disk that lies is no reason to leak."""
    opened = []

    def fail(descriptor):
        opened.append(descriptor)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        copies.settled(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
