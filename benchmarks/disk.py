"""What a million events take on the disk, beside a bare table of the same facts.

The store holds the chain (two hashes and a salt an event), the words apart from the facts so that they can be
redacted, the projections and every index; the bare table holds what was said, and its unique streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.boards import Store, bare, long_log
from benchmarks.measure import Row, scaled
from ledger.database import reading
from ledger.recorded import Recorded
from ledger.store import read_board

EVENTS = scaled(1_000_000, least=10_000)


def bare_table(store: Store, path: Path) -> None:
    """The baseline: one row an event, facts and words as text, every column that a reader could ask for."""
    board = store.open()
    with bare(path) as db, reading(board.engine) as tx:
        db.execute(
            """CREATE TABLE events (
                 position INTEGER PRIMARY KEY, task TEXT NOT NULL, version INTEGER NOT NULL, kind TEXT NOT NULL,
                 at INTEGER NOT NULL, actor_kind TEXT NOT NULL, actor_name TEXT NOT NULL, actor_host TEXT NOT NULL,
                 run INTEGER, outcome TEXT, facts TEXT NOT NULL, words TEXT NOT NULL, UNIQUE (task, version))"""
        )
        db.execute("BEGIN")
        db.executemany(f"INSERT INTO events VALUES ({', '.join('?' * 12)})", map(_row, read_board(tx, "default")))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    store.close()


def _row(event: Recorded) -> tuple[object, ...]:
    return (
        event.position, event.task, event.version, event.kind, event.at, event.actor_kind, event.actor_name,
        event.actor_host, event.run, event.outcome, event.facts_text, event.words_text,
    )  # fmt: skip


def rows(scratch: Path) -> Iterator[Row]:
    """The one row; sizes do not vary, so it is taken once."""
    store, path = long_log(scratch / "store", EVENTS), scratch / "bare.db"
    bare_table(store, path)
    own, other = store.path.stat().st_size, path.stat().st_size
    note = f"{own / EVENTS:.0f} and {other / EVENTS:.0f} bytes an event"
    yield Row(f"disk: store after {EVENTS:,} events", "bare table", [own / other], 2.5, False, note=note)
