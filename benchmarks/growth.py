"""A completion costs its children, not the board: `complete` on a board of 100 cards and on one of 50,000.

Most cards wait. Forty run, and each of them has one child, which goes on waiting for another card too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.boards import LOCK, Kinds, Store, card_id, copied, mixed
from benchmarks.measure import ROUNDS, Duel, Row, faster, growth, medians, rounds, scaled, timed
from kanban import Board

if TYPE_CHECKING:
    from benchmarks.peers import Peers

RUNNING: Final = 40
SMALL, LARGE, BESIDE = 100, scaled(50_000, least=1_000), scaled(10_000, least=500)


def waiting(cards: int) -> Kinds:
    """Forty running cards, one that is blocked, and the rest waits for it."""
    return Kinds(running=RUNNING, todo=cards - RUNNING - 1, blocked=1)


class Completing:
    """The running cards of one board, to be completed by their workers."""

    def __init__(self, store: Store) -> None:
        self.board: Board = store.open()
        self.cards = [card_id(number) for number in range(1, RUNNING + 1)]
        self.board.comment(self.cards[0], "the first write of a connection")

    def complete(self, card: str) -> None:
        """One whole command."""
        self.board.complete(card, "did it", run=1, lock=LOCK)


def rows(scratch: Path) -> Iterator[Row]:
    """The ledger beside itself."""
    templates = {"100": mixed(scratch / "small", waiting(SMALL)), "50,000": mixed(scratch / "large", waiting(LARGE))}
    duel = Duel()
    for turn in range(-1, ROUNDS):
        stores = {name: copied(store, scratch / f"{name}-{turn}") for name, store in templates.items()}
        boards = {name: Completing(store) for name, store in stores.items()}
        sides = {name: timed(board.complete) for name, board in boards.items()}
        duel.meet("cards", sides, {name: board.cards for name, board in boards.items()})
        duel.end(warm=turn < 0)
        for store in stores.values():
            store.close()
    note = medians(duel.times, "50,000 cards", "50,000 cards cpu", "100 cards", "100 cards cpu")
    figures = growth(duel.times, "50,000 cards", "100 cards")
    yield Row(f"complete, from 100 to {LARGE:,} cards, most of them waiting", "itself", figures, 1.3, False, note=note)


def beside_peers(scratch: Path, peers: Peers) -> Iterator[Row]:
    """The ledger beside `complete_task` of hermes, on boards of 10,000 cards of the same kinds and links.

    Each side completes its forty cards in one go: after one of the peer's 36 ms nobody's caches are warm.
    """
    template, hermes = mixed(scratch / "made", waiting(BESIDE)), peers.hermes
    names = (f"{number}" for number in range(1_000))

    def ledger() -> float:
        store = copied(template, scratch / f"ledger-{next(names)}")
        board = Completing(store)
        figures = [timed(board.complete)(card)[0] for card in board.cards]
        store.close()
        return median(figures)

    def beside() -> float:
        path = str(scratch / f"hermes-{next(names)}.db")
        running = hermes.ask("build", path=path, kinds=waiting(BESIDE)._asdict(), pids=[])
        return median(hermes.side("complete")(card)[0] for card in running)

    times = rounds({"ledger": ledger, "hermes": beside}, times=5)
    figures, note = faster(times, "ledger", "hermes"), medians(times, "ledger", "hermes")
    yield Row(f"complete on {BESIDE:,} cards, most of them waiting", "hermes", figures, 50, note=note)
