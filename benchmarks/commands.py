"""One event, one command, one heartbeat: each a transaction at `synchronous=FULL`, beside the bare module.

Time is wall time: on a fast disk half of it is the disk's, on a slow one nearly all, and then these ratios flatter.
So the last column also tells the processor's share. A round is two hundred operations, twenty cards at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.boards import ADA, constant, mixed
from benchmarks.measure import Duel, Row, faster, medians, scaled, timed
from kanban import Board
from ledger import events as e
from ledger.database import reading, sqlite_module, writing
from ledger.recorded import Draft, Recorded
from ledger.store import append, read_task, version
from projections import tables
from projections.read_models import apply

if TYPE_CHECKING:
    from benchmarks.peers import Peers

OPERATIONS: Final = scaled(200, least=20)
HEARTBEAT_BESIDE_HERMES: Final = 0.9
"""With every heartbeat at FULL; 2 once leases go through a connection at NORMAL of their own."""


class Raw:
    """The baseline: the bare module, one events row and one projection row a transaction, the ledger's own bytes.

    All that the ledger keeps of an event (envelope, facts, digest, hash, salt, words) stands in one row.
    """

    def __init__(self, path: Path, event: Recorded, card: dict[str, Any], cards: list[str]) -> None:
        self.event, self.card, self.cards = event, card, cards
        self.position = 0
        names = [name for name in card if name not in {"board", "task"}]
        self.db = sqlite_module().connect(str(path), isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute("PRAGMA cache_size=-16000")
        self.db.execute(
            f"CREATE TABLE events ({', '.join(Recorded._fields)}, PRIMARY KEY (board, position),"
            " UNIQUE (board, task, version)) WITHOUT ROWID"
        )
        self.db.execute(
            f"""CREATE TABLE tasks (board, task, {", ".join(f'"{name}"' for name in names)},"""
            " PRIMARY KEY (board, task)) WITHOUT ROWID"
        )
        self.insert = f"INSERT INTO events VALUES ({', '.join('?' * len(Recorded._fields))})"
        self.update = (
            f"""UPDATE tasks SET {", ".join(f'"{name}" = ?' for name in names)} WHERE board = ? AND task = ?"""
        )
        self.names = names
        fresh = f"INSERT INTO tasks VALUES ({', '.join('?' * (len(names) + 2))})"
        self.db.executemany(fresh, [(event.board, task, *(card[name] for name in names)) for task in cards])

    def commit(self, task: str) -> None:
        """One transaction."""
        self.position += 1
        event = self.event._replace(position=self.position, task=task, version=self.position)
        card = self.card | {"version": self.position, "position": self.position}
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute(self.insert, event)
        self.db.execute(self.update, (*[card[name] for name in self.names], event.board, task))
        self.db.execute("COMMIT")


class Commands:
    """The ledger's side: whole commands on a board of a thousand cards, and one event by the store alone."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.card = self.create()
        self._locks: dict[str, str] = {}

    def create(self) -> str:
        """A new card."""
        return str(self.board.create("Mend a parser", assignee="w").task["id"])

    def append(self, number: int) -> None:
        """One event, projections included: the store's `append` and the projections' `apply`."""
        draft = Draft.of(self.card, e.Commented(body=f"the {number}th word on this card"), ADA)
        with writing(self.board.engine) as tx:
            known = version(tx, self.board.name, self.card)
            apply(tx, self.board.name, append(tx, self.board.name, [draft], expected=known, at=self.board.clock()))

    def claim(self, card: str) -> None:
        """By hand; the lock is kept."""
        self._locks[card] = self.board.claim(card).lock

    def heartbeat(self, card: str) -> None:
        """The worker lives."""
        self.board.heartbeat(card, run=1, lock=self._locks[card])

    def complete(self, card: str) -> None:
        """The worker is done."""
        self.board.complete(card, "did it", run=1, lock=self._locks[card])


NAMES: Final = {
    "append": "one event appended, projections included",
    "claim": "claim, whole command in process",
    "complete": "complete, whole command in process",
    "heartbeat": "heartbeat, whole command in process",
}


VERBS: Final = ("claim", "heartbeat", "complete")
CARDS: Final = 20
"""At work at the same time."""


def rows(scratch: Path) -> Iterator[Row]:
    """The rows beside raw."""
    store = mixed(scratch / "commands", constant(scaled(1_000, least=200)))
    own, duel = Commands(store.open()), Duel()
    own.append(0)
    raw = Raw(scratch / "raw.db", *sample(own.board, own.card), [f"t_{number:012x}" for number in range(1_000)])
    for turn in range(-1, 9):
        for part in range(OPERATIONS // CARDS):
            slots = raw.cards[part * CARDS :][:CARDS]
            sides = {"raw": timed(raw.commit), "ledger": timed(own.append)}
            duel.meet("append", sides, {"raw": slots, "ledger": slots})
            cards = [own.create() for _ in range(CARDS)]
            for verb in VERBS:
                sides["ledger"] = timed(getattr(own, verb))
                duel.meet(verb, sides, {"raw": slots, "ledger": cards})
        duel.end(warm=turn < 0)
    for name, target in {"append": 0.5, "claim": 0.4, "complete": 0.4, "heartbeat": 0.6}.items():
        mine, base = f"ledger {name}", f"raw {name}"
        note = medians(duel.times, mine, f"{mine} cpu", base, f"{base} cpu")
        yield Row(NAMES[name], "raw", faster(duel.times, mine, base), target, note=note)
    store.close()


def sample(board: Board, card: str) -> tuple[Recorded, dict[str, Any]]:
    """The last event of *card* and its projection row, as the ledger stores them."""
    with reading(board.engine) as tx:
        event = read_task(tx, "default", card)[-1]
        query = tables.tasks.select().where(tables.tasks.c.task == card)
        return event, dict(tx.execute(query).mappings().one())


def beside_peers(scratch: Path, peers: Peers) -> Iterator[Row]:
    """The rows beside hermes: its `claim_task`, `heartbeat_worker` and `complete_task`, on cards just created."""
    kinds = constant(scaled(1_000, least=200))
    store, hermes, duel = mixed(scratch / "commands", kinds, long=True), peers.hermes, Duel()
    own = Commands(store.open())
    hermes.ask("build", path=str(scratch / "hermes.db"), kinds=kinds._asdict(), pids=[])
    for turn in range(-1, 9):
        for _ in range(OPERATIONS // CARDS):
            cards = {"ledger": [own.create() for _ in range(CARDS)], "hermes": hermes.ask("create", count=CARDS)}
            for verb in VERBS:
                duel.meet(verb, {"ledger": timed(getattr(own, verb)), "hermes": hermes.side(verb)}, cards)
        duel.end(warm=turn < 0)
    for name, target in {"claim": 1.3, "complete": 1.3, "heartbeat": HEARTBEAT_BESIDE_HERMES}.items():
        mine, other = f"ledger {name}", f"hermes {name}"
        note = medians(duel.times, mine, f"{mine} cpu", other, f"{other} cpu")
        yield Row(NAMES[name], "hermes", faster(duel.times, mine, other), target, note=note)
    store.close()
