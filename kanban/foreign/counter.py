"""The failure counter of a card of the reference system, by the rules of the versions that wrote its events. Pure."""

from __future__ import annotations

from typing import Final

from kanban.foreign.account import BLOCKED, ZERO, Account, Count, Statuses, stoppable
from kanban.foreign.kinds import NEWER, Era
from kanban.foreign.tables import Event

UNBLOCK_CLEARS: Final = 15
"""The first 0.x in which an unblock starts the counter again."""
PROMOTION_CLEARS: Final = 15
"""The only 0.x in which a promotion of a blocked card does."""
_KEPT: Final = 7


def failures_after(was: Account, event: Event, era: Era) -> tuple[Count, int]:
    """The counter, and how many ends stand since it was last certain: each was counted in a transaction of its own."""
    count = was.failures
    match event.kind:
        case "created" | "completed":
            return ZERO, 0
        case "crashed":
            return count.plus(1, 1), was.unsure + 1
        case "timed_out" | "spawn_failed" if "failures" in event.facts:
            return _carried(was, event, frozenset({"running"}))
        case "timed_out":
            return count.plus(1, 1), was.unsure + 1
        case "spawn_failed":
            return count.plus(0, 1), was.unsure
        case "protocol_violation" if not event.facts.get("protocol_violation"):
            return count.plus(1, 1), was.unsure + 1
        case "reclaimed" if event.facts.get("manual"):
            return ZERO, 0
        case "reclaimed" if "retry_status" in event.facts:
            return count.plus(0, 1), was.unsure + 1
        case "gave_up":
            return _carried(was, event, stoppable(era), skipped=-1)
        case "promoted" if was.statuses & BLOCKED:
            return _if(era.within(PROMOTION_CLEARS, PROMOTION_CLEARS), ZERO, count), was.unsure
        case "unblocked":
            return _if(era.within(UNBLOCK_CLEARS, NEWER), ZERO, count), 0
        case "assigned":
            return _reassigned(was, event)
        case "descendant_invalidated":
            return count.or_(ZERO), was.unsure
        case _:
            return count, was.unsure


def _if(is_so: bool | None, then: Count, otherwise: Count) -> Count:
    """*then* or *otherwise*; either of them where it is not known."""
    return then.or_(otherwise) if is_so is None else then if is_so else otherwise


def _carried(was: Account, event: Event, only: Statuses, *, skipped: int = 0) -> tuple[Count, int]:
    """The event carries the counter; it was stored only where the status was one of *only*.

    *skipped*: how far the stored counter is from the one in the event where it was not; 0: it was not moved.
    """
    told = event.number("failures")
    if told is None:
        return was.failures.plus(0, 1), was.unsure
    stored = Count(told, told)
    left = Count(told + skipped, told + skipped) if skipped else was.failures
    if was.statuses <= only:
        return stored, 0
    return (left, 0) if not was.statuses & only else (stored.or_(left), 0)


def _reassigned(was: Account, event: Event) -> tuple[Count, int]:
    if event.text("source"):
        return was.failures, was.unsure
    if not was.named and "from" not in event.facts:
        return was.failures.or_(ZERO), was.unsure
    before = event.text("from") if "from" in event.facts else was.assignee
    same = (before or None) == (event.text("assignee") or None)
    return (was.failures, was.unsure) if same else (ZERO, 0)


def counted(was: Account, event: Event, now: Count) -> tuple[int, ...]:
    """The events that make the counter what it is: the last that says it, and what moved it since."""
    if event.kind in {"gave_up", "created", "completed", "unblocked"} or "failures" in event.facts:
        return (event.id,)
    return (*was.counted[-_KEPT:], event.id) if now != was.failures else was.counted


def clears_later(event: Event) -> bool:
    """Whether the event starts the counter again from zero in a transaction of its own, after it."""
    return event.kind == "completed" or (event.kind == "reclaimed" and bool(event.facts.get("manual")))
