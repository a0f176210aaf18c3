"""The log as a fold reads it: what happened and who did it, without words, salts and hashes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection

from ledger.recorded import Recorded
from projections.logged import log_of
from projections.raw import pages

_READ: Final = frozenset(
    {"board", "position", "task", "version", "kind", "schema", "at", "actor_kind", "run", "outcome", "facts"}
)


def facts_of(tx: Connection, board: str, *, until: int | None = None) -> Iterator[Recorded]:
    """The log of *board* up to *until* (none: all of it), in order; in each event only what a fold asks for."""
    for page in pages(tx, log_of(board, until=until, wanted=_READ)):
        yield from map(Recorded._make, page)
