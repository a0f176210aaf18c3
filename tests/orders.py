"""Lists that an index has in their order, on every engine: what is asked for, and the index."""

from __future__ import annotations

from typing import Any, Final

IN_ORDER: Final[list[tuple[dict[str, Any], str]]] = [
    ({}, "tasks_in_order"),
    ({"status": "todo"}, "tasks_in_order"),
    ({"label": "red"}, "tasks_in_order"),
    ({"assignee": "ann"}, "tasks_in_order"),
    ({"assignee": "none"}, "tasks_in_order"),
    ({"tenant": "acme"}, "tasks_in_order"),
    ({"status": "ready"}, "tasks_claimable"),
    ({"status": "review"}, "tasks_claimable"),
    ({"status": "scheduled"}, "tasks_claimable"),
    ({"status": "blocked"}, "tasks_blocked"),
    ({"status": "ready", "assignee": "ann", "label": "red", "tenant": "acme"}, "tasks_claimable"),
]
