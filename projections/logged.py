"""A board's log as its rows are stored, and the words that stand beside no event: what every check of it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Select, func, null, outerjoin, select

from ledger.recorded import parsed
from ledger.schema import events, words
from projections.divergence import Divergence

_COLUMNS: Final = (
    events.c.board, events.c.position, events.c.task, events.c.version, events.c.kind, events.c.schema, events.c.at,
    events.c.actor_kind, events.c.actor_name, events.c.actor_host, events.c.run, events.c.outcome,
    events.c.command_id, events.c.facts, events.c.words_digest, events.c.hash, words.c.salt, words.c.words,
)  # fmt: skip
CHAINED: Final = frozenset(column.name for column in _COLUMNS)
"""Every column: what the chain covers, and the words."""


def log_of(board: str, *, after: int = 0, until: int | None = None, wanted: frozenset[str] = CHAINED) -> Select[Any]:
    """The rows of a log behind *after* up to *until*, in order, columns as in `Recorded`: none if not *wanted*."""
    columns = [column if column.name in wanted else null() for column in _COLUMNS]
    of_words = (events.c.board == words.c.board) & (events.c.position == words.c.position)
    log = outerjoin(events, words, of_words) if "words" in wanted else events
    query = select(*columns).select_from(log).where(events.c.board == board)
    if after:
        query = query.where(events.c.position > after)
    if until is not None:
        query = query.where(events.c.position <= until)
    return query.order_by(events.c.position)


def count_words(tx: Connection, board: str, until: int | None) -> int:
    """How many words stand beside the log, or beside none of its events."""
    counted = select(func.count()).select_from(words).where(words.c.board == board)
    return int(tx.execute(counted if until is None else counted.where(words.c.position <= until)).scalar_one())


def redactions(tx: Connection, board: str, *, after: int = 0, until: int | None = None) -> dict[int, int]:
    """The positions whose words were redacted behind *after* up to *until* → the last event that names each."""
    named = select(events.c.position, events.c.facts).where(
        events.c.board == board, events.c.kind == "redacted", events.c.position > after
    )
    upto = named if until is None else named.where(events.c.position <= until)
    ordered = upto.order_by(events.c.position)
    return {parsed(facts)["redacts"]: position for position, facts in tx.execute(ordered)}


def stray_words(tx: Connection, board: str, worded: int, *, until: int | None = None) -> Iterator[Divergence]:
    """Words at a position that has no event; looked for only where there are more than the *worded* events had."""
    mine = words.c.board == board
    up_to = mine if until is None else mine & (words.c.position <= until)
    if count_words(tx, board, until) == worded:
        return
    standing = select(events.c.position).where(events.c.board == board)
    for (position,) in tx.execute(select(words.c.position).where(up_to, words.c.position.not_in(standing))):
        yield Divergence(None, position, "§10 words", "words", None, "words without an event")
