"""What dashboards ask: pages of a board of 100,000, one card, one explanation; and the list of 10,000.

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
        "first page of 50, blocked": lambda _: board.tasks(limit=50, status="blocked"),
        "the 50 behind a card": lambda card: board.tasks(limit=50, after=card),
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
    """All cards of a board, beside `list_tasks` of hermes: as rows, and as what `list --json` of either prints."""
    kinds = growing(LISTED)
    store = mixed(scratch / "listed", kinds)
    board = store.open()
    peers.hermes.ask("build", path=str(scratch / "hermes.db"), kinds=kinds._asdict(), pids=[])

    def rows() -> None:
        assert len(board.cards(limit=None).cards) == LISTED

    def values() -> None:
        assert len(board.tasks(limit=None)["tasks"]) == LISTED

    cases = {
        "ledger rows": lambda: spent(rows, cpu),
        "hermes rows": lambda: peers.hermes.ask("listed", cards=LISTED),
        "ledger JSON": lambda: spent(values, cpu),
        "hermes JSON": lambda: peers.hermes.ask("listed_json", cards=LISTED),
    }
    times = rounds(cases)
    for form, beside, target in (("rows", "list_tasks", 4), ("JSON", "list --json", 1)):
        sides = f"ledger {form}", f"hermes {form}"
        figures, note = faster(times, *sides), medians(times, *sides)
        yield Row(f"list of {LISTED:,} as {form}", f"hermes {beside}", figures, target, note=note)
    store.close()
