"""What the log alone says at one moment of a replay: all that a judgement of the next event may look at. Pure."""

from __future__ import annotations

from collections import Counter

from ledger.events import ENDINGS
from ledger.recorded import Recorded
from projections.graph import dead, ring, satisfied
from projections.run import Run
from projections.task import Task
from projections.world import World


class Moment:
    """The folded board, and beside it what no single card knows: the live runs, and the keys in use.

    Whatever a judgement asks of another card is asked here, so that who folds some cards only can look the others up.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.keys: set[str] = set()
        self.live: dict[tuple[str, int], str] = {}
        self.live_of: Counter[str] = Counter()
        self.unread: set[str] = set()

    def look_at_cards(self) -> None:
        """Other cards, their keys and links are asked for: those that are not folded here must be known by now."""

    def look_at_runs(self) -> None:
        """Runs of other cards are asked for."""

    def run(self, task: str, number: int | None) -> Run | None:
        """The folded run of the card under judgement, open or ended."""
        return None if number is None else self.world.runs.get((task, number))

    def had_run(self, task: str, number: int) -> bool:
        """Whether any card had that run."""
        self.look_at_runs()
        return (task, number) in self.world.runs

    def running(self, worker: str) -> dict[str, int]:
        """The live runs by what caps count: on the board, and those of *worker*."""
        self.look_at_runs()
        return {"board": len(self.live), "assignee": self.live_of[worker]}

    def has_key(self, key: str) -> bool:
        """Whether a card was created with that key."""
        self.look_at_cards()
        return key in self.keys

    def knows(self, task: str) -> bool:
        """Whether the card stands on the board, as far as can be read."""
        self.look_at_cards()
        return task in self.world.tasks or task in self.unread

    def ring(self, child: str, parent: str) -> list[str] | None:
        """The ring that a link from *parent* to *child* would close."""
        self.look_at_cards()
        graph = self.world.graph
        if child != parent and not graph.children.get(child):
            return None
        return ring(child, parent, lambda above: graph.parents.get(above, ()))

    def open_parents(self, task: str) -> int:
        """How many parents of *task* are not satisfied."""
        graph = self.world.graph
        if task in graph.parents:
            self.look_at_cards()
        return graph.open.get(task, 0)

    def has_open_parent(self, task: str) -> bool:
        """Whether a parent is neither done nor archived, as far as its stream could be read."""
        self.look_at_cards()
        return any(self._may_be_open(parent) for parent in self.world.graph.parents.get(task, ()))

    def is_dead(self, parent: str, require: str) -> bool:
        """Whether a link to *parent* could never be satisfied; a card that cannot be read is given the benefit."""
        self.look_at_cards()
        card = self.world.tasks.get(parent)
        if card is None or parent in self.unread:
            return False
        return dead(card.outcome, require, archived=card.archived, known=True)

    def open_children(self, task: Task) -> list[str]:
        """The open cards that wait for *task* and that it does not satisfy."""
        self.look_at_cards()
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
