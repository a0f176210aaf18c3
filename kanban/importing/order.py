"""The order in which cards can be made: parents before those that wait for them. Rings have none, and are cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kanban.importing.origin import Origin

Rings = Mapping[tuple[str, str], str]
"""(child, parent) of each link that closes a ring → the ring, in words."""


def parents_first(cards: Mapping[str, Origin]) -> tuple[list[Origin], Rings]:
    """*cards* (by id) so that each comes after its parents, else as they came; and the links that cannot be made."""
    walk = _Walk(cards)
    for root in cards:
        walk.down(root)
    return walk.order, walk.rings


class _Walk:
    """A walk up the links, without recursion: chains may be long. *_path*: where it stands, from where it began."""

    def __init__(self, cards: Mapping[str, Origin]) -> None:
        self._cards = cards
        self._placed: set[str] = set()
        self._path: dict[str, Iterator[str]] = {}
        self.order: list[Origin] = []
        self.rings: dict[tuple[str, str], str] = {}

    def down(self, root: str) -> None:
        """Place *root* and all that it waits for."""
        self._enter(root)
        while self._path:
            here = next(reversed(self._path))
            above = next(self._path[here], None)
            if above is None:
                self._leave(here)
            elif above in self._path:
                self.rings[here, above] = self._ring(above)
            elif above in self._cards:
                self._enter(above)

    def _enter(self, card: str) -> None:
        if card not in self._placed:
            self._path[card] = iter(self._cards[card].parents)

    def _leave(self, card: str) -> None:
        del self._path[card]
        self._placed.add(card)
        self.order.append(self._cards[card])

    def _ring(self, start: str) -> str:
        path = list(self._path)
        return " → ".join([*path[path.index(start) :], start])
