"""The questions that a board answers; nothing here appends anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Engine

from kanban.desk import Desk
from kanban.session import Session
from ledger.clock import SECOND, rfc3339
from ledger.errors import InvalidInput, UnknownPosition, UnknownTask
from ledger.recorded import Recorded
from ledger.standing import head
from ledger.store import follow, read_task
from projections import queries
from projections.listed import Page

if TYPE_CHECKING:
    from projections.checkpoint import Checkpoint
    from projections.differences import Difference
    from projections.places import Mark
    from projections.verify import Verified

Progress = Callable[[int, int], None] | None
RECENT: Final = 30 * 86_400 * SECOND
"""How far back a board's flow is told where nobody says how far: microseconds."""


class Asked:
    """A board, as it stands or as it stood: what is asked of either."""

    name: str
    if TYPE_CHECKING:

        def look(self) -> Any:
            """One snapshot of it, as a `Desk`."""

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


class Past(Asked):
    """A board as it stood at an earlier position, equal to a rebuild that stopped there; see `projections.past`."""

    def __init__(self, engine: Engine, name: str, *, position: int, now: int) -> None:
        """*now* is the instant at which it is asked (microseconds UTC), so what had not come by then is to come."""
        self.engine = engine
        self.name = name
        self.position = position
        self.now = now

    def why(self, task: str, topic: str | None = None) -> dict[str, Any]:
        """Why the card stood where it stood, with event positions; what to run is not said of the past."""
        with self.look() as desk:
            return queries.why(desk.tx, self.name, task, now=desk.now, topic=topic, then=True)

    @contextmanager
    def look(self) -> Iterator[Desk]:
        """The board as it stood."""
        from projections.past import past

        with past(self.engine, self.name, self.position) as tx:
            yield Desk(tx, self.name, head(tx, self.name), self.now)

    def as_json(self) -> dict[str, Any]:
        """Which moment this is."""
        return {"position": self.position, "time": rfc3339(self.now)}


class Questions(Asked, Session):
    """What dashboards and people ask."""

    def as_of(self, mark: Mark) -> Past:
        """The board as it stood at *mark*: right behind that position, or at that instant.

        Raises `UnknownPosition` behind the end of the log, `InvalidInput` for an instant that has not come.
        """
        from projections.places import instant_of, place_of

        with self.look() as desk:
            if mark.number is not None and mark.number > desk.position:
                raise UnknownPosition(mark.number)
            if mark.instant is not None and mark.instant > desk.now:
                raise InvalidInput(
                    f"{rfc3339(mark.instant)} has not come yet", remedy="leave out --at to see the present"
                )
            position = place_of(desk.tx, self.name, mark)
            now = instant_of(desk.tx, self.name, max(position, 1)) if mark.instant is None else mark.instant
            return Past(self.engine, self.name, position=position, now=now)

    def differences(self, first: Mark, last: Mark | None = None) -> tuple[Past, Past, list[Difference]]:
        """What changed from *first* to *last* (none: to now), and which moments these were.

        Raises as `as_of` does, and `InvalidInput` where the second is before the first.
        """
        from projections.differences import differences
        from projections.places import Mark

        since, until = self.as_of(first), self.as_of(last or Mark(instant=self._now()))
        if until.position < since.position:
            raise InvalidInput("the second moment is before the first", remedy="give the earlier of the two first")
        return since, until, differences(self.engine, self.name, since.position, until.position)

    def _now(self) -> int:
        with self.look() as desk:
            return int(desk.now)

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
