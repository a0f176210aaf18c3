"""Leases: the one piece of mutable operational state. Folds never read it; a missing row is no proof to a worker."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from ledger.prepared import Prepared
from projections.tables import leases

_KEY = tuple(leases.c[name] == bindparam(f"of_{name}") for name in ("board", "task", "run"))
_GRANT = Prepared(insert(leases))
_RENEW = Prepared(update(leases).where(*_KEY).values(lease_until=bindparam("until")))
_BEAT = Prepared(update(leases).where(*_KEY).values(lease_until=bindparam("until"), last_beat=bindparam("beat")))
_RELEASE = Prepared(delete(leases).where(*_KEY))
_ANY = Prepared(select(leases.c.run).where(*_KEY[:2]).limit(1))
_LEASE = Prepared(select(leases.c.lease_until, leases.c.last_beat).where(*_KEY))


def grant(tx: Connection, board: str, task: str, run: int, *, until: int) -> None:
    """Give a new run its lease, until *until* (microseconds UTC)."""
    _GRANT.run(tx, board=board, task=task, run=run, lease_until=until, last_beat=None)


def renew(tx: Connection, board: str, task: str, run: int, *, until: int, beat: int | None = None) -> None:
    """Move the lease; *beat* is the instant of a worker's own heartbeat. A lost row comes back."""
    if beat is None:
        moved = _RENEW.run(tx, of_board=board, of_task=task, of_run=run, until=until)
    else:
        moved = _BEAT.run(tx, of_board=board, of_task=task, of_run=run, until=until, beat=beat)
    if moved == 0:
        _GRANT.run(tx, board=board, task=task, run=run, lease_until=until, last_beat=beat)


def release(tx: Connection, board: str, task: str, run: int) -> None:
    """The run needs no lease any more: it has ended and its processes are gone."""
    _RELEASE.run(tx, of_board=board, of_task=task, of_run=run)


def is_leased(tx: Connection, board: str, task: str) -> bool:
    """Whether any run of the card has a lease: it is open, or its processes may still be there."""
    return _ANY.one(tx, of_board=board, of_task=task) is not None


def lease_of(tx: Connection, board: str, task: str, run: int) -> tuple[int, int | None] | None:
    """(lease until, last beat) of a run, or none where the row is missing."""
    row = _LEASE.one(tx, of_board=board, of_task=task, of_run=run)
    return None if row is None else (row[0], row[1])
