"""A board for whoever keeps looking at it: read whole once, and from then on only what has changed.

The head and the hosts' last ticks are looked at first; where these stand still, nothing else is read.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select, text

from ledger.recorded import Recorded
from ledger.schema import words
from ledger.standing import Head, head
from ledger.store import read_board
from projections import tables
from projections.listed import LINE, Listed
from projections.touched import lines, touched

TASKS, RUNS, LEASES, HELD, SWEEPS = tables.tasks, tables.runs, tables.leases, tables.held, tables.sweeps
EVENTS: Final = 50
"""So many of the last events are kept."""
MOST: Final = 200
"""So many live runs and blocked cards are read: no screen shows more."""
FURTHEST: Final = 5_000
"""Behind by more events the board is read whole again: that is cheaper by then."""


class Live(NamedTuple):
    """An open run, and until when its lease lasts (microseconds UTC)."""

    task: str
    run: int
    worker: str
    claimed_at: int
    lease_until: int


class Held(NamedTuple):
    """A card that its hold keeps: the cause, what was counted against which limit, and what was said."""

    task: str
    assignee: str | None
    cause: str
    counted: int | None
    limit: int | None
    reason: str | None


class Watched:
    """One board as it was when it was looked at last. *cards* are those that are neither done nor archived."""

    def __init__(self, board: str) -> None:
        self.board = board
        self.position, self.at = 0, 0
        self.ticks: tuple[tuple[str, int], ...] = ()
        """Each host that ever swept the board, and when it did last; the latest first."""
        self.cards: dict[str, Listed] = {}
        self.counts: Counter[str] = Counter()
        """How many cards stand where."""
        self.live: list[Live] = []
        self.held: list[Held] = []
        self.waiting: dict[str, str] = {}
        """Why the last tick did not start a card, by card."""
        self.events: deque[Recorded] = deque(maxlen=EVENTS)
        self._closed: dict[str, str] = {}

    def look(self, tx: Connection) -> bool:
        """Read what has changed; whether anything has. Raises `UnknownBoard`, and what the store raises."""
        end, ticks = head(tx, self.board), _ticks(tx, self.board)
        if (end.position, ticks) == (self.position, self.ticks):
            return False
        if 0 < self.position <= end.position <= self.position + FURTHEST:
            self._catch_up(tx, end)
        else:
            self._read(tx)
        self._stand(tx)
        self.events.extend(read_board(tx, self.board, after=max(self.position, end.position - EVENTS)))
        self.position, self.at, self.ticks = end.position, end.at, ticks
        return True

    def _read(self, tx: Connection) -> None:
        opened = text(f"SELECT {LINE} FROM cards WHERE board = :board AND NOT archived AND outcome IS NULL")  # noqa: S608
        closed = text("SELECT task, status FROM cards WHERE board = :board AND (archived OR outcome IS NOT NULL)")
        self.cards = {row[0]: Listed._make(row) for row in tx.execute(opened, {"board": self.board})}
        self._closed = dict(map(tuple, tx.execute(closed, {"board": self.board})))
        self.counts = Counter(card.status for card in self.cards.values()) + Counter(self._closed.values())
        self.events.clear()
        self.position = 0

    def _catch_up(self, tx: Connection, end: Head) -> None:
        for card in lines(tx, self.board, touched(tx, self.board, self.position, end.position)):
            before = self.cards.pop(card.id, None)
            was = self._closed.pop(card.id, None) if before is None else before.status
            if was is not None:
                self.counts[was] -= 1
            self.counts[card.status] += 1
            if card.status in {"done", "archived"}:
                self._closed[card.id] = card.status
            else:
                self.cards[card.id] = card

    def _stand(self, tx: Connection) -> None:
        """What is read anew each time: it is little, or it moves without events."""
        self.live = _live(tx, self.board)
        self.held = _held(tx, self.board)
        self.waiting = dict(tx.execute(select(HELD.c.task, HELD.c.reason).where(HELD.c.board == self.board)).all())


def _ticks(tx: Connection, board: str) -> tuple[tuple[str, int], ...]:
    query = select(SWEEPS.c.host, SWEEPS.c.ticked_at).where(SWEEPS.c.board == board)
    return tuple((host, at) for host, at in tx.execute(query.order_by(SWEEPS.c.ticked_at.desc(), SWEEPS.c.host)))


def _live(tx: Connection, board: str) -> list[Live]:
    leased = (LEASES.c.board == RUNS.c.board) & (LEASES.c.task == RUNS.c.task) & (LEASES.c.run == RUNS.c.run)
    query = select(
        RUNS.c.task, RUNS.c.run, RUNS.c.worker, RUNS.c.claimed_at, RUNS.c.lease_until, LEASES.c.lease_until
    ).select_from(RUNS.outerjoin(LEASES, leased))
    query = query.where(RUNS.c.board == board, RUNS.c.ended_by.is_(None)).order_by(RUNS.c.claimed_at, RUNS.c.task)
    rows = tx.execute(query.limit(MOST)).all()
    return [Live._make((*rest, granted if lease is None else lease)) for *rest, granted, lease in rows]


def _held(tx: Connection, board: str) -> list[Held]:
    said = (words.c.board == TASKS.c.board) & (words.c.position == TASKS.c.hold_position)
    query = select(
        TASKS.c.task, TASKS.c.assignee, TASKS.c.hold_cause, TASKS.c.hold_count, TASKS.c.hold_limit, words.c.words
    ).select_from(TASKS.outerjoin(words, said))
    query = query.where(TASKS.c.board == board, text(tables.BLOCKED))
    query = query.order_by(TASKS.c.priority.desc(), TASKS.c.created_at, TASKS.c.task).limit(MOST)
    return [Held._make((*rest, _reason(told))) for *rest, told in tx.execute(query).all()]


def _reason(told: str | None) -> str | None:
    found: Any = json.loads(told).get("reason") if told else None
    return None if found is None else str(found)
