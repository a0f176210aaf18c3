"""What changed, as it changes: server-sent events for every open page, from one look at the log for all of them.

An open page costs a connection and a queue. One poller a server, and none where nobody looks, reads where the log ends
(one row) and only then, what moved: the cards of the new events, and the children whose parents were settled. What it
keeps in memory is the status of every card (0.1 KB each), so that the columns' counts follow without a walk.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query
from sqlalchemy import Connection, select
from starlette.requests import Request
from starlette.responses import StreamingResponse

from dashboard.source import Source
from dashboard.tiles import MOST_LABELS, short
from ledger.database import masked
from ledger.errors import LedgerError
from ledger.standing import head
from projections import tables
from projections.listed import STATUSES, Listed
from projections.read_models import load_settings
from projections.settings import Pause
from projections.shown import time_or_none
from projections.touched import lines, touched

CARDS = tables.cards
POLL: Final = 0.5
"""Seconds between two looks at the log."""
BEAT: Final = 15.0
"""Seconds after which a stream on which nothing happens says that it is still there."""
WIDEST: Final = 2_000
"""Events behind which a page reads itself anew instead of being told what changed."""
MOST_CARDS: Final = 500
"""Cards of one delta; as above."""
LATEST: Final = 2**53
"""The largest position that JSON numbers can say."""
_WAITING: Final = 32  # deltas that a slow client may be behind
_RETRY: Final = "retry: 2000\n\n"
router = APIRouter()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Delta:
    """What moved up to *position*: the cards as they are now, and how many stand where on the whole board."""

    position: int
    at: int
    cards: tuple[Listed, ...]
    counts: dict[str, int]
    pauses: tuple[Pause, ...]

    def as_event(self) -> str:
        """As a page hears it."""
        said = {
            "position": self.position,
            "at": self.at,
            "cards": [_row(card) for card in self.cards],
            "counts": self.counts,
            "paused": [{"scope": each.scope, "name": each.name, "position": each.position} for each in self.pauses],
        }
        return _event("delta", said, self.position)


def _row(card: Listed) -> dict[str, Any]:
    """A card as one line: what is more, a page fetches of the cards that it shows."""
    row = card._asdict()
    del row["stored_labels"]
    times = {name: time_or_none(row[name]) for name in ("not_before", "scheduled", "created_at", "updated_at")}
    return row | times | {"title": short(card.title), "labels": card.labels[:MOST_LABELS]}


@dataclass(frozen=True, slots=True)
class Reload:
    """So much has changed up to *position*, or something so wide, that a page is better read anew."""

    position: int
    why: str

    def as_event(self) -> str:
        """As a page hears it."""
        return _event("reload", {"why": self.why, "position": self.position}, self.position)


def _event(kind: str, said: dict[str, Any], position: int | None = None) -> str:
    place = "" if position is None else f"id: {position}\n"
    return f"{place}event: {kind}\ndata: {json.dumps(said, ensure_ascii=True)}\n\n"


# What changed


class TooMuch(Exception):
    """What changed cannot be told card by card, and why."""


def changed(tx: Connection, board: str, *, after: int, until: int) -> list[str]:
    """The cards that the events behind *after* up to *until* moved: their own, and those that wait for them.

    Raises `TooMuch`.
    """
    if not 0 <= until - after <= WIDEST:
        raise TooMuch("too much has happened since")
    if after < load_settings(tx, board).policy_position <= until:
        raise TooMuch("the limits were changed")
    found = sorted(touched(tx, board, after, until))
    if len(found) > MOST_CARDS:
        raise TooMuch("too many cards have moved since")
    return found


class Watch:
    """Where the log ended at the last look, and where every card stood then."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._one = Lock()  # a look whose asker is gone goes on in its thread
        self._position = -1
        self._statuses: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    @property
    def position(self) -> int:
        """The position of the last look; -1 before the first."""
        return self._position

    def look(self) -> Delta | Reload | None:
        """What changed since the last look; none: nothing did, or this was the first. Raises `LedgerError`."""
        with self._one, self._source.reading() as tx:
            end = head(tx, self._source.board)
            if end.position == self._position:
                return None
            before, self._position = self._position, end.position
            try:
                return self._moved(tx, before)
            except BaseException:
                self._position = -1  # half of it was learned
                raise

    def since(self, after: int) -> Delta | Reload | None:
        """What changed behind *after* up to the last look; none: nothing did. Raises `LedgerError`."""
        if after == self._position:
            return None
        with self._one, self._source.reading() as tx:
            try:
                return self._told(tx, after)
            except TooMuch as much:
                return Reload(self._position, str(much))

    def _moved(self, tx: Connection, before: int) -> Delta | Reload | None:
        if before < 0:
            self._learn(tx)
            return None
        try:
            return self._told(tx, before)
        except TooMuch as much:
            self._learn(tx)
            return Reload(self._position, str(much))

    def _learn(self, tx: Connection) -> None:
        """Where every card stands: the one walk over the board."""
        query = select(CARDS.c.task, CARDS.c.status).where(CARDS.c.board == self._source.board)
        known = {status: status for status in STATUSES}  # one text for all cards of a status
        self._statuses = {task: known[status] for task, status in tx.execute(query)}
        self._counts = Counter(self._statuses.values())

    def _told(self, tx: Connection, after: int) -> Delta:
        board = self._source.board
        ids = changed(tx, board, after=after, until=self._position)
        cards = sorted(lines(tx, board, ids))
        for card in cards:
            self._move(card)
        counts = {status: self._counts[status] for status in STATUSES}
        return Delta(self._position, head(tx, board).at, tuple(cards), counts, load_settings(tx, board).pauses)

    def _move(self, card: Listed) -> None:
        before = self._statuses.get(card.id)
        if before is not None:
            self._counts[before] -= 1
        self._counts[card.status] += 1
        self._statuses[card.id] = card.status


# Who is told


class Live:
    """The open pages of a server, and the one poller that wakes them. Lives in the server's event loop."""

    def __init__(self, source: Source, *, every: float = POLL, beat: float = BEAT) -> None:
        """*every* and *beat* are seconds: between two looks, and between two signs of life."""
        self._watch = Watch(source)
        self._every, self._beat = every, beat
        self._clients: set[asyncio.Queue[str | None]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking = asyncio.Lock()
        self._trouble = ""
        """What was said when the store could not be read, as long as it cannot."""
        self._over = False

    @property
    def clients(self) -> int:
        """How many pages are open."""
        return len(self._clients)

    async def stream(self, after: int) -> AsyncIterator[str]:
        """What changed behind position *after*, and then for ever; until the page is closed or the server ends."""
        heard: asyncio.Queue[str | None] = asyncio.Queue(_WAITING)
        yield _RETRY
        try:
            await self._enter(heard, after)
            while not self._over:
                try:
                    said = await asyncio.wait_for(heard.get(), self._beat)
                except TimeoutError:
                    said = ": still here\n\n"
                if said is None:
                    return
                yield said
        finally:
            self._leave(heard)

    def close(self) -> None:
        """End every stream, from whichever thread: no new one begins."""
        self._over = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for heard in self._clients:
            _put(heard, None)

    async def _enter(self, heard: asyncio.Queue[str | None], after: int) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._looking:
            await self._look()
            self._clients.add(heard)
            if self._trouble:
                _put(heard, self._trouble)
            elif self._watch.position >= 0:
                await self._try(lambda: self._watch.since(after), [heard])
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll())

    def _leave(self, heard: asyncio.Queue[str | None]) -> None:
        self._clients.discard(heard)
        if not self._clients and self._poller is not None:
            self._poller.cancel()
            self._poller = None

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            async with self._looking:
                await self._look()

    async def _look(self) -> None:
        """Look, and tell all; after trouble all of them read anew, for nobody knows what each of them has missed."""
        before = self._trouble
        await self._try(self._watch.look, self._clients)
        if before and not self._trouble:
            anew = Reload(self._watch.position, "the board could not be read for a while").as_event()
            for heard in self._clients:
                _put(heard, anew)

    async def _try(self, question: Any, hearers: Any) -> None:
        """Ask in a thread, and tell the *hearers* what it comes to: also that the store cannot be read just now."""

        def asked() -> str:
            found = question()
            return "" if found is None else str(found.as_event())

        before, self._trouble = self._trouble, ""
        try:
            said = await asyncio.to_thread(asked)
        except LedgerError as fault:
            said = self._trouble = _event("trouble", {"message": masked(fault.message)})
        except Exception:  # noqa: BLE001 – one bad look must not end all streams
            said = self._trouble = _event("trouble", {"message": "the server failed at that"})
            if said != before:
                _log.exception("a look at the board failed")
        if said and said != before:
            for heard in list(hearers):
                _put(heard, said)


def _put(heard: asyncio.Queue[str | None], said: str | None) -> None:
    """Tell it; a client that reads too slowly is cut off, and comes again with the last position that it has seen."""
    if heard.full():
        while not heard.empty():
            heard.get_nowait()
        said = None
    heard.put_nowait(said)


@router.get("/live", include_in_schema=False)
async def live(
    request: Request,
    after: Annotated[int, Query(ge=0, le=LATEST)] = 0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """What changed behind *after*, or behind the last event that a page has heard when it comes again."""
    begins = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 16 else after  # noqa: PLR2004 – digits of LATEST
    told = request.app.state.live.stream(begins)
    return StreamingResponse(told, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
