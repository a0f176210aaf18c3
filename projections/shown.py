"""Cards, runs and events as plain JSON values: the shapes that `docs/cli.md` promises."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from ledger.clock import rfc3339
from ledger.recorded import Recorded
from projections.run import Run
from projections.task import Card, Task, status


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


_WORDS_AT: Final = "FROM words WHERE words.board = cards.board AND words.position ="
_CARD: Final = {
    "id": "task",
    "title": "title",
    "status": "status",
    "assignee": "assignee",
    "priority": "priority",
    "labels": "labels",
    "tenant": "tenant",
    "parents": "parents",
    "run": "run",
    "failures": "failures",
    "streak": "streak",
    "spent": "spent",
    "neutral": "neutral",
    "runs_used": "runs",
    "lane": "lane",
    "reviewer": "reviewer",
    "outcome": "outcome",
    "hold": "hold_cause",
    "not_before": "not_before",
    "scheduled": "scheduled",
    "max_retries": "max_retries",
    "max_runtime": "max_runtime",
    "workspace": "workspace",
    "goal": "goal_max_turns",
    "goal_max_turns": "goal_max_turns",
    "host": "host",
    "key": '"key"',
    "made_by": "made_by_task",
    "version": "version",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "position": "position",
}
"""The keys of a card and what is stored behind them, in SQL; `card_json` makes of it what is shown."""
_NAMES: Final = tuple(_CARD)
_IN_ORDER: Final = dict.fromkeys(_NAMES)
_FOLDED: Final = tuple(name for name in _NAMES if name not in {"title", "status", "parents", "hold"})
_IN_FOLD: Final = {"task": "id", '"key"': "card.key", **{name: f"card.{name}" for name in Card._fields}}
_folded: Final = attrgetter(*(_IN_FOLD.get(_CARD[name], _CARD[name]) for name in _FOLDED))
_BESIDE: Final = (
    "made_by_run", "hold_kind", f"(SELECT words {_WORDS_AT} hold_position)", "hold_sticky", "hold_count",
    "hold_limit", "hold_limit_source", "hold_position",
)  # fmt: skip
CARD_COLUMNS: Final = ", ".join([*_CARD.values(), *_BESIDE])
"""What `card_json` wants of the view `cards`, in SQL."""


def card_now(task: Task, title: str | None, parents: str) -> dict[str, Any]:
    """What `card_json` makes of the stored row of *task*, which has no hold; *parents* are their ids, as JSON."""
    card: dict[str, Any] = {**_IN_ORDER, **dict(zip(_FOLDED, _folded(task), strict=True))}
    card["title"], card["parents"], card["status"] = title, parents, status(task)
    card["labels"] = list(card["labels"])
    return _spoken(card, task.card.made_by_run)


def card_json(row: tuple[Any, ...]) -> dict[str, Any]:
    """A card, as `docs/cli.md` has it, of a *row* of `CARD_COLUMNS`."""
    card: dict[str, Any] = dict(zip(_NAMES, row, strict=False))
    made_by_run, *hold = row[len(_NAMES) :]
    card["labels"] = list(labels(card["labels"]))
    if card["hold"] is not None:
        card["hold"] = _hold_json(card["hold"], *hold)
    return _spoken(card, made_by_run)


def _spoken(card: dict[str, Any], made_by_run: int | None) -> dict[str, Any]:
    """*card* with its texts read and its instants written out."""
    card["parents"] = [] if card["parents"] == "[]" else json.loads(card["parents"])
    card["goal"] = card["goal"] is not None
    card["created_at"], card["updated_at"] = rfc3339(card["created_at"]), rfc3339(card["updated_at"])
    card["not_before"], card["scheduled"] = time_or_none(card["not_before"]), time_or_none(card["scheduled"])
    if card["made_by"] is not None:
        card["made_by"] = {"task": card["made_by"], "run": made_by_run}
    return card


def _hold_json(cause: str, kind: str | None, said: str | None, sticky: int, *counted: Any) -> dict[str, Any]:
    count, limit, limit_source, position = counted
    return {
        "cause": cause,
        "kind": kind,
        "reason": None if said is None else _reason(json.loads(said)),
        "sticky": bool(sticky),
        "count": count,
        "limit": limit,
        "limit_source": limit_source,
        "position": position,
    }


@lru_cache(maxsize=1_024)
def labels(stored: str) -> tuple[str, ...]:
    """The labels of a *stored* row: boards have many cards and few labels."""
    return tuple(json.loads(stored))


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
