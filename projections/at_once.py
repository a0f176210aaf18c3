"""Many cards read at once: what a batch of commands decides on, in five statements whatever their number."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, or_, select

from ledger.prepared import Prepared
from ledger.schema import events
from projections import tables
from projections.graph import Link
from projections.rows import RUN_COLUMNS, TASK_VALUES, run_of, task_of
from projections.run import Run
from projections.task import Task

TASKS, RUNS, LINKS = tables.tasks, tables.runs, tables.links


class Cards(NamedTuple):
    """Cards that are there, their open runs, and all links to them and from them."""

    tasks: list[Task]
    runs: list[Run]
    links: list[Link]


def cards_at_once(tx: Connection, board: str, tasks: Collection[str]) -> Cards:
    """Those of *tasks* that are there, as they are stored."""
    asked = {"board": board, "tasks": json.dumps(list(tasks))}
    return Cards(
        [task_of(row) for row in _TASKS.all(tx, **asked)],
        [run_of(row) for row in _RUNS.all(tx, **asked)],
        [Link(*row) for row in _LINKS.all(tx, **asked)],
    )


def versions_at_once(tx: Connection, board: str, tasks: Collection[str]) -> dict[str, int]:
    """Where the stream of each of *tasks* ends; 0: there is none."""
    ends = _VERSIONS.all(tx, board=board, tasks=json.dumps(list(tasks)))
    return {**dict.fromkeys(tasks, 0), **dict(ends)}


def _among(column: ColumnElement[str]) -> ColumnElement[bool]:
    return column.in_(select(func.json_each(bindparam("tasks")).table_valued("value").c.value))


def _of(columns: Any, *where: ColumnElement[bool]) -> Select[Any]:
    chosen = list(columns)
    return select(*chosen).where(chosen[0].table.c.board == bindparam("board"), *where)


_TASKS: Final = Prepared(_of((TASKS.c[name] for name in TASK_VALUES), _among(TASKS.c.task)))
_RUNS: Final = Prepared(_of((RUNS.c[name] for name in RUN_COLUMNS), _among(RUNS.c.task), RUNS.c.ended_by.is_(None)))
_LINKS: Final = Prepared(
    _of((LINKS.c.parent, LINKS.c.child, LINKS.c.require), or_(_among(LINKS.c.child), _among(LINKS.c.parent))).order_by(
        LINKS.c.parent, LINKS.c.child
    )
)
_VERSIONS: Final = Prepared(
    _of((events.c.task, func.max(events.c.version)), _among(events.c.task)).group_by(events.c.task)
)
