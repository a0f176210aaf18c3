"""An address of a PostgreSQL server made whole: it means the same without the variables that libpq reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from psycopg.pq import Conninfo
from sqlalchemy import URL

_PARTS: Final = {"user": "username", "password": "password", "host": "host", "port": "port", "dbname": "database"}
"""What an address may say outside of its query: libpq's names, and SQLAlchemy's."""
_SERVICE: Final = "PGSERVICE"


def answered(address: URL) -> URL:
    """*address* with all that libpq would look up for it in this environment (`PGHOST`, `PGPASSWORD` …), a secret.

    Also what a service stands for that is named there. What is left to libpq is its file of passwords.
    """
    told = {name for name, part in _PARTS.items() if getattr(address, part)} | set(address.query)
    found = {"port": "5432", **_looked_up(address.query.get("service"))}
    found.setdefault("dbname", address.username or found["user"])  # libpq's own rule
    if _brings_ports(address.query.get("host", "")):
        del found["port"]
    elif "host" not in told and "," not in found["port"]:  # SQLAlchemy wants one for each
        found["port"] = ",".join([found["port"]] * len(found.get("host", "").split(",")))
    missing = {name: value for name, value in found.items() if name not in told}
    return address.difference_update_query(["service"]).update_query_dict(missing)


def _brings_ports(host: str | tuple[str, ...]) -> bool:
    """Whether *host* of an address's query may hold a port of its own, or is a list: then none is looked up for it."""
    return isinstance(host, tuple) or "," in host or host.count(":") == 1


def _looked_up(service: object) -> dict[str, str]:
    """What libpq takes from its variables, from *service* or the one that they name, and from the user's account."""
    with _naming(service):
        options = Conninfo.get_defaults()
    return {
        option.keyword.decode(): option.val.decode()
        for option in options
        if option.val not in {None, option.compiled} and option.keyword != b"service"
    }


@contextmanager
def _naming(service: object) -> Iterator[None]:
    """Let libpq's variable name *service*: it says what one stands for in no other way."""
    kept = os.environ.get(_SERVICE)
    if service is not None:
        os.environ[_SERVICE] = str(service)
    try:
        yield
    finally:
        if kept is not None:
            os.environ[_SERVICE] = kept
        elif service is not None:
            del os.environ[_SERVICE]
