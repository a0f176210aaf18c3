"""The tables of the log. Revisions under `migrations/` spell them out again; `alembic check` proves both equal."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

REVISION: Final = "0003"
"""The revision of the tables that this program reads and writes."""
SEALED: Final = "this ledger has moved to "
"""How the database refuses a write to a store that was moved away."""
NAME: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""A text that is compared and sorted: by code points, on every engine."""

metadata = MetaData()

boards = Table(
    "boards",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("board_id", NAME, nullable=False),
    Column("head_position", BigInteger, nullable=False),
    Column("head_at", BigInteger, nullable=False),
    Column("head_hash", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("task", NAME, nullable=False),
    Column("version", Integer, nullable=False),
    Column("kind", NAME, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor_kind", NAME, nullable=False),
    Column("actor_name", NAME, nullable=False),
    Column("actor_host", NAME, nullable=False),
    Column("run", Integer),
    Column("outcome", NAME),
    Column("command_id", NAME),
    Column("facts", Text, nullable=False),
    Column("words_digest", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    UniqueConstraint("board", "task", "version", name="events_stream"),
    ForeignKeyConstraint(["board"], ["boards.board"], name="events_board"),
    sqlite_with_rowid=False,
)
Index(
    "events_command",
    events.c.board,
    events.c.command_id,
    unique=True,
    sqlite_where=text("command_id IS NOT NULL"),
)

words = Table(
    "words",
    metadata,
    Column("board", NAME, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("salt", LargeBinary, nullable=False),
    Column("words", Text, nullable=False),
    ForeignKeyConstraint(["board", "position"], ["events.board", "events.position"], name="words_event"),
    sqlite_with_rowid=False,
)
