"""What the log alone says at one moment of a replay: all that a judgement of the next event may look at. Pure."""

from __future__ import annotations

from collections import Counter

from ledger.events import ENDINGS
from ledger.recorded import Recorded
from projections.graph import dead, satisfied
from projections.run import Run
from projections.task import Task
from projections.world import World


class Moment:
    """The folded board, and beside it what no single card knows: the live runs, and the keys in use."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.keys: set[str] = set()
        self.live: dict[tuple[str, int], str] = {}
        self.live_of: Counter[str] = Counter()
        self.unread: set[str] = set()

    def run(self, task: str, number: int | None) -> Run | None:
        """The folded run, open or ended."""
        return None if number is None else self.world.runs.get((task, number))

    def waits(self, task: str) -> bool:
        """Whether a parent of *task* is not satisfied."""
        return self.world.graph.open.get(task, 0) > 0

    def has_open_parent(self, task: str) -> bool:
        """Whether a parent is neither done nor archived, as far as its stream could be read."""
        return any(self._may_be_open(parent) for parent in self.world.graph.parents.get(task, ()))

    def is_dead(self, parent: str, require: str) -> bool:
        """Whether a link to *parent* could never be satisfied; a card that cannot be read is given the benefit."""
        card = self.world.tasks.get(parent)
        if card is None or parent in self.unread:
            return False
        return dead(card.outcome, require, archived=card.archived, known=True)

    def open_children(self, task: Task) -> list[str]:
        """The open cards that wait for *task* and that it does not satisfy."""
        links = self.world.graph.children.get(task.id, {})
        waiting = [child for child, require in links.items() if not satisfied(task.outcome, require)]
        cards = ((child, self.world.tasks.get(child)) for child in waiting if child not in self.unread)
        return [child for child, card in cards if card is not None and not card.closed]

    def take(self, event: Recorded) -> None:
        """Go on to the moment after *event*, which the world has folded."""
        if event.run is None:
            if event.kind == "created" and event.facts["key"] is not None:
                self.keys.add(event.facts["key"])
        elif event.kind == "claimed":
            worker = event.facts["worker"]
            self.live[event.task, event.run] = worker
            self.live_of[worker] += 1
        elif event.kind in ENDINGS:
            ended = self.live.pop((event.task, event.run), None)
            if ended is not None:
                self.live_of[ended] -= 1

    def _may_be_open(self, parent: str) -> bool:
        card = self.world.tasks.get(parent)
        return parent in self.unread or (card is not None and not card.closed)
