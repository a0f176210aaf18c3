"""The first tables: the log, its words, the projections, and the triggers that keep the log append-only.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

TRIGGERS = (
    """
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only: UPDATE refused'); END
""",
    """
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only: DELETE refused'); END
""",
    """
CREATE TRIGGER events_no_replace BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE board = NEW.board AND position = NEW.position)
  OR EXISTS (SELECT 1 FROM events WHERE board = NEW.board AND task = NEW.task AND version = NEW.version)
  OR EXISTS (SELECT 1 FROM events WHERE board = NEW.board AND command_id = NEW.command_id)
BEGIN SELECT RAISE(ABORT, 'events are append-only: an event stands there already'); END
""",
    """
CREATE TRIGGER words_no_update BEFORE UPDATE ON words
BEGIN SELECT RAISE(ABORT, 'words can be redacted, not changed: UPDATE refused'); END
""",
    """
CREATE TRIGGER words_no_replace BEFORE INSERT ON words
WHEN EXISTS (SELECT 1 FROM words WHERE board = NEW.board AND position = NEW.position)
BEGIN SELECT RAISE(ABORT, 'words can be redacted, not changed: they stand there already'); END
""",
    """
CREATE TRIGGER boards_head_grows BEFORE UPDATE ON boards
WHEN NEW.head_position < OLD.head_position OR NEW.board_id <> OLD.board_id OR NEW.board <> OLD.board
BEGIN SELECT RAISE(ABORT, 'the head only grows'); END
""",
    """
CREATE TRIGGER boards_no_delete BEFORE DELETE ON boards
BEGIN SELECT RAISE(ABORT, 'a board is never deleted'); END
""",
    """
CREATE TRIGGER boards_no_replace BEFORE INSERT ON boards
WHEN EXISTS (SELECT 1 FROM boards WHERE board = NEW.board)
BEGIN SELECT RAISE(ABORT, 'that board stands there already'); END
""",
)

POSTGRES_TRIGGERS = (
    """
CREATE FUNCTION ledger_refuses() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$
""",
    """
CREATE FUNCTION ledger_head_grows() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
  IF NEW.head_position < OLD.head_position OR NEW.board_id <> OLD.board_id OR NEW.board <> OLD.board THEN
    RAISE EXCEPTION 'the head only grows';
  END IF;
  RETURN NEW;
END $$
""",
    *(
        f"CREATE TRIGGER {table}_no_{act.lower()} BEFORE {act} ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuses('{why}: {act} refused')"
        for table, acts, why in (
            ("events", ("UPDATE", "DELETE", "TRUNCATE"), "events are append-only"),
            ("words", ("UPDATE", "TRUNCATE"), "words can be redacted, not changed"),
            ("boards", ("DELETE", "TRUNCATE"), "a board is never deleted"),
        )
        for act in acts
    ),
    "CREATE TRIGGER boards_head_grows BEFORE UPDATE ON boards FOR EACH ROW EXECUTE FUNCTION ledger_head_grows()",
    # by the name that SQLite has for it, so that one statement serves both
    """
CREATE FUNCTION json_each(listed text) RETURNS TABLE (value text) LANGUAGE sql IMMUTABLE AS
$$ SELECT json_array_elements_text(listed::json) $$
""",
    "ALTER TABLE boards SET (fillfactor = 50)",  # rewritten at every append, mostly within its page
)

CARDS = """
CREATE VIEW cards AS SELECT tasks.*, CASE
  WHEN archived THEN 'archived'
  WHEN outcome IS NOT NULL THEN 'done'
  WHEN run IS NOT NULL THEN 'running'
  WHEN hold_cause IS NOT NULL THEN 'blocked'
  WHEN lane = 'triage' THEN 'triage'
  WHEN open_parents > 0 THEN 'todo'
  WHEN scheduled IS NOT NULL THEN 'scheduled'
  WHEN lane = 'review' THEN 'review'
  ELSE 'ready' END AS status,
  (SELECT {title} FROM words WHERE words.board = tasks.board AND words.position = tasks.title_position) AS title,
  (SELECT {parents} FROM (
    SELECT parent FROM links WHERE links.board = tasks.board AND links.child = tasks.task ORDER BY parent
  ) AS linked) AS parents
FROM tasks
"""
SPOKEN = {
    "sqlite": {"title": "json_extract(words.words, '$.title')", "parents": "json_group_array(parent)"},
    "postgresql": {
        "title": "words.words::json ->> 'title'",
        "parents": "CAST(coalesce(json_agg(parent), '[]'::json) AS text)",
    },
}

STATISTICS = (
    {"tbl": "tasks", "idx": "tasks", "stat": "100000 100000 1"},
    {"tbl": "tasks", "idx": "tasks_in_order", "stat": "100000 100000 10000 2 1"},
    {"tbl": "tasks", "idx": "tasks_claimable", "stat": "1000 1000 100 2 1"},
    {"tbl": "tasks", "idx": "tasks_blocked", "stat": "1000 1000 100 2 1"},
    {"tbl": "tasks", "idx": "tasks_liftable", "stat": "100000 100000 1000"},
    {"tbl": "tasks", "idx": "tasks_running", "stat": "100 100 1"},
    {"tbl": "tasks", "idx": "tasks_key", "stat": "1000 1000 1"},
    {"tbl": "runs", "idx": "runs", "stat": "200000 200000 2 1"},
    {"tbl": "runs", "idx": "runs_open", "stat": "100 100 100 1 1"},
    {"tbl": "links", "idx": "links", "stat": "100000 100000 2 1"},
    {"tbl": "links", "idx": "links_parent", "stat": "100000 100000 2 1 1"},
)
"""What a large board looks like, for the query planner: without it, it thinks that a board's name finds ten rows."""


def upgrade() -> None:
    """Make the tables, the triggers and the view of statuses."""
    op.create_table(
        "boards",
        sa.Column("board", NAME, nullable=False),
        sa.Column("board_id", NAME, nullable=False),
        sa.Column("head_position", sa.BigInteger(), nullable=False),
        sa.Column("head_at", sa.BigInteger(), nullable=False),
        sa.Column("head_hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("board"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("board", NAME, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("task", NAME, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("schema", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor_kind", NAME, nullable=False),
        sa.Column("actor_name", NAME, nullable=False),
        sa.Column("actor_host", NAME, nullable=False),
        sa.Column("run", sa.Integer(), nullable=True),
        sa.Column("outcome", NAME, nullable=True),
        sa.Column("command_id", NAME, nullable=True),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("words_digest", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="events_board"),
        sa.PrimaryKeyConstraint("board", "position"),
        sa.UniqueConstraint("board", "task", "version", name="events_stream"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "events_command",
        "events",
        ["board", "command_id"],
        unique=True,
        sqlite_where=sa.text("command_id IS NOT NULL"),
        postgresql_where=sa.text("command_id IS NOT NULL"),
    )
    op.create_table(
        "held",
        sa.Column("board", NAME, nullable=False),
        sa.Column("task", NAME, nullable=False),
        sa.Column("reason", NAME, nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="held_board"),
        sa.PrimaryKeyConstraint("board", "task"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "leases",
        sa.Column("board", NAME, nullable=False),
        sa.Column("task", NAME, nullable=False),
        sa.Column("run", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("last_beat", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="leases_board"),
        sa.PrimaryKeyConstraint("board", "task", "run"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "links",
        sa.Column("board", NAME, nullable=False),
        sa.Column("child", NAME, nullable=False),
        sa.Column("parent", NAME, nullable=False),
        sa.Column("require", NAME, nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="links_board"),
        sa.PrimaryKeyConstraint("board", "child", "parent"),
        sqlite_with_rowid=False,
    )
    op.create_index("links_parent", "links", ["board", "parent", "child", "require"], unique=False)
    op.create_table(
        "runs",
        sa.Column("board", NAME, nullable=False),
        sa.Column("task", NAME, nullable=False),
        sa.Column("run", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("by", NAME, nullable=False),
        sa.Column("lock_hash", NAME, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("boot", NAME, nullable=False),
        sa.Column("worker", NAME, nullable=False),
        sa.Column("lane", NAME, nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("max_runtime", sa.Integer(), nullable=False),
        sa.Column("on_success", NAME, nullable=False),
        sa.Column("reviewer", NAME, nullable=True),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("quota", sa.Text(), nullable=False),
        sa.Column("claimed_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_position", sa.BigInteger(), nullable=False),
        sa.Column("group", sa.Text(), nullable=True),
        sa.Column("turns", sa.Text(), nullable=True),
        sa.Column("progress_at", sa.BigInteger(), nullable=False),
        sa.Column("stops", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost", NAME, nullable=True),
        sa.Column("outcome", NAME, nullable=True),
        sa.Column("code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("evidence", NAME, nullable=True),
        sa.Column("ended_by", NAME, nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_position", sa.BigInteger(), nullable=True),
        sa.Column("late_position", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="runs_board"),
        sa.PrimaryKeyConstraint("board", "task", "run"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "runs_open",
        "runs",
        ["ended_by", "board", "task", "run"],
        unique=False,
        sqlite_where=sa.text("ended_by IS NULL"),
        postgresql_where=sa.text("ended_by IS NULL"),
    )
    op.create_table(
        "settings",
        sa.Column("board", NAME, nullable=False),
        sa.Column("board_id", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("policy_position", sa.BigInteger(), nullable=False),
        sa.Column("pauses", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="settings_board"),
        sa.PrimaryKeyConstraint("board"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sweeps",
        sa.Column("board", NAME, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("ticked_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=True),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="sweeps_board"),
        sa.PrimaryKeyConstraint("board", "host"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tasks",
        sa.Column("board", NAME, nullable=False),
        sa.Column("task", NAME, nullable=False),
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
        sa.ForeignKeyConstraint(["board"], ["boards.board"], name="tasks_board"),
        sa.PrimaryKeyConstraint("board", "task"),
        sqlite_with_rowid=False,
    )
    # before tasks_claimable: of two indexes that cost the same SQLite takes the younger one
    op.create_index("tasks_in_order", "tasks", ["board", sa.text("priority DESC"), "created_at", "task"], unique=False)
    op.create_index(
        "tasks_claimable",
        "tasks",
        ["board", sa.text("priority DESC"), "created_at", "task"],
        unique=False,
        sqlite_where=sa.text(
            "NOT archived AND outcome IS NULL AND run IS NULL AND hold_cause IS NULL AND lane <> 'triage' AND open_parents <= 0"
        ),
        postgresql_where=sa.text(
            "NOT archived AND outcome IS NULL AND run IS NULL AND hold_cause IS NULL AND lane <> 'triage' AND open_parents <= 0"
        ),
    )
    op.create_index(
        "tasks_blocked",
        "tasks",
        ["board", sa.text("priority DESC"), "created_at", "task"],
        unique=False,
        sqlite_where=sa.text("NOT archived AND outcome IS NULL AND run IS NULL AND hold_cause IS NOT NULL"),
        postgresql_where=sa.text("NOT archived AND outcome IS NULL AND run IS NULL AND hold_cause IS NOT NULL"),
    )
    # after tasks_claimable, for the same reason
    op.create_index(
        "tasks_timed",
        "tasks",
        ["board", "task"],
        unique=False,
        sqlite_where=sa.text(
            "NOT archived AND outcome IS NULL AND run IS NULL AND hold_cause IS NULL AND lane <> 'triage' AND open_parents <= 0 AND (scheduled IS NOT NULL OR not_before IS NOT NULL)"
        ),
        postgresql_where=sa.text(
            "NOT archived AND outcome IS NULL AND run IS NULL AND hold_cause IS NULL AND lane <> 'triage' AND open_parents <= 0 AND (scheduled IS NOT NULL OR not_before IS NOT NULL)"
        ),
    )
    op.create_index(
        "tasks_key",
        "tasks",
        ["board", "key"],
        unique=True,
        sqlite_where=sa.text("key IS NOT NULL"),
        postgresql_where=sa.text("key IS NOT NULL"),
    )
    op.create_index(
        "tasks_liftable",
        "tasks",
        ["board", "hold_sticky"],
        unique=False,
    )
    op.create_index(
        "tasks_running",
        "tasks",
        ["board", "run"],
        unique=False,
        sqlite_where=sa.text("run IS NOT NULL"),
        postgresql_where=sa.text("run IS NOT NULL"),
    )
    op.create_table(
        "words",
        sa.Column("board", NAME, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["board", "position"], ["events.board", "events.position"], name="words_event"),
        sa.PrimaryKeyConstraint("board", "position"),
        sqlite_with_rowid=False,
    )

    dialect = op.get_context().dialect.name
    for statement in TRIGGERS if dialect == "sqlite" else POSTGRES_TRIGGERS:
        op.execute(statement)
    op.execute(CARDS.format(**SPOKEN[dialect]))
    if dialect == "sqlite":
        op.execute("ANALYZE")  # makes the table of statistics, still empty
        for row in STATISTICS:
            op.execute(sa.text("INSERT INTO sqlite_stat1 VALUES (:tbl, :idx, :stat)").bindparams(**row))


def downgrade() -> None:
    """There is no way back: a log is never thrown away."""
    raise NotImplementedError("a ledger is never downgraded: restore a copy instead")
