"""What a decision asks of the stored projections, one row or a few at a time."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, bindparam, select

from ledger.prepared import Prepared
from ledger.recorded import parsed
from ledger.schema import events
from projections import tables
from projections.graph import Link
from projections.run import Run

_RUNS, _LINKS, _TASKS = tables.runs, tables.links, tables.tasks


def parents(tx: Connection, board: str, task: str) -> tuple[Link, ...]:
    """The links that the card waits for."""
    return tuple(Link(*row) for row in _PARENTS.all(tx, board=board, task=task))


def children(tx: Connection, board: str, task: str) -> tuple[Link, ...]:
    """The links of those that wait for the card."""
    return tuple(Link(*row) for row in _CHILDREN.all(tx, board=board, task=task))


def run_by_lock(tx: Connection, board: str, task: str, lock_hash: str) -> int | None:
    """The number of the card's run that this lock belongs to."""
    row = _RUN_BY_LOCK.one(tx, board=board, task=task, lock_hash=lock_hash)
    return None if row is None else int(row[0])


def redacted(tx: Connection, board: str, task: str) -> frozenset[int]:
    """The positions that a `redacted` in the card's stream names."""
    return frozenset(parsed(facts)["redacts"] for (facts,) in _REDACTIONS.all(tx, board=board, task=task))


def task_by_key(tx: Connection, board: str, key: str) -> str | None:
    """The card with that idempotency key."""
    row = _TASK_BY_KEY.one(tx, board=board, key=key)
    return None if row is None else str(row[0])


def live(tx: Connection, board: str) -> tuple[Run, ...]:
    """Every open run of the board, as caps count them: one that cannot be read whole keeps its slot."""
    rows = _LIVE.all(tx, board=board)
    return tuple(Run(task, run, by=by, host=host, worker=worker) for task, run, by, host, worker in rows)


def _in(table: Table, *names: str) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(name) for name in names]


_LINK: Final = select(_LINKS.c.parent, _LINKS.c.child, _LINKS.c.require).where(_LINKS.c.board == bindparam("board"))
_PARENTS: Final = Prepared(_LINK.where(_LINKS.c.child == bindparam("task")).order_by(_LINKS.c.parent))
_CHILDREN: Final = Prepared(_LINK.where(_LINKS.c.parent == bindparam("task")).order_by(_LINKS.c.child))
_RUN_BY_LOCK: Final = Prepared(select(_RUNS.c.run).where(*_in(_RUNS, "board", "task", "lock_hash")))
_REDACTIONS: Final = Prepared(select(events.c.facts).where(*_in(events, "board", "task"), events.c.kind == "redacted"))
_TASK_BY_KEY: Final = Prepared(select(_TASKS.c.task).where(*_in(_TASKS, "board", "key")))
_LIVE: Final = Prepared(
    select(_RUNS.c.task, _RUNS.c.run, _RUNS.c.by, _RUNS.c.host, _RUNS.c.worker).where(
        *_in(_RUNS, "board"), _RUNS.c.ended_by.is_(None)
    )
)
