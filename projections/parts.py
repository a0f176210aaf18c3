"""The audit of some cards of a board, so that several processes can share a log between them (RULES §9).

A part reads the whole log in order, folds and judges its own cards, and takes notice of others only where a judgement
asks for them. It says what was folded where nothing at all is wrong; of everything else it says only that it is in
doubt, and then one process looks at the whole log and names what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from itertools import accumulate, pairwise, starmap
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Select, and_, case, null, select

from ledger.chain import first_hash
from ledger.events import ENDINGS
from ledger.recorded import Recorded, valid
from ledger.schema import events, words
from ledger.standing import Head
from ledger.store import at_position
from projections import tables
from projections.chained import Stretch
from projections.compared import SHAPES, Cards, Comparison
from projections.legality import REMEMBERED, Judge
from projections.logged import log_of
from projections.past import past
from projections.raw import pages
from projections.replay_event import FOLDED, decoded
from projections.window import Window
from projections.world import World

_TYPES: Final[dict[str, frozenset[type]]] = {
    **dict.fromkeys(("position", "version", "schema", "at"), frozenset({int})),
    "task": frozenset({str}),
    "run": frozenset({int, type(None)}),
}
"""What a column holds that a fold reckons with."""
_A_CARD: Final = 4
"""Events: what the rows of a card cost beside those that it has."""


class Doubt(Exception):
    """Something is wrong, or cannot be told by who sees a part: one process has to look at the whole log."""


class Part(NamedTuple):
    """What one process looks at: these *cards*, and the chain of the events behind *after* up to *upto*.

    *task*: only that card's rows are compared. *until*, *strict* and *chain* are those of a replay.
    """

    board: str
    last: Head
    until: int | None
    strict: bool
    chain: bool
    task: str | None
    cards: Cards
    after: int
    upto: int

    @property
    def end(self) -> int:
        """Where the log ends for this replay."""
        return self.last.position if self.until is None else min(self.until, self.last.position)

    @property
    def cut(self) -> bool:
        """Whether the log goes on behind that."""
        return self.end < self.last.position


class Seen(NamedTuple):
    """What a part says: all that it looked at is as it must be. *at* and *hash* are those of the event at `upto`."""

    events: int
    cards: int
    known: bool
    """Whether the card that is reported on is one of its own."""
    worded: int
    wordless: tuple[int, ...]
    at: int
    hash: str


def divided(tx: Connection, whole: Part, shares: list[float]) -> list[Part]:
    """*whole* as parts that have about as much to do as their *shares* say; fewer where there are fewer cards.

    By the cards that are stored, which is a hint only: together the parts hold every card that there may be.
    """
    steps = [reached / sum(shares) for reached in accumulate(shares[:-1])]
    bounds = _bounds(_weights(tx, whole.board), steps)
    ranges = starmap(Cards, pairwise([None, *bounds, None]))
    stretches = pairwise([0, *(round(whole.end * step) for step in steps[: len(bounds)]), whole.end])
    return [
        whole._replace(cards=cards, after=after, upto=upto)
        for cards, (after, upto) in zip(ranges, stretches, strict=True)
    ]


def _weights(tx: Connection, board: str) -> list[tuple[str, int]]:
    cards = tables.tasks.c
    query = select(cards.task, cards.version).where(cards.board == board).order_by(cards.task)
    found = (row for page in pages(tx, query) for row in page)
    return [(task, version + _A_CARD) for task, version in found if type(task) is str and type(version) is int]


def _bounds(weights: list[tuple[str, int]], steps: list[float]) -> list[str]:
    """The cards at which these shares of the whole weight are reached; the last one at least, if there are any."""
    whole, reached, bounds = sum(weight for _, weight in weights), 0, list[str]()
    for task, weight in weights:
        if len(bounds) < len(steps) and reached + weight / 2 >= whole * steps[len(bounds)]:
            bounds.append(task)
        reached += weight
    return bounds or [task for task, _ in weights[-1:]]


def look(
    tx: Connection, engine: Engine, part: Part, *, said: Callable[[int, bytes], None], heard: Callable[[int], None]
) -> Seen:
    """What stands in *part*, if all of it is as it must be.

    *said* is given what is digested of its rows, with the number of their table in `SHAPES`. *heard* is told how many
    events are done, and may raise to end it. Raises `Doubt`.
    """
    try:
        chain = _chained(tx, part) if part.chain else _ordered(tx, part)
        looking = _Looking(tx, part)
        with closing(looking.moment):
            looking.read(heard)
        looking.compare(engine, said)
    except Doubt:
        raise
    except Exception as fault:  # whatever it is, the whole log has to be looked at
        raise Doubt(str(fault)) from fault
    known = part.task is not None and part.task in part.cards and part.task in looking.world.tasks
    digest = chain.hash.hex() if part.chain else ""
    return Seen(looking.events, looking.cards, known, chain.worded, tuple(chain.wordless), chain.at, digest)


def _chained(tx: Connection, part: Part) -> Stretch:
    """Hashes, words and order of the stretch."""
    chain = _begun(tx, part)
    with closing(pages(tx, log_of(part.board, after=part.after, until=part.upto))) as log:
        for page in log:
            for row in page:
                chain.take(row)
            if chain.found:
                raise Doubt(chain.found[0].text)
    return _ended(chain, part)


def _ordered(tx: Connection, part: Part) -> Stretch:
    """Its order alone. Positions are numbers (each part looks at its own) and differ: so many of them have no hole."""
    chain = _begun(tx, part)
    log = log_of(part.board, after=part.after, until=part.upto, wanted=frozenset({"at"}))
    with closing(pages(tx, log.with_only_columns(events.c.at))) as found:
        for page in found:
            instants = [chain.at, *(at for (at,) in page)]
            if instants != sorted(instants):
                raise Doubt(f"an instant behind position {chain.position} is before that of the event before it")
            chain.position, chain.at = chain.position + len(page), instants[-1]
    return _ended(chain, part)


def _begun(tx: Connection, part: Part) -> Stretch:
    if part.after == 0:
        return Stretch(position=0, at=0, stored=first_hash(part.last.board_id))
    before = at_position(tx, part.board, part.after)
    if before is None:
        raise Doubt(f"no event stands at position {part.after}")
    return Stretch(position=part.after, at=before.at, stored=before.hash)


def _ended(chain: Stretch, part: Part) -> Stretch:
    if chain.position != part.upto:
        raise Doubt(f"the log ends at {chain.position}")
    return chain


class _Looking:
    """The fold and the judgement of a part's own cards."""

    def __init__(self, tx: Connection, part: Part) -> None:
        self.tx, self.part = tx, part
        self.world = World(in_place=True)
        self.moment = Window(self.world, tx, part)
        self.judge = Judge(self.world, self.moment)
        self.count = 0

    @property
    def events(self) -> int:
        """How many events are its own: the board's are those of the first part."""
        return self.count - (0 if self.part.cards.low is None else self.world.settings.version)

    @property
    def cards(self) -> int:
        """How many cards are its own."""
        return sum(name in self.part.cards for name in self.world.tasks)

    def read(self, heard: Callable[[int], None]) -> None:
        """Take every event of the part's cards, and of the board itself."""
        with closing(pages(self.tx, self._query())) as log:
            for page in log:
                _check_types(page)
                told = list(map(decoded, page))
                self._take(told)
                if self.part.strict:
                    _validate(told)
                if self.judge.found:
                    raise Doubt(self.judge.found[0].text)
                self.count += len(page)
                heard(self.count)
        self.moment.end()
        goes_on = self.part.cut and self.moment.now == self.part.end
        if self.judge.dues and not goes_on:
            raise Doubt("what had to follow an event does not")
        if self.world.settings.board_id != self.part.last.board_id:
            raise Doubt("the board's id is another")

    def compare(self, engine: Engine, said: Callable[[int, bytes], None]) -> None:
        """The part's rows beside those that are stored."""
        part = self.part
        comparison = Comparison(self.world, task=part.task, unread=frozenset(), cards=part.cards)
        with past(engine, part.board, part.end) if part.cut else nullcontext(self.tx) as stored:
            for number, shape in enumerate(SHAPES):
                comparison.table(shape, partial(pages, stored), part.board, partial(said, number))
        if comparison.found:
            raise Doubt(comparison.found[0].text)

    def _query(self) -> Select[Any]:
        part = self.part
        columns = [events.c[name] for name in (*FOLDED[:-2], "facts")]
        log = log_of(part.board, until=part.until, wanted=frozenset({"words"}) if part.strict else frozenset())
        mine = case((events.c.task == "", 1), (and_(*part.cards.bounds(events.c.task)), 1), else_=0)
        return log.where(mine == 1).with_only_columns(*columns, words.c.words if part.strict else null())

    def _take(self, told: list[Recorded]) -> None:
        world, judge, moment = self.world, self.judge, self.moment
        tasks, before, evolve, after = world.tasks, judge.before, world.evolve_known, judge.after
        for event in told:
            name = event.task
            card = tasks.get(name)
            version = card.version if card is not None else world.settings.version if name == "" else 0
            if event.version != version + 1:
                raise Doubt(f"version {event.version} of {name} after {version}")
            if judge.dues and event.position != moment.now + 1:
                raise Doubt("what had to follow an event does not")
            moment.now = event.position
            was = card.frozen() if card is not None and event.kind in ENDINGS else card
            before(event, card)
            evolve(event, card)
            if event.kind in REMEMBERED:
                after(event, was)


def _validate(told: list[Recorded]) -> None:
    """Every field through Pydantic."""
    for event in told:
        wrong = valid(event)
        if wrong is not None:
            raise Doubt(wrong)


def _check_types(page: Sequence[tuple[Any, ...]]) -> None:
    """Numbers are numbers and names are texts."""
    for place, column in enumerate(zip(*page, strict=True)):
        wanted = _TYPES.get(FOLDED[place])
        if wanted is not None and not wanted.issuperset(map(type, column)):
            raise Doubt("a column holds another type")
