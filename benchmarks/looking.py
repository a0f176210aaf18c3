"""The past and the proofs: any position of a long log, one answer on a long card, another system's board, copies.

A look at the past is timed whole: the snapshot, the fold from there, and the answer. Processor time: all of it is read
from memory.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.boards import bare, card_id, claimed, created, exited, fill, long_log, new_store
from benchmarks.bulk import CARDS, EACH, Typed
from benchmarks.measure import Row, cpu, faster, medians, rounds, scaled, spent
from kanban.address import address_of
from kanban.export import export
from kanban.foreign.audit import audit
from kanban.importing.jsonl import import_jsonl
from ledger import ids
from projections.places import Mark
from projections.replay import replay

EVENTS = scaled(1_000_000, least=20_000)
FOREIGN, COPIED = scaled(100_000, least=5_000), scaled(50_000, least=5_000)
LONG: Final = 10_000
"""Events of one card."""
PLACES: Final = 10
"""Positions of a round."""
_SAMPLE: Final = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "hermes" / "hermes-board-small.db"


def rows(scratch: Path) -> Iterator[Row]:
    """Milliseconds beside what a person waits for, and rates beside our own."""
    yield from _past(scratch)
    yield from _why(scratch)
    yield from _foreign(scratch)
    yield from _copies(scratch)


def _past(scratch: Path) -> Iterator[Row]:
    store = long_log(scratch / "long", EVENTS)
    board, places = store.open(), random.Random(5)
    board.snapshot()
    card = card_id(7)
    asked: dict[str, Callable[[Any], Any]] = {
        "a page of the list": lambda past: past.tasks(limit=50),
        "counts": lambda past: past.stats(),
        "one card": lambda past: past.show(card),
        "why": lambda past: past.why(card),
    }

    def worst(question: Callable[[Any], Any]) -> float:
        return max(
            spent(lambda: question(board.as_of(Mark(number=places.randint(200, EVENTS)))), cpu) for _ in range(PLACES)
        )

    times = rounds({name: lambda question=question: worst(question) for name, question in asked.items()})
    for name in asked:
        figures = [seconds * 1e3 for seconds in times[name]]
        what = f"{name} at any position, the worst of {PLACES}"
        yield Row(what, f"{EVENTS:,} events", figures, 200, False, "ms")
    store.close()


def _why(scratch: Path) -> Iterator[Row]:
    store = new_store(scratch / "why")
    ends = [draft for run in range(1, LONG // 2) for draft in (claimed(run)[0], exited(run, "interrupted", 143))]
    fill(store, [("t_long", [[created(1), *ends]])])
    board = store.open()
    times = rounds({"why": lambda: spent(lambda: board.why("t_long"), cpu)})
    figures = [seconds * 1e3 for seconds in times["why"]]
    yield Row(f"why, of a card with {LONG:,} events", "–", figures, 20, False, "ms")
    store.close()


def _foreign(scratch: Path) -> Iterator[Row]:
    path, events = foreign_board(scratch / "kanban.db", FOREIGN)
    store = long_log(scratch / "ours", FOREIGN)
    board = store.open()
    times = rounds(
        {
            "audit": lambda: spent(lambda: audit(path), cpu, per=events),
            "replay": lambda: spent(lambda: replay(board.engine, "default"), cpu, per=FOREIGN),
        }
    )
    note = medians(times, "audit", "replay")
    yield Row(f"audit of {events:,} events of hermes", "replay", faster(times, "audit", "replay"), 0.25, note=note)
    store.close()


def _copies(scratch: Path) -> Iterator[Row]:
    store, target = long_log(scratch / "source", COPIED), new_store(scratch / "batches")
    board, batches = store.open(), Typed(target.open())
    lines = [json.dumps(event).encode() for event in export(board, "jsonl")]

    def out() -> None:
        assert sum(len(json.dumps(event)) > 0 for event in export(board, "jsonl")) == len(lines)

    def back() -> None:
        home = scratch / ids.task_id()
        url, environ = f"sqlite:///{home}/ledger.db", {"LEDGER_HOME": str(home)}
        import_jsonl(address_of(url, None, actor=None, config=None, environ=environ), lines)
        shutil.rmtree(home)

    sides = {
        "export": lambda: spent(out, cpu, per=len(lines)),
        "import": lambda: spent(back, cpu, per=len(lines)),
        "append": lambda: spent(batches.transaction, cpu, per=CARDS * EACH),
    }
    times = rounds(sides)
    for name in ("export", "import"):
        figures, note = faster(times, name, "append"), medians(times, name, "append")
        yield Row(f"{name} of {len(lines):,} events", "append, 1,000 a transaction", figures, 0.3, note=note)
    target.close()
    store.close()


def foreign_board(path: Path, events: int) -> tuple[Path, int]:
    """A board of hermes with about so many *events*: a real one, copied side by side under other ids."""
    shutil.copyfile(_SAMPLE, path)
    with bare(path) as db:
        tables = {name: _rows(db, name) for name in ("tasks", "task_events", "task_runs", "task_links")}
        db.execute("BEGIN")
        for copy in range(1, events // len(tables["task_events"])):
            for name, found in tables.items():
                _insert(db, name, [_moved(row, copy) for row in found])
        db.execute("COMMIT")
        (count,) = db.execute("SELECT count(*) FROM task_events").fetchone()
        db.execute("PRAGMA journal_mode=DELETE")
    return path, count


_CARDS: Final = {"task_id", "parent_id", "child_id"}
_STEP: Final = 1_000  # more than the sample has of anything


def _moved(row: dict[str, Any], copy: int) -> dict[str, Any]:
    """The same row of another copy: cards by another name, runs and events by another number."""
    moved = dict(row)
    for name, value in row.items():
        if isinstance(value, int) and name in {"id", "run_id", "current_run_id"}:
            moved[name] = value + copy * _STEP
        elif isinstance(value, str) and name in _CARDS | {"id", "idempotency_key"}:
            moved[name] = f"{value}{copy:05d}"
    return moved


def _rows(db: Any, name: str) -> list[dict[str, Any]]:
    cursor = db.execute(f"SELECT * FROM {name}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _insert(db: Any, name: str, found: list[dict[str, Any]]) -> None:
    columns = list(found[0])
    values = ", ".join("?" * len(columns))
    db.executemany(
        f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({values})", [tuple(row.values()) for row in found]
    )
