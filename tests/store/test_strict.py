"""A board is a shard: what a distributed PostgreSQL lacks is caught wherever the program would say it."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest
from sqlalchemy import bindparam, delete, insert, select, update

from ledger import bulk
from ledger.database import reading, writing
from ledger.prepared import Prepared
from projections import leases, raw, tables
from tests import ledgers, strict
from tests.engines import on

pytestmark = on("postgresql")

LEASES = tables.leases
LEASE = {"task": "t_a", "run": 1, "lease_until": 1, "last_beat": None}
VALUES = "VALUES ('b', 't_a', 1, 1, NULL)"
COLUMNS = "(board, task, run, lease_until, last_beat)"
SWAPPED = "(task, run, lease_until, last_beat, board)"


@pytest.fixture
def two(store):
    """A store with a second board, `c`."""
    ledgers.new_board(store, "c", "c" * 32)
    return store


def say(tx, *statements):
    for statement in statements:
        tx.exec_driver_sql(statement)


FORBIDDEN = {
    "SELECT pg_advisory_lock(1)": "an advisory lock",
    "SELECT pg_try_advisory_xact_lock(1, 2)": "an advisory lock",
    "SELECT PG_ADVISORY_UNLOCK_ALL()": "an advisory lock",
    "LOCK TABLE events": "a table locked whole",
    "LOCK boards IN SHARE MODE": "a table locked whole",
    "SELECT 1 FROM boards FOR UPDATE": "rows locked whatever their board",
    "SELECT 1 FROM runs LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED": "rows locked whatever their board",
    "SELECT 1 FROM runs WHERE task = 't_a' FOR KEY SHARE": "rows locked whatever their board",
    "EXPLAIN ANALYZE UPDATE leases SET lease_until = 0": "rows written whatever their board",
    "UPDATE leases SET lease_until = 0": "rows written whatever their board",
    "UPDATE leases SET lease_until = 0 WHERE task = 't_a' RETURNING board": "rows written whatever their board",
    "DELETE FROM leases": "rows written whatever their board",
    'DELETE FROM "held" WHERE task IN (SELECT task FROM tasks)': "rows written whatever their board",
    f"INSERT INTO leases {VALUES}": "rows written whatever their board",
    "INSERT INTO leases (task, run) VALUES ('t_a', 1)": "rows written whatever their board",
    f"INSERT INTO leases {COLUMNS} SELECT * FROM leases": "rows written whatever their board",
    "WITH gone AS (DELETE FROM leases RETURNING *) SELECT * FROM gone": "rows written whatever their board",
    "MERGE INTO leases USING runs ON TRUE WHEN MATCHED THEN DELETE": "rows written whatever their board",
    f"INSERT INTO leases {COLUMNS} {VALUES}, ('c', 't_a', 1, 1, NULL)": r"\['b', 'c'\] in one transaction",
    f"INSERT INTO leases {SWAPPED} VALUES ('t_a', abs(1), 1, 1, 'b'), ('t_a', 1, 1, 1, 'c')": r"\['b', 'c'\] in one",
    "DELETE FROM leases WHERE board = 'b' OR board = 'c'": r"\['b', 'c'\] in one transaction",
}
ALLOWED = (
    "EXPLAIN UPDATE leases SET lease_until = 0",
    "SELECT count(*) FROM runs",
    "SELECT 1 FROM boards WHERE board = 'b' FOR UPDATE",
    "SELECT 1 FROM runs WHERE board = 'b' LIMIT 1 FOR UPDATE SKIP LOCKED",
    "LOCK TABLE alembic_version",
    "SELECT version_num FROM alembic_version FOR UPDATE",
    "UPDATE leases SET lease_until = 0 WHERE board = 'b' RETURNING board",
    f"INSERT INTO leases {COLUMNS} {VALUES}, ('b', 't_a', 2, 1, NULL) ON CONFLICT DO NOTHING",
    f"INSERT INTO leases {SWAPPED} VALUES ('c', abs(1), 1, 1, 'b')",
    f"INSERT INTO leases {COLUMNS} {VALUES} ON CONFLICT (board, task, run) DO UPDATE SET run = 1",
    "DELETE FROM leases WHERE board = 'b' AND task IN (SELECT task FROM leases WHERE board = 'b')",
    "CREATE TEMPORARY TABLE mine (board text); INSERT INTO mine VALUES ('x')",
)


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_what_needs_more_than_one_shard_is_caught(store, statement):
    """Locks that no node has for all, rows without the key that says where they are, two boards at once."""
    with pytest.raises(strict.NoShard, match=FORBIDDEN[statement]), strict.watched(), writing(store.engine) as tx:
        say(tx, statement)


@pytest.mark.parametrize("statement", ALLOWED)
def test_what_one_shard_can_do_is_let_through(store, statement):
    """Reading, locking by the board, writing to the board, and the upgrade's own lock."""
    with strict.watched(), writing(store.engine) as tx:
        say(tx, statement)


WAYS = {
    "driver": lambda tx: leases.grant(tx, "c", "t_a", 1, until=1),
    "driver, many": lambda tx: Prepared(insert(LEASES)).each_in_order(
        tx, [("c", "t_a", run, 1, None) for run in (1, 2)]
    ),
    "core": lambda tx: tx.execute(insert(LEASES).values(board="c", **LEASE)),
    "core, many": lambda tx: tx.execute(insert(LEASES), [{"board": "c", **LEASE, "run": run} for run in (1, 2)]),
    "core, one text": lambda tx: tx.execute(insert(LEASES).values([{"board": "c", **LEASE, "run": r} for r in (1, 2)])),
    "an update": lambda tx: tx.execute(update(LEASES).where(LEASES.c.board == "c").values(lease_until=0)),
    "a delete": lambda tx: Prepared(delete(LEASES).where(LEASES.c.board == bindparam("of"))).run(tx, of="c"),
    "copy": lambda tx: bulk.pour(tx, LEASES, [("c", "t_a", 1, 1, None)]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_board_is_seen_whichever_way_it_is_written_to(two, way):
    """By the driver, by SQLAlchemy, by COPY: alone it is as good as any, after another it is caught."""
    with strict.watched(), writing(two.engine) as tx:
        WAYS[way](tx)
        say(tx, "DELETE FROM leases WHERE board = 'c'")
    with pytest.raises(strict.NoShard, match=r"\['b', 'c'\] in one"), strict.watched(), writing(two.engine) as tx:
        after_another(tx, WAYS[way])


def after_another(tx, write):
    leases.grant(tx, "b", "t_a", 1, until=1)
    write(tx)


def test_rows_that_are_asked_for_by_the_page_are_heard_too(store):
    """A cursor that the server keeps is no way round."""
    locking = select(tables.tasks.c.task).with_for_update()
    with pytest.raises(strict.NoShard), strict.watched(), writing(store.engine) as tx:
        list(raw.pages(tx, locking))


def test_one_transaction_after_the_other_may_write_to_two_boards(two):
    """On one connection, be it that the first failed."""
    with strict.watched():
        for board in "bc":
            with writing(two.engine) as tx:
                leases.release(tx, board, "t_a", 1)
        with suppress(ZeroDivisionError), writing(two.engine) as tx:
            failing(tx, "b")
        with writing(two.engine) as tx:
            leases.release(tx, "c", "t_a", 1)


def failing(tx, board):
    leases.release(tx, board, "t_a", 1)
    raise ZeroDivisionError


def test_what_the_program_swallows_is_told_at_the_end(store):
    """A sweep that goes on after any card's fault hides nothing."""

    def swallow():
        with strict.watched(), suppress(strict.NoShard), writing(store.engine) as tx:
            say(tx, "SELECT pg_advisory_lock(1)")

    with pytest.raises(strict.NoShard, match="an advisory lock"):
        swallow()


def test_another_program_may_say_what_it_likes(store):
    """Only what the program itself sends is judged."""
    with strict.watched(), psycopg.connect(store.url.replace("+psycopg", "")) as tx:
        tx.execute("LOCK TABLE events; UPDATE tasks SET failures = 0; SELECT pg_advisory_xact_lock(1)")


def test_the_inspector_is_on_in_every_test_on_postgresql(store, a_board_is_a_shard):
    """Nobody has to ask for it."""
    with pytest.raises(strict.NoShard, match="an advisory lock"), writing(store.engine) as tx:
        say(tx, "SELECT pg_advisory_xact_lock(1)")
    a_board_is_a_shard.found.clear()  # else this test would fail at its end


# Keys

KEYS = """
SELECT conrelid::regclass::text, conname, confrelid::regclass::text,
  (SELECT array_agg(attname::text ORDER BY place) FROM unnest(conkey) WITH ORDINALITY AS of (number, place)
    JOIN pg_attribute ON attrelid = conrelid AND attnum = number),
  (SELECT array_agg(attname::text ORDER BY place) FROM unnest(confkey) WITH ORDINALITY AS of (number, place)
    JOIN pg_attribute ON attrelid = confrelid AND attnum = number)
FROM pg_constraint WHERE contype = 'f'
"""
UNIQUE = """
SELECT indexrelid::regclass::text,
  (SELECT attname::text FROM pg_attribute WHERE attrelid = indrelid AND attnum = indkey[0])
FROM pg_index JOIN pg_class ON oid = indrelid
WHERE indisunique AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version'
"""


def test_every_key_of_another_table_holds_the_board(store):
    """Rows that belong together lie on one shard, and no key of another table crosses two."""
    with reading(store.engine) as tx:
        keys = tx.exec_driver_sql(KEYS).all()
    assert {table for table, *_ in keys} == strict.TABLES - {"boards"}
    for _, _, _, ours, theirs in keys:
        assert ours[0] == theirs[0] == "board"


def test_every_unique_key_begins_with_the_board(store):
    """No two shards have to agree that something is there once."""
    with reading(store.engine) as tx:
        found = tx.exec_driver_sql(UNIQUE).all()
    assert len(found) >= len(strict.TABLES)
    assert [index for index, first in found if first != "board"] == []


def test_nothing_is_numbered_for_all_boards(store):
    """A sequence would be one shard's."""
    with reading(store.engine) as tx:
        assert tx.exec_driver_sql("SELECT count(*) FROM pg_sequence").scalar() == 0
