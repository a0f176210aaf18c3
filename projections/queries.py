"""What dashboards and scripts ask: read-only questions over the stored projections.

Every function takes an open `Connection` and a board's name, appends nothing, and answers with plain JSON values:
instants as RFC 3339 UTC, unknown numbers as none, and the `position` of the log that the answer stands for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Unpack

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, func, or_, select, text

from ledger.errors import UnknownTask
from ledger.prepared import Prepared
from ledger.schema import words
from ledger.standing import head
from ledger.store import read_task
from projections import tables
from projections.listed import LINES, SHOWN, STATUSES, Filters, Page, everyone_open, page
from projections.rows import run_from
from projections.shown import (
    CARD_COLUMNS,
    card_json,
    comment_json,
    event_json,
    last_word,
    run_json,
    time_or_none,
)
from projections.why import why

CARDS, RUNS, LINKS, LEASES, HELD, SWEEPS = (
    tables.cards, tables.runs, tables.links, tables.leases, tables.held, tables.sweeps,
)  # fmt: skip
__all__ = ["STATUSES", "board", "cards", "held", "list_tasks", "next_at", "runs", "show", "stats", "task", "why"]


_CARD = Prepared(text(f"SELECT {CARD_COLUMNS} FROM cards WHERE board = :board AND task = :task"))  # noqa: S608


def task(tx: Connection, board: str, task_id: str) -> dict[str, Any]:
    """One card. Raises `UnknownTask`."""
    found = _CARD.one(tx, board=board, task=task_id)
    if found is None:
        raise UnknownTask(task_id)
    return card_json(found)


def list_tasks(tx: Connection, board: str, **filters: Unpack[Filters]) -> dict[str, Any]:
    """Cards in one order: larger `priority` first, then older, then id (or `created`, or `updated`, newest first).

    `next` is the id to pass as *after* for the next page, none on the last. Bodies are not in lists.
    """
    found, following = page(tx, board, SHOWN, **filters)
    return {"tasks": found, "position": head(tx, board).position, "next": following}


def cards(tx: Connection, board: str, **filters: Unpack[Filters]) -> Page:
    """The same list as lean rows, for programs that show many cards: see `Listed`."""
    found, following = page(tx, board, LINES, **filters)
    return Page(found, head(tx, board).position, following)


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
    for card in everyone_open(tx, board):
        columns[card["status"]].append(card)
    return {"columns": columns, "position": head(tx, board).position}


def stats(tx: Connection, board: str, now: int) -> dict[str, Any]:
    """How many cards stand where, how many runs are live, what could be claimed at *now* and since when."""
    could = case((and_(*claimable_at(now)), CARDS.c.updated_at))
    counted = select(CARDS.c.status, func.count(), func.count(could), func.min(could))  # in one walk of the board
    rows = tx.execute(counted.where(CARDS.c.board == board).group_by(CARDS.c.status)).all()
    by_status: dict[str, int] = {status: cards for status, cards, _, _ in rows}
    claimable, oldest = (
        sum(cards for _, _, cards, _ in rows),
        min((at for *_, at in rows if at is not None), default=None),
    )
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
    found: int | None = _NEXT_AT.one(tx, board=board, now=now)[0]
    return found


def claimable_at(now: int) -> tuple[ColumnElement[bool], ...]:
    """RULES §3, claimable at *now*, in SQL."""
    return (
        CARDS.c.status.in_(("scheduled", "review", "ready")),
        or_(CARDS.c.scheduled.is_(None), CARDS.c.scheduled <= now),
        or_(CARDS.c.not_before.is_(None), CARDS.c.not_before <= now),
    )


def _words(tx: Connection, board: str, positions: Sequence[int]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for start in range(0, len(positions), 500):
        page = positions[start : start + 500]
        query = select(words.c.position, words.c.words).where(words.c.board == board, words.c.position.in_(page))
        found.update((position, json.loads(text)) for position, text in tx.execute(query))
    return found


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


def _next_at() -> Prepared:
    cards = tables.tasks.c
    scheduled, cooled = func.coalesce(cards.scheduled, 0), func.coalesce(cards.not_before, 0)
    when = case((scheduled > cooled, scheduled), else_=cooled)
    timed = cards.board == bindparam("board"), text(tables.TIMED)
    return Prepared(select(func.min(when)).where(*timed, when > bindparam("now")))


_NEXT_AT = _next_at()
