"""Snapshots of the past, and what hosts measure.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

STATISTICS = (
    {"tbl": "past_tasks", "idx": "past_tasks", "stat": "200000 200000 200000 4 1"},
    {"tbl": "past_tasks", "idx": "past_tasks_since", "stat": "200000 200000 200000 500"},
    {"tbl": "past_tasks", "idx": "past_tasks_until", "stat": "200000 200000 200000 500"},
    {"tbl": "past_tasks", "idx": "past_tasks_running", "stat": "10000 10000 10000 25"},
    {"tbl": "past_links", "idx": "past_links", "stat": "200000 200000 200000 8 4 1"},
    {"tbl": "past_links", "idx": "past_links_parent", "stat": "200000 200000 200000 8 4"},
    {"tbl": "runs", "idx": "runs_late", "stat": "1000 1000 1"},
)
"""What a long log makes of them, for the query planner."""


def upgrade() -> None:
    """Make the tables of snapshots, still empty, and that of measures."""
    op.create_table(
        "measures",
        sa.Column("board", NAME, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="measures_board"),
        sa.PrimaryKeyConstraint("board", "host", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "snapshots",
        sa.Column("board", NAME, nullable=False),
        sa.Column("fold", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="snapshots_board"),
        sa.PrimaryKeyConstraint("board", "fold", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "past_links",
        sa.Column("board", NAME, nullable=False),
        sa.Column("fold", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("child", NAME, nullable=False),
        sa.Column("parent", NAME, nullable=False),
        sa.Column("since", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("require", NAME, nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="past_links_board"),
        sa.PrimaryKeyConstraint("board", "fold", "child", "parent", "since"),
        sqlite_with_rowid=False,
    )
    op.create_index("past_links_parent", "past_links", ["board", "fold", "parent", "until"], unique=False)
    op.create_table(
        "past_tasks",
        sa.Column("board", NAME, nullable=False),
        sa.Column("fold", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("task", NAME, nullable=False),
        sa.Column("since", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("assignee", NAME, nullable=True),
        sa.Column("reviewer", NAME, nullable=True),
        sa.Column("last_assignee", NAME, nullable=True),
        sa.Column("last_reviewer", NAME, nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("tenant", NAME, nullable=True),
        sa.Column("max_retries", sa.Integer(), nullable=True),
        sa.Column("max_runtime", sa.Integer(), nullable=True),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("goal_max_turns", sa.Integer(), nullable=True),
        sa.Column("host", NAME, nullable=True),
        sa.Column("key", NAME, nullable=True),
        sa.Column("made_by_task", NAME, nullable=True),
        sa.Column("made_by_run", sa.Integer(), nullable=True),
        sa.Column("title_position", sa.BigInteger(), nullable=False),
        sa.Column("body_position", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("lane", NAME, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("streak", sa.Integer(), nullable=False),
        sa.Column("spent", sa.Integer(), nullable=False),
        sa.Column("neutral", sa.Integer(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("last_run", sa.Integer(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=True),
        sa.Column("hold_cause", NAME, nullable=True),
        sa.Column("hold_kind", NAME, nullable=True),
        sa.Column("hold_sticky", sa.Boolean(), nullable=True),
        sa.Column("hold_count", sa.Integer(), nullable=True),
        sa.Column("hold_limit", sa.Integer(), nullable=True),
        sa.Column("hold_limit_source", NAME, nullable=True),
        sa.Column("hold_position", sa.BigInteger(), nullable=True),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("scheduled", sa.BigInteger(), nullable=True),
        sa.Column("outcome", NAME, nullable=True),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("open_parents", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="past_tasks_board"),
        sa.PrimaryKeyConstraint("board", "fold", "task", "since"),
        sqlite_with_rowid=False,
    )
    op.create_index("past_tasks_since", "past_tasks", ["board", "fold", "since"], unique=False)
    op.create_index("past_tasks_until", "past_tasks", ["board", "fold", "until"], unique=False)
    op.create_index(
        "past_tasks_running",
        "past_tasks",
        ["board", "fold", "until"],
        unique=False,
        sqlite_where=sa.text("run IS NOT NULL"),
        postgresql_where=sa.text("run IS NOT NULL"),
    )
    op.create_index(
        "runs_late",
        "runs",
        ["board", "late_position"],
        unique=False,
        sqlite_where=sa.text("late_position IS NOT NULL"),
        postgresql_where=sa.text("late_position IS NOT NULL"),
    )
    if op.get_context().dialect.name == "sqlite":
        for row in STATISTICS:
            op.execute(sa.text("INSERT INTO sqlite_stat1 VALUES (:tbl, :idx, :stat)").bindparams(**row))


def downgrade() -> None:
    """There is no way back: a log is never thrown away."""
    raise NotImplementedError("a ledger is never downgraded: restore a copy instead")
