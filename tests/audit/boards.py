"""Boards as the reference system would have left them: its tables of a chosen version, row by row."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from kanban.foreign.audit import Audit, audit
from kanban.foreign.tables import Event, opened

FIXTURES: Final = Path(__file__).resolve().parents[1] / "fixtures" / "hermes"
DUMPS: Final = sorted(path.name for path in FIXTURES.glob("*.sql"))
_OLDEST: Final = (
    "id TEXT PRIMARY KEY", "title TEXT", "assignee TEXT", "status TEXT", "created_at INTEGER", "claim_lock TEXT",
    "consecutive_failures INTEGER NOT NULL DEFAULT 0", "current_run_id INTEGER", "max_retries INTEGER",
)  # fmt: skip
_LATER: Final = (
    (15, "branch_name TEXT"), (16, "goal_mode INTEGER"), (18, "block_kind TEXT"),
    (18, "block_recurrences INTEGER NOT NULL DEFAULT 0"), (20, "worker_started_at TEXT"),
)  # fmt: skip
_REST: Final = (
    "CREATE TABLE task_links (parent_id TEXT, child_id TEXT)",
    """CREATE TABLE task_events (
        id INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT, run_id INTEGER, kind TEXT, payload TEXT, created_at INTEGER
    )""",
    """CREATE TABLE task_runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT, outcome TEXT, started_at INTEGER, ended_at INTEGER
    )""",
)
CARD: Final = "t_a"


def event(kind: str, run: int | None = None, /, *, id_: int = 1, task: str = CARD, **facts: Any) -> Event:
    """An event as it is read."""
    return Event(id_, task, kind, run, facts, 1_000 + id_)


def created(status: str = "ready", **facts: Any) -> Event:
    """How a history begins."""
    return event("created", status=status, assignee=facts.pop("assignee", "builder"), **facts)


def claimed(run: int, **facts: Any) -> Event:
    """A claim that opens *run*."""
    return event("claimed", run, run_id=run, **facts)


def gave_up(failures: int, limit: int, run: int | None = None, **facts: Any) -> Event:
    """A breaker that trips."""
    return event("gave_up", run, failures=failures, effective_limit=limit,
                 trigger_outcome=facts.pop("trigger_outcome", "crashed"), **facts)  # fmt: skip


class Board:
    """A board file that a version (0.x; 20: after 0.19) has opened."""

    def __init__(self, folder: Path, version: int = 19) -> None:
        self.path = folder / "kanban.db"
        columns = [*_OLDEST, *(column for since, column in _LATER if since <= version)]
        self.say(f"CREATE TABLE tasks ({', '.join(columns)})")
        for statement in _REST:
            self.say(statement)

    def say(self, statement: str, *values: Any) -> int:
        """What somebody does who opens the file; the id of the new row, if there is one."""
        with closing(sqlite3.connect(self.path)) as driver, driver:
            driver.execute("PRAGMA synchronous=OFF")
            return driver.execute(statement, values).lastrowid or 0

    def card(self, *history: Event, task: str = CARD, **stored: Any) -> list[int]:
        """A card as it is stored, and the events that are to have made it; their ids."""
        row = {"id": task, "status": "ready", "consecutive_failures": 0} | stored
        names = ", ".join(row)
        self.say(f"INSERT INTO tasks ({names}) VALUES ({', '.join('?' * len(row))})", *row.values())
        return [self.event(each, task=task) for each in history]

    def event(self, event: Event, *, task: str = CARD) -> int:
        """One event more."""
        payload = json.dumps(event.facts) if event.facts else None
        return self.say(
            "INSERT INTO task_events (task_id, run_id, kind, payload, created_at) VALUES (?, ?, ?, ?, 1000)",
            task, event.run, event.kind, payload,
        )  # fmt: skip

    def run(self, run: int, started: int, ended: int | None, *, task: str = CARD, outcome: str | None = None) -> None:
        """A row in the table of runs."""
        self.say("INSERT INTO task_runs VALUES (?, ?, ?, ?, ?)", run, task, outcome, started, ended)

    def link(self, parent: str, child: str) -> None:
        """A row in the table of links."""
        self.say("INSERT INTO task_links VALUES (?, ?)", parent, child)

    def audit_columns(self) -> frozenset[str]:
        """The columns of the table of cards, as an audit reads them."""
        with opened(self.path) as tables:
            return tables.columns["tasks"]

    def audit(self) -> Audit:
        """What an audit says."""
        return audit(self.path)


def real(name: str, folder: Path) -> Path:
    """A real board of the fixtures, as a file that may be changed."""
    path = folder / "kanban.db"
    if name.endswith(".db"):
        path.write_bytes((FIXTURES / name).read_bytes())
        return path
    with closing(sqlite3.connect(path)) as driver:
        driver.executescript((FIXTURES / name).read_text())
    return path


def named(found: Audit, *kinds: str) -> list[tuple[str, str]]:
    """Kind and card of each finding, of *kinds* where any are given."""
    return [(each.kind, each.task) for each in found.findings if not kinds or each.kind in kinds]
