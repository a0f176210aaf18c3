"""`decide`: who is asking, and so which rules apply (RULES §8)."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from kanban.commands import Credential, Decision, View
from kanban.operators import decide_as_operator
from kanban.workers import beat, decide_as_worker, proved
from ledger.errors import InvalidInput
from ledger.events import Actor
from projections.run import Run


def decide(view: View, command: Any, actor: Actor, own: tuple[str, Credential] | None) -> Decision:
    """What *command* comes to. *own* is the card and lock of the worker in whose environment it was given, or none.

    A command that carries the lock of a run is that run's worker's, wherever it was given.
    """
    try:
        return _decide(view, command, actor, own)
    except ValidationError as fault:
        raise InvalidInput(_first(fault), remedy="see --help for what is wanted") from None


def _decide(view: View, command: Any, actor: Actor, own: tuple[str, Credential] | None) -> Decision:
    claim = getattr(command, "claim", None)
    if claim is not None:
        worker = proved(view, command.task, claim).worker
        return decide_as_worker(view, command, _worker(actor, worker), own)
    if own is not None:
        worker = proved(view, *own).worker
        return decide_as_worker(view, command, _worker(actor, worker), own)
    return decide_as_operator(view, command, actor)


def _first(fault: ValidationError) -> str:
    """The first thing that is wrong, with the field's name."""
    first = fault.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg'].lower()}, got {str(first['input'])[:80]!r}"


def _worker(actor: Actor, name: str) -> Actor:
    return Actor(kind="worker", name=name, host=actor.host)


def decide_beat(view: View, task: str, claim: Credential) -> Run:
    """The run whose lease a heartbeat renews. Raises `LostClaim`, `Forbidden`."""
    return beat(view, task, claim)
