"""The fold of one run: who claimed it, which process has it, who asked it to stop, how it ended. Pure."""

from __future__ import annotations

from decimal import Decimal
from operator import itemgetter
from typing import Any, NamedTuple

from ledger.events import ENDINGS
from ledger.recorded import Recorded
from projections.folding import changed, shared


class Binding(NamedTuple):
    """A process that has the run: host, boot, pid namespace, pid and monotonic start tick (RULES §6)."""

    pid: int
    start_tick: int
    group: int
    host: str
    boot: str
    namespace: str


class Stop(NamedTuple):
    """A `stop_requested` that stands: its position, cause and instant, and whether it carries a wish."""

    position: int
    cause: str
    at: int
    wish: bool


class Run(NamedTuple):
    """One attempt at a card. *ended_by* is the kind of the event that ended it, none while it is open."""

    task: str
    run: int
    by: str = "hand"
    lock_hash: str = ""
    host: str = ""
    boot: str = ""
    worker: str = ""
    lane: str = "work"
    lease_until: int = 0
    max_runtime: int = 0
    on_success: str = "violation"
    reviewer: str | None = None
    result: str = "none"
    quota: tuple[str, ...] = ()
    claimed_at: int = 0
    claimed_position: int = 0
    group: Binding | None = None
    turns: Binding | None = None
    progress_at: int = 0
    stops: tuple[Stop, ...] = ()
    tokens: int | None = None
    cost: str | None = None
    outcome: str | None = None
    code: int | None = None
    signal: int | None = None
    evidence: str | None = None
    ended_by: str | None = None
    ended_at: int | None = None
    ended_position: int | None = None
    late_position: int | None = None

    @property
    def open(self) -> bool:
        """Whether no event has ended it yet."""
        return self.ended_by is None

    @property
    def stop_at(self) -> int | None:
        """When a stop was first requested (microseconds UTC), or none."""
        return self.stops[0].at if self.stops else None

    def frozen(self) -> Run:
        """This state, whatever comes: itself, which never changes."""
        return self

    def changed(self, **changes: Any) -> Run:
        """The run with *changes*."""
        return changed(self, **changes)


def evolve_run(run: Run | None, event: Recorded) -> Run | None:
    """What *event* makes of the *run* that it names (or that is open, for `edited`). Total."""
    if event.kind == "claimed":
        return _claimed(event)
    if run is None:
        return None
    match event.kind:
        case "progressed":
            return _used(run, event.facts["usage"]).changed(progress_at=event.at)
        case "worker_bound":
            return _bound(run, event.facts, event.at)
        case "stop_requested":
            stop = Stop(event.position, event.facts["cause"], event.at, event.facts["wish"] is not None)
            return run.changed(stops=(*run.stops, stop))
        case "edited":
            return run.changed(max_runtime=event.facts["values"].get("max_runtime") or run.max_runtime)
        case "late_result":
            return _used(run, event.facts["usage"]).changed(late_position=event.position)
        case kind if kind in ENDINGS and run.open:
            return _ended(run, event)
        case _:
            return run


def _claimed(event: Recorded) -> Run:
    *said, quota = _CLAIM(event.facts)
    at, position = event.at, event.position
    return Run._make((shared(event.task), event.run or 0, *said, tuple(quota), at, position, None, None, at, *_FRESH))


def _bound(run: Run, facts: dict[str, Any], at: int) -> Run:
    binding = Binding._make(_BINDING(facts))
    if facts["role"] == "turns":
        return run.changed(turns=run.turns or binding, progress_at=at)
    return run.changed(group=run.group or binding, progress_at=at)


def _used(run: Run, usage: dict[str, Any] | None) -> Run:
    """Usage adds up over a run; what nobody said stays unknown."""
    if usage is None:
        return run
    tokens, cost = usage["tokens"], usage["cost"]
    return run.changed(
        tokens=run.tokens if tokens is None else (run.tokens or 0) + tokens,
        cost=run.cost if cost is None else str(Decimal(run.cost or "0") + Decimal(cost)),
    )


def _ended(run: Run, event: Recorded) -> Run:
    facts = event.facts
    ended = {
        "outcome": shared(event.outcome or event.kind),
        "ended_by": shared(event.kind),
        "ended_at": event.at,
        "ended_position": event.position,
    }
    if event.kind == "exited":
        return run.changed(**ended, code=facts["code"], signal=facts["signal"], evidence=facts["evidence"])
    return _used(run, facts.get("usage")).changed(**ended)


_BINDING = itemgetter(*Binding._fields)
_CLAIM = itemgetter(*Run._fields[2 : Run._fields.index("quota") + 1])
_FRESH = Run("", 0)[Run._fields.index("stops") :]
