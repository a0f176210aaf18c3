"""A store carried row by row into another: the log, its words, the projections, and what is operational.

Nothing is folded or judged on the way, so what was wrong is wrong there too, and shows in a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, Table, delete, select

from ledger.bulk import pour
from ledger.copies import drafting
from ledger.database import reading
from ledger.schema import boards, events, words
from ledger.upgrade import make_tables
from projections import tables
from projections.raw import pages

LOG: Final = (boards, events, words)
"""What is written once and for all; and the boards' rows, which say where each log ends."""
BESIDE: Final = (
    tables.settings, tables.tasks, tables.runs, tables.links, tables.leases, tables.held, tables.sweeps,
    tables.measures,
)  # fmt: skip
"""What is written over and over: the projections, and what no fold reads. Snapshots are taken anew."""

Progress = Callable[[int, int], None] | None


def carry(
    source: Connection, target: Connection, *, of: Iterable[Table] = (*LOG, *BESIDE), progress: Progress = None
) -> None:
    """Put all rows of the tables *of* one store into those of another, whose tables are empty, as they are stored.

    *progress* hears (events done, events in all).
    """
    total, done = sum(source.execute(select(boards.c.head_position)).scalars()), 0
    for table in of:
        for page in pages(source, _all(table)):
            pour(target, table, page)
            if table is events and progress is not None:
                done += len(page)
                progress(done, max(total, done))


def carry_board(source: Connection, target: Connection, board: str, *, of: Iterable[Table]) -> None:
    """Put the rows of *board* in the tables *of* one store into those of another, in the place of all that it has."""
    for table in of:
        target.execute(delete(table).where(table.c.board == board))
        for page in pages(source, _all(table).where(table.c.board == board)):
            pour(target, table, page)


def differing(source: Connection, target: Connection, *, of: Iterable[Table] = (*LOG, *BESIDE)) -> str | None:
    """The first of the tables *of* two stores in which a row differs, or none."""
    for table in of:
        both = zip_longest(_rows(source, table), _rows(target, table))
        if any(here != there for here, there in both):
            return table.name
    return None


def write_out(engine: Engine, to: Path, *, progress: Progress = None) -> None:
    """Write all that is committed now into the empty file *to*, as a SQLite store, while others go on writing.

    It is not on the disk for certain before `ledger.copies.settled`.
    """
    with drafting(to) as draft:
        make_tables(draft)
        with reading(engine) as source:
            carry(source, draft, progress=progress)


def _rows(tx: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(pages(tx, _all(table)))


def _all(table: Table) -> Select[Any]:
    """All rows of *table*, by key: in the order in which they lie best in the other store."""
    return select(table).order_by(*table.primary_key)
