"""Stores that go wrong under the program's hands: taken away, replaced, damaged; and waits that are broken off."""

from __future__ import annotations

import signal
import threading

import psycopg
import pytest
from pydantic import ValidationError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from ledger import database, gate
from ledger.errors import (
    StoreBusy,
    StoreDamaged,
    StoreExists,
    StoreFull,
    StoreMissing,
    StoreReplaced,
    StoreUnreachable,
    StoreUnsupported,
    WrongExpectedVersion,
)
from ledger.standing import head
from ledger.upgrade import open_store
from projections.replay import replay
from tests import given, ledgers
from tests.audits import outside
from tests.engines import on
from tests.fleets import PATIENCE

# Addresses


@pytest.mark.parametrize("port", ["hunter2", "99999999999999999999x"])
def test_a_port_that_is_no_number_is_refused_without_repeating_it(port):
    """It may be a part of a password: what is secret in such an address cannot be told."""
    with pytest.raises(StoreUnsupported) as caught:
        database.sqlite_path(f"sqlite://ann:pass@host:{port}/x.db")
    assert port not in str(caught.value)
    assert caught.value.remedy == "use sqlite:////path/to/ledger.db or postgresql+psycopg://USER@HOST/NAME"


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


@on("sqlite")
def test_a_store_that_was_taken_away_does_not_come_back_empty(store):
    """Before the first connection of an engine: SQLite would make a new file."""
    store.engine.dispose()
    engine = database.connect(store.url)
    store.path.unlink()
    with pytest.raises(StoreMissing, match="nothing is there"), database.reading(engine):
        pytest.fail("there is nothing to read")
    assert not store.path.exists()


@on("sqlite")
@pytest.mark.parametrize("transaction", [database.reading, database.writing])
def test_a_store_that_was_removed_while_it_was_open_is_missed(store, transaction):
    """What would be written to it nobody would ever read."""
    store.read()
    store.path.unlink()
    with pytest.raises(StoreMissing, match="removed while it was open"), transaction(store.engine):
        pytest.fail("the file is gone")


@on("sqlite")
@pytest.mark.parametrize("transaction", [database.reading, database.writing])
def test_a_store_that_was_replaced_while_it_was_open_is_told(store, template, tmp_path, transaction):
    """A restore put another file there: start this command again."""
    store.read()
    (tmp_path / "other.db").write_bytes(template.read_bytes())
    (tmp_path / "other.db").rename(store.path)
    with pytest.raises(StoreReplaced, match="was replaced") as caught, transaction(store.engine):
        pytest.fail("it is another file")
    assert caught.value.remedy == "start this command again"


@on("postgresql")
@pytest.mark.parametrize("transaction", [database.reading, database.writing])
def test_a_database_that_was_dropped_while_it_was_open_is_missed(store, transaction):
    """Its connections are cut, and there is none to connect to."""
    store.read()
    address = store.engine.url.set(drivername="postgresql", database="postgres")
    with psycopg.connect(address.render_as_string(hide_password=False), autocommit=True) as tx:
        tx.execute(f"DROP DATABASE {store.engine.url.database} WITH (FORCE)")
    with pytest.raises(StoreMissing, match="does not exist"), transaction(store.engine):
        pytest.fail("there is nothing to open")


# Faults inside a store


@on("sqlite")  # PostgreSQL's column takes nothing else
def test_a_revision_that_is_no_text_is_damage(store):
    """Not a newer or an older store."""
    store.sql("UPDATE alembic_version SET version_num = x'00ff'")
    store.engine.dispose()
    with pytest.raises(StoreDamaged, match="its revision is"):
        open_store(store.url)


def test_a_board_without_its_head_is_damage_and_not_an_unknown_board(store):
    """Founding it anew would end its log."""
    store.engine.dispose()
    outside(store, "DELETE FROM boards")
    with pytest.raises(StoreDamaged, match="'b' has a log and no head"), database.reading(store.engine) as tx:
        head(tx, "b")


@on("sqlite")
def test_text_that_is_none_is_damage(store):
    """Bytes that are no UTF-8, where a text should be."""
    store.append(given.created())
    store.sql("UPDATE tasks SET lane = CAST(x'ff' AS TEXT)")
    with pytest.raises(StoreDamaged, match="the store is damaged"), database.reading(store.engine) as tx:
        tx.execute(text("SELECT lane FROM tasks")).all()


@on("sqlite")
def test_a_broken_schema_that_cannot_even_be_told_is_damage(store):
    """What SQLite itself says of it is no UTF-8 either."""
    store.engine.dispose()
    other = database.sqlite_module().connect(store.path)
    other.execute("PRAGMA writable_schema=ON")
    other.execute("UPDATE sqlite_schema SET name = CAST(x'ff' AS TEXT), sql = 'CREATE' WHERE name = 'tasks_claimable'")
    other.commit()
    other.close()
    with pytest.raises(StoreDamaged, match="the store is damaged"), database.reading(store.engine) as tx:
        head(tx, "b")


@on("sqlite")
def test_a_file_whose_last_page_was_cut_short_is_damage(store):
    """SQLite reads what is missing as zeros, and says nothing."""
    store.append(given.created(body="x" * 9_000))
    store.engine.dispose()
    with store.path.open("rb+") as file:
        file.truncate(store.path.stat().st_size - 100)
    with pytest.raises(StoreDamaged, match="cut short"):
        open_store(store.url)


@pytest.mark.parametrize("facts", ["'{} x'", "''", "' '"], ids=["something behind", "nothing", "a blank"])
def test_facts_that_are_no_json_are_a_divergence_of_their_card(store, facts):
    """RULES §9: named at their position; the rest of the log is audited all the same."""
    store.append(given.created())
    store.append(given.created(), task="t_b")
    store.engine.dispose()
    outside(store, f"UPDATE events SET facts = {facts} WHERE position = 2")
    verdict = replay(store.engine, "b")
    assert {found.position for found in verdict.divergences if found.task == "t_a"} == {2}
    assert verdict.events == 3


# A part that fails alone


def put(tx, store, task, *, expected=0, body="x"):
    """Append a card inside the transaction *tx*."""
    drafts = [given.draft(given.created(body=body), task=task)]
    ledgers.log.append(tx, "b", drafts, expected=expected, at=store.clock())


def put_in_part(tx, store, *tasks, **more):
    """Append *tasks* in a part of *tx* of their own; the last as *more* says."""
    with database.savepoint(tx):
        for task in tasks[:-1]:
            put(tx, store, task)
        put(tx, store, tasks[-1], **more)


def test_a_part_that_is_refused_is_undone_and_the_rest_stands(store):
    """One card's fault does not cost the others of a tick."""
    with database.writing(store.engine) as tx:
        put(tx, store, "t_a")
        with pytest.raises(WrongExpectedVersion):
            put_in_part(tx, store, "t_b", "t_c", expected=7)
        put_in_part(tx, store, "t_d")
    assert [event.task for event in store.read()] == ["", "t_a", "t_d"]


@on("sqlite")
def test_a_row_that_holds_no_text_is_the_fault_of_its_part_alone(store):
    """The store goes on: the other cards of a tick are not that card's."""
    store.append(given.created())
    store.sql("UPDATE tasks SET lane = CAST(x'ff' AS TEXT)")
    with database.writing(store.engine) as tx:
        with pytest.raises(OperationalError, match="decode"), database.savepoint(tx):
            tx.execute(text("SELECT lane FROM tasks")).all()
        put(tx, store, "t_b")
    assert [event.task for event in store.read()] == ["", "t_a", "t_b"]


def put_and_fail(tx, store, task):
    """A part of *tx* that appends a card, and then says what no database understands."""
    with database.savepoint(tx):
        put(tx, store, task)
        tx.exec_driver_sql("SELECT nothing FROM")


def test_a_statement_that_fails_is_the_fault_of_its_part_alone(store):
    """What the part had written is undone, and the rest stands: also where a fault breaks a whole transaction."""
    with database.writing(store.engine) as tx:
        put(tx, store, "t_a")
        with pytest.raises(DBAPIError):
            put_and_fail(tx, store, "t_b")
        put_in_part(tx, store, "t_c")
    assert [event.task for event in store.read()] == ["", "t_a", "t_c"]


def on_a_full_disk(store):
    """Go on after a part that met a full disk, as if it were a card's own fault."""
    with database.writing(store.engine) as tx:
        put(tx, store, "t_a")
        pages = tx.exec_driver_sql("PRAGMA page_count").scalar()
        tx.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        put_in_part(tx, store, "t_b", body="x" * 100_000)


@on("sqlite")
def test_a_full_disk_in_a_part_ends_the_whole(store):
    """SQLite has rolled everything back by then: what came after would stand alone."""
    with pytest.raises(StoreFull):
        on_a_full_disk(store)
    store.engine.dispose()
    assert [event.task for event in store.read()] == [""]


def in_a_lost_connection(store):
    """Go on after a part whose connection was cut, as if it were a card's own fault."""
    with database.writing(store.engine) as tx:
        put(tx, store, "t_a")
        with database.savepoint(tx):
            tx.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")


@on("postgresql")
def test_a_lost_connection_in_a_part_ends_the_whole(store):
    """The server has rolled everything back by then; the next transaction has another connection."""
    with pytest.raises(StoreUnreachable):
        in_a_lost_connection(store)
    assert [event.task for event in store.read()] == [""]


# Waiting for the gate


class Interrupted(Exception):
    """What an alarm, or Ctrl-C, raises in the middle of a wait."""


def test_a_wait_that_is_interrupted_keeps_nobody_out(tmp_path):
    """Ctrl-C in the queue: the place is given up with it."""

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with gate.gate(tmp_path / "g", timeout=1):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupted), gate.gate(tmp_path / "g", timeout=PATIENCE):
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
