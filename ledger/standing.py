"""Where a board's log ends, what time it is for the store, and the board's lock."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Column, Connection, bindparam, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import Select
from sqlalchemy.sql.expression import ColumnElement, FunctionElement

from ledger.clock import Clock
from ledger.database import store_instant
from ledger.errors import LedgerError, StoreDamaged, UnknownBoard
from ledger.prepared import Prepared
from ledger.schema import boards, events

_LOOKING: Final = 0.5
"""Seconds for which a writer looks whether its board is free before it queues."""
_NAP: Final = (0.01, 0.04)


class Head(NamedTuple):
    """Where a board's log ends: its identity, last position, its instant and hash."""

    board_id: str
    position: int
    at: int
    hash: bytes


class Standing(NamedTuple):
    """Where a log ends, what time it is (µs UTC), and the board's row in another table; none: it has to be read.

    *further* is what else was asked in the same go; empty where that has to be asked alone.
    """

    head: Head
    now: int
    beside: tuple[Any, ...] | None
    further: tuple[Any, ...] = ()


def _alone(query: Select[Any]) -> Select[Any]:
    return query


class Asking:
    """Asks where the log of a board ends, and in the same go for the board's row in another table.

    At a server a statement that waits for a lock sees all else as it stood before the wait. So the row counts only
    where the log, seen in the same way, ends where the locked one does: nothing moves a board but its log.
    """

    def __init__(
        self, beside: Sequence[Column[Any]] = (), further: Callable[[Select[Any]], Select[Any]] = _alone
    ) -> None:
        """*beside* are columns of one table with at most one row a board; *further* adds to it what `asked` is for."""
        looked = _seen_with(_HEAD_COLUMNS, beside)
        self._looked, self._further = Prepared(looked), Prepared(further(looked))
        self._held, self._free = (Prepared(_locking(beside, skip=skip)) for skip in (False, True))
        self._width = _WIDTH + 2 + len(beside)

    def __call__(self, tx: Connection, board: str, clock: Clock, *, hold: bool = False, **asked: Any) -> Standing:
        """As `standing` does. A file is *asked* further in the same go; at a server another statement says it."""
        if tx.dialect.name == "sqlite":  # there the right to write is the lock
            row = (self._further if asked else self._looked).one(tx, board=board, **asked)
        else:
            row = self._locked(tx, board) if hold else self._looked.one(tx, board=board)
        if row is None:
            raise headless(tx, board)
        ended = Head(*row[2 : _WIDTH + 2])
        beside = row[_WIDTH + 2 : self._width] if row[1] == ended.position else None
        return Standing(ended, store_instant(row[0], clock), beside, row[self._width :])

    def _locked(self, tx: Connection, board: str) -> Any:
        """The board's row, locked, or none where there is no such board.

        Handing a lock to a process that sleeps costs more than a commit. So a writer that finds the board held first
        looks again now and then, while those that are awake go through one after the other, and only then queues.
        """
        row = self._free.one(tx, board=board)
        if row is None and _HEAD.one(tx, board=board) is not None:
            until = time.monotonic() + _LOOKING
            while row is None and time.monotonic() < until:
                time.sleep(random.uniform(*_NAP))  # noqa: S311 – so that many do not come back together
                row = self._free.one(tx, board=board)
            row = row or self._held.one(tx, board=board)
        return row


def standing(tx: Connection, board: str, clock: Clock, *, hold: bool = False) -> tuple[Head, int]:
    """Where the log of *board* ends, and what time it is: the server's, where there is one, read in one go.

    *hold* takes the board's lock until the transaction ends; on SQLite the right to write is that lock already.
    Raises `UnknownBoard`.
    """
    return _ALONE(tx, board, clock, hold=hold)[:2]


def head(tx: Connection, board: str) -> Head:
    """Where the log of *board* ends. Raises `UnknownBoard`."""
    row = _HEAD.one(tx, board=board)
    if row is None:
        raise headless(tx, board)
    return Head(*row)


def instant_of(tx: Connection, clock: Clock) -> int:
    """What time it is for the store (µs UTC): the server's, where there is one, else the machine's."""
    return store_instant(_INSTANT.one(tx)[0], clock)


def headless(tx: Connection, board: str) -> LedgerError:
    """Why there is no row of *board*: nobody founded it, or the row was lost, and then its log is still there."""
    if tx.execute(select(events.c.position).where(events.c.board == board).limit(1)).first() is None:
        return UnknownBoard(board)
    return StoreDamaged(f"the store is damaged: board {board!r} has a log and no head", remedy="restore a copy")


class _ServerNow(FunctionElement[int]):
    """The server's clock in microseconds UTC; null where the store is a file."""

    type = BigInteger()
    inherit_cache = True


@compiles(_ServerNow)
def _no_server(_element: object, _compiler: object, **_: object) -> str:
    return "NULL"


@compiles(_ServerNow, "postgresql")
def _asks_server(_element: object, _compiler: object, **_: object) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"


_HEAD_COLUMNS: Final = (boards.c.board_id, boards.c.head_position, boards.c.head_at, boards.c.head_hash)
_WIDTH: Final = len(_HEAD_COLUMNS)


def ends(*more: ColumnElement[Any]) -> Select[Any]:
    """Where the log of the board that is asked for ends, and *more*."""
    return select(*_HEAD_COLUMNS, *more).where(boards.c.board == bindparam("board"))


def _seen_with(told: Sequence[ColumnElement[Any]], beside: Sequence[Column[Any]]) -> Select[Any]:
    """What time it is, where the log is seen to end, what is *told* of it, and the row *beside* it."""
    query = select(_ServerNow(), boards.c.head_position, *told, *beside).where(boards.c.board == bindparam("board"))
    if not beside:
        return query
    other = beside[0].table
    return query.select_from(boards.outerjoin(other, other.c.board == boards.c.board))


def _locking(beside: Sequence[Column[Any]], *, skip: bool) -> Select[Any]:
    """The same of a board whose row is locked; the clock is read once the lock is there."""
    locked = ends().with_for_update(skip_locked=skip).cte("locked")
    return _seen_with(list(locked.c), beside)


_ALONE: Final = Asking()
_INSTANT: Final = Prepared(select(_ServerNow()))
_HEAD: Final = Prepared(ends())
