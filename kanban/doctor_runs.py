"""What is looked at of runs: their processes on this host, their leases, the folders that they left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, select

from kanban.case import Case
from kanban.desk import Desk
from kanban.findings import Finding, counted, info, listed, ok, warning
from kanban.holders import carriers
from kanban.processes import Presence, ProcessTable
from kanban.snapshot import Watched, watch
from ledger.clock import SECOND
from ledger.database import reading
from projections import tables
from projections.leases import lease_of
from projections.run import Run


def runs(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether every open run of this host has its process."""
    with reading(engine) as tx:
        grace = {desk.board: desk.settings.policy.launch_grace for desk in case.desks(tx)}
        watched = [watch(tx, board) for board in grace]
    for task, unread in sorted({error for each in watched for error in each.errors}):
        yield warning("runs", f"{task}: {unread}", "ledger db rebuild")
    table = ProcessTable.snapshot()
    mine = [(each.board, each.run) for seen in watched for each in seen.open if _is_here(case, each.run)]
    missing = [(board, run, _missing(case, run, table, grace[board])) for board, run in mine]
    for board, run, what in missing:
        if what is not None:
            text = f"{case.on(board)}{run.task}: run {run.run} is open, but {what}"
            yield warning("runs", text, f"ledger sweep{case.flag(board)}")
    if not any(what for _, _, what in missing):
        yield ok("runs", f"{counted(len(mine), 'open run')} on this host, none without its process")


def _is_here(case: Case, run: Run) -> bool:
    return (run.host if run.group is None else run.group.host) == case.host.id


def _missing(case: Case, run: Run, table: ProcessTable, launch_grace: int) -> str | None:
    """What an open run of this host lacks, or none. A run claimed by hand without a pid is left to its lease."""
    if run.group is None:
        waited = (case.now - run.claimed_at) // SECOND
        late = run.by == "spawn" and waited > launch_grace
        return f"no process was bound to it in {counted(waited, 'second')}" if late else None
    left = table.members(run.group, case.host)
    match table.identify(run.group, case.host):
        case Presence.GONE if left:
            return f"its process {run.group.pid} is gone, and of its group {', '.join(map(str, left))} is left"
        case Presence.GONE:
            return f"its process {run.group.pid} is gone"
        case Presence.REBOOTED:
            return "this machine has been started since"
        case _:
            return None


def processes(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether any process here works for a run that is over."""
    carried = sorted(each for each in carriers(case.at.home) if case.is_ours(each.url))
    strays = []
    with reading(engine) as tx:
        desks = {desk.board: desk for desk in case.desks(tx)}
        for (board, task, run), each in groupby(carried, key=lambda carrier: carrier[:3]):
            found = _stray(desks.get(board), task, run, [str(carrier.pid) for carrier in each])
            if found is not None:
                text, mend = found
                mend += case.flag(board) if mend.startswith("ledger") else ""
                strays.append(warning("processes", case.on(board) + text, mend))
    yield from strays or [ok("processes", f"none of {len(carried)} here works for a run that is over")]


def _stray(desk: Desk | None, task: str, number: str, pids: list[str]) -> tuple[str, str] | None:
    """What is wrong with the processes *pids* of that run, and what mends it; none where they are as they should be."""
    run = desk.run(task, int(number)) if desk is not None and number.isdecimal() else None
    who = f"process {listed(pids)}"
    if desk is None or run is None:
        return f"{who} works for run {number} of {task}, which is not in the log", _end(pids)
    if run.ended_at is None or desk.now < run.ended_at + 2 * desk.settings.policy.stop_grace * SECOND:
        return None
    seen = lease_of(desk.tx, desk.board, task, run.run) is not None
    text = f"{task}: run {run.run} is over ({run.outcome}), and {who} is still there"
    return text, "ledger sweep" if seen else _end(pids)


def _end(pids: list[str]) -> str:
    return f"look what it is, then kill {' '.join(pids)}"


def leases(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether a lease has run out that nobody booked."""
    stale = []
    with reading(engine) as tx:
        graces = {desk.board: desk.settings.policy.lease_grace for desk in case.desks(tx)}
        seen = [watch(tx, board) for board in graces]
    ending = seen[0].ending if seen else ()
    for each in (*(watched for one in seen for watched in one.open), *ending):
        over = (case.now - each.lease.until) // SECOND - graces[each.board]
        if over > 0 and (each.run.open or not _is_here(case, each.run)):
            stale.append(_stale(case, each, over))
    yield from stale or [ok("leases", "none has run out")]


def _stale(case: Case, watched: Watched, over: int) -> Finding:
    run = watched.run
    host = run.host if run.group is None else run.group.host
    state = "open" if run.open else "over, and whether its processes are gone is not known"
    text = f"{case.on(watched.board)}{run.task}: the lease of run {run.run} is {counted(over, 'second')} over its grace"
    where = "" if _is_here(case, run) else f" on host {host}"
    return warning("leases", f"{text}; the run is {state}", f"ledger sweep{case.flag(watched.board)}{where}")


def folders(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether a folder lies where a later run would find it and take it for its own."""
    there = {board.name: _run_folders(board / "runs") for board in _inside(case.at.home / "boards")}
    strays, foreign = [], []
    with reading(engine) as tx:
        known = {desk.board for desk in case.desks(tx)}
        for board, found in there.items():
            if board not in known:
                foreign.append(board)
                continue
            cards = tables.tasks.c
            rows = tx.execute(select(cards.task, cards.last_run).where(cards.board == board))
            last = {row.task: row.last_run for row in rows}
            strays += [path for path in found if int(path.name) > last.get(path.parent.name, 0)]
    for path in strays:
        yield warning("folders", f"{path} is of a run that is not in the log", f"mv {path} {path}.stray")
    for board in foreign:
        yield info("folders", f"{case.at.home / 'boards' / board} is of a board that is not in this store")
    if not strays:
        yield ok("folders", f"{counted(sum(map(len, there.values())), 'run folder')}, none without its run")


def _run_folders(root: Path) -> list[Path]:
    return [folder for task in _inside(root) for folder in _inside(task) if folder.name.isdecimal()]


def _inside(folder: Path) -> list[Path]:
    """The folders in *folder*, links left out."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())


CHECKS: Final[tuple[Callable[[Case, Engine], Iterator[Finding]], ...]] = (runs, processes, leases, folders)
