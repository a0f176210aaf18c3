"""Ledgers on disk for one test: SQLite in a temporary folder tells the truth."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Table, select, text

from ledger import standing as standings
from ledger import store as log
from ledger.database import connect, reading, writing
from ledger.events import Actor, Event
from ledger.recorded import Recorded
from ledger.upgrade import open_store, upgrade
from projections.read_models import apply
from projections.tables import metadata
from projections.world import World
from tests import given

BOARD = "b"
BOARD_ID = "b" * 32


@dataclass
class Ledger:
    """A store with one board, and the short ways to write to it, read it and check it."""

    url: str
    engine: Engine
    clock: given.FakeClock = field(default_factory=given.FakeClock)

    @property
    def is_file(self) -> bool:
        """Whether the store is a file of SQLite's, and no database of a server."""
        return self.url.startswith("sqlite:///")

    @property
    def path(self) -> Path:
        """The store's file, where it is one."""
        assert self.is_file
        return Path(self.url.removeprefix("sqlite:///"))

    def append(
        self,
        *events: Event,
        task: str = "t_a",
        expected: int | None = None,
        actor: Actor = given.OPERATOR,
        at: int | None = None,
        command_id: str | None = None,
        board: str = BOARD,
        salt: Callable[[int], bytes] | None = None,
    ) -> list[Recorded]:
        """Append *events* to one stream and apply them, in a transaction of their own."""
        drafts = [given.draft(event, task=task, actor=actor) for event in events]
        more = {} if salt is None else {"salt": salt}
        with writing(self.engine) as tx:
            known = log.version(tx, board, drafts[0].task) if expected is None else expected
            recorded = log.append(
                tx,
                board,
                drafts,
                expected=known,
                at=self.clock() if at is None else at,
                command_id=command_id,
                **more,
            )
            apply(tx, board, recorded)
        return recorded

    def read(self, *, after: int = 0, board: str = BOARD) -> list[Recorded]:
        """The log after position *after*."""
        with reading(self.engine) as tx:
            return list(log.read_board(tx, board, after=after))

    def head(self, board: str = BOARD) -> standings.Head:
        """Where the log ends."""
        with reading(self.engine) as tx:
            return standings.head(tx, board)

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Run raw SQL as an outsider would, and commit."""
        with writing(self.engine) as tx:
            if not self.is_file:
                tx.exec_driver_sql("SET LOCAL application_name = 'another program'")
            result = tx.execute(text(statement if self.is_file else spoken(statement)), values)
            return list(result) if result.returns_rows else []

    def rows(self, table: Table, board: str = BOARD) -> list[dict[str, Any]]:
        """The rows of *board*, without its name, in the order of their text."""
        with reading(self.engine) as tx:
            found = [dict(row) for row in tx.execute(select(table).where(table.c.board == board)).mappings()]
        return sorted(({name: row[name] for name in row if name != "board"} for row in found), key=repr)

    def world(self, board: str = BOARD) -> World:
        """The board folded in memory from its whole log."""
        world = World()
        world.take(self.read(board=board))
        return world


def spoken(statement: str) -> str:
    """*statement*, in which bytes stand as SQLite writes them (`x'00ff'`), as PostgreSQL reads it."""
    return re.sub(r"\bx'([0-9a-f]*)'", r"bytea '\\x\1'", statement)


def new_ledger(path: Path) -> Ledger:
    """A ledger made from nothing: tables, the board `b` and its first event."""
    return founded(f"sqlite:///{path}")


def founded(url: str) -> Ledger:
    """The same at any address."""
    ledger = Ledger(url, connect(url, create=True))
    upgrade(ledger.engine, metadata)
    new_board(ledger, BOARD, BOARD_ID)
    return ledger


def opened(url: str) -> Ledger:
    """The ledger at *url*."""
    return Ledger(url, open_store(url))


def new_board(ledger: Ledger, board: str, board_id: str) -> None:
    """Another board in the same store."""
    with writing(ledger.engine) as tx:
        log.create_board(tx, board, board_id)
        first = [given.draft(given.board_created(board_id, board))]
        apply(tx, board, log.append(tx, board, first, expected=0, at=ledger.clock()))


def copied(template: Path, path: Path) -> Ledger:
    """A ledger copied from the closed file *template*: ten times cheaper than a new one."""
    return opened(copy_of(template, path))


def copy_of(template: Path, path: Path) -> str:
    """The address of a copy of the closed file *template*."""
    shutil.copyfile(template, path)
    path.chmod(0o600)
    return f"sqlite:///{path}"


def filled(store: Ledger, cards: int) -> None:
    """*cards* more cards in one transaction: nine priorities, and one in five of them done."""
    with writing(store.engine) as tx:
        for number in range(cards):
            story = [given.created(f"card {number}", priority=number % 9)]
            drafts = [
                given.draft(event, task=f"t_{number:04}")
                for event in (story if number % 5 else [*story, given.completed(None)])
            ]
            at = given.NOW + number // 4 * given.SECOND
            apply(tx, BOARD, log.append(tx, BOARD, drafts, expected=0, at=at))


def append_many(url: str, task: str, count: int) -> None:
    """What a writer in a process of its own does."""
    ledger = opened(url)
    for number in range(count):
        ledger.append(given.commented(f"{task} {number}"), task=task)
    ledger.engine.dispose()


def faults(ledger: Ledger, board: str = BOARD) -> list[str]:
    """What is wrong with the log, by code that shares nothing with `ledger.chain`: positions, versions, hashes."""
    found: list[str] = []
    head = ledger.head(board)
    previous, versions = hashlib.sha256(head.board_id.encode()).digest(), dict[str, int]()
    events = ledger.read(board=board)
    for place, event in enumerate(events, 1):
        versions[event.task] = versions.get(event.task, 0) + 1
        if (event.position, event.version) != (place, versions[event.task]):
            found.append(f"{place}: position {event.position}, version {event.version}")
        if (
            event.words_text is not None
            and _digest((event.salt or b"") + event.words_text.encode()) != event.words_digest
        ):
            found.append(f"{place}: words")
        previous = _digest(
            previous + canonical_envelope(event).encode() + _digest(event.facts_text.encode()) + event.words_digest
        )
        if previous != event.hash:
            found.append(f"{place}: hash")
    if (head.position, head.hash) != (len(events), previous):
        found.append("head")
    return found


def canonical_envelope(event: Recorded) -> str:
    """The envelope by `json.dumps` alone."""
    names = ("board", "position", "task", "version", "kind", "schema", "at", "run", "outcome", "command_id")
    fields = {name: getattr(event, name) for name in names}
    fields["actor"] = {"kind": event.actor_kind, "name": event.actor_name, "host": event.actor_host}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
