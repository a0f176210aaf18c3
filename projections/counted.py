"""How runs ended and how often budgets tripped: counted from the log, once for each event, and never from memory.

A sweep writes down what it counted and up to which position, in one transaction; whoever asks adds what came since. So
a count is right after any crash, costs what happened since the last sweep, and is the same whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, select

from ledger.events import ENDINGS
from ledger.prepared import Prepared
from ledger.recorded import parsed
from ledger.schema import events
from projections import tables

RUNS, MEASURES = tables.runs, tables.measures
BOARDS: Final = ""
"""The host of what is measured of a board and not of a host."""
COUNTED: Final = "counted"
"""The measure that says up to which position all others of the board were counted."""
OTHERS: Final = "(others)"
"""The worker of the runs of those who came once `MOST_WORKERS` others were known."""
MOST_WORKERS: Final = 100
_ENDED, _TRIPPED = "ended", "tripped"
_Tally = Mapping[tuple[str, ...], int]


class Ended(NamedTuple):
    """An event that ended a run or tripped a budget: *key* is what it counts as."""

    position: int
    task: str
    run: int | None
    key: tuple[str, ...]


class Counted(NamedTuple):
    """What the log of a board up to *position* comes to, by `("ended", outcome, worker)` and `("tripped", budget)`."""

    position: int = 0
    tally: _Tally = MappingProxyType({})

    @property
    def ended(self) -> dict[tuple[str, str], int]:
        """How many runs ended, by outcome and worker."""
        return {(key[1], key[2]): count for key, count in self.tally.items() if key[0] == _ENDED}

    @property
    def tripped(self) -> dict[str, int]:
        """How often a budget held a card, by the cause of the hold."""
        return {key[1]: count for key, count in self.tally.items() if key[0] == _TRIPPED}


def counted(tx: Connection, board: str, until: int, known: Counted | None = None) -> Counted:
    """The counts of *board* up to *until*, at or behind its last position that was counted.

    *known*: what was counted before, by whoever asks. It costs what happened since then, or since the last sweep.
    """
    start = known if known is not None and known.position <= until else stored(tx, board)
    return further(tx, board, start, until)[0]


def further(tx: Connection, board: str, start: Counted, until: int) -> tuple[Counted, list[Ended]]:
    """*start* and what happened behind it up to *until*; and each event that was counted, in order."""
    tally, found = dict(start.tally), list[Ended]()
    workers = {key[2] for key in tally if key[0] == _ENDED}
    for each in _ends(tx, board, start.position, until):
        key = _capped(each.key, workers)
        tally[key] = tally.get(key, 0) + 1
        found.append(each._replace(key=key))
    return Counted(max(start.position, until), tally), found


def stored(tx: Connection, board: str) -> Counted:
    """What a sweep wrote down last."""
    rows = dict(_STORED.all(tx, board=board, host=BOARDS))
    position = int(rows.pop(COUNTED, 0))
    return Counted(position, {tuple(name.split(" ", 2)): int(count) for name, count in rows.items()})


def stored_position(tx: Connection, board: str) -> int:
    """Up to which position a sweep has counted."""
    row = _POSITION.one(tx, board=board, host=BOARDS, name=COUNTED)
    return 0 if row is None else int(row[0])


def measure_of(key: tuple[str, ...]) -> str:
    """The name under which the count of *key* is written down."""
    return " ".join(key)


def _capped(key: tuple[str, ...], workers: set[str]) -> tuple[str, ...]:
    """*key* under a name among those *workers*, who are as many as come first."""
    if key[0] != _ENDED or key[2] in workers:
        return key
    named = key[2] if len(workers) < MOST_WORKERS else OTHERS
    workers.add(named)
    return (*key[:2], named)


def _ends(tx: Connection, board: str, after: int, until: int) -> Iterator[Ended]:
    """Runs that ended and budgets that tripped behind *after* up to *until*, as the fold has them."""
    for position, task, run, outcome, facts, worker, ended in _ENDS.all(tx, board=board, after=after, until=until):
        if worker is not None:
            yield Ended(position, task, run, (_ENDED, ended, worker))
        if outcome == "config":
            yield Ended(position, task, None, (_TRIPPED, "config"))
        elif "_budget" in facts and (cause := parsed(facts).get("cause", "")).endswith("_budget"):
            yield Ended(position, task, None, (_TRIPPED, cause))


def _of(*names: str) -> list[Any]:
    return [MEASURES.c[name] == bindparam(name) for name in names]


_STORED = Prepared(select(MEASURES.c.name, MEASURES.c.value).where(*_of("board", "host")))
_POSITION = Prepared(select(MEASURES.c.value).where(*_of("board", "host", "name")))
_OF_RUN = (
    (RUNS.c.board == events.c.board)
    & (RUNS.c.task == events.c.task)
    & (RUNS.c.run == events.c.run)
    & (RUNS.c.ended_position == events.c.position)
)
_ENDS = Prepared(
    select(
        events.c.position, events.c.task, events.c.run, events.c.outcome, events.c.facts, RUNS.c.worker,
        RUNS.c.outcome.label("ended"),
    )
    .select_from(events.outerjoin(RUNS, _OF_RUN))
    .where(
        events.c.board == bindparam("board"),
        events.c.position > bindparam("after"),
        events.c.position <= bindparam("until"),
        events.c.kind.in_([bindparam(f"kind_{number}", kind) for number, kind in enumerate(sorted(ENDINGS))]),
    )
    .order_by(events.c.position)
)  # fmt: skip
