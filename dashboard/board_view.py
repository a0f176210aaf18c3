"""What a page of the board shows: columns of tiles, counted; every function answers of the past too.

The cost: columns come out of an index and stop when they are full; the counts walk the cards of the board once (10 ms
for 20,000). A search walks their titles once instead, because any part of a title is found (60 ms for 20,000). No body
is read. Nobody asks this again and again: an open page is told what changed (`dashboard.stream`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, bindparam, func, select, text

from dashboard.tiles import Tile, tiles
from ledger.errors import InvalidInput
from ledger.recorded import check_text
from ledger.standing import head
from projections import tables
from projections.listed import LINES, STATUSES, page
from projections.read_models import load_settings
from projections.settings import Pause
from projections.shown import labels as labels_of

CARDS = tables.cards
PAGE: Final = 50
"""Tiles of a column that are shown at first, and with each wish for more."""
LARGEST_PAGE: Final = 100
MOST_CHOICES: Final = 200
LATEST_FIRST: Final = frozenset({"done", "archived"})
"""Columns in which what moved last stands first; in the others what will be started first does."""
SHOWN: Final = tuple(status for status in STATUSES if status != "archived")
LONGEST_SEARCH: Final = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which cards somebody wants to see; none: all. *assignee* `none` is nobody's; *q* is any part of title or id."""

    status: str | None = None
    assignee: str | None = None
    label: str | None = None
    tenant: str | None = None
    q: str | None = None

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a status that there is not, and for text that no store can hold."""
        for name in self.__slots__:
            check_text(name, getattr(self, name) or "")
        if self.status is not None and self.status not in STATUSES:
            raise InvalidInput(f"status {self.status!r} is unknown", remedy=f"one of: {', '.join(STATUSES)}")
        if len(self.q or "") > LONGEST_SEARCH:
            raise InvalidInput(f"a search has at most {LONGEST_SEARCH} characters")


@dataclass(frozen=True, slots=True)
class Column:
    """The cards of one status: how many there are, the first of them, and behind which the next page begins."""

    status: str
    count: int
    tiles: tuple[Tile, ...]
    next: str | None

    def as_json(self) -> dict[str, Any]:
        """As the API has it."""
        shown = [tile.as_json() for tile in self.tiles]
        return {"status": self.status, "count": self.count, "tasks": shown, "next": self.next}


@dataclass(frozen=True, slots=True)
class Choices:
    """What the board's cards can be filtered by: each in order, the first `MOST_CHOICES` of them."""

    assignees: tuple[str, ...]
    labels: tuple[str, ...]
    tenants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoardView:
    """The board at *position* (*at*: the instant of its last event, µs UTC; 0 on an empty log)."""

    position: int
    at: int
    columns: tuple[Column, ...]
    pauses: tuple[Pause, ...]

    def as_json(self) -> dict[str, Any]:
        """As the API has it."""
        paused = [{"scope": each.scope, "name": each.name, "position": each.position} for each in self.pauses]
        columns = [column.as_json() for column in self.columns]
        return {"position": self.position, "columns": columns, "paused": paused}


def board_view(tx: Connection, board: str, wanted: Wanted, *, limit: int = PAGE) -> BoardView:
    """The columns of the cards that are *wanted*, each with its first *limit*. Archived cards: when asked for."""
    end = head(tx, board)
    statuses = SHOWN if wanted.status is None else (wanted.status,)
    found = _Found(tx, board, wanted)
    counts = found.counts()
    columns = tuple(found.column(status, counts.get(status, 0), limit=limit) for status in statuses)
    return BoardView(end.position, end.at, columns, load_settings(tx, board).pauses)


def column_view(tx: Connection, board: str, wanted: Wanted, *, after: str | None = None, limit: int = PAGE) -> Column:
    """One column, from behind the card *after*. Raises `InvalidInput` where no status is *wanted*, `UnknownTask`."""
    if wanted.status is None:
        raise InvalidInput("which column?", remedy=f"give a status, one of: {', '.join(SHOWN)}")
    check_text("after", after or "")
    found = _Found(tx, board, wanted)
    return found.column(wanted.status, found.counts().get(wanted.status, 0), after=after, limit=limit)


def counts(tx: Connection, board: str, wanted: Wanted) -> dict[str, int]:
    """How many cards that are *wanted* stand in each status: all statuses, or the one that is wanted."""
    found = _Found(tx, board, wanted).counts()
    return {status: found.get(status, 0) for status in STATUSES if wanted.status in {None, status}}


def choices(tx: Connection, board: str) -> Choices:
    """What the filters of a page offer: of the cards that are not archived."""
    kinds = select(CARDS.c.assignee, CARDS.c.reviewer, CARDS.c.labels, CARDS.c.tenant).distinct()
    rows = tx.execute(kinds.where(CARDS.c.board == board, CARDS.c.status != "archived")).all()
    names = {name for row in rows for name in (row.assignee, row.reviewer) if name is not None}
    labels = {label for row in rows for label in labels_of(row.labels)}
    tenants = {row.tenant for row in rows if row.tenant is not None}
    return Choices(_first(names), _first(labels), _first(tenants))


def _first(names: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:MOST_CHOICES])


class _Found:
    """The cards that are wanted. A search reads the titles of all others too, once."""

    def __init__(self, tx: Connection, board: str, wanted: Wanted) -> None:
        self._tx, self._board, self._wanted = tx, board, wanted
        self._matches = None if wanted.q is None else self._searched(wanted.q)

    def counts(self) -> Mapping[str, int]:
        """How many there are of each status."""
        if self._matches is not None:
            return {status: len(ids) for status, ids in self._matches.items()}
        query = select(CARDS.c.status, func.count()).where(*self._conditions()).group_by(CARDS.c.status)
        return {row[0]: row[1] for row in self._tx.execute(query, self._values())}

    def column(self, status: str, count: int, *, after: str | None = None, limit: int) -> Column:
        """The first of them with that *status*, from behind *after*."""
        if count == 0:
            return Column(status, 0, (), None)
        ids, following = self._page(status, after, limit)
        return Column(status, count, tiles(self._tx, self._board, ids), following)

    def _page(self, status: str, after: str | None, limit: int) -> tuple[Sequence[str], str | None]:
        if self._matches is not None:
            return _cut(self._matches.get(status, []), after, limit)
        sort = "updated" if status in LATEST_FIRST else "priority"
        narrowed = {"assignee": self._wanted.assignee, "label": self._wanted.label, "tenant": self._wanted.tenant}
        found, following = page(
            self._tx, self._board, LINES, status=status, **narrowed, limit=limit, after=after, sort=sort
        )
        return [line.id for line in found], following

    def _searched(self, needle: str) -> dict[str, list[str]]:
        """The ids of the cards in whose title or id *needle* stands, whatever its case, by status, in order."""
        shown, folded = (CARDS.c.task, CARDS.c.status, CARDS.c.title, CARDS.c.updated_at), needle.casefold()
        order = CARDS.c.priority.desc(), CARDS.c.created_at, CARDS.c.task
        rows = self._tx.execute(select(*shown).where(*self._conditions()).order_by(*order), self._values())
        hits = [row for row in rows if folded in (row[2] or "").casefold() or folded in row[0]]
        found: dict[str, list[str]] = {}
        for task, status, _, _ in [*(hit for hit in hits if hit[1] not in LATEST_FIRST), *_latest(hits)]:
            found.setdefault(status, []).append(task)
        return found

    def _conditions(self) -> list[ColumnElement[bool]]:
        wanted, conditions = self._wanted, [CARDS.c.board == self._board]
        if wanted.status is not None:
            conditions.append(CARDS.c.status == wanted.status)
        if wanted.assignee is not None:
            named = CARDS.c.assignee == wanted.assignee
            conditions.append(CARDS.c.assignee.is_(None) if wanted.assignee == "none" else named)
        if wanted.tenant is not None:
            conditions.append(CARDS.c.tenant == wanted.tenant)
        if wanted.label is not None:
            conditions.append(_LABELLED)
        return conditions

    def _values(self) -> dict[str, Any]:
        return {} if self._wanted.label is None else {"label": self._wanted.label}


_LABELLED: Final[Any] = text("EXISTS (SELECT 1 FROM json_each(labels) AS each WHERE each.value = :label)").bindparams(
    bindparam("label")
)


def _latest(hits: Sequence[Any]) -> list[Any]:
    closed = [hit for hit in hits if hit[1] in LATEST_FIRST]
    return sorted(closed, key=lambda hit: (-hit[3], hit[0]))


def _cut(ids: Sequence[str], after: str | None, limit: int) -> tuple[Sequence[str], str | None]:
    """A page of *ids*; one whose *after* matches no longer begins at the front."""
    start = ids.index(after) + 1 if after in ids else 0
    shown = ids[start : start + limit]
    return shown, shown[-1] if start + limit < len(ids) and shown else None
