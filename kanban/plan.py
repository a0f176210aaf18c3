"""The plan of a tick: a pure function of snapshot, observations, policy and clock (RULES §7).

Two steps. `settle` decides what the observed runs come to: ends, stops, signals, leases, holds to lift. `admit` decides
which cards start then. A dry run prints them; a real tick does exactly them, inside the board's lock.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kanban.admission import Live, caps_of, held_by_cap
from kanban.evidence import NO_EVIDENCE, Evidence
from kanban.outcome import Circumstance, Verb, Witnessed, outcome_of
from kanban.processes import Presence
from ledger.events import Cap, Outcome
from projections.budgets import lift
from projections.policy import SECOND, Policy
from projections.run import Run
from projections.settings import Pause, Settings
from projections.task import Task

Key = tuple[str, int]
"""A run: its card and its number."""


class Lease(NamedTuple):
    """Until when the run may act without proving life again; *row*: whether the store holds it."""

    until: int
    last_beat: int | None
    row: bool


class Seen(NamedTuple):
    """What this host saw of a run, with no transaction open."""

    presence: Presence | None = None
    members: tuple[int, ...] = ()
    ending_since: int | None = None
    evidence: Evidence = NO_EVIDENCE
    quota: bool = False
    summary: str | None = None


UNSEEN = Seen()


class Worker(NamedTuple):
    """What this host's configuration says of an assignee; *here*: whether this is a host that may start it."""

    human: bool
    max_running: int | None
    here: bool = True


@dataclass(frozen=True, slots=True)
class Here:
    """The host that plans: its identity, its own cap, and the assignees that it knows.

    *since*: when it was started, on the store's clock, where other hosts may share the store; else none.
    """

    host: str
    boot: str
    cap: int
    workers: Mapping[str, Worker]
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Book:
    """A run has ended: as *outcome*, or as the verb that `on_success` stands for."""

    run: Run
    outcome: Outcome | Verb
    seen: Seen
    lease: Lease


@dataclass(frozen=True, slots=True)
class AskStop:
    """A live run must stop; written before any signal."""

    run: Run
    cause: str
    since: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal to a run's processes: TERM first, KILL after the grace."""

    run: Run
    signum: int


@dataclass(frozen=True, slots=True)
class Renew:
    """The lease of a run whose process this host sees alive."""

    run: Run
    until: int


@dataclass(frozen=True, slots=True)
class Forget:
    """The processes of an ended run are gone: it no longer keeps its card or a slot."""

    run: Run


@dataclass(frozen=True, slots=True)
class Lift:
    """A hold that is not sticky, whose condition is gone."""

    task: str
    cause: str


@dataclass(frozen=True, slots=True)
class Start:
    """A card to be claimed for *worker*."""

    task: Task
    worker: str
    caps: tuple[Cap, ...]


Step = Book | AskStop | Signal | Renew | Forget | Lift


@dataclass(frozen=True, slots=True)
class Admission:
    """Which cards start, and why the others that were looked at do not (reason, until)."""

    starts: tuple[Start, ...] = ()
    held: Mapping[str, tuple[str, int | None]] = field(default_factory=dict)


def settle(
    now: int,
    settings: Settings,
    here: Here,
    *,
    open_runs: Iterable[tuple[Run, Lease]],
    ending: Iterable[Run],
    liftable: Iterable[Task],
    seen: Mapping[Key, Seen],
) -> list[Step]:
    """What the observed runs and the standing holds come to at *now* (RULES §7, steps 1–5 and the tail of 7)."""
    policy = settings.policy
    steps: list[Step] = []
    for held in open_runs:
        steps += _of_open(now, settings, here, held, seen.get((held[0].task, held[0].run)))
    for run in ending:
        steps += _of_ending(now, policy, here, run, seen.get((run.task, run.run)))
    for task in liftable:
        cause = lift(task, policy)
        if cause is not None:
            steps.append(Lift(task.id, cause))
    return steps


def admit(
    now: int,
    settings: Settings,
    here: Here,
    candidates: Iterable[Task],
    live: Live,
    *,
    ending: frozenset[str] = frozenset(),
    most: int | None = None,
) -> Admission:
    """Which of *candidates* (in order: larger priority, older, id) start now (RULES §7.6).

    Looks no further once the board's or the host's slots have run out: a skipped card takes no slot.
    """
    starts: list[Start] = []
    held: dict[str, tuple[str, int | None]] = {}
    waiting = iter(candidates)
    while not _full(settings, here, live) and (most is None or len(starts) < most):
        task = next(waiting, None)
        if task is None:
            break
        reason, until = _held(now, settings, here, task, ending)
        worker = task.worker or ""
        caps: list[Cap] = []
        if reason is None:
            caps = caps_of(settings, worker, live, own_cap=here.workers[worker].max_running, host_cap=here.cap)
            reason = held_by_cap(caps)
        if reason is not None:
            held[task.id] = (reason, until)
            continue
        starts.append(Start(task, worker, tuple(caps)))
        live = live.plus(worker)
    return Admission(tuple(starts), held)


def _of_open(now: int, settings: Settings, here: Here, held: tuple[Run, Lease], seen: Seen | None) -> list[Step]:
    (run, lease), policy = held, settings.policy
    circumstance = _ended(now, policy, here, held, seen)
    if circumstance is not None:
        found = seen or UNSEEN
        outcome = outcome_of(witnessed(found), circumstance, run)
        return [Book(run, outcome, found, lease)]
    if not _ours(here, run):
        return []
    asked = _must_stop(now, settings, run)
    steps: list[Step] = [] if asked is None else [asked]
    if seen is None or not seen.members:
        return steps
    leftover = seen.presence is Presence.GONE
    if run.stops or asked is not None or leftover:
        steps += end_group(now, policy, run, seen)
    if seen.presence is Presence.ALIVE and lease.until - now < policy.lease * SECOND // 2:
        steps.append(Renew(run, now + policy.lease * SECOND))
    return steps


def _ended(now: int, policy: Policy, here: Here, held: tuple[Run, Lease], seen: Seen | None) -> Circumstance | None:
    """How the run was found ended, or none: it may still be at work."""
    run, lease = held
    over = now > lease.until + policy.lease_grace * SECOND
    mine = _ours(here, run)
    if run.group is None and run.by == "spawn":
        if mine:
            return _never_bound(now, policy, here, run, seen)
        return Circumstance.NEVER_BOUND if over else None
    presence = None if seen is None else seen.presence
    if presence is Presence.REBOOTED and not _is_past(here, _last_sign(policy, run, lease)):
        presence = Presence.UNKNOWN
    if run.group is None or not mine or presence is Presence.UNKNOWN:
        return Circumstance.LEASE_OVER if over else None
    if seen is None or presence is None or seen.members:  # none: it was bound after it had been looked at
        return None
    return Circumstance.REBOOTED if presence is Presence.REBOOTED else Circumstance.GONE


def is_double(here: Here, policy: Policy, held: tuple[Run, Lease]) -> bool:
    """Whether another machine, at work now, goes by this host's id: a boot of it acted long after this one began."""
    run, lease = held
    boot = run.boot if run.group is None else run.group.boot
    late = _last_sign(policy, run, lease) - policy.lease_grace * SECOND
    return here.since is not None and _ours(here, run) and boot != here.boot and late > here.since


def _is_past(here: Here, last_sign: int) -> bool:
    """Whether another boot, which gave its *last_sign* then, is over, and not that of a machine with the same id.

    Machines of one image, or with one home, may have one id: a boot that gave a sign of life after this one began is
    no earlier boot of this machine. Where no other host can share the store there is no such machine.
    """
    return here.since is None or last_sign < here.since


def _last_sign(policy: Policy, run: Run, lease: Lease | None = None) -> int:
    """When a run was last known to be looked after: claim, binding, progress, beat or the renewal of its lease.

    How long a renewal was is not kept: the shorter of today's leases and of its first one, so rather late than early.
    """
    known = max(run.claimed_at, run.progress_at)
    if lease is None or lease.until <= run.lease_until:
        return known
    length = min(policy.lease * SECOND, run.lease_until - run.claimed_at)
    return max(known, lease.last_beat or 0, lease.until - length)


def _never_bound(now: int, policy: Policy, here: Here, run: Run, seen: Seen | None) -> Circumstance | None:
    """A run that was never bound never ran: its claimer's record, the launch grace or, at once, a reboot ends it.

    Where hosts share the store a boot says less (`_is_past`), and the grace is short.
    """
    if seen is None:
        return None
    if run.boot != here.boot and here.since is None:
        return Circumstance.REBOOTED
    if seen.evidence.witness != "none" or now > run.claimed_at + policy.launch_grace * SECOND:
        return Circumstance.NEVER_BOUND
    return None


def _ours(here: Here, run: Run) -> bool:
    """Whether the run was claimed, or its process bound, on this host."""
    return (run.host if run.group is None else run.group.host) == here.host


def witnessed(seen: Seen) -> Witnessed | None:
    """What the first witness says, or none."""
    if seen.evidence.witness == "none":
        return None
    return Witnessed(seen.evidence.code, seen.evidence.signal, seen.quota)


def _must_stop(now: int, settings: Settings, run: Run) -> AskStop | None:
    """Whether the sweep must ask this run to stop: at most once, and not where somebody asked already."""
    policy = settings.policy
    if run.stops:
        return None
    if now > run.claimed_at + run.max_runtime * SECOND:
        return AskStop(run, "max_runtime", run.claimed_at, run.max_runtime)
    if policy.progress_timeout is not None and now > run.progress_at + policy.progress_timeout * SECOND:
        return AskStop(run, "stalled", run.progress_at, policy.progress_timeout)
    drain = _draining(settings, run)
    return None if drain is None else AskStop(run, "drain", drain.at, None)


def _draining(settings: Settings, run: Run) -> Pause | None:
    scopes = {("board", ""), ("assignee", run.worker), ("host", run.host)}
    found = [pause for pause in settings.pauses if pause.drain and (pause.scope, pause.name) in scopes]
    return found[0] if found else None


def end_group(now: int, policy: Policy, run: Run, seen: Seen) -> list[Signal]:
    """TERM at first sight, KILL after the grace, both counted from what the first tick wrote down."""
    if seen.ending_since is None:
        return [Signal(run, signal.SIGTERM)]
    if now >= seen.ending_since + policy.stop_grace * SECOND:
        return [Signal(run, signal.SIGKILL)]
    return []


def _of_ending(now: int, policy: Policy, here: Here, run: Run, seen: Seen | None) -> list[Step]:
    """A run that ended by a verb keeps its card until its group is gone; after the grace the group is ended."""
    if seen is None or seen.presence is None:
        return []
    if not seen.members:
        rebooted = seen.presence is Presence.REBOOTED
        known = _is_past(here, _last_sign(policy, run)) if rebooted else seen.presence is not Presence.UNKNOWN
        return [Forget(run)] if known else []
    if now < (run.ended_at or 0) + policy.stop_grace * SECOND:
        return []
    return [*end_group(now, policy, run, seen)]


def _full(settings: Settings, here: Here, live: Live) -> bool:
    board = settings.policy.max_running
    return live.host >= here.cap or (board is not None and live.board >= board)


def _held(
    now: int, settings: Settings, here: Here, task: Task, ending: frozenset[str]
) -> tuple[str | None, int | None]:
    worker = task.worker
    if (task.not_before or 0) > now:
        return "cooldown_until", task.not_before
    if task.id in ending:
        return "ending", None
    if worker is None:
        return "no_assignee", None
    if worker not in here.workers:
        return "unknown_assignee", None
    if here.workers[worker].human:
        return "waiting_for_person", None
    if not here.workers[worker].here:
        return "placed_elsewhere", None
    if settings.pause_of(worker=worker, host=here.host) is not None:
        return "paused", None
    return None, None
