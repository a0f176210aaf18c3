"""A tick of the dispatcher: idle on boards of several sizes, and one that books fifty deaths.

Idle: every slot is taken, no lease is due, nothing is written. Processor time, since nothing waits for the disk; the
clock that the sweep sees stands still, so that it does not stamp its row. A board on which nobody writes is read once;
so one row has a heartbeat before each tick, by another connection. The deaths are wall time: they end in a sync.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from sqlalchemy import event

from benchmarks.boards import (
    ADA,
    UNTIL,
    Store,
    bindings_of,
    claimed,
    constant,
    growing,
    here,
    mixed,
    new_store,
    workers,
)
from benchmarks.measure import ROUNDS, Duel, Row, cpu, faster, growth, medians, rounds, scaled, spent
from kanban import Board
from kanban.at_desk import at_desk
from kanban.commands import Decision
from kanban.desk import Desk
from kanban.folders import make_private, run_folder
from kanban.processes import Process, ProcessTable, start_tick
from ledger.clock import system_clock
from ledger.database import writing
from ledger.standing import head
from projections import leases
from projections.policy import Policy

if TYPE_CHECKING:
    from benchmarks.peers import Peers

TICKS: Final = 20
SMALL, LARGE, BESIDE = 1_000, scaled(50_000, least=2_000), scaled(10_000, least=1_000)
DEAD: Final = 50
MOST_TRANSACTIONS: Final = 2


class Idle:
    """Ticks of a board on which all workers are alive and every slot is taken."""

    def __init__(self, store: Store, running: int) -> None:
        store.staff(max_running=running)
        now = system_clock()
        self.board = store.open(clock=lambda: now)
        self.board.sweep()
        self.worker = store.open()

    def ticks(self) -> float:
        """Seconds a tick; nobody writes between two of them."""
        return spent(lambda: [self._tick() for _ in range(TICKS)], cpu, per=TICKS)

    def ticks_after_beats(self) -> float:
        """Seconds a tick, with a worker's heartbeat before each: what the tick before it read must be read anew."""
        seconds = 0.0
        for turn in range(TICKS):
            with writing(self.worker.engine) as tx:
                task, run = min((each.task, each.run) for each in Desk(tx, "default", head(tx, "default"), 0).live())
                leases.renew(tx, "default", task, run, until=UNTIL, beat=turn)
            seconds += spent(self._tick, cpu)
        return seconds / TICKS

    def _tick(self) -> None:
        tick = self.board.sweep()
        assert [tick.booked, tick.claimed, tick.errors, tick.renewed, tick.skipped] == [[], [], [], [], None], tick


@contextmanager
def stubbed(pids: list[int]) -> Iterator[None]:
    """A table of processes in which *pids* live, without a look at the machine."""
    seen = {pid: Process(pid, pid, pid, start_tick(pid) or 0, dead=False) for pid in pids}
    with mock.patch.object(ProcessTable, "snapshot", side_effect=lambda _=None: ProcessTable(seen)):
        yield


def rows(scratch: Path) -> Iterator[Row]:
    """The ledger beside itself, on the same twenty live workers."""
    with workers(20) as pids:
        boards = {}
        for name, cards in {"1,000": SMALL, "50,000": LARGE}.items():
            store = mixed(scratch / name, constant(cards), bindings_of(scratch, pids))
            boards[f"{name} cards"] = Idle(store, running=20)
        times = rounds({name: board.ticks for name, board in boards.items()}, times=ROUNDS + 4)
    figures, note = growth(times, "50,000 cards", "1,000 cards"), medians(times, "50,000 cards", "1,000 cards")
    yield Row(f"idle sweep in process, {LARGE:,} against 1,000 cards", "itself", figures, 1.3, False, note=note)
    dying = Dying(new_store(scratch / "dying", Policy(failure_limit=1)))
    dying.tick(dying.prepared())
    counted = [dying.transactions() for _ in range(3)]
    yield Row(f"transactions to book {DEAD} dead workers", "–", counted, MOST_TRANSACTIONS, False, "")


class Dying:
    """Fifty workers that died a moment ago, each with its exit record and its log, and the tick that books them.

    The policy blocks a card at its first failure, as hermes does with these, so each death is two events.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        store.staff(max_running=DEAD)
        self.board: Board = store.open()
        self.dead = dead()
        self.pids = [process.pid for process in self.dead]

    def prepared(self) -> None:
        """Fifty claimed, bound, dead."""
        cards = [str(self.board.create("Mend a parser", assignee="builder").task["id"]) for _ in self.pids]
        host = self.board.host
        with at_desk(self.board.engine, "default", self.board.clock) as desk:
            for card, process in zip(cards, self.dead, strict=True):
                drafts = claimed(1, here(self.store.home, process.pid, process.start_tick))
                desk.write(Decision(tuple(draft._replace(task=card, actor=ADA) for draft in drafts)))
        for card in cards:
            folder = make_private(run_folder(self.store.home, "default", card, 1))
            record = {"schema": 1, "task": card, "run": 1, "code": 3, "signal": None, "ended_at": self.board.clock()}
            (folder / "exit.json").write_text(json.dumps(record))
            (folder / "log").write_text("a line of the worker\n" * 150 + f"boom on {host.name}\n")

    def tick(self, _: object = None) -> None:
        """The tick; it starts nobody."""
        tick = self.board.sweep(most=0)
        assert [each["evidence"] for each in tick.booked] == ["exit_record"] * DEAD, tick

    def transactions(self) -> int:
        """How many write transactions a tick takes, as SQLite itself hears them begin."""
        self.prepared()
        said: list[str] = []
        self.board.engine.dispose()

        def listen(dbapi: Any, _record: object) -> None:
            dbapi.set_trace_callback(said.append)

        event.listen(self.board.engine, "connect", listen)
        self.tick()
        event.remove(self.board.engine, "connect", listen)
        self.board.engine.dispose()
        return sum(statement.upper().startswith("BEGIN IMMEDIATE") for statement in said)


def dead() -> list[Process]:
    """Processes that were and are no more, as they were seen before that."""
    ended = [subprocess.Popen(["true"]) for _ in range(DEAD)]
    seen = ProcessTable.snapshot(process.pid for process in ended).processes
    return [seen[process.pid] for process in ended if process.wait() == 0]


def beside_peers(scratch: Path, peers: Peers) -> Iterator[Row]:
    """The ledger beside `dispatch_once` and `detect_crashed_workers` of hermes."""
    hermes, kinds = peers.hermes, growing(BESIDE)
    with workers(kinds.running) as pids:
        store = mixed(scratch / "growing", kinds, bindings_of(scratch, pids))
        idle = Idle(store, running=kinds.running)
        hermes.ask("build", path=str(scratch / "hermes.db"), kinds=kinds._asdict(), pids=pids)

        def own_stubbed() -> float:
            with stubbed(pids):
                return idle.ticks()

        def own_after_beats() -> float:
            with stubbed(pids):
                return idle.ticks_after_beats()

        cases = {
            "ledger": own_stubbed,
            "ledger after beats": own_after_beats,
            "hermes": lambda: hermes.ask("idle", ticks=5, stubbed=True),
            "ledger live": idle.ticks,
            "hermes live": lambda: hermes.ask("idle", ticks=5, stubbed=False),
        }
        times = rounds(cases)
    figures, note = faster(times, "ledger", "hermes"), medians(times, "ledger", "hermes")
    yield Row(f"idle sweep, {BESIDE:,} cards growing, liveness stubbed", "hermes", figures, 20, note=note)
    figures, note = faster(times, "ledger after beats", "hermes"), medians(times, "ledger after beats")
    yield Row("the same, a heartbeat between any two ticks of the ledger", "hermes", figures, 5, note=note)
    figures, note = faster(times, "ledger live", "hermes live"), medians(times, "ledger live", "hermes live")
    yield Row(f"idle sweep, with {kinds.running} real live workers", "hermes", figures, 3, note=note)
    yield deaths(scratch, peers)


def deaths(scratch: Path, peers: Peers) -> Row:
    """Fifty deaths: a whole tick with evidence files, beside the booking alone without them."""
    dying, duel = Dying(new_store(scratch / "dying", Policy(failure_limit=1))), Duel()
    peers.hermes.ask("build", path=str(scratch / "dead.db"), kinds=constant(100)._asdict(), pids=[])

    def own(_: object) -> tuple[float, float]:
        dying.prepared()
        busy = cpu()
        return spent(dying.tick), cpu() - busy

    def other(_: object) -> tuple[float, float]:
        return tuple(peers.hermes.ask("dead", pids=dying.pids))  # type: ignore[return-value]

    for turn in range(-1, ROUNDS):
        duel.meet("deaths", {"ledger": own, "hermes": other}, {"ledger": [turn], "hermes": [turn]})
        duel.end(warm=turn < 0)
    note = medians(duel.times, "ledger deaths", "ledger deaths cpu", "hermes deaths", "hermes deaths cpu")
    figures = faster(duel.times, "ledger deaths", "hermes deaths")
    return Row(f"booking {DEAD} dead workers, evidence files included", "hermes without", figures, 2, note=note)
