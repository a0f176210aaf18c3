"""What this host measures of itself: written beside the row of its sweep, added up in the store, never read by a fold.

What a tick measures after its last write is carried to the next one: in memory, and for a sweep that ends in a file. It
is taken from there before it is written, so a crash may lose a little of it and never counts anything twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from sqlalchemy import Connection, bindparam, insert, update

from kanban.at_desk import APPENDED
from kanban.folders import make_private, read_file, replace
from kanban.laps import Lap
from ledger.prepared import Prepared
from projections import tables
from projections.counted import BOARDS, COUNTED, Counted, Ended, further, measure_of, stored, stored_position
from projections.measured import (
    APPEND_SECONDS,
    APPENDS,
    REPLAY_DIVERGENCES,
    REPLAY_POSITION,
    Noted,
    phase_count,
    phase_seconds,
)

if TYPE_CHECKING:
    from projections.replay import Replay

MEASURES: Final = tables.measures
MOST: Final = 20_000
"""Events that a tick counts at the most, so that a log of old is caught up with in steps."""
_FOLDER, _AT = "measures", "at"
_NANO: Final = 1_000_000_000
_LONGEST: Final = 16_384  # bytes of a file of measures


@dataclass(slots=True)
class Measures:
    """What the sweeps of one board on this host have measured and not yet written. Held by one sweep at a time."""

    board: str
    home: Path
    waiting: dict[str, float] = field(default_factory=dict)
    _known: Counted = field(default_factory=Counted)
    _noted: Noted | None = None

    @classmethod
    def of(cls, home: Path, board: str) -> Measures:
        """Those of *board* on the host whose home that is."""
        return cls(board, home)

    @property
    def file(self) -> Path:
        """Where what waits is kept for the next sweep."""
        return self.home / _FOLDER / _file(self.board)

    def take(self, laps: Sequence[Lap]) -> None:
        """Take up how long the parts of a tick took."""
        for lap in laps:
            _sum(self.waiting, {phase_count(lap.phase): 1, phase_seconds(lap.phase): (lap.ended - lap.begun) / _NANO})

    def write(self, tx: Connection, host: str, position: int, at: int) -> list[Ended]:
        """Write all that waits as *host*'s, and count what the log has come to up to *position*: what was counted.

        In the transaction that writes the row of the sweep, which holds the board.
        """
        self._fetch()
        written, self.waiting = self.waiting, {}
        add(tx, self.board, host, at, written)
        noted = last_replay(self.home, self.board)
        if noted is not None and noted != self._noted:
            put(tx, self.board, host, noted.at, noted.measures)
            self._noted = noted
        return self._count(tx, position, at)

    def keep(self, laps: Sequence[Lap]) -> None:
        """Take up *laps*, too, and put what waits where the next sweep finds it, whichever process that is."""
        self.take(laps)
        self._fetch()
        if self.waiting:
            with suppress(OSError):
                make_private(self.file.parent)
                replace(self.file, json.dumps(self.waiting).encode(), lasting=False)
                self.waiting = {}

    def _fetch(self) -> None:
        """Take up what this process has appended, and what another left."""
        appends, seconds = APPENDED.pop(self.board, (0, 0.0))
        _sum(self.waiting, {APPENDS: appends, APPEND_SECONDS: seconds} if appends else {})
        text = read_file(self.file, limit=_LONGEST)
        if text is None:
            return
        with suppress(OSError):
            self.file.unlink()
            _sum(self.waiting, _numbers(text))

    def _count(self, tx: Connection, position: int, at: int) -> list[Ended]:
        if stored_position(tx, self.board) != self._known.position:
            self._known = stored(tx, self.board)
        start = self._known
        if start.position >= position:
            return []
        now, ended = further(tx, self.board, start, min(position, start.position + MOST))
        moved = {measure_of(key): count for key, count in now.tally.items() if count != start.tally.get(key)}
        put(tx, self.board, BOARDS, at, {**moved, COUNTED: now.position})
        self._known = now
        return ended


def add(tx: Connection, board: str, host: str, at: int, measures: Mapping[str, float]) -> None:
    """Add *measures* to those of *host* that are stored."""
    _each(_ADD, tx, measures, board=board, host=host, at=at)


def put(tx: Connection, board: str, host: str, at: int, measures: Mapping[str, float]) -> None:
    """Store *measures* in the place of those of *host*."""
    _each(_PUT, tx, measures, board=board, host=host, at=at)


def keep_replay(home: Path, board: str, found: Replay, at: int) -> None:
    """Note in *home* what a replay of the whole log found at *at* (µs UTC): what is audited is not written to.

    Whoever measures here reads it, and the next sweep brings it to the store. Raises `OSError`.
    """
    if home.is_dir():
        told = {REPLAY_DIVERGENCES: len(found.divergences), REPLAY_POSITION: found.position, _AT: at}
        replace(make_private(home / _FOLDER) / _file(board, ".replay"), json.dumps(told).encode(), lasting=False)


def last_replay(home: Path, board: str) -> Noted | None:
    """What the last replay in *home* found."""
    told = _numbers(read_file(home / _FOLDER / _file(board, ".replay"), limit=_LONGEST) or b"")
    at = told.pop(_AT, None)
    return None if at is None else Noted(int(at), told)


def _file(board: str, what: str = "") -> str:
    return f"{quote(board, safe='')}{what}.json"


def _each(how: Prepared, tx: Connection, measures: Mapping[str, float], *, board: str, host: str, at: int) -> None:
    for name, value in measures.items():
        if how.run(tx, of_board=board, of_host=host, of_name=name, to=value, now=at) == 0:
            _FIRST.run(tx, board=board, host=host, name=name, value=value, at=at)


def _sum(into: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        into[name] = into.get(name, 0) + value


def _numbers(text: bytes) -> dict[str, float]:
    """What a file of measures holds; nothing where it is garbage."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, int | float) and isfinite(value)}


_IT: Final = [MEASURES.c[name] == bindparam(f"of_{name}") for name in ("board", "host", "name")]
_PUT: Final = Prepared(update(MEASURES).where(*_IT).values(value=bindparam("to"), at=bindparam("now")))
_ADD: Final = Prepared(
    update(MEASURES).where(*_IT).values(value=MEASURES.c.value + bindparam("to"), at=bindparam("now"))
)
_FIRST: Final = Prepared(insert(MEASURES))
