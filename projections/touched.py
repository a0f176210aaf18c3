"""What a stretch of a log touched: for whoever shows a board and reads again only what has changed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, select, text

from ledger.schema import events
from projections import tables
from projections.listed import LINE, Listed

LINKS: Final = tables.links
_SETTLING: Final = frozenset({"completed", "reopened"})
_CHUNK: Final = 500


def touched(tx: Connection, board: str, after: int, until: int) -> set[str]:
    """The cards whose rows the events behind *after* up to *until* moved: their own, and those that wait for them.

    Only `completed` and `reopened` move another card than their own (RULES §3). It costs what the stretch holds.
    """
    stretch = events.c.position > after, events.c.position <= until
    rows = tx.execute(select(events.c.task, events.c.kind).where(events.c.board == board, *stretch)).all()
    cards = {task for task, _ in rows if task}
    settled = sorted({task for task, kind in rows if kind in _SETTLING})
    for start in range(0, len(settled), _CHUNK):
        waiting = LINKS.c.parent.in_(settled[start : start + _CHUNK])
        cards |= set(tx.execute(select(LINKS.c.child).where(LINKS.c.board == board, waiting)).scalars())
    return cards


def lines(tx: Connection, board: str, cards: Collection[str]) -> list[Listed]:
    """These *cards*, each as one line of a list, in no order; those that are not there are left out."""
    names, found = sorted(cards), list[Listed]()
    for start in range(0, len(names), _CHUNK):
        page = names[start : start + _CHUNK]
        marks = ", ".join(f":c{number}" for number, _ in enumerate(page))
        query = text(f"SELECT {LINE} FROM cards WHERE board = :board AND task IN ({marks})")  # noqa: S608 – as in lists
        values = {f"c{number}": card for number, card in enumerate(page)}
        found += map(Listed._make, tx.execute(query, {"board": board, **values}).all())
    return found
