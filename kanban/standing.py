"""What a tick leaves in the store besides events: why cards were not started, and that it was here."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from kanban import snapshot
from kanban.desk import Desk
from kanban.plan import Admission
from kanban.tick import Tick
from projections import tables
from projections.policy import SECOND

HELD, SWEEPS = tables.held, tables.sweeps
REWRITE = 10 * SECOND
"""A tick that changes nothing rewrites its row at most that often."""


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
    cards = tables.cards
    found = tx.execute(select(cards.c.status).where(cards.c.board == board, cards.c.task == task)).scalar()
    return found in {"scheduled", "review", "ready"}


def keep_held(desk: Desk, admission: Admission, tick: Tick) -> None:
    tick.held = by_reason(admission)
    fresh, gone = held_changes(desk, admission) or ({}, [])
    for task in (*fresh, *gone):
        desk.tx.execute(delete(HELD).where(HELD.c.board == desk.board, HELD.c.task == task))
    for task, (reason, until) in fresh.items():
        desk.tx.execute(insert(HELD).values(board=desk.board, task=task, reason=reason, until=until, since=desk.now))


def stamp_is_due(desk: Desk, host: str, tick: Tick) -> bool:
    last = desk.tx.execute(select(SWEEPS.c.ticked_at).where(SWEEPS.c.board == desk.board, SWEEPS.c.host == host))
    ticked = last.scalar()
    return ticked is None or abs(tick.at - ticked) >= REWRITE


def stamp(desk: Desk, host: str, tick: Tick, *, changed: bool) -> None:
    """One row a host: its last tick, the last that changed something, and how many errors it met."""
    values: dict[str, Any] = {"ticked_at": tick.at, "errors": len(tick.errors)} | (
        {"changed_at": tick.at} if changed else {}
    )
    key = (SWEEPS.c.board == desk.board, SWEEPS.c.host == host)
    if desk.tx.execute(update(SWEEPS).where(*key).values(values)).rowcount == 0:
        desk.tx.execute(insert(SWEEPS).values(board=desk.board, host=host, **({"changed_at": None} | values)))
