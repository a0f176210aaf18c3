"""How many pages SQLite writes for a command: they are most of its price, and need no clock to be counted."""

from __future__ import annotations

from contextlib import closing

import pytest

from kanban import Board
from ledger.database import sqlite_module
from tests.engines import on

pytestmark = on("sqlite")

_HEADER, _FRAME = 32, 24  # bytes of a write-ahead log and of each page in it, besides the page


@pytest.fixture
def board(store, tmp_path):
    """A board on a file whose write-ahead log is empty."""
    environ = {"LEDGER_HOME": str(tmp_path), "USER": "ann"}
    with Board.open(store.url, "b", environ=environ, cwd=tmp_path, clock=store.clock) as board:
        yield board


def written(store, command):
    """How many pages *command* writes."""
    with closing(sqlite_module().connect(store.path)) as outsider:
        (size,) = outsider.execute("PRAGMA page_size").fetchone()
        assert outsider.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    command()
    frames, rest = divmod(store.path.with_name("ledger.db-wal").stat().st_size - _HEADER, size + _FRAME)
    assert rest == 0
    return frames


def test_a_claim_writes_nine_pages_a_beat_one_and_an_end_eight(board, store):
    """Event, stream, words, head; card and claimable cards; run and open runs; lease. An end leaves out claimable."""
    card = board.create("Mend a parser").task["id"]
    granted = []
    assert written(store, lambda: granted.append(board.claim(card))) == 9
    proof = {"run": granted[0].run, "lock": granted[0].lock}
    assert written(store, lambda: board.heartbeat(card, **proof)) == 1
    assert written(store, lambda: board.complete(card, "did it", **proof)) == 8


def test_a_new_card_writes_seven_pages(board, store):
    """Event, stream, words, head; card, the order of cards and claimable cards."""
    board.create("Mend a parser")
    assert written(store, lambda: board.create("Mend another")) == 7
