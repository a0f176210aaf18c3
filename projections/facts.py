"""The log as a fold reads it: what happened and who did it, without words, salts and hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from sqlalchemy import Connection, Select

from ledger.recorded import Recorded
from ledger.schema import events
from projections.logged import log_of
from projections.raw import pages

_READ: Final = frozenset(
    {"board", "position", "task", "version", "kind", "schema", "at", "actor_kind", "run", "outcome", "facts"}
)
_CHUNK: Final = 500  # streams


def facts_of(
    tx: Connection, board: str, *, after: int = 0, until: int | None = None, of: Sequence[str] | None = None
) -> Iterator[Recorded]:
    """The log of *board* behind *after* up to *until* (none: its end), in order, with only what a fold asks for.

    *of*: only the streams of these cards, one after the other.
    """
    parts = [log_of(board, after=after, until=until, wanted=_READ)] if of is None else _streams(board, of, after, until)
    for page in chain.from_iterable(pages(tx, part) for part in parts):
        yield from map(Recorded._make, page)


def _streams(board: str, of: Sequence[str], after: int, until: int | None) -> Iterator[Select[Any]]:
    position = events.c.position + 0  # so that no engine walks the log to find a few cards in it
    query = log_of(board, wanted=_READ).where(position > after).order_by(None).order_by(events.c.task, events.c.version)
    if until is not None:
        query = query.where(position <= until)
    for start in range(0, len(of), _CHUNK):
        yield query.where(events.c.task.in_(of[start : start + _CHUNK]))
