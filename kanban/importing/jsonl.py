"""Our own exports brought in again: the same log to the byte, as a board of its own or as what is missing of one.

Each page is a transaction: its events, with words and hashes as they stood, and the projections that they make. So the
board is whole at every moment, whoever dies meanwhile; a repeat passes over what is there, and goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from sqlalchemy import Connection, Engine, func, select

from kanban.address import Address
from kanban.founding import check_board_name, found_store
from kanban.importing.lines import BadLine, Numbered, numbered
from kanban.refusals import Contended
from kanban.worker.carrier import operators_only
from ledger.chain import first_hash
from ledger.clock import system_clock
from ledger.database import connect, reading, writing
from ledger.errors import InvalidInput, StoreExists, StoreMissing
from ledger.schema import events
from ledger.standing import Head, head, standing
from ledger.store import at_position, board_names, create_board
from ledger.transcribe import DoesNotFollow, Tip, transcribe, unchained
from ledger.upgrade import open_store
from projections import tables
from projections.catching_up import catch_up
from projections.replay import Replay, replay

PAGE: Final = 1_000
"""Lines of one transaction."""


class OtherHistory(Contended):
    """The board here is of the same origin as the export, and has gone another way since."""

    def __init__(self, board: str, position: int, line: int) -> None:
        super().__init__(
            f"line {line}: board {board} here and the export part at position {position}: each has its own event there",
            remedy="import it into another store: --database sqlite:////path/to/another.db",
        )
        self.position = position
        self.line = line


class Gap(InvalidInput):
    """The export begins further on than the board here ends."""

    def __init__(self, board: str, begins: int, ends: int) -> None:
        super().__init__(
            f"the export begins at position {begins}, board {board} here ends at {ends}: what is between is missing",
            remedy=f"where it came from: ledger export --after {ends}",
        )


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import came to: where the board's log ends, how many events are new, and what a replay says of it."""

    board: str
    board_id: str
    lines: int
    added: int
    created: bool
    dry_run: bool
    end: Head
    replay: Replay | None
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger import jsonl --json` prints."""
        return {
            "board": self.board,
            "board_id": self.board_id,
            "events": self.lines,
            "added": self.added,
            "created": self.created,
            "changed": self.added > 0 and not self.dry_run,
            "dry_run": self.dry_run,
            "position": self.end.position,
            "hash": self.end.hash.hex(),
            "digest": None if self.replay is None else self.replay.digest,
            "divergences": [] if self.replay is None else [each.as_json() for each in self.replay.divergences],
            "notes": list(self.notes),
        }


def import_jsonl(
    at: Address,
    lines: Iterable[bytes],
    *,
    board: str | None = None,
    dry_run: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Imported:
    """Bring the events in *lines* into the store at *at*, which is made where nothing is; then replay the board.

    Its name is the export's, since every hash covers it; *board*, where given, must be that. Raises `BadLine`, and
    then all pages before that line are in; `OtherHistory`, `Gap`, `StoreExists` for a board of another id; `Forbidden`
    inside a worker's environment.
    """
    operators_only(environ, "import")
    found = numbered(lines)
    first = next(found, None)
    if first is None:
        raise BadLine(1, "there is no event in it")
    _check_name(first, board)
    engine = _there(at.url)
    try:
        work = _Import(engine, first, dry_run=dry_run)
        if engine is None and not dry_run:
            engine = work.engine = connect(at.url, create=True)
            found_store(engine, at.url)
        work.take(chain((first,), found))
        return work.end()
    finally:
        if engine is not None:
            engine.dispose()


def _check_name(first: Numbered, board: str | None) -> None:
    name = check_board_name(first.event.board)
    if board not in {None, name}:
        raise InvalidInput(
            f"the export is of board {name}: every hash in it covers that name, so it cannot become {board}",
            remedy=f"--board {name}, or leave it out",
        )


def _there(url: str) -> Engine | None:
    """The store at *url*, or none where nothing is. Raises as `open_store` for what is no store of this revision."""
    try:
        return open_store(url)
    except StoreMissing:
        return None


class _Import:
    """One import: where the export begins, and how far it has come."""

    def __init__(self, engine: Engine | None, first: Numbered, *, dry_run: bool) -> None:
        self.engine = engine
        self.name = first.event.board
        self.dry_run = dry_run
        self.here = self._end_here()
        self.tip = self._begun(first)
        self.created = self.here is None
        self.lines = self.added = 0

    def take(self, found: Iterator[Numbered]) -> None:
        """Take every line, a page at a time."""
        while page := list(islice(found, PAGE)):
            for line, event in page:
                try:
                    self.tip.take(event)
                except DoesNotFollow as fault:
                    raise BadLine(line, fault.message) from None
            self.added += self._foreseen(page) if self.dry_run else self._written(page)
            self.lines += len(page)

    def end(self) -> Imported:
        """What came of it; the board is replayed."""
        if self.dry_run or self.engine is None:
            return self._told(max(self.tip.end, self.here or self.tip.end, key=lambda end: end.position), None, ())
        with reading(self.engine) as tx:
            end, live = head(tx, self.name), _live(tx, self.name)
        stays = "their workers speak to the store that they were started from: stop them there"
        notes = (f"{live} run{'s are' if live > 1 else ' is'} open in it; {stays}",) if live else ()
        return self._told(end, replay(self.engine, self.name), notes)

    def _told(self, end: Head, found: Replay | None, notes: tuple[str, ...]) -> Imported:
        return Imported(self.name, end.board_id, self.lines, self.added, self.created, self.dry_run, end, found, notes)

    def _end_here(self) -> Head | None:
        """Where the board of that name ends in this store, or none where it has none."""
        if self.engine is None:
            return None
        with reading(self.engine) as tx:
            return head(tx, self.name) if self.name in board_names(tx) else None

    def _begun(self, first: Numbered) -> Tip:
        """What stands before the first line: nothing, or that part of the board here."""
        line, event = first
        if event.position == 1:
            told = event.facts.get("board_id") if event.kind == "board_created" else None
            if not isinstance(told, str):
                raise BadLine(line, "a log begins with board_created")
            self._check_identity(told)
            return Tip(self.name, Head(told, 0, 0, first_hash(told)), lambda _: 0)
        if self.here is None or event.position > self.here.position + 1:
            raise Gap(self.name, event.position, 0 if self.here is None else self.here.position)
        before = self._before(event.position, self.here)
        if unchained(event, before) is not None:
            raise OtherHistory(self.name, before.position, line)
        return Tip(self.name, before, lambda _: None)

    def _check_identity(self, told: str) -> None:
        if self.here is not None and self.here.board_id != told:
            raise StoreExists(
                f"another board of that name is here: {self.name} has id {self.here.board_id}, the export's has {told}",
                remedy="import it into another store: --database sqlite:////path/to/another.db",
            )

    def _before(self, position: int, here: Head) -> Head:
        assert self.engine is not None
        with reading(self.engine) as tx:
            event = at_position(tx, self.name, position - 1)
        assert event is not None, "positions have no holes"
        return Head(here.board_id, event.position, event.at, event.hash)

    def _foreseen(self, page: Sequence[Numbered]) -> int:
        ends = 0 if self.here is None else self.here.position
        known = [each for each in page if each.event.position <= ends]
        if known and self.engine is not None:
            with reading(self.engine) as tx:
                _check_same(tx, self.name, known)
        return len(page) - len(known)

    def _written(self, page: Sequence[Numbered]) -> int:
        """Write what of *page* is not here yet; how much that was. One transaction."""
        assert self.engine is not None
        with writing(self.engine) as tx:
            if self.name not in board_names(tx):
                create_board(tx, self.name, self.tip.end.board_id)
            ends = standing(tx, self.name, system_clock, hold=True)[0].position
            known = [each for each in page if each.event.position <= ends]
            _check_same(tx, self.name, known)
            _append(tx, self.name, page[len(known) :])
        return len(page) - len(known)


def _check_same(tx: Connection, board: str, known: Sequence[Numbered]) -> None:
    """Raise `OtherHistory` at the first of *known* that stands otherwise here."""
    if not known:
        return
    between = events.c.position.between(known[0].event.position, known[-1].event.position)
    stored = select(events.c.position, events.c.hash).where(events.c.board == board, between)
    hashes: dict[int, bytes] = {position: bytes(stored_hash) for position, stored_hash in tx.execute(stored)}
    for line, event in known:
        if hashes.get(event.position) != event.hash:
            raise OtherHistory(board, event.position, line)


def _append(tx: Connection, board: str, fresh: Sequence[Numbered]) -> None:
    recorded = [each.event for each in fresh]
    try:
        transcribe(tx, board, recorded)
    except DoesNotFollow as fault:
        line = next((each.line for each in fresh if each.event.position == fault.position), 0)
        raise BadLine(line, fault.message) from None
    catch_up(tx, board, recorded)


def _live(tx: Connection, board: str) -> int:
    """How many runs are open."""
    runs = tables.runs.c
    found: int = tx.execute(select(func.count()).where(runs.board == board, runs.ended_by.is_(None))).scalar_one()
    return found
