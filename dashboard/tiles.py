"""A card as a tile of the board: what can be seen of it at a glance, in bounded fields and a few statements a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Select, select

from ledger.schema import words
from projections import tables
from projections.budgets import Budget, budgets
from projections.policy import Policy
from projections.read_models import load_settings
from projections.rows import TASK_VALUES, task_of
from projections.shown import time_or_none
from projections.task import Task, status
from projections.waiting import Wait, waits

CARDS, RUNS, LEASES, HELD = tables.cards, tables.runs, tables.leases, tables.held
LONGEST: Final = 300
"""Characters of a title or a reason on a tile; what is longer ends with an ellipsis."""
MOST_LABELS: Final = 12
NAMED_WAITS: Final = 3
_IN: Final = 500  # ids in one statement
_COULD_START: Final = frozenset({"ready", "review", "scheduled"})
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class RunTile:
    """The open run of a card. Instants are microseconds UTC."""

    run: int
    worker: str
    host: str
    claimed_at: int
    lease_until: int


@dataclass(frozen=True, slots=True)
class HoldTile:
    """Why a card is blocked; *count* and *limit* are a budget's."""

    cause: str
    kind: str | None
    reason: str | None
    sticky: bool
    count: int | None
    limit: int | None
    position: int


@dataclass(frozen=True, slots=True)
class WaitTile:
    """A parent that is not satisfied; *dead*: it never will be by itself."""

    task: str
    title: str | None
    status: str
    require: str
    dead: bool


@dataclass(frozen=True, slots=True)
class HeldTile:
    """Why the last tick did not start the card; *until*: when that ends by itself (microseconds UTC)."""

    reason: str
    until: int | None


@dataclass(frozen=True, slots=True)
class Tile:
    """A card at a glance. Instants are microseconds UTC; *title* is none once redacted.

    *budgets* are those of RULES §5 in their order, *waits* says how many parents are not satisfied, and *waits_on*
    names the first few of them.
    """

    id: str
    title: str | None
    status: str
    worker: str | None
    assignee: str | None
    reviewer: str | None
    lane: str
    priority: int
    labels: tuple[str, ...]
    tenant: str | None
    budgets: tuple[Budget, ...]
    run: RunTile | None
    hold: HoldTile | None
    held: HeldTile | None
    waits: int
    waits_on: tuple[WaitTile, ...]
    not_before: int | None
    scheduled: int | None
    outcome: str | None
    runs: int
    created_at: int
    updated_at: int
    position: int

    def budget(self, cause: str) -> Budget:
        """The budget of that name, as `failure_budget`."""
        return next(each for each in self.budgets if each.cause == cause)

    def as_json(self) -> dict[str, Any]:
        """As the API has it: instants as RFC 3339."""
        whole = {name: getattr(self, name) for name in self.__slots__}
        times = {name: time_or_none(whole[name]) for name in _INSTANTS}
        parts = {name: _part(whole[name]) for name in ("run", "hold", "held")}
        several = {name: [_part(each) for each in whole[name]] for name in ("budgets", "waits_on")}
        return whole | times | parts | several | {"labels": list(self.labels)}


_INSTANTS: Final = ("created_at", "updated_at", "not_before", "scheduled")
_INSTANTS_OF_PARTS: Final = frozenset({"claimed_at", "lease_until", "until"})


def _part(part: Any) -> dict[str, Any] | None:
    if part is None:
        return None
    values = {name: getattr(part, name) for name in part.__slots__}
    return {name: time_or_none(value) if name in _INSTANTS_OF_PARTS else value for name, value in values.items()}


def tiles(tx: Connection, board: str, ids: Sequence[str]) -> tuple[Tile, ...]:
    """The cards of these *ids*, in that order; ids that there are not are left out."""
    found = {task.id: (task, title) for task, title in _cards(tx, board, ids)}
    cards = [found[each] for each in ids if each in found]
    beside = _Beside(tx, board, [task for task, _ in cards])
    return tuple(beside.tile(task, title) for task, title in cards)


def _cards(tx: Connection, board: str, ids: Sequence[str]) -> Iterator[tuple[Task, str | None]]:
    query = select(*(CARDS.c[name] for name in TASK_VALUES), CARDS.c.title).where(CARDS.c.board == board)
    for *values, title in _each(tx, query, CARDS.c.task, ids):
        yield task_of(values), title


class _Beside:
    """What stands beside the cards of a page, each read once for all of them."""

    def __init__(self, tx: Connection, board: str, cards: Sequence[Task]) -> None:
        self._policy: Policy = load_settings(tx, board).policy
        self._runs = _runs(tx, board, [task for task in cards if task.run is not None])
        self._reasons = _reasons(tx, board, [task.hold.position for task in cards if task.hold is not None])
        self._held = _held(tx, board, [task.id for task in cards if status(task) in _COULD_START])
        self._waits = _waits(tx, board, [task.id for task in cards if task.open_parents > 0 and not task.closed])
        named = [wait.parent for found in self._waits.values() for wait in found[:NAMED_WAITS]]
        self._titles = titles(tx, board, named)

    def tile(self, task: Task, title: str | None) -> Tile:
        """*task* as a tile."""
        card, waiting = task.card, self._waits.get(task.id, [])
        return Tile(
            task.id, short(title), status(task), task.worker, card.assignee, card.reviewer, task.lane, card.priority,
            card.labels[:MOST_LABELS], card.tenant, budgets(task, self._policy), self._runs.get(task.id),
            self._hold(task), self._held.get(task.id), len(waiting), tuple(map(self._wait, waiting[:NAMED_WAITS])),
            task.not_before, task.scheduled, task.outcome, task.last_run, card.created_at, task.updated_at,
            task.position,
        )  # fmt: skip

    def _hold(self, task: Task) -> HoldTile | None:
        hold = task.hold
        if hold is None:
            return None
        reason = short(self._reasons.get(hold.position))
        return HoldTile(hold.cause, hold.kind, reason, hold.sticky, hold.count, hold.limit, hold.position)

    def _wait(self, wait: Wait) -> WaitTile:
        return WaitTile(wait.parent, self._titles.get(wait.parent), wait.status, wait.require, wait.dead)


def short(text: str | None) -> str | None:
    """*text*, no longer than a tile has room for."""
    return text if text is None or len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def titles(tx: Connection, board: str, ids: Sequence[str]) -> dict[str, str | None]:
    """The titles of these cards, short; ids that there are not are left out."""
    query = select(CARDS.c.task, CARDS.c.title).where(CARDS.c.board == board)
    return {task: short(title) for task, title in _each(tx, query, CARDS.c.task, sorted(set(ids)))}


def _runs(tx: Connection, board: str, cards: Sequence[Task]) -> dict[str, RunTile]:
    open_now = {task.id: task.run for task in cards}
    same = (LEASES.c.board == RUNS.c.board) & (LEASES.c.task == RUNS.c.task) & (LEASES.c.run == RUNS.c.run)
    shown = RUNS.c.task, RUNS.c.run, RUNS.c.worker, RUNS.c.host, RUNS.c.claimed_at, RUNS.c.lease_until
    query = select(*shown, LEASES.c.lease_until.label("renewed")).select_from(RUNS.outerjoin(LEASES, same))
    query = query.where(RUNS.c.board == board, RUNS.c.ended_by.is_(None))
    return {
        task: RunTile(run, worker, host, claimed_at, renewed or lease_until)
        for task, run, worker, host, claimed_at, lease_until, renewed in _each(tx, query, RUNS.c.task, list(open_now))
        if open_now[task] == run
    }


def _reasons(tx: Connection, board: str, positions: Sequence[int]) -> dict[int, str]:
    query = select(words.c.position, words.c.words).where(words.c.board == board)
    said = ((position, json.loads(text)) for position, text in _each(tx, query, words.c.position, positions))
    return {position: str(left["reason"]) for position, left in said if left.get("reason")}


def _held(tx: Connection, board: str, ids: Sequence[str]) -> dict[str, HeldTile]:
    query = select(HELD.c.task, HELD.c.reason, HELD.c.until).where(HELD.c.board == board)
    return {task: HeldTile(reason, until) for task, reason, until in _each(tx, query, HELD.c.task, ids)}


def _waits(tx: Connection, board: str, ids: Sequence[str]) -> Mapping[str, list[Wait]]:
    found: dict[str, list[Wait]] = {}
    for wait in waits(tx, board, ids):
        if not wait.over:
            found.setdefault(wait.child, []).append(wait)
    return found


def _each(tx: Connection, query: Select[Any], column: Any, keys: Sequence[K]) -> Iterable[Any]:
    """The rows of *query* in which *column* is one of *keys*."""
    for start in range(0, len(keys), _IN):
        yield from tx.execute(query.where(column.in_(keys[start : start + _IN])))
