"""Looking at processes and files, with no transaction open (RULES §6, §7): what a plan then decides on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kanban.evidence import read_evidence, summary_of, wants_quota
from kanban.folders import read_ending, run_folder
from kanban.hosts import Host
from kanban.plan import Key, Seen
from kanban.processes import ProcessTable
from kanban.snapshot import Watched
from projections.run import Run

Place = tuple[str, str, int]
"""A run of any board: board, card, number."""


def observe(watched: Iterable[Watched], host: Host, home: Path, table: ProcessTable) -> dict[Place, Seen]:
    """What *host* sees of each run that is its own; runs of other hosts are left out, they are not its to judge."""
    found = {}
    for board, run, _ in watched:
        if (run.host if run.group is None else run.group.host) == host.id:
            found[board, run.task, run.run] = see(board, run, host, home, table)
    return found


def see(board: str, run: Run, host: Host, home: Path, table: ProcessTable) -> Seen:
    """What this host sees of one run of its own: processes first; evidence only once none is left."""
    folder = run_folder(home, board, run.task, run.run)
    presence = None if run.group is None else table.identify(run.group, host)
    members = () if run.group is None else table.members(run.group, host)
    since = read_ending(folder)
    if members:
        return Seen(presence, members, since)
    evidence = read_evidence(folder, run.run)
    return Seen(
        presence,
        members,
        since,
        evidence,
        quota=wants_quota(evidence, run.quota),
        summary=summary_of(folder, evidence, run.result),
    )


def of_board(seen: dict[Place, Seen], board: str) -> dict[Key, Seen]:
    """What was seen of the runs of *board*."""
    return {(task, run): found for (name, task, run), found in seen.items() if name == board}
