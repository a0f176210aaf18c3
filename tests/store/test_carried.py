"""Rows in bulk, and whole stores row by row: as they are stored, whichever database they come from and go to."""

from __future__ import annotations

import itertools
from contextlib import contextmanager, suppress

import pytest

from ledger.bulk import put
from ledger.copies import open_copy
from ledger.database import connected, reading, writing
from ledger.errors import StoreFault
from ledger.schema import boards, words
from ledger.upgrade import upgrade
from projections import tables
from projections.carried import BESIDE, LOG, carry, carry_board, differing, write_out
from projections.tables import metadata
from tests import audits, ledgers, servers

ODD = (
    "",
    "\\N",
    "\\",
    "a\tb",
    "a\nb",
    "a\r\nb",
    '"quoted"',
    "it's",
    "{1}",
    "ü€😀",
    "%s",
    "\\x00",
    "NULL",
    "x" * 100_000,
)
"""Texts that a format of bulk rows might take for something else."""


@pytest.fixture
def other(engine_name, tmp_path):
    """A store without a board in the other database: what is carried crosses over."""
    if engine_name == "sqlite":
        with servers.shared().lent() as url, connected(url) as engine:
            upgrade(engine, metadata)
            yield engine
    else:
        with connected(f"sqlite:///{tmp_path}/other.db", create=True) as engine:
            upgrade(engine, metadata)
            yield engine


@pytest.fixture
def full(board):
    """A lived-in store of two boards, with rows in every table."""
    ledgers.new_board(board, "ops", "c" * 32)
    board.sql("INSERT INTO leases VALUES ('b', 't_a', 2, 7, NULL), ('b', 't_p', 1, 8, 9)")
    board.sql("INSERT INTO held VALUES ('b', 't_a', 'cooldown_until', 5, 6), ('ops', 't_x', 'paused', NULL, 1)")
    board.sql("INSERT INTO sweeps VALUES ('b', 'host', 5, NULL, 0)")
    board.sql("INSERT INTO measures VALUES ('b', 'host', 'sweep.observe', 0.5, 6)")
    return board


class Undone(Exception):
    """What was done in a transaction shall not be."""


@contextmanager
def undone(engine):
    """A transaction that is never committed."""
    with suppress(Undone), writing(engine) as tx:
        yield tx
        raise Undone


@pytest.mark.parametrize("number", [1, 2, 99, 100, 250])
def test_rows_are_stored_as_they_are_few_or_many(store, number):
    """By single inserts and by what is faster: texts of any letters, numbers and nulls."""
    odd = itertools.cycle(ODD)
    rows = [("b", f"t_{place:03}", next(odd), None if place % 2 else place, place) for place in range(number)]
    with writing(store.engine) as tx:
        put(tx, tables.held, rows)
    assert [tuple(row.values()) for row in store.rows(tables.held)] == [row[1:] for row in rows]


@pytest.mark.parametrize("number", [1, 250])
def test_bytes_are_stored_as_they_are_few_or_many(store, number):
    """Every byte there is."""
    rows = [("b", 10**6 + place, bytes([place % 256, 0, 92, 78]), "w") for place in range(number)]
    server = store.engine.dialect.name == "postgresql"
    unheard = "SET LOCAL session_replication_role = replica" if server else "PRAGMA defer_foreign_keys=ON"
    with undone(store.engine) as tx:
        tx.exec_driver_sql(unheard)  # words without their events
        put(tx, words, rows)
        found = tx.execute(words.select().where(words.c.position >= 10**6).order_by(words.c.position))
        assert [tuple(row) for row in found] == rows


@pytest.mark.parametrize("number", [1, 250])
def test_a_row_that_is_there_already_is_refused_with_all_that_came_with_it(store, number):
    """Few or many: nothing is written over, and nothing of the rest is there."""
    rows = [("b", f"t_{place}", "paused", None, place) for place in range(number)]
    with writing(store.engine) as tx:
        put(tx, tables.held, rows[-1:])
    with pytest.raises(StoreFault), writing(store.engine) as tx:
        put(tx, tables.held, rows)
    assert len(store.rows(tables.held)) == 1


def test_a_whole_store_crosses_over_as_it_is(full, other):
    """Every column of every row of every table, and the log replays there as here."""
    with reading(full.engine) as source, writing(other) as target:
        assert [table.name for table in (*LOG, *BESIDE) if not source.execute(table.select()).first()] == []
        carry(source, target)
        assert differing(source, target) is None
    there = ledgers.Ledger("", other)
    for name in ("b", "ops"):
        assert there.read(board=name) == full.read(board=name)
    assert audits.audit(there).digest == audits.audit(full).digest


def test_every_table_is_carried():
    """A revision that adds one adds it here, but for snapshots of the past: they are taken anew."""
    assert {table.name for table in (*LOG, *BESIDE, *tables.PAST)} == metadata.tables.keys()


@pytest.mark.parametrize("table", [table.name for table in BESIDE])
def test_a_row_that_differs_is_found_whichever_way_it_does(full, other, table):
    """Another value, one more, one less."""
    column = {"links": "require", "held": "reason", "sweeps": "errors", "settings": "version"}.get(table, "position")
    column = {"runs": "code", "leases": "lease_until", "measures": "value"}.get(table, column)
    value = "'any'" if column in {"require", "reason"} else "17"
    with reading(full.engine) as source:
        with writing(other) as target:
            carry(source, target)
        for statement in (f"UPDATE {table} SET {column} = {value}", f"DELETE FROM {table}"):
            with undone(other) as target:
                target.exec_driver_sql(statement)
                assert differing(source, target) == differing(target, source) == table


def test_a_boards_rows_take_the_place_of_those_that_were_there(full, other):
    """Twice is harmless, and another board's stay."""
    with reading(full.engine) as source, writing(other) as target:
        carry(source, target, of=LOG)
        for name in ("b", "ops", "b"):
            carry_board(source, target, name, of=BESIDE)
        assert differing(source, target) is None
        target.exec_driver_sql("UPDATE held SET reason = 'no_assignee'")
        carry_board(source, target, "b", of=BESIDE)
        reasons = [row.reason for row in target.execute(tables.held.select().order_by(tables.held.c.board))]
        assert reasons == ["cooldown_until", "no_assignee"]


def test_whoever_waits_hears_how_far_it_is(full, other):
    """Events done, and events in all."""
    heard = []
    with reading(full.engine) as source, writing(other) as target:
        carry(source, target, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (24, 24)


def test_a_store_is_written_out_into_one_file(full, tmp_path):
    """A SQLite store, whatever it comes from; nothing is left beside it, and a file that fails is worth nothing."""
    path = tmp_path / "out.db"
    path.touch()
    write_out(full.engine, path)
    copy = open_copy(path)
    with reading(full.engine) as source, reading(copy) as target:
        assert differing(source, target) is None
        assert target.execute(boards.select()).all() == source.execute(boards.select()).all()
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("out")] == ["out.db"]
