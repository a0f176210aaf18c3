"""Schemas of a PostgreSQL database: a ledger made beside the one in use, and the two exchanged in one transaction.

Whatever lies in a schema goes with the ledger, such as somebody's own views; what belongs to an extension stays. The
new tables get the owner and the rights that those before them had.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text


def here(tx: Connection) -> str:
    """The schema in which the ledger's tables are looked for first, and made."""
    found = tx.execute(text("SELECT current_schema()")).scalar()
    return "public" if found is None else str(found)


def exist(tx: Connection, schema: str) -> bool:
    """Whether there is a schema of that name."""
    return tx.execute(text("SELECT to_regnamespace(quote_ident(:name)) IS NOT NULL"), {"name": schema}).scalar_one()  # type: ignore[no-any-return]


def make(tx: Connection, schema: str) -> None:
    """Make an empty one."""
    tx.exec_driver_sql(f"CREATE SCHEMA {_quoted(tx, schema)}")


def look_into(tx: Connection, schema: str) -> None:
    """Until *tx* ends, names without a schema are of this one."""
    tx.execute(text("SELECT set_config('search_path', quote_ident(:name), true)"), {"name": schema})


def exchange(tx: Connection, new: str, current: str, kept: str | None) -> None:
    """Put what lies in *new* into *current*, and what lay there into *kept*, if that is one. *new* is no more then."""
    if kept is not None:
        make(tx, kept)
        _each(tx, _MOVED, {"of": current, "to": kept})
    _each(tx, _MOVED, {"of": new, "to": current})
    tx.exec_driver_sql(f"DROP SCHEMA {_quoted(tx, new)}")
    if kept is not None:
        for rights in (_OWNED, _GRANTED, _GRANTED_ON_COLUMNS):
            _each(tx, rights, {"of": kept, "to": current})


def _each(tx: Connection, statements: str, values: dict[str, str]) -> None:
    """Run what the query *statements* answers."""
    for statement in tx.execute(text(statements), values).scalars().all():
        tx.exec_driver_sql(statement.replace("%", "%%"))


def _quoted(tx: Connection, name: str) -> str:
    return tx.dialect.identifier_preparer.quote_identifier(name)


_MOVED: Final = """
SELECT format('ALTER %s %I.%I SET SCHEMA %I', CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
    ELSE 'TABLE' END, CAST(:of AS text), relname, CAST(:to AS text))
FROM pg_class AS c WHERE relnamespace = to_regnamespace(quote_ident(:of)) AND relkind IN ('r', 'p', 'v', 'm')
    AND NOT relispartition AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype = 'e')
UNION ALL
SELECT format('ALTER ROUTINE %s SET SCHEMA %I', p.oid::regprocedure, CAST(:to AS text))
FROM pg_proc AS p WHERE pronamespace = to_regnamespace(quote_ident(:of))
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = p.oid AND deptype = 'e')
"""
_BOTH: Final = """
FROM pg_class AS before JOIN pg_class AS after USING (relname)
JOIN pg_namespace AS of ON of.oid = before.relnamespace AND of.nspname = :of
JOIN pg_namespace AS here ON here.oid = after.relnamespace AND here.nspname = :to
"""
_OWNED: Final = f"""
SELECT format('ALTER TABLE %s OWNER TO %I', after.oid::regclass, pg_get_userbyid(before.relowner)) {_BOTH}
WHERE before.relkind IN ('r', 'v') AND before.relowner <> after.relowner
"""
_TO: Final = "CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END"
_GRANTED: Final = f"""
SELECT format('GRANT %s ON %s TO %s', privilege_type, after.oid::regclass, {_TO}) {_BOTH}
CROSS JOIN aclexplode(before.relacl)
"""
_GRANTED_ON_COLUMNS: Final = f"""
SELECT format('GRANT %s (%I) ON %s TO %s', privilege_type, attname, after.oid::regclass, {_TO}) {_BOTH}
JOIN pg_attribute ON attrelid = before.oid CROSS JOIN aclexplode(attacl)
"""
