"""Databases for tests on a real PostgreSQL: each a copy of a template that was made once.

To make a copy and to drop it takes 12 ms together. One that is given back is therefore emptied and filled again, in
2 ms, if rows are all that has changed in it. Where a table, a trigger, a right or a setting is another, it is dropped.

Between two tests a connection waits in such a database, idle, under the name of `Databases.mark`: a test that looks at
`pg_stat_activity` leaves it out, and one that copies its database by `CREATE DATABASE … TEMPLATE` cannot.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg
from sqlalchemy import make_url

EMPTY: Final = "empty"
"""The template that holds nothing: what `CREATE DATABASE` makes."""

PREFIX: Final = "ledger_test"
"""How the names of all databases begin that are made here, and the names of the connections that make them."""

SMALL: Final = 4 << 20
"""Bytes in the tables of a database that is worth emptying: in a grown one the next test would be slow."""

DEFINITIONS: Final = {
    "pg_attribute": "attrelid",
    "pg_class": "oid",
    "pg_constraint": "oid",
    "pg_default_acl": "oid",
    "pg_proc": "oid",
    "pg_trigger": "oid",
    "pg_type": "oid",
}
SHAPE: Final = (
    "SELECT (SELECT (count(*), sum(xmin::text::bigint))::text FROM pg_namespace WHERE nspname !~ '_temp_'), "
    + ", ".join(
        f"(SELECT (count(*), sum(xmin::text::bigint))::text FROM {catalog} WHERE {key} >= 16384)"
        for catalog, key in DEFINITIONS.items()
    )
)
"""What is another one once anything but a row was made, changed or dropped: how many definitions, by whom written."""

FRAME: Final = """
SELECT (d.xmin, d.datacl)::text, (SELECT array_agg(s::text) FROM pg_db_role_setting s WHERE s.setdatabase = d.oid)
FROM pg_database d WHERE d.datname = %s
"""
"""The same for what is said of a database from outside."""

TABLES: Final = """
SELECT oid::regclass::text, relkind = 'r' FROM pg_class
WHERE oid >= 16384 AND relkind IN ('r', 'S', 'm') AND relpersistence <> 't'
"""
"""What holds data, and whether it is a table, or a partition of one: if not, a sequence or a view that was filled."""

SIZE: Final = "SELECT coalesce(sum(pg_relation_size(oid)), 0) FROM pg_class WHERE oid >= 16384 AND relkind = 'r'"

OTHERS: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = %s AND backend_type = 'client backend' AND application_name <> %s
"""
OWN: Final = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"

LEFT: Final = """
SELECT d.datname FROM pg_database d WHERE d.datname ~ %s AND NOT EXISTS
    (SELECT FROM pg_stat_activity WHERE application_name = substring(d.datname FROM '^ledger_test_[0-9a-f]+'))
"""


@dataclass(frozen=True, slots=True)
class Template:
    """What all copies start from, and what they are held against when they come back."""

    database: str
    shape: object
    rows: Mapping[str, bytes]
    plain: bool
    """Whether tables hold all its data: a sequence stays where a test left it."""


@dataclass(slots=True)
class Copy:
    """One database that a test has, or that waits for the next test."""

    database: str
    template: Template
    frame: object
    inside: psycopg.Connection | None = None


class Databases:
    """The databases of one test process on one server."""

    def __init__(self, url: str) -> None:
        """Take the server at *url*, whose role may create databases; only for a superuser they are used again."""
        self.url = make_url(url).set(drivername="postgresql+psycopg")
        self.mark = f"{PREFIX}_{secrets.token_hex(4)}"
        self._outside = self._connect(self.url.database or "postgres")
        self._number = itertools.count(1)
        self._templates: dict[str, Template] = {}
        self._given: dict[str, Copy] = {}
        self._waiting: list[Copy] = []
        self._superuser = self._outside.execute("SHOW is_superuser").fetchone() == ("on",)
        self._sweep()
        self.template(EMPTY, lambda _: None)

    def template(self, name: str, make: Callable[[str], None], *, of: str | None = None) -> None:
        """Have *make* fill a database, empty or a copy of the template *of*: `fresh(name)` is a copy of it from now on.

        *make* is told the address. For a *name* that is known nothing happens.
        """
        if name not in self._templates:
            database = self._created(self._templates[of].database if of else "template1")
            make(self._address(database))
            with self._connect(database) as inside:
                self._templates[name] = _template(database, inside, reusable=self._superuser)
            self._alone(database)

    def fresh(self, name: str = EMPTY) -> str:
        """The address of a database that equals the template *name* and that nobody else has."""
        template = self._templates[name]
        copy = next((each for each in self._waiting if each.template is template), None)
        if copy:
            self._waiting.remove(copy)
        else:
            database = self._created(template.database)
            copy = Copy(database, template, self._frame(database))
        address = self._address(copy.database)
        self._given[address] = copy
        return address

    def drop(self, url: str) -> None:
        """Give back the database at *url*, whatever was done to it; connections left open are cut."""
        copy = self._given.pop(url)
        if copy.template.plain and self._emptied(copy):
            self._waiting.append(copy)
        else:
            self._drop(copy)

    @contextmanager
    def lent(self, name: str = EMPTY) -> Iterator[str]:
        """A fresh database for as long as the block lasts."""
        url = self.fresh(name)
        try:
            yield url
        finally:
            self.drop(url)

    def close(self) -> None:
        """Drop all of them, also those that were not given back."""
        for (database,) in self._outside.execute(OWN, (self.mark,)).fetchall():
            self._remove(database)
        for copy in (*self._given.values(), *self._waiting):
            if copy.inside:
                copy.inside.close()
        self._outside.close()

    def _address(self, database: str) -> str:
        return self.url.set(database=database).render_as_string(hide_password=False)

    def _connect(self, database: str) -> psycopg.Connection:
        plain = self.url.set(drivername="postgresql", database=database).render_as_string(hide_password=False)
        return psycopg.connect(plain, autocommit=True, application_name=self.mark)

    def _created(self, source: str) -> str:
        database = f"{self.mark}_{next(self._number)}"
        self._outside.execute(f"CREATE DATABASE {database} TEMPLATE {source} STRATEGY file_copy")
        return database

    def _drop(self, copy: Copy) -> None:
        if copy.inside:
            copy.inside.close()
        self._remove(copy.database)

    def _remove(self, database: str) -> None:
        self._alone(database)  # the server would look for the end of connections every 100 ms only
        self._outside.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def _frame(self, database: str) -> object:
        return self._outside.execute(FRAME, (database,)).fetchone()

    def _alone(self, database: str, *, sparing: str = "-") -> None:
        """Cut all connections to *database* but those named *sparing*, and wait until they are gone."""
        until = time.monotonic() + 120
        while self._outside.execute(OTHERS, (database, sparing)).fetchall():
            if time.monotonic() > until:
                raise TimeoutError(f"connections to {database} do not end")
            time.sleep(0.0005)

    def _emptied(self, copy: Copy) -> bool:
        """Whether *copy* equals its template again: not if more than rows has changed, or they cannot be put back."""
        try:
            self._alone(copy.database, sparing=self.mark)
            copy.inside = copy.inside or self._connect(copy.database)
            return self._unchanged(copy, copy.inside) and _filled(copy.inside, copy.template.rows)
        except psycopg.Error:
            return False

    def _unchanged(self, copy: Copy, inside: psycopg.Connection) -> bool:
        return self._frame(copy.database) == copy.frame and inside.execute(SHAPE).fetchone() == copy.template.shape

    def _sweep(self) -> None:
        """Drop what runs that are gone have left on a server that outlived them."""
        for (database,) in self._outside.execute(LEFT, (f"^{PREFIX}_[0-9a-f]{{8}}_[0-9]+$",)).fetchall():
            self._remove(database)


def _template(database: str, inside: psycopg.Connection, *, reusable: bool) -> Template:
    found = inside.execute(TABLES).fetchall()
    shape = inside.execute(SHAPE).fetchone()
    rows = {name: _rows(inside, name) for name, is_table in found if is_table}
    return Template(database, shape, rows, plain=reusable and len(rows) == len(found))


def _rows(inside: psycopg.Connection, table: str) -> bytes:
    with inside.cursor().copy(f"COPY {table} TO STDOUT") as copied:
        return b"".join(bytes(part) for part in copied)


def _filled(inside: psycopg.Connection, rows: Mapping[str, bytes]) -> bool:
    """Put *rows* in the place of all others, unheard by triggers; False where the tables are too big for that."""
    if inside.execute(SIZE).fetchall() > [(SMALL,)]:
        return False
    deletes = "; ".join(f"DELETE FROM {table}" for table in rows)
    with inside.transaction():
        inside.execute(f"SET LOCAL session_replication_role = replica; SET LOCAL lock_timeout = '5s'; {deletes}")
        for table, lines in rows.items():
            if lines:
                with inside.cursor().copy(f"COPY {table} FROM STDIN") as copied:
                    copied.write(lines)
    return True
