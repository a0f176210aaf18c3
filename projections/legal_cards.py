"""Whether what people did to a card, and to the board itself, was theirs to do at that moment (RULES §2, §5, §8). Pure.

Each function takes the moment, the event and the card before it, and answers what is wrong, or none.
"""

from __future__ import annotations

from typing import Final

from ledger.events import KINDS
from ledger.recorded import Recorded
from projections.budgets import at_limit, lift
from projections.divergence import Wrong
from projections.moment import Moment
from projections.task import Task, status

BOARD_KINDS: Final = frozenset({"board_created", "policy_changed", "paused", "resumed"})
WORKER_KINDS: Final = frozenset(
    {
        "created",
        "commented",
        "linked",
        "claimed",
        "worker_bound",
        "progressed",
        "completed",
        "review_requested",
        "changes_requested",
        "blocked",
        "late_result",
    }
)
"""What a worker may do: act on its own run, create cards, comment, link its own card (RULES §8)."""


def of_board(moment: Moment, event: Recorded) -> Wrong | None:
    """The board's own stream."""
    match event.kind:
        case "board_created":
            return None if event.version == 1 else Wrong("§2", "board_created: the board stood already")
        case "resumed":
            scope = event.facts["scope"]
            key = (scope["kind"], scope["name"])
            if not any((pause.scope, pause.name) == key for pause in moment.world.settings.pauses):
                return Wrong("§8", f"resumed: no pause of {' '.join(key).strip()} was in force", list(key), None)
        case "policy_changed" | "paused" | "redacted":
            pass
        case kind if kind in KINDS:  # one that is not known, the fold names
            return Wrong("§2", f"{kind} stands in the board's own stream", kind, sorted(BOARD_KINDS))
    return redacted(moment, event) if event.kind == "redacted" else None


def created(moment: Moment, event: Recorded, task: Task | None) -> Wrong | None:
    """Version 1 and only there; parents that exist and can still come; made by a run only where a worker made it."""
    if task is not None or event.version != 1:
        return Wrong("§2", "created: the card stood already", event.version, 1)
    facts = event.facts
    for parent in facts["parents"]:
        wrong = _parent(moment, event.kind, parent["task"], parent["require"])
        if wrong is not None:
            return wrong
    if facts["key"] is not None and moment.has_key(facts["key"]):
        return Wrong("§8", f"created: the key {facts['key']!r} was another card's", facts["key"], None)
    return _made_by(moment, event)


def _made_by(moment: Moment, event: Recorded) -> Wrong | None:
    made_by = event.facts["made_by"]
    if (made_by is not None) != (event.actor_kind == "worker"):
        return Wrong("§8", f"created by an actor of kind {event.actor_kind}, made by run: {made_by}", made_by, None)
    if made_by is None or made_by["task"] in moment.unread:
        return None
    if not moment.had_run(made_by["task"], made_by["run"]):
        return Wrong("§8", f"created: {made_by['task']} had no run {made_by['run']}", made_by, None)
    return None


def edited(moment: Moment, event: Recorded, task: Task) -> Wrong | None:  # noqa: ARG001 – one shape for all
    """The lane changes only on an open card that no run has and that is not in review."""
    lane = event.facts["values"].get("lane")
    if lane is None:
        return None
    if lane == "review" or task.lane == "review":
        return Wrong("§8", f"edited: lane {task.lane} to {lane}; only a review leads there and back", lane, task.lane)
    return _closed(event, task) or _running(event, task)


def assigned(moment: Moment, event: Recorded, task: Task) -> Wrong | None:  # noqa: ARG001
    """Not closed, not running; *previous* is who had the role."""
    wrong = _closed(event, task) or _running(event, task)
    if wrong is not None:
        return wrong
    role, previous = event.facts["role"], event.facts["previous"]
    had = task.card.reviewer if role == "reviewer" else task.card.assignee
    return None if previous == had else Wrong("§2", f"assigned: the {role} before was {had or 'nobody'}", previous, had)


def linked(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """A parent that exists and can still come, no ring, an open child; a running one only by its own run."""
    if event.actor_kind == "worker":
        if task.run is None:
            return Wrong("§8", "linked by a worker that has no run open", "worker", None)
    elif task.run is not None:
        return _running(event, task)
    parent = event.facts["parent"]
    wrong = _closed(event, task) or _parent(moment, event.kind, parent, event.facts["require"])
    if wrong is not None:
        return wrong
    closed = moment.ring(task.id, parent)
    return None if closed is None else Wrong("§3", f"linked: that closes a ring: {' → '.join(closed)}", closed, None)


def unlinked(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """The link stood there, and the child is open."""
    wrong = _closed(event, task)
    if wrong is not None:
        return wrong
    parent, require = event.facts["parent"], event.facts["require"]
    stood = moment.world.graph.parents.get(task.id, {}).get(parent)
    return None if stood == require else Wrong("§8", f"unlinked: no such link to {parent}", require, stood)


def scheduled(moment: Moment, event: Recorded, task: Task) -> Wrong | None:  # noqa: ARG001
    """Not closed, not running."""
    return _closed(event, task) or _running(event, task)


def commented(moment: Moment, event: Recorded, task: Task) -> Wrong | None:  # noqa: ARG001
    """Anybody, at any time."""
    return None


def unblocked(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """By an operator with a hold or a cooldown in force; by the sweep where the condition of the hold is gone.

    That somebody acted since the hold was set needs no look: it was set at a limit, and nothing else moves either.
    """
    cause, hold = event.facts["cause"], task.hold
    if cause == "operator":
        if event.actor_kind != "operator":
            return Wrong("§8", f"unblocked as by an operator, by an actor of kind {event.actor_kind}",
                         event.actor_kind, "operator")  # fmt: skip
        if hold is None and (task.not_before or 0) <= event.at:
            return Wrong("§8", "unblocked: neither a hold nor a cooldown was in force", cause, None)
        return _closed(event, task)
    if hold is None or hold.sticky:
        stood = "no hold was in force" if hold is None else f"the hold {hold.cause} was sticky"
        return Wrong("§5", f"unblocked ({cause}): {stood}", cause, None)
    policy = moment.world.settings.policy
    found = lift(task, policy)
    if found != cause:
        full = ", ".join(f"{b.cause} {b.count} of {b.limit}" for b in at_limit(task, policy))
        return Wrong("§5", f"unblocked ({cause}): {f'still at its limit: {full}' if full else f'it was {found}'}",
                     cause, found)  # fmt: skip
    return None


def reopened(moment: Moment, event: Recorded, task: Task) -> Wrong | None:  # noqa: ARG001
    """Done or archived."""
    return _running(event, task) or (
        None if task.closed else Wrong("§8", f"reopened: the card was {status(task)}", status(task), "done or archived")
    )


def archived(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """Not archived, not running; with open children that wait for it, a choice."""
    if task.archived:
        return Wrong("§8", "archived: the card was archived already", "archived", None)
    wrong = _running(event, task)
    if wrong is not None or event.facts["children"] is not None:
        return wrong
    waiting = moment.open_children(task)
    if not waiting:
        return None
    return Wrong("§8", f"archived: no choice for its open children {', '.join(waiting)}", None, waiting)


def redacted(moment: Moment, event: Recorded, task: Task | None = None) -> Wrong | None:  # noqa: ARG001
    """It names an earlier position."""
    named = event.facts["redacts"]
    if 1 <= named < event.position:
        return None
    return Wrong("§10", f"redacted: position {named} is not before it", named, event.position)


def blocked_by_operator(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """A sticky hold on an open card that no run has; a wish that a rule refused may stand on a closed one."""
    facts = event.facts
    if facts["cause"] != "operator":
        return Wrong("§2", f"blocked ({facts['cause']}) without a run is no budget's and no operator's", facts["cause"],
                     "operator")  # fmt: skip
    wrong = _running(event, task)
    if wrong is not None:
        return wrong
    if (facts["hold"], facts["sticky"]) != (True, True):
        return Wrong("§4", "blocked by an operator: the hold is always set, and sticky", facts["sticky"], True)
    if facts["block_kind"] == "wish_refused":
        last = moment.run(task.id, task.last_run)
        asked = last is not None and any(stop.wish for stop in last.stops)
        return None if asked else Wrong("§7", "blocked (wish_refused): the last run was asked nothing", "wish_refused")
    born_blocked = event.version == 2 and task.position == event.position - 1  # noqa: PLR2004 – created, then this
    if event.actor_kind != "operator" and not born_blocked:
        return Wrong("§8", f"blocked as by an operator, by an actor of kind {event.actor_kind}", event.actor_kind,
                     "operator")  # fmt: skip
    return _closed(event, task)


def changes_by_operator(moment: Moment, event: Recorded, task: Task) -> Wrong | None:  # noqa: ARG001
    """Status `review`: nothing else holds the card."""
    found = status(task.frozen()._replace(open_parents=moment.open_parents(task.id)))
    return None if found == "review" else Wrong("§8", f"changes_requested: the card was {found}", found, "review")


def completed_by_operator(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """No run, not done, every parent satisfied."""
    if task.outcome is not None:
        return Wrong("§8", f"completed: the card was done already ({task.outcome})", event.outcome, task.outcome)
    return _running(event, task) or unmet(moment, event, task)


def unmet(moment: Moment, event: Recorded, task: Task) -> Wrong | None:
    """Wrong where a parent was not satisfied."""
    waiting_for = moment.open_parents(task.id)
    return None if waiting_for <= 0 else Wrong("§8", f"{event.kind} before its parents", 0, waiting_for)


def by_worker(event: Recorded, task: Task | None) -> Wrong | None:
    """A worker acts on its own run, creates, comments and links; nothing else (RULES §8)."""
    if event.kind not in WORKER_KINDS:
        return Wrong("§8", f"{event.kind} is not a worker's", "worker", None)
    if event.kind in {"completed", "changes_requested"} and event.run is None:
        return Wrong("§8", f"{event.kind} by a worker names no run", None, task.run if task else None)
    return None


def _parent(moment: Moment, kind: str, parent: str, require: str) -> Wrong | None:
    if not moment.knows(parent):
        return Wrong("§3", f"{kind}: no card {parent} on this board", parent, None)
    if moment.is_dead(parent, require):
        return Wrong("§3", f"{kind}: its parent {parent} is dead: {require} can never be", parent, None)
    return None


def _closed(event: Recorded, task: Task) -> Wrong | None:
    if not task.closed:
        return None
    return Wrong("§8", f"{event.kind}: the card was {status(task)}", status(task), "reopened first")


def _running(event: Recorded, task: Task) -> Wrong | None:
    if task.run is None:
        return None
    return Wrong("§8", f"{event.kind} while run {task.run} was open", None, task.run)
