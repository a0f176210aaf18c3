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
QUIET = 600 * SECOND
"""A host that has not come for so long is not counted as one that sweeps."""
OF_ONE_HOST = frozenset({"unknown_assignee", "placed_elsewhere", "ending"})
"""Reasons that hold on the host that says so, and say nothing of others."""

_LAST = Prepared(select(SWEEPS.c.ticked_at).where(*(SWEEPS.c[name] == bindparam(name) for name in ("board", "host"))))
_OTHERS = Prepared(
    select(func.count())
    .select_from(SWEEPS)
    .where(SWEEPS.c.board == bindparam("board"), SWEEPS.c.host != bindparam("host"))
    .where(SWEEPS.c.ticked_at >= bindparam("lately"))
)
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


def held_changes(
    desk: Desk, host: str, admission: Admission
) -> tuple[dict[str, tuple[str, int | None]], list[str]] | None:
    """(rows to write, rows to drop), or none: unchanged reasons write nothing.

    What is so on *host* alone says nothing where another host, which may start the card, has said why it does not.
    """
    stored = snapshot.stored_held(desk.rows, desk.board)
    fresh = {task: held for task, held in admission.held.items() if stored.get(task) != held}
    lesser = [task for task, (reason, _) in fresh.items() if reason in OF_ONE_HOST and task in stored]
    if lesser and _others_sweep(desk, host):
        fresh = {task: held for task, held in fresh.items() if task not in lesser}
    gone = [task for task in stored if task not in admission.held and not _still_waits(desk.rows, desk.board, task)]
    return (fresh, gone) if fresh or gone else None


def _still_waits(tx: Connection, board: str, task: str) -> bool:
    found = _STATUS.one(tx, board=board, task=task)
    return found is not None and found[0] in {"scheduled", "review", "ready"}


def _others_sweep(desk: Desk, host: str) -> bool:
    """Whether another host than *host* has come to this board lately."""
    return bool(_OTHERS.one(desk.rows, board=desk.board, host=host, lately=desk.now - QUIET)[0])


def keep_held(desk: Desk, host: str, admission: Admission, tick: Tick) -> None:
    """Store why cards were not started, as the tick of *host* found it."""
    tick.held = by_reason(admission)
    fresh, gone = held_changes(desk, host, admission) or ({}, [])
    for task in (*fresh, *gone):
        _DROP.run(desk.rows, board=desk.board, task=task)
    for task, (reason, until) in fresh.items():
        _HOLD.run(desk.rows, board=desk.board, task=task, reason=reason, until=until, since=desk.now)


def stamp_is_due(desk: Desk, host: str) -> bool:
    last = _LAST.one(desk.rows, board=desk.board, host=host)
    return last is None or abs(desk.now - last[0]) >= REWRITE


def stamp(desk: Desk, host: str, tick: Tick, *, changed: bool) -> None:
    """One row a host: its last tick, the last that changed something, and how many errors it met."""
    at, errors, changed_at = desk.now, len(tick.errors), desk.now if changed else None
    if _STAMP.run(desk.rows, of_board=desk.board, of_host=host, at=at, errors_met=errors, changed=changed_at) == 0:
        _FIRST.run(desk.rows, board=desk.board, host=host, ticked_at=at, errors=errors, changed_at=changed_at)
