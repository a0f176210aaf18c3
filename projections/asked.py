"""A card that somebody asks about, read from the store as far as the question needs: see `projections.proof.Known`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, bindparam, func, literal_column, select

from ledger.prepared import Prepared
from ledger.recorded import Recorded
from ledger.schema import events
from ledger.store import at_position, last_of_kind
from projections import tables
from projections.read_models import load_settings
from projections.settings import Settings
from projections.task import Task
from projections.waiting import Wait, waits

RUNS: Final = tables.runs
_PAGE: Final = 64
_LATEST: Final = 2**31 - 1  # the largest version that every engine keeps


class Asked:
    """One card in one read transaction; nothing is read twice."""

    def __init__(self, tx: Connection, board: str, task: Task, now: int) -> None:
        self.tx, self.board = tx, board
        self._task, self._now = task, now

    @property
    def task(self) -> Task:
        """The folded card, as it is stored."""
        return self._task

    @property
    def now(self) -> int:
        """When it is asked, in microseconds UTC."""
        return self._now

    @cached_property
    def settings(self) -> Settings:
        """The board's own state."""
        return load_settings(self.tx, self.board)

    @cached_property
    def live(self) -> int:
        """How many runs of the board are open."""
        open_ones = RUNS.c.board == self.board, RUNS.c.ended_by.is_(None)
        return int(self.tx.execute(select(func.count()).select_from(RUNS).where(*open_ones)).scalar_one())

    @cached_property
    def _waits(self) -> list[Wait]:
        return waits(self.tx, self.board, [self.task.id])

    @cached_property
    def links(self) -> Mapping[str, str]:
        """Every parent of the card, and what the link to it requires."""
        return {wait.parent: wait.require for wait in self._waits}

    @cached_property
    def waits(self) -> list[Wait]:
        """Its parents that are not satisfied, by id."""
        return [wait for wait in self._waits if not wait.over]

    @property
    def open_parents(self) -> list[str]:
        """The ids of those."""
        return [wait.parent for wait in self.waits]

    def newest(self, *kinds: str) -> Iterator[Recorded]:
        """The card's events of these kinds without their words, the newest first, read as far as they are taken."""
        version = _LATEST
        while version:
            rows = _newest(kinds).all(self.tx, board=self.board, task=self.task.id, version=version)
            yield from (self._recorded(row) for row in rows)
            version = rows[-1][1] if len(rows) == _PAGE else 0

    def at(self, position: int) -> Recorded | None:
        """The event at that position, with its words."""
        return at_position(self.tx, self.board, position)

    def completed(self, parent: str) -> Recorded | None:
        """The newest `completed` of another card."""
        return last_of_kind(self.tx, self.board, parent, "completed")

    def claims(self, count: int) -> list[Recorded]:
        """So many of the events that opened the board's live runs, the oldest first."""
        opened = select(RUNS.c.claimed_position).where(RUNS.c.board == self.board, RUNS.c.ended_by.is_(None))
        places = self.tx.execute(opened.order_by(RUNS.c.claimed_position).limit(count)).scalars().all()
        return [event for event in map(self.at, places) if event is not None]

    def _recorded(self, row: tuple[Any, ...]) -> Recorded:
        position, version, kind, schema, at, run, outcome, facts = row
        return Recorded(
            self.board, position, self.task.id, version, kind, schema, at, "", "", "", run, outcome, None, facts, b"",
            b"",
        )  # fmt: skip


@cache
def _newest(kinds: tuple[str, ...]) -> Prepared:
    """The statement of one page; *kinds* stand in it as they are: they are this program's own words."""
    columns = (
        events.c.position, events.c.version, events.c.kind, events.c.schema, events.c.at, events.c.run,
        events.c.outcome, events.c.facts,
    )  # fmt: skip
    of_kinds = events.c.kind.in_([literal_column(f"'{kind}'") for kind in kinds])
    mine = events.c.board == bindparam("board"), events.c.task == bindparam("task")
    before = events.c.version < bindparam("version")
    page: ColumnElement[int] = literal_column(str(_PAGE))
    return Prepared(select(*columns).where(*mine, before, of_kinds).order_by(events.c.version.desc()).limit(page))
