"""Connections kept between transactions: used again, closed with their engine, and never shared with a child."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ledger.database import reading, writing
from tests import given
from tests.engines import on
from tests.fleets import PATIENCE


def driver(transaction):
    """The driver's connection behind one transaction."""
    with transaction as tx:
        return tx.connection.dbapi_connection


def test_one_transaction_after_the_other_has_one_connection(store):
    """Readers and writers alike: what one has read the next need not read again."""
    first = driver(writing(store.engine))
    assert driver(reading(store.engine)) is first
    assert driver(writing(store.engine)) is first


@on("postgresql")
def test_a_reader_cannot_write_and_a_writer_can(store):
    """A transaction is the right to write or it is not, whatever the one before it was."""
    for _ in range(2):
        with reading(store.engine) as tx:
            assert tx.exec_driver_sql("SHOW transaction_read_only").scalar() == "on"
        with writing(store.engine) as tx:
            assert tx.exec_driver_sql("SHOW transaction_read_only").scalar() == "off"


@on("sqlite")
def test_a_connection_that_was_read_from_writes_at_once(store):
    """A transaction is the right to write or it is not, whatever the one before it was."""
    driver(reading(store.engine))
    with writing(store.engine) as tx:
        assert tx.get_execution_options()["immediate"]
    with reading(store.engine) as tx:
        assert not tx.get_execution_options()["immediate"]


def test_transactions_at_the_same_time_have_connections_of_their_own(store):
    """Of two threads, or of one inside the other."""
    found = []
    with reading(store.engine) as outer:
        found.append(outer.connection.dbapi_connection)
        with reading(store.engine) as inner:
            found.append(inner.connection.dbapi_connection)
        thread = threading.Thread(target=lambda: found.append(driver(writing(store.engine))))
        thread.start()
        thread.join()
    assert found[0] not in found[1:]
    assert found[1] is found[2]


def test_what_failed_is_rolled_back_before_the_connection_is_used_again(store):
    """Nothing of a transaction that met an exception is left for the next."""

    def fail():
        with writing(store.engine) as tx:
            tx.exec_driver_sql("UPDATE boards SET head_at = head_at + 1 WHERE board = 'b'")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with reading(store.engine) as tx:
        assert tx.exec_driver_sql("SELECT head_at FROM boards").scalar() == given.NOW


def test_an_engine_that_is_disposed_of_closes_them(store):
    """Nothing keeps the store open then, and the engine can be used again."""
    kept = driver(writing(store.engine))
    store.engine.dispose()
    with pytest.raises(Exception, match=r"closed database|connection is closed"):
        kept.execute("SELECT 1")
    assert driver(reading(store.engine)) is not kept


def test_a_forked_process_has_none_of_its_parents_connections(store):
    """No connection can be carried over a fork: the child opens the store anew, and the parent goes on."""
    parents = driver(writing(store.engine))
    child = os.fork()
    if child == 0:
        own = driver(writing(store.engine))
        os._exit(0 if own is not parents and own is driver(reading(store.engine)) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert driver(writing(store.engine)) is parents
    store.append(given.created())


@on("sqlite")
def test_any_number_of_threads_read_at_the_same_time(store):
    """A server of pages has many: none of them waits for another to end."""
    together = threading.Barrier(30, timeout=PATIENCE)
    with ThreadPoolExecutor(30) as crew:
        assert list(crew.map(lambda _: _waited_for_in(store, together), range(30))) == [True] * 30


def _waited_for_in(store, together):
    with reading(store.engine) as tx:
        together.wait()
        return tx.exec_driver_sql("SELECT count(*) FROM boards").scalar() == 1
