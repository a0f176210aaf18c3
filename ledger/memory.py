"""What was read of a store, kept until anybody writes to it: so a look at a store that stands still costs nothing.

SQLite tells: its `data_version` differs once another connection has committed, and `total_changes` counts what this
connection wrote. Both are asked inside the reader's transaction, so they are those of its snapshot. PostgreSQL does
not tell, so there nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection

_T = TypeVar("_T")


class Memory:
    """What the transactions of one reader found, by name; it forgets all of it at the first write by whoever."""

    def __init__(self) -> None:
        self._mark: tuple[Any, ...] | None = None
        self._kept: dict[str, Any] = {}

    def of(self, tx: Connection, name: str, read: Callable[[], _T]) -> _T:
        """What *read* answers in *tx*, or answered before, where nothing has been written since.

        In a transaction that may write nothing is kept, and nothing that was: there only *read* is asked.
        """
        if tx.dialect.name != "sqlite" or tx.get_execution_options().get("immediate", False):
            return read()
        mark = _mark(tx)
        if mark != self._mark:
            self._mark, self._kept = mark, {}
        if name not in self._kept:
            self._kept[name] = read()
        return self._kept[name]  # type: ignore[no-any-return]  # as its name was kept


def _mark(tx: Connection) -> tuple[Any, ...]:
    """Differs from any earlier one if the store may have changed since; of two connections always."""
    connection: Any = tx.connection.driver_connection
    return connection, connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes
