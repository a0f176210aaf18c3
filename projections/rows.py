"""Folded values as stored rows, and back: loading a row *is* loading the fold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from projections.policy import Policy
from projections.run import Binding, Run, Stop
from projections.settings import Pause, Settings
from projections.task import Card, Hold, Task

_HOLD: Final = tuple(f"hold_{field.name}" for field in fields(Hold))
_hold_values: Final = attrgetter(*(field.name for field in fields(Hold)))
_STATE: Final = tuple(name for name in Task._fields if name not in {"id", "card", "hold", "open_parents"})

TASK_COLUMNS: Final = ("task", *Card._fields, *_STATE, *_HOLD)
"""What `evolve` decides of a stored row. `open_parents`, which the graph decides, stands beside them."""
TASK_VALUES: Final = (*TASK_COLUMNS, "open_parents")
"""The order in which `task_of` takes a row."""
RUN_COLUMNS: Final = Run._fields
SETTINGS_COLUMNS: Final = Settings._fields
_AFTER_CARD: Final = 1 + len(Card._fields)
_AFTER_STATE: Final = _AFTER_CARD + len(_STATE)
_LABELS: Final = Card._fields.index("labels")
_UNTIL_HOLD: Final = _STATE.index("not_before")
_QUOTA, _STOPS, _GROUP, _TURNS = (Run._fields.index(name) for name in ("quota", "stops", "group", "turns"))
_POLICY, _PAUSES = (Settings._fields.index(name) for name in ("policy", "pauses"))

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def task_row(task: Task) -> dict[str, Any]:
    """The columns of *task*, without `open_parents`."""
    state = {name: getattr(task, name) for name in _STATE}
    return {"task": task.id, **_card_row(task.card._asdict()), **state, **_hold_row(task.hold)}


def task_changes(before: Task, after: Task) -> dict[str, Any]:
    """The columns in which the row of *after* differs from the row of *before*."""
    found = _changes(before, after)
    found.pop("open_parents", None)
    if "card" in found:
        found |= _card_row(_changes(before.card, found.pop("card")))
    if "hold" in found:
        found |= _hold_row(found.pop("hold"))
    return found


def task_of(values: Sequence[Any]) -> Task:
    """The folded card behind the stored *values* of `TASK_VALUES`."""
    card, state = list(values[1:_AFTER_CARD]), values[_AFTER_CARD:_AFTER_STATE]
    card[_LABELS] = _tuple(card[_LABELS])
    *later, archived = state[_UNTIL_HOLD:]
    hold = _hold_of(*values[_AFTER_STATE:-1])
    return Task._make((
        values[0], Card._make(card), *state[:_UNTIL_HOLD], hold, *later, bool(archived), values[-1],
    ))  # fmt: skip


def task_from(row: Mapping[str, Any]) -> Task:
    """The folded card behind a stored *row* (with `open_parents`)."""
    return task_of([row[name] for name in TASK_VALUES])


def run_row(run: Run) -> dict[str, Any]:
    """The columns of *run*."""
    return _run_row(run._asdict())


def run_values(run: Run) -> list[Any]:
    """The same values, in the order of `RUN_COLUMNS`."""
    found: list[Any] = list(run)
    for place in (_QUOTA, _STOPS, _GROUP, _TURNS):
        found[place] = _listed(found[place])
    return found


def run_changes(before: Run, after: Run) -> dict[str, Any]:
    """The columns in which the row of *after* differs from the row of *before*."""
    return _run_row(_changes(before, after))


def run_of(values: Sequence[Any]) -> Run:
    """The folded run behind the stored *values* of `RUN_COLUMNS`."""
    found = list(values)
    found[_QUOTA] = _tuple(found[_QUOTA])
    found[_STOPS] = tuple(Stop(*stop) for stop in _tuple(found[_STOPS]))
    for role in (_GROUP, _TURNS):
        if found[role] is not None:
            found[role] = _binding(found[role])
    return Run._make(found)


def run_from(row: Mapping[str, Any]) -> Run:
    """The folded run behind a stored *row*."""
    return run_of([row[name] for name in RUN_COLUMNS])


def settings_row(settings: Settings) -> dict[str, Any]:
    """The columns of *settings*."""
    row = settings._asdict()
    row["policy"] = json.dumps(settings.policy._asdict(), sort_keys=True)
    row["pauses"] = _json(settings.pauses)
    return row


@lru_cache(maxsize=64)
def settings_of(values: tuple[Any, ...]) -> Settings:
    """The folded settings behind the stored *values* of `SETTINGS_COLUMNS`: every command reads the same ones."""
    found = list(values)
    found[_POLICY] = Policy(**json.loads(found[_POLICY]))
    found[_PAUSES] = tuple(Pause(*pause) for pause in _tuple(found[_PAUSES]))
    return Settings._make(found)


@lru_cache(maxsize=1_024)
def _binding(text: str) -> Binding:
    return Binding(*json.loads(text))


def _changes(before: Any, after: Any) -> dict[str, Any]:
    """The fields of two named tuples that differ, with their later values."""
    pairs = zip(after._fields, before, after, strict=True)
    return {name: new for name, old, new in pairs if old is not new and old != new}


def _card_row(card: dict[str, Any]) -> dict[str, Any]:
    if "labels" in card:
        card["labels"] = _json(card["labels"])
    return card


def _hold_row(hold: Hold | None) -> dict[str, Any]:
    return dict(zip(_HOLD, _hold_values(hold) if hold else (None,) * len(_HOLD), strict=True))


def _hold_of(cause: str | None, kind: str | None, sticky: Any, *more: Any) -> Hold | None:
    return None if cause is None else Hold(cause, kind, bool(sticky), *more)


def _run_row(run: dict[str, Any]) -> dict[str, Any]:
    for name in ("quota", "stops", "group", "turns"):
        if name in run:
            run[name] = _listed(run[name])
    return run


def _listed(value: Any) -> str | None:
    """A tuple as it is stored; nearly all are empty."""
    return None if value is None else _json(value) if value else "[]"


def _tuple(text: str) -> tuple[Any, ...]:
    """A stored list; nearly all are empty."""
    return () if text == "[]" else tuple(json.loads(text))
