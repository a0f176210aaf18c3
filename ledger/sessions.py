"""Who else is connected to the database of a PostgreSQL store, as its server tells."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import Connection, text

from ledger.postgres import APPLICATION


class Session(NamedTuple):
    """A connection to the same database: its server process, who it is, and since when its transaction stands still.

    *idle_since* (microseconds UTC) is none where it has no transaction open, or is at work in it. A role without the
    rights of `pg_read_all_stats` is told this of its own sessions only.
    """

    pid: int
    user: str | None
    application: str
    address: str
    idle_since: int | None
    holds: bool
    """Whether it has locked rows or tables of the ledger, so that writers may wait for its transaction to end."""

    def __str__(self) -> str:
        return f"{self.pid} ({self.application or 'a client'}, {self.user or 'another role'} on {self.address})"

    @property
    def ours(self) -> bool:
        """Whether it is one of this program's."""
        return self.application == APPLICATION


def others(tx: Connection) -> list[Session]:
    """All clients of this database but the one that asks."""
    return [Session(*row) for row in tx.execute(text(_OTHERS))]


_OTHERS: Final = """
SELECT pid, usename, coalesce(application_name, ''), coalesce(client_addr::text, 'this machine'),
    CASE WHEN state LIKE 'idle in transaction%' THEN CAST(extract(epoch FROM state_change) * 1000000 AS bigint) END,
    EXISTS (SELECT FROM pg_locks JOIN pg_class ON relation = pg_class.oid WHERE pg_locks.pid = activity.pid AND granted
        AND mode <> 'AccessShareLock' AND relkind = 'r' AND relnamespace = to_regnamespace(current_schema()))
FROM pg_stat_activity AS activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid
"""
