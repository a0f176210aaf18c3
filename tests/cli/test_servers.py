"""The command line at a PostgreSQL server: `init` is all the set-up, and a worker reaches the store it works for."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from unittest import mock
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo
from sqlalchemy import make_url

from ledger.database import whole
from ledger.glance import _conninfo
from tests.cli import homes
from tests.cli.conftest import PASSWORD
from tests.cli.test_process import SCRIPT
from tests.doors import by
from tests.engines import on, once
from tests.fleets import PATIENCE


@pytest.fixture
def newcomer(bare, monkeypatch):
    """Somebody who has set nothing yet."""
    monkeypatch.delenv("LEDGER_DATABASE_URL", raising=False)
    return bare


def fresh(guarded, name):
    """The address for ann, with her password, of a database that is not there."""
    guarded.ask(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    return by(guarded.url(name), "ann", PASSWORD)


def databases_of(guarded):
    return {name for (name,) in guarded.ask("SELECT datname FROM pg_database")}


# init


@on("postgresql")
def test_init_is_all_the_set_up(newcomer, guarded):
    """It makes database, tables and board, and a ledger.toml that names the store: the next command finds it."""
    url = fresh(guarded, "mine")
    said = newcomer.ok("init", "--database", url)
    shown = url.replace(PASSWORD, "***").replace(str(guarded.folder), quote(str(guarded.folder), safe=""))
    assert said.out.startswith("board default made: id ")
    assert f"in {shown}\n" in said.out
    assert f"settings: {newcomer.home}/ledger.toml (it names the store; all else in it is commented out" in said.out
    assert "note" not in said.err
    assert "mine" in databases_of(guarded)
    settings = newcomer.home / "ledger.toml"
    assert (settings.stat().st_mode & 0o777, f'database = "{url}"' in settings.read_text()) == (0o600, True)
    newcomer.create("found without a flag")
    assert newcomer.json("config", "show")["values"]["database"] == {"value": shown, "origin": str(settings)}


@on("postgresql")
def test_init_again_is_harmless(newcomer, guarded):
    """With the address or without; nothing in the log, the settings or the tables changes."""
    url = fresh(guarded, "mine")
    first = newcomer.json("init", "--database", url)
    assert (first["created"], first["config"]) == (True, str(newcomer.home / "ledger.toml"))
    before = newcomer.bytes(), (newcomer.home / "ledger.toml").read_text()
    for argv in (("init",), ("init", "--database", url)):
        again = newcomer.json(*argv)
        assert (again["board_id"], again["created"], again["config"]) == (first["board_id"], False, None)
    assert (newcomer.bytes(), (newcomer.home / "ledger.toml").read_text()) == before
    assert newcomer.json("init", "--board", "other")["created"] is True
    assert newcomer.json("list", "--board", "other")["tasks"] == []


@on("postgresql")
def test_init_needs_no_more_than_the_variables_of_libpq(newcomer, guarded, monkeypatch):
    """Where a database of that name is not there it is made; no password gets into the settings."""
    fresh(guarded, "named_by_libpq")
    told = {"HOST": str(guarded.folder), "USER": "ann", "DATABASE": "named_by_libpq", "PASSWORD": PASSWORD}
    for name, value in told.items():
        monkeypatch.setenv(f"PG{name}", value)
    newcomer.ok("init", "--database", "postgresql+psycopg://")
    assert "named_by_libpq" in databases_of(guarded)
    assert PASSWORD not in (newcomer.home / "ledger.toml").read_text()
    newcomer.create("found again")


@once
@pytest.mark.parametrize("address", ["sqlite:///elsewhere.db", "sqlite:////{folder}/elsewhere.db"])
def test_a_file_that_only_a_flag_names_is_found_again_too(newcomer, tmp_path, monkeypatch, address):
    """From another folder, even if its path was relative."""
    newcomer.ok("init", "--database", address.format(folder=tmp_path / "here"))
    monkeypatch.chdir("/")
    newcomer.create("found")
    assert (tmp_path / "here" / "elsewhere.db").exists()
    assert not (newcomer.home / "ledger.db").exists()


@once
def test_a_store_that_only_a_flag_finds_is_said_to_be_one(newcomer):
    """Where the settings were there before: they are never touched."""
    newcomer.ok("init")
    said = newcomer.ok("init", "--database", "sqlite:///other.db")
    assert f"only --database finds this store: name it in {newcomer.home}/ledger.toml" in said.err
    assert "note" in newcomer.ok("init", "--database", "sqlite:///other.db", "--json").err
    assert "note" not in newcomer.ok("init").err


@once
@pytest.mark.parametrize("name", ["100%25", "what?", "a #b", "é"])
def test_a_home_of_any_name_holds_its_own_store(newcomer, tmp_path, monkeypatch, name):
    """What an address gives a meaning to is part of the path there."""
    monkeypatch.setenv("LEDGER_HOME", str(tmp_path / name))
    newcomer.ok("init")
    assert (tmp_path / name / "ledger.db").exists()
    newcomer.create("a")


# Addresses made whole

LEFT_OPEN = (
    "", "/db", "h", "h/db", "ann@h/db", "ann:pw@h:5/db?sslmode=disable", "[::1]/db", "/db?host=/run/there",
    "/db?host=a:1&host=b:2", "/db?host=a,b", "/db?host=h:9", "/db?user=ann&password=p%40w", "?service=s",
)  # fmt: skip
"""What follows the `//` of an address."""
ENVIRONMENTS = (
    {}, {"HOST": "::1", "PORT": "7", "PASSWORD": "p @/%?&#:=+ü", "DATABASE": "a b", "USER": "ü", "SSLMODE": "require"},
    {"HOST": "x,y", "APPNAME": "me"}, {"HOST": "x,y", "PORT": "1", "OPTIONS": "-c statement_timeout=5s"},
    {"HOST": "/run/here", "SERVICE": "s"},
)  # fmt: skip


@once
@pytest.mark.parametrize("variables", ENVIRONMENTS, ids=" ".join)
@pytest.mark.parametrize("left_open", LEFT_OPEN)
def test_an_address_made_whole_means_the_same_where_no_variable_is_set(monkeypatch, tmp_path, variables, left_open):
    """To SQLAlchemy and to a worker's glance alike: what libpq would have looked up stands in it."""
    (tmp_path / "services").write_text("[s]\nport=99\nuser=of_service\n")
    variables = {"SERVICEFILE": str(tmp_path / "services"), **variables}
    for name, value in variables.items():
        monkeypatch.setenv(f"PG{name}", value)
    address = f"postgresql+psycopg://{left_open}"
    meant, url = looked_up(arguments(address)), whole(address)
    for name in variables:
        monkeypatch.delenv(f"PG{name}")
    assert looked_up(arguments(url)) == meant
    assert looked_up(conninfo_to_dict(_conninfo(url))) == {**meant, "connect_timeout": "5", "client_encoding": "utf8"}


def arguments(address):
    """What SQLAlchemy makes of it."""
    url = make_url(address)
    return url.get_dialect()().create_connect_args(url)[1]


def looked_up(arguments):
    """*arguments*, and what libpq fills in: one port is every host's, and a database is called as its user."""
    with mock.patch.dict(os.environ, {"PGSERVICE": arguments["service"]} if "service" in arguments else {}):
        defaults = {each.keyword.decode(): each.val.decode() for each in Conninfo.get_defaults() if each.val}
    found = defaults | {name: str(value) for name, value in arguments.items() if value is not None}
    found.pop("service", None)
    hosts, ports = found.get("host", "").split(","), found["port"].split(",")
    found["port"] = [port or "5432" for port in (ports * len(hosts) if len(ports) == 1 else ports)]
    return {"dbname": found["user"], **found}


# Workers

OF_THE_APP = {"PGUSER": "of_the_app", "PGPASSWORD": "of_the_app", "PGHOST": "/of/the/app"}
WORKER = """\
[assignees.b]
command = ["sh", "-c", '''
    env | grep ^PG | sed 's/^/found /'
    tr '\\\\0' ' ' < /proc/$PPID/cmdline
    "$LEDGER_BIN" claim --check && exec "$LEDGER_BIN" complete "built it" --verbose
''']
env = { PGUSER = "of_the_app", PGPASSWORD = "of_the_app", PGHOST = "/of/the/app" }
"""
"""A worker whose own work needs another server: its settings must lead nobody astray."""
NO_PASSWORD = WORKER.replace('PGPASSWORD = "of_the_app", ', "")
"""Where libpq looks into a file it would take a variable first, be it whose it may."""


def by_variables(url, folder):
    return "postgresql+psycopg://", {"PGHOST": folder, "PGDATABASE": "work", "PGUSER": "ann", "PGPASSWORD": PASSWORD}


def by_password_file(url, folder):
    return url.replace(f":{PASSWORD}", ""), {"PGPASSFILE": written("pass", f"*:*:*:ann:{PASSWORD}\n")}


def by_service(url, folder):
    service = f"[store]\nhost={folder}\ndbname=work\nuser=ann\npassword={PASSWORD}\n"
    return "postgresql+psycopg://?service=store", {"PGSERVICEFILE": written("services", service)}


def written(name, text):
    """A file in the working folder that its owner alone may read; its path."""
    path = Path.cwd() / name
    path.touch(mode=0o600)
    path.write_text(text)
    return str(path)


@on("postgresql")
@pytest.mark.parametrize("way", [by_variables, by_password_file, by_service])
def test_a_worker_reaches_the_store_however_its_operator_does(newcomer, guarded, monkeypatch, way):
    """By its address alone, which is whole: no `PG…` of the operator's leads its own tools to the store.

    The password stands in that variable and nowhere else: no file, no row, no output, no command line.
    """
    url, variables = way(fresh(guarded, "work"), str(guarded.folder))
    for name, value in {"LEDGER_DATABASE_URL": url, **variables}.items():
        monkeypatch.setenv(name, value)
    newcomer.ok("init")
    (newcomer.home / "ledger.toml").write_text(NO_PASSWORD if way is by_password_file else WORKER)
    card = newcomer.create("a", "--assignee", "b")
    ran = swept("--until-idle", "--verbose", "--json")
    shown, log = newcomer.json("show", card), newcomer.json("log", card)["text"]
    assert (shown["task"]["status"], shown["events"][-1]["actor"]["kind"]) == ("done", "worker"), log
    found = dict(line.removeprefix("found ").split("=", 1) for line in log.splitlines() if line.startswith("found "))
    assert found == {name: value for name, value in OF_THE_APP.items() if name in found}, log
    assert not [text for text in (*kept_in(newcomer.home), ran, log) if PASSWORD in text]
    assert PASSWORD not in str(homes.rows(guarded.url("work")))


def kept_in(home):
    """What stands in the files of *home*."""
    return [path.read_text(errors="replace") for path in home.rglob("*") if path.is_file()]


def swept(*flags):
    """What a sweep of its own process said."""
    ran = subprocess.run([SCRIPT, "sweep", *flags], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran
    return ran.stdout + ran.stderr


@once
def test_a_worker_reaches_a_file_that_is_named_from_the_operators_folder(newcomer, monkeypatch):
    """It works in another one."""
    monkeypatch.setenv("LEDGER_DATABASE_URL", "sqlite:///mine.db")
    newcomer.ok("init")
    (newcomer.home / "ledger.toml").write_text(WORKER)
    card = newcomer.create("a", "--assignee", "b")
    swept("--until-idle")
    assert newcomer.json("show", card)["task"]["status"] == "done"


# A day, by processes


@on("postgresql")
def test_a_day_at_a_server(newcomer, guarded):
    """Each command a process of its own, from `init` to the audit, with a real worker and a reader that follows."""
    url = fresh(guarded, "day")
    assert said("init", "--database", url)["created"] is True
    (settings := newcomer.home / "ledger.toml").write_text(settings.read_text() + WORKER)
    first = said("create", "by hand")["task"]["id"]
    lock = said("claim", first)["lock"]
    follow = subprocess.Popen([SCRIPT, "events", "--follow", "--jsonl"], stdout=subprocess.PIPE, text=True)
    try:
        assert said("complete", first, "done", "--lock", lock)["task"]["status"] == "done"
        second = said("create", "by a worker", "--assignee", "b")["task"]["id"]
        assert said("why", second)["status"] == "ready"
        assert said("pause")["changed"] is True
        assert said("claim", second, code=9)["error"]["code"] == "paused"
        assert said("resume")["paused"] == []
        swept("--until-idle")
        assert said("policy", "--failure-limit", "5")["position"] == 12
        read = [json.loads(follow.stdout.readline()) for _ in range(12)]
    finally:
        follow.kill()
        follow.communicate()
    assert [event["position"] for event in read] == list(range(1, 13))
    assert [event["kind"] for event in read[8:]] == ["claimed", "worker_bound", "completed", "policy_changed"], read
    assert said("db", "status")["revision"] == said("db", "upgrade")["wanted"]
    assert said("db", "rebuild")["position"] == 12
    assert said("replay", "--strict")["divergences"] == []
    settings.unlink()  # the one file that holds the address, for its owner alone
    assert not [text for text in kept_in(newcomer.home) if PASSWORD in text]


def said(*argv, code=0):
    """The JSON answer of a process."""
    ran = subprocess.run([SCRIPT, *argv, "--json"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == code, ran
    return json.loads(ran.stdout)
