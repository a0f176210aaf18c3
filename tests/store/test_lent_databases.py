"""The databases that tests are lent: each equals its template, is nobody else's, and costs no more than it must."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy import make_url

from tests import servers
from tests.databases import SMALL, Databases


def asked(url, statement, *values):
    """What the database at *url* answers."""
    plain = url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as tx:
        found = tx.execute(statement, values)
        return found.fetchall() if found.description else None


@pytest.fixture(scope="module")
def server():
    """A server for the tests of this file, that none of them stops."""
    with servers.own() as found:
        yield found


@pytest.fixture
def databases(server):
    """Databases with a template `one`: a table with one row, and a trigger that forbids to delete it."""
    found = Databases(server.url())
    found.template("one", make_one)
    yield found
    found.close()


def make_one(url):
    """What the template is filled with."""
    asked(
        url,
        "CREATE TABLE kept (row int PRIMARY KEY CHECK (row > 0), twice int GENERATED ALWAYS AS (row * 2) STORED);"
        "INSERT INTO kept VALUES (1);"
        "CREATE VIEW seen AS SELECT row FROM kept;"
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''kept''; END';"
        "CREATE TRIGGER refuse BEFORE DELETE ON kept FOR EACH ROW EXECUTE FUNCTION refuse()",
    )


def test_a_fresh_database_equals_its_template_and_is_nobody_elses(databases):
    """What one test writes, another does not read."""
    one, other = databases.fresh("one"), databases.fresh("one")
    asked(one, "INSERT INTO kept VALUES (2)")
    assert asked(one, "SELECT * FROM kept") == [(1, 2), (2, 4)]
    assert asked(other, "SELECT * FROM kept") == [(1, 2)]


def test_a_template_is_made_once_and_may_start_from_another(databases):
    """A second maker is not asked."""
    databases.template("one", lambda _: pytest.fail("made twice"))
    databases.template("two", lambda url: asked(url, "INSERT INTO kept VALUES (2)"), of="one")
    assert asked(databases.fresh("two"), "SELECT row FROM kept") == [(1,), (2,)]
    assert asked(databases.fresh("one"), "SELECT row FROM kept") == [(1,)]


def test_what_a_maker_leaves_open_hinders_no_copy(databases):
    """Nobody may be in a database that is copied."""
    left = []
    databases.template("left", lambda url: left.append(psycopg.connect(url.replace("+psycopg", ""))))
    assert asked(databases.fresh("left"), "SELECT 1") == [(1,)]
    left[0].close()


def test_a_database_that_was_given_back_goes_to_one_alone(databases):
    """The next one has a copy of its own."""
    with databases.lent("one") as first:
        pass
    assert databases.fresh("one") == first
    assert databases.fresh("one") != first


def test_a_database_that_a_test_has_dropped_itself_or_thrown_all_out_of_is_no_fault(server, databases):
    """There is nothing to give back then, and the next one is fresh."""
    for number, spoil in enumerate((server.terminate, lambda name: server.ask(f"DROP DATABASE {name} WITH (FORCE)"))):
        databases.drop(databases.fresh("one"))
        url = databases.fresh("one")
        asked(url, f"INSERT INTO kept VALUES ({number + 2})")
        spoil(make_url(url).database)
        databases.drop(url)
        assert asked(databases.fresh("one"), "SELECT row FROM kept") == [(1,)]


CHANGES = {
    "rows": ("INSERT INTO kept VALUES (2); UPDATE kept SET row = 3 WHERE row = 1", True),
    "temporary table": ("CREATE TEMPORARY TABLE more (row integer)", True),
    "all rows": ("TRUNCATE kept", False),
    "trigger dropped": ("DROP TRIGGER refuse ON kept", False),
    "trigger off": ("ALTER TABLE kept DISABLE TRIGGER refuse", False),
    "function replaced": ("CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'", False),
    "view replaced": ("CREATE OR REPLACE VIEW seen AS SELECT 1 AS row", False),
    "type made": ("CREATE DOMAIN more AS integer", False),
    "table made": ("CREATE TABLE more (row integer)", False),
    "column's right": ("GRANT SELECT (row) ON kept TO public", False),
    "constraint renamed": ("ALTER TABLE kept RENAME CONSTRAINT kept_row_check TO more", False),
    "index": ("CREATE INDEX more ON kept (twice)", False),
    "right to come": ("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO public", False),
    "right": ("GRANT SELECT ON kept TO public", False),
    "right on the schema": ("GRANT CREATE ON SCHEMA public TO public", False),
    "right on the database": (
        "DO $$BEGIN EXECUTE 'REVOKE CONNECT ON DATABASE ' || current_database() || ' FROM public'; END$$",
        False,
    ),
    "setting": ("DO $$BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET jit = off'; END$$", False),
    "grown": (f"INSERT INTO kept SELECT generate_series(2, {SMALL // 20})", False),
}


@pytest.mark.parametrize(("change", "again"), CHANGES.values(), ids=CHANGES)
def test_a_database_is_used_again_only_if_rows_are_all_that_changed(databases, change, again):
    """Whatever a test did to its own, the next one finds the template; the dearer way is for those who change more."""
    first = databases.fresh("one")
    asked(first, change)
    databases.drop(first)
    second = databases.fresh("one")
    assert asked(second, "SELECT * FROM kept") == [(1, 2)]
    assert (second == first) is again
    with pytest.raises(psycopg.errors.RaiseException):
        asked(second, "DELETE FROM kept")


def test_a_sequence_starts_anew_for_every_test(databases):
    """Emptying would leave it where it stood, so such a database is never used again."""
    databases.template("counted", lambda url: asked(url, "CREATE SEQUENCE numbers"))
    for _ in range(2):
        with databases.lent("counted") as url:
            assert asked(url, "SELECT nextval('numbers')") == [(1,)]


def test_connections_left_open_hinder_nobody(databases):
    """A transaction that a test forgot is cut, and what it wrote is gone."""
    first = databases.fresh("one")
    forgotten = psycopg.connect(first.replace("+psycopg", ""))
    forgotten.execute("LOCK TABLE kept")
    forgotten.execute("INSERT INTO kept VALUES (2)")
    databases.drop(first)
    with databases.lent("one") as second:
        assert second == first
        assert asked(second, "SELECT row FROM kept") == [(1,)]
    with pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    forgotten.close()


def test_a_role_that_may_only_create_databases_drops_them_all(server):
    """It may not silence triggers, so nothing is used again."""
    server.ask("CREATE ROLE modest LOGIN CREATEDB")
    databases = Databases(server.url().replace("ledger@", "modest@"))
    databases.template("one", make_one)
    first = databases.fresh("one")
    databases.drop(first)
    assert databases.fresh("one") != first
    databases.close()
    server.ask("DROP ROLE modest")


def test_what_a_killed_run_left_on_another_server_is_dropped_by_the_next(server, databases):
    """What belongs to a run that still goes on is not."""
    server.ask("CREATE DATABASE ledger_test_00000000_1")
    Databases(server.url()).close()
    names = {name for (name,) in server.ask("SELECT datname FROM pg_database")}
    assert "ledger_test_00000000_1" not in names
    assert any(name.startswith(databases.mark) for name in names)
