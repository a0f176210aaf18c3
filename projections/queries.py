"""What dashboards and scripts ask: read-only questions over the stored projections.

Every function takes an open `Connection` and a board's name, appends nothing, and answers with plain JSON values:
instants as RFC 3339 UTC, unknown numbers as none, and the `position` of the log that the answer stands for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, func, or_, select, text, tuple_

from ledger.errors import InvalidInput, UnknownTask
from ledger.prepared import Prepared
from ledger.schema import words
from ledger.store import head, read_task
from projections import tables
from projections.read_models import load_task
from projections.rows import run_from, task_from
from projections.shown import card_json, comment_json, event_json, last_word, run_json, time_or_none
from projections.task import status as status_of
from projections.why import why

CARDS, RUNS, LINKS, LEASES, HELD, SWEEPS = (
    tables.cards, tables.runs, tables.links, tables.leases, tables.held, tables.sweeps,
)  # fmt: skip
STATUSES: Final = ("triage", "todo", "scheduled", "ready", "running", "review", "blocked", "done", "archived")
SORTS: Final[dict[str, tuple[tuple[str, bool], ...]]] = {
    "priority": (("priority", True), ("created_at", False), ("task", False)),
    "created": (("created_at", False), ("task", False)),
    "updated": (("updated_at", True), ("task", False)),
}
"""The orders of a list: columns, each with whether the larger comes first."""

__all__ = ["STATUSES", "board", "held", "list_tasks", "next_at", "runs", "show", "stats", "task", "why"]


_WORDS = Prepared(
    select(words.c.words).where(words.c.board == bindparam("board"), words.c.position == bindparam("position"))
)
_PARENTS = Prepared(
    select(LINKS.c.parent)
    .where(LINKS.c.board == bindparam("board"), LINKS.c.child == bindparam("child"))
    .order_by(LINKS.c.parent)
)


def task(tx: Connection, board: str, task_id: str) -> dict[str, Any]:
    """One card. Raises `UnknownTask`."""
    found = load_task(tx, board, task_id)
    if found is None:
        raise UnknownTask(task_id)
    places = {found.card.title_position} | ({found.hold.position} if found.hold else set())
    said = {place: json.loads(row[0]) for place in places if (row := _WORDS.one(tx, board=board, position=place))}
    above = [row[0] for row in _PARENTS.all(tx, board=board, child=task_id)]
    return card_json(found, status_of(found), said, above)


def list_tasks(
    tx: Connection,
    board: str,
    *,
    status: str | None = None,
    assignee: str | None = None,
    label: str | None = None,
    tenant: str | None = None,
    limit: int | None = 100,
    after: str | None = None,
    sort: str = "priority",
) -> dict[str, Any]:
    """Cards in one order: larger `priority` first, then older, then id (or `created`, or `updated`, newest first).

    `next` is the id to pass as *after* for the next page, none on the last. Bodies are not in lists.
    """
    conditions = _filters(status=status, assignee=assignee, label=label, tenant=tenant)
    if sort not in SORTS:
        raise InvalidInput(f"sort {sort!r} is unknown", remedy=f"one of: {', '.join(SORTS)}")
    if after is not None:
        conditions.append(_behind(tx, board, after, sort))
    found = _cards(tx, board, *conditions, order=_order(sort), limit=None if limit is None else limit + 1)
    more = limit is not None and len(found) > limit
    page = found[:limit] if more else found
    return {"tasks": page, "position": head(tx, board).position, "next": page[-1]["id"] if more and page else None}


def show(tx: Connection, board: str, task_id: str) -> dict[str, Any]:
    """One card whole: body, runs, parents, children, comments and its events. Raises `UnknownTask`."""
    found = task(tx, board, task_id)
    stream = read_task(tx, board, task_id)
    said = [event for event in stream if event.kind == "commented"]
    return {
        "task": {**found, "body": last_word(stream, "body")},
        "runs": runs(tx, board, task_id)["runs"],
        "parents": _linked(tx, board, LINKS.c.child == task_id, LINKS.c.parent),
        "children": _linked(tx, board, LINKS.c.parent == task_id, LINKS.c.child),
        "comments": [comment_json(event) for event in said],
        "events": [event_json(event) for event in stream],
    }


def runs(tx: Connection, board: str, task_id: str) -> dict[str, Any]:
    """Every run of a card, oldest first, with how it ended and what it left behind. Raises `UnknownTask`."""
    found = task(tx, board, task_id)
    query = select(RUNS, LEASES.c.lease_until.label("lease")).select_from(
        RUNS.outerjoin(
            LEASES, (LEASES.c.board == RUNS.c.board) & (LEASES.c.task == RUNS.c.task) & (LEASES.c.run == RUNS.c.run)
        )
    )
    query = query.where(RUNS.c.board == board, RUNS.c.task == task_id).order_by(RUNS.c.run)
    rows = [dict(row) for row in tx.execute(query).mappings()]
    said = _words(tx, board, [row["ended_position"] for row in rows if row["ended_position"] is not None])
    return {"task": found, "runs": [run_json(run_from(row), row["lease"], said) for row in rows]}


def board(tx: Connection, board: str) -> dict[str, Any]:
    """The board in columns, one for each status but archived: its cards, larger priority first, then older, then id."""
    columns: dict[str, list[dict[str, Any]]] = {status: [] for status in STATUSES if status != "archived"}
    for card in _cards(tx, board, CARDS.c.status != "archived", order=_order("priority")):
        columns[card["status"]].append(card)
    return {"columns": columns, "position": head(tx, board).position}


def stats(tx: Connection, board: str, now: int) -> dict[str, Any]:
    """How many cards stand where, how many runs are live, what could be claimed at *now* and since when."""
    count = select(CARDS.c.status, func.count()).where(CARDS.c.board == board).group_by(CARDS.c.status)
    by_status: dict[str, int] = {str(status): int(cards) for status, cards in tx.execute(count)}
    could = select(func.count(), func.min(CARDS.c.updated_at)).where(CARDS.c.board == board, *claimable_at(now))
    claimable, oldest = tx.execute(could).one()
    ticks = select(SWEEPS.c.host, SWEEPS.c.ticked_at, SWEEPS.c.errors).where(SWEEPS.c.board == board)
    return {
        "by_status": {status: by_status.get(status, 0) for status in STATUSES},
        "live": by_status.get("running", 0),
        "claimable": claimable,
        "oldest_ready_at": time_or_none(oldest),
        "sweeps": [
            {"host": host, "ticked_at": time_or_none(ticked), "errors": errors}
            for host, ticked, errors in tx.execute(ticks.order_by(SWEEPS.c.host))
        ],
        "position": head(tx, board).position,
    }


def held(tx: Connection, board: str) -> dict[str, list[str]]:
    """Why the last tick did not start the cards that it looked at: reason → cards."""
    query = select(HELD.c.reason, HELD.c.task).where(HELD.c.board == board).order_by(HELD.c.reason, HELD.c.task)
    reasons: dict[str, list[str]] = {}
    for reason, card in tx.execute(query):
        reasons.setdefault(reason, []).append(card)
    return reasons


def next_at(tx: Connection, board: str, now: int) -> int | None:
    """When the next card becomes claimable by time alone (microseconds UTC), or none."""
    cards = tables.tasks.c
    scheduled, cooled = func.coalesce(cards.scheduled, 0), func.coalesce(cards.not_before, 0)
    when = case((scheduled > cooled, scheduled), else_=cooled)
    waiting = select(func.min(when)).where(cards.board == board, text(tables.CLAIMABLE), when > now)
    return tx.execute(waiting).scalar()


def claimable_at(now: int) -> tuple[ColumnElement[bool], ...]:
    """RULES §3, claimable at *now*, in SQL."""
    return (
        CARDS.c.status.in_(("scheduled", "review", "ready")),
        or_(CARDS.c.scheduled.is_(None), CARDS.c.scheduled <= now),
        or_(CARDS.c.not_before.is_(None), CARDS.c.not_before <= now),
    )


def _cards(
    tx: Connection,
    board: str,
    *conditions: ColumnElement[bool],
    order: Iterable[ColumnElement[Any]] = (),
    limit: int | None = None,
) -> list[dict[str, Any]]:
    query = select(CARDS).where(CARDS.c.board == board, *conditions).order_by(*order)
    rows = [dict(row) for row in tx.execute(query if limit is None else query.limit(limit)).mappings()]
    wanted = {row["title_position"] for row in rows} | {row["hold_position"] for row in rows} - {None}
    said = _words(tx, board, sorted(wanted))
    above = _parents(tx, board, [row["task"] for row in rows])
    return [card_json(task_from(row), row["status"], said, above.get(row["task"], [])) for row in rows]


def _words(tx: Connection, board: str, positions: Sequence[int]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for start in range(0, len(positions), 500):
        page = positions[start : start + 500]
        query = select(words.c.position, words.c.words).where(words.c.board == board, words.c.position.in_(page))
        found.update((position, json.loads(text)) for position, text in tx.execute(query))
    return found


def _parents(tx: Connection, board: str, tasks: Sequence[str]) -> dict[str, list[str]]:
    above: dict[str, list[str]] = {}
    for start in range(0, len(tasks), 500):
        page = tasks[start : start + 500]
        query = select(LINKS.c.child, LINKS.c.parent).where(LINKS.c.board == board, LINKS.c.child.in_(page))
        for child, parent in tx.execute(query.order_by(LINKS.c.child, LINKS.c.parent)):
            above.setdefault(child, []).append(parent)
    return above


def _linked(
    tx: Connection, board: str, condition: ColumnElement[bool], other: ColumnElement[str]
) -> list[dict[str, Any]]:
    query = select(other, LINKS.c.require, CARDS.c.status, CARDS.c.outcome).select_from(
        LINKS.outerjoin(CARDS, (CARDS.c.board == LINKS.c.board) & (CARDS.c.task == other))
    )
    rows = tx.execute(query.where(LINKS.c.board == board, condition).order_by(other))
    return [
        {"task": card, "require": require, "status": status, "outcome": outcome}
        for card, require, status, outcome in rows
    ]


def _filters(
    *, status: str | None, assignee: str | None, label: str | None, tenant: str | None
) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if status is not None:
        if status not in STATUSES:
            raise InvalidInput(f"status {status!r} is unknown", remedy=f"one of: {', '.join(STATUSES)}")
        found.append(CARDS.c.status == status)
    if assignee is not None:
        found.append(CARDS.c.assignee.is_(None) if assignee == "none" else CARDS.c.assignee == assignee)
    if label is not None:
        each = func.json_each(CARDS.c.labels).table_valued("value")
        found.append(select(each.c.value).where(each.c.value == label).exists())
    if tenant is not None:
        found.append(CARDS.c.tenant == tenant)
    return found


def _behind(tx: Connection, board: str, after: str, sort: str) -> ColumnElement[bool]:
    (first, larger_first), *rest = ((CARDS.c[name], larger) for name, larger in SORTS[sort])
    others = [column for column, _ in rest]
    query = select(first, *others).where(CARDS.c.board == board, CARDS.c.task == after)
    place = tx.execute(query).one_or_none()
    if place is None:
        raise UnknownTask(after)
    behind = first < place[0] if larger_first else first > place[0]
    return or_(behind, and_(first == place[0], tuple_(*others) > tuple_(*place[1:])))


def _order(sort: str) -> list[ColumnElement[Any]]:
    return [CARDS.c[name].desc() if larger else CARDS.c[name] for name, larger in SORTS[sort]]
