"""A card of a log in memory that somebody asks about: what `projections.asked.Asked` reads, without a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ledger.recorded import Recorded
from projections.graph import satisfied
from projections.settings import Settings
from projections.task import Task
from projections.world import World


class Remembered:
    """One card of *log*, asked about at *now*."""

    def __init__(self, log: Sequence[Recorded], card: str, now: int) -> None:
        self.log, self.card, self.now = log, card, now
        self.world = World()
        self.world.take(log)

    @property
    def task(self) -> Task:
        found = self.world.task(self.card)
        assert found is not None, self.card
        return found

    @property
    def settings(self) -> Settings:
        return self.world.settings

    @property
    def live(self) -> int:
        return sum(run.open for run in self.world.runs.values())

    @property
    def links(self) -> Mapping[str, str]:
        return self.world.graph.parents.get(self.card, {})

    @property
    def open_parents(self) -> list[str]:
        outcomes = self.world.graph.outcomes
        return [parent for parent, require in self.links.items() if not satisfied(outcomes.get(parent), require)]

    def newest(self, *kinds: str) -> Iterator[Recorded]:
        return (event for event in reversed(self.log) if event.task == self.card and event.kind in kinds)

    def at(self, position: int) -> Recorded | None:
        return next((event for event in self.log if event.position == position), None)

    def completed(self, parent: str) -> Recorded | None:
        return next((each for each in reversed(self.log) if (each.task, each.kind) == (parent, "completed")), None)

    def claims(self, count: int) -> list[Recorded]:
        opened = sorted(run.claimed_position for run in self.world.runs.values() if run.open)
        return [event for event in map(self.at, opened[:count]) if event is not None]
