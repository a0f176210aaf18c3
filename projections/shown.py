"""Cards, runs and events as plain JSON values: the shapes that `docs/cli.md` promises."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ledger.clock import rfc3339
from ledger.recorded import Recorded
from projections.run import Run
from projections.task import Task


def event_json(event: Recorded) -> dict[str, Any]:
    """An event as `ledger events --jsonl` prints it; words and salt are none once redacted."""
    return {
        "board": event.board,
        "position": event.position,
        "task": event.task,
        "version": event.version,
        "kind": event.kind,
        "schema": event.schema,
        "at": rfc3339(event.at),
        "actor": {"kind": event.actor_kind, "name": event.actor_name, "host": event.actor_host},
        "run": event.run,
        "outcome": event.outcome,
        "command_id": event.command_id,
        "facts": json.loads(event.facts_text),
        "words": None if event.words_text is None else event.words,
        "salt": None if event.salt is None else event.salt.hex(),
        "words_digest": event.words_digest.hex(),
        "hash": event.hash.hex(),
    }


def card_json(found: Task, status: str, said: dict[int, dict[str, Any]], parents: list[str]) -> dict[str, Any]:
    """A card, as `docs/cli.md` has it."""
    card, hold = found.card, found.hold
    return {
        "id": found.id,
        "title": said.get(card.title_position, {}).get("title"),
        "status": status,
        "assignee": card.assignee,
        "priority": card.priority,
        "labels": list(card.labels),
        "tenant": card.tenant,
        "parents": parents,
        "run": found.run,
        "failures": found.failures,
        "streak": found.streak,
        "spent": found.spent,
        "neutral": found.neutral,
        "runs_used": found.runs,
        "lane": found.lane,
        "reviewer": card.reviewer,
        "outcome": found.outcome,
        "hold": None
        if hold is None
        else {
            "cause": hold.cause,
            "kind": hold.kind,
            "reason": _reason(said.get(hold.position, {})),
            "sticky": hold.sticky,
            "count": hold.count,
            "limit": hold.limit,
            "limit_source": hold.limit_source,
            "position": hold.position,
        },
        "not_before": time_or_none(found.not_before),
        "scheduled": time_or_none(found.scheduled),
        "max_retries": card.max_retries,
        "max_runtime": card.max_runtime,
        "workspace": card.workspace,
        "goal": card.goal_max_turns is not None,
        "goal_max_turns": card.goal_max_turns,
        "host": card.host,
        "key": card.key,
        "made_by": None if card.made_by_task is None else {"task": card.made_by_task, "run": card.made_by_run},
        "version": found.version,
        "created_at": rfc3339(card.created_at),
        "updated_at": rfc3339(found.updated_at),
        "position": found.position,
    }


def run_json(run: Run, lease: int | None, said: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """A run; *lease* is the one in force, *said* the words by position."""
    left = said.get(run.ended_position or 0, {})
    return {
        "run": run.run,
        "assignee": run.worker,
        "lane": run.lane,
        "claimed_at": rfc3339(run.claimed_at),
        "lease_until": time_or_none(lease if lease is not None and run.open else run.lease_until),
        "pid": run.group.pid if run.group else None,
        "host": run.group.host if run.group else run.host,
        "outcome": run.outcome,
        "code": run.code,
        "signal": run.signal,
        "evidence": run.evidence,
        "ended_at": time_or_none(run.ended_at),
        "last_words": left.get("last_words"),
        "summary": left.get("summary") or left.get("reason"),
        "usage": None if run.tokens is None and run.cost is None else {"tokens": run.tokens, "cost": run.cost},
        "stops": [{"position": stop.position, "cause": stop.cause, "at": rfc3339(stop.at)} for stop in run.stops],
        "positions": [place for place in (run.claimed_position, run.ended_position) if place is not None],
    }


def _reason(left: dict[str, Any]) -> str | None:
    found = left.get("reason") or left.get("last_words")
    return None if found is None else str(found)


def time_or_none(at: int | None) -> str | None:
    """RFC 3339, or none."""
    return None if at is None else rfc3339(at)


def comment_json(event: Recorded) -> dict[str, Any]:
    """A comment with its author."""
    return {
        "position": event.position,
        "at": rfc3339(event.at),
        "actor": {"kind": event.actor_kind, "name": event.actor_name, "host": event.actor_host},
        "body": event.words.get("body"),
    }


def last_word(stream: Iterable[Recorded], name: str) -> Any:
    """The newest text of that name among title and body."""
    body = None
    for event in stream:
        if event.kind == "created" or (event.kind == "edited" and name in event.facts["fields"]):
            body = event.words.get(name)
    return body
