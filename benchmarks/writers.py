"""Eight processes that write to one board, beside one: the same number of commits, and how long the slowest waited.

Every process appends to a card of its own, one event a transaction at `synchronous=FULL`. Wall time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.boards import ADA, Store, new_store
from benchmarks.measure import Row, duration, rounds, scaled, wall
from ledger import events as e
from ledger.database import writing
from ledger.recorded import Draft
from ledger.store import append, version
from projections.read_models import apply

COMMITS: Final = scaled(4_000, least=400)
MANY: Final = 8


def write(home: str, card: str, commits: str) -> None:
    """What one writer does: it gets ready, waits for the word, commits, and tells how long each commit took."""
    board = Store(Path(home)).open()

    def commit(number: int) -> float:
        begun = wall()
        draft = Draft.of(card, e.Commented(body=f"the {number}th word on this card"), ADA)
        with writing(board.engine) as tx:
            apply(
                tx, "default", append(tx, "default", [draft], expected=version(tx, "default", card), at=board.clock())
            )
        return wall() - begun

    commit(0)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([commit(number) for number in range(1, int(commits) + 1)]), flush=True)


def together(store: Store, cards: list[str]) -> tuple[float, list[float]]:
    """`COMMITS` shared out over a process a card: seconds for all of them, and the seconds of each commit."""
    share = str(COMMITS // len(cards))
    command = [sys.executable, "-c", "import sys; from benchmarks.writers import write; write(*sys.argv[1:])"]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([*command, str(store.home), card, share], stdin=pipe, stdout=pipe, text=True) for card in cards
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    begun = wall()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.stdout.readline() for process in processes if process.stdout is not None]
    seconds = wall() - begun  # how long a process takes to end is in no figure
    for process in processes:
        process.communicate()
    errors = [process.returncode for process in processes if process.returncode != 0]
    assert not errors, f"{len(errors)} of {len(cards)} writers met an error"
    return seconds, [each for line in told for each in json.loads(line)]


def rows(scratch: Path) -> Iterator[Row]:
    """One store; eight writers and one by turns."""
    store = new_store(scratch / "writers")
    board = store.open()
    cards = [str(board.create(f"card {number}", assignee="w").task["id"]) for number in range(MANY)]
    waits: list[list[float]] = []
    alone: list[float] = []

    def many() -> float:
        seconds, each = together(store, cards)
        waits.append(sorted(each))
        return seconds / COMMITS

    def one() -> float:
        seconds, each = together(store, cards[:1])
        alone.append(sorted(each)[len(each) // 2])
        return seconds / COMMITS

    times = rounds({"8 writers": many, "1 writer": one}, times=5)
    figures = [one / eight for eight, one in zip(times["8 writers"], times["1 writer"], strict=True)]
    note = ", ".join(f"{name} {1 / sorted(figures)[2]:,.0f} commits/s" for name, figures in times.items())
    yield Row("8 writer processes", "one writer", figures, 0.75, note=note)
    late = [each[len(each) * 999 // 1_000] * 1e3 for each in waits[1:]]
    middle = duration(sorted(waits[-1])[len(waits[-1]) // 2])
    yield Row(
        "8 writer processes, p99.9 of a commit",
        "–",
        late,
        50,
        False,
        "ms",
        f"median {middle}; alone {duration(alone[-1])}",
    )
    worst = max(each[-1] * 1e3 for each in waits[1:])
    yield Row("8 writer processes, worst commit of all rounds", "–", [worst], 250, False, "ms", "no error")
    assert board.replay().divergences == ()
    store.close()
