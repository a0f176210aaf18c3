"""The audit of a million events, beside a bare cursor over the same rows that counts into lists.

A process a core, as `ledger replay` has them: wall time on both sides, so that all that a replay starts and waits for
counts. One process: processor time, from a file that the system keeps in memory. The peak is the sum of what all the
processes of a replay take at one moment (`Pss`, which counts a page that several map once), looked at all the time.
"""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.boards import Store, bare, long_log, streams
from benchmarks.measure import Clock, Row, cpu, faster, medians, rounds, scaled, spent, wall
from kanban import Board
from ledger.database import reading
from ledger.events import COUNTED
from ledger.store import read_task
from projections.replay import replay
from projections.replay_jobs import cores
from projections.task import Task, evolve

if TYPE_CHECKING:
    from benchmarks.peers import Peers

EVENTS = scaled(1_000_000, least=10_000)
CAN_LEAVE_CHAIN = "chain" in inspect.signature(replay).parameters
JOBS = cores()
_AUDIT = """
import sys
from pathlib import Path
from benchmarks.boards import Store
from benchmarks.replay import JOBS, audit
audit(Store(Path(sys.argv[1])).open(), chain=False, jobs=JOBS)
"""
_LOOK = 0.02
"""Seconds between two looks at the memory of a replay."""


def counted(path: Path) -> int:
    """The baseline: task, version, kind and outcome of every event, and a card's counters in a list."""
    cards: dict[str, list[int]] = {}
    with bare(path) as db:
        rows = db.execute("SELECT task, version, kind, outcome FROM events WHERE board = 'default' ORDER BY position")
        for task, version, kind, outcome in rows:
            card = cards.get(task)
            if card is None:
                card = cards[task] = [0, 0, 0, 0, 0]
            card[0] = version
            if kind == "exited":
                if outcome in COUNTED:
                    card[1] += 1
                    card[2] = card[4] = 0
                    card[3] += 1
                elif outcome == "clean":
                    card[2] += 1
                    card[3] += 1
                    card[4] = 0
                else:
                    card[4] += 1
            elif kind == "completed":
                card[1] = card[2] = card[3] = card[4] = 0
    return len(cards)


def audit(board: Board, *, chain: bool = True, strict: bool = False, jobs: int = 1) -> None:
    """One replay that finds nothing; without the chain where the replay can leave it out."""
    options: dict[str, Any] = {"chain": chain} if CAN_LEAVE_CHAIN else {}
    found = replay(board.engine, board.name, strict=strict, jobs=jobs, **options)
    assert found.divergences == (), found.divergences[:3]


def rows(scratch: Path) -> Iterator[Row]:
    """The rows of the long log."""
    store = long_log(scratch / "long", EVENTS)
    board = store.open()

    def bare_cursor(clock: Clock) -> float:
        gc.disable()
        try:
            return spent(lambda: counted(store.path), clock)
        finally:
            gc.enable()

    def shared(**how: bool) -> float:
        return spent(lambda: audit(board, jobs=JOBS, **how))

    cases = {
        "bare": lambda: bare_cursor(wall),
        "bare, processor": lambda: bare_cursor(cpu),
        "replay": lambda: shared(chain=False),
        "one process": lambda: spent(lambda: audit(board, chain=False), cpu),
        "strict": lambda: shared(chain=False, strict=True),
        "with chain": shared,
    }
    if not CAN_LEAVE_CHAIN:
        del cases["with chain"]
    times = rounds(cases, times=5, warm=0)
    board.close()
    said = f"replay of {EVENTS:,} events, {JOBS} processes: verified fold and comparison"
    note = medians(times, "replay", "bare")
    yield Row(said, "bare cursor", faster(times, "replay", "bare"), 0.2, note=note)
    figures, note = faster(times, "one process", "bare, processor"), medians(times, "one process", "bare, processor")
    yield Row("replay, one process (processor time)", "bare cursor", figures, 0.2, note=note)
    yield Row("replay, peak memory of all processes", "–", [_peak(store)], 300, False, "MB")
    yield Row("replay --strict", "bare cursor", faster(times, "strict", "bare"), 0.12, note=medians(times, "strict"))
    if CAN_LEAVE_CHAIN:
        figures = faster(times, "with chain", "replay")
        yield Row("replay with chain", "replay without", figures, 0.4, note=medians(times, "with chain"))


def _peak(store: Store) -> float:
    """Megabytes that a replay which did nothing else took at most, all its processes together."""
    command, most = [sys.executable, "-c", _AUDIT, str(store.home)], 0
    with subprocess.Popen(command) as ran:
        while ran.poll() is None:
            most = max(most, sum(map(_memory, [ran.pid, *_children(ran.pid)])))
            time.sleep(_LOOK)
    assert ran.returncode == 0
    return most * 1024 / 1e6


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it ended
        return []


def _memory(pid: int) -> int:
    """KiB that the process takes of memory, its share of what several map."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def beside_peers(scratch: Path, peers: Peers) -> Iterator[Row]:
    """One card folded anew from its stream, beside `repository.get` of eventsourcing on its SQLite recorder."""
    for length, target in ((10, 3), (100, 5)):
        cards = scaled(300, least=30)
        store, ids = streams(scratch / f"streams-{length}", cards, length)
        board = store.open()
        peers.eventsourcing.ask("build", path=str(scratch / f"peer-{length}.db"), cards=cards, length=length)

        def ours(board: Board = board, ids: list[str] = ids) -> float:
            return spent(lambda: [rebuilt(board, card) for card in ids], cpu, per=len(ids))

        times = rounds({"ledger": ours, "eventsourcing": lambda: peers.eventsourcing.ask("get")}, times=9)
        assert rebuilt(board, ids[0]).version == length
        figures, note = faster(times, "ledger", "eventsourcing"), medians(times, "ledger", "eventsourcing")
        yield Row(f"rebuild one task of {length} events", "eventsourcing repository.get", figures, target, note=note)
        store.close()


def rebuilt(board: Board, card: str) -> Task:
    """The card as its stream alone says: a read transaction, its events, the fold."""
    with reading(board.engine) as tx:
        return reduce(evolve, read_task(tx, "default", card), Task(card))
