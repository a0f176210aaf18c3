"""Leases: the one piece of mutable operational state. Folds never read it; a missing row is no proof to a worker."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update

from projections import tables

LEASES, RUNS, TASKS = tables.leases, tables.runs, tables.tasks


def grant(tx: Connection, board: str, task: str, run: int, *, until: int) -> None:
    """Give a new run its lease, until *until* (microseconds UTC)."""
    tx.execute(insert(LEASES).values(board=board, task=task, run=run, lease_until=until, last_beat=None))


def renew(tx: Connection, board: str, task: str, run: int, *, until: int, beat: int | None = None) -> None:
    """Move the lease; *beat* is the instant of a worker's own heartbeat. A lost row comes back."""
    values: dict[str, int] = {"lease_until": until} | ({} if beat is None else {"last_beat": beat})
    key = (LEASES.c.board == board, LEASES.c.task == task, LEASES.c.run == run)
    if tx.execute(update(LEASES).where(*key).values(values)).rowcount == 0:
        tx.execute(insert(LEASES).values(board=board, task=task, run=run, last_beat=beat, lease_until=until))


def release(tx: Connection, board: str, task: str, run: int) -> None:
    """The run needs no lease any more: it has ended and its processes are gone."""
    tx.execute(delete(LEASES).where(LEASES.c.board == board, LEASES.c.task == task, LEASES.c.run == run))


def lease_of(tx: Connection, board: str, task: str, run: int) -> tuple[int, int | None] | None:
    """(lease until, last beat) of a run, or none where the row is missing."""
    columns = select(LEASES.c.lease_until, LEASES.c.last_beat)
    row = tx.execute(columns.where(LEASES.c.board == board, LEASES.c.task == task, LEASES.c.run == run)).one_or_none()
    return None if row is None else (row.lease_until, row.last_beat)
