"""Which board a server shows, and how its routes read it: now, or as it stood at an earlier position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection, Engine

from kanban.board import Board
from ledger.clock import Clock
from ledger.database import reading
from ledger.standing import instant_of


@dataclass(frozen=True, slots=True)
class Source:
    """One board of one store. *face* is what acts are done through; everything else only reads."""

    engine: Engine
    board: str
    clock: Clock
    home: Path
    face: Board

    @classmethod
    def of(cls, face: Board) -> Source:
        """The board that *face* has opened; whoever opened it closes it."""
        return cls(face.engine, face.name, face.clock, face.home, face)

    @contextmanager
    def reading(self, at: int | None = None) -> Iterator[Connection]:
        """One short snapshot for reading: of now, or as the board stood at position *at* (past the end: at the end)."""
        if at is None:
            with reading(self.engine) as tx:
                yield tx
            return
        from projections.past import past

        with past(self.engine, self.board, at) as tx:
            yield tx

    def now(self, tx: Connection) -> int:
        """What time it is for the store (µs UTC)."""
        return instant_of(tx, self.clock)

    def acting(self, name: str | None) -> Board:
        """The board as the operator *name* acts on it; none: as the user of this process."""
        return self.face if name is None else _named(self.face, name)


@lru_cache(maxsize=64)
def _named(face: Board, name: str) -> Board:
    config = face.loaded.config.model_copy(update={"actor": name})
    loaded = replace(face.loaded, config=config)
    return Board(
        face.engine, face.name, url=face.url, home=face.home, loaded=loaded, clock=face.clock, environ=face.environ
    )
