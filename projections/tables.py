"""The stored projections: every row can be thrown away and folded again from the log.

`leases`, `held`, `sweeps` and `measures` are operational: no fold reads them, and every decision that used them wrote
what it saw into its event. `snapshots`, `past_tasks` and `past_links` are how cards and links stood at some positions.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)

from ledger.schema import NAME, metadata

settings = Table(
    "settings",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("board_id", NAME, nullable=False),
    Column("name", NAME, nullable=False),
    Column("version", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("policy", Text, nullable=False),
    Column("policy_position", BigInteger, nullable=False),
    Column("pauses", Text, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="settings_board"),
    sqlite_with_rowid=False,
)

tasks = Table(
    "tasks",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("task", NAME, primary_key=True),
    Column("assignee", NAME),
    Column("reviewer", NAME),
    Column("last_assignee", NAME),
    Column("last_reviewer", NAME),
    Column("priority", Integer, nullable=False),
    Column("labels", Text, nullable=False),
    Column("tenant", NAME),
    Column("max_retries", Integer),
    Column("max_runtime", Integer),
    Column("workspace", Text, nullable=False),
    Column("goal_max_turns", Integer),
    Column("host", NAME),
    Column("key", NAME),
    Column("made_by_task", NAME),
    Column("made_by_run", Integer),
    Column("title_position", BigInteger, nullable=False),
    Column("body_position", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("lane", NAME, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("streak", Integer, nullable=False),
    Column("spent", Integer, nullable=False),
    Column("neutral", Integer, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("last_run", Integer, nullable=False),
    Column("run", Integer),
    Column("hold_cause", NAME),
    Column("hold_kind", NAME),
    Column("hold_sticky", Boolean),
    Column("hold_count", Integer),
    Column("hold_limit", Integer),
    Column("hold_limit_source", NAME),
    Column("hold_position", BigInteger),
    Column("not_before", BigInteger),
    Column("scheduled", BigInteger),
    Column("outcome", NAME),
    Column("archived", Boolean, nullable=False),
    Column("open_parents", Integer, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="tasks_board"),
    sqlite_with_rowid=False,
)


def _partial(name: str, table: Table, *columns: str, where: str, unique: bool = False) -> None:
    Index(name, *(table.c[column] for column in columns), unique=unique, sqlite_where=text(where))


_partial("tasks_key", tasks, "board", "key", where="key IS NOT NULL", unique=True)
LIFTABLE = "hold_cause IS NOT NULL AND NOT hold_sticky AND NOT archived"
"""A card with a hold that a sweep may lift (RULES §5)."""
_partial("tasks_liftable", tasks, "board", "task", where=LIFTABLE)
CLAIMABLE = (
    "NOT archived AND outcome IS NULL AND run IS NULL AND hold_cause IS NULL AND lane <> 'triage' AND open_parents <= 0"
)
"""What an index can know of a claimable card (RULES §3); time is compared in the query."""
_IN_ORDER = (tasks.c.board, tasks.c.priority.desc(), tasks.c.created_at, tasks.c.task)
Index("tasks_claimable", *_IN_ORDER, sqlite_where=text(CLAIMABLE))
Index("tasks_in_order", *_IN_ORDER)
BLOCKED = "NOT archived AND outcome IS NULL AND run IS NULL AND hold_cause IS NOT NULL"
"""A card that its hold keeps: status `blocked` (RULES §3)."""
Index("tasks_blocked", *_IN_ORDER, sqlite_where=text(BLOCKED))
TIMED = f"{CLAIMABLE} AND (scheduled IS NOT NULL OR not_before IS NOT NULL)"
"""A claimable card that a time was set for, be it past or not: few cards of a board."""
_partial("tasks_timed", tasks, "board", "task", where=TIMED)

runs = Table(
    "runs",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("task", NAME, primary_key=True),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("by", NAME, nullable=False),
    Column("lock_hash", NAME, nullable=False),
    Column("host", NAME, nullable=False),
    Column("boot", NAME, nullable=False),
    Column("worker", NAME, nullable=False),
    Column("lane", NAME, nullable=False),
    Column("lease_until", BigInteger, nullable=False),
    Column("max_runtime", Integer, nullable=False),
    Column("on_success", NAME, nullable=False),
    Column("reviewer", NAME),
    Column("result", Text, nullable=False),
    Column("quota", Text, nullable=False),
    Column("claimed_at", BigInteger, nullable=False),
    Column("claimed_position", BigInteger, nullable=False),
    Column("group", Text),
    Column("turns", Text),
    Column("progress_at", BigInteger, nullable=False),
    Column("stops", Text, nullable=False),
    Column("tokens", BigInteger),
    Column("cost", NAME),
    Column("outcome", NAME),
    Column("code", Integer),
    Column("signal", Integer),
    Column("evidence", NAME),
    Column("ended_by", NAME),
    Column("ended_at", BigInteger),
    Column("ended_position", BigInteger),
    Column("late_position", BigInteger),
    ForeignKeyConstraint(["board"], ["boards.board"], name="runs_board"),
    sqlite_with_rowid=False,
)
_partial("runs_open", runs, "ended_by", "board", "task", "run", where="ended_by IS NULL")
_partial("runs_late", runs, "board", "late_position", where="late_position IS NOT NULL")

links = Table(
    "links",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("child", NAME, primary_key=True),
    Column("parent", NAME, primary_key=True),
    Column("require", NAME, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="links_board"),
    sqlite_with_rowid=False,
)
Index("links_parent", links.c.board, links.c.parent, links.c.child, links.c.require)

leases = Table(
    "leases",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("task", NAME, primary_key=True),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("lease_until", BigInteger, nullable=False),
    Column("last_beat", BigInteger),
    ForeignKeyConstraint(["board"], ["boards.board"], name="leases_board"),
    sqlite_with_rowid=False,
)

held = Table(
    "held",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("task", NAME, primary_key=True),
    Column("reason", NAME, nullable=False),
    Column("until", BigInteger),
    Column("since", BigInteger, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="held_board"),
    sqlite_with_rowid=False,
)

sweeps = Table(
    "sweeps",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("host", NAME, primary_key=True),
    Column("ticked_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger),
    Column("errors", Integer, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="sweeps_board"),
    sqlite_with_rowid=False,
)

measures = Table(
    "measures",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("host", NAME, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("value", Float, nullable=False),
    Column("at", BigInteger, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="measures_board"),
    sqlite_with_rowid=False,
)
"""What a host measured last, by name: for dashboards."""

snapshots = Table(
    "snapshots",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("fold", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="snapshots_board"),
    sqlite_with_rowid=False,
)
"""The positions for which `past_tasks` and `past_links` tell how the board stood, by the version of the fold."""


def _past(table: Table, name: str) -> Table:
    """*table*'s rows as they were from a snapshot, *since*, up to the one, *until*, that no longer has them."""
    keys = [column.name for column in table.primary_key][1:]
    return Table(
        name,
        metadata,
        Column("board", NAME, primary_key=True),
        Column("fold", Integer, primary_key=True, autoincrement=False),
        *(Column(key, NAME, primary_key=True) for key in keys),
        Column("since", BigInteger, primary_key=True, autoincrement=False),
        Column("until", BigInteger, nullable=False),
        *(Column(each.name, each.type, nullable=each.nullable) for each in table.columns if not each.primary_key),
        ForeignKeyConstraint(["board"], ["boards.board"], name=f"{name}_board"),
        sqlite_with_rowid=False,
    )


past_tasks, past_links = _past(tasks, "past_tasks"), _past(links, "past_links")
PAST = (snapshots, past_tasks, past_links)
STANDING = 2**62
"""*until*, of a row that no snapshot has ended yet."""
for _side in ("since", "until"):
    Index(f"past_tasks_{_side}", past_tasks.c.board, past_tasks.c.fold, past_tasks.c[_side])
_partial("past_tasks_running", past_tasks, "board", "fold", "until", where="run IS NOT NULL")
Index("past_links_parent", past_links.c.board, past_links.c.fold, past_links.c.parent, past_links.c.until)

cards = Table(
    "cards",
    MetaData(),  # a view: made by the migrations, not from here
    *(Column(column.name, column.type) for column in tasks.columns),
    Column("status", NAME),
    Column("title", Text),
    Column("parents", Text),
)
"""`tasks` and what is told of each card beside them: its status, the first match of RULES §3 in SQL, compared by a test
with `status`; its title, none once redacted; its parents' ids in order, as JSON."""
