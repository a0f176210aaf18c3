"""A PostgreSQL that lets some in and others not, and databases in it, for tests of addresses and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import make_url

from tests import ledgers, servers
from tests.databases import Databases
from tests.servers import Server

ROLES = """
CREATE ROLE ann LOGIN PASSWORD 'hunter2'; CREATE ROLE shut LOGIN; CREATE ROLE full_ LOGIN CONNECTION LIMIT 0;
CREATE ROLE outside LOGIN; CREATE ROLE nobody_s NOLOGIN
"""
RULES = "local all ann scram-sha-256\nlocal all shut reject\n"


@contextmanager
def guarded() -> Iterator[Server]:
    """A server that asks `ann` for her password, never lets `shut` in, and has no room for `full_`."""
    with servers.own() as server:
        server.ask(ROLES)
        file = server.data / "pg_hba.conf"
        file.write_text(RULES + file.read_text())
        server.ask("SELECT pg_reload_conf()")
        yield server


@contextmanager
def rooms(server: Server) -> Iterator[Databases]:
    """The databases of *server*, `founded` among their templates: a store with the board `b`."""
    databases = Databases(server.url())
    databases.template("founded", lambda url: ledgers.founded(url).engine.dispose())
    yield databases
    databases.close()


def by(url: str, role: str, password: str | None = None) -> str:
    """*url* for another role."""
    return make_url(url).set(username=role, password=password).render_as_string(hide_password=False)
