"""A small breadth-first checker: every state that steps can reach, and the shortest way to one that breaks a rule.

A model gives `steps(state)`: (label, next state) for everything that may happen next. *alike* names one state for all
that are equal but for names; a state is visited once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)
Steps = Callable[[State], Iterable[tuple[str, State]]]
Alike = Callable[[State], State]


class TooMany(AssertionError):
    """The model has more states than was said: nothing is known of the rest."""


@dataclass(frozen=True, slots=True)
class Checked(Generic[State]):
    """What was found: the first rule broken (none: all are kept), and the shortest trace to where it is."""

    broken: str | None
    trace: tuple[str, ...]
    visited: Mapping[State, tuple[State, State | None, str]]
    """By its name (see *alike*): each state as it was met first, the name of the one before it, and the step."""

    @property
    def states(self) -> int:
        return len(self.visited)

    def stuck(self, steps: Steps[State], goal: Callable[[State], bool], alike: Alike[State]) -> tuple[str, ...] | None:
        """The trace to a state from which no way leads to *goal*, or none."""
        ways: dict[State, list[State]] = {}
        for name, (state, _, _) in self.visited.items():
            for _, then in steps(state):
                ways.setdefault(alike(then), []).append(name)
        queue = [name for name, (state, _, _) in self.visited.items() if goal(state)]
        reaching = set(queue)
        for name in queue:  # grows
            for before in ways.get(name, ()):
                if before not in reaching:
                    reaching.add(before)
                    queue.append(before)
        return next((_trace(self.visited, name) for name in self.visited if name not in reaching), None)


def check(
    start: State,
    steps: Steps[State],
    rules: Mapping[str, Callable[[State], bool]],
    *,
    most: int,
    alike: Alike[State] = lambda state: state,
) -> Checked[State]:
    """Visit every state, nearest first, until one breaks a rule. Raises `TooMany` beyond *most* states."""
    visited: dict[State, tuple[State, State | None, str]] = {alike(start): (start, None, "")}
    queue = [alike(start)]
    for name in queue:  # grows
        state = visited[name][0]
        for rule, keeps in rules.items():
            if not keeps(state):
                return Checked(rule, _trace(visited, name), visited)
        for label, then in steps(state):
            known = alike(then)
            if known not in visited:
                visited[known] = then, name, label
                queue.append(known)
        if len(visited) > most:
            raise TooMany(f"more than {most} states")
    return Checked(None, (), visited)


def _trace(visited: Mapping[State, tuple[State, State | None, str]], name: State) -> tuple[str, ...]:
    labels: list[str] = []
    before: State | None = name
    while before is not None:
        _, before, label = visited[before]
        labels.append(label)
    return tuple(reversed(labels[:-1]))
