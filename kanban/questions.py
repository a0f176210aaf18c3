"""The questions that a board answers; nothing here appends anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kanban.session import Session
from ledger.clock import SECOND
from ledger.errors import UnknownTask
from ledger.recorded import Recorded
from ledger.store import follow, read_task
from projections import queries
from projections.listed import Page

if TYPE_CHECKING:
    from projections.checkpoint import Checkpoint
    from projections.places import Mark
    from projections.verify import Verified

Progress = Callable[[int, int], None] | None
RECENT: Final = 30 * 86_400 * SECOND
"""How far back a board's flow is told where nobody says how far: microseconds."""


class Questions(Session):
    """What dashboards and people ask."""

    def why(self, task: str, topic: str | None = None) -> dict[str, Any]:
        """Why the card stands where it stands, with event positions and what to run next."""
        with self.look() as desk:
            return queries.why(desk.tx, self.name, task, now=desk.now, topic=topic)

    def show(self, task: str) -> dict[str, Any]:
        """One card whole."""
        with self.look() as desk:
            return queries.show(desk.tx, self.name, task)

    def tasks(self, **filters: Any) -> dict[str, Any]:
        """Cards in one order, filtered; see `projections.queries.list_tasks`."""
        with self.look() as desk:
            return queries.list_tasks(desk.tx, self.name, **filters)

    def cards(self, **filters: Any) -> Page:
        """The same cards as lean rows; see `projections.queries.cards`."""
        with self.look() as desk:
            return queries.cards(desk.tx, self.name, **filters)

    def columns(self) -> dict[str, Any]:
        """The board in columns."""
        with self.look() as desk:
            return queries.board(desk.tx, self.name)

    def stats(self) -> dict[str, Any]:
        """How many cards stand where."""
        with self.look() as desk:
            return queries.stats(desk.tx, self.name, desk.now)

    def flow(self, between: tuple[Mark, Mark] | None = None) -> dict[str, Any]:
        """What was done, how fast and at what cost, *between* two places of the log (none: in the last 30 days).

        Raises `InvalidInput` where the second place stands before the first.
        """
        from projections.places import Mark, stretch_between
        from projections.statistics import flow

        with self.look() as desk:
            first, last = between or (Mark(instant=desk.now - RECENT), Mark())
            return flow(desk.tx, self.name, stretch_between(desk.tx, self.name, first, last))

    def runs(self, task: str) -> dict[str, Any]:
        """Every run of a card."""
        with self.look() as desk:
            return queries.runs(desk.tx, self.name, task)

    def events(self, task: str | None = None, *, after: int = 0) -> Iterator[Recorded]:
        """The log after position *after*, or one card's stream, in order; no transaction is open while it is used."""
        if task is None:
            yield from follow(self.engine, self.name, after=after, wait=lambda: False)
            return
        with self.look() as desk:
            if desk.task(task) is None:
                raise UnknownTask(task)
            stream = read_task(desk.tx, self.name, task)
        yield from (event for event in stream if event.position > after)

    def verify(self, *, since: Sequence[Checkpoint] = (), fold: bool = True, progress: Progress = None) -> Verified:
        """Whether the log is what was once appended, by its chain and by older checkpoints (RULES §10)."""
        from projections.verify import verify

        return verify(self.engine, self.name, since=since, fold=fold, progress=progress)

    def checkpoint(self, *, progress: Progress = None) -> Checkpoint:
        """Where the log stands, to be kept elsewhere. Raises `Unsound` for a log that is broken."""
        from projections.checkpoint import checkpoint

        return checkpoint(self.engine, self.name, progress=progress)

    def follow(self, *, after: int = 0) -> Iterator[Recorded]:
        """The log after *after*, for ever."""
        return follow(self.engine, self.name, after=after)
