"""The questions that a board answers; nothing here appends anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kanban.session import Session
from ledger.errors import UnknownTask
from ledger.recorded import Recorded
from ledger.store import follow, read_task
from projections import queries
from projections.listed import Page


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

    def follow(self, *, after: int = 0) -> Iterator[Recorded]:
        """The log after *after*, for ever."""
        return follow(self.engine, self.name, after=after)
