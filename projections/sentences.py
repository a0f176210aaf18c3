"""Events in words, for people who read a card's story: one short sentence each, and what was said with it. Pure."""

from __future__ import annotations

from typing import Any, Final

from ledger.clock import rfc3339
from ledger.recorded import Recorded

_SAID: Final = ("body", "reason", "note", "summary", "last_words", "result")
"""The words that are shown beside an event, the first that there is."""
_WORDED: Final = {"exited": "last_words", "completed": "summary", "created": "", "edited": ""}
_OUTCOMES: Final = {
    "clean": "ended without a word",
    "crashed": "crashed",
    "timed_out": "ran out of time",
    "stalled": "stalled",
    "spawn_failed": "could not be started",
    "rate_limited": "met a quota",
    "interrupted": "was interrupted",
    "lost": "was lost",
    "config": "met a broken configuration",
}
_TURNS: Final = ", which takes its turns"
_CAUSES: Final = {
    "max_runtime": "it ran over its time",
    "stalled": "it made no progress",
    "operator": "an operator wants it",
    "drain": "the board is drained",
    "worker": "its worker asks",
    "limit_raised": "a limit was raised",
    "reassigned": "somebody else has it now",
    "config": "its configuration is broken",
}


def sentence(event: Recorded) -> str:
    """*event* as a sentence without its words. Raises `UnknownKind`, `NewerSchema`."""
    facts = event.facts
    match event.kind:
        case "board_created":
            return f"the board {facts['name']} was founded"
        case "policy_changed":
            return "the policy was changed"
        case "paused":
            return f"{_scope(facts['scope'])} was paused{' and drained' if facts['drain'] else ''}"
        case "resumed":
            return f"{_scope(facts['scope'])} was resumed"
        case "created":
            return f"created for {facts['assignee'] or 'nobody'}{_after(facts['parents'])}"
        case "edited":
            return f"edited: {', '.join(name.replace('_', ' ') for name in facts['fields'])}"
        case "assigned":
            return f"its {facts['role']} is now {facts['to'] or 'nobody'}{_before(facts['previous'])}"
        case "linked":
            return f"waits for {facts['parent']}{_any(facts['require'])}"
        case "unlinked":
            return f"no longer waits for {facts['parent']}"
        case "commented":
            return "commented"
        case "scheduled":
            return f"parked until {_minute(facts['not_before'])}"
        case _:
            return _of_run(event, facts)


def said(event: Recorded) -> str | None:
    """The words of *event* that are worth reading beside it; none where nobody said anything, or it is redacted."""
    names = _SAID if event.kind not in _WORDED else (_WORDED[event.kind],)
    found = (event.words.get(name) for name in names)
    return next((str(words) for words in found if words), None)


def _of_run(event: Recorded, facts: dict[str, Any]) -> str:
    match event.kind:
        case "claimed":
            return f"run {event.run} was claimed for {facts['worker']} on {facts['host']}"
        case "worker_bound":
            return f"run {event.run} has process {facts['pid']}{_TURNS if facts['role'] == 'turns' else ''}"
        case "progressed":
            return f"run {event.run} goes on"
        case "stop_requested":
            return f"run {event.run} was asked to stop: {_cause(facts['cause'])}"
        case "exited":
            return f"run {event.run} {_OUTCOMES.get(event.outcome or '', event.outcome)}{_code(facts)}"
        case "violation":
            return f"run {event.run} broke the rule to say how it ended: {facts['streak']} of {facts['limit']} in a row"
        case "review_requested":
            return f"run {event.run} asks {facts['reviewer'] or 'somebody'} to look"
        case "late_result":
            return f"a result of run {event.run} came too late and was kept: {facts['why']}"
        case _:
            return _of_card(event, facts)


def _of_card(event: Recorded, facts: dict[str, Any]) -> str:
    by = "" if event.run is None else f" by run {event.run}"
    match event.kind:
        case "completed":
            return f"completed{by}" if event.outcome == "ok" else f"completed{by} as failed"
        case "changes_requested":
            return f"changes were asked for{by}"
        case "blocked":
            return f"blocked{by}: {_held(facts)}"
        case "unblocked":
            return f"unblocked: {_cause(facts['cause'])}"
        case "reopened":
            return "reopened"
        case "archived":
            return "archived" if facts["children"] is None else f"archived, its children: {facts['children']}"
        case "redacted":
            return f"the words at {facts['redacts']} were redacted"
        case _:
            return event.kind.replace("_", " ")


def _held(facts: dict[str, Any]) -> str:
    if facts["count"] is not None:
        reached = f"{facts['count']} of {facts['limit']} ({facts['limit_source']} limit)"
        return f"{_cause(facts['cause'])}, {reached}"
    kind = f" ({facts['block_kind'].replace('_', ' ')})" if facts["block_kind"] else ""
    return f"{_cause(facts['cause'])}{kind}"


def _cause(cause: str) -> str:
    return _CAUSES.get(cause, cause.replace("_", " "))


def _scope(scope: dict[str, str]) -> str:
    return "the board" if scope["kind"] == "board" else f"{scope['kind']} {scope['name']}"


def _before(previous: str | None) -> str:
    return "" if previous is None else f", before {previous}"


def _after(parents: list[dict[str, str]]) -> str:
    return f", after {', '.join(parent['task'] for parent in parents)}" if parents else ""


def _any(require: str) -> str:
    return ", however it ends" if require == "any" else ""


def _code(facts: dict[str, Any]) -> str:
    if facts["signal"]:
        return f" (signal {facts['signal']})"
    return "" if facts["code"] is None else f" (code {facts['code']})"


def _minute(at: int) -> str:
    """To the minute: seconds say nothing about a time somebody chose."""
    return f"{rfc3339(at)[:16].replace('T', ' ')} UTC"
