"""The metrics of a board: what each is called and means, and its values, read from the store alone.

Names are those that Prometheus wants: seconds, `_total` for what only grows. No label names a card, and of workers and
hosts at most a hundred are named. Whatever only events move is read again only where the log has grown; of the rest,
the live runs, what is held and what could be claimed are read each time, and each from an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Connection, func, or_, select, text

from ledger.clock import SECOND
from ledger.schema import events
from ledger.standing import Head, head
from projections import tables
from projections.counted import BOARDS, MOST_WORKERS, OTHERS, Counted, counted
from projections.folding import FOLD_VERSION
from projections.listed import STATUSES

CARDS, TASKS, RUNS, HELD, SWEEPS = tables.cards, tables.tasks, tables.runs, tables.held, tables.sweeps
MEASURES, SNAPSHOTS, SETTINGS = tables.measures, tables.snapshots, tables.settings
MOST_HOSTS: Final = 100
PHASES: Final = ("observe", "plan", "apply", "start")
"""The parts of a tick: looking at processes, planning, the transaction with what follows from it, starting workers."""
APPENDS, APPEND_SECONDS, CONFLICTS = "appends", "append_seconds", "conflicts"
REPLAY_DIVERGENCES, REPLAY_POSITION = "replay divergences", "replay position"


def phase_count(phase: str) -> str:
    """The measure that counts how often a host went through *phase*."""
    return f"phase {phase} count"


def phase_seconds(phase: str) -> str:
    """The measure that sums up how long that took."""
    return f"phase {phase} seconds"


class Noted(NamedTuple):
    """What a host measured at *at* (microseconds UTC), by name."""

    at: int
    measures: Mapping[str, float]


class Family(NamedTuple):
    """A metric: its name, what it is, what it tells, and its labels."""

    name: str
    kind: Literal["counter", "gauge", "summary"]
    says: str
    labels: tuple[str, ...]


HOST: Final = ("host",)
_FAMILIES: Final[tuple[tuple[str, Literal["counter", "gauge", "summary"], str, tuple[str, ...]], ...]] = (
    ("events_total", "counter", "Events in the log of the board.", ()),
    ("head_age_seconds", "gauge", "How long ago the last event was appended.", ()),
    ("append_seconds", "summary", "Transactions in which sweeps appended, from asking to the commit.", HOST),
    ("conflicts_total", "counter", "Commands repeated because another writer was first.", HOST),
    ("runs_ended_total", "counter", "Runs that ended.", ("outcome", "worker")),
    ("budget_trips_total", "counter", "Cards that a budget held.", ("budget",)),
    ("live_runs", "gauge", "Runs that are open.", ("worker",)),
    ("cards", "gauge", "Cards by status.", ("status",)),
    ("blocked_cards", "gauge", "Cards that a hold keeps, by its cause.", ("cause",)),
    ("held_cards", "gauge", "Cards that the last tick looked at and did not start, by reason.", ("reason",)),
    ("oldest_ready_age_seconds", "gauge", "How long a claimable card has waited untouched; 0: there is none.", ()),
    ("sweep_phase_seconds", "summary", "Parts of the ticks of a host.", (*HOST, "phase")),
    ("sweep_timestamp_seconds", "gauge", "When the host last swept the board.", HOST),
    ("sweep_age_seconds", "gauge", "How long ago the host last swept the board.", HOST),
    ("last_sweep_age_seconds", "gauge", "How long ago any host swept it; none ever: how long ago it was founded.", ()),
    ("sweep_errors", "gauge", "Faults that the last tick of the host met.", HOST),
    ("lag_events", "gauge", "How far behind the head projection, snapshot and last replay stand.", ("of",)),
    ("replay_divergences", "gauge", "What the last replay on the host found.", HOST),
    ("replay_position", "gauge", "Up to which position that replay looked.", HOST),
    ("replay_timestamp_seconds", "gauge", "When that replay was.", HOST),
)  # fmt: skip
FAMILIES: Final = tuple(
    Family(f"ledger_{name}", kind, says, ("board", *labels)) for name, kind, says, labels in _FAMILIES
)
"""Every metric there is, in the order in which they are told."""

Value = float | tuple[float, float]
"""A number; of a summary how many there were, and their sum."""
Samples = dict[str, list[tuple[tuple[str, ...], Value]]]
"""By metric: its values, each with those of its labels."""


class Known(NamedTuple):
    """What the log up to *counted.position* comes to: read again only where it has grown."""

    counted: Counted
    by_status: Mapping[str, int]
    by_cause: Mapping[str, int]


def measured(
    tx: Connection,
    board: str,
    now: int,
    known: Known | None = None,
    *,
    noted: Mapping[str, Noted] = MappingProxyType({}),
) -> tuple[Known, Samples]:
    """Every metric of *board* at *now* (µs UTC); *known*: what was returned beside the last ones, if anything was.

    *noted*: what a host measured last and may not have written yet. Raises `UnknownBoard`.
    """
    end = head(tx, board)
    if known is None or known.counted.position != end.position:
        known = _known(tx, board, end, known)
    at_hosts = _at_hosts(tx, board, noted)
    told: list[tuple[str, Iterable[tuple[tuple[str, ...], Value]]]] = [
        ("ledger_events_total", [((), float(end.position))]),
        ("ledger_head_age_seconds", [((), _age(now, end.at))]),
        *_of_known(known),
        ("ledger_live_runs", _live(tx, board)),
        ("ledger_held_cards", _labelled(_grouped(tx, board, HELD.c.reason))),
        ("ledger_oldest_ready_age_seconds", [((), _oldest_ready(tx, board, now))]),
        *_of_hosts(at_hosts),
        *_of_sweeps(tx, board, now),
        ("ledger_lag_events", _lags(tx, board, end, at_hosts)),
    ]
    return known, {name: [((board, *labels), value) for labels, value in values] for name, values in told}


# What only events move


def _known(tx: Connection, board: str, end: Head, before: Known | None) -> Known:
    statuses = _grouped(tx, board, CARDS.c.status)
    causes = _grouped(tx, board, TASKS.c.hold_cause, text(tables.BLOCKED))
    return Known(
        counted(tx, board, end.position, None if before is None else before.counted),
        {status: statuses.get(status, 0) for status in STATUSES},
        causes,
    )


def _of_known(known: Known) -> Iterator[tuple[str, Iterable[tuple[tuple[str, ...], Value]]]]:
    yield "ledger_runs_ended_total", _labelled(known.counted.ended)
    yield "ledger_budget_trips_total", _labelled(known.counted.tripped)
    yield "ledger_cards", _labelled(known.by_status)
    yield "ledger_blocked_cards", _labelled(known.by_cause)


# What stands now


def _live(tx: Connection, board: str) -> Iterator[tuple[tuple[str, ...], Value]]:
    """The workers with the most live runs; those of the others together."""
    query = select(RUNS.c.worker, func.count().label("runs")).where(RUNS.c.board == board, RUNS.c.ended_by.is_(None))
    rows = tx.execute(query.group_by(RUNS.c.worker).order_by(func.count().desc(), RUNS.c.worker)).all()
    for worker, runs in rows[:MOST_WORKERS]:
        yield (worker,), float(runs)
    if rows[MOST_WORKERS:]:
        yield (OTHERS,), float(sum(runs for _, runs in rows[MOST_WORKERS:]))


def _oldest_ready(tx: Connection, board: str, now: int) -> float:
    startable = [or_(TASKS.c[name].is_(None), TASKS.c[name] <= now) for name in ("scheduled", "not_before")]
    query = select(func.min(TASKS.c.updated_at)).where(TASKS.c.board == board, text(tables.CLAIMABLE), *startable)
    oldest = tx.execute(query).scalar()
    return 0.0 if oldest is None else _age(now, oldest)


def _lags(
    tx: Connection, board: str, end: Head, at_hosts: Mapping[str, Mapping[str, tuple[float, int]]]
) -> Iterator[tuple[tuple[str, ...], Value]]:
    yield ("projection",), float(end.position - _projected(tx, board, end.position))
    mine = SNAPSHOTS.c.board == board, SNAPSHOTS.c.fold == FOLD_VERSION
    snapshot = tx.execute(select(func.max(SNAPSHOTS.c.position)).where(*mine)).scalar()
    yield ("snapshot",), float(end.position - (snapshot or 0))
    replays = [(found[REPLAY_POSITION][1], found[REPLAY_POSITION][0]) for found in at_hosts.values()
               if REPLAY_POSITION in found]  # fmt: skip
    yield ("replay",), float(end.position - max(replays)[1] if replays else end.position)


def _projected(tx: Connection, board: str, position: int) -> int:
    """The position at which the stored card (or the board) of the last event stands."""
    last = select(events.c.task).where(events.c.board == board, events.c.position == position)
    task = tx.execute(last).scalar()
    if not task:
        query = select(SETTINGS.c.position).where(SETTINGS.c.board == board)
    else:
        query = select(TASKS.c.position).where(TASKS.c.board == board, TASKS.c.task == task)
    return tx.execute(query).scalar() or 0


# What hosts measured


def _at_hosts(tx: Connection, board: str, noted: Mapping[str, Noted]) -> dict[str, dict[str, tuple[float, int]]]:
    """What each host measured, by name: the value, and when. The hosts that were heard of last."""
    query = select(MEASURES.c.host, MEASURES.c.name, MEASURES.c.value, MEASURES.c.at)
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for host, name, value, at in tx.execute(query.where(MEASURES.c.board == board, MEASURES.c.host != BOARDS)):
        found.setdefault(host, {})[name] = (value, at)
    for host, own in noted.items():
        found.setdefault(host, {}).update({name: (value, own.at) for name, value in own.measures.items()})
    latest = sorted(found, key=lambda host: max(at for _, at in found[host].values()), reverse=True)
    return {host: found[host] for host in sorted(latest[:MOST_HOSTS])}


def _of_hosts(
    at_hosts: Mapping[str, Mapping[str, tuple[float, int]]],
) -> Iterator[tuple[str, Iterable[tuple[tuple[str, ...], Value]]]]:
    told: Samples = {}
    for host, found in at_hosts.items():
        for name, labels, value in _of_host(found):
            told.setdefault(name, []).append(((host, *labels), value))
    yield from told.items()


def _of_host(found: Mapping[str, tuple[float, int]]) -> Iterator[tuple[str, tuple[str, ...], Value]]:
    value = {name: each for name, (each, _) in found.items()}
    if APPENDS in value:
        yield "ledger_append_seconds", (), (value[APPENDS], value.get(APPEND_SECONDS, 0.0))
    if CONFLICTS in value:
        yield "ledger_conflicts_total", (), value[CONFLICTS]
    for phase in PHASES:
        if phase_count(phase) in value:
            spent = value[phase_count(phase)], value.get(phase_seconds(phase), 0.0)
            yield "ledger_sweep_phase_seconds", (phase,), spent
    if REPLAY_DIVERGENCES in value:
        yield "ledger_replay_divergences", (), value[REPLAY_DIVERGENCES]
        yield "ledger_replay_position", (), value.get(REPLAY_POSITION, 0.0)
        yield "ledger_replay_timestamp_seconds", (), found[REPLAY_DIVERGENCES][1] / SECOND


def _of_sweeps(tx: Connection, board: str, now: int) -> Iterator[tuple[str, Iterable[tuple[tuple[str, ...], Value]]]]:
    """Ages grow while nobody sweeps; of a board that nobody ever swept, from its first event."""
    query = select(SWEEPS.c.host, SWEEPS.c.ticked_at, SWEEPS.c.errors).where(SWEEPS.c.board == board)
    rows = tx.execute(query.order_by(SWEEPS.c.ticked_at.desc(), SWEEPS.c.host).limit(MOST_HOSTS)).all()
    yield "ledger_sweep_timestamp_seconds", [((host,), at / SECOND) for host, at, _ in rows]
    yield "ledger_sweep_age_seconds", [((host,), _age(now, at)) for host, at, _ in rows]
    yield "ledger_sweep_errors", [((host,), float(errors)) for host, _, errors in rows]
    last = rows[0].ticked_at if rows else _founded(tx, board)
    yield "ledger_last_sweep_age_seconds", [((), _age(now, last))]


def _founded(tx: Connection, board: str) -> int:
    founded: int = tx.execute(select(events.c.at).where(events.c.board == board, events.c.position == 1)).scalar() or 0
    return founded


def _grouped(tx: Connection, board: str, column: Any, *conditions: Any) -> dict[str, int]:
    """How many rows of *board* there are by *column*."""
    query = select(column, func.count()).where(column.table.c.board == board, *conditions)
    return {str(name): int(rows) for name, rows in tx.execute(query.group_by(column).order_by(column))}


def _labelled(counts: Mapping[Any, int]) -> list[tuple[tuple[str, ...], Value]]:
    return [(key if isinstance(key, tuple) else (key,), float(count)) for key, count in sorted(counts.items())]


def _age(now: int, at: int) -> float:
    return (now - at) / SECOND
