"""Roles of a PostgreSQL server: what a worker's may do, how it is given that, and what any role may do beyond it.

A worker appends and never changes what is in the log, and makes, changes and drops no table. What it may write of the
projections is what its verbs write: its own run, its own card, cards that it makes, links of its card.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine, text

from ledger import schemas
from ledger.database import serves_hosts, writing
from ledger.errors import InvalidInput, NotFound

ALL: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
WORKERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "alembic_version": ("SELECT",),
        "boards": ("SELECT", "UPDATE (head_position, head_at, head_hash)"),
        "events": ("SELECT", "INSERT"),
        "words": ("SELECT", "INSERT"),
        "settings": ("SELECT",),
        "tasks": ("SELECT", "INSERT", "UPDATE"),
        "runs": ("SELECT", "UPDATE"),
        "links": ("SELECT", "INSERT", "DELETE"),
        "leases": ALL,
        "held": ("SELECT",),
        "sweeps": ("SELECT",),
        **dict.fromkeys(("measures", "snapshots", "past_tasks", "past_links"), ("SELECT",)),
        "cards": ("SELECT",),
    }
)
"""What the role of workers may do, table by table."""
OPERATORS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "boards": ("SELECT", "INSERT", "UPDATE"),
        "events": ("SELECT", "INSERT"),
        "words": ("SELECT", "INSERT", "DELETE"),
        **dict.fromkeys(("settings", "tasks", "runs", "links", "leases", "held", "sweeps", "measures"), ALL),
        **dict.fromkeys(("snapshots", "past_tasks", "past_links"), ALL),
    }
)
"""What every command together needs, but those that make tables."""
NEVER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "boards": ("INSERT", "DELETE", "TRUNCATE", "TRIGGER"),
        "events": ("UPDATE", "DELETE", "TRUNCATE", "TRIGGER"),
        "words": ("UPDATE", "DELETE", "TRUNCATE", "TRIGGER"),
        "settings": ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER"),
    }
)
"""What a worker must not be able to do, whichever way it came by it."""


class Role(NamedTuple):
    """A role, and what makes it one to whom no right can be denied."""

    name: str
    superuser: bool
    owner: bool
    """Whether it owns the tables, or may act as whoever does."""
    makes: bool
    """Whether it may make tables and functions beside ours."""


def grant(engine: Engine, role: str, *, dry_run: bool = False) -> list[str]:
    """Give *role*, which must be there, exactly what a worker needs in the store, and take all else; the statements.

    Raises `InvalidInput` where the store is a file, or where nothing can be denied to the role; `NotFound`.
    """
    if not serves_hosts(engine):
        raise InvalidInput("a store in a file has no roles", remedy="ledger db move, to a server")
    with writing(engine) as tx:
        found = role_of(tx, role)
        if found is None:
            raise NotFound(f"no role {role!r} on this server", remedy=f"CREATE ROLE {role} LOGIN PASSWORD '…'")
        if found.superuser or found.owner:
            what = "is a superuser" if found.superuser else "owns the tables"
            raise InvalidInput(f"the role {role!r} {what}: nothing can be denied to it", remedy="name another role")
        statements = _statements(tx, role)
        for statement in () if dry_run else statements:
            tx.exec_driver_sql(statement)
    return statements


def role_of(tx: Connection, role: str | None = None) -> Role | None:
    """The role of that name, or the one that asks; none where there is none."""
    row = tx.execute(text(_ROLE), {"role": role}).one_or_none()
    return None if row is None else Role(*row)


def lacking(tx: Connection, role: str, wanted: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Which of the *wanted* rights *role* has not, as `UPDATE of tasks`."""
    return [each for each in _named(wanted) if not _may(tx, role, *each.split(" of "))]


def having(tx: Connection, role: str, unwanted: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Which of the *unwanted* rights *role* has."""
    return [each for each in _named(unwanted) if _may(tx, role, *each.split(" of "))]


def _named(rights: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [f"{right.partition(' ')[0]} of {table}" for table, found in rights.items() for right in found]


def _may(tx: Connection, role: str, right: str, table: str) -> bool:
    """A right on some columns counts where only those are ever given."""
    asked = "has_any_column_privilege" if right in {"INSERT", "UPDATE"} else "has_table_privilege"
    values = {"role": role, "table": table, "right": right}
    return bool(tx.execute(text(f"SELECT {asked}(:role, :table, :right)"), values).scalar())


def _statements(tx: Connection, role: str) -> list[str]:
    quote = tx.dialect.identifier_preparer.quote_identifier
    schema, whom = quote(schemas.here(tx)), quote(role)
    tables = [f"GRANT {', '.join(rights)} ON {schema}.{table} TO {whom}" for table, rights in WORKERS.items()]
    return [
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {whom}",
        f"REVOKE ALL ON SCHEMA {schema} FROM {whom}",
        f"GRANT USAGE ON SCHEMA {schema} TO {whom}",
        *tables,
    ]


_ROLE: Final = """
SELECT rolname, rolsuper,
    coalesce((SELECT pg_has_role(rolname, relowner, 'MEMBER') FROM pg_class WHERE oid = to_regclass('events')), false),
    has_schema_privilege(rolname, current_schema(), 'CREATE')
FROM pg_roles WHERE rolname = coalesce(CAST(:role AS name), current_user)
"""
