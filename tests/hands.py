"""A replay that is shared, without other processes: each part is looked at here, in a transaction of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from ledger.database import reading
from ledger.errors import UnknownTask
from projections import replay, replay_jobs
from projections.compared import SHAPES
from projections.parts import Doubt, look
from projections.replay import Replay
from tests import ledgers


class Hand:
    """Looks at its part as soon as it is asked to."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.events = 0
        self.doubt: Doubt | None = None

    def ask(self, part: Any, _snapshot: str | None) -> None:
        tables: list[list[bytes]] = [[] for _ in SHAPES]
        try:
            with reading(self.engine) as tx:
                self._seen = look(
                    tx, self.engine, part, said=lambda table, data: tables[table].append(data), heard=self._heard
                )
        except Doubt as doubt:
            self.doubt = doubt
        self._tables = iter(tables)

    def _heard(self, count: int) -> None:
        self.events = count

    def check(self) -> None:
        if self.doubt is not None:
            raise self.doubt

    def wait(self, _letter: bytes, _seconds: float | None = None) -> None:
        self.check()

    def seen(self) -> Any:
        self.check()
        return self._seen

    def rows(self) -> Iterator[bytes]:
        return iter(next(self._tables))


@contextmanager
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Replays with jobs need no other process meanwhile; yields who gave each answer: `parts`, or `one`.

    Before that `few` where there were too few cards to share.
    """
    answered: list[str] = []
    by_one, divided = replay._by_one, replay_jobs.divided

    @contextmanager
    def hands(engine: Any, number: int) -> Iterator[list[Hand]]:
        yield [Hand(engine) for _ in range(number)]

    def one(*said: Any) -> Replay:
        answered.append("one")
        return by_one(*said)

    def shared(*said: Any, **how: Any) -> Any:
        found = replay_jobs.shared(*said, **how)
        answered.extend(["parts"] if found is not None else [])
        return found

    def parts(*said: Any) -> list[Any]:
        found = divided(*said)
        answered.extend(["few"] if len(found) == 1 else [])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(replay_jobs, "divided", parts)
        patch.setattr(replay_jobs, "_hands", hands)
        patch.setattr(replay, "_by_one", one)
        patch.setattr(replay, "shared", shared)
        yield answered


def timeless(found: Replay) -> Replay:
    """What was found, whenever, however fast."""
    return replace(found, seconds=0, events_per_second=0)


def alike(store: ledgers.Ledger, answered: list[str], *, jobs: int, **wish: Any) -> tuple[Replay | str, str]:
    """What one process finds or refuses, which is what *jobs* find; and by whom, or that there were too `few` cards."""
    one = _found(store, 1, wish)
    answered.clear()
    assert _found(store, jobs, wish) == one
    return one, answered[0]


def _found(store: ledgers.Ledger, jobs: int, wish: dict[str, Any]) -> Replay | str:
    try:
        return timeless(replay.replay(store.engine, ledgers.BOARD, jobs=jobs, **wish))
    except UnknownTask as refused:
        return str(refused)
