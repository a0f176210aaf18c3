"""The marks of a move: a store that another is being moved into, and one that was moved away. Neither can be used.

Both stand where the number of the tables' revision stands, so a program that knows nothing of moves refuses them too.
One that had the store open before finds every table locked up by triggers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import Connection, Table, inspect, text

from ledger.clock import system_clock
from ledger.schema import REVISION, SEALED
from ledger.standing import standing
from ledger.store import board_names

MOVING: Final = "moving"
MOVED: Final = "moved"


class Move(NamedTuple):
    """*other*: where the store comes from or has gone to, without passwords. *token*: the same at both ends."""

    state: str
    other: str
    token: str


def move_of(tx: Connection, *, hold: bool = False) -> Move | None:
    """The mark that the store carries, or none. *hold*: nobody else changes it until *tx*, which writes, ends."""
    locked = " FOR UPDATE" if hold and tx.dialect.name != "sqlite" else ""
    found = tx.execute(text(f"SELECT version_num FROM alembic_version{locked}")).scalar()  # noqa: S608
    if found not in {MOVING, MOVED} or not inspect(tx).has_table("move"):
        return None
    return Move(found, *tx.execute(text("SELECT other, token FROM move")).one())


def begin(tx: Connection, source: str, token: str) -> None:
    """Mark a store that has just been made: *source* is moved into it."""
    _mark(tx, Move(MOVING, source, token))


def hold_all(tx: Connection) -> None:
    """Keep every board until *tx* ends, however long that takes: nobody appends meanwhile."""
    for board in board_names(tx):
        standing(tx, board, system_clock, hold=True)
    if tx.dialect.name != "sqlite":
        tx.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")


def seal(tx: Connection, target: str, token: str, tables: Iterable[Table]) -> None:
    """Mark a store that has gone to *target*, and have the database refuse every write to its *tables*."""
    said = (SEALED + target).replace("'", "''").replace(":", r"\:")
    refuses = _REFUSES[tx.dialect.name].format(said=said)
    for table in tables:
        for act in ("INSERT", "UPDATE", "DELETE"):
            name = f"{table.name}_moved_{act.lower()}"
            tx.execute(text(f"CREATE TRIGGER {name} BEFORE {act} ON {table.name} {refuses}"))
    _mark(tx, Move(MOVED, target, token))


def end(tx: Connection) -> None:
    """The store that was moved into is whole and is the only one: it may be used."""
    _set_revision(tx, REVISION)
    tx.execute(text("DROP TABLE move"))


def _mark(tx: Connection, move: Move) -> None:
    tx.execute(text("CREATE TABLE move (other TEXT NOT NULL, token TEXT NOT NULL)"))
    tx.execute(text("INSERT INTO move VALUES (:other, :token)"), {"other": move.other, "token": move.token})
    _set_revision(tx, move.state)


def _set_revision(tx: Connection, word: str) -> None:
    tx.execute(text("UPDATE alembic_version SET version_num = :word"), {"word": word})


_REFUSES: Final = {
    "sqlite": "BEGIN SELECT RAISE(ABORT, '{said}'); END",
    "postgresql": "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuses('{said}')",
}
