"""Wishes: what an operator wants done to a running card once its run ends, kept in `stop_requested` (RULES §7–8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanban.commands import Archive, Assign, Block, Complete, Decision, Schedule, View
from kanban.refusals import LiveClaim
from ledger.events import Actor, StopRequested, Wish
from ledger.recorded import Draft, Recorded
from projections.task import Task


def wish(
    view: View, task: Task, verb: str, *, data: Mapping[str, Any], words: Mapping[str, Any], actor: Actor, force: bool
) -> Decision:
    """Ask the open run of *task* to stop, and for *verb* to be done to the card then. `LiveClaim` without *force*."""
    if task.run is None:
        raise ValueError(f"{task.id} has no run to stop")
    if not force:
        raise LiveClaim(task.id, task.run, verb)
    asked = StopRequested.model_validate(
        {
            "run": task.run,
            "cause": "operator",
            "since": view.now,
            "limit": None,
            "wish": Wish.model_validate({"verb": verb, "data": dict(data), "actor": actor}),
            "wish_words": dict(words),
        }
    )
    return Decision((Draft.of(task.id, asked, actor),))


def command_of(event: Recorded) -> tuple[Any, Actor] | None:
    """The command that the wish of a `stop_requested` stands for, and its own actor; none where it carries no wish."""
    asked = event.facts["wish"]
    if asked is None:
        return None
    data, words, task = asked["data"], event.words.get("wish_words") or {}, event.task
    actor = Actor(**asked["actor"])
    match asked["verb"]:
        case "complete":
            command: Any = Complete(
                task, words.get("summary"), data["outcome"], words.get("result"), words.get("metadata")
            )
        case "block":
            command = Block(task, words.get("reason"), data["kind"])
        case "schedule":
            command = Schedule(task, data["not_before"], words.get("reason"))
        case "assign":
            command = Assign(task, data["to"], role=data["role"])
        case _:
            command = Archive(task, data["children"])
    return command, actor
