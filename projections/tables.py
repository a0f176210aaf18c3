"""The stored projections: every row can be thrown away and folded again from the log.

`leases`, `held` and `sweeps` are operational: no fold reads them, and every decision that used them wrote what it saw
into its event.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKeyConstraint, Index, Integer, MetaData, Table, Text, text

from ledger.schema import metadata

settings = Table(
    "settings",
    metadata,
    Column("board", Text, primary_key=True),
    Column("board_id", Text, nullable=False),
    Column("name", Text, nullable=False),
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
    Column("board", Text, primary_key=True),
    Column("task", Text, primary_key=True),
    Column("assignee", Text),
    Column("reviewer", Text),
    Column("last_assignee", Text),
    Column("last_reviewer", Text),
    Column("priority", Integer, nullable=False),
    Column("labels", Text, nullable=False),
    Column("tenant", Text),
    Column("max_retries", Integer),
    Column("max_runtime", Integer),
    Column("workspace", Text, nullable=False),
    Column("goal_max_turns", Integer),
    Column("host", Text),
    Column("key", Text),
    Column("made_by_task", Text),
    Column("made_by_run", Integer),
    Column("title_position", BigInteger, nullable=False),
    Column("body_position", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("lane", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("streak", Integer, nullable=False),
    Column("spent", Integer, nullable=False),
    Column("neutral", Integer, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("last_run", Integer, nullable=False),
    Column("run", Integer),
    Column("hold_cause", Text),
    Column("hold_kind", Text),
    Column("hold_sticky", Boolean),
    Column("hold_count", Integer),
    Column("hold_limit", Integer),
    Column("hold_limit_source", Text),
    Column("hold_position", BigInteger),
    Column("not_before", BigInteger),
    Column("scheduled", BigInteger),
    Column("outcome", Text),
    Column("archived", Boolean, nullable=False),
    Column("open_parents", Integer, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="tasks_board"),
    sqlite_with_rowid=False,
)


def _partial(name: str, table: Table, *columns: str, where: str, unique: bool = False) -> None:
    Index(name, *(table.c[column] for column in columns), unique=unique, sqlite_where=text(where))


_partial("tasks_key", tasks, "board", "key", where="key IS NOT NULL", unique=True)
_partial("tasks_running", tasks, "board", "run", where="run IS NOT NULL")
Index("tasks_liftable", tasks.c.board, tasks.c.hold_sticky)
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
    Column("board", Text, primary_key=True),
    Column("task", Text, primary_key=True),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("by", Text, nullable=False),
    Column("lock_hash", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("boot", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("lease_until", BigInteger, nullable=False),
    Column("max_runtime", Integer, nullable=False),
    Column("on_success", Text, nullable=False),
    Column("reviewer", Text),
    Column("result", Text, nullable=False),
    Column("quota", Text, nullable=False),
    Column("claimed_at", BigInteger, nullable=False),
    Column("claimed_position", BigInteger, nullable=False),
    Column("group", Text),
    Column("turns", Text),
    Column("progress_at", BigInteger, nullable=False),
    Column("stops", Text, nullable=False),
    Column("tokens", BigInteger),
    Column("cost", Text),
    Column("outcome", Text),
    Column("code", Integer),
    Column("signal", Integer),
    Column("evidence", Text),
    Column("ended_by", Text),
    Column("ended_at", BigInteger),
    Column("ended_position", BigInteger),
    Column("late_position", BigInteger),
    ForeignKeyConstraint(["board"], ["boards.board"], name="runs_board"),
    sqlite_with_rowid=False,
)
_partial("runs_open", runs, "ended_by", "board", "task", "run", where="ended_by IS NULL")

links = Table(
    "links",
    metadata,
    Column("board", Text, primary_key=True),
    Column("child", Text, primary_key=True),
    Column("parent", Text, primary_key=True),
    Column("require", Text, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="links_board"),
    sqlite_with_rowid=False,
)
Index("links_parent", links.c.board, links.c.parent, links.c.child, links.c.require)

leases = Table(
    "leases",
    metadata,
    Column("board", Text, primary_key=True),
    Column("task", Text, primary_key=True),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("lease_until", BigInteger, nullable=False),
    Column("last_beat", BigInteger),
    ForeignKeyConstraint(["board"], ["boards.board"], name="leases_board"),
    sqlite_with_rowid=False,
)

held = Table(
    "held",
    metadata,
    Column("board", Text, primary_key=True),
    Column("task", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("until", BigInteger),
    Column("since", BigInteger, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="held_board"),
    sqlite_with_rowid=False,
)

sweeps = Table(
    "sweeps",
    metadata,
    Column("board", Text, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("ticked_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger),
    Column("errors", Integer, nullable=False),
    ForeignKeyConstraint(["board"], ["boards.board"], name="sweeps_board"),
    sqlite_with_rowid=False,
)

cards = Table(
    "cards",
    MetaData(),  # a view: made by the migrations, not from here
    *(Column(column.name, column.type) for column in tasks.columns),
    Column("status", Text),
)
"""`tasks` with the status of each card: the first match of RULES §3 in SQL, compared by a test with `status`."""
