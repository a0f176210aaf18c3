"""A whole board folded in memory: what the stored projections must say. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Table

from ledger.recorded import Recorded
from projections import inplace
from projections.folding import shared
from projections.graph import GRAPH_KINDS, Graph
from projections.rows import run_row, settings_row, task_row
from projections.run import Run, evolve_run
from projections.settings import NEW_BOARD, evolve_settings
from projections.task import Task, evolve


class World:
    """Every card, run and link of a board, and the board's own state, folded event by event.

    *in_place*: a card and a run are changed and not copied, so no earlier state may be asked for.
    """

    def __init__(self, *, in_place: bool = False) -> None:
        self._card, self._run = (inplace.TASK, inplace.RUN) if in_place else (Task, Run)
        self.position = 0
        self.settings = NEW_BOARD
        self.tasks: dict[str, Task] = {}
        self.runs: dict[tuple[str, int], Run] = {}
        self.graph = Graph()

    def take(self, recorded: Iterable[Recorded]) -> None:
        """Fold *recorded*, in order."""
        for event in recorded:
            self.evolve(event)

    def evolve(self, event: Recorded) -> None:
        """Fold one event."""
        self.evolve_known(event, self.tasks.get(event.task))

    def evolve_known(self, event: Recorded, card: Task | None) -> None:
        """Fold one event, the card that it names being known."""
        name, number = event.task, event.run
        self.position, before = event.position, card
        if before is None:
            if name == "":
                self.settings = evolve_settings(self.settings, event)
                return
            before = self._card(shared(name))
        if number is None and event.kind == "edited":
            number = before.run
        if number is not None:
            was = self.runs.get((name, number))
            run = evolve_run(was, event)
            if run is not None and run is not was:
                self.runs[before.id, number] = run if self._run is Run else self._run(*run)
        after = evolve(before, event)
        if after is not card:
            self.tasks[before.id] = after
        if event.kind in GRAPH_KINDS:
            self.graph.evolve(event)

    def task(self, task: str) -> Task | None:
        """The card with its number of open parents."""
        found = self.tasks.get(task)
        return None if found is None else found.frozen()._replace(open_parents=self.graph.open.get(task, 0))

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """The rows that *table* must hold for this board (without the board's name)."""
        match table.name:
            case "tasks":
                waiting = self.graph.open
                tasks = ((name, task.frozen()) for name, task in self.tasks.items())
                return [{**task_row(task), "open_parents": waiting.get(name, 0)} for name, task in tasks]
            case "runs":
                return [run_row(run.frozen()) for run in self.runs.values()]
            case "links":
                return [
                    {"child": child, "parent": parent, "require": require}
                    for child, parents in self.graph.parents.items()
                    for parent, require in parents.items()
                ]
            case _:
                return [settings_row(self.settings)]
