"""What a tick leaves in the store besides events: why cards were not started, and that it was here."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from kanban import snapshot
from kanban.desk import Desk
from kanban.plan import Admission
from kanban.tick import Tick
from ledger.prepared import Prepared
from projections import tables
from projections.policy import SECOND

HELD, SWEEPS = tables.held, tables.sweeps
REWRITE = 10 * SECOND
"""A tick that changes nothing rewrites its row at most that often."""

_LAST = Prepared(select(SWEEPS.c.ticked_at).where(*(SWEEPS.c[name] == bindparam(name) for name in ("board", "host"))))
_CARDS = tables.cards
_STATUS = Prepared(select(_CARDS.c.status).where(*(_CARDS.c[name] == bindparam(name) for name in ("board", "task"))))
_DROP = Prepared(delete(HELD).where(*(HELD.c[name] == bindparam(name) for name in ("board", "task"))))
_HOLD = Prepared(insert(HELD))
_FIRST = Prepared(insert(SWEEPS))
_STAMP = Prepared(
    update(SWEEPS)
    .where(SWEEPS.c.board == bindparam("of_board"), SWEEPS.c.host == bindparam("of_host"))
    .values(
        ticked_at=bindparam("at"),
        errors=bindparam("errors_met"),
        changed_at=func.coalesce(bindparam("changed"), SWEEPS.c.changed_at),
    )
)


def by_reason(admission: Admission) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for task, (reason, _) in admission.held.items():
        reasons.setdefault(reason, []).append(task)
    return reasons


def held_changes(desk: Desk, admission: Admission) -> tuple[dict[str, tuple[str, int | None]], list[str]] | None:
    """(rows to write, rows to drop), or none: unchanged reasons write nothing."""
    stored = snapshot.stored_held(desk.tx, desk.board)
    fresh = {task: held for task, held in admission.held.items() if stored.get(task) != held}
    gone = [task for task in stored if task not in admission.held and not _still_waits(desk.tx, desk.board, task)]
    return (fresh, gone) if fresh or gone else None


def _still_waits(tx: Connection, board: str, task: str) -> bool:
    found = _STATUS.one(tx, board=board, task=task)
    return found is not None and found[0] in {"scheduled", "review", "ready"}


def keep_held(desk: Desk, admission: Admission, tick: Tick) -> None:
    tick.held = by_reason(admission)
    fresh, gone = held_changes(desk, admission) or ({}, [])
    for task in (*fresh, *gone):
        _DROP.run(desk.tx, board=desk.board, task=task)
    for task, (reason, until) in fresh.items():
        _HOLD.run(desk.tx, board=desk.board, task=task, reason=reason, until=until, since=desk.now)


def stamp_is_due(desk: Desk, host: str, tick: Tick) -> bool:
    last = _LAST.one(desk.tx, board=desk.board, host=host)
    return last is None or abs(tick.at - last[0]) >= REWRITE


def stamp(desk: Desk, host: str, tick: Tick, *, changed: bool) -> None:
    """One row a host: its last tick, the last that changed something, and how many errors it met."""
    at, errors, changed_at = tick.at, len(tick.errors), tick.at if changed else None
    if _STAMP.run(desk.tx, of_board=desk.board, of_host=host, at=at, errors_met=errors, changed=changed_at) == 0:
        _FIRST.run(desk.tx, board=desk.board, host=host, ticked_at=at, errors=errors, changed_at=changed_at)
