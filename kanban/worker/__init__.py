"""The other side of a claim: what runs around and inside a worker. Importing it loads nothing heavy.

What an agent's own program needs can be had from here, and is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanban.worker.carrier import Carrier, carrier_of
    from kanban.worker.exits import Credentials, exit_code, exit_turn
    from kanban.worker.face import Worker
    from kanban.worker.frame import Frame
    from kanban.worker.goal import pursue
    from kanban.worker.owner import Owner
    from kanban.worker.proof import Live, Lost, Reason, prove
    from kanban.worker.recovery import recover
    from kanban.worker.result import Status, TurnResult, result_of, result_of_exit
    from kanban.worker.verdict import Asked, Ruling, Verdict

__all__ = [
    "Asked", "Carrier", "Credentials", "Frame", "Live", "Lost", "Owner", "Reason", "Ruling", "Status", "TurnResult",
    "Verdict", "Worker", "carrier_of", "exit_code", "exit_turn", "prove", "pursue", "recover", "result_of",
    "result_of_exit",
]  # fmt: skip

_ROOMS = {
    "carrier": ("Carrier", "carrier_of"),
    "exits": ("Credentials", "exit_code", "exit_turn"),
    "face": ("Worker",),
    "frame": ("Frame",),
    "goal": ("pursue",),
    "owner": ("Owner",),
    "proof": ("Live", "Lost", "Reason", "prove"),
    "recovery": ("recover",),
    "result": ("Status", "TurnResult", "result_of", "result_of_exit"),
    "verdict": ("Asked", "Ruling", "Verdict"),
}


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
