"""Stores that go wrong under the program's hands: files taken away, replaced, cut short, and waits that are broken off."""

from __future__ import annotations

import signal
import threading

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from ledger import database, gate
from ledger.errors import (
    StoreBusy,
    StoreDamaged,
    StoreExists,
    StoreFull,
    StoreMissing,
    StoreReplaced,
    StoreUnsupported,
    WrongExpectedVersion,
)
from ledger.store import head
from ledger.upgrade import open_store
from projections.replay import replay
from tests import given, ledgers

# Addresses


@pytest.mark.parametrize("port", ["hunter2", "99999999999999999999x"])
def test_a_port_that_is_no_number_is_refused_without_repeating_it(port):
    """It may be a part of a password: what is secret in such an address cannot be told."""
    with pytest.raises(StoreUnsupported) as caught:
        database.sqlite_path(f"sqlite://ann:pass@host:{port}/x.db")
    assert port not in str(caught.value)
    assert caught.value.remedy == "use sqlite:////path/to/ledger.db"


def test_a_store_is_not_made_where_something_else_is(tmp_path):
    """`ledger init` on a folder: choose another address."""
    with pytest.raises(StoreExists, match="that is no file"):
        database.connect(f"sqlite:///{tmp_path}", create=True)


@pytest.mark.parametrize("create", [False, True])
def test_a_file_of_one_byte_is_not_taken_for_an_empty_store(tmp_path, create):
    """SQLite would write over it."""
    (tmp_path / "x.db").write_bytes(b"x")
    with pytest.raises(StoreDamaged, match="file is not a database"):
        database.connect(f"sqlite:///{tmp_path}/x.db", create=create)
    assert (tmp_path / "x.db").read_bytes() == b"x"


# Files that change under an open store


def test_a_store_that_was_taken_away_does_not_come_back_empty(store):
    """Before the first connection of an engine: SQLite would make a new file."""
    store.engine.dispose()
    engine = database.connect(store.url)
    store.path.unlink()
    with pytest.raises(StoreMissing, match="nothing is there"), database.reading(engine):
        pytest.fail("there is nothing to read")
    assert not store.path.exists()


@pytest.mark.parametrize("transaction", [database.reading, database.writing])
def test_a_store_that_was_removed_while_it_was_open_is_missed(store, transaction):
    """What would be written to it nobody would ever read."""
    store.read()
    store.path.unlink()
    with pytest.raises(StoreMissing, match="removed while it was open"), transaction(store.engine):
        pytest.fail("the file is gone")


@pytest.mark.parametrize("transaction", [database.reading, database.writing])
def test_a_store_that_was_replaced_while_it_was_open_is_told(store, template, tmp_path, transaction):
    """A restore put another file there: start this command again."""
    store.read()
    (tmp_path / "other.db").write_bytes(template.read_bytes())
    (tmp_path / "other.db").rename(store.path)
    with pytest.raises(StoreReplaced, match="was replaced") as caught, transaction(store.engine):
        pytest.fail("it is another file")
    assert caught.value.remedy == "start this command again"


# Faults inside a store


def test_a_revision_that_is_no_text_is_damage(store):
    """Not a newer or an older store."""
    store.sql("UPDATE alembic_version SET version_num = x'00ff'")
    store.engine.dispose()
    with pytest.raises(StoreDamaged, match="its revision is"):
        open_store(store.url)


def test_a_board_without_its_head_is_damage_and_not_an_unknown_board(store):
    """Founding it anew would end its log."""
    store.sql("PRAGMA foreign_keys=OFF")
    store.engine.dispose()
    other = database.sqlite_module().connect(store.path)
    other.execute("DROP TRIGGER boards_no_delete")
    other.execute("DELETE FROM boards")
    other.commit()
    other.close()
    with pytest.raises(StoreDamaged, match="'b' has a log and no head"), database.reading(store.engine) as tx:
        head(tx, "b")


def test_text_that_is_none_is_damage(store):
    """Bytes that are no UTF-8, where a text should be."""
    store.append(given.created())
    store.sql("UPDATE tasks SET lane = CAST(x'ff' AS TEXT)")
    with pytest.raises(StoreDamaged, match="the store is damaged"), database.reading(store.engine) as tx:
        list(tx.execute(text("SELECT lane FROM tasks")))


def test_facts_with_something_behind_them_are_a_divergence(store):
    """RULES §9: the stored text is not what was hashed, and it is not read as if it were."""
    store.append(given.created())
    store.append(given.commented())
    store.engine.dispose()
    other = database.sqlite_module().connect(store.path)
    other.execute("DROP TRIGGER events_no_update")
    other.execute("UPDATE events SET facts = facts || 'x' WHERE position = 2")
    other.commit()
    other.close()
    found = replay(store.engine, "b").divergences
    assert any(each.position == 2 for each in found)


# A part that fails alone


def test_a_part_that_is_refused_is_undone_and_the_rest_stands(store):
    """One card's fault does not cost the others of a tick."""
    with database.writing(store.engine) as tx:
        kept = [given.draft(given.created(), task="t_a")]
        ledgers.log.append(tx, "b", kept, expected=0, at=store.clock())
        with pytest.raises(WrongExpectedVersion), database.savepoint(tx):
            undone = [given.draft(given.created(), task="t_b")]
            ledgers.log.append(tx, "b", undone, expected=0, at=store.clock())
            ledgers.log.append(tx, "b", undone, expected=7, at=store.clock())
    assert [event.task for event in store.read()] == ["", "t_a"]


def test_a_full_disk_in_a_part_ends_the_whole(store):
    """SQLite has rolled everything back by then: what came after would stand alone."""
    with pytest.raises(StoreFull), database.writing(store.engine) as tx:
        pages = tx.exec_driver_sql("PRAGMA page_count").scalar()
        tx.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        with database.savepoint(tx):
            for number in range(50):
                draft = given.draft(given.created(body="x" * 4_000), task=f"t_{number}")
                ledgers.log.append(tx, "b", [draft], expected=0, at=store.clock())
    store.engine.dispose()
    assert [event.task for event in store.read()] == [""]


# Waiting for the gate


class Interrupted(Exception):  # noqa: N818
    """What an alarm, or Ctrl-C, raises in the middle of a wait."""


def test_a_wait_that_is_interrupted_keeps_nobody_out(tmp_path):
    """Ctrl-C in the queue: the place is given up with it."""

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with gate.gate(tmp_path / "g", timeout=1):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupted), gate.gate(tmp_path / "g", timeout=60):
                pytest.fail("two held the gate at once")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with gate.gate(tmp_path / "g", timeout=5):
        pass


def test_a_wait_that_is_interrupted_as_its_turn_comes_lets_go(tmp_path, monkeypatch):
    """The lock was there already: it is given back before the interruption goes on."""
    held = gate.gate(tmp_path / "g", timeout=1)
    held.__enter__()

    class JustInTime(threading.Event):
        def wait(self, timeout=None):
            held.__exit__(None, None, None)
            assert super().wait(timeout)
            raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(gate.threading, "Event", JustInTime)
        patched.setattr(gate.threading.Thread, "start", _start_plainly)
        with pytest.raises(Interrupted), gate.gate(tmp_path / "g", timeout=5):
            pytest.fail("it was interrupted")
    with pytest.raises(StoreBusy), gate.gate(tmp_path / "g", timeout=5), gate.gate(tmp_path / "g", timeout=0.01):
        pytest.fail("two held the gate at once")


def _start_plainly(thread):
    """Start *thread* without the event that `threading` itself waits for."""
    threading._start_new_thread(thread.run, ())


# Events that no program of ours would write


@pytest.mark.parametrize(
    ("fields", "values", "said"),
    [
        (("assignee",), {"assignee": "eve"}, "assignee cannot be edited"),
        (("priority", "tenant"), {"priority": 1}, "do not name the same"),
        ((), {"priority": 1}, "do not name the same"),
        (("lane",), {"lane": "review"}, "triage"),
    ],
    ids=["not a field to edit", "more names", "fewer names", "a value that created would refuse"],
)
def test_an_edit_says_what_it_changes_and_nothing_else(fields, values, said):
    """RULES §2, edited: a replay with --strict finds any other."""
    with pytest.raises(ValidationError, match=said):
        given.e.Edited(fields=fields, values=values, title=None, body=None)
