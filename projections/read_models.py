"""The stored projections: kept up in the append's own transaction, rebuilt beside the old ones and swapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Engine, Table, bindparam, delete, insert, select, update
from sqlalchemy.sql import ColumnElement

from ledger.clock import system_clock
from ledger.database import reading, writing
from ledger.prepared import Prepared
from ledger.recorded import Recorded
from ledger.store import read_board, standing
from projections import tables
from projections.graph import satisfied
from projections.rows import (
    RUN_COLUMNS,
    SETTINGS_COLUMNS,
    TASK_VALUES,
    run_changes,
    run_of,
    run_row,
    settings_of,
    settings_row,
    task_changes,
    task_of,
    task_row,
)
from projections.run import Run, evolve_run
from projections.settings import NEW_BOARD, Settings, evolve_settings
from projections.task import Task, evolve
from projections.world import World

TASKS, RUNS, LINKS, SETTINGS = tables.tasks, tables.runs, tables.links, tables.settings
PROJECTIONS: tuple[Table, ...] = (TASKS, RUNS, LINKS, SETTINGS)
"""The disposable tables: everything in them is folded from the log."""


def load_settings(tx: Connection, board: str) -> Settings:
    """The board's own folded state."""
    row = _SETTINGS.one(tx, board=board)
    return NEW_BOARD if row is None else settings_of(row)


def load_task(tx: Connection, board: str, task: str) -> Task | None:
    """The folded card, or none."""
    row = _TASK.one(tx, board=board, task=task)
    return None if row is None else task_of(row)


def load_run(tx: Connection, board: str, task: str, run: int) -> Run | None:
    """The folded run, or none."""
    row = _RUN.one(tx, board=board, task=task, run=run)
    return None if row is None else run_of(row)


def apply(
    tx: Connection,
    board: str,
    recorded: Sequence[Recorded],
    *,
    before: Task | None = None,
    runs: dict[int, Run | None] | None = None,
) -> Task | None:
    """Evolve the stored projections by *recorded*, the events of one append, all of one stream.

    *before* is the card as stored, and *runs* are runs of it as stored, where the caller has loaded them in this
    transaction; the runs that moved are put there. Returns the card as it is now (none for the board's own stream).
    Called in the append's transaction.
    """
    if recorded[0].task == "":
        _apply_settings(tx, board, recorded)
        return None
    before = before or load_task(tx, board, recorded[0].task)
    task = before or Task(recorded[0].task)
    runs = {} if runs is None else runs
    moved: dict[int, tuple[Run | None, Run | None]] = {}
    itself = False
    for event in recorded:
        number = event.run or (task.run if event.kind == "edited" else None)
        if number is not None:
            stored, run = moved.get(number) or _stored(tx, board, before, number, runs)
            moved[number] = stored, evolve_run(run, event)
        itself |= _apply_links(tx, board, event, task.outcome)
        task = evolve(task, event)
    _put_task(tx, board, before, task)
    relinked = any(_relinks(event) for event in recorded)
    if relinked:  # once the row stands: in an odd log a card may wait for itself
        _recount(tx, board, task.id)
    for number, (stored, run) in moved.items():
        _put_run(tx, board, stored, run)
        runs[number] = run
    return load_task(tx, board, task.id) if relinked or itself else task


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
        last, _ = standing(tx, board, system_clock, hold=True)
        world.take(read_board(tx, board, after=world.position))
        for table in PROJECTIONS:
            tx.execute(delete(table).where(table.c.board == board))
            rows = world.rows(table)
            for start in range(0, len(rows), 1_000):
                tx.execute(insert(table), [{"board": board, **row} for row in rows[start : start + 1_000]])
        for table in tables.PAST:  # taken again by `projections.snapshots`
            tx.execute(delete(table).where(table.c.board == board))
        return last.position


def _apply_settings(tx: Connection, board: str, recorded: Sequence[Recorded]) -> None:
    settings = load_settings(tx, board)
    fresh = settings.version == 0
    for event in recorded:
        settings = evolve_settings(settings, event)
    if fresh:
        _INSERT[SETTINGS].run(tx, board=board, **settings_row(settings))
    else:
        _change(tx, SETTINGS, settings_row(settings), of_board=board)


def _stored(
    tx: Connection, board: str, before: Task | None, number: int, runs: Mapping[int, Run | None]
) -> tuple[Run | None, Run | None]:
    """The run as it is stored, and as it is so far; one behind the card's last is not there yet."""
    if number in runs:
        run = runs[number]
    else:
        run = None if before is None or number > before.last_run else load_run(tx, board, before.id, number)
    return run, run


def _put_task(tx: Connection, board: str, before: Task | None, task: Task) -> None:
    if before is None:
        _INSERT[TASKS].run(tx, board=board, **task_row(task), open_parents=0)
    else:
        _change(tx, TASKS, task_changes(before, task), of_board=board, of_task=task.id)


def _put_run(tx: Connection, board: str, before: Run | None, run: Run | None) -> None:
    if run is None:
        return
    if before is None:
        _INSERT[RUNS].run(tx, board=board, **run_row(run))
    else:
        _change(tx, RUNS, run_changes(before, run), of_board=board, of_task=run.task, of_run=run.run)


def _change(tx: Connection, table: Table, changes: dict[str, Any], **key: Any) -> None:
    """Write the columns that changed, and so touch no index of the others."""
    if changes:
        _changing(table, tuple(changes)).run(tx, **key, **changes)


def _relinks(event: Recorded) -> bool:
    return event.kind in {"linked", "unlinked"} or (event.kind == "created" and bool(event.facts["parents"]))


def _apply_links(tx: Connection, board: str, event: Recorded, outcome: str | None) -> bool:
    """Whether *event* moved its own card's `open_parents`; *outcome* is the card's before it."""
    match event.kind:
        case "created":
            for parent in event.facts["parents"]:
                _link(tx, board, event.task, parent["task"], parent["require"])
        case "linked":
            _link(tx, board, event.task, event.facts["parent"], event.facts["require"])
        case "unlinked":
            _unlink(tx, board, event.task, event.facts["parent"])
        case "completed" | "reopened":
            return _settle(tx, board, event, outcome)
        case _:
            pass
    return False


def _link(tx: Connection, board: str, child: str, parent: str, require: str) -> None:
    _unlink(tx, board, child, parent)
    _INSERT[LINKS].run(tx, board=board, child=child, parent=parent, require=require)


def _unlink(tx: Connection, board: str, child: str, parent: str) -> None:
    _UNLINK.run(tx, board=board, child=child, parent=parent)


def _recount(tx: Connection, board: str, child: str) -> None:
    count = sum(not satisfied(outcome, require) for require, outcome in _WAITS.all(tx, board=board, child=child))
    _SET_OPEN.run(tx, of_board=board, of_task=child, open_parents=count)


def _settle(tx: Connection, board: str, event: Recorded, before: str | None) -> bool:
    """Move `open_parents` of the children only: the price of a completion does not depend on the board's size."""
    children = _CHILDREN.all(tx, board=board, parent=event.task)
    for child, require in children:
        moved = satisfied(before, require) - satisfied(event.outcome, require)
        if moved:
            _MOVE_OPEN.run(tx, of_board=board, of_task=child, moved=moved)
    return any(child == event.task for child, _ in children)


def _of(table: Table, *names: str, prefix: str = "") -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(prefix + name) for name in names]


@lru_cache(maxsize=512)
def _changing(table: Table, names: tuple[str, ...]) -> Prepared:
    where = _of(table, *(column.name for column in table.primary_key), prefix="of_")
    return Prepared(update(table).where(*where).values({name: bindparam(name) for name in names}))


def _select(table: Table, names: Sequence[str], *keys: str) -> Prepared:
    return Prepared(select(*(table.c[name] for name in names)).where(*_of(table, *keys)))


_SETTINGS = _select(SETTINGS, SETTINGS_COLUMNS, "board")
_TASK = _select(TASKS, TASK_VALUES, "board", "task")
_RUN = _select(RUNS, RUN_COLUMNS, "board", "task", "run")
_INSERT = {table: Prepared(insert(table)) for table in PROJECTIONS}
_UNLINK = Prepared(delete(LINKS).where(*_of(LINKS, "board", "child", "parent")))
_WAITS = Prepared(
    select(LINKS.c.require, TASKS.c.outcome)
    .select_from(LINKS.outerjoin(TASKS, (TASKS.c.board == LINKS.c.board) & (TASKS.c.task == LINKS.c.parent)))
    .where(*_of(LINKS, "board", "child"))
)
_SET_OPEN = Prepared(
    update(TASKS).where(*_of(TASKS, "board", "task", prefix="of_")).values(open_parents=bindparam("open_parents"))
)
_CHILDREN = Prepared(select(LINKS.c.child, LINKS.c.require).where(*_of(LINKS, "board", "parent")))
_MOVE_OPEN = Prepared(
    update(TASKS)
    .where(*_of(TASKS, "board", "task", prefix="of_"))
    .values(open_parents=TASKS.c.open_parents + bindparam("moved"))
)
