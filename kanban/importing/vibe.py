"""`ledger import vibe`: the tasks that Vibe Kanban keeps in SQLite, as cards of ours. It is copied, and only read.

A task there names the attempt that it came out of, and does not wait for it: so no link is made of it, and the note
that the card begins with tells it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kanban.findings import counted, listed
from kanban.foreign.faults import NoForeignBoard
from kanban.foreign.tables import connected, rows_of, tables_of
from kanban.importing.origin import Done, Held, Origin, Skipped, Source, text, told

_NEEDED: Final = ("projects", "tasks")
_COLUMNS: Final = ("id", "project_id", "title", "status")
_ATTEMPTS: Final = ("task_attempts", "workspaces")
"""Its table of attempts, by its old name and by the newer one."""
_UUID: Final = 16  # bytes
_IDS: Final = frozenset({"id", "project_id", "task_id"})
_CARRIED: Final = frozenset({"id", "title", "description"})
Row = dict[str, Any]


def read_vibe(path: Path) -> Source:
    """The tasks of all projects in the file at *path*.

    Raises `ForeignMissing`, `ForeignDamaged`, `ForeignBusy`, `NoForeignBoard`.
    """
    with connected(path) as (driver, live):
        tables = tables_of(driver)
        _check_tables(path, tables)
        rows = [_named(row) for row in rows_of(driver, "tasks")]
        _check_columns(path, rows)
        names = {_id(row.get("id")): text(row.get("name")) for row in rows_of(driver, "projects")}
        attempts = _by_task(row for table in _ATTEMPTS if table in tables for row in rows_of(driver, table))
    cards = tuple(_card(row, names, attempts) for row in rows if row["id"])
    nameless = (Skipped("", "it has no id"),) * (len(rows) - len(cards))
    return Source("vibe", str(path), cards, nameless, tuple(_notes(names, live=live)))


def _check_tables(path: Path, tables: list[str]) -> None:
    missing = [name for name in _NEEDED if name not in tables]
    if missing:
        names = sorted(name for name in tables if not name.startswith("sqlite_"))
        found = f"no table {listed(missing)}; {counted(len(names), 'table')}: {listed(names)}"
        raise NoForeignBoard(path, found, "name the database of Vibe Kanban, often db.sqlite")


def _check_columns(path: Path, rows: list[Row]) -> None:
    missing = [name for name in _COLUMNS if rows and name not in rows[0]]
    if missing:
        raise NoForeignBoard(path, f"its table tasks has no column {listed(missing)}")


def _card(row: Row, names: Mapping[str | None, str | None], attempts: Mapping[str | None, list[Row]]) -> Origin:
    status = text(row["status"]) or ""
    tried = [told(each, but=frozenset({"task_id"})) for each in attempts.get(row["id"], ())]
    return Origin(
        id=row["id"],
        title=text(row["title"]) or "",
        created_at=text(row.get("created_at")),
        body=text(row.get("description")),
        tenant=names.get(row["project_id"]),
        end=_end(status),
        archived=status == "cancelled",
        released=status == "inprogress",
        said=told(row, but=_CARRIED) | ({"attempts": tried} if tried else {}),
    )


def _end(status: str) -> Done | Held | None:
    match status:
        case "done":
            return Done()
        case "todo" | "inprogress" | "cancelled":
            return None
        case _:
            return Held(f"its status in Vibe Kanban is {status or 'missing'}", status or None)


def _by_task(rows: Iterable[Row]) -> Mapping[str | None, list[Row]]:
    found: dict[str | None, list[Row]] = defaultdict(list)
    for row in map(_named, rows):
        found[row.get("task_id")].append(row)
    return dict(found)


def _named(row: Row) -> Row:
    """*row* with its ids as people write them: they are kept as 16 bytes."""
    return {name: _id(value) if name in _IDS or isinstance(value, bytes) else value for name, value in row.items()}


def _id(value: Any) -> str | None:
    return str(UUID(bytes=value)) if isinstance(value, bytes) and len(value) == _UUID else text(value)


def _notes(names: Mapping[str | None, str | None], *, live: bool) -> Iterable[str]:
    if live:
        yield "somebody was at work on that board: what it wrote after it was copied is not here"
    if len(names) > 1:
        yield f"{counted(len(names), 'project')}: each is a tenant here, see ledger list --tenant"
