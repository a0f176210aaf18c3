"""Words deleted for good: their rows, and what a database keeps of a row that was deleted (RULES §10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, Engine, bindparam, delete

from ledger.database import serves_hosts, writing
from ledger.errors import StoreFault
from ledger.prepared import Prepared
from ledger.recorded import Recorded
from ledger.schema import words


def erase(tx: Connection, board: str, recorded: Iterable[Recorded]) -> None:
    """Delete the words that the `redacted` among *recorded* name, salt and all: in the transaction that writes them."""
    for event in recorded:
        if event.kind == "redacted":
            _ERASE.run(tx, board=board, position=event.facts["redacts"])


def rewrite(engine: Engine) -> str | None:
    """Write the store anew, so that no page of it keeps a trace of what was deleted; what kept it from that, or none.

    Pages that the database has moved keep what stood on them, whatever is deleted. It takes as long as a backup, and
    writers wait for it.
    """
    try:
        with writing(engine) as tx:  # on SQLite the gate is ours, so other writers queue
            tx.exec_driver_sql("ROLLBACK")  # what follows has a transaction of its own
            return _rewrite_table(tx) if serves_hosts(engine) else _rewrite_file(tx)
    except StoreFault as fault:
        return fault.message


def _rewrite_file(tx: Connection) -> str | None:
    tx.exec_driver_sql("VACUUM")
    busy, *_ = tx.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    return "somebody is reading, so the write-ahead log could not be emptied" if busy else None


def _rewrite_table(tx: Connection) -> str | None:
    tx.exec_driver_sql(f"VACUUM (FULL) {words.name}")
    return None


_ERASE: Final = Prepared(
    delete(words).where(words.c.board == bindparam("board"), words.c.position == bindparam("position"))
)
