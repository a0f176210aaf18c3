"""Where a card of the reference system stands by its own history: folded by that system's rules, not by ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kanban.foreign.account import BLOCKED, ONE, ZERO, Account, Block, Hold, Statuses, budget_of, stoppable
from kanban.foreign.counter import clears_later, counted, failures_after
from kanban.foreign.kinds import FREED, KNOWN, MOVING, NEWER, OVER, STATUSES, Era
from kanban.foreign.tables import Event
from projections.folding import changed

_READY, _TODO = ONE["ready"], ONE["todo"]
_TO: Final = {
    "claimed": ONE["running"], "blocked": BLOCKED, "dependency_wait": _TODO, "block_loop_detected": ONE["triage"],
    "scheduled": ONE["scheduled"], "completed": ONE["done"], "review_requested": ONE["review"],
    "promoted_manual": _READY, "specified": _TODO, "decomposed": _TODO, "archived": ONE["archived"],
}  # fmt: skip
"""Kinds after which there is one status, whatever was before."""
_SAID: Final = {"promoted": "ready", "unblocked": "ready", "changes_requested": "ready", "review_reopened": "ready"}
"""Kinds that name the status themselves where it is not this one."""
_CLOSING: Final = FREED | {
    "blocked", "dependency_wait", "block_loop_detected", "unblocked", "scheduled", "completed", "review_requested",
    "changes_requested", "archived",
}  # fmt: skip
"""Kinds after which no run is open."""
_GUARDED: Final = frozenset(
    {"assigned", "linked", "unlinked", "claim_rejected", "gave_up", "spawn_failed", "timed_out"}
)
"""Kinds that may leave the status as it was."""


def step(was: Account, event: Event, era: Era, others: Mapping[str, Account]) -> Account:
    """What *event* makes of *was*, by the rules of the versions in *era*; *others*: every card, for links."""
    if event.kind not in MOVING:
        strange = was.strange if event.kind in KNOWN else event.id
        return changed(was, first=was.first or event.id, strange=strange)
    if event.kind == "created":
        was = Account(was.task, failures=ZERO, block=Block(known=True), whole=True, first=event.id)
    statuses = _statuses(was, event, era, others)
    stays = event.kind in _GUARDED and statuses == was.statuses
    failures, unsure = failures_after(was, event, era)
    return changed(
        was,
        statuses=statuses,
        failures=failures,
        unsure=unsure,
        counted=counted(was, event, failures),
        cleared=event.id if clears_later(event) else was.cleared,
        block=_block(was, event),
        hold=was.hold if stays else _hold(was, event, statuses),
        sticky=event.id if event.kind == "blocked" else 0 if event.kind == "unblocked" else was.sticky,
        run=_run(was, event),
        claimed=event.id if event.kind == "claimed" else was.claimed,
        assignee=_assignee(was, event),
        named=_named(was, event),
        parents=_parents(was, event),
        first=was.first or event.id,
        moved=was.moved if stays else event.id,
    )


# Status


def _statuses(was: Account, event: Event, era: Era, others: Mapping[str, Account]) -> Statuses:
    kind = event.kind
    match kind:
        case "decomposed" if not was.whole and not was.first:
            return STATUSES  # kept when the events after it were deleted
        case _ if kind in _TO:
            return _TO[kind]
        case _ if kind in _SAID:
            return ONE.get(event.text("status"), ONE[_SAID[kind]])
        case "created":
            decomposed = _TODO if "from_decompose_of" in event.facts else STATUSES
            return ONE.get(event.text("status"), decomposed)
        case "status":
            return ONE.get(event.text("status"), STATUSES)
        case "descendant_invalidated":
            return ONE.get(event.text("new_status"), STATUSES)
        case "claim_rejected":
            return _instead(was.statuses, _READY, _TODO)
        case "linked":
            return _linked(was, event, era, others)
        case "gave_up":
            return _instead(was.statuses, stoppable(era), BLOCKED)
        case "spawn_failed" | "timed_out" if "failures" in event.facts:
            return _instead(was.statuses, ONE["running"], _lane(event))
        case _ if kind in FREED:
            return _lane(event)
        case _:
            return was.statuses


def _instead(statuses: Statuses, only: Statuses, to: Statuses) -> Statuses:
    """*to* where the status was one of *only*; what else it may have been stays."""
    return (statuses - only) | to if statuses & only else statuses


def _lane(event: Event) -> Statuses:
    return ONE["review"] if event.text("retry_status") == "review" else _READY


def _linked(was: Account, event: Event, era: Era, others: Mapping[str, Account]) -> Statuses:
    """A card in ready goes back to todo under a parent that is not done; up to 0.19 also under an archived one."""
    parent = others.get(event.text("parent"))
    possible = STATUSES if parent is None else parent.statuses
    if possible == ONE["done"] or not was.statuses & _READY:
        return was.statuses
    demoted = _instead(was.statuses, _READY, _TODO)
    sure = "done" not in possible and (era.high < NEWER or not possible & OVER)
    return demoted if sure else demoted | _READY


# Block, hold, run, assignee, parents


def _block(was: Account, event: Event) -> Block:
    kind = event.text("kind") or None
    match event.kind:
        case "completed":
            return Block(known=True)
        case "blocked" | "block_loop_detected" if "recurrences" in event.facts:
            return Block(kind, event.number("recurrences") or 0, known=True)
        case "blocked" if event.facts.get("classified_in_place"):
            return Block(kind, 1, known=True)
        case "dependency_wait" if "kind" in event.facts:
            return was.block._replace(kind=kind)
        case "descendant_invalidated":
            return Block()
        case _:
            return was.block


def _hold(was: Account, event: Event, statuses: Statuses) -> Hold | None:
    if statuses != BLOCKED:
        return None
    if event.facts.get("classified_in_place") and was.hold is not None:
        return was.hold
    return Hold(event.id, event.kind, budget_of(event) if event.kind == "gave_up" else None)


def _run(was: Account, event: Event) -> int | None:
    match event.kind:
        case "claimed":
            told = event.number("run_id")
            return event.run if told is None else told
        case "gave_up":
            return None if event.run is not None else was.run
        case "status" if event.text("status") != "running":
            return None
        case "descendant_invalidated":
            return None
        case _:
            return None if event.kind in _CLOSING else was.run


def _assignee(was: Account, event: Event) -> str | None:
    match event.kind:
        case "created" | "assigned":
            return event.text("assignee") or None
        case "decomposed":
            return event.text("root_assignee") or was.assignee
        case "review_requested":
            return event.text("reviewer") or was.assignee
        case "changes_requested" | "review_reopened":
            return event.text("implementer") or was.assignee
        case _:
            return was.assignee


def _named(was: Account, event: Event) -> bool:
    """Whether the history says who has the card: it does not for the parts of a card that was taken apart."""
    match event.kind:
        case "created":
            return "assignee" in event.facts
        case "assigned":
            return True
        case "specified":
            return was.named and "assignee" not in _names(event, "changed_fields")
        case _:
            return was.named


def _parents(was: Account, event: Event) -> frozenset[str]:
    match event.kind:
        case "created":
            return was.parents | _names(event, "parents")
        case "decomposed":
            return was.parents | _names(event, "child_ids")
        case "linked":
            return was.parents | {event.text("parent")}
        case "unlinked":
            return was.parents - {event.text("parent")}
        case _:
            return was.parents


def _names(event: Event, fact: str) -> frozenset[str]:
    found = event.facts.get(fact)
    return frozenset(name for name in found if isinstance(name, str)) if isinstance(found, list) else frozenset()
