"""Who may start now: pauses and caps, the same for a sweep's spawn and for a claim by hand (RULES §7.6, §8). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kanban.commands import View
from kanban.refusals import NotClaimable, Paused, Taken
from ledger.events import Cap, Claimed
from projections.policy import SECOND
from projections.run import Run
from projections.settings import Settings
from projections.task import Task, claimable, status


class Live(NamedTuple):
    """How many runs are live: on the board, of each worker, and spawned on this host over all boards."""

    board: int = 0
    workers: Mapping[str, int] = {}
    host: int = 0

    def plus(self, worker: str) -> Live:
        """One more spawned run of *worker*."""
        return Live(self.board + 1, {**self.workers, worker: self.workers.get(worker, 0) + 1}, self.host + 1)


def live_of(runs: Iterable[Run], host: int = 0) -> Live:
    """The live counts of a board's open *runs*."""
    workers: dict[str, int] = {}
    for run in runs:
        workers[run.worker] = workers.get(run.worker, 0) + 1
    return Live(sum(workers.values()), workers, host)


def caps_of(settings: Settings, worker: str, live: Live, *, own_cap: int | None, host_cap: int | None) -> list[Cap]:
    """Every cap that this claim meets, with what is live before it. *host_cap* is none for a claim by hand."""
    policy = settings.policy
    per_worker = [limit for limit in (policy.max_running_per_assignee, own_cap) if limit is not None]
    found = []
    if policy.max_running is not None:
        found.append(Cap(cap="board", live=live.board, limit=policy.max_running))
    if per_worker:
        found.append(Cap(cap="assignee", live=live.workers.get(worker, 0), limit=min(per_worker)))
    if host_cap is not None:
        found.append(Cap(cap="host", live=live.host, limit=host_cap))
    return found


def held_by_cap(caps: Iterable[Cap]) -> str | None:
    """The held reason of the first cap that is reached, or none."""
    for cap in caps:
        if cap.live >= cap.limit:
            return "assignee_at_capacity" if cap.cap == "assignee" else "at_capacity"
    return None


def refuse(view: View, task: Task, worker: str, host: str, caps: Iterable[Cap], *, ending: bool) -> None:
    """Raise why *task* cannot be claimed now: `Taken`, `NotClaimable` or `Paused`."""
    if task.run is not None:
        run = view.run(task.id, task.run)
        raise Taken(task.id, task.run, run.worker if run is not None else "somebody")
    if not claimable(task, view.now):
        raise NotClaimable(task.id, why_not(task, view.now))
    if ending:
        raise NotClaimable(task.id, "ending", "the processes of its last run are still there")
    pause = view.settings.pause_of(worker=worker, host=host)
    if pause is not None:
        raise Paused(pause.scope, pause.name, pause.position, task=task.id)
    reached = held_by_cap(caps)
    if reached is not None:
        raise NotClaimable(task.id, reached)


def why_not(task: Task, now: int) -> str:
    """The machine-readable reason why the card itself cannot be claimed at *now*."""
    match status(task):
        case "todo":
            return "waiting_on"
        case "scheduled" | "review" | "ready":
            return "scheduled_for" if (task.scheduled or 0) > now else "cooldown_until"
        case other:
            return other


def claimed(
    view: View,
    task: Task,
    *,
    by: str,
    worker: str,
    lock_hash: str,
    host: str,
    boot: str,
    caps: Iterable[Cap],
    on_success: str = "violation",
    reviewer: str | None = None,
    result: str = "none",
    quota: tuple[str, ...] = (),
) -> Claimed:
    """The event that opens the next run of *task*."""
    policy = view.settings.policy
    return Claimed.model_validate(
        {
            "run": task.last_run + 1,
            "lock_hash": lock_hash,
            "by": by,
            "host": host,
            "boot": boot,
            "worker": worker,
            "lane": task.lane,
            "lease_until": view.now + policy.lease * SECOND,
            "max_runtime": task.card.max_runtime or policy.max_runtime,
            "on_success": on_success,
            "reviewer": reviewer,
            "result": result,
            "quota": quota,
            "caps": tuple(caps),
        }
    )
