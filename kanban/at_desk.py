"""Sitting down at a board's desk: a transaction, the board inside its lock or as it stands, and the end of both."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Final

from sqlalchemy import Connection, Engine

from kanban.desk import Desk
from ledger.clock import Clock
from ledger.database import reading, writing
from ledger.standing import Asking
from projections import tables
from projections.at_once import foresee_card, foresee_cards, known_of, with_card
from projections.rows import SETTINGS_COLUMNS, settings_of
from projections.settings import NEW_BOARD

APPENDED: Final[dict[str, tuple[int, float]]] = {}
"""How often this process has appended, and for how many seconds, by board, until a sweep writes that down."""
_STANDING: Final = Asking([tables.settings.c[name] for name in SETTINGS_COLUMNS], with_card)


class _Sitting:
    """A desk for the length of a transaction. A class: every command is one, and a generator costs more."""

    __slots__ = ("_board", "_clock", "_within")

    def __init__(self, within: AbstractContextManager[Connection], board: str, clock: Clock) -> None:
        self._within: Any = within
        self._board, self._clock = board, clock

    def _begun(self, *, hold: bool, tasks: Collection[str] = ()) -> Desk:
        tx = self._within.__enter__()
        try:
            return _desk(tx, self._board, self._clock, tasks, hold=hold)
        except BaseException:
            self._within.__exit__(*sys.exc_info())
            raise


class looking(_Sitting):  # noqa: N801
    """One snapshot of the board, for reading only: nothing can be appended through it."""

    __slots__ = ()

    def __init__(self, engine: Engine, board: str, clock: Clock) -> None:
        super().__init__(reading(engine), board, clock)

    def __enter__(self) -> Desk:
        return self._begun(hold=False)

    def __exit__(self, *ended: object) -> None:
        self._within.__exit__(*ended)


class at_desk(_Sitting):  # noqa: N801
    """The board inside its lock; committed at the end, rolled back on any exception."""

    __slots__ = ("_before", "_began", "_desk", "_tasks")

    def __init__(self, engine: Engine, board: str, clock: Clock, *, tasks: Collection[str] = ()) -> None:
        """*tasks* are cards that the caller will ask for first: one with `know_one`, several with `know_all`."""
        super().__init__(writing(engine), board, clock)
        self._tasks = tasks

    def __enter__(self) -> Desk:
        self._began = time.perf_counter()
        self._desk = desk = self._begun(hold=True, tasks=self._tasks)
        self._before = desk.position
        return desk

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        desk = self._desk
        if kind is None:
            try:
                desk.flush()
            except BaseException:
                self._within.__exit__(*sys.exc_info())
                raise
        self._within.__exit__(kind, *more)
        if kind is None and desk.position > self._before:
            times, seconds = APPENDED.get(self._board, (0, 0.0))
            APPENDED[self._board] = times + 1, seconds + time.perf_counter() - self._began


def _desk(tx: Connection, board: str, clock: Clock, tasks: Collection[str], *, hold: bool) -> Desk:
    """The desk; a file tells the one card of *tasks* in the same go, a server all of them right behind it."""
    asked = {"task": next(iter(tasks))} if len(tasks) == 1 else {}
    if asked:
        foresee_card(tx, board, **asked)
    elif tasks:
        foresee_cards(tx, board, tasks)
    found, now, row, card = _STANDING(tx, board, clock, hold=hold, **asked)
    settings = None if row is None else settings_of(row) if row[0] else NEW_BOARD
    desk = Desk(tx, board, found, now, settings)
    if card:
        desk.take(asked["task"], known_of(card))
    return desk
