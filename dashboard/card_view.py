"""One card whole, as its page shows it: body, runs, why, budgets, its neighbours, and the newest of its events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, select

from dashboard.tiles import Tile, short, tiles
from ledger.errors import UnknownTask
from ledger.recorded import Recorded, check_text
from ledger.standing import head
from ledger.store import at_position, read_task
from projections import queries, tables
from projections.read_models import load_task
from projections.shown import event_json
from projections.task import Task

CARDS, LINKS = tables.cards, tables.links
MOST_EVENTS: Final = 200
"""Events of a card that are shown at once, the newest."""
MOST_KIN: Final = 60
"""Parents, and children, that are shown of a card."""
LONGEST_BODY: Final = 64 * 1024
"""Characters of a body, and of each text of an event, that a page shows."""


@dataclass(frozen=True, slots=True)
class Kin:
    """A card that another waits for: *steps* 1 is a parent or a child, 2 a grandparent or a grandchild.

    *near* is the card through which it is kin (for steps 1: the card itself); the link's *require* is `ok` or `any`.
    """

    task: str
    title: str | None
    status: str
    outcome: str | None
    require: str
    near: str
    steps: int


@dataclass(frozen=True, slots=True)
class CardView:
    """A card whole, at *position* of the log. *earlier*: how many of its events stand before the first of *events*."""

    tile: Tile
    body: str | None
    cut: bool
    parents: tuple[Kin, ...]
    children: tuple[Kin, ...]
    runs: tuple[dict[str, Any], ...]
    why: dict[str, Any]
    events: tuple[Recorded, ...]
    earlier: int
    position: int

    def as_json(self) -> dict[str, Any]:
        """As the API has it."""
        return {
            "task": {**self.tile.as_json(), "body": self.body, "cut": self.cut},
            "parents": [_kin_json(kin) for kin in self.parents],
            "children": [_kin_json(kin) for kin in self.children],
            "runs": list(self.runs),
            "why": self.why,
            "events": [event_json(event) for event in self.events],
            "earlier": self.earlier,
            "position": self.position,
        }


def card_view(tx: Connection, board: str, task: str, *, now: int, then: bool = False) -> CardView:
    """The card *task* whole; *now* (microseconds UTC) is for `why`; *then*: of the past. Raises `UnknownTask`."""
    check_text("task", task)
    stored = load_task(tx, board, task)
    if stored is None:
        raise UnknownTask(task)
    (tile,) = tiles(tx, board, [task])
    body = _body(tx, board, stored)
    events = read_task(tx, board, task, after=max(stored.version - MOST_EVENTS, 0))
    return CardView(
        tile,
        body if body is None else body[:LONGEST_BODY],
        body is not None and len(body) > LONGEST_BODY,
        _kin(tx, board, task, up=True),
        _kin(tx, board, task, up=False),
        tuple(queries.runs(tx, board, task)["runs"]),
        queries.why(tx, board, task, now=now, then=then),
        tuple(events),
        stored.version - len(events),
        head(tx, board).position,
    )


def _body(tx: Connection, board: str, task: Task) -> str | None:
    told = at_position(tx, board, task.card.body_position)
    body = None if told is None else told.words.get("body")
    return None if body is None else str(body)


def _kin(tx: Connection, board: str, task: str, *, up: bool) -> tuple[Kin, ...]:
    """Two generations, the nearer first."""
    near = list(_next_of(tx, board, [task], up=up, steps=1))[:MOST_KIN]
    known = {task, *(kin.task for kin in near)}
    far = _next_of(tx, board, [kin.task for kin in near], up=up, steps=2)
    return (*near, *[kin for kin in far if kin.task not in known][: MOST_KIN - len(near)])


def _next_of(tx: Connection, board: str, cards: Sequence[str], *, up: bool, steps: int) -> Iterator[Kin]:
    mine, other = (LINKS.c.child, LINKS.c.parent) if up else (LINKS.c.parent, LINKS.c.child)
    same: ColumnElement[bool] = (CARDS.c.board == LINKS.c.board) & (CARDS.c.task == other)
    query = select(other, CARDS.c.title, CARDS.c.status, CARDS.c.outcome, LINKS.c.require, mine)
    query = query.select_from(LINKS.outerjoin(CARDS, same)).where(LINKS.c.board == board, mine.in_(cards))
    for found, title, status, outcome, require, near in tx.execute(query.order_by(mine, other).limit(2 * MOST_KIN)):
        yield Kin(found, short(title), status or "unknown", outcome, require, near, steps)


def _kin_json(kin: Kin) -> dict[str, Any]:
    return {name: getattr(kin, name) for name in kin.__slots__}
