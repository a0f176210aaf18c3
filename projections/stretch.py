"""How a stretch of a log moves a board: the cards and links that are others at its end, folded from a snapshot.

The folds are those of every append and of every replay, seeded with what the stretch touches and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, FromClause, select

from ledger.recorded import Recorded
from projections import tables
from projections.facts import facts_of
from projections.folding import FOLD_VERSION
from projections.rows import TASK_VALUES, task_of
from projections.task import Task
from projections.world import World

TASKS, LINKS = tables.past_tasks, tables.past_links
_CHUNK: Final = 500
_SETTLING: Final = frozenset({"completed", "reopened"})
_LINKING: Final = frozenset({"created", "linked", "unlinked"})

Row = tuple[str, str, str]
"""A link as a row: child, parent, what it requires."""


class Moved(NamedTuple):
    """What a stretch moved: cards as they are at its end, links that are new there, and links that are gone."""

    tasks: list[Task]
    linked: set[Row]
    unlinked: set[Row]


def moved(tx: Connection, board: str, snapshot: int, until: int) -> Moved:
    """What the events of *board* behind the *snapshot* (0: there is none) up to *until* moved.

    Raises `UnknownKind`, `NewerSchema` for events that this program cannot read.
    """
    stretch = list(facts_of(tx, board, after=snapshot, until=until))
    cards = {event.task for event in stretch} - {""}
    relinked = {event.task for event in stretch if event.kind in _LINKING}
    settled = {event.task for event in stretch if event.kind in _SETTLING}
    world = World()
    upwards = _links(tx, board, snapshot, child=relinked)
    downwards = _links(tx, board, snapshot, parent=settled)
    _seed_links(world, upwards | downwards)
    cards |= {child for child, _, _ in downwards}
    _seed_cards(tx, board, snapshot, world, cards)
    others = {parent for _, parent, _ in upwards} | set(_parents_named(stretch))
    _seed_outcomes(tx, board, snapshot, world, others - cards)
    world.take(stretch)
    linked = {(child, *link) for child in relinked for link in world.graph.parents.get(child, {}).items()}
    return Moved([world.task(card) or Task(card) for card in sorted(cards)], linked - upwards, upwards - linked)


def at_snapshot(
    table: FromClause, board: str, snapshot: int, *, scanned: str | None = None
) -> tuple[ColumnElement[bool], ...]:
    """Which rows of `past_tasks` or `past_links` stood at the *snapshot*: never those of another fold version.

    *scanned*: of `since` and `until`, the one by which fewer rows are read where all that stood are wanted.
    """
    since = table.c.since if scanned != "until" else table.c.since + 0  # an expression: no index is taken for it
    until = table.c.until if scanned != "since" else table.c.until + 0
    stood = since <= snapshot, until > snapshot
    return table.c.board == board, table.c.fold == FOLD_VERSION, *stood


def _parents_named(stretch: Iterable[Recorded]) -> Iterator[str]:
    for event in stretch:
        if event.kind == "created":
            yield from (parent["task"] for parent in event.facts["parents"])
        elif event.kind == "linked":
            yield event.facts["parent"]


def _seed_links(world: World, links: Iterable[Row]) -> None:
    for child, parent, require in links:
        world.graph.parents.setdefault(child, {})[parent] = require
        world.graph.children.setdefault(parent, {})[child] = require


def _seed_cards(tx: Connection, board: str, snapshot: int, world: World, cards: Iterable[str]) -> None:
    columns = [TASKS.c[name] for name in TASK_VALUES]
    for row in _among(tx, board, snapshot, columns, task=cards):
        card = task_of(row)
        world.tasks[card.id], world.graph.open[card.id] = card, card.open_parents
        world.graph.outcomes[card.id] = card.outcome


def _seed_outcomes(tx: Connection, board: str, snapshot: int, world: World, cards: Iterable[str]) -> None:
    columns = TASKS.c.task, TASKS.c.outcome
    world.graph.outcomes.update(_among(tx, board, snapshot, columns, task=cards))


def _links(tx: Connection, board: str, snapshot: int, **cards: Iterable[str]) -> set[Row]:
    return set(_among(tx, board, snapshot, (LINKS.c.child, LINKS.c.parent, LINKS.c.require), **cards))


def _among(
    tx: Connection, board: str, snapshot: int, columns: Sequence[Column[Any]], **key: Iterable[str]
) -> Iterator[Any]:
    """These *columns* of the rows at the *snapshot* whose *key*, a column, is one of those given."""
    [(name, wanted)] = key.items()
    table, names = columns[0].table, sorted(wanted) if snapshot else []
    query = select(*columns).where(*at_snapshot(table, board, snapshot))
    for start in range(0, len(names), _CHUNK):
        yield from map(tuple, tx.execute(query.where(table.c[name].in_(names[start : start + _CHUNK]))))
