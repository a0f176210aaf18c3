"""The audit of a million events, beside a bare cursor over the same rows that counts into lists.

Processor time: one process reads a file that the system keeps in memory. The peak is `VmHWM` of a process of its own.
"""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.boards import Store, bare, long_log, streams
from benchmarks.measure import Row, cpu, faster, medians, rounds, scaled, spent
from kanban import Board
from ledger.database import reading
from ledger.events import COUNTED
from ledger.store import read_task
from projections.replay import replay
from projections.task import Task, evolve

if TYPE_CHECKING:
    from benchmarks.peers import Peers

EVENTS = scaled(1_000_000, least=10_000)
CAN_LEAVE_CHAIN = "chain" in inspect.signature(replay).parameters
_PEAK = """
import sys
from pathlib import Path
from benchmarks.boards import Store
from benchmarks.replay import audit
store = Store(Path(sys.argv[1]))
audit(store.open(), chain=False)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


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


def audit(board: Board, *, chain: bool = True, strict: bool = False) -> None:
    """One replay that finds nothing; without the chain where the replay can leave it out."""
    options: dict[str, Any] = {"chain": chain} if CAN_LEAVE_CHAIN else {}
    found = replay(board.engine, board.name, strict=strict, **options)
    assert found.divergences == (), found.divergences[:3]


def rows(scratch: Path) -> Iterator[Row]:
    """The rows of the long log."""
    store = long_log(scratch / "long", EVENTS)
    board = store.open()

    def bare_cursor() -> float:
        gc.disable()
        try:
            return spent(lambda: counted(store.path), cpu)
        finally:
            gc.enable()

    cases = {
        "bare": bare_cursor,
        "replay": lambda: spent(lambda: audit(board, chain=False), cpu),
        "strict": lambda: spent(lambda: audit(board, chain=False, strict=True), cpu),
        "with chain": lambda: spent(lambda: audit(board), cpu),
    }
    if not CAN_LEAVE_CHAIN:
        del cases["with chain"]
    times = rounds(cases, times=5, warm=0)
    board.close()
    said = f"replay of {EVENTS:,} events: verified fold and comparison" + (
        " (with chain)" if not CAN_LEAVE_CHAIN else ""
    )
    note = medians(times, "replay", "bare")
    yield Row(said, "bare cursor", faster(times, "replay", "bare"), 0.2, note=note)
    yield Row("the same, peak memory", "–", [_peak(store)], 300, False, "MB")
    yield Row("replay --strict", "bare cursor", faster(times, "strict", "bare"), 0.12, note=medians(times, "strict"))
    if CAN_LEAVE_CHAIN:
        figures = faster(times, "with chain", "replay")
        yield Row("replay with chain", "replay without", figures, 0.4, note=medians(times, "with chain"))


def _peak(store: Store) -> float:
    """Megabytes that a process used at most which did nothing but replay."""
    command = [sys.executable, "-c", _PEAK, str(store.home)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(ran.stdout) * 1024 / 1e6


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
