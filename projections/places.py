"""Where in a board's log a moment stands: instants never go back there, so a few looks find it."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from ledger.errors import InvalidInput
from ledger.prepared import Prepared
from ledger.schema import events
from ledger.standing import head

_AT = Prepared(
    select(events.c.at).where(events.c.board == bindparam("board"), events.c.position == bindparam("position"))
)


class Mark(NamedTuple):
    """A place in a log as somebody names it: its *number*, or what had happened at an *instant* (microseconds UTC)."""

    number: int | None = None
    instant: int | None = None


class Stretch(NamedTuple):
    """A stretch of a log: the positions behind *after* up to *until*."""

    after: int
    until: int


def stretch_between(tx: Connection, board: str, first: Mark, last: Mark) -> Stretch:
    """From *first* to *last*, both of them in it, as far as the log goes. Raises `InvalidInput` where it runs back."""
    if _runs_back(first.number, last.number) or _runs_back(first.instant, last.instant):
        raise InvalidInput("that stretch of the log ends before it begins", remedy="give the earlier of the two first")
    until = place_of(tx, board, last)
    return Stretch(min(_before(tx, board, first), until), until)


def _runs_back(first: int | None, last: int | None) -> bool:
    return first is not None and last is not None and first > last


def _before(tx: Connection, board: str, mark: Mark) -> int:
    """The last position that is not yet in a stretch that begins at *mark*."""
    if mark.instant is not None:
        return position_at(tx, board, mark.instant - 1)
    return head(tx, board).position if mark.number is None else max(mark.number - 1, 0)


def place_of(tx: Connection, board: str, mark: Mark) -> int:
    """The position that *mark* means: none behind the end of the log; 0 is before its first event."""
    if mark.instant is not None:
        return position_at(tx, board, mark.instant)
    last = head(tx, board).position
    return last if mark.number is None else min(mark.number, last)


def position_at(tx: Connection, board: str, instant: int) -> int:
    """The last position whose event happened at *instant* (microseconds UTC) or before it; 0: none did."""
    low, high = 0, head(tx, board).position
    while low < high:
        middle = (low + high + 1) // 2
        if instant_of(tx, board, middle) <= instant:
            low = middle
        else:
            high = middle - 1
    return low


def instant_of(tx: Connection, board: str, position: int) -> int:
    """When the event at *position* happened, in microseconds UTC. Raises `TypeError` where there is none."""
    found: int = _AT.one(tx, board=board, position=position)[0]
    return found
