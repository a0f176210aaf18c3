"""Workspaces that nobody needs any more: removed once the card is closed and no open child needs them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sqlalchemy import Text, bindparam, func, or_, select

from kanban.desk import Desk
from kanban.failpoints import reach
from kanban.folders import scratch_folder, worktree_folder
from kanban.workspaces import release
from ledger.errors import LedgerError
from ledger.prepared import Prepared
from projections import tables
from projections.leases import is_leased
from projections.task import Task

_CARDS = tables.tasks.c
_NAME = func.json_each(bindparam("names", type_=Text)).table_valued("value").c.value
_CLOSED = Prepared(
    select(_CARDS.task)
    .where(_CARDS.board == bindparam("board"), _CARDS.task.in_(select(_NAME)))
    .where(or_(_CARDS.archived, _CARDS.outcome.is_not(None)))
    .order_by(_CARDS.task)
)


def tidy(desk: Desk, home: Path) -> list[str]:
    """Remove the workspaces of closed cards, again in every tick that changed something; says what stays and why."""
    notes = []
    for root in {scratch_folder(home, desk.board, "x").parent, worktree_folder(home, desk.board, "x").parent}:
        for name in _closed(desk, root):
            try:
                _tidy(desk, home, name)
            except (LedgerError, OSError, ValueError, TypeError) as fault:
                notes.append(f"{name}: its workspace stays: {fault}")
    return notes


def _closed(desk: Desk, root: Path) -> list[str]:
    """The cards that have a folder under *root* and are closed, by id: the others are not even loaded."""
    names = os.listdir(root) if root.is_dir() else []  # noqa: PTH208 – names only
    return [task for (task,) in _CLOSED.all(desk.tx, board=desk.board, names=json.dumps(names))] if names else []


def _tidy(desk: Desk, home: Path, name: str) -> None:
    task = desk.task(name)
    if task is not None and _is_over(desk, task):
        reach("before-tidy")
        release(home, desk.board, task.id, task.card.workspace)
        reach("after-first-tidy")


def _is_over(desk: Desk, task: Task) -> bool:
    """Closed, its processes gone, and no open child that may want to look into it."""
    if not task.closed or is_leased(desk.tx, desk.board, task.id):
        return False
    children = (desk.task(link.child) for link in desk.children(task.id))
    return all(child is None or child.closed for child in children)
