"""What the program may not say to PostgreSQL, since a distributed one could not do it: a board is a shard.

No advisory locks; no table locked whole but by an upgrade; no row locked, added, changed or deleted but by its board;
and never two boards in one transaction. On while any test runs on PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import psycopg

from projections.tables import metadata
from tests.sent import heard

TABLES: Final = frozenset(metadata.tables)
"""The tables whose rows belong to boards."""
VERSIONS: Final = "alembic_version"
"""The one table that may be locked whole, by an upgrade: its row is no board's."""

_EXPLAINED: Final = re.compile(r"\s*explain\b(?!.*\banalyze\b)", re.IGNORECASE | re.DOTALL)  # nothing is done
_ADVISORY: Final = re.compile(r"\bpg_(try_)?advisory_", re.IGNORECASE)
_WHOLE: Final = re.compile(r'^\s*lock +(?:table +)?"?(\w+)', re.IGNORECASE)
_ROWS: Final = re.compile(r"\bfor (update|no key update|share|key share)\b", re.IGNORECASE)
_WRITE: Final = re.compile(
    r'(?<!for )(?<!key )(?<!do )\b(?:insert into|update|delete from|merge into|copy) +"?(?P<table>\w+)"?'
    r"(?: *\((?P<names>[^)]*)\)(?: *values *(?P<rows>.*)| from stdin(?P<copied>))?)?",
    re.IGNORECASE | re.DOTALL,
)
_COMPARED: Final = re.compile(r"\bboard\"? *= *('(?P<said>[^']*)'|%s)", re.IGNORECASE)
_TOKEN: Final = re.compile(r"%s|'[^']*'|[(),]|[^%'(),]+|%")


class NoShard(AssertionError):
    """The program said something that needs more than one board's shard."""


class Place(NamedTuple):
    """Where a statement names a board: a text of its own, or the number of a value."""

    said: str | None
    value: int

    def board(self, values: Sequence[Any]) -> str:
        """The board, where the statement is sent with *values*."""
        return str(values[self.value]) if self.said is None else self.said


class Watch:
    """Listens to connections of the program, and keeps what it heard that is forbidden."""

    def __init__(self) -> None:
        self.found: list[NoShard] = []
        self._boards: WeakKeyDictionary[psycopg.Connection, set[str]] = WeakKeyDictionary()

    def __call__(self, connection: psycopg.Connection, statement: str, values: Sequence[Any]) -> None:
        """Raise `NoShard` if *statement* is forbidden, and keep it, should the program swallow it."""
        try:
            self._judge(connection, written_by(statement), statement, values)
        except NoShard as fault:
            self.found.append(fault)
            raise

    def _judge(self, connection: psycopg.Connection, places: Sequence[Place], said: str, values: Sequence[Any]) -> None:
        if said.startswith("BEGIN"):
            self._boards.pop(connection, None)
        boards = self._boards.setdefault(connection, set())
        boards.update(place.board(values) for place in places)
        if len(boards) > 1:
            raise NoShard(f"{sorted(boards)} in one transaction: {said}")


@contextmanager
def watched() -> Iterator[Watch]:
    """Let nothing forbidden be said meanwhile. Raises `NoShard` where it is, at the latest at the end."""
    watch = Watch()
    with heard(watch):
        yield watch
    for fault in watch.found:
        raise fault


@lru_cache(maxsize=1_024)
def written_by(statement: str) -> tuple[Place, ...]:
    """The boards to whose rows *statement* writes. Raises `NoShard`."""
    if _EXPLAINED.match(statement):
        return ()
    locked = _WHOLE.match(statement)
    by_board = list(_COMPARED.finditer(statement))
    for forbidden, what in (
        (_ADVISORY.search(statement), "an advisory lock"),
        (locked and locked[1] != VERSIONS, "a table locked whole"),
        (_ROWS.search(statement) and not by_board and VERSIONS not in statement, "rows locked whatever their board"),
    ):
        if forbidden:
            raise NoShard(f"{what}: {statement}")
    compared = [Place(found["said"], _before(statement, found.start())) for found in by_board]
    writes = [found for found in _WRITE.finditer(statement) if found["table"].lower() in TABLES]
    return tuple(place for found in writes for place in _named(found, statement, compared))


def _named(found: re.Match[str], statement: str, compared: Sequence[Place]) -> Sequence[Place]:
    """The boards that one part of *statement* writes to."""
    names = [name.strip(' "') for name in (found["names"] or "").split(",")]
    if found["rows"] is None and found["copied"] is None:
        places: Sequence[Place] = compared
    elif "board" not in names:
        places = ()
    elif found["rows"] is None:
        places = [Place(None, names.index("board"))]
    else:
        places = list(_inserted(found["rows"], names.index("board"), _before(statement, found.start("rows"))))
    if not places:
        raise NoShard(f"rows written whatever their board: {statement}")
    return places


def _before(statement: str, at: int) -> int:
    """How many values stand before a place in *statement*."""
    return statement.count("%s", 0, at)


def _inserted(rows: str, column: int, values: int) -> Iterator[Place]:
    """Where each of the *rows* of a VALUES clause names its board; *values* stand before them."""
    depth = at = 0
    for token in _TOKEN.findall(rows):
        depth += {"(": 1, ")": -1}.get(token, 0)
        at = 0 if depth == 0 else at + (token == "," and depth == 1)
        if depth == 1 and at == column and (token == "%s" or token.startswith("'")):
            yield Place(None if token == "%s" else token.strip("'"), values)
        values += token == "%s"
        if depth == 0 and token.strip(" ,()\n"):
            return
