"""Two moments of a board side by side: which cards changed between them, how, and by which events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, bindparam, select, text

from ledger.recorded import Recorded
from projections import tables
from projections.facts import facts_of
from projections.past import past
from projections.read_models import load_settings
from projections.settings import Settings
from projections.shown import CARD_COLUMNS, card_json

LINKS: Final = tables.links
_CHUNK: Final = 500
_ALWAYS: Final = frozenset({"id", "version", "updated_at", "position"})
"""What differs after every event, and says nothing."""
_SETTLING: Final = frozenset({"completed", "reopened"})
_CARDS: Final = text(f"SELECT {CARD_COLUMNS} FROM cards WHERE board = :board AND task IN :cards").bindparams(  # noqa: S608
    bindparam("cards", expanding=True)
)


class Change(NamedTuple):
    """A field that is another: what it was and what it is, none where there was no card."""

    before: Any
    after: Any


class Difference(NamedTuple):
    """A card that changed, or the board itself (*task* empty): its fields, and the events that made it so, in order.

    An event of another card is the end of a parent, or its return. *title* is the later one.
    """

    task: str
    title: str | None
    changes: dict[str, Change]
    events: list[Recorded]

    @property
    def is_new(self) -> bool:
        """Whether there was no such card before."""
        return "created_at" in self.changes

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; an event as its position, card, kind, run and outcome."""
        told = ("position", "task", "kind", "run", "outcome")
        return {
            "task": self.task or None,
            "title": self.title,
            "changes": {name: {"from": each.before, "to": each.after} for name, each in self.changes.items()},
            "events": [{name: getattr(event, name) for name in told} for event in self.events],
        }


def differences(engine: Engine, board: str, first: int, last: int) -> list[Difference]:
    """What the events behind position *first* up to *last* changed: the board itself first, then cards by id.

    A card that came to the same again is told with its events and no change. Raises as `past` does.
    """
    with past(engine, board, last) as after:
        moving = _Moving(facts_of(after, board, after=first, until=last))
        with past(engine, board, first) as before:
            waiting = _waiting(board, moving.settled, before, after)
            settings = load_settings(before, board), load_settings(after, board)
            cards = sorted(moving.cards | waiting.keys())
            pairs = zip(cards, _cards(before, board, cards), _cards(after, board, cards), strict=True)
            found = [_of_card(card, was, now, *moving.of(card, waiting.get(card, ()))) for card, was, now in pairs]
    return [*_of_board(*settings, moving.of("")[0]), *(each for each in found if each.changes or each.events)]


class _Moving:
    """The events of a stretch by card; the end of a parent, or its return, moves the cards that wait for it too."""

    def __init__(self, stretch: Iterable[Recorded]) -> None:
        self._events: defaultdict[str, list[Recorded]] = defaultdict(list)
        for event in stretch:
            self._events[event.task].append(event)
        self.cards = self._events.keys() - {""}
        self.settled = {card for card in self.cards if any(each.kind in _SETTLING for each in self._events[card])}

    def of(self, card: str, parents: Iterable[str] = ()) -> tuple[list[Recorded], list[Recorded]]:
        """A card's own events, and those of its *parents* that may have moved it."""
        above = [event for parent in parents for event in self._events.get(parent, ()) if event.kind in _SETTLING]
        return self._events.get(card, []), above


def _of_card(
    card: str, was: Mapping[str, Any], now: Mapping[str, Any], own: list[Recorded], above: list[Recorded]
) -> Difference:
    changes = dict(_changes(was, now))
    by = sorted([*own, *above], key=attrgetter("position")) if "status" in changes else own
    return Difference(card, now.get("title"), changes, by)


def _of_board(was: Settings, now: Settings, own: list[Recorded]) -> Iterator[Difference]:
    if own:
        yield Difference("", now.name, dict(_changes(_of_settings(was), _of_settings(now))), own)


def _of_settings(settings: Settings) -> dict[str, Any]:
    return {**settings.policy._asdict(), "paused": [pause._asdict() for pause in settings.pauses]}


def _changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Change]]:
    for name, value in now.items():
        before = was.get(name)
        if name not in _ALWAYS and before != value and (was or value not in (None, [], 0, False)):
            yield name, Change(before, value)


def _waiting(board: str, settled: set[str], *moments: Connection) -> dict[str, set[str]]:
    """The cards that wait, at any of the *moments*, for those that are *settled*, and for which of them."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for some in _chunks(sorted(settled)):
        query = select(LINKS.c.child, LINKS.c.parent).where(LINKS.c.board == board, LINKS.c.parent.in_(some))
        for child, parent in chain.from_iterable(tx.execute(query) for tx in moments):
            found[child].add(parent)
    return found


def _cards(tx: Connection, board: str, cards: list[str]) -> list[dict[str, Any]]:
    """The *cards*, in order; empty for one that is not there."""
    found: dict[str, dict[str, Any]] = {}
    for some in _chunks(cards):
        found.update((row[0], card_json(tuple(row))) for row in tx.execute(_CARDS, {"board": board, "cards": some}))
    return [found.get(card, {}) for card in cards]


def _chunks(cards: list[str]) -> Iterator[list[str]]:
    return (cards[start : start + _CHUNK] for start in range(0, len(cards), _CHUNK))
