"""Cards of another system made cards of a board here, by the rules that every command goes by.

A page of cards is a transaction, and each card in it is whole: made, told about, finished or held. Its idempotency key
is its id and time there, so a repeat passes over what is here, and goes on where a killed import stopped. The cards
get the times of this store's clock: a log cannot say that something happened in it before it did.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from sqlalchemy import Engine

from kanban.address import Address
from kanban.again import again
from kanban.at_desk import at_desk, looking
from kanban.commands import Decision
from kanban.desk import Desk
from kanban.failpoints import reach
from kanban.findings import counted, listed
from kanban.founding import found, found_at
from kanban.importing.order import parents_first
from kanban.importing.origin import Origin, Progress, Skipped, Source
from kanban.importing.page import Decider, Page
from kanban.session import operator
from kanban.worker.carrier import operators_only
from ledger.clock import Clock, system_clock
from ledger.database import reading
from ledger.errors import StoreMissing
from ledger.events import Actor
from ledger.standing import head
from ledger.store import board_names
from ledger.upgrade import open_store

PAGE: Final = 200
"""Cards of one transaction."""
_NOBODY: Final = Actor(kind="operator", name="nobody", host="")


@dataclass(frozen=True, slots=True)
class Brought:
    """What an import came to. *board_id*: none where the board is yet to be made."""

    board: str
    board_id: str | None
    source: str
    found: Page
    dry_run: bool
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints. `tasks`: new cards; `known`: those that were here before."""
        return {
            "board": self.board,
            "board_id": self.board_id,
            "source": self.source,
            "tasks": self.found.tasks,
            "known": self.found.known,
            "linked": self.found.linked,
            "comments": self.found.comments,
            "skipped": [each.as_json() for each in self.found.skipped],
            "changed": self.found.tasks > 0 and not self.dry_run,
            "dry_run": self.dry_run,
            "notes": list(self.notes),
        }


def bring(
    at: Address,
    source: Source,
    *,
    dry_run: bool = False,
    environ: Mapping[str, str] = os.environ,
    clock: Clock = system_clock,
    progress: Progress | None = None,
) -> Brought:
    """Make the cards of *source* cards of the board at *at*, which is founded where it is not there.

    *progress* hears (cards done, cards in all). Raises as `found`; `Forbidden` inside a worker's environment. What no
    card here can say is skipped, and named.
    """
    operators_only(environ, "import")
    if dry_run:
        with _foreseen(at, clock) as (engine, board_id):
            work = _Bringing(engine, at.board, source, _NOBODY, clock)
            return _told(at.board, board_id, source, work.foreseen(), dry_run=True)
    board_id = found_at(at, environ, clock).board_id
    engine = open_store(at.url)
    with _closing(engine):
        work = _Bringing(engine, at.board, source, operator(at, environ), clock)
        return _told(at.board, board_id, source, work.written(progress), dry_run=False)


class _Bringing:
    """One import into a board that is there."""

    def __init__(self, engine: Engine, board: str, source: Source, actor: Actor, clock: Clock) -> None:
        self._engine = engine
        self._board = board
        self._source = source
        self._actor = actor
        self._clock = clock
        cards: dict[str, Origin] = {}
        self._twice: list[Skipped] = []
        for card in source.cards:
            if cards.setdefault(card.id, card) is not card:
                self._twice.append(Skipped(card.id, "another card has that id"))
        self._order, self._rings = parents_first(cards)

    def foreseen(self) -> Page:
        """What all cards would come to now; nothing is written."""
        whole = self._begun()
        with looking(self._engine, self._board, self._clock) as desk:
            whole.add(self._decider(desk, whole).page(self._order))
        return whole

    def written(self, progress: Progress | None) -> Page:
        """Write every page; what they came to."""
        whole = self._begun()
        for start in range(0, len(self._order), PAGE):
            cards = self._order[start : start + PAGE]
            whole.add(self._written(cards, whole))
            if progress is not None:
                progress(start + len(cards), len(self._order))
        return whole

    def _begun(self) -> Page:
        return Page(skipped=[*self._source.skipped, *self._twice])

    def _written(self, cards: Sequence[Origin], whole: Page) -> Page:
        def once() -> Page:
            with at_desk(self._engine, self._board, self._clock) as desk:
                page = self._decider(desk, whole).page(cards)
                desk.write(Decision(tuple(page.drafts)))
                reach("before-verb-commit")
                return page

        page = again(once)
        reach("after-verb-commit")
        return page

    def _decider(self, desk: Desk, whole: Page) -> Decider:
        return Decider(desk, self._source.system, self._actor, here=whole.here, rings=self._rings)


@contextmanager
def _foreseen(at: Address, clock: Clock) -> Iterator[tuple[Engine, str | None]]:
    """The board at *at*; where it is not there, an empty one for the time being, without an id."""
    engine = _there(at)
    if engine is not None:
        with _closing(engine):
            yield engine, _board_id(engine, at.board)
        return
    with TemporaryDirectory(prefix="ledger-import-") as folder:
        url = f"sqlite:///{Path(folder) / 'ledger.db'}"
        found(url, at.board, _NOBODY, clock)
        engine = open_store(url)
        with _closing(engine):
            yield engine, None


@contextmanager
def _closing(engine: Engine) -> Iterator[None]:
    try:
        yield
    finally:
        engine.dispose()


def _board_id(engine: Engine, board: str) -> str:
    with reading(engine) as tx:
        return head(tx, board).board_id


def _there(at: Address) -> Engine | None:
    try:
        engine = open_store(at.url)
    except StoreMissing:
        return None
    with reading(engine) as tx:
        if at.board in board_names(tx):
            return engine
    engine.dispose()
    return None


def _told(board: str, board_id: str | None, source: Source, page: Page, *, dry_run: bool) -> Brought:
    notes = [*source.notes, *page.notes]
    if page.released:
        cards = f"{counted(len(page.released), 'card')} {'was' if len(page.released) == 1 else 'were'} at work there"
        notes.append(f"{cards}, and nobody holds them here; stop their workers there: {listed(page.released)}")
    if page.known:
        notes.append(f"{counted(page.known, 'card')} of it had been brought in before, and stayed as they are here")
    return Brought(board, board_id, source.name, page, dry_run, tuple(notes))
