"""What a judgement asks of cards that another process folds: looked up in the log, up to that moment (RULES §9)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Select, and_, case, null

from ledger.events import ENDINGS
from ledger.recorded import Recorded
from ledger.schema import events
from projections.logged import log_of
from projections.moment import Moment
from projections.raw import pages
from projections.replay_event import FOLDED, decoded
from projections.world import World

if TYPE_CHECKING:
    from projections.parts import Part

_OF_CARDS: Final = frozenset({"created", "linked", "unlinked", "completed", "reopened", "archived"})
"""The kinds by which a card comes to be, is a parent or a child, and is open or closed."""
_OF_RUNS: Final = ENDINGS | {"claimed"}
_SAID: Final = frozenset({"created", "linked", "unlinked", "claimed"})
"""Those among them whose facts say more than the kind."""


class Window(Moment):
    """A moment that looks up cards and runs of other parts where it is asked for them, up to that moment."""

    def __init__(self, world: World, tx: Connection, part: Part) -> None:
        super().__init__(world)
        self.now = 0
        """The position of the event under judgement."""
        self._claims: set[tuple[str, int]] = set()
        self._of_cards = _Others(tx, part, _OF_CARDS, self._take_card)
        self._of_runs = _Others(tx, part, _OF_RUNS, self._take_run)

    def look_at_cards(self) -> None:
        self._of_cards.take(self.now)

    def look_at_runs(self) -> None:
        self._of_runs.take(self.now)

    def had_run(self, task: str, number: int) -> bool:
        return super().had_run(task, number) or (task, number) in self._claims

    def end(self) -> None:
        """No event is judged any more: what was asked for is brought up to the end of the log."""
        self._of_cards.end()
        self._of_runs.end()

    def close(self) -> None:
        """Nothing is looked up any more, and no ring keeps the whole world from going as soon as it is not needed."""
        for others in (self._of_cards, self._of_runs):
            others.close()
        del self._of_cards, self._of_runs

    def _take_card(self, event: Recorded) -> None:
        self.world.evolve(event)
        if event.kind == "created":
            self.take(event)

    def _take_run(self, event: Recorded) -> None:
        self.take(event)
        if event.kind == "claimed":
            self._claims.add((event.task, event.run or 0))


class _Others:
    """The events of some *kinds* of all other cards, read from the first time that they are asked for."""

    def __init__(self, tx: Connection, part: Part, kinds: frozenset[str], taken: Callable[[Recorded], None]) -> None:
        self._tx, self._part, self._kinds, self._taken = tx, part, kinds, taken
        self._rows: Generator[Recorded, None, None] | None = None
        self._next: Recorded | None = None

    def take(self, until: int) -> None:
        """Take those that stand before position *until*."""
        if self._rows is None:
            self._rows = self._read()
            self._next = next(self._rows, None)
        while self._next is not None and self._next.position < until:
            self._taken(self._next)
            self._next = next(self._rows, None)

    def end(self) -> None:
        """Take the rest, if any was asked for."""
        if self._rows is not None:
            self.take(self._part.end + 1)

    def close(self) -> None:
        """Let the cursor go."""
        if self._rows is not None:
            self._rows.close()

    def _read(self) -> Generator[Recorded, None, None]:
        with closing(pages(self._tx, self._query())) as found:
            for page in found:
                yield from map(decoded, page)

    def _query(self) -> Select[Any]:
        part, told = self._part, events.c.kind.in_(sorted(_SAID & self._kinds))
        columns = [events.c[name] for name in FOLDED[:-2]]
        theirs = case((events.c.task == "", 0), (and_(*part.cards.bounds(events.c.task)), 0), else_=1)
        log = log_of(part.board, until=part.until, wanted=frozenset())
        facts = case((told, events.c.facts), else_="{}")
        return log.where(events.c.kind.in_(sorted(self._kinds)), theirs == 1).with_only_columns(*columns, facts, null())
