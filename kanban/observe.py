"""Looking at processes and files, with no transaction open (RULES §6, §7): what a plan then decides on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kanban.evidence import Owned, read_evidence, summary_of, wants_quota
from kanban.folders import read_ending, run_folder
from kanban.hosts import Host
from kanban.plan import Key, Seen
from kanban.processes import Presence, ProcessTable
from kanban.snapshot import Watched
from projections.run import Run

Place = tuple[str, str, int]
"""A run of any board: board, card, number."""


def observe(watched: Iterable[Watched], host: Host, home: Path, shared: bool = False) -> dict[Place, Seen]:
    """What *host* sees of each run that is its own; runs of other hosts are left out, they are not its to judge.

    Where other hosts may share the store (*shared*), neither is a run of which nothing in *home* shows that it is ours:
    a machine of the same image, or another user's dispatcher, may go by the same id.
    """
    ours = [(board, run) for board, run, _ in watched if _host_of(run) == host.id]
    strange = {(board, run.task, run.run) for board, run in ours if shared and _is_strange(board, run, host, home)}
    known = [(board, run) for board, run in ours if (board, run.task, run.run) not in strange]
    table = ProcessTable.for_groups((run.group for _, run in known if run.group is not None), host)
    seen = {(board, run.task, run.run): see(board, run, host, home, table) for board, run in known}
    return seen | dict.fromkeys(strange, Seen(Presence.UNKNOWN))


def see(board: str, run: Run, host: Host, home: Path, table: ProcessTable) -> Seen:
    """What this host sees of one run of its own: processes first; evidence only once none is left."""
    presence, members = (None, ()) if run.group is None else table.sight(run.group, host)
    if presence is Presence.ALIVE and members and run.open and not run.stops:  # nobody can have begun to end it
        return Seen(presence, members)
    folder = run_folder(home, board, run.task, run.run)
    if members:
        return Seen(presence, members, read_ending(folder))
    evidence = read_evidence(folder, run.run, owned_of(run))
    return Seen(
        presence,
        evidence=evidence,
        quota=wants_quota(evidence, run.quota),
        summary=summary_of(folder, evidence, run.result),
    )


def owned_of(run: Run) -> Owned | None:
    """What the result of the owner that took this run's turns must name; none where no owner did."""
    if run.turns is None:
        return None
    return Owned(run.task, run.run, run.lock_hash, run.turns.pid, run.turns.start_tick)


def _is_strange(board: str, run: Run, host: Host, home: Path) -> bool:
    """Whether a bound run left nothing in *home*; one claimed by hand never does, and says by its boot where it is."""
    if run.group is None:
        return False
    if run.by == "hand":
        return run.group.boot != host.boot
    return not run_folder(home, board, run.task, run.run).is_dir()


def _host_of(run: Run) -> str:
    return run.host if run.group is None else run.group.host


def of_board(seen: dict[Place, Seen], board: str) -> dict[Key, Seen]:
    """What was seen of the runs of *board*."""
    return {(task, run): found for (name, task, run), found in seen.items() if name == board}
