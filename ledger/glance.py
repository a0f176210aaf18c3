"""A glance at a store, whatever the database, without SQLAlchemy: for processes that load nothing heavier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from ledger import driver
from ledger.errors import StoreUnsupported
from ledger.libpq import is_torn, of_connection, torn

_PATIENCE: Final = 5  # seconds that a glance waits for a server, unless its address says otherwise
_GIVEN: Final = {"connect_timeout": str(_PATIENCE), "client_encoding": "utf8"}
_SERVERS: Final = ("postgresql:", "postgresql+psycopg:", "postgres:")
_NOW: Final = {False: "NULL", True: "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"}


def glance(url: str, statement: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row of *statement*, or none; `?` stands for a value, `{now}` for the server's instant (none: a file).

    It never writes. Raises `StoreMissing`, `StoreUnreachable`, `StoreDenied`, and whatever the driver raises.
    """
    served = url.startswith(_SERVERS)
    spoken = statement.replace("{now}", _NOW[served])
    return (_at_server if served else driver.glance)(url, spoken, values)


def _at_server(url: str, statement: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    try:
        import psycopg
    except ImportError:
        raise StoreUnsupported("psycopg is not installed", remedy="pip install 'kanban-ledger[postgres]'") from None
    try:
        with psycopg.connect(_conninfo(url), autocommit=True) as connection:
            return connection.execute(statement.replace("?", "%s"), values).fetchone()
    except psycopg.OperationalError as fault:
        raise of_connection(fault) from fault


def _conninfo(url: str) -> str:
    """*url*, as SQLAlchemy reads it, for libpq: there several hosts stand in one list, and their ports in another."""
    if is_torn(url):
        raise torn("that")
    place, _, query = url.partition("?")
    told = parse_qsl(query, keep_blank_values=True)
    hosts = [_parted(host) for name, host in told if name == "host"]
    rest = _GIVEN | {name: value for name, value in told if name != "host"}
    if hosts:
        rest["host"] = ",".join(host for host, _ in hosts)
    if any(port for _, port in hosts):
        rest["port"] = ",".join(port for _, port in hosts)
    return f"postgresql:{place.partition(':')[2]}?{urlencode(rest, quote_via=quote)}"


def _parted(host: str) -> tuple[str, str]:
    """A host and its port, if it has one; a folder of sockets may have any name, and IPv6 is all colons."""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and "/" not in host and ":" not in name else (host, "")
