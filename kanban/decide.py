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
        raise _invalid(command, fault) from None


def _decide(view: View, command: Any, actor: Actor, own: tuple[str, Credential] | None) -> Decision:
    claim = getattr(command, "claim", None)
    if claim is not None:
        worker = proved(view, command.task, claim).worker
        return decide_as_worker(view, command, _worker(actor, worker), own)
    if own is not None:
        worker = proved(view, *own).worker
        return decide_as_worker(view, command, _worker(actor, worker), own)
    return decide_as_operator(view, command, actor)


def _invalid(command: Any, fault: ValidationError) -> InvalidInput:
    """The first thing that an event of ours cannot hold, with its field."""
    first = fault.errors(include_url=False)[0]
    what = ".".join(str(part) for part in first["loc"]) or type(command).__name__
    remedy = "the --help of the command says what the field takes"
    return InvalidInput(f"{what}: {first['msg']}", task=getattr(command, "task", None) or None, remedy=remedy)


def _worker(actor: Actor, name: str) -> Actor:
    return Actor(kind="worker", name=name, host=actor.host)


def decide_beat(view: View, task: str, claim: Credential) -> Run:
    """The run whose lease a heartbeat renews. Raises `LostClaim`, `Forbidden`."""
    return beat(view, task, claim)
