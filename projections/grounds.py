"""The sentences of `why`: reasons with their rules and positions, and the command that would change something. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ledger.clock import rfc3339
from projections.kept import Kept
from projections.waiting import Wait


class Ground(NamedTuple):
    """One reason: a sentence, the rule that it follows, and the positions that it rests on."""

    text: str
    rule: str
    positions: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """A plain JSON object."""
        return {"text": self.text, "rule": self.rule, "positions": list(self.positions)}


class Held(NamedTuple):
    """Why a claimable card was not started, and what to run next."""

    ground: Ground
    remedy: str


def told_of(task: str, stands: str, ground: Ground) -> dict[str, Any]:
    """A step of a chain of causes as a plain JSON object."""
    return {"task": task, "status": stands, **ground.as_json()}


def by_log(found: Kept, task: str, places: tuple[int, ...]) -> Held:
    """What the log says of a card that was not started; *places*: the events that prove it."""
    until = "" if found.until is None else rfc3339(found.until)
    setting = () if found.position is None else (found.position,)
    match found.reason:
        case "cooldown_until":
            return Held(Ground(f"cooldown_until {until}", "§4", places), f"ledger unblock {task}")
        case "scheduled_for":
            return Held(Ground(f"scheduled_for {until}", "§7", places), f"ledger schedule {task} TIME")
        case "paused":
            whose = "" if found.scope == "board" else f" --{found.scope} {found.name}"
            said = f"paused: the {found.scope} {found.name}".rstrip()
            return Held(Ground(said, "§7", setting), f"ledger resume{whose}")
        case "no_assignee":
            return Held(Ground("no_assignee: no sweep starts it", "§7", places), _remedy("no_assignee", task))
        case "at_capacity":
            full = Ground("at_capacity: every slot of the board is taken", "§7", setting)
            return Held(full, _remedy("at_capacity", task))
        case _:
            return Held(Ground("no sweep has looked at it since it became claimable", "§7"), "ledger sweep")


def untold(task: str) -> Held:
    """That nothing in the log kept a card from being started at an earlier moment."""
    said = "nothing in the log kept it from being started; what a sweep that passed it over saw is not in the log"
    return Held(Ground(said, "§7"), f"ledger why {task}")


def by_placement(host: str, task: str) -> Held:
    """That a card which nothing keeps waits for the one host whose sweep may start it."""
    said = f"it is placed on {host}, and no sweep there has looked at it since it became claimable"
    return Held(Ground(said, "§7"), f"ledger sweep on {host}, or ledger claim {task} on any")


def by_sweep(reason: str, since: int, task: str) -> Held:
    """What a tick stored about a card that it looked at and did not start; *since*: microseconds UTC."""
    return Held(Ground(f"held by the sweep since {rfc3339(since)}: {reason}", "§7"), _remedy(reason, task))


def _remedy(reason: str, task: str) -> str:
    return _REMEDIES.get(reason, "ledger sweep").format(task=task)


_REMEDIES: Final = {
    "no_assignee": "ledger assign {task} NAME",
    "unknown_assignee": "ledger assign {task} NAME",
    "placed_elsewhere": "ledger sweep on a host that its assignee is placed on, or ledger assign {task} NAME",
    "waiting_for_person": "ledger claim {task}",
    "at_capacity": "ledger list --status running",
    "assignee_at_capacity": "ledger list --status running",
}
"""What to run next about a reason; about the others the next tick itself."""


def waiting_for(wait: Wait) -> Ground:
    """That a card waits for a parent, how that one stands, and whether it can ever satisfy the link by itself."""
    why_there = wait.outcome or wait.hold
    stands = f"{wait.status}{': ' + why_there if why_there else ''}"
    reason = "waiting_for_ever" if wait.dead else "waiting_on"
    places = (wait.position,) if wait.position else ()
    return Ground(f"{reason}: {wait.parent} is {stands}, the link requires {wait.require}", "§3", places)


def bring_back(wait: Wait) -> str:
    """What frees a card from a dead parent: nobody can reopen an unknown one; `any` asks that it is done."""
    ways = [f"ledger reopen {wait.parent}"] if wait.status != "unknown" else []
    ways.append(f"ledger unlink {wait.child} {wait.parent}")
    if wait.outcome is not None:
        ways.append(f"ledger link {wait.child} {wait.parent} --require any")
    return ", or ".join(ways)
