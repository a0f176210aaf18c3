"""PostgreSQL: one event, many writers, many claimers, a queue's work, a replay; all on one server of its own.

Every commit is on the disk before it is answered, on all sides. Wall time, but for the replay. *same statements* is
psycopg alone that runs what the ledger runs for one event, its values ready made: it checks and hashes nothing. *BEGIN;
INSERT; COMMIT* is one events row and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from benchmarks.boards import copied, long_log
from benchmarks.commands import Commands, sample
from benchmarks.measure import Case, Duel, Row, faster, medians, rounds, scaled, spent, timed
from benchmarks.replay import EVENTS, audit
from benchmarks.served import Fleet, served
from kanban import Board
from kanban import commands as c
from kanban.moving import move
from ledger.recorded import Recorded
from projections.rows import TASK_VALUES
from tests import servers

if TYPE_CHECKING:
    from benchmarks.peers import Peers

OPERATIONS: Final = scaled(400, least=40)
MANY: Final = 16
COMMITS: Final = scaled(3_200, least=320)
CLAIMS: Final = scaled(800, least=160)
BACKLOGS: Final = (scaled(1_000, least=100), scaled(8_000, least=800))
BATCH: Final = 10
_BOUGHT: Final = (
    "what the log buys: every job's claims and ends stay, chained, replayable, with budgets and caps decided"
)
_APPEND: Final = """
from benchmarks.commands import Commands
own = Commands(board)
own.append(0)
go()
for number in range(int(argv[0])):
    own.append(number)
print("done", flush=True)
"""
_CLAIM: Final = """
from kanban.refusals import NothingToDo
board.claim()
claimed = 0
go()
while True:
    try:
        board.claim()
        claimed += 1
    except NothingToDo:
        break
print(claimed, flush=True)
"""


class Raw:
    """The baselines: psycopg alone, on tables like the ledger's without triggers, rules and a chain."""

    def __init__(self, db: psycopg.Connection[Any], event: Recorded, card: dict[str, Any]) -> None:
        self.db, self.event, self.card, self.position = db, event, card, 0
        db.execute("CREATE SCHEMA raw")
        for table in ("boards", "events", "words", "tasks"):
            db.execute(f"CREATE TABLE raw.{table} (LIKE public.{table} INCLUDING INDEXES)")
        db.execute("INSERT INTO raw.boards SELECT * FROM public.boards")
        db.execute("INSERT INTO raw.tasks SELECT * FROM public.tasks WHERE task = %s", (event.task,))
        names = [name for name in Recorded._fields if name not in {"salt", "words_text"}]
        columns = [name.replace("facts_text", "facts") for name in names]
        self.insert = f"INSERT INTO raw.events ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(names))})"
        card_columns = ", ".join(f'"{name}"' for name in TASK_VALUES)
        self.select = f"SELECT {card_columns} FROM raw.tasks WHERE board = %s AND task = %s"
        db.execute("CREATE TABLE raw.plain (LIKE public.events INCLUDING INDEXES)")

    def same(self, _item: object) -> None:
        """What the ledger says to the server for one event and its card."""
        self.position += 1
        event = self.event._replace(position=self.position, version=self.position)
        key, say = (event.board, event.task), self.db.execute
        say("BEGIN")
        say("SELECT max(version) FROM raw.events WHERE board = %s AND task = %s", key).fetchone()
        say(
            "SELECT board_id, head_position, head_at, head_hash, (SELECT max(version) FROM raw.events"
            " WHERE board = %s AND task = %s) FROM raw.boards WHERE board = %s FOR UPDATE", (*key, event.board),
        ).fetchone()  # fmt: skip
        say(self.insert, event[:16])
        say(
            "INSERT INTO raw.words VALUES (%s, %s, %s, %s)", (event.board, event.position, event.salt, event.words_text)
        )
        say(
            "UPDATE raw.boards SET head_position = %s, head_at = %s, head_hash = %s WHERE board = %s",
            (event.position, event.at, event.hash, event.board),
        )
        say(self.select, key).fetchone()
        say(
            "UPDATE raw.tasks SET version = %s, position = %s, updated_at = %s WHERE board = %s AND task = %s",
            (event.version, event.position, event.at, *key),
        )
        say("COMMIT")

    def plain(self, _item: object) -> None:
        """One row, in a transaction."""
        self.position += 1
        event = self.event._replace(position=self.position, version=self.position)
        self.db.execute("BEGIN")
        self.db.execute(self.insert.replace("raw.events", "raw.plain"), event[:16])
        self.db.execute("COMMIT")


def rows(scratch: Path) -> Iterator[Row]:
    """The rows beside raw, beside itself and beside SQLite."""
    with served(scratch) as fleet:
        yield from _one_event(fleet)
        yield from _many_writers(fleet)
        yield from _many_claimers(fleet)
        yield from _replay(fleet, scratch)


def _one_event(fleet: Fleet) -> Iterator[Row]:
    board = fleet.board()
    own, duel = Commands(board), Duel()
    own.append(0)
    raw = Raw(fleet.raw(), *sample(board, own.card))
    sides = {"ledger": timed(own.append), "same": timed(raw.same), "plain": timed(raw.plain)}
    for turn in range(-1, 7):
        duel.meet("append", sides, dict.fromkeys(sides, range(OPERATIONS)))
        duel.end(warm=turn < 0)
    note = medians(duel.times, "ledger append", "same append", "plain append")
    what = "one event appended on PostgreSQL"
    yield Row(what, "the same statements", faster(duel.times, "ledger append", "same append"), 0.7, note=note)
    yield Row(what, "BEGIN; INSERT; COMMIT", faster(duel.times, "ledger append", "plain append"), 0.3)


def _many_writers(fleet: Fleet) -> Iterator[Row]:
    names = [f"board-{number}" for number in range(MANY)]
    for name in names:
        fleet.board(name).close()
    share, waits = str(COMMITS // MANY), list[int]()

    def spread() -> float:
        with fleet.raw() as db, Watching(db, waits):
            return fleet.together(_APPEND, [(name, share) for name in names])[0] / COMMITS

    times = rounds(
        {
            "16 boards": spread,
            "one board": lambda: fleet.together(_APPEND, [(names[0], share)] * MANY)[0] / COMMITS,
        },
        times=5,
    )
    note = ", ".join(f"{name} {1 / sorted(figures)[2]:,.0f} commits/s" for name, figures in times.items())
    yield Row("16 writers on 16 boards", "16 on one", faster(times, "16 boards", "one board"), 2, note=note)
    yield Row("the same, writers seen waiting for a lock", "–", [float(max(waits, default=0))], 0, least=False, unit="")


class Watching:
    """Looks at `pg_stat_activity` every few milliseconds and keeps how many waited for a lock of each other's."""

    _ASK: Final = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND wait_event IN ('transactionid', 'tuple', 'relation', 'advisory')"
    )

    def __init__(self, db: psycopg.Connection[Any], waits: list[int]) -> None:
        from threading import Event, Thread

        self.db, self.waits, self.over = db, waits, Event()
        self.thread = Thread(target=self._look)

    def _look(self) -> None:
        while not self.over.wait(0.01):
            found = self.db.execute(self._ASK).fetchone()
            self.waits.append(found[0] if found else 0)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


def _many_claimers(fleet: Fleet) -> Iterator[Row]:
    turn = iter(range(10_000))

    def claimed_by(clients: int) -> float:
        name = f"claims-{next(turn)}"
        with fleet.board(name) as board:
            board.do_many([c.Create(task=f"t_{number:012d}", title="a job") for number in range(CLAIMS + clients)])
        seconds, told = fleet.together(_CLAIM, [(name,)] * clients)
        assert sum(map(int, told)) == CLAIMS, told
        return seconds / CLAIMS

    times = rounds({"16 clients": lambda: claimed_by(MANY), "one client": lambda: claimed_by(1)}, times=5)
    note = ", ".join(f"{name} {1 / sorted(figures)[2]:,.0f} claims/s" for name, figures in times.items())
    yield Row(
        "claim --next by 16 clients on one board", "one client", faster(times, "16 clients", "one client"), 1, note=note
    )


def _replay(fleet: Fleet, scratch: Path) -> Iterator[Row]:
    store = long_log(scratch / "long", EVENTS)
    there = fleet.server.url("long")
    move(copied(store, scratch / "copy").url, there)
    file = store.open()
    board = Board.open(there, environ=fleet.environ, cwd=fleet.home)
    sides = {"PostgreSQL": lambda: spent(lambda: audit(board)), "SQLite": lambda: spent(lambda: audit(file))}
    times = rounds(sides, times=3, warm=0)
    note = medians(times, "PostgreSQL", "SQLite")
    figures = faster(times, "PostgreSQL", "SQLite")
    yield Row(f"replay of {EVENTS:,} events from PostgreSQL, with chain", "from SQLite", figures, 0.6, note=note)
    board.close()
    store.close()


class Work:
    """The ledger's side of a queue's work: cards made, claimed by hand and completed, none of them held back."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.turn = fleet, 0
        self.board = fleet.board("queue")

    def enqueue(self, jobs: int) -> float:
        """Seconds a card, one a call."""
        return spent(lambda: [self.board.create("a job") for _ in range(jobs)], per=jobs)

    def drain(self, jobs: int, batch: int) -> float:
        """Seconds a card of a fresh board with *jobs* of them, *batch* of them claimed and completed at a time."""
        self.turn += 1
        with self.fleet.board(f"queue-{self.turn}") as board:
            for start in range(0, jobs, 1_000):
                board.do_many([c.Create(f"t_{start + one:012d}", "a job") for one in range(min(1_000, jobs - start))])
            return spent(lambda: _finish(board, batch), per=jobs)


def _finish(board: Board, batch: int) -> None:
    if batch == 1:
        while claims := board.claim_many(1):
            board.complete(claims[0].task, "did it", run=claims[0].run, lock=claims[0].lock)
    while claims := board.claim_many(batch):
        done = board.do_many(
            [c.Complete(each.task, "did it", claim=c.Credential(each.lock, each.run)) for each in claims]
        )
        assert all(each.changed for each in done)


def beside_peers(scratch: Path, peers: Peers) -> Iterator[Row]:
    """The rows beside two job queues: procrastinate 3 and pgqueuer on asyncpg, on the same server."""
    jobs, (few, many) = scaled(500, least=50), BACKLOGS
    with served(scratch) as fleet:
        own, peer = Work(fleet), peers.queues
        peer.ask("at", host=str(fleet.server.folder), user=servers.USER)

        def beside(mine: Case, kind: str, verb: str, **how: Any) -> tuple[list[float], str]:
            times = rounds({"ledger": mine, kind: lambda: peer.ask(verb, kind=kind, **how)}, times=5)
            rates = ", ".join(f"{name} {1 / sorted(found)[2]:,.0f}/s" for name, found in times.items())
            return faster(times, "ledger", kind), rates

        for kind, target in (("procrastinate", 0.6), ("pgqueuer", 0.25)):  # the second is a part of the next row
            figures, note = beside(lambda: own.enqueue(jobs), kind, "enqueue", jobs=jobs)
            yield Row("enqueue, one job a call", kind, figures, target, note=note)
        figures, note = beside(lambda: own.enqueue(few) + own.drain(few, 1), "pgqueuer", "live", jobs=few, batch=1)
        yield Row("a job's life: enqueued, fetched and finished, 1 at a time", "pgqueuer", figures, 0.5, note=note)
        for backlog, target in ((few, 0.6), (many, 1)):
            figures, note = beside(
                lambda backlog=backlog: own.drain(backlog, BATCH), "procrastinate", "drain", jobs=backlog, batch=BATCH
            )
            yield Row(
                f"fetch and finish, {BATCH} at a time, backlog {backlog:,}", "procrastinate", figures, target, note=note
            )
        for batch, target in ((1, 0.5), (BATCH, 0.25)):
            figures, note = beside(
                lambda batch=batch: own.drain(few, batch), "pgqueuer", "drain", jobs=few, batch=batch
            )
            yield Row(
                f"fetch and finish, {batch} at a time, backlog {few:,}",
                "pgqueuer",
                figures,
                target,
                note=f"{note}; {_BOUGHT}",
            )
