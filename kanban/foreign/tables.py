"""The tables of a board of the reference system, of any of its versions: columns may be missing, values may be odd."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from kanban.findings import counted, listed
from kanban.foreign.copies import copied
from kanban.foreign.faults import ForeignDamaged, NoForeignBoard
from kanban.foreign.kinds import RENAMED
from ledger.driver import sqlite_module
from ledger.recorded import parsed

_NEEDED: Final = {"tasks": ("id", "status"), "task_events": ("id", "task_id", "kind")}
_OURS: Final = frozenset({"boards", "events", "words"})
_CARD: Final = (
    "id", "status", "assignee", "consecutive_failures", "max_retries", "block_kind", "block_recurrences",
    "current_run_id",
)  # fmt: skip
_RUN: Final = ("id", "task_id", "outcome", "started_at", "ended_at")
_EVENT: Final = ("id", "task_id", "kind", "run_id", "payload", "created_at")
_LARGEST: Final = 2**63
_SHORT: Final = 40  # characters: no status is longer
_driver: Final[Any] = sqlite_module()


class Event(NamedTuple):
    """One row of that system's event table. *at*: seconds since 1970, or none."""

    id: int
    task: str
    kind: str
    run: int | None
    facts: dict[str, Any]
    at: int | None

    def text(self, name: str) -> str:
        """The fact *name* as text; empty where it is missing or something else."""
        found = self.facts.get(name)
        return found if isinstance(found, str) else ""

    def number(self, name: str) -> int | None:
        """The fact *name* as a whole number, or none."""
        return number(self.facts.get(name))


class Card(NamedTuple):
    """What that system stores of a card. None where the value is missing, or the whole column."""

    id: str
    status: str
    assignee: str | None
    failures: int | None
    max_retries: int | None
    block_kind: str | None
    recurrences: int | None
    run: int | None


class Run(NamedTuple):
    """One attempt as that system stores it. Times in seconds since 1970."""

    id: int
    task: str
    outcome: str
    started_at: int | None
    ended_at: int | None


class Tables:
    """The tables of one board: cards, runs and links as they are stored, and the events in their order."""

    def __init__(self, driver: Any, path: Path, *, live: bool) -> None:
        self._driver, self._path = driver, path
        self.live = live
        self.columns = {table: self._columns(table) for table in tables_of(driver)}
        self._must_be_a_board()
        self.unread = 0
        self.cards = {card.id: card for card in map(_card, self._rows("tasks", _CARD)) if card.id}
        self.runs = {run.id: run for run in map(_run, self._rows("task_runs", _RUN)) if run is not None}
        self.links = frozenset((_text(p), _text(c)) for p, c in self._rows("task_links", ("parent_id", "child_id")))

    def events(self) -> Iterator[Event]:
        """Every event in the order of the table. What cannot be read in a row is counted in *unread*."""
        for place, row in enumerate(self._rows("task_events", _EVENT, order="id"), start=1):
            number_, task, kind, run, payload, at = row
            facts = self._facts(payload)
            kind = _text(kind)
            found = number(number_)
            yield Event(
                place if found is None else found, _text(task), RENAMED.get(kind, kind), number(run), facts, number(at)
            )

    def count(self) -> int:
        """How many events there are."""
        found: int = self._driver.execute("SELECT COUNT(*) FROM task_events").fetchone()[0]
        return found

    def every(self, table: str) -> list[dict[str, Any]]:
        """Every row of *table* as it is stored, column by column; none where there is no such table."""
        return rows_of(self._driver, table) if table in self.columns else []

    def written(self) -> int | None:
        """How many events were ever written; none where the table does not count them."""
        if "sqlite_sequence" not in self.columns:
            return None
        rows = self._driver.execute("SELECT seq FROM sqlite_sequence WHERE name = 'task_events'").fetchall()
        return number(rows[0][0]) if rows else None

    def knows(self, column: str) -> bool:
        """Whether the table of cards has *column*."""
        return column in self.columns["tasks"]

    def _facts(self, payload: Any) -> dict[str, Any]:
        if payload is None:
            return {}
        try:
            facts = parsed(_text(payload))
        except (ValueError, RecursionError):
            facts = False
        if isinstance(facts, dict):
            return facts
        self.unread += facts is not None
        return {}

    def _rows(self, table: str, wanted: tuple[str, ...], *, order: str = "") -> Iterator[tuple[Any, ...]]:
        """The *wanted* columns of *table*, NULL for each that it lacks; nothing where there is no such table."""
        if table not in self.columns:
            return iter(())
        columns = ", ".join(name if name in self.columns[table] else "NULL" for name in wanted)
        rows: Iterator[tuple[Any, ...]] = self._driver.execute(
            f"SELECT {columns} FROM {table}{f' ORDER BY {order}' if order else ''}"  # noqa: S608 – names of ours
        )
        return rows

    def _columns(self, table: str) -> frozenset[str]:
        cursor = self._driver.execute(f"SELECT * FROM {_quoted(table)} LIMIT 0")  # noqa: S608 – quoted
        return frozenset(column[0] for column in cursor.description)

    def _must_be_a_board(self) -> None:
        if self.columns.keys() >= _OURS:
            raise NoForeignBoard(self._path, "it is a ledger of this program", "ledger replay")
        for table, needed in _NEEDED.items():
            if table not in self.columns:
                names = sorted(name for name in self.columns if not name.startswith("sqlite_"))
                raise NoForeignBoard(self._path, f"no table {table}; {counted(len(names), 'table')}: {listed(names)}")
            missing = [name for name in needed if name not in self.columns[table]]
            if missing:
                raise NoForeignBoard(self._path, f"its table {table} has no column {listed(missing)}")


@contextmanager
def opened(path: Path) -> Iterator[Tables]:
    """The tables of a copy of the board at *path*.

    Raises `ForeignMissing`, `ForeignDamaged`, `ForeignBusy`, `NoForeignBoard`; whatever SQLite says of the copy,
    also while it is read, is `ForeignDamaged`.
    """
    with connected(path) as (driver, live):
        yield Tables(driver, path, live=live)


@contextmanager
def connected(path: Path) -> Iterator[tuple[Any, bool]]:
    """A connection to a copy of the database at *path*, and whether somebody is at work on the original.

    Raises as `opened`, but for `NoForeignBoard`.
    """
    with copied(path) as copy:
        address = f"file:{quote(str(copy.path))}?mode=rw"
        with closing(_driver.connect(address, uri=True, isolation_level=None)) as driver:
            driver.text_factory = partial(str, encoding="utf-8", errors="replace")
            try:
                yield driver, copy.live
            except _driver.Error as fault:
                raise ForeignDamaged(path, str(fault)) from fault


def tables_of(driver: Any) -> list[str]:
    """The tables, views and virtual ones left out: those run what their author wrote."""
    found = driver.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")
    return [_text(name) for (name,) in found]


def rows_of(driver: Any, table: str) -> list[dict[str, Any]]:
    """Every row of *table*, in the order in which they were written, column by column."""
    cursor = driver.execute(f"SELECT * FROM {_quoted(table)}")  # noqa: S608 – quoted
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _quoted(table: str) -> str:
    return '"{}"'.format(table.replace('"', '""'))


def number(value: Any) -> int | None:
    """*value* as a whole number that SQLite can keep, or none."""
    match value:
        case bool():
            return None
        case int():
            return value if -_LARGEST <= value < _LARGEST else None
        case float() if value.is_integer():
            return number(int(value))
        case str() if value.isascii() and value.isdigit():
            return number(int(value[:20]))
        case _:
            return None


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case bytes():
            return value.decode("utf-8", "replace")
        case _:
            return str(value)


def _card(row: tuple[Any, ...]) -> Card:
    card, status, assignee, failures, retries, block_kind, recurrences, run = row
    return Card(
        id=_text(card),
        status=_text(status)[:_SHORT],
        assignee=_text(assignee) or None,
        failures=number(failures),
        max_retries=number(retries),
        block_kind=_text(block_kind) or None,
        recurrences=number(recurrences),
        run=number(run),
    )


def _run(row: tuple[Any, ...]) -> Run | None:
    found, task, outcome, started, ended = row
    run = number(found)
    return None if run is None else Run(run, _text(task), _text(outcome), number(started), number(ended))
