"""Cards and runs that a fold changes in place, for whoever folds a whole log and looks back at no earlier state.

The folds are the same: what they hand to `seen` or `changed` is written into the card itself, not into a copy of it.
Of a million states nobody but the next event asks for one, and their copies cost more than all that is judged.
"""

from __future__ import annotations

from dataclasses import field, make_dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar, cast

from projections.run import Run
from projections.task import Task

State = TypeVar("State", bound=NamedTuple)


def _changed(state: Any, /, **changes: Any) -> Any:
    for name, value in changes.items():
        setattr(state, name, value)
    return state


def _seen(task: Any, event: Any, **changes: Any) -> Any:
    task.version, task.position, task.updated_at = event.version, event.position, event.at
    for name, value in changes.items():
        setattr(task, name, value)
    return task


def _in_place(cls: type[State], **methods: Any) -> type[State]:
    """*cls* with the same fields and defaults, its values changeable; `frozen` is what it holds now, as a *cls*."""
    values, make = attrgetter(*cls._fields), cls._make
    shown = {name: found for name, found in vars(cls).items() if isinstance(found, property)}
    fields = [(name, Any, field(default=cls._field_defaults.get(name))) for name in cls._fields]
    namespace = {**shown, "frozen": lambda state: make(values(state)), **methods}
    return cast("type[State]", make_dataclass(f"{cls.__name__}InPlace", fields, namespace=namespace, slots=True))


TASK: Final = _in_place(Task, seen=_seen)
RUN: Final = _in_place(Run, changed=_changed)
