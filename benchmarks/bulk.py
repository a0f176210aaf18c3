"""A thousand events in one transaction: validated, encoded, hashed and folded, beside `executemany` of their rows.

Fifty cards of twenty events. Processor time: one sync for a thousand events is little, but a disk in use makes it
much; the wall's ratio stands in the last column.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from benchmarks.boards import card_id, new_store, twenty
from benchmarks.measure import Row, cpu, faster, medians, rounds, wall
from kanban import Board
from ledger.database import reading, sqlite_module, writing
from ledger.events import KINDS, Actor, Event
from ledger.recorded import Draft
from ledger.store import append, read_board
from projections import tables
from projections.read_models import apply

CARDS, EACH = 50, 20
_STORED: Final = (tables.tasks, tables.runs)


class Typed:
    """The ledger's side: what a caller says in plain values becomes events, drafts, rows, hashes and projections."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.numbers = count(1)
        drafts = [draft for portion in twenty(1) for draft in portion]
        said = [draft.as_if(position=1, version=1, at=1).event().model_dump() for draft in drafts]
        self.said = [(KINDS[fields["kind"]], fields, draft.actor) for fields, draft in zip(said, drafts, strict=True)]

    def transaction(self) -> None:
        """A thousand events."""
        with writing(self.board.engine) as tx:
            for _ in range(CARDS):
                task, at = card_id(next(self.numbers)), self.board.clock()
                drafts = [_draft(task, *said) for said in self.said]
                apply(tx, "default", append(tx, "default", drafts, expected=0, at=at))


def _draft(task: str, kind: type[Event], fields: dict[str, Any], actor: Actor) -> Draft:
    return Draft.of(task, kind.model_validate(fields), actor)


class Rows:
    """The baseline: `executemany` of the same rows, events and projections, into bare tables of the same columns."""

    def __init__(self, path: Path, board: Board) -> None:
        self.shift = 0
        with reading(board.engine) as tx:
            self.events = [tuple(event) for event in read_board(tx, "default", after=2)]
            self.others = {table.name: [tuple(row) for row in tx.execute(table.select())] for table in _STORED}
        assert len(self.events) == CARDS * EACH
        self.db = sqlite_module().connect(str(path), isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute("PRAGMA cache_size=-16000")
        wide = {"events": len(self.events[0]), **{name: len(rows[0]) for name, rows in self.others.items()}}
        for name, columns in wide.items():
            unique = ", UNIQUE (c0, c2, c3)" if name == "events" else ""
            key = "c0, c1, c2" if name == "runs" else "c0, c1"
            listed = ", ".join(f"c{number}" for number in range(columns))
            self.db.execute(f"CREATE TABLE {name} ({listed}, PRIMARY KEY ({key}){unique}) WITHOUT ROWID")
        self.inserts = {
            name: f"INSERT INTO {name} VALUES ({', '.join('?' * columns)})" for name, columns in wide.items()
        }

    def prepared(self) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of the next transaction, under keys that are new; made before the clock starts."""
        self.shift += CARDS * EACH
        end = f"{self.shift // 1_000:05d}"  # ids stay as long as they were, and as scattered
        fresh = [(board, place + self.shift, task[:-5] + end, *rest) for board, place, task, *rest in self.events]
        others = {
            name: [(board, task[:-5] + end, *rest) for board, task, *rest in rows] for name, rows in self.others.items()
        }
        return {"events": fresh, **others}

    def transaction(self, rows: dict[str, list[tuple[Any, ...]]]) -> None:
        """A thousand events rows, and the projection rows that they come to."""
        self.db.execute("BEGIN IMMEDIATE")
        for name, many in rows.items():
            self.db.executemany(self.inserts[name], many)
        self.db.execute("COMMIT")


def rows(scratch: Path) -> Iterator[Row]:
    """The one row."""
    store = new_store(scratch / "bulk")
    board = store.open()
    typed = Typed(board)
    typed.transaction()
    baseline = Rows(scratch / "raw.db", board)

    def raw() -> dict[str, float]:
        made = [baseline.prepared() for _ in range(4)]
        return _spent(lambda number: baseline.transaction(made[number]), 4)

    times = rounds({"ledger": lambda: _spent(lambda _: typed.transaction(), 2), "raw": raw}, times=9)
    on_wall = sorted(faster(times, "ledger wall", "raw wall"))[4]
    rate = CARDS * EACH / sorted(times["ledger wall"])[4]
    note = f"{medians(times, 'ledger cpu', 'raw cpu')}; wall {on_wall:.2g} ×, {rate:,.0f} events/s"
    figures = faster(times, "ledger cpu", "raw cpu")
    said = "1,000 events a transaction, validated, encoded, hashed, folded"
    yield Row(said, "raw executemany", figures, 0.2, note=note)
    store.close()


def _spent(work: Any, times: int) -> dict[str, float]:
    busy, begun = cpu(), wall()
    for number in range(times):
        work(number)
    return {"cpu": (cpu() - busy) / times, "wall": (wall() - begun) / times}
