"""A server that is not there, lets nobody in or only readers, or holds no ledger: every command says so in one line.

It leaves what it found as it was, and no password is ever printed.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from urllib.parse import quote

import psycopg
import pytest

from cli.app import run
from tests import servers
from tests.cli import homes
from tests.cli.conftest import PASSWORD
from tests.cli.test_cruel_disk import WRITES
from tests.cli.test_cruel_stores import COMMANDS, LOOKS_BACK, READS, refused
from tests.databases import SHAPE, Databases
from tests.doors import by
from tests.engines import on, once
from tests.fleets import PATIENCE
from tests.served import asked

WRONG = "correct/horse@battery:staple"
LOOKS = [argv for argv in READS if argv[0] != "log"]
"""What works on cards that have had no run."""


@pytest.fixture(scope="module")
def places():
    """What the words of `COMMANDS` and `WRITES` stand for in the template `lived`."""
    return {"LONG": "y" * 5_000}


@pytest.fixture(scope="module")
def rooms(guarded, places, tmp_path_factory):
    """Its databases; in the template `lived` there are cards: done, blocked, running, and two that are linked."""
    databases = Databases(guarded.url())
    home = tmp_path_factory.mktemp("lived")
    (home / "ledger.toml").write_text("[assignees.dana]\nhuman = true\n")

    def live(url):
        with homes.environment(home, url):
            typed("init")
            for name in ("CARD", "OTHER", "DONE", "BLOCKED", "RUNNING"):
                typed("create", name, "--key", name, "--assignee", "dana")
            places.update(asked(url, "SELECT key, task FROM tasks"))
            typed("complete", places["DONE"])
            typed("block", places["BLOCKED"], "x")
            typed("claim", places["RUNNING"])
            typed("pause", "--assignee", "zed")
            typed("link", places["OTHER"], places["CARD"])
            typed("sweep")
        asked(url, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        asked(url, "GRANT ALL ON ALL TABLES IN SCHEMA public TO ann")

    databases.template("lived", live)
    yield databases
    databases.close()


def typed(*argv):
    assert run([*argv, "--quiet"]) == 0


@pytest.fixture
def store(rooms):
    """The address of a store of one's own, for a role that may do anything."""
    with rooms.lent("lived") as url:
        yield url


def tried(ledger, url, places, argv, form=()):
    """Type *argv* about the store at *url*. No password is printed, whatever comes of it."""
    said = ledger("--database", url, *form, *(places.get(word, word) for word in argv))
    for secret in (PASSWORD, WRONG, quote(WRONG, safe="")):
        assert secret not in said.out + said.err, (argv, said)
    return said


# Servers and databases that are none of ours


def no_server(url, _guarded):
    return f"postgresql+psycopg://ann:{PASSWORD}@/x?host=/nonexistent"


def no_database(url, guarded):
    return guarded.url("nowhere")


def empty(url, _guarded):
    asked(url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return url


def another_programs(url, guarded):
    asked(empty(url, guarded), "CREATE TABLE recipes (name text)")
    return url


def without_revision(url, _guarded):
    asked(url, "DELETE FROM alembic_version")
    return url


def older(url, _guarded):
    asked(url, "UPDATE alembic_version SET version_num = '0000'")
    return url


def newer(url, _guarded):
    asked(url, "UPDATE alembic_version SET version_num = '9999'")
    return url


def wrong_password(url, _guarded):
    return by(url, "ann", WRONG)


def nobody(url, _guarded):
    return by(url, "mallory", WRONG)


def no_room(url, _guarded):
    return by(url, "full_", WRONG)


def no_rights(url, _guarded):
    return by(url, "outside", WRONG)


KINDS = {
    no_server: "store_unreachable", no_database: "store_missing", empty: "store_missing",
    another_programs: "store_missing", without_revision: "store_missing", older: "store_outdated",
    newer: "store_too_new", wrong_password: "store_denied", nobody: "store_denied",
    no_room: "store_busy", no_rights: "store_denied",
}  # fmt: skip
ANSWERED = {older: {"db status", "db upgrade", "db upgrade --dry-run"}, newer: {"db status"}}
"""What may look at a store of another revision: that is what it is for."""


@on("postgresql")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_no_store_of_this_program_is_left_alone(bare, guarded, store, places, kind):
    """8, one line; nothing is made or mended. Each kind meets a third of the commands, each command some kinds."""
    url = kind(store, guarded)
    before = asked(store, SHAPE), homes.rows(store)
    for number, argv in enumerate(COMMANDS[list(KINDS).index(kind) % 3 :: 3]):
        if " ".join(argv) not in ANSWERED.get(kind, ()):
            refused(tried(bare, url, places, argv, [(), ("--json",)][number % 2]), KINDS[kind])
    assert (asked(store, SHAPE), homes.rows(store)) == before
    assert guarded.ask("SELECT datname FROM pg_database WHERE datname = 'nowhere'") == []


@on("postgresql")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {no_database, empty, without_revision}])
def test_init_makes_nothing_where_something_is_or_nobody_lets_it(bare, guarded, store, kind):
    """It may be somebody else's."""
    url = kind(store, guarded)
    before = asked(store, SHAPE), homes.rows(store)
    said = tried(bare, url, {}, ("init",), ("--json",))
    refused(said, {another_programs: "store_exists"}.get(kind, KINDS[kind]))
    assert (asked(store, SHAPE), homes.rows(store)) == before
    assert not bare.home.exists()


# Servers that only let read


@on("postgresql")
def test_who_may_only_read_reads_and_is_told_when_it_writes(bare, store, places):
    """0 for every look, 8 for every act, and not a row is changed."""
    url, before = by(store, "reader"), homes.rows(store)
    for argv in LOOKS:
        assert tried(bare, url, places, argv).code == 0, argv
    for argv in (*WRITES, ("init", "--board", "more")):
        refused(tried(bare, url, places, argv, ("--json",)), "store_denied")
    assert homes.rows(store) == before


@on("postgresql")
def test_a_standby_is_read_and_what_would_write_is_sent_to_the_primary(bare, monkeypatch):
    """While it recovers: 0 for every look, 8 for every act. Promoted, and when it comes back, it is as ever."""
    with servers.own(wal_level="replica") as server:
        bare.json("init", "--database", server.url("db"))
        monkeypatch.setenv("LEDGER_DATABASE_URL", server.url("db"))
        places = {name: bare.create(name) for name in ("CARD", "OTHER")}
        before = bare.json("events")
        server.stop()
        refused(bare("list", "--json"), "store_unreachable")
        signal = server.data / "standby.signal"
        signal.touch()
        os.chown(signal, *((server.account.uid, server.account.gid) if server.account else (-1, -1)))
        server.start()
        for argv in LOOKS:
            assert tried(bare, server.url("db"), places, argv).code == 0, argv
        for argv in LOOKS_BACK:
            said = tried(bare, server.url("db"), places, argv, ("--json",))
            refused(said, "store_unsupported")
            assert "no temporary tables" in said.error["message"]
        for argv in WRITES[:6]:
            said = tried(bare, server.url("db"), places, argv, ("--json",))
            refused(said, "store_full")
            assert "connect to the primary" in said.error["try"]
        assert bare.json("events") == before
        server.ask("SELECT pg_promote()")
        bare.ok("comment", places["CARD"], "on we go")
        server.restart("immediate")
        assert bare.json("replay", "--strict")["divergences"] == []


# Rows that somebody changed

ODD = {
    "bigint": ("-1", "9223372036854775807", "0"), "integer": ("-1", "2147483647", "0"), "bytea": ("''", r"'\xff'"),
    "boolean": ("true", "false"),
}  # fmt: skip
ODD_TEXTS = ("'zzz'", "'{'", "'[]'", "''", "'null'", "'9'")
COLUMNS = """
SELECT table_name, column_name, data_type FROM information_schema.columns JOIN information_schema.tables
USING (table_schema, table_name) WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1, 2
"""


@on("postgresql")
def test_values_that_mean_nothing_are_damage_and_no_bug(bare, rooms, places):
    """Column by column; what a column's type or a check refuses is none of ours."""
    with rooms.lent("lived") as url:
        columns = asked(url, COLUMNS)
    looks, turns, changed = itertools.cycle(LOOKS), itertools.count(), 0
    for table, column, kind in columns:
        values = (*ODD.get(kind, ODD_TEXTS), "NULL")
        with rooms.lent("lived") as url:
            odd = f'UPDATE {table} SET "{column}" = {values[next(turns) % len(values)]}'
            try:
                asked(url, f"SET session_replication_role = replica; {odd}")
            except psycopg.Error:
                continue
            changed += 1
            for argv in (next(looks), *[("replay",)][: changed % 3 == 0]):
                said = tried(bare, url, places, argv, ("--json",))
                assert said.code in {0, 1, 5, 7, 8}, (odd, argv, said)
                assert json.loads(said.out).get("error", {}).get("code") != "internal", (odd, argv, said)
    assert changed > len(columns) / 2


# Garbage in every part of an address

DEAD = "host=/nonexistent"
GARBAGE = (
    "postgresql", "postgresql:", "postgresql:/", "postgresql:///", "postgresql+psycopg2://h/db", "postgresql+://h/db",
    "postgresql+asyncpg://h/db", "postgres+psycopg://h/db", "postgresqlx://h/db", "POSTGRESQL+PSYCOPG://h/db",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&host=127.0.0.1:1&port=5", "postgresql+psycopg://ann:SECRET@[::1/db",
    "postgresql+psycopg://ann:SECRET@h:port/db", "postgresql+psycopg://ann:SECRET@127.0.0.1:1/db",
    "postgresql+psycopg://ann:SECRET@127.0.0.1:0/db", "postgresql+psycopg://ann:SECRET@127.0.0.1:99999/db",
    "postgresql+psycopg://ann:SECRET@127.0.0.1:-1/db", f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&password=SECRET",
    f"postgresql+psycopg://ann@/db?{DEAD}&password=SECRET&sslpassword=SECRET", f"postgresql+psycopg://ann:%zz@/db?{DEAD}",
    f"postgresql+psycopg://ann:SECRET@/%zz?{DEAD}", f"postgresql+psycopg://%00:SECRET@/db?{DEAD}",
    f"postgresql+psycopg://ann:SECRET@/a%00b?{DEAD}", f"postgresql+psycopg://ann:SECRET@/{'x' * 500}?{DEAD}",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&no_such_option=1", f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&=1",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&connect_timeout=soon",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&connect_timeout=", f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&port=x",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&sslmode=perhaps",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&client_encoding=klingon",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&target_session_attrs=best",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&gssencmode=what&channel_binding=what",
    "postgresql+psycopg://?service=no_such_service", "postgresql+psycopg://ann:SECRET@h/db?hostaddr=no.address",
    "postgresql+psycopg://ann:SECRET@/db?host=%00", "postgresql+psycopg://ann:SECRET@/db?host=a,b&port=1,2,3",
    "postgresql+psycopg://ann:SEC/RET@127.0.0.1:1/db", "postgresql+psycopg://ann:SE@CRET@127.0.0.1:1/db",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&options=-c%20nonsense", f"postgresql+psycopg://ann:SECRET@/db?{DEAD}#x",
    f"postgresql+psycopg://ann:SECRET@/\x1b[2J?{DEAD}", f"postgresql+psycopg://ann:SECRET@/é🧑?{DEAD}",
    f"postgresql+psycopg://ann:SECRET@/db?{DEAD}&application_name=x&application_name=y",
)  # fmt: skip
LINES = (("list",), ("init",), ("sweep",), ("doctor",), ("db", "status"), ("config", "show"), ("backup", "copy.db"))


@once
@pytest.mark.parametrize("url", GARBAGE, ids=lambda url: url[-50:])
def test_garbage_in_an_address_is_a_clear_line(bare, url):
    """8, or 1 or 2; never a traceback, never a password, and nothing is made."""
    secrets = {"SEC", "CRET", *(["%zz"] if ":%zz@" in url else [])}
    for argv in LINES:
        for form in ((), ("--json",), ("--verbose",)):
            said = bare(*argv, "--database", url, *form)
            assert said.code in {1, 2, 8} or argv == ("config", "show"), (argv, said)
            assert not [secret for secret in secrets if secret in said.out + said.err], (argv, said)
            assert "internal" not in said.out + said.err, (argv, said)
            assert "\x1b" not in said.out + said.err
            if form == ("--json",) and argv != ("doctor",):
                json.loads(said.out)
    assert not bare.home.exists()
    assert not list(bare.home.parent.glob("here/*"))


# Passwords


@on("postgresql")
@pytest.mark.parametrize("way", ["in the address", "in its query"])
def test_no_command_prints_a_password(bare, store, places, way):
    """Neither in words nor in JSON, nor with --verbose; it is enough to work with."""
    url = by(store, "ann", PASSWORD) if way == "in the address" else f"{by(store, 'ann')}&password={PASSWORD}"
    commands = (*COMMANDS, ("init",), ("doctor",), ("config", "show", "--origin"), ("backup", "copy.db"))
    for argv in commands[way == "in its query" :: 2]:
        for form in (("--verbose",), ("--json",)):
            said = tried(bare, url, places, argv, form)
            assert said.code != 8, (argv, said)
    assert "***" in tried(bare, url, places, ("list",), ("--verbose",)).err


@on("postgresql")
def test_a_bug_prints_no_password_either(bare, store, places, monkeypatch):
    """A traceback with --verbose, of a fault that carries the statement and the connection."""
    url = by(store, "ann", PASSWORD)

    def fail(board):
        with board.engine.connect() as tx:
            raise RuntimeError(board.engine, tx, board.engine.url, tx.connection.dbapi_connection)

    monkeypatch.setattr("kanban.questions.Questions.stats", fail)
    said = tried(bare, url, places, ("stats",), ("--verbose",))
    assert (said.code, "Traceback" in said.err) == (1, True)


# Without the driver

PROBE = """
import sys
sys.modules["psycopg"] = None
from cli.app import run
for argv in {lines!r}:
    print(run([*argv, "--json"]))
"""


@once
def test_without_the_driver_its_extra_is_named(bare):
    """8 for every command, also for a worker's glance at its claim."""
    claim = {"DATABASE_URL": "postgresql+psycopg://h/db", "BOARD": "b", "TASK": "t_a", "RUN": "1", "LOCK": "l"}
    environ = {**os.environ, **{f"LEDGER_{name}": value for name, value in claim.items()}}
    lines = [["list"], ["complete", "done"], ["claim", "--check"]]
    probe = [sys.executable, "-c", PROBE.format(lines=lines)]
    ran = subprocess.run(probe, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=True)
    told = ran.stdout.splitlines()
    assert told[1::2] == ["8", "8", "3"]
    assert json.loads(told[4])["live"] is False
    for answer in map(json.loads, told[0:4:2]):
        assert answer["error"]["code"] == "store_unsupported"
        assert "psycopg" in answer["error"]["message"]
        assert answer["error"]["try"] == "pip install 'kanban-ledger[postgres]'"
