"""init, config show, db: what they make, what they say, and what they refuse."""

import shutil
import sqlite3

import pytest

from ledger.masked import masked
from tests.engines import on, once


@on("sqlite")
def test_init_makes_store_board_and_settings(bare):
    """Board, its id and where; a commented ledger.toml; and what to run next."""
    said = bare.ok("init")
    assert said.out.startswith("board default made: id ")
    assert f"sqlite:///{bare.home}/ledger.db" in said.out
    assert f"settings: {bare.home}/ledger.toml" in said.out
    assert "next: ledger create" in said.err
    assert (bare.home / "ledger.toml").read_text().startswith("#")
    assert (bare.home / "ledger.db").stat().st_mode & 0o777 == 0o600


def test_init_twice_is_harmless(ledger):
    """It says so; the log and the settings stay as they are."""
    (ledger.home / "ledger.toml").write_text('actor = "ann"\n')
    before = ledger.json("events")
    said = ledger.json("init")
    assert said.keys() >= {"schema", "board", "board_id", "database"}
    assert (said["board"], said["created"], said["config"]) == ("default", False, None)
    assert "is there already; nothing was changed" in ledger.ok("init").out
    assert ledger.json("events") == before
    assert (ledger.home / "ledger.toml").read_text() == 'actor = "ann"\n'


def test_init_of_a_second_board(ledger):
    """In the same store; its cards are its own."""
    ledger.create("a")
    assert ledger.json("init", "--board", "other")["created"] is True
    assert ledger.json("list", "--board", "other")["tasks"] == []


@pytest.mark.parametrize("name", ["Not-Lower", "a/b", "..", "a b", "x" * 65, "ä"])
def test_a_board_has_a_plain_name(bare, name):
    """It stands in paths."""
    assert bare("init", "--board", name).code == 2
    assert bare.bytes() == []


@on("sqlite")
def test_init_leaves_other_databases_alone(bare, tmp_path):
    """StoreExists; nothing in it is changed."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    before = path.read_bytes()
    said = bare("init", "--database", f"sqlite:///{path}", "--json")
    assert (said.code, said.error["code"]) == (8, "store_exists")
    assert path.read_bytes() == before


@pytest.mark.parametrize("argv", [("list",), ("create", "a"), ("db", "status"), ("db", "upgrade"), ("db", "rebuild")])
def test_without_a_store_nothing_is_made(bare, argv):
    """8, and what to run; only init creates."""
    said = bare(*argv, "--json")
    assert (said.code, said.error["code"], said.error["try"]) == (8, "store_missing", "ledger init")
    assert bare.bytes() == []


def test_another_board_is_not_found(ledger):
    """5, with the command that would make it."""
    said = ledger("list", "--board", "nowhere", "--json")
    assert (said.code, said.error["code"]) == (5, "unknown_board")


@once
@pytest.mark.parametrize(
    "url", ["nonsense", "oracle://x", "sqlite://", "sqlite:///:memory:", "postgresql://u:secret@h:port/db"]
)
def test_an_address_that_nobody_speaks(ledger, url):
    """8, without its password."""
    said = ledger("list", "--database", url)
    assert said.code == 8, said
    assert "secret" not in said.err


@on("sqlite")
def test_a_damaged_store_is_named(ledger):
    """8; nothing is written over it."""
    path = ledger.home / "ledger.db"
    path.write_bytes(b"this is no database, and long enough to be read as one" * 100)
    said = ledger("list", "--json")
    assert (said.code, said.error["code"]) == (8, "store_damaged")


@pytest.mark.parametrize(("revision", "code"), [("0000", "store_outdated"), ("9999", "store_too_new")])
def test_a_store_of_another_version(ledger, revision, code):
    """8 for commands; `db status` says which it is; `db upgrade --dry-run` changes nothing."""
    ledger.outside(f"UPDATE alembic_version SET version_num = '{revision}'")
    said = ledger("list", "--json")
    assert (said.code, said.error["code"]) == (8, code)
    status = ledger.json("db", "status")
    assert status.keys() == {"schema", "revision", "wanted"}
    assert (status["revision"], status["wanted"] != revision) == (revision, True)
    assert revision in ledger.ok("db", "status").out
    if code == "store_outdated":
        before = ledger.bytes()
        dry = ledger.json("db", "upgrade", "--dry-run")
        assert (dry["revision"], dry["dry_run"]) == (revision, True)
        assert ledger.bytes() == before
    else:
        assert ledger("db", "upgrade").code == 8


def test_db_upgrade_of_a_store_that_is_current(ledger):
    """Nothing to do."""
    said = ledger.json("db", "upgrade")
    assert said["revision"] == said["wanted"] == said["before"]
    assert "nothing to do" in ledger.ok("db", "upgrade").out


def test_db_rebuild(ledger):
    """The same answers as before, folded anew."""
    ledger.create("a")
    before = ledger.json("list")
    assert ledger.json("db", "rebuild") == {"schema": 1, "board": "default", "position": 3}
    assert "folded anew up to position 3" in ledger.ok("db", "rebuild").out
    assert ledger.json("list") == before


def test_config_show(fleet):
    """Every value and where it came from; files are named."""
    values = fleet.json("config", "show", "--actor", "ann")["values"]
    assert values["actor"] == {"value": "ann", "origin": "--actor"}
    assert values["assignees.dana.human"] == {"value": True, "origin": f"{fleet.home}/ledger.toml"}
    assert "FROM" not in fleet.ok("config", "show").out
    assert "FROM" in fleet.ok("config", "show", "--origin").out
    assert str(fleet.home / "ledger.toml") in fleet.ok("config", "show").err


def test_groups_alone_print_their_help(ledger):
    """`ledger`, `ledger db` and `ledger config`."""
    for argv in ((), ("db",), ("config",)):
        assert "Usage: ledger" in ledger.ok(*argv).out


def test_json_without_a_command_is_a_usage_error(ledger):
    """Help is no JSON."""
    for argv in ((), ("db",), ("config",)):
        said = ledger(*argv, "--json")
        assert (said.code, said.error["code"]) == (2, "usage")


def test_verbose_says_which_board_and_why(ledger):
    """On stderr, passwords masked."""
    said = ledger.ok("list", "--verbose", "--actor", "ann")
    origin = "default" if ledger.url.startswith("sqlite") else "LEDGER_DATABASE_URL"
    assert said.err.startswith(f"board default (default); store {masked(ledger.url)} ({origin}); settings:")


def test_a_file_of_the_folder_is_told_when_it_is_not_read(ledger, tmp_path):
    """It defines commands, so others must not have written it."""
    found = tmp_path / "here" / "ledger.toml"
    found.write_text('actor = "mallory"')
    found.chmod(0o666)
    assert f"note: {found} was not read: it is group- or world-writable" in ledger.ok("list").err


@once
@pytest.mark.parametrize("written", ["assignes = 1", "not toml", "[assignees.x]\ncommand = 7"])
def test_a_fault_in_the_settings_names_file_and_line(ledger, written):
    """2, whatever the command."""
    (ledger.home / "ledger.toml").write_text(written)
    said = ledger("list", "--json")
    assert (said.code, said.error["code"]) == (2, "config_fault")
    assert f"{ledger.home}/ledger.toml:" in said.error["message"]


@once
def test_a_home_that_is_a_file(bare, tmp_path, monkeypatch):
    """One line, no traceback."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LEDGER_HOME", str(tmp_path / "file"))
    said = bare("init")
    assert said.code in {1, 8}
    assert "internal" not in said.err


def test_the_actor_stands_on_what_is_done(ledger, monkeypatch):
    """--actor beats LEDGER_ACTOR beats the user's name."""
    card = ledger.create("a")
    monkeypatch.setenv("LEDGER_ACTOR", "bob")
    ledger.ok("comment", card, "x")
    ledger.ok("comment", card, "y", "--actor", "ann")
    assert [event["actor"]["name"] for event in ledger.json("events", card)["events"]] == ["ada", "bob", "ann"]


@on("sqlite")
def test_a_store_that_cannot_be_written_says_so(ledger):
    """8: nothing was changed."""
    shutil.copy(ledger.home / "ledger.db", ledger.home / "copy.db")
    (ledger.home / "copy.db.gate").mkdir()
    said = ledger("create", "a", "--database", f"sqlite:///{ledger.home}/copy.db", "--json")
    assert (said.code, said.error["code"]) == (8, "store_full")
