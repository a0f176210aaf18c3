"""Snapshots of the past: how the cards and links of a board stood at every so many positions, so that any is near.

They are folded from the log alone, by the code that folds the rest of the way when the past is looked at, and keyed by
position and fold version; one of another version is never used. A row says from which snapshot it stands up to which.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Engine, Table, bindparam, delete, func, insert, select, update

from ledger.clock import system_clock
from ledger.database import reading, writing
from ledger.prepared import Prepared
from ledger.standing import head, standing
from projections import tables
from projections.folding import FOLD_VERSION
from projections.rows import task_row
from projections.stretch import Moved, moved
from projections.tables import STANDING

SNAPSHOTS, TASKS, LINKS = tables.snapshots, tables.past_tasks, tables.past_links
SPACING: Final = 2_500
"""Events between two snapshots: so many are folded, at the most, to look at any position."""


def newest(tx: Connection, board: str, position: int) -> int:
    """The last snapshot at *position* or before it; 0: there is none."""
    found: int = _NEWEST.one(tx, board=board, fold=FOLD_VERSION, position=position)[0]
    return found


def missing(tx: Connection, board: str) -> int:
    """How many snapshots the log has grown by."""
    last = head(tx, board).position
    return (last - newest(tx, board, last)) // SPACING


def take(engine: Engine, board: str, *, most: int | None = None) -> int:
    """Take the snapshots that are missing, *most* of them; returns how many. Others may do so at the same time.

    Nobody waits for the fold; the board is held for as long as one snapshot's rows need.
    Raises `UnknownKind`, `NewerSchema` where the log holds what this program cannot read.
    """
    taken = 0
    while most is None or taken < most:
        with reading(engine) as tx:
            last = head(tx, board).position
            before = newest(tx, board, last)
            position = before + SPACING
            if position > last:
                break
            stretch = moved(tx, board, before, position)
        with writing(engine) as tx:
            _keep(tx, board, position, stretch)
        taken += 1
    return taken


def _keep(tx: Connection, board: str, position: int, stretch: Moved) -> None:
    """Write the snapshot at *position*, unless the one before it is not the newest any more."""
    standing(tx, board, system_clock, hold=True)
    if newest(tx, board, STANDING) != position - SPACING:
        return
    key = {"board": board, "fold": FOLD_VERSION}
    tx.execute(insert(SNAPSHOTS), {**key, "position": position})
    if position == SPACING:
        _forget_older(tx, board)
    rows = [{**task_row(task), "open_parents": task.open_parents} for task in stretch.tasks]
    gone = [{"of_child": child, "of_parent": parent} for child, parent, _ in stretch.unlinked]
    new = [{"child": child, "parent": parent, "require": require} for child, parent, require in stretch.linked]
    _each(
        tx, _END[TASKS], [{"of_task": row["task"]} for row in rows], of_board=board, of_fold=FOLD_VERSION, at=position
    )
    _each(tx, _END[LINKS], gone, of_board=board, of_fold=FOLD_VERSION, at=position)
    _each(tx, insert(TASKS), rows, **key, since=position, until=STANDING)
    _each(tx, insert(LINKS), new, **key, since=position, until=STANDING)


def _each(tx: Connection, statement: Any, rows: list[dict[str, Any]], **shared: Any) -> None:
    if rows:
        tx.execute(statement, [{**shared, **row} for row in rows])


def _forget_older(tx: Connection, board: str) -> None:
    """Throw away what earlier versions of the fold left. A later version's is another program's."""
    for table in tables.PAST:
        tx.execute(delete(table).where(table.c.board == board, table.c.fold < FOLD_VERSION))


def _end(table: Table, *keys: str) -> Any:
    """The row that stands so far stands up to *at*."""
    mine = [table.c[key] == bindparam(f"of_{key}") for key in ("board", "fold", *keys)]
    return update(table).where(*mine, table.c.until == STANDING).values(until=bindparam("at"))


_END: Final = {TASKS: _end(TASKS, "task"), LINKS: _end(LINKS, "child", "parent")}
_NEWEST = Prepared(
    select(func.coalesce(func.max(SNAPSHOTS.c.position), 0)).where(
        SNAPSHOTS.c.board == bindparam("board"),
        SNAPSHOTS.c.fold == bindparam("fold"),
        SNAPSHOTS.c.position <= bindparam("position"),
    )
)
