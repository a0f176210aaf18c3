"""The marks of a move, on both databases: what they keep from being used, and what they say."""

from __future__ import annotations

import pytest

from ledger import moved, upgrade
from ledger.database import reading, savepoint, writing
from ledger.errors import StoreMoved, StoreMoving
from ledger.moved import MOVED, MOVING, Move
from projections import snapshots
from projections.tables import metadata
from tests import given, ledgers

ODD = "sqlite:////srv/it's :new, 5%/ledger.db"


def mark(store):
    with reading(store.engine) as tx:
        return moved.move_of(tx)


def sealed(store, target=ODD):
    with writing(store.engine) as tx:
        moved.hold_all(tx)
        moved.seal(tx, target, "token", metadata.sorted_tables)


def test_an_ordinary_store_carries_no_mark(board):
    """Nor does one of another revision, or with a word there that nobody knows."""
    assert mark(board) is None
    for word in ("9999", "moved"):
        board.sql(f"UPDATE alembic_version SET version_num = '{word}'")
        assert mark(board) is None


def test_a_store_that_is_moved_into_is_refused_until_that_has_ended(board):
    """It names where it comes from."""
    with writing(board.engine) as tx:
        moved.begin(tx, ODD, "token")
    assert mark(board) == Move(MOVING, ODD, "token")
    with pytest.raises(StoreMoving, match="a move into it has not ended") as refused:
        upgrade.open_store(board.url)
    assert refused.value.source == ODD
    with writing(board.engine) as tx:
        moved.end(tx)
    assert mark(board) is None
    upgrade.open_store(board.url).dispose()
    upgrade.differences(board.engine, metadata)


def test_a_store_that_was_moved_away_is_refused_and_says_where_it_went(board):
    """Whatever letters are in the address."""
    sealed(board)
    assert mark(board) == Move(MOVED, ODD, "token")
    with pytest.raises(StoreMoved) as refused:
        upgrade.open_store(board.url)
    assert refused.value.target == ODD


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_no_row_of_it_can_be_changed_by_whoever_has_it_open(board, table, monkeypatch):
    """Every table, every way; the refusal says where the store went."""
    monkeypatch.setattr(snapshots, "SPACING", 8)
    snapshots.take(board.engine, "b")
    board.sql("INSERT INTO measures VALUES ('b', 'host', 'sweep.observe', 0.5, 6)")
    board.sql("INSERT INTO leases VALUES ('b', 't_a', 2, 7, NULL)")
    board.sql("INSERT INTO held VALUES ('b', 't_a', 'paused', 5, 6)")
    board.sql("INSERT INTO sweeps VALUES ('b', 'host', 5, NULL, 0)")
    sealed(board)
    columns = metadata.tables[table].columns
    copied = ", ".join(f'"{column.name}"' for column in columns)
    for statement in (
        f"INSERT INTO {table} SELECT {copied} FROM {table}",
        f"UPDATE {table} SET board = board",
        f"DELETE FROM {table}",
    ):
        with pytest.raises(StoreMoved) as refused:
            board.sql(statement)
        assert refused.value.target == ODD


def test_an_append_to_it_is_refused_and_leaves_nothing(board):
    """By somebody who opened it before."""
    before = board.read()
    sealed(board)
    with pytest.raises(StoreMoved):
        board.append(given.commented("late"), task="t_p")
    assert board.read() == before


def test_what_can_fail_alone_does_not_hide_it(board):
    """A fault of one card is told and the others go on; this one is the whole store's."""
    sealed(board)
    with writing(board.engine) as tx, pytest.raises(StoreMoved), savepoint(tx):
        tx.execute(metadata.tables["sweeps"].insert().values(board="b", host="h", ticked_at=1, errors=0))


def test_a_seal_that_is_not_committed_is_none(board, monkeypatch):
    """Whoever dies with it has changed nothing."""

    def dying(_tx, _move):
        raise ZeroDivisionError

    monkeypatch.setattr(moved, "_mark", dying)
    with pytest.raises(ZeroDivisionError):
        sealed(board)
    assert mark(board) is None
    board.append(given.commented("still here"), task="t_p")
    assert ledgers.faults(board) == []
