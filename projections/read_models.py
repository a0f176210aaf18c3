"""The stored projections: kept up in the append's own transaction, rebuilt beside the old ones and swapped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Table, bindparam, delete, insert, select, update
from sqlalchemy.sql import ColumnElement

from ledger.clock import system_clock
from ledger.database import reading, writing
from ledger.prepared import Prepared
from ledger.recorded import Recorded
from ledger.standing import standing
from ledger.store import read_board
from ledger.writes import Writes
from projections import tables
from projections.graph import satisfied
from projections.rows import (
    RUN_COLUMNS,
    SETTINGS_COLUMNS,
    TASK_VALUES,
    run_changes,
    run_of,
    run_values,
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
LEASES, HELD = tables.leases, tables.held
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


def apply(tx: Connection, board: str, recorded: Sequence[Recorded]) -> Task | None:
    """Evolve the stored projections by *recorded*, the events of one append, all of one stream.

    Returns the card as it is now (none for the board's own stream). Called in the append's transaction.
    """
    shelf, task = Shelf(board), recorded[0].task
    moved = shelf.take(tx, recorded, before=load_task(tx, board, task), runs={})
    shelf.flush(tx)
    return moved


class Shelf:
    """What the appends of one transaction make of the stored projections; `flush` writes each row as it is by then.

    So many rows take a few statements. Whoever reads rows from the store flushes first.
    """

    def __init__(self, board: str) -> None:
        self.stale: set[str] = set()
        """Cards whose number of open parents was moved in the store, so that they must be read anew."""
        self._board = board
        self._tasks: dict[str, tuple[Task | None, Task]] = {}
        self._runs: dict[tuple[str, int], tuple[Run | None, Run]] = {}
        self._granted: dict[tuple[str, int], dict[str, Any]] = {}
        self._free: set[str] = set()
        self._released: list[dict[str, Any]] = []

    def take(
        self,
        tx: Connection,
        recorded: Sequence[Recorded],
        *,
        before: Task | None,
        runs: dict[int, Run | None],
        children: Sequence[tuple[str, str]] | None = None,
    ) -> Task | None:
        """Evolve the projections by *recorded*, the events of one append, all of one stream.

        *before* is the card as it was (none: there was none), *runs* are runs of it that are known in this transaction,
        and *children* (each with what its link requires) those that wait for it, where they are known; the runs that
        moved are put there. Returns the card as it is now (none for the board's own stream).
        """
        if recorded[0].task == "":
            _apply_settings(tx, self._board, recorded)
            return None
        task = before or Task(recorded[0].task)
        moved: dict[int, tuple[Run | None, Run | None]] = {}
        itself = False
        for event in recorded:
            number = event.run or (task.run if event.kind == "edited" else None)
            if number is not None:
                stored, run = moved.get(number) or _stored(tx, self._board, before, number, runs)
                moved[number] = stored, evolve_run(run, event)
            itself |= self._links(tx, event, task.outcome, children)
            task = evolve(task, event)
        for number, (stored, run) in moved.items():
            runs[number] = run
            if run is not None:
                self._runs[task.id, number] = self._runs.get((task.id, number), (stored,))[0], run
        self._tasks[task.id] = self._tasks.get(task.id, (before,))[0], task
        relinked = any(map(relinks, recorded))
        if relinked:  # once the row stands: in an odd log a card may wait for itself
            self.flush(tx)
            _recount(tx, self._board, task.id)
        elif itself:
            self.flush(tx)
        return load_task(tx, self._board, task.id) if relinked or itself else task

    def grant(self, task: str, run: int, *, until: int, held: bool = True) -> None:
        """A new run has its lease, and no sweep holds its card any more; *held*: one may have done so."""
        self._granted[task, run] = {"task": task, "run": run, "lease_until": until, "last_beat": None}
        if held:
            self._free.add(task)

    def release(self, task: str, run: int) -> None:
        """A run needs its lease no more."""
        if self._granted.pop((task, run), None) is None:
            self._released.append({"task": task, "run": run})

    def flush(self, tx: Connection) -> None:
        """Write what waits."""
        if self._waits:
            writes = Writes(self._board)
            self.add_to(writes)
            writes.send(tx)

    @property
    def _waits(self) -> bool:
        return bool(self._tasks or self._runs or self._granted or self._released)

    def add_to(self, writes: Writes) -> None:
        """Put what waits into *writes*."""
        if not self._waits:  # mostly, since whoever reads asks first
            return
        tasks, runs, granted = self._tasks.values(), self._runs.values(), self._granted.values()
        free, released = self._free, self._released
        self.clear()
        if created := [now for was, now in tasks if was is None]:
            writes.insert(TASKS, [{**task_row(now), "open_parents": 0} for now in created])
        if opened := [now for was, now in runs if was is None]:
            writes.put(RUNS, [(self._board, *run_values(now)) for now in opened])
        if moved := [({"task": now.id}, task_changes(was, now)) for was, now in tasks if was is not None]:
            _change(writes, TASKS, moved)
        if kept := [(was, now) for was, now in runs if was is not None]:
            _change(writes, RUNS, [({"task": now.task, "run": now.run}, run_changes(was, now)) for was, now in kept])
        if granted:
            writes.insert(LEASES, granted)
        if free:
            writes.remove(HELD, ("task",), [{"task": task} for task in free])
        if released:
            writes.remove(LEASES, ("task", "run"), released)

    def clear(self) -> None:
        """Forget what waits: it was rolled back."""
        self._tasks, self._runs, self._granted, self._free, self._released = {}, {}, {}, set(), []

    def _links(
        self, tx: Connection, event: Recorded, outcome: str | None, children: Sequence[tuple[str, str]] | None
    ) -> bool:
        """Whether *event* moved its own card's `open_parents`; *outcome* is the card's before it."""
        match event.kind:
            case "created":
                for parent in event.facts["parents"]:
                    _link(tx, self._board, event.task, parent["task"], parent["require"])
            case "linked":
                _link(tx, self._board, event.task, event.facts["parent"], event.facts["require"])
            case "unlinked":
                _unlink(tx, self._board, event.task, event.facts["parent"])
            case "completed" | "reopened":
                return self._settle(tx, event, outcome, children)
            case _:
                pass
        return False

    def _settle(
        self, tx: Connection, event: Recorded, before: str | None, known: Sequence[tuple[str, str]] | None
    ) -> bool:
        """Move `open_parents` of the children only: the price of a completion does not depend on the board's size."""
        children = _CHILDREN.all(tx, board=self._board, parent=event.task) if known is None else known
        for child, require in children:
            moved = satisfied(before, require) - satisfied(event.outcome, require)
            if moved:
                self.flush(tx)
                self.stale.add(child)
                _MOVE_OPEN.run(tx, of_board=self._board, of_task=child, moved=moved)
        return any(child == event.task for child, _ in children)


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
    fresh, writes = settings.version == 0, Writes(board)
    for event in recorded:
        settings = evolve_settings(settings, event)
    if fresh:
        writes.insert(SETTINGS, [settings_row(settings)])
    else:
        _change(writes, SETTINGS, [({}, settings_row(settings))])
    writes.send(tx)


def _stored(
    tx: Connection, board: str, before: Task | None, number: int, runs: Mapping[int, Run | None]
) -> tuple[Run | None, Run | None]:
    """The run as it is stored, and as it is so far; one behind the card's last is not there yet."""
    if number in runs:
        run = runs[number]
    else:
        run = None if before is None or number > before.last_run else load_run(tx, board, before.id, number)
    return run, run


def _change(writes: Writes, table: Table, moved: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Write the columns that changed of rows by key, and so touch no index of the others."""
    same: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for key, changes in moved:
        if changes:
            same.setdefault(tuple(changes), []).append({**key, **changes})
    for names, rows in same.items():
        writes.change(table, names, rows)


def relinks(event: Recorded) -> bool:
    """Whether *event* moves a link."""
    return event.kind in {"linked", "unlinked"} or (event.kind == "created" and bool(event.facts["parents"]))


def _link(tx: Connection, board: str, child: str, parent: str, require: str) -> None:
    _unlink(tx, board, child, parent)
    _INSERT_LINK.run(tx, board=board, child=child, parent=parent, require=require)


def _unlink(tx: Connection, board: str, child: str, parent: str) -> None:
    _UNLINK.run(tx, board=board, child=child, parent=parent)


def _recount(tx: Connection, board: str, child: str) -> None:
    count = sum(not satisfied(outcome, require) for require, outcome in _WAITS.all(tx, board=board, child=child))
    _SET_OPEN.run(tx, of_board=board, of_task=child, open_parents=count)


def _of(table: Table, *names: str, prefix: str = "") -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(prefix + name) for name in names]


def _select(table: Table, names: Sequence[str], *keys: str) -> Prepared:
    return Prepared(select(*(table.c[name] for name in names)).where(*_of(table, *keys)))


_SETTINGS = _select(SETTINGS, SETTINGS_COLUMNS, "board")
_TASK = _select(TASKS, TASK_VALUES, "board", "task")
_RUN = _select(RUNS, RUN_COLUMNS, "board", "task", "run")
_INSERT_LINK = Prepared(insert(LINKS))
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
