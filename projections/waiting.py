"""What cards wait for: their links with the parents' own standing, and the first thing that must happen (RULES §3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from projections import tables
from projections.graph import dead, satisfied

LINKS, CARDS = tables.links, tables.cards
_PAGE: Final = 500


class Wait(NamedTuple):
    """A link with its parent as it stands: *status* `unknown` where there is no such card.

    *over*: the parent satisfies the link. *dead*: only a person can change that it does not. *hold* is the cause of the
    hold that keeps the parent; *position* is that of the hold, else of the parent's last event.
    """

    child: str
    parent: str
    require: str
    status: str
    outcome: str | None
    hold: str | None
    over: bool
    dead: bool
    position: int


def waits(tx: Connection, board: str, children: Sequence[str]) -> list[Wait]:
    """Every link of *children*, satisfied or not, by child and parent."""
    found: list[Wait] = []
    for start in range(0, len(children), _PAGE):
        above = (LINKS.c.board == CARDS.c.board) & (LINKS.c.parent == CARDS.c.task)
        query = select(
            LINKS.c.child, LINKS.c.parent, LINKS.c.require, CARDS.c.status, CARDS.c.outcome, CARDS.c.archived,
            CARDS.c.hold_cause, CARDS.c.hold_position, CARDS.c.position,
        ).select_from(LINKS.outerjoin(CARDS, above))  # fmt: skip
        mine = LINKS.c.board == board, LINKS.c.child.in_(children[start : start + _PAGE])
        found += [_wait(row) for row in tx.execute(query.where(*mine).order_by(LINKS.c.child, LINKS.c.parent))]
    return found


def _wait(row: Any) -> Wait:
    over = satisfied(row.outcome, row.require)
    never = dead(row.outcome, row.require, archived=bool(row.archived), known=row.status is not None)
    held = row.hold_cause if row.status == "blocked" else None
    position = (row.position if held is None else row.hold_position) or 0
    stands = row.status or "unknown"
    return Wait(row.child, row.parent, row.require, stands, row.outcome, held, over, never, position)


class Cause(NamedTuple):
    """Something that must happen before a card can start: the links that lead to it from that card, in order.

    *ring*: the last link closes a ring, and nothing in it can ever happen.
    """

    path: tuple[Wait, ...]
    ring: bool

    @property
    def wait(self) -> Wait:
        """The link to the card that must move first."""
        return self.path[-1]


def causes(tx: Connection, board: str, task: str) -> list[Cause]:
    """All that must happen before *task* can start, the first to be seen to first.

    What never happens without a person (a dead parent, a ring) stands before what waits for one (a hold, triage),
    that before what a tick could start, and last what runs already; then the shorter way, then the id.
    """
    above, came_from = _upwards(tx, board, task)
    ends: dict[tuple[str, str], Wait] = {}
    for wait in (wait for found in above.values() for wait in found if _ends(wait)):
        ends.setdefault((wait.parent, wait.child if wait.dead else ""), wait)
    found = [Cause(_path(wait, came_from), ring=False) for wait in ends.values()]
    if (closing := _ring(above)) is not None:
        found.append(Cause((*_path(closing[0], came_from), *closing[1:]), ring=True))
    return sorted(found, key=_urgency)


def _upwards(tx: Connection, board: str, task: str) -> tuple[dict[str, list[Wait]], dict[str, Wait]]:
    """The links that are not satisfied of *task* and of every waiting card above it, and how each of these was met."""
    above: dict[str, list[Wait]] = {task: []}
    came_from: dict[str, Wait] = {}
    frontier = [task]
    while frontier:
        found = [wait for wait in waits(tx, board, frontier) if not wait.over]
        frontier = []
        for wait in found:
            above[wait.child].append(wait)
            if not _ends(wait) and wait.parent not in above:
                above[wait.parent], came_from[wait.parent] = [], wait
                frontier.append(wait.parent)
    return above, came_from


def _ends(wait: Wait) -> bool:
    """Whether no card above that parent has a part in it."""
    return wait.dead or wait.status != "todo"


def _path(wait: Wait, came_from: Mapping[str, Wait]) -> tuple[Wait, ...]:
    path = [wait]
    while path[-1].child in came_from:
        path.append(came_from[path[-1].child])
    return tuple(reversed(path))


def _ring(above: Mapping[str, list[Wait]]) -> list[Wait] | None:
    """The links of a ring of waiting cards, in order; none where there is none."""
    inner = {child: [wait for wait in found if not _ends(wait)] for child, found in above.items()}
    free = [child for child, found in inner.items() if not found]
    waiting_for = _by_parent(wait for found in inner.values() for wait in found)
    left = {child: len(found) for child, found in inner.items()}
    while free:
        for child in waiting_for.get(free.pop(), ()):
            left[child] -= 1
            free += [child] if not left[child] else []
    here = next((child for child, count in left.items() if count), None)
    return None if here is None else list(_around(here, inner, left))


def _around(here: str, inner: Mapping[str, list[Wait]], left: Mapping[str, int]) -> Iterator[Wait]:
    """The links of the ring that is met on the way up from *here*."""
    walked: dict[str, Wait] = {}
    while here not in walked:
        walked[here] = next(wait for wait in inner[here] if left[wait.parent])
        here = walked[here].parent
    first = here
    while True:
        yield walked[here]
        here = walked[here].parent
        if here == first:
            return


def _by_parent(found: Iterable[Wait]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for wait in found:
        children.setdefault(wait.parent, []).append(wait.child)
    return children


_RANKS: Final = {"blocked": 1, "triage": 2, "running": 4}


def _urgency(cause: Cause) -> tuple[int, int, str]:
    wait = cause.wait
    rank = 0 if wait.dead or cause.ring else _RANKS.get(wait.status, 3)
    return rank, len(cause.path), wait.parent
