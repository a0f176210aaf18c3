"""What happens next: commands, the plan, the sweep and what it sees of processes.

`from kanban import Board, Worker` loads each only when it is used: importing `kanban` itself loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanban.board import Board
    from kanban.worker.face import Worker

__all__ = ["Board", "Worker"]


def __getattr__(name: str) -> Any:
    match name:
        case "Board":
            from kanban.board import Board

            return Board
        case "Worker":
            from kanban.worker.face import Worker

            return Worker
        case _:
            raise AttributeError(f"module 'kanban' has no attribute {name!r}")
