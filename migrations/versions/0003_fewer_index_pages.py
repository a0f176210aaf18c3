"""A claim and an end write a page less: what runs is found by its run, and only cards that can be lifted are indexed.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

LIFTABLE = "hold_cause IS NOT NULL AND NOT hold_sticky AND NOT archived"


def upgrade() -> None:
    """Drop the index of running cards, and make that of liftable ones anew for those alone."""
    op.drop_index("tasks_running", table_name="tasks")
    op.drop_index("tasks_liftable", table_name="tasks")
    op.create_index(
        "tasks_liftable",
        "tasks",
        ["board", "task"],
        unique=False,
        sqlite_where=sa.text(LIFTABLE),
        postgresql_where=sa.text(LIFTABLE),
    )
    if op.get_context().dialect.name == "sqlite":
        op.execute("INSERT INTO sqlite_stat1 VALUES ('tasks', 'tasks_liftable', '1000 1000 1')")


def downgrade() -> None:
    """There is no way back: a log is never thrown away."""
    raise NotImplementedError("a ledger is never downgraded: restore a copy instead")
