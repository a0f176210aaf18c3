"""Lists of cards: which of them, in which order, a page at a time. Every list of a board is one of these statements.

A page comes out of an index in the order in which it is shown and stops when it is full, whatever the board's size,
where the order is `priority` and cards that pass the filters are not rare. Cards are made as their rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypedDict

from sqlalchemy import Connection, text

from ledger.errors import InvalidInput, UnknownTask
from ledger.prepared import Prepared
from projections.shown import CARD_COLUMNS, card_json, labels
from projections.tables import BLOCKED, CLAIMABLE

STATUSES: Final = ("triage", "todo", "scheduled", "ready", "running", "review", "blocked", "done", "archived")
SORTS: Final[dict[str, tuple[tuple[str, bool], ...]]] = {
    "priority": (("priority", True), ("created_at", False), ("task", False)),
    "created": (("created_at", False), ("task", False)),
    "updated": (("updated_at", True), ("task", False)),
}
"""The orders of a list: columns, each with whether the larger comes first."""


class Filters(TypedDict, total=False):
    """What a list is asked for: by default the first hundred of all cards."""

    status: str | None
    assignee: str | None
    """`none` means: nobody's."""
    label: str | None
    tenant: str | None
    limit: int | None
    """None: all of them."""
    after: str | None
    """The card behind which the page begins."""
    sort: str


class Listed(NamedTuple):
    """A card as one line of a list. Instants are microseconds UTC; *hold* is the cause of the hold in force."""

    id: str
    title: str | None
    status: str
    assignee: str | None
    reviewer: str | None
    lane: str
    priority: int
    stored_labels: str
    tenant: str | None
    run: int | None
    failures: int
    streak: int
    neutral: int
    hold: str | None
    outcome: str | None
    not_before: int | None
    scheduled: int | None
    created_at: int
    updated_at: int
    position: int

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, in the order in which they were given."""
        return labels(self.stored_labels)


class Page(NamedTuple):
    """Cards in one order, the log's position that they stand for, and the card behind which the next page begins."""

    cards: list[Listed]
    position: int
    next: str | None


LINE: Final = (
    "task, title, status, assignee, reviewer, lane, priority, labels, tenant, run, failures, streak,"
    " neutral, hold_cause, outcome, not_before, scheduled, created_at, updated_at, position"
)
"""The columns of `cards` that make a `Listed`, in its order."""


class Shape(NamedTuple):
    """What a list is made of: the columns of a row, what is made of it, and where that has the card's id."""

    columns: str
    made: Callable[[Any], Any]
    id_of: Callable[[Any], str]


SHOWN: Final = Shape(CARD_COLUMNS, card_json, itemgetter("id"))
LINES: Final = Shape(LINE, partial(tuple.__new__, Listed), itemgetter(0))  # `_make` takes a tenth of a list's time
_KNOWN: Final = {
    **dict.fromkeys(("scheduled", "review", "ready"), CLAIMABLE),
    "running": "task IN (SELECT task FROM runs WHERE runs.board = :board AND ended_by IS NULL)",
    "blocked": BLOCKED,
}
"""What holds for every card of a status and an index knows. It narrows nothing: the view alone says the status."""
_FEW: Final = {"running"}
"""Statuses whose cards an index has, but in no order."""
_FILTERS: Final = {
    **{status: f"status = '{status}' AND {_KNOWN.get(status, 'TRUE')}" for status in STATUSES},
    "open": "status <> 'archived'",
    "assignee": "assignee = :assignee",
    "nobody": "assignee IS NULL",
    "label": "EXISTS (SELECT 1 FROM json_each(labels) AS each WHERE each.value = :label)",
    "tenant": "tenant = :tenant",
}


def page(
    tx: Connection,
    board: str,
    shape: Shape,
    *,
    status: str | None = None,
    assignee: str | None = None,
    label: str | None = None,
    tenant: str | None = None,
    limit: int | None = 100,
    after: str | None = None,
    sort: str = "priority",
) -> tuple[list[Any], str | None]:
    """Cards in *shape* (`SHOWN` or `LINES`), and the id to pass as *after* for the next page, none on the last.

    Raises `InvalidInput` for a status or an order that there is not, `UnknownTask` for *after*.
    """
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"status {status!r} is unknown", remedy=f"one of: {', '.join(STATUSES)}")
    if sort not in SORTS:
        raise InvalidInput(f"sort {sort!r} is unknown", remedy=f"one of: {', '.join(SORTS)}")
    named = "nobody" if assignee == "none" else "assignee"
    given = {status or "": status, named: assignee, "label": label, "tenant": tenant}
    wanted = {name: value for name, value in given.items() if value is not None}
    found = _listed(tx, board, shape, wanted, sort=sort, after=after, limit=None if limit is None else limit + 1)
    if limit is None or len(found) <= limit:
        return found, None
    return found[:limit], shape.id_of(found[limit - 1]) if limit else None


def everyone_open(tx: Connection, board: str) -> list[dict[str, Any]]:
    """Each card that is not archived, as `card_json` shows it: larger priority first, then older, then id."""
    return _listed(tx, board, SHOWN, {"open": ""})


def _listed(
    tx: Connection,
    board: str,
    shape: Shape,
    wanted: Mapping[str, str],
    *,
    sort: str = "priority",
    after: str | None = None,
    limit: int | None = None,
) -> list[Any]:
    """Cards in *shape*; *wanted*: the filters by name, and what they compare with."""
    place = {} if after is None else _place(tx, board, after)
    found: list[Any] = []
    for stretch in (None,) if after is None else range(len(_stretches(sort))):
        left = _NO_LIMIT if limit is None else limit - len(found)
        statement = _statement(shape.columns, frozenset(wanted), sort, stretch)
        found += map(shape.made, statement.rows(tx, board=board, **wanted, **place, limit=left))
        if len(found) == limit:
            break
    return found


_NO_LIMIT: Final = 2**63 - 1  # rows; the engines have no word for it in common


@cache
def _statement(columns: str, wanted: frozenset[str], sort: str, stretch: int | None) -> Prepared:
    """The statement of a list, built once; *stretch*: which of those behind a place."""
    conditions = ["board = :board", *(_FILTERS[name] for name in sorted(wanted))]
    if stretch is not None:
        conditions.append(_stretches(sort)[stretch])
    where = " AND ".join(conditions)
    order = "ORDER BY " + ", ".join(f"{name} DESC" if larger else name for name, larger in SORTS[sort])
    rows = f"SELECT {columns} FROM cards WHERE"  # noqa: S608 – names and texts of this program
    if sort == "priority" and not wanted & _FEW:
        return Prepared(text(f"{rows} {where} {order} LIMIT :limit"))
    # no index has them in this order: sort ids, not whole rows
    chosen = f"SELECT task FROM cards WHERE {where} {order} LIMIT :limit"  # noqa: S608
    return Prepared(text(f"{rows} board = :board AND task IN ({chosen}) {order}"))


def _stretches(sort: str) -> tuple[str, ...]:
    """Where the cards behind a place stand, in order: each stretch is one range of an index that has the order."""
    (first, larger_first), *_ = SORTS[sort]
    names = [name for name, _ in SORTS[sort]]
    if not larger_first:
        return (_above(names),)
    return f"{first} = :at_{first} AND {_above(names[1:])}", f"{first} < :at_{first}"


def _above(names: list[str]) -> str:
    return f"({', '.join(names)}) > ({', '.join(f':at_{name}' for name in names)})"


_PLACE: Final = Prepared(
    text("SELECT task, priority, created_at, updated_at FROM tasks WHERE board = :board AND task = :task")
)


def _place(tx: Connection, board: str, task: str) -> dict[str, Any]:
    """Where *task* stands in every order. Raises `UnknownTask`."""
    row = _PLACE.one(tx, board=board, task=task)
    if row is None:
        raise UnknownTask(task)
    return dict(zip(("at_task", "at_priority", "at_created_at", "at_updated_at"), row, strict=True))
