"""Folded values as stored rows, and back: loading a row *is* loading the fold."""

from __future__ import annotations

import json
from dataclasses import astuple, fields
from typing import Any, Final

from projections.policy import Policy
from projections.run import Binding, Run, Stop
from projections.settings import Pause, Settings
from projections.task import Card, Hold, Task

_HOLD: Final = tuple(f"hold_{field.name}" for field in fields(Hold))
_STATE: Final = tuple(name for name in Task._fields if name not in {"id", "card", "hold", "open_parents"})

TASK_COLUMNS: Final = ("task", *Card._fields, *_STATE, *_HOLD)
"""What `evolve` decides of a stored row. `open_parents`, which the graph decides, stands beside them."""
RUN_COLUMNS: Final = Run._fields
SETTINGS_COLUMNS: Final = Settings._fields


def task_row(task: Task) -> dict[str, Any]:
    """The columns of *task*, without `open_parents`."""
    row: dict[str, Any] = {"task": task.id, **task.card._asdict()}
    row["labels"] = _json(task.card.labels)
    row.update((name, getattr(task, name)) for name in _STATE)
    row.update(zip(_HOLD, astuple(task.hold) if task.hold else (None,) * len(_HOLD), strict=True))
    return row


def task_from(row: dict[str, Any]) -> Task:
    """The folded card behind a stored *row* (with `open_parents`)."""
    card = Card(
        **{name: row[name] for name in Card._fields if name != "labels"}, labels=tuple(json.loads(row["labels"]))
    )
    hold = None
    if row["hold_cause"] is not None:
        hold = Hold(
            row["hold_cause"], row["hold_kind"], bool(row["hold_sticky"]), row["hold_count"], row["hold_limit"],
            row["hold_limit_source"], row["hold_position"],
        )  # fmt: skip
    state = {name: row[name] for name in _STATE}
    state["archived"] = bool(row["archived"])
    return Task(id=row["task"], card=card, hold=hold, open_parents=row["open_parents"], **state)


def run_row(run: Run) -> dict[str, Any]:
    """The columns of *run*."""
    row = run._asdict()
    row["quota"] = _json(run.quota)
    row["stops"] = _json(run.stops)
    row["group"] = None if run.group is None else _json(run.group)
    row["turns"] = None if run.turns is None else _json(run.turns)
    return row


def run_from(row: dict[str, Any]) -> Run:
    """The folded run behind a stored *row*."""
    values = {name: row[name] for name in RUN_COLUMNS}
    values["quota"] = tuple(json.loads(row["quota"]))
    values["stops"] = tuple(Stop(*stop) for stop in json.loads(row["stops"]))
    for role in ("group", "turns"):
        values[role] = None if row[role] is None else Binding(*json.loads(row[role]))
    return Run(**values)


def settings_row(settings: Settings) -> dict[str, Any]:
    """The columns of *settings*."""
    row = settings._asdict()
    row["policy"] = json.dumps(settings.policy._asdict(), sort_keys=True)
    row["pauses"] = _json(settings.pauses)
    return row


def settings_from(row: dict[str, Any]) -> Settings:
    """The folded settings behind a stored *row*."""
    values = {name: row[name] for name in SETTINGS_COLUMNS}
    values["policy"] = Policy(**json.loads(row["policy"]))
    values["pauses"] = tuple(Pause(*pause) for pause in json.loads(row["pauses"]))
    return Settings(**values)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
