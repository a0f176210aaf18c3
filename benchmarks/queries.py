"""What dashboards ask: a page of a board of 100,000, one card, one explanation; and the list of 10,000.

Processor time: all of it is read from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.boards import card_id, growing, mixed
from benchmarks.measure import Row, cpu, faster, medians, rounds, scaled, spent

if TYPE_CHECKING:
    from benchmarks.peers import Peers

CARDS, LISTED = scaled(100_000, least=1_000), scaled(10_000, least=500)
ASKED: Final = 20
MOST: Final = 5


def rows(scratch: Path) -> Iterator[Row]:
    """One screen each, on a large board."""
    store = mixed(scratch / "large", growing(CARDS))
    board, some = store.open(), [card_id(number) for number in range(2, 2 + ASKED)]
    last = [card_id(number) for number in range(CARDS - ASKED, CARDS)]
    questions: dict[str, Callable[[str], Any]] = {
        "first page of 50": lambda _: board.tasks(limit=50),
        "first page of 50, ready": lambda _: board.tasks(limit=50, status="ready"),
        "show": board.show,
        "why": board.why,
    }

    def asked(question: Callable[[str], Any]) -> Callable[[], float]:
        return lambda: spent(lambda: [question(card) for card in some + last], cpu, per=2 * ASKED)

    times = rounds({name: asked(question) for name, question in questions.items()})
    for name in questions:
        figures = [seconds * 1e3 for seconds in times[name]]
        yield Row(f"{name}, of {CARDS:,} cards", "–", figures, MOST, False, "ms")
    store.close()


def beside_peers(scratch: Path, peers: Peers) -> Iterator[Row]:
    """All cards of a board as values, beside `list_tasks` of hermes."""
    kinds = growing(LISTED)
    store = mixed(scratch / "listed", kinds)
    board = store.open()
    peers.hermes.ask("build", path=str(scratch / "hermes.db"), kinds=kinds._asdict(), pids=[])

    def listed() -> None:
        assert len(board.tasks(limit=None)["tasks"]) == LISTED

    cases = {"ledger": lambda: spent(listed, cpu), "hermes": lambda: peers.hermes.ask("listed", cards=LISTED)}
    times = rounds(cases)
    figures, note = faster(times, "ledger", "hermes"), medians(times, "ledger", "hermes")
    yield Row(f"list of {LISTED:,}", "hermes list_tasks", figures, 4, note=note)
    store.close()
