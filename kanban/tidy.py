"""Workspaces that nobody needs any more: removed once the card is closed and no open child needs them."""

from __future__ import annotations

from pathlib import Path

from kanban.desk import Desk
from kanban.failpoints import reach
from kanban.folders import scratch_folder, worktree_folder
from kanban.workspaces import release
from ledger.errors import LedgerError
from projections.leases import is_leased
from projections.task import Task


def tidy(desk: Desk, home: Path) -> list[str]:
    """Remove the workspaces of closed cards, again in every tick that changed something; says what stays and why."""
    notes = []
    for root in {scratch_folder(home, desk.board, "x").parent, worktree_folder(home, desk.board, "x").parent}:
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            try:
                _tidy(desk, home, folder.name)
            except (LedgerError, OSError, ValueError, TypeError) as fault:
                notes.append(f"{folder.name}: its workspace stays: {fault}")
    return notes


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
