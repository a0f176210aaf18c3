"""Positions: without holes per board and visible in order, so whoever tails a log misses nothing and waits for nothing.

B58: where numbers are drawn before a commit, a reader of the global order misses what commits late. B59: where numbers
can be lost, it waits for ever at a hole that never fills, or behind somebody who never ends.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import quote

import pytest
from sqlalchemy import select

from ledger import standing as standings
from ledger import store as log
from ledger.clock import system_clock
from ledger.database import reading, writing
from ledger.errors import StoreUnreachable, UnknownBoard, WrongExpectedVersion
from ledger.prepared import Prepared
from ledger.schema import boards
from ledger.standing import Head
from tests import given, ledgers
from tests.engines import on
from tests.fleets import PATIENCE, until

WRITERS, APPENDS = 8, 15


def put(tx, store, task, *, expected=0, board="b", body="x"):
    """Append a comment in the transaction *tx*."""
    drafts = [given.draft(given.commented(body), task=task)]
    appended = log.append(tx, board, drafts, expected=expected, at=store.clock())
    tx.exec_driver_sql("SELECT 1")  # with which a server is told of it now, not with the commit
    return appended


def write(store, number, linger):
    """Append to a card of one's own, and *linger* each time before the commit; how often another writer was first."""
    refused = expected = 0
    while expected < APPENDS:
        try:
            with writing(store.engine) as tx:
                (event,) = put(tx, store, f"t_{number}", expected=expected, body=f"{number} {expected}")
                linger(number, event)
        except WrongExpectedVersion:
            refused += 1
        else:
            expected += 1
    return refused


def a_while(number, event):
    """Some writers take longer than others."""
    time.sleep((number * 7 + event.version * 3) % 10 / 3_000)


def tailed(store, over, seen):
    """Put what a tailing reader sees into *seen*, until *over*, and what is there by then."""
    last = False

    def wait():
        nonlocal last
        if last:
            return False
        last = over.is_set()
        return True

    for event in log.follow(store.engine, "b", after=1, page=7, wait=wait):
        seen.append((event.position, event.words["body"]))


def fray(store, linger=a_while, seen=None):
    """What a tailing reader saw of eight writers, what is there in the end, and how often a writer was refused."""
    over, seen = threading.Event(), [] if seen is None else seen
    with ThreadPoolExecutor(WRITERS + 1) as crew:
        reader = crew.submit(tailed, store, over, seen)
        writers = [crew.submit(write, store, number, linger) for number in range(WRITERS)]
        try:
            refused = sum(writer.result() for writer in writers)
        finally:
            over.set()
        reader.result()
    return seen, [(event.position, event.words["body"]) for event in store.read(after=1)], refused


EVERYTHING = {f"{number} {nth}" for number in range(WRITERS) for nth in range(APPENDS)}


# B58: what commits late


def test_b58_a_tailing_reader_beside_eight_writers_misses_none(store):
    """B58: each event once, in order, whoever commits when; nobody was refused, since each waited its turn."""
    seen, there, refused = fray(store)
    assert seen == there
    assert [position for position, _ in seen] == list(range(2, len(EVERYTHING) + 2))
    assert {body for _, body in seen} == EVERYTHING
    assert (refused, ledgers.faults(store)) == (0, [])


@on("postgresql")
def test_b58_without_the_lock_and_with_numbers_from_a_sequence_it_misses_some(store, monkeypatch):
    """B58, the control: the test above would see it. All is committed, and the reader has passed some of it by."""
    store.sql("CREATE SEQUENCE numbers START 2")

    def unheld(tx, board, task):
        number = tx.exec_driver_sql("SELECT nextval('numbers')").scalar()
        return standings.head(tx, board)._replace(position=number - 1), log.version(tx, board, task)

    monkeypatch.setattr(log, "_held", unheld)
    monkeypatch.setattr(log, "_MOVE_HEAD", Prepared(select(boards.c.board).where(boards.c.board == "b").limit(0)))
    seen, drawn = [], threading.Event()

    def until_passed(number, event):
        """The first writer commits its first event once the reader has seen a later one; the others wait for it."""
        if event.version == 1 and number == 0:
            drawn.set()
            until(lambda: seen and seen[-1][0] > event.position)
        assert drawn.wait(timeout=PATIENCE)

    _, there, _ = fray(store, until_passed, seen)
    assert {body for _, body in there} == EVERYTHING
    assert "0 0" not in {body for _, body in seen}


@pytest.fixture
def unlocked(store, monkeypatch):
    """The store, its board's lock taken out of every statement that would take it."""
    for room, name in ((standings._ALONE, "_held"), (standings._ALONE, "_free"), (log, "_APPENDING")):
        monkeypatch.setattr(room, name, Unlocking(getattr(room, name)._in))
    return store


class Unlocking(Prepared):
    """The same statement, which locks nothing."""

    __slots__ = ("_locking",)

    def __init__(self, spoken):
        self._locking = spoken

    def _in(self, tx):
        spoken = self._locking(tx)
        assert "FOR UPDATE" in spoken.text
        return spoken._replace(text=spoken.text.replace("FOR UPDATE SKIP LOCKED", "").replace("FOR UPDATE", ""))


@on("postgresql")
def test_b58_with_the_lock_alone_taken_out_the_keys_refuse_the_second_and_nothing_is_lost(unlocked):
    """B58: position and version are keys: whoever was later reads again, and the reader still misses none."""
    seen, there, refused = fray(unlocked)
    assert refused > 0
    assert seen == there
    assert {body for _, body in seen} == EVERYTHING
    assert ledgers.faults(unlocked) == []


@on("postgresql")
def test_without_the_lock_the_second_writer_waits_at_the_key_and_is_refused(unlocked):
    """The first to commit is the first; the second is told, and the log is whole."""
    with ThreadPoolExecutor(1) as crew, writing(unlocked.engine) as tx:
        put(tx, unlocked, "t_a")
        second = crew.submit(unlocked.append, given.commented("late"), task="t_b", expected=0)
        until(lambda: waiting(unlocked))
        tx.commit()
        with pytest.raises(WrongExpectedVersion, match="another writer was first"):
            second.result()
    assert [event.task for event in unlocked.read()] == ["", "t_a"]
    assert ledgers.faults(unlocked) == []


def waiting(store):
    """How many connections to the store wait for a lock."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return store.sql(asked)[0][0]


@on("postgresql")
def test_b58_what_was_begun_first_is_seen_first(store):
    """B58: the second writer of a board waits for the first to commit: nothing appears behind a reader."""
    with ThreadPoolExecutor(1) as crew, writing(store.engine) as tx:
        put(tx, store, "t_first")
        second = crew.submit(store.append, given.commented("second"), task="t_second", expected=0)
        until(lambda: waiting(store))
        assert [event.task for event in store.read()] == [""]
        tx.commit()
        assert second.result()[0].position == 3
    assert [event.task for event in store.read()] == ["", "t_first", "t_second"]


@on("postgresql")
def test_a_writer_to_another_board_waits_for_nobody(store):
    """The lock is the board's: another board is another row."""
    ledgers.new_board(store, "c", "c" * 32)
    impatient = ledgers.opened(f"{store.url}&options={quote('-c lock_timeout=1ms')}")
    with writing(store.engine) as tx:
        put(tx, store, "t_a")
        assert [impatient.append(given.commented(), board="c")[0].position for _ in range(3)] == [2, 3, 4]
    impatient.engine.dispose()
    assert [store.head(board).position for board in "bc"] == [2, 4]


@on("postgresql")
@pytest.mark.parametrize("seconds", [0.05, 0.8])
def test_who_finds_the_board_held_gets_it_when_it_is_free(store, seconds):
    """It looks again for half a second, then queues: either way it is let in, at the instant when it is."""

    def held():
        with writing(store.engine) as tx:
            return standings.standing(tx, "b", system_clock, hold=True)

    with ThreadPoolExecutor(1) as crew:
        with writing(store.engine) as tx:
            _, before = standings.standing(tx, "b", system_clock, hold=True)
            second = crew.submit(held)
            time.sleep(seconds)
            assert not second.done()
        found, at = second.result()
    assert found == store.head()
    assert at - before >= seconds * 1_000_000


@on("postgresql")
def test_a_board_that_is_not_there_is_not_waited_for(store):
    """It is not held either."""
    with pytest.raises(UnknownBoard), writing(store.engine) as tx:
        standings.standing(tx, "nowhere", system_clock, hold=True)


# B59: holes, and those who never end


class RolledBack(Exception):
    """A transaction does not come to its end."""


def give_up(store, appends):
    """Append so often in one transaction, to a card of one's own, and roll all of it back."""
    with suppress(RolledBack), writing(store.engine) as tx:
        for number in range(appends):
            put(tx, store, "t_lost", expected=number)
        raise RolledBack


def test_b59_a_thousand_appends_that_are_rolled_back_leave_no_hole(store):
    """B59: a reader that begins anew reaches the head in one pass, without an empty page and without a wait."""
    for number in range(10):
        store.append(given.commented(str(number)), task="t_kept")
        give_up(store, 100)
    seen = [event.position for event in log.follow(store.engine, "b", page=3, wait=lambda: False)]
    assert seen == list(range(1, 12))
    assert store.head().position == 11
    assert ledgers.faults(store) == []


@on("postgresql")
def test_b59_a_writer_that_dies_in_the_middle_leaves_no_hole_and_holds_nobody_up(store):
    """B59: with its connection its lock and its positions are gone."""
    with suppress(StoreUnreachable), writing(store.engine) as tx:
        put(tx, store, "t_lost")
        store.sql(f"SELECT pg_terminate_backend({backend(tx)}, 5000)")
        assert store.append(given.commented(), task="t_next")[0].position == 2
    assert [event.task for event in store.read()] == ["", "t_next"]


def backend(tx):
    return tx.exec_driver_sql("SELECT pg_backend_pid()").scalar()


def test_b59_a_reader_that_never_ends_stops_nobody(store):
    """B59: writers write, others read on, and the idle one keeps what it saw."""
    with reading(store.engine) as idle:
        before = list(log.read_board(idle, "b"))
        for number in range(3):
            store.append(given.commented(str(number)))
        assert [event.position for event in log.follow(store.engine, "b", wait=lambda: False)] == [1, 2, 3, 4]
        assert list(log.read_board(idle, "b")) == before


@on("postgresql")
def test_b59_a_writer_to_another_board_that_never_ends_stops_nobody(store):
    """B59: nobody waits for the oldest transaction of a server, be it one that wrote."""
    ledgers.new_board(store, "c", "c" * 32)
    with writing(store.engine) as idle:
        put(idle, store, "t_idle", board="c")
        for number in range(3):
            store.append(given.commented(str(number)))
        assert [event.position for event in log.follow(store.engine, "b", wait=lambda: False)] == [1, 2, 3, 4]
        assert [event.position for event in log.follow(store.engine, "c", wait=lambda: False)] == [1]


@on("postgresql")
def test_b59_who_holds_the_board_and_does_nothing_is_ended_by_the_server(store):
    """B59: a client that was stopped, or has lost its network, frees its boards; it is told if it ever comes back."""
    stopped = ledgers.opened(f"{store.url}&options={quote('-c idle_in_transaction_session_timeout=400ms')}")

    def come_back_too_late():
        with writing(stopped.engine) as tx:
            put(tx, stopped, "t_lost")
            assert store.append(given.commented(), task="t_next")[0].position == 2

    with pytest.raises(StoreUnreachable):
        come_back_too_late()
    stopped.engine.dispose()
    assert [event.task for event in store.read()] == ["", "t_next"]
    assert ledgers.faults(store) == []


def test_an_empty_page_is_not_taken_for_the_end(store):
    """B59: a reader that has reached the head goes on when there is more."""
    later = [given.commented(str(number)) for number in range(3)]

    def wait():
        if later:
            store.append(later.pop(0))
            return True
        return False

    assert [event.position for event in log.follow(store.engine, "b", page=1, wait=wait)] == [1, 2, 3, 4]


def test_the_head_is_the_last_position(store):
    """What a reader is told is the end, is the end."""
    for number in range(3):
        store.append(given.commented(str(number)), given.commented(), task=f"t_{number}")
        assert store.head().position == store.read()[-1].position
        assert isinstance(store.head(), Head)
