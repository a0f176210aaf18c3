"""A connection that says together what can be said together: what goes when, what comes back, and what is refused."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from ledger import line as lines
from ledger.database import reading, savepoint, writing
from ledger.errors import StoreBusy, StoreFault, WrongExpectedVersion
from ledger.line import Line
from tests import given
from tests.engines import on
from tests.fleets import until
from tests.sent import trips

pytestmark = on("postgresql")


@pytest.fixture
def line(store):
    """A line of its own to the store's database, with an empty table `mine`."""
    with Line.connect(store.url.replace("+psycopg", ""), autocommit=True) as opened:
        opened.execute("CREATE TABLE mine (name text PRIMARY KEY, size bigint, part double precision)")
        yield opened


INSERT = "INSERT INTO mine (name, size) VALUES (%s, %s)"
SIZES = "SELECT name, size FROM mine ORDER BY name"


def others_see(store):
    """What another connection finds in `mine`."""
    return [tuple(row) for row in store.sql("SELECT name, size FROM mine ORDER BY name")]


# What waits, and what it goes with


def test_a_transaction_goes_with_its_first_question_and_its_rows_with_the_commit(line, store):
    """One trip each, whatever stands between them; nobody sees anything before."""
    with trips() as made:
        line.begin(["BEGIN"])
        assert line.info.transaction_status == TransactionStatus.IDLE
        assert line.ask(SIZES, ()).fetchall() == []
        line.later(INSERT, ("a", 1))
        line.later(INSERT, ("b", 2))
    assert len(made) == 1
    assert others_see(store) == []
    with trips() as made:
        line.commit()
    assert len(made) == 1
    assert others_see(store) == [("a", 1), ("b", 2)]


def test_a_transaction_of_writes_alone_is_one_trip(line, store):
    """Begun, written and committed in one go."""
    with trips() as made:
        line.begin(["BEGIN"])
        line.later(INSERT, ("a", 1))
        line.commit()
    assert len(made) == 1
    assert others_see(store) == [("a", 1)]


def test_one_that_says_nothing_is_never_begun(line):
    """Nothing is sent for it, and the next one begins as usual."""
    with trips() as made:
        line.begin(["BEGIN"])
        line.commit()
    assert made == []
    line.begin(["BEGIN"])
    assert line.ask("SELECT 1", ()).fetchone() == (1,)
    line.commit()
    assert line.info.transaction_status == TransactionStatus.IDLE


def test_a_question_comes_after_all_that_waits(line):
    """It sees what was written before it, and the answer is its own."""
    line.begin(["BEGIN"])
    line.later(INSERT, ("a", 1))
    line.later(INSERT, ("b", 2))
    answer = line.ask("UPDATE mine SET size = size + %s RETURNING size", (10,))
    assert (sorted(answer.fetchall()), answer.rowcount) == ([(11,), (12,)], 2)
    assert line.ask("SELECT size FROM mine WHERE name = %s", ("z",)).fetchone() is None
    line.commit()


def test_what_psycopg_does_itself_comes_after_all_that_waits(line):
    """A cursor's statement, many rows, a copy: none is done outside the transaction that was begun."""
    line.begin(["BEGIN"])
    line.later(INSERT, ("a", 1))
    assert line.execute(SIZES).fetchall() == [("a", 1)]
    line.later(INSERT, ("b", 2))
    line.cursor().executemany(INSERT, [("c", 3), ("d", 4)])
    line.later(INSERT, ("e", 5))
    with line.cursor().copy("COPY mine (name, size) FROM STDIN") as copying:
        copying.write_row(("f", 6))
    assert [size for _, size in line.ask(SIZES, ()).fetchall()] == [1, 2, 3, 4, 5, 6]
    line.rollback()
    assert line.execute(SIZES).fetchall() == []


def test_what_waited_for_a_transaction_that_is_rolled_back_is_never_said(line, store):
    """Neither before the end nor after it."""
    line.begin(["BEGIN"])
    line.later(INSERT, ("a", 1))
    with trips() as made:
        line.rollback()
    assert len(made) == 1  # psycopg's own, which finds that there is nothing to roll back
    line.begin(["BEGIN"])
    line.later(INSERT, ("b", 2))
    line.commit()
    assert others_see(store) == [("b", 2)]


def test_many_rows_wait_and_go_without_a_deadlock(line, store):
    """More than any buffer on the way holds, in both directions."""
    line.begin(["BEGIN"])
    for number in range(300):
        line.later("INSERT INTO mine (name) VALUES (%s) RETURNING name", (f"{number:03}" + "x" * 50_000,))
    line.commit()
    assert store.sql("SELECT count(*), sum(length(name)) FROM mine")[0] == (300, 300 * 50_003)


# Answers that come early


def test_a_foreseen_answer_comes_with_the_one_before(line):
    """One trip for both; asked twice it is told twice."""
    line.begin(["BEGIN"])
    line.foresee("SELECT %s::text || 'b'", ("a",))
    with trips() as made:
        assert line.ask("SELECT 1", ()).fetchone() == (1,)
        assert line.ask("SELECT %s::text || 'b'", ("a",)).fetchone() == ("ab",)
        assert line.ask("SELECT %s::text || 'b'", ("a",)).fetchone() == ("ab",)
    assert len(made) == 1
    line.commit()


def test_what_is_foreseen_is_asked_once(line):
    """Not again with every question after it."""
    line.begin(["BEGIN"])
    line.foresee("INSERT INTO mine VALUES ('a') RETURNING name", ())
    assert [line.ask(f"SELECT {number}", ()).fetchone() for number in range(3)] == [(0,), (1,), (2,)]
    assert line.ask("SELECT name FROM mine", ()).fetchall() == [("a",)]
    line.commit()


@pytest.mark.parametrize(
    "between",
    [
        lambda line: line.later(INSERT, ("a", 1)),
        lambda line: line.ask("INSERT INTO mine VALUES ('a') RETURNING name", ()),
        lambda line: line.execute("INSERT INTO mine VALUES ('a')"),
    ],
    ids=["a row that waits", "a question", "a statement of psycopg's"],
)
def test_it_is_forgotten_once_anything_else_was_said(line, between):
    """It is as old as the question that it came with."""
    line.begin(["BEGIN"])
    line.foresee("SELECT count(*) FROM mine", ())
    line.ask("SELECT 1", ())
    between(line)
    assert line.ask("SELECT count(*) FROM mine", ()).fetchone() == (1,)
    line.commit()


def test_it_is_no_answer_to_another_question_or_in_another_transaction(line, store):
    """The same words with other values are another question."""
    line.begin(["BEGIN"])
    line.foresee("SELECT %s::bigint, (SELECT count(*) FROM mine)", (1,))
    line.ask("SELECT 1", ())
    assert line.ask("SELECT %s::bigint, (SELECT count(*) FROM mine)", (2,)).fetchone() == (2, 0)
    line.commit()
    store.sql("INSERT INTO mine VALUES ('a')")
    line.begin(["BEGIN"])
    assert line.ask("SELECT %s::bigint, (SELECT count(*) FROM mine)", (1,)).fetchone() == (1, 1)
    line.commit()


# What is refused


def test_what_the_server_has_against_a_row_is_said_with_the_commit_and_nothing_is_left(line, store):
    """By the name of the fault, of the row that was the first; what waited behind it is not done."""
    line.begin(["BEGIN"])
    line.later(INSERT, ("a", 1))
    line.later(INSERT, ("a", 2))
    line.later("INSERT INTO nowhere VALUES (%s)", (1,))
    with pytest.raises(psycopg.errors.UniqueViolation, match="mine_pkey") as refused:
        line.commit()
    assert refused.value.diag.table_name == "mine"
    line.rollback()
    assert others_see(store) == []


def test_a_fault_of_what_was_known_before_comes_before_one_of_what_was_not(line):
    """One statement had been prepared, the next could not be: the first fault is told."""
    line.execute("INSERT INTO mine VALUES ('a')")
    line.begin(["BEGIN"])
    line.ask("SELECT count(*) FROM mine WHERE name = %s", ("a",))
    line.commit()
    line.begin(["BEGIN"])
    line.later("SELECT 1 / (size - size) FROM (SELECT 1 AS size) AS one", ())
    with pytest.raises(psycopg.errors.DivisionByZero):
        line.ask("SELECT * FROM nowhere", ())
    line.rollback()
    assert line.execute("SELECT 1").fetchone() == (1,)


def test_the_keys_refuse_a_second_writer_at_its_commit_too(store):
    """It is told as what it is: another writer was first."""
    with pytest.raises(WrongExpectedVersion), writing(store.engine) as tx:
        tx.info["line"].later("INSERT INTO events SELECT * FROM events WHERE board = %s", ("b",))
    assert store.head().position == 1
    store.append(given.created(), task="t_1")


def test_a_part_fails_alone_though_its_rows_were_still_waiting(store):
    """They are sent before it ends, so that the fault is its own."""
    with writing(store.engine) as tx:
        line = tx.info["line"]
        line.later("CREATE TABLE mine (name text PRIMARY KEY)", ())
        line.later("INSERT INTO mine VALUES ('a')", ())
        with pytest.raises(psycopg.errors.UniqueViolation), savepoint(tx):
            line.later("INSERT INTO mine VALUES ('a')", ())
        line.later("INSERT INTO mine VALUES ('b')", ())
    assert store.sql("SELECT name FROM mine ORDER BY name") == [("a",), ("b",)]


# Statements and values


@pytest.mark.parametrize(
    "value",
    [None, "", "a", "ä€𝄞 'quoted' \\ %s %% $1", 0, -1, 2**62, True, False, 0.1, 1e300, b"", b"\x00\xff'\\"],
    ids=repr,
)
def test_a_value_comes_back_as_it_went(line, value):
    """Whatever it is made of."""
    kind = {bool: "boolean", int: "bigint", float: "double precision", bytes: "bytea"}.get(type(value), "text")
    assert line.ask(f"SELECT CAST(%s AS {kind}), '100%%'", (value,)).fetchone() == (value, "100%")


def test_a_text_with_a_nul_is_refused_before_anything_is_sent(line):
    """The server would be told half of it."""
    with trips() as made, pytest.raises(psycopg.DataError, match="NUL"):
        line.ask("SELECT %s::text", ("a\0b",))
    assert made == []


def test_a_value_of_no_known_kind_is_refused(line):
    """Rather than told as something else."""
    with pytest.raises(psycopg.ProgrammingError, match="complex"):
        line.ask("SELECT %s::text", (1j,))


def test_a_statement_is_prepared_once(line):
    """Whatever its values are."""
    for number in range(5):
        line.ask("SELECT %s::bigint", (10**number,))
    prepared = line.execute("SELECT statement FROM pg_prepared_statements WHERE name LIKE 'line%'").fetchall()
    assert prepared == [("SELECT $1::bigint",)]


def test_past_its_limit_statements_are_still_answered(line, monkeypatch):
    """They are prepared each time, and the server keeps no more than so many."""
    monkeypatch.setattr(lines, "_PREPARED", 2)
    for _ in range(2):
        assert [line.ask(f"SELECT {number}", ()).fetchone() for number in range(5)] == [(n,) for n in range(5)]
    assert line.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'line%'").fetchone() == (2,)


@pytest.mark.parametrize(
    "statement", ["DROP TABLE mine", "ALTER TABLE mine ADD more text", "DEALLOCATE ALL", "DISCARD ALL"]
)
def test_after_what_makes_a_server_forget_statements_are_prepared_anew(line, statement):
    """psycopg too lets the server forget all of them then."""
    line.prepare_threshold = 0
    line.ask("SELECT 1", ())
    line.execute("SELECT 2")
    line.execute(statement)
    line.execute("SELECT 2")
    assert line.ask("SELECT 1", ()).fetchone() == (1,)


def test_after_a_rollback_too(line):
    """psycopg lets the server forget then as well."""
    line.prepare_threshold = 0
    line.ask("SELECT 1", ())
    line.execute("SELECT 2")
    line.begin(["BEGIN"])
    line.ask("SELECT 1", ())
    line.rollback()
    assert line.ask("SELECT 1", ()).fetchone() == (1,)


def test_a_rollback_to_a_savepoint_makes_it_forget_too(store):
    """The transaction goes on as if nothing was."""
    with writing(store.engine) as tx:
        line = tx.info["line"]
        line.ask("SELECT 1", ())
        with pytest.raises(RuntimeError), savepoint(tx):
            raise RuntimeError
        assert line.ask("SELECT 1", ()).fetchone() == (1,)


# A line that breaks


def test_one_that_lay_idle_says_at_once_that_it_begins(line, monkeypatch):
    """So a broken one is found while nothing was said yet, and another can be taken."""
    line.ask("SELECT 1", ())
    monkeypatch.setattr(lines, "_FRESH", 0.0)
    with trips() as made:
        line.begin(["BEGIN"])
    assert len(made) == 1
    assert line.info.transaction_status == TransactionStatus.INTRANS
    line.commit()


def test_where_the_server_has_ended_it_another_one_is_taken(store, monkeypatch):
    """Though nothing had come yet by which one could have known."""
    with reading(store.engine) as tx:
        pid, idle = tx.info["line"].info.backend_pid, tx.connection.dbapi_connection
    monkeypatch.setattr(lines, "_FRESH", 0.0)
    monkeypatch.setattr("ledger.postgres._sound", lambda _: True)
    store_of_another = psycopg.connect(store.url.replace("+psycopg", ""), autocommit=True)
    with store_of_another as other:
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        until(lambda: not other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall())
    with reading(store.engine) as tx:
        assert tx.connection.dbapi_connection is not idle
        assert tx.exec_driver_sql("SELECT 1").scalar() == 1


@pytest.fixture
def interruptible():
    """Ctrl-C means what it means at a terminal, wherever the tests were started from."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_a_wait_and_what_the_server_does_for_it(store):
    """The statement is cancelled there, and the store goes on."""
    asleep = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"

    def interrupt():
        until(lambda: store.sql(asleep))
        os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(1) as crew:
        crew.submit(interrupt)
        with pytest.raises(KeyboardInterrupt), writing(store.engine) as tx:
            tx.info["line"].ask("SELECT pg_sleep(300)", ())
    assert store.sql(asleep) == []
    store.append(given.created(), task="t_1")


def test_a_line_that_was_closed_says_so(line):
    """As psycopg does."""
    line.close()
    with pytest.raises(psycopg.OperationalError, match="closed"):
        line.ask("SELECT 1", ())


def test_a_statement_that_waited_too_long_is_told_as_busy(store):
    """With the code of the exit that scripts know."""
    slow = "SELECT set_config('statement_timeout', '20', true)", "SELECT pg_sleep(300)"
    with pytest.raises(StoreBusy), writing(store.engine) as tx:
        list(map(partial(tx.info["line"].later, values=()), slow))


def test_a_statement_that_is_wrong_is_told_as_a_fault_of_the_store(store):
    """Never as a driver's own exception."""
    with pytest.raises(StoreFault), writing(store.engine) as tx:
        tx.info["line"].later("SELECT 1 / 0", ())
