"""Whether a run was opened, bound, asked to stop and ended as the rules allow (RULES §4, §6–8). Pure.

Each function takes the moment, the event and the card before it, and answers what is wrong, or none. What no log
can show (processes, leases, quota patterns on a screen) is taken as it was written (RULES §9).
"""

from __future__ import annotations

from typing import Any, Final

from ledger.events import NEUTRAL, Outcome
from ledger.recorded import Recorded
from projections.divergence import Wrong
from projections.legal_cards import blocked_by_operator, changes_by_operator, completed_by_operator, unmet
from projections.moment import Moment
from projections.policy import SECOND, not_before_after
from projections.run import Run
from projections.task import Task, claimable, status

_ASKED_TO_STOP: Final = frozenset({129, 130, 143})
_STOP_SIGNALS: Final = frozenset({1, 2, 15})  # HUP, INT, TERM
_BY_STOP: Final = {
    "max_runtime": Outcome.TIMED_OUT,
    "stalled": Outcome.STALLED,
    "operator": Outcome.INTERRUPTED,
    "drain": Outcome.INTERRUPTED,
}
_ONLY: Final[dict[str, frozenset[str]]] = {outcome: frozenset({outcome}) for outcome in Outcome}


def claimed(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """Claimable at that instant, the next run, for the card's worker, not paused, under every cap."""
    open_parents = moment.open_parents(task.id)
    waiting = task.frozen()._replace(open_parents=open_parents) if open_parents > 0 else task
    if not claimable(waiting, event.at):
        return _not_claimable(event, waiting)
    if event.run != task.last_run + 1:
        return Wrong("§1", f"claimed: run {event.run} after run {task.last_run}", event.run, task.last_run + 1)
    facts = event.facts
    worker = facts["worker"]
    if task.worker is not None and worker != task.worker:
        return Wrong("§1", f"claimed for {worker}: the card's worker was {task.worker}", worker, task.worker)
    if facts["lane"] != task.lane:
        return Wrong("§1", f"claimed in lane {facts['lane']}: the card was in {task.lane}", facts["lane"], task.lane)
    return _paused(moment, event, worker, facts["host"]) or _caps(moment, facts["caps"], worker)


def _not_claimable(event: Recorded, task: Task) -> Wrong:
    found = status(task)
    if found in {"scheduled", "review", "ready"}:
        found = "scheduled for later" if (task.scheduled or 0) > event.at else "in its cooldown"
    return Wrong("§3", f"claimed: the card was {found}", event.run, task.run)


def _paused(moment: Moment, event: Recorded, worker: str, host: str) -> Wrong | None:
    pauses = moment.world.settings.pauses
    pause = moment.world.settings.pause_of(worker=worker, host=host) if pauses else None
    if pause is None:
        return None
    of = f"{pause.scope} {pause.name}".strip()
    return Wrong("§7", f"{event.kind}: {of} was paused at position {pause.position}", None, of)


def _caps(moment: Moment, caps: list[dict[str, Any]], worker: str) -> Wrong | None:
    """Caps that were kept, with the live runs that the log shows, and all that the policy in force asks for."""
    policy = moment.world.settings.policy
    in_force = {"board": policy.max_running, "assignee": policy.max_running_per_assignee}
    live = moment.running(worker) if caps else {}
    for cap in caps:
        name = cap["cap"]
        if cap["live"] != live.get(name, cap["live"]):
            return Wrong("§7", f"claimed: live runs of cap {name}", cap["live"], live[name])
        if cap["live"] >= cap["limit"]:
            return Wrong("§7", f"claimed: cap {name} was full", cap["live"], cap["limit"])
        limit = in_force.pop(name, None)
        if limit is None and name == "board":
            return Wrong("§7", "claimed: no cap of the board was in force", cap["limit"], None)
        if limit is not None and (cap["limit"] > limit or (name == "board" and cap["limit"] != limit)):
            return Wrong("§7", f"claimed: limit of cap {name}", cap["limit"], limit)
    for name, limit in in_force.items():
        if limit is not None:
            return Wrong("§7", f"claimed without a word of cap {name}", None, limit)
    return None


def worker_bound(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """The open run, each role once, not while paused."""
    run = moment.run(task.id, event.run)
    if task.run is None or event.run != task.run or run is None:
        return _other_run(event, task)
    role = event.facts["role"]
    if (run.turns if role == "turns" else run.group) is not None:
        return Wrong("§2", f"worker_bound: run {run.run} had its {role} already", role, None)
    return _paused(moment, event, run.worker, event.facts["host"])


def of_open_run(moment: Moment, event: Recorded, task: Task) -> Wrong | None:  # noqa: ARG001 – one shape for all
    """The open run, whatever is said of it."""
    return None if event.run == task.run is not None else _other_run(event, task)


def stop_requested(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """The open run; by the sweep at most once for each cause."""
    wrong = _other_run(event, task)
    cause = event.facts["cause"]
    if wrong is not None or cause == "operator":
        return wrong
    run = moment.run(task.id, event.run)
    if run is not None and any(stop.cause == cause for stop in run.stops):
        return Wrong("§2", f"stop_requested: run {run.run} had been asked for {cause} already", cause, None)
    return None


def exited(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """The open run; an outcome that the evidence, the stops and the claim allow; the cooldown of the policy."""
    wrong = _other_run(event, task)
    run = moment.run(task.id, event.run)
    if wrong is not None or run is None:
        return wrong
    facts = event.facts
    allowed = outcomes(run, code=facts["code"], signal=facts["signal"], evidence=facts["evidence"])
    if event.outcome not in allowed:
        how = f"code {facts['code']}, signal {facts['signal']}, evidence {facts['evidence']}"
        return Wrong("§6", f"exited as {event.outcome}: {how}", event.outcome, sorted(allowed))
    return _lost(event, facts) or _not_before(moment, event, task, facts)


def outcomes(run: Run, *, code: int | None, signal: int | None, evidence: str) -> frozenset[str]:
    """What a run may have been booked as: the first row of RULES §6 that matches, as far as the log can tell."""
    match code:
        case 75:
            return _ONLY["rate_limited"]
        case 78:
            return _ONLY["config"]
        case _ if run.stops:
            return _ONLY[_BY_STOP[run.stops[0].cause]]
        case 0 | 1:
            by_code = _ONLY["crashed"] if code == 1 else _of_success(run)
            return by_code | _ONLY["rate_limited"] if run.quota else by_code
        case 126 | 127:
            return _ONLY["spawn_failed"]
        case _ if evidence != "none":
            asked = code in _ASKED_TO_STOP or signal in _STOP_SIGNALS
            return _ONLY["interrupted" if asked else "crashed"]
        case _ if run.group is None:  # nothing ran that could be gone
            return _ONLY["lost"] | _ONLY["interrupted"]
        case _:
            return _ONLY["lost"] | _ONLY["interrupted"] | _ONLY["crashed"]


def _of_success(run: Run) -> frozenset[str]:
    """`exited` of code 0: none where the claim's on_success stands for a verb."""
    by_verb = run.on_success == "complete" or (run.on_success == "review" and run.lane == "work")
    return frozenset() if by_verb else _ONLY["clean"]


def _lost(event: Recorded, facts: dict[str, Any]) -> Wrong | None:
    until, grace = facts["lease_until"], facts["grace"]
    if event.outcome != Outcome.LOST:
        if (until, grace, facts["last_beat"]) == (None, None, None):
            return None
        return Wrong("§2", f"exited as {event.outcome} with the lease of a lost run", until, None)
    if until is None or grace is None:
        return Wrong("§2", "exited as lost without its lease and grace", until, None)
    over = until + grace * SECOND
    return None if over <= event.at else Wrong("§6", "exited as lost before lease and grace were over", event.at, over)


def _not_before(moment: Moment, event: Recorded, task: Task, facts: dict[str, Any]) -> Wrong | None:
    outcome, reset_asked = event.outcome or "", facts["reset_asked"]
    wait = None
    if outcome in NEUTRAL:
        wait = not_before_after(
            moment.world.settings.policy, outcome=outcome, neutral=task.neutral + 1, task=task.id, now=event.at,
            reset_asked=reset_asked if outcome == Outcome.RATE_LIMITED else None,
        )  # fmt: skip
    if facts["not_before"] == wait:
        return None
    return Wrong("§4", f"exited as {outcome}: not before", facts["not_before"], wait)


def completed(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """Of the open run, once every parent is satisfied; or an operator's."""
    if event.run is None:
        return completed_by_operator(moment, event, task)
    return _other_run(event, task) or unmet(moment, event, task)


def changes_requested(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """Of the open run in lane review; or an operator's."""
    if event.run is None:
        return changes_by_operator(moment, event, task)
    wrong = _other_run(event, task)
    if wrong is None and task.lane != "review":
        return Wrong("§8", f"changes_requested in lane {task.lane}", task.lane, "review")
    return wrong


def blocked(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """Of the open run: sticky, or of kind `dependency` with nothing held while a parent is open; or an operator's.

    A budget's is judged by the end that it follows, so here it is one that nothing brought about.
    """
    facts = event.facts
    if event.run is None:
        if facts["cause"].endswith("_budget"):
            return Wrong("§5", f"blocked ({facts['cause']}): no end of a run tripped that budget", facts["cause"], None)
        return blocked_by_operator(moment, event, task)
    wrong = _other_run(event, task)
    if wrong is not None:
        return wrong
    if facts["cause"] != "worker":
        return Wrong("§2", f"blocked by a run, cause {facts['cause']}", facts["cause"], "worker")
    if facts["sticky"] != facts["hold"]:
        return Wrong("§4", "blocked by a worker: a hold is sticky", facts["sticky"], facts["hold"])
    return _dependency(moment, task, held=facts["hold"], kind=facts["block_kind"])


def _dependency(moment: Moment, task: Task, *, held: bool, kind: str | None) -> Wrong | None:
    if held == (kind != "dependency"):
        if held or moment.has_open_parent(task.id):
            return None
        return Wrong("§8", "blocked (dependency): no parent was open, so a hold had to be set", held, True)
    return Wrong("§8", f"blocked ({kind}): hold {held}", held, kind != "dependency")


def late_result(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """A run of this card, once: an ended one, or one that this very append ends."""
    run = moment.run(task.id, event.run)
    if run is None:
        return Wrong("§2", f"late_result: the card had no run {event.run}", event.run, task.last_run)
    if run.late_position is not None:
        return Wrong("§8", f"late_result: one of run {run.run} was kept at position {run.late_position}", run.run, None)
    return None


def _other_run(event: Recorded, task: Task) -> Wrong | None:
    if event.run == task.run and event.run is not None:
        return None
    found = f"run {task.run} was open" if task.run is not None else "no run was open"
    return Wrong("§2", f"{event.kind} names run {event.run}: {found}", event.run, task.run)
