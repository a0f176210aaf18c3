"""Opening and founding stores on a PostgreSQL server, and what each fault of it is called."""

from __future__ import annotations

import multiprocessing
from urllib.parse import quote

import pytest
from sqlalchemy import make_url

from kanban.founding import found
from ledger import database, upgrade
from ledger.errors import (
    StoreBusy,
    StoreDamaged,
    StoreDenied,
    StoreExists,
    StoreFault,
    StoreFull,
    StoreMissing,
    StoreOutdated,
    StoreTooNew,
    StoreUnreachable,
    StoreUnsupported,
)
from ledger.schema import REVISION
from ledger.standing import standing
from tests import given, ledgers
from tests.databases import SHAPE
from tests.doors import by
from tests.engines import on
from tests.fleets import PATIENCE
from tests.served import asked

pytestmark = on("postgresql")

# What is no ledger


def missing(guarded, rooms):
    """Nothing is there."""
    return guarded.url("nowhere")


def empty(guarded, rooms):
    return rooms.fresh()


def somebody_elses(guarded, rooms):
    url = rooms.fresh()
    asked(url, "CREATE TABLE recipes (name text)")
    return url


def of_revision(rooms, revision):
    url = rooms.fresh("founded")
    asked(url, f"UPDATE alembic_version SET version_num = '{revision}'")
    return url


def older(guarded, rooms):
    return of_revision(rooms, "0000")


def newer(guarded, rooms):
    return of_revision(rooms, "9999")


def of_bytes(guarded, rooms):
    if not guarded.ask("SELECT 1 FROM pg_database WHERE datname = 'bytes'"):
        guarded.ask("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C'")
    return guarded.url("bytes")


NOT_OPENED = {
    missing: (StoreMissing, 'database "nowhere" does not exist'),
    empty: (StoreMissing, "a database without a ledger in it"),
    somebody_elses: (StoreMissing, "a database without a ledger in it"),
    older: (StoreOutdated, f"is at revision 0000, this program needs {REVISION}"),
    newer: (StoreTooNew, f"is at revision 9999, this program knows {REVISION}"),
    of_bytes: (StoreUnsupported, "the database is encoded in SQL_ASCII"),
}
NOT_FOUNDED = {
    somebody_elses: (StoreExists, r"another program's database \(recipes\)"),
    older: NOT_OPENED[older],
    newer: NOT_OPENED[newer],
    of_bytes: NOT_OPENED[of_bytes],
}


@pytest.mark.parametrize("make", NOT_OPENED, ids=lambda make: make.__name__)
def test_what_is_no_ledger_of_this_program_is_refused_by_name(make, guarded, rooms):
    """Only `ledger init` creates a store and only `ledger db upgrade` changes its tables."""
    kind, said = NOT_OPENED[make]
    with pytest.raises(kind, match=said) as caught:
        upgrade.open_store(make(guarded, rooms))
    assert caught.value.remedy


def test_a_refused_opening_makes_no_database(guarded):
    """Reading is no founding."""
    with pytest.raises(StoreMissing):
        upgrade.open_store(guarded.url("nowhere"))
    assert guarded.ask("SELECT 1 FROM pg_database WHERE datname = 'nowhere'") == []


@pytest.mark.parametrize("make", [make for make in NOT_OPENED if make is not missing], ids=lambda make: make.__name__)
def test_a_refused_opening_changes_nothing(make, guarded, rooms):
    """It may be somebody else's database."""
    url = make(guarded, rooms)
    before = asked(url, SHAPE)
    with pytest.raises(StoreFault):
        upgrade.open_store(url)
    assert asked(url, SHAPE) == before


@pytest.mark.parametrize("make", NOT_FOUNDED, ids=lambda make: make.__name__)
def test_a_store_is_not_founded_in_what_is_something_else(make, guarded, rooms):
    """`ledger init` says what it found, and leaves it."""
    kind, said = NOT_FOUNDED[make]
    url = make(guarded, rooms)
    before = asked(url, SHAPE)
    with pytest.raises(kind, match=said):
        founded(url)
    assert asked(url, SHAPE) == before


# Founding


def founded(url):
    return found(url, "b", given.OPERATOR, given.FakeClock())


@pytest.mark.parametrize("make", [missing, empty])
def test_a_store_is_founded_where_nothing_is(make, guarded, rooms):
    """`ledger init --database …` is all the set-up: it makes the database too; twice is harmless."""
    url = make(guarded, rooms)
    identity, new = founded(url)
    assert (new, founded(url)) == (True, (identity, False))
    assert ledgers.faults(ledgers.opened(url)) == []
    assert asked(url, "SELECT board_id FROM boards") == [(identity,)]
    if make is missing:
        guarded.ask("DROP DATABASE nowhere WITH (FORCE)")


def test_a_database_that_may_not_be_made_is_missing(guarded):
    """Who has no right to make one is told so, and that there is none."""
    with pytest.raises(StoreMissing, match=r"it could not be made: .*permission denied to create database"):
        founded(by(guarded.url("elsewhere"), "outside"))


def test_tables_that_may_not_be_made_are_denied(guarded, rooms):
    """Since PostgreSQL 15 not everybody may make tables in any database."""
    with pytest.raises(StoreDenied, match="permission denied for schema public"):
        founded(by(rooms.fresh(), "outside"))


def test_processes_that_found_one_store_at_once_make_one(guarded):
    """Each goes on as if it had been the first or the last: one database, one migration, one board, one identity."""
    fork = multiprocessing.get_context("fork")
    start, answers = fork.Barrier(4), fork.SimpleQueue()

    def race():
        start.wait(timeout=PATIENCE)
        answers.put(founded(guarded.url("race")))

    processes = [fork.Process(target=race) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    told = [answers.get() for _ in processes]
    assert sorted(new for _, new in told) == [False, False, False, True]
    assert asked(guarded.url("race"), "SELECT board_id FROM boards") == [(identity,) for identity in {told[0][0]}]
    assert {identity for identity, _ in told} == {told[0][0]}


# Sessions, and faults in them


@pytest.fixture
def served(url):
    """The store."""
    ledger = ledgers.opened(url)
    yield ledger
    ledger.engine.dispose()


COLLATIONS = """
SELECT DISTINCT collname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid, unnest(indcollation) AS used (number)
LEFT JOIN pg_collation ON pg_collation.oid = used.number
WHERE relnamespace = 'public'::regnamespace AND relname <> 'alembic_version_pkc' AND used.number <> 0
"""


def test_names_are_compared_as_sqlite_compares_them_whatever_the_database_does_by_default(served):
    """By code points: no locale says which card comes first, or that two names are one."""
    assert served.sql(COLLATIONS) == [("C",)]


SETTINGS = "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"


def test_nobody_waits_for_ever_and_nobody_lets_others_wait_for_ever(served):
    """A lock is waited for half a minute, and who stops in the middle of a transaction loses it after a whole one."""
    with database.reading(served.engine) as tx:
        assert tx.exec_driver_sql(SETTINGS).one() == ("30s", "1min")


def test_an_operators_own_timeouts_hold(rooms):
    """Whether they are the database's or stand in the address."""
    url = rooms.fresh("founded")
    asked(url, f"ALTER DATABASE {make_url(url).database} SET lock_timeout = '7s'")
    engine = upgrade.open_store(f"{url}&options={quote('-c idle_in_transaction_session_timeout=8s')}")
    with database.reading(engine) as tx:
        assert tx.exec_driver_sql(SETTINGS).one() == ("7s", "8s")
    engine.dispose()
    rooms.drop(url)


def test_another_writer_that_never_lets_go_of_the_board_is_called_busy(served):
    """Run the command again; nothing was written."""
    hasty = ledgers.opened(f"{served.url}&options={quote('-c lock_timeout=20ms')}")
    with database.writing(served.engine) as tx:
        standing(tx, "b", served.clock, hold=True)
        with pytest.raises(StoreBusy, match="another writer held the board"):
            hasty.append(given.created())
    assert [event.position for event in hasty.append(given.created())] == [2]
    hasty.engine.dispose()


FAULTS = {
    "40001": StoreBusy, "40P01": StoreBusy, "55P03": StoreBusy, "57014": StoreBusy, "53100": StoreFull,
    "53200": StoreFull, "25006": StoreFull, "42501": StoreDenied, "XX001": StoreDamaged, "XX002": StoreDamaged,
    "42P01": StoreDamaged, "42703": StoreDamaged, "42883": StoreDamaged, "08006": StoreUnreachable,
    "57P01": StoreUnreachable, "25P03": StoreUnreachable, "22012": StoreFault, "P0001": StoreFault,
}  # fmt: skip
"""What PostgreSQL calls its faults: who comes too early, disk, rights, damage, connections, and all the rest."""


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_the_server_is_called_by_our_name(served, code):
    """Split by what the caller can do; nothing of the transaction is left, and the next one works."""
    with pytest.raises(FAULTS[code], match="it broke") as caught:
        served.sql(f"DO $$ BEGIN RAISE EXCEPTION 'it broke' USING ERRCODE = '{code}'; END $$")
    assert type(caught.value) is FAULTS[code]
    assert served.append(given.created())[0].position == 2


def test_a_statement_that_takes_too_long_is_called_busy(served):
    """An operator's `statement_timeout`."""
    with pytest.raises(StoreBusy, match="statement timeout"):
        served.sql("SET LOCAL statement_timeout = 10; SELECT pg_sleep(5)")


def test_a_connection_that_the_server_ended_is_not_used_again(served):
    """Between two transactions nobody notices: the next has another one."""
    with database.reading(served.engine) as tx:
        backend = tx.exec_driver_sql("SELECT pg_backend_pid()").scalar()
    asked(served.url, f"SELECT pg_terminate_backend({backend}, 5000)")
    assert served.append(given.created())[0].position == 2
