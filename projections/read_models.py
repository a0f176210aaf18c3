"""The stored projections: kept up in the append's own transaction, rebuilt beside the old ones and swapped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Table, bindparam, delete, insert, select, update
from sqlalchemy.sql import ColumnElement

from ledger.database import hold_board, reading, writing
from ledger.prepared import Prepared
from ledger.recorded import Recorded
from ledger.store import head, read_board
from projections import tables
from projections.graph import Graph, satisfied
from projections.rows import run_from, run_row, settings_from, settings_row, task_from, task_row
from projections.run import Run, evolve_run
from projections.settings import NEW_BOARD, Settings, evolve_settings
from projections.task import Task, evolve

TASKS, RUNS, LINKS, SETTINGS = tables.tasks, tables.runs, tables.links, tables.settings
PROJECTIONS: tuple[Table, ...] = (TASKS, RUNS, LINKS, SETTINGS)
"""The disposable tables: everything in them is folded from the log."""


def load_settings(tx: Connection, board: str) -> Settings:
    """The board's own folded state."""
    row = _SETTINGS.one(tx, board=board)
    return NEW_BOARD if row is None else settings_from(dict(zip(_NAMES[SETTINGS], row, strict=True)))


def load_task(tx: Connection, board: str, task: str) -> Task | None:
    """The folded card, or none."""
    row = _TASK.one(tx, board=board, task=task)
    return None if row is None else task_from(dict(zip(_NAMES[TASKS], row, strict=True)))


def load_run(tx: Connection, board: str, task: str, run: int) -> Run | None:
    """The folded run, or none."""
    row = _RUN.one(tx, board=board, task=task, run=run)
    return None if row is None else run_from(dict(zip(_NAMES[RUNS], row, strict=True)))


def apply(tx: Connection, board: str, recorded: Sequence[Recorded], *, before: Task | None = None) -> Task | None:
    """Evolve the stored projections by *recorded*, the events of one append, all of one stream.

    *before* is the card as stored, where the caller has loaded it in this transaction. Returns the card as it is now
    (none for the board's own stream). Called in the append's transaction.
    """
    if recorded[0].task == "":
        _apply_settings(tx, board, recorded)
        return None
    before = before or load_task(tx, board, recorded[0].task)
    task = before or Task(recorded[0].task)
    runs: dict[int, Run | None] = {}
    for event in recorded:
        number = event.run or (task.run if event.kind == "edited" else None)
        if number is not None:
            runs[number] = evolve_run(_known(tx, board, event.task, number, runs), event)
        _apply_links(tx, board, event, task.outcome)
        task = evolve(task, event)
    _put(tx, TASKS, {"board": board, **task_row(task)}, fresh=before is None)
    relinked = any(_relinks(event) for event in recorded)
    if relinked:  # once the row stands: in an odd log a card may wait for itself
        _recount(tx, board, task.id)
    for number, run in runs.items():
        if run is not None:
            _put(tx, RUNS, {"board": board, **run_row(run)}, fresh=number > (before.last_run if before else 0))
    settled = any(event.kind in {"completed", "reopened"} for event in recorded)
    return load_task(tx, board, task.id) if relinked or settled else task


def rebuild(engine: Engine, board: str) -> int:
    """Fold the whole log of *board* into fresh projections beside the old ones, then swap. Returns the position.

    The fold reads in short pages without a lock; only the swap holds the board, and only for what came meanwhile.
    """
    world = World()
    while True:
        with reading(engine) as tx:
            batch = list(read_board(tx, board, after=world.position, limit=5_000))
        if not batch:
            break
        world.take(batch)
    with writing(engine) as tx:
        hold_board(tx, board)
        last = head(tx, board)
        world.take(read_board(tx, board, after=world.position))
        for table in PROJECTIONS:
            tx.execute(delete(table).where(table.c.board == board))
            rows = world.rows(table)
            for start in range(0, len(rows), 1_000):
                tx.execute(insert(table), [{"board": board, **row} for row in rows[start : start + 1_000]])
        return last.position


class World:
    """A whole board folded in memory: what the projections must say."""

    def __init__(self) -> None:
        self.position = 0
        self.settings = NEW_BOARD
        self.tasks: dict[str, Task] = {}
        self.runs: dict[tuple[str, int], Run] = {}
        self.graph = Graph()

    def take(self, recorded: Iterable[Recorded]) -> None:
        """Fold *recorded*, in order."""
        for event in recorded:
            self.evolve(event)

    def evolve(self, event: Recorded) -> None:
        """Fold one event."""
        self.position = event.position
        if event.task == "":
            self.settings = evolve_settings(self.settings, event)
            return
        before = self.tasks.get(event.task) or Task(event.task)
        number = event.run or (before.run if event.kind == "edited" else None)
        if number is not None:
            run = evolve_run(self.runs.get((event.task, number)), event)
            if run is not None:
                self.runs[event.task, number] = run
        self.tasks[event.task] = evolve(before, event)
        self.graph.evolve(event)

    def task(self, task: str) -> Task | None:
        """The card with its number of open parents."""
        found = self.tasks.get(task)
        return None if found is None else found._replace(open_parents=self.graph.open.get(task, 0))

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """The rows that *table* must hold for this board (without the board's name)."""
        match table.name:
            case "tasks":
                return [
                    {**task_row(task), "open_parents": self.graph.open.get(name, 0)}
                    for name, task in self.tasks.items()
                ]
            case "runs":
                return [run_row(run) for run in self.runs.values()]
            case "links":
                return [
                    {"child": child, "parent": parent, "require": require}
                    for child, parents in self.graph.parents.items()
                    for parent, require in parents.items()
                ]
            case _:
                return [settings_row(self.settings)]


def _apply_settings(tx: Connection, board: str, recorded: Sequence[Recorded]) -> None:
    settings = load_settings(tx, board)
    fresh = settings.version == 0
    for event in recorded:
        settings = evolve_settings(settings, event)
    _put(tx, SETTINGS, {"board": board, **settings_row(settings)}, fresh=fresh)


def _known(tx: Connection, board: str, task: str, number: int, runs: dict[int, Run | None]) -> Run | None:
    return runs[number] if number in runs else load_run(tx, board, task, number)


def _put(tx: Connection, table: Table, row: dict[str, Any], *, fresh: bool) -> None:
    if fresh:
        _INSERT[table].run(tx, **row, open_parents=0)
    else:
        _UPDATE[table].run(tx, **{f"of_{column.name}": row[column.name] for column in table.primary_key}, **row)


def _relinks(event: Recorded) -> bool:
    return event.kind in {"linked", "unlinked"} or (event.kind == "created" and bool(event.facts["parents"]))


def _apply_links(tx: Connection, board: str, event: Recorded, outcome: str | None) -> None:
    match event.kind:
        case "created":
            for parent in event.facts["parents"]:
                _link(tx, board, event.task, parent["task"], parent["require"])
        case "linked":
            _link(tx, board, event.task, event.facts["parent"], event.facts["require"])
        case "unlinked":
            _unlink(tx, board, event.task, event.facts["parent"])
        case "completed" | "reopened":
            _settle(tx, board, event, outcome)
        case _:
            pass


def _link(tx: Connection, board: str, child: str, parent: str, require: str) -> None:
    _unlink(tx, board, child, parent)
    _INSERT[LINKS].run(tx, board=board, child=child, parent=parent, require=require)


def _unlink(tx: Connection, board: str, child: str, parent: str) -> None:
    _UNLINK.run(tx, board=board, child=child, parent=parent)


def _recount(tx: Connection, board: str, child: str) -> None:
    count = sum(not satisfied(outcome, require) for require, outcome in _WAITS.all(tx, board=board, child=child))
    _SET_OPEN.run(tx, of_board=board, of_task=child, open_parents=count)


def _settle(tx: Connection, board: str, event: Recorded, before: str | None) -> None:
    """Move `open_parents` of the children only: the price of a completion does not depend on the board's size."""
    for require in ("ok", "any"):
        moved = satisfied(before, require) - satisfied(event.outcome, require)
        if moved:
            _MOVE_CHILDREN.run(tx, of_board=board, of_parent=event.task, of_require=require, moved=moved)


def _of(table: Table, *names: str, prefix: str = "") -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(prefix + name) for name in names]


def _updated(table: Table) -> Prepared:
    keys = [column.name for column in table.primary_key]
    ours = [column.name for column in table.columns if column.name not in {*keys, "open_parents"}]
    where = _of(table, *keys, prefix="of_")
    return Prepared(update(table).where(*where).values({name: bindparam(name) for name in ours}))


_NAMES = {table: tuple(column.name for column in table.columns) for table in PROJECTIONS}
_SETTINGS = Prepared(select(SETTINGS).where(*_of(SETTINGS, "board")))
_TASK = Prepared(select(TASKS).where(*_of(TASKS, "board", "task")))
_RUN = Prepared(select(RUNS).where(*_of(RUNS, "board", "task", "run")))
_INSERT = {table: Prepared(insert(table)) for table in PROJECTIONS}
_UPDATE = {table: _updated(table) for table in (SETTINGS, TASKS, RUNS)}
_UNLINK = Prepared(delete(LINKS).where(*_of(LINKS, "board", "child", "parent")))
_WAITS = Prepared(
    select(LINKS.c.require, TASKS.c.outcome)
    .select_from(LINKS.outerjoin(TASKS, (TASKS.c.board == LINKS.c.board) & (TASKS.c.task == LINKS.c.parent)))
    .where(*_of(LINKS, "board", "child"))
)
_SET_OPEN = Prepared(
    update(TASKS).where(*_of(TASKS, "board", "task", prefix="of_")).values(open_parents=bindparam("open_parents"))
)
_MOVE_CHILDREN = Prepared(
    update(TASKS)
    .where(
        *_of(TASKS, "board", prefix="of_"),
        TASKS.c.task.in_(select(LINKS.c.child).where(*_of(LINKS, "board", "parent", "require", prefix="of_"))),
    )
    .values(open_parents=TASKS.c.open_parents + bindparam("moved"))
)
