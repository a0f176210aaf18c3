"""A page of another system's cards, decided on: which events make them here, and what of them cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kanban.commands import Foresight
from kanban.decide import decide
from kanban.desk import Desk
from kanban.importing.order import Rings
from kanban.importing.origin import Done, Held, Origin, Skipped
from ledger import ids
from ledger.errors import InvalidInput
from ledger.events import Actor
from ledger.recorded import Draft
from projections.graph import dead, satisfied

_UNDONE: Final = "it is archived undone"


@dataclass(slots=True)
class Page:
    """What a page comes to. *here*: ids of the other system → cards; *known* ones were here before."""

    here: dict[str, str] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    tasks: int = 0
    known: int = 0
    linked: int = 0
    comments: int = 0
    released: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, other: Page) -> None:
        """Take in what *other*, a page that is written, came to; its events are not kept."""
        self.here |= other.here
        self.tasks += other.tasks
        self.known += other.known
        self.linked += other.linked
        self.comments += other.comments
        self.released += other.released
        self.skipped += other.skipped
        self.notes += other.notes


class Decider:
    """The board as it stands at the start of a page, and what the cards so far make of it."""

    def __init__(self, desk: Desk, system: str, actor: Actor, *, here: Mapping[str, str], rings: Rings) -> None:
        """*here*: what the pages before brought in."""
        self._sight = Foresight(desk, desk.position)
        self._system = system
        self._actor = actor
        self._before = here
        self._rings = rings
        self._page = Page()

    def page(self, cards: Sequence[Origin]) -> Page:
        """What *cards* come to, parents first. Those of one moment are ordered by id, so ids are given in order."""
        for card, task in zip(cards, sorted(ids.task_id() for _ in cards), strict=True):
            try:
                self._card(card, task)
            except InvalidInput as fault:
                self._page.skipped.append(Skipped(card.id, fault.message))
        return self._page

    def _card(self, card: Origin, task: str) -> None:
        earlier = self._sight.view.created_with(card.key(self._system))
        if earlier is not None:
            self._page.here[card.id] = earlier.task
            self._page.known += 1
            return
        lost = {parent: why for parent in card.parents if (why := self._lost(card, parent)) is not None}
        parents = {parent: self._ours(parent) or "" for parent in card.parents if parent not in lost}
        drafts: list[Draft] = []
        for command in card.commands(task, self._system, parents, lost, _end(card, lost)):
            decided = decide(self._sight.view, command, self._actor, None).drafts
            self._sight.take(decided)
            drafts += decided
        self._made(card, task, drafts, len(parents), lost)

    def _made(self, card: Origin, task: str, drafts: Sequence[Draft], linked: int, lost: Mapping[str, str]) -> None:
        page = self._page
        page.here[card.id] = task
        page.drafts += drafts
        page.tasks += 1
        page.linked += linked
        page.comments += len(card.remarks)
        page.released += [card.id] if card.released else []
        page.notes += [f"{card.id} does not wait for {parent}: {why}" for parent, why in lost.items()]

    def _ours(self, parent: str) -> str | None:
        return self._page.here.get(parent) or self._before.get(parent)

    def _lost(self, card: Origin, parent: str) -> str | None:
        """Why *card* cannot wait for *parent* here, or none."""
        ring = self._rings.get((card.id, parent))
        if ring is not None:
            return f"they wait for each other, {ring}"
        ours = self._ours(parent)
        found = None if ours is None else self._sight.view.task(ours)
        if found is None:
            return "it is not here"
        if dead(found.outcome, "ok", archived=found.archived, known=True):
            return _UNDONE if found.outcome is None else f"it is done: {found.outcome}"
        if isinstance(card.end, Done) and not satisfied(found.outcome, "ok"):
            return "it was done before that one"
        return None


def _end(card: Origin, lost: Mapping[str, str]) -> Done | Held | None:
    """How the card stands at the end: what waited for something that is not here, a person has to let go."""
    waits = [f"{parent}: {why}" for parent, why in lost.items() if why != _UNDONE]
    if card.end is not None or card.archived or not waits:
        return card.end
    return Held(f"it waited for {'; for '.join(waits)}", "import")
