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

REVISION: Final = "0001"
"""The revision of the tables that this program reads and writes."""

metadata = MetaData()

boards = Table(
    "boards",
    metadata,
    Column("board", Text, primary_key=True),
    Column("board_id", Text, nullable=False),
    Column("head_position", BigInteger, nullable=False),
    Column("head_at", BigInteger, nullable=False),
    Column("head_hash", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("board", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("task", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor_kind", Text, nullable=False),
    Column("actor_name", Text, nullable=False),
    Column("actor_host", Text, nullable=False),
    Column("run", Integer),
    Column("outcome", Text),
    Column("command_id", Text),
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
    Column("board", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("salt", LargeBinary, nullable=False),
    Column("words", Text, nullable=False),
    ForeignKeyConstraint(["board", "position"], ["events.board", "events.position"], name="words_event"),
    sqlite_with_rowid=False,
)
