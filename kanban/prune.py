"""Folders that closed cards left behind: taken away once they are old and nothing can be lost by it.

The log is never touched. A card is looked at again while no sweep of this host ticks, so that none of its runs can
start in between. No link is followed, and nothing outside the home is removed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select

from kanban.board import Board
from kanban.desk import Desk
from kanban.folders import make_private, run_folder, scratch_folder, worktree_folder
from kanban.holders import carriers
from kanban.processes import ProcessTable
from kanban.worker.carrier import operators_only
from kanban.workspaces import releasable, release
from ledger.clock import SECOND
from ledger.database import BUSY_TIMEOUT
from ledger.errors import InvalidInput, LedgerError
from ledger.gate import gate
from projections import tables
from projections.task import Task

_SWEEP: Final = "sweep.lock"  # which a tick holds: kanban/sweep.py


@dataclass(slots=True)
class Pruned:
    """What was removed (after a dry run: would be), how many bytes of files that was, and what stays and why.

    Only cards whose last event is *before* an instant (µs) were looked at.
    """

    dry_run: bool
    before: int
    removed: list[Path] = field(default_factory=list)
    bytes: int = 0
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger prune --json` prints."""
        removed = [str(path) for path in self.removed]
        return {"removed": removed, "bytes": self.bytes, "dry_run": self.dry_run, "notes": self.notes}


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A folder that a card left: its run folders, or a workspace."""

    task: str
    path: Path
    what: str


@dataclass(frozen=True, slots=True)
class _Living:
    """What lives on this host: its processes, and the cards (board, id) that some of them work for.

    Seen once: no new process can come for a card that was closed then, and stays closed while no sweep ticks.
    """

    table: ProcessTable
    cards: frozenset[tuple[str, str]]


def prune(board: Board, *, older_than: int, dry_run: bool = False) -> Pruned:
    """Remove run folders and workspaces of *board*'s closed cards whose last event is *older_than* seconds ago.

    Raises `InvalidInput` for a duration that is not positive, `Forbidden` inside a worker's environment.
    """
    operators_only(board.environ, "prune")
    if older_than <= 0:
        raise InvalidInput(f"{older_than} seconds is no age", remedy="--older-than 30d")
    with board.look() as desk:
        pruned = Pruned(dry_run, desk.now - older_than * SECOND)
    living = _Living(ProcessTable.snapshot(), frozenset((each.board, each.task) for each in carriers(board.home)))
    for leaving in _leavings(board, pruned):
        with nullcontext() if dry_run else _no_tick(board.home), board.look() as desk:
            _take(board, desk, leaving, living, pruned)
    return pruned


def _leavings(board: Board, pruned: Pruned) -> Iterator[_Leaving]:
    """Every folder that is named like a card, where cards leave folders."""
    home, name = board.home, board.name
    roots = {
        "runs": run_folder(home, name, "x", 1).parent.parent,
        "scratch": scratch_folder(home, name, "x").parent,
        "worktree": worktree_folder(home, name, "x").parent,
    }
    for what, root in roots.items():
        if not root.is_dir():
            continue
        if root.resolve() != home.resolve() / root.relative_to(home):
            pruned.notes.append(f"{root} leads out of {home} by a link: left as it is")
            continue
        for path in sorted(root.iterdir()):
            if path.is_symlink():
                pruned.notes.append(f"{path} is a link: left as it is")
            elif path.is_dir():
                yield _Leaving(path.name, path, what)


@contextmanager
def _no_tick(home: Path) -> Iterator[None]:
    """A moment in which no sweep of this host ticks."""
    with gate(make_private(home) / _SWEEP, timeout=BUSY_TIMEOUT):
        yield


def _take(board: Board, desk: Desk, leaving: _Leaving, living: _Living, pruned: Pruned) -> None:
    """Remove the folder, if its card is there, closed and old, or say what speaks against it."""
    task = desk.task(leaving.task)
    if task is None or not task.closed or task.updated_at >= pruned.before:
        return
    reason, size = _why_not(board, desk, task, leaving, living), 0
    try:
        if reason is None:
            size = _size(leaving.path)
            gone = _gone(board, task, leaving, dry_run=pruned.dry_run)
            reason = None if gone else "it is not clean, or neither merged nor pushed"
    except (LedgerError, OSError) as fault:
        reason = str(fault)
    if reason is None:
        pruned.removed.append(leaving.path)
        pruned.bytes += size
    else:
        pruned.notes.append(f"{task.id}: {leaving.path} stays: {reason}")


def _why_not(board: Board, desk: Desk, task: Task, leaving: _Leaving, living: _Living) -> str | None:
    """Why the folder must stay, or none."""
    if _has_processes(board, desk, task, living):
        return "a process of the card may still be there"
    if leaving.what == "scratch" and not _is_done_with(desk, task):
        return "an open child may need it"
    if leaving.what == "worktree" and not task.card.workspace.startswith("worktree:"):
        return "the card no longer names its repository"
    return None


def _has_processes(board: Board, desk: Desk, task: Task, living: _Living) -> bool:
    """By the lease that a run keeps until its processes are gone, and by what lives on this host."""
    leases = tables.leases
    held = select(leases.c.run).where(leases.c.board == desk.board, leases.c.task == task.id)
    if (desk.board, task.id) in living.cards or desk.tx.execute(held).first() is not None:
        return True
    run = desk.run(task.id, task.last_run)
    return run is not None and run.group is not None and bool(living.table.members(run.group, board.host))


def _is_done_with(desk: Desk, task: Task) -> bool:
    children = (desk.task(link.child) for link in desk.children(task.id))
    return all(child is None or child.closed for child in children)


def _gone(board: Board, task: Task, leaving: _Leaving, *, dry_run: bool) -> bool:
    """Whether the folder is gone now, or would be."""
    if leaving.what == "runs":
        if not dry_run:
            _remove(leaving.path)
        return True
    spec = "scratch" if leaving.what == "scratch" else task.card.workspace
    return (releasable if dry_run else release)(board.home, board.name, task.id, spec)


def _remove(path: Path) -> None:
    """Remove a folder by its name in its parent, whatever that is renamed to meanwhile."""
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        shutil.rmtree(path.name, dir_fd=parent)
    finally:
        os.close(parent)


def _size(path: Path) -> int:
    """Bytes of the files in *path*, no link followed."""
    files = (Path(folder, name).lstat() for folder, _, names in os.walk(path) for name in names)
    return sum(found.st_size for found in files if stat.S_ISREG(found.st_mode))
