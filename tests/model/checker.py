"""A small breadth-first checker: every state that steps can reach, and the shortest way to one that breaks a rule.

A model gives `steps(state)`: (label, next state) for everything that may happen next. States are compared by value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)
Steps = Callable[[State], Iterable[tuple[str, State]]]
Rules = Mapping[str, Callable[[State], bool]]


class TooMany(AssertionError):
    """The model has more states than it was given: it cannot be said to have been checked."""


@dataclass(frozen=True, slots=True)
class Checked(Generic[State]):
    """What was found: how many states, the first rule broken by name and the shortest trace to it (none: all kept)."""

    states: int
    broken: str | None
    trace: tuple[str, ...]
    last: State | None
    came_from: Mapping[State, tuple[State, str] | None]

    def stuck(self, steps: Steps[State], goal: Callable[[State], bool]) -> list[tuple[str, ...]]:
        """The traces to states from which no way leads to *goal* any more, shortest first."""
        leads: dict[State, list[State]] = {}
        for state in self.came_from:
            for _, then in steps(state):
                leads.setdefault(then, []).append(state)
        good = [state for state in self.came_from if goal(state)]
        reaches = set(good)
        for state in good:  # grows
            fresh = [before for before in leads.get(state, ()) if before not in reaches]
            reaches.update(fresh)
            good.extend(fresh)
        return [_trace(self.came_from, state) for state in self.came_from if state not in reaches]


def check(start: State, steps: Steps[State], rules: Rules[State], *, most: int) -> Checked[State]:
    """Visit every state once, nearest first, until a rule is broken. Raises `TooMany` beyond *most* states."""
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    queue = [start]
    for state in queue:  # grows
        for name, keeps in rules.items():
            if not keeps(state):
                return Checked(len(came_from), name, _trace(came_from, state), state, came_from)
        for label, then in steps(state):
            if then not in came_from:
                came_from[then] = (state, label)
                queue.append(then)
        if len(came_from) > most:
            raise TooMany(f"more than {most} states")
    return Checked(len(came_from), None, (), None, came_from)


def _trace(came_from: Mapping[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    labels: list[str] = []
    while (before := came_from[state]) is not None:
        state, label = before
        labels.append(label)
    return tuple(reversed(labels))
