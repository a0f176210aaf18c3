"""Parents and children: what waits on what, what can never come, and rings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ledger.recorded import Recorded

GRAPH_KINDS: Final = frozenset({"created", "linked", "unlinked", "completed", "reopened"})
"""The only kinds that move a link or a number of open parents."""


class Link(NamedTuple):
    """*child* waits for *parent* to be done with the outcome *require* (`ok`, or `any`)."""

    parent: str
    child: str
    require: str


def satisfied(outcome: str | None, require: str) -> bool:
    """Whether a parent that is done with *outcome* (none: not done) satisfies a link, archived or not."""
    return outcome == "ok" or (outcome is not None and require == "any")


def dead(outcome: str | None, require: str, *, archived: bool, known: bool) -> bool:
    """Whether no event but a person's can ever satisfy the link: wrong outcome, archived undone, or unknown."""
    return not satisfied(outcome, require) and (outcome is not None or archived or not known)


def ring(child: str, parent: str, parents_of: Callable[[str], Iterable[str]]) -> list[str] | None:
    """The ring that a link from *parent* to *child* would close, child first and last; none where there is none."""
    if child == parent:
        return [child, child]
    came_from: dict[str, str] = {parent: child}
    frontier = [parent]
    while frontier:
        here = frontier.pop()
        for above in parents_of(here):
            if above == child:
                return [*reversed(_walk(here, came_from)), child]
            if above not in came_from:
                came_from[above] = here
                frontier.append(above)
    return None


def _walk(here: str, came_from: dict[str, str]) -> list[str]:
    path = [here]
    while here in came_from:
        here = came_from[here]
        path.append(here)
    return path


class Graph:
    """The links of a whole board and every card's number of open parents, folded event by event."""

    def __init__(self) -> None:
        self.parents: dict[str, dict[str, str]] = {}
        self.children: dict[str, dict[str, str]] = {}
        self.outcomes: dict[str, str | None] = {}
        self.open: dict[str, int] = {}

    def evolve(self, event: Recorded) -> None:
        """What *event* makes of the graph: only links, `completed` and `reopened` move `open_parents`."""
        match event.kind:
            case "created":
                self.outcomes.setdefault(event.task, None)
                for parent in event.facts["parents"]:
                    self._unlink(parent["task"], event.task)
                    self._link(parent["task"], event.task, parent["require"])
            case "linked":
                self._unlink(event.facts["parent"], event.task)
                self._link(event.facts["parent"], event.task, event.facts["require"])
            case "unlinked":
                self._unlink(event.facts["parent"], event.task)
            case "completed":
                self._settle(event.task, event.outcome)
            case "reopened":
                self._settle(event.task, None)
            case _:
                pass

    def _link(self, parent: str, child: str, require: str) -> None:
        self.parents.setdefault(child, {})[parent] = require
        self.children.setdefault(parent, {})[child] = require
        if not satisfied(self.outcomes.get(parent), require):
            self.open[child] = self.open.get(child, 0) + 1

    def _unlink(self, parent: str, child: str) -> None:
        require = self.parents.get(child, {}).pop(parent, None)
        if require is None:
            return
        self.children[parent].pop(child)
        if not satisfied(self.outcomes.get(parent), require):
            self.open[child] -= 1

    def _settle(self, task: str, outcome: str | None) -> None:
        before = self.outcomes.get(task)
        self.outcomes[task] = outcome
        for child, require in self.children.get(task, {}).items():
            self.open[child] = self.open.get(child, 0) + satisfied(before, require) - satisfied(outcome, require)
