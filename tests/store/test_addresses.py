"""Addresses of PostgreSQL servers: what they name, to the program and to a glance alike, and who is not let in."""

from __future__ import annotations

import sys

import psycopg
import pytest
from sqlalchemy import make_url

import ledger
from ledger import database, glance, upgrade
from ledger.errors import StoreBusy, StoreDenied, StoreMissing, StoreUnreachable, StoreUnsupported
from ledger.store import board_names
from tests import given, ledgers, servers
from tests.doors import by
from tests.engines import on
from tests.served import asked

pytestmark = on("postgresql")


def boards_at(url):
    engine = upgrade.open_store(url)
    with database.reading(engine) as tx:
        names = board_names(tx)
    engine.dispose()
    return names


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_server_has_three_names(url, scheme):
    """What libpq, Heroku and SQLAlchemy call it."""
    named = scheme + url.removeprefix("postgresql+psycopg")
    assert boards_at(named) == ["b"]
    assert glance.glance(named, "SELECT board FROM boards", ()) == ("b",)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql+psycopg2://ann:hunter2@host/db", "postgresql+asyncpg://host/db", "postgresql+morse://host/db",
        "postgresql://ann:hunter2@host:port/db", "postgresql://host:port/db?password=hunter2",
        "postgresql://ann:hun/ter2@host:port/db", "postgresql://ann:hunter2@/db?host=a&host=b&port=1",
        "postgresql://ann:hunter2@/db?host=a,b&port=1,2,3",
    ],
)  # fmt: skip
def test_an_address_that_names_no_server_of_ours_is_refused(address):
    """Another driver, a port that is no number, more ports than hosts; whatever it is, no password is told."""
    with pytest.raises(StoreUnsupported) as caught:
        database.connect(address)
    assert "hunter2" not in str(caught.value)
    assert "ter2" not in str(caught.value)
    assert caught.value.remedy == "use postgresql+psycopg://USER@HOST/NAME"


@pytest.mark.parametrize("left", ["", "ledger@/", "/{name}", "ledger@/{name}"])
def test_what_an_address_leaves_open_the_environment_says(url, guarded, monkeypatch, left):
    """PGHOST, PGPORT, PGUSER and PGDATABASE: to the program and to a worker's glance alike."""
    name = make_url(url).database
    told = {"PGHOST": str(guarded.folder), "PGPORT": servers._port(), "PGUSER": "ledger", "PGDATABASE": name}
    for variable, value in told.items():
        monkeypatch.setenv(variable, value)
    address = f"postgresql+psycopg://{left.format(name=name)}"
    assert boards_at(address) == ["b"]
    assert glance.glance(address, "SELECT current_database(), current_user", ()) == (name, "ledger")


def test_the_texts_of_a_store_are_utf_8_whatever_the_environment_says(url, monkeypatch):
    """PGCLIENTENCODING is for other programs."""
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    store = ledgers.opened(url)
    store.append(given.created("日本"))
    assert store.read()[-1].words["title"] == "日本"
    assert glance.glance(url, "SELECT title FROM cards", ()) == ("日本",)
    store.engine.dispose()


def test_an_address_says_more_than_the_environment(url, monkeypatch):
    """What stands in it holds."""
    for variable in ("PGHOST", "PGUSER", "PGDATABASE"):
        monkeypatch.setenv(variable, "nowhere")
    assert boards_at(url) == ["b"]


def test_a_password_may_come_from_the_environment_or_the_address(url, monkeypatch):
    """PGPASSWORD, before the host, or in the query; a glance knows it as well."""
    asked(url, "GRANT SELECT ON alembic_version, boards TO ann")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    assert boards_at(by(url, "ann")) == ["b"]
    monkeypatch.delenv("PGPASSWORD")
    for address in (by(url, "ann", "hunter2"), by(url, "ann") + "&password=hunter2"):
        assert boards_at(address) == ["b"]
        assert glance.glance(address, "SELECT board FROM boards", ()) == ("b",)


HOSTS = [
    "u:p%40w@h:5433/db", "u@/db?host=a:1&host=b:2", "u@/db?host=a,b&port=1,2", "u@/db?host=/tmp/x", "u@/db?host=a:5",
    "u@/db?host=a&host=b", "u@/db?host=/tmp/x&host=/tmp/y", "", "/db", "u:p@[::1]:5432/db?sslmode=require",
    "u@h/d%20b?options=-c%20lock_timeout%3D50", "u@h/db?application_name=a%2Bb%26c", "u@h/db?password=a%20b%3Fc",
    "u@h/db?connect_timeout=3", "u@/db?host=/tmp/a:b",
]  # fmt: skip


@pytest.mark.parametrize("address", HOSTS)
def test_an_address_means_the_same_to_a_glance(address):
    """Hosts, ports, names and options, as the engine reads them."""
    parsed = make_url(f"postgresql+psycopg://{address}")
    _, meant = parsed.get_dialect()().create_connect_args(parsed)
    if set(str(meant.get("port", ""))) == {","}:
        del meant["port"]  # as many defaults as there are hosts
    wanted = {"connect_timeout": "5", "client_encoding": "utf8"} | {name: str(value) for name, value in meant.items()}
    assert psycopg.conninfo.conninfo_to_dict(glance._conninfo(f"postgresql+psycopg://{address}")) == wanted


def test_the_second_of_two_hosts_is_asked_where_the_first_is_gone(url, guarded):
    """Of a primary and its stand-in one answers."""
    name = make_url(url).database
    address = f"postgresql+psycopg://ledger@/{name}?host=/nowhere&host={guarded.folder}"
    assert boards_at(address) == ["b"]
    assert glance.glance(address, "SELECT board FROM boards", ()) == ("b",)


@pytest.mark.parametrize(
    ("address", "printed"),
    [
        ("postgresql://ann:hunter2@host/db", "postgresql://ann:***@host/db"),
        ("postgresql://host/db?user=ann&password=hunter2", "postgresql://host/db?password=***&user=ann"),
        ("postgresql://h/db?sslpassword=hunter2&sslkey=k", "postgresql://h/db?sslkey=k&sslpassword=***"),
        ("postgresql://ann:hunter2@host:port/db?password=hunter2", "postgresql://***@host:port/db?password=***"),
        ("postgresql://ann:hun/ter2@host:port/db", "postgresql://***@host:port/db"),
    ],
)
def test_an_address_is_printed_without_its_passwords(address, printed):
    """Before the host, in the query, and where the address is none."""
    assert database.masked(address) == printed


# Who is not let in


@pytest.mark.parametrize(
    ("role", "password", "kind", "said"),
    [
        ("ann", "wrong", StoreDenied, "password authentication failed"),
        ("ann", None, StoreDenied, "no password supplied"),
        ("shut", None, StoreDenied, "pg_hba.conf rejects connection"),
        ("nobody_s", None, StoreDenied, "not permitted to log in"),
        ("stranger", None, StoreDenied, 'role "stranger" does not exist'),
        ("full_", None, StoreBusy, "too many connections for role"),
    ],
)
def test_who_is_not_let_in_is_told_why(url, role, password, kind, said):
    """And no password is repeated."""
    with pytest.raises(kind, match=said) as caught:
        upgrade.open_store(by(url, role, password))
    assert "wrong" not in str(caught.value)
    with pytest.raises(kind, match=said):
        glance.glance(by(url, role, password), "SELECT 1", ())


def test_who_may_not_connect_to_the_database_is_denied(rooms):
    """A server may let a role in, and a database not."""
    url = rooms.fresh("founded")
    asked(url, f"REVOKE CONNECT ON DATABASE {make_url(url).database} FROM PUBLIC")
    with pytest.raises(StoreDenied, match="permission denied for database"):
        upgrade.open_store(by(url, "outside"))
    rooms.drop(url)


@pytest.mark.parametrize("place", ["/db?host=/nowhere", "127.0.0.1:9/db", "no.such.host.invalid/db"])
def test_a_server_that_is_not_there_cannot_be_reached(place):
    """No socket, no port, no such name."""
    with pytest.raises(StoreUnreachable, match="cannot be reached") as caught:
        upgrade.open_store(f"postgresql+psycopg://ann:hunter2@{place}")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(StoreUnreachable, match="cannot be reached"):
        glance.glance(f"postgresql://{place}", "SELECT 1", ())


def test_a_glance_at_a_database_that_is_not_there_says_so(guarded):
    """A worker's proof of life finds no store."""
    with pytest.raises(StoreMissing, match="does not exist"):
        glance.glance(guarded.url("nowhere"), "SELECT 1", ())


def test_without_its_driver_a_server_cannot_be_spoken_to(monkeypatch):
    """The extra `postgres` is one: what to install is said."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "ledger.postgres")
    monkeypatch.delattr(ledger, "postgres")
    for act in (database.connect, lambda url: glance.glance(url, "SELECT 1", ())):
        with pytest.raises(StoreUnsupported, match="psycopg") as caught:
            act("postgresql://host/db")
        assert caught.value.remedy == "pip install 'kanban-ledger[postgres]'"
