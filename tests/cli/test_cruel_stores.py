"""A file that is no store, or no longer whole: every command says so in one line, and leaves it as it was found.

What the same is on a server stands in test_cruel_servers.py.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3

import pytest

from cli.app import app_command
from ledger.database import sqlite_module
from tests.engines import on
from tests.fleets import until

pytestmark = on("sqlite")

PROBES = """\
max_running = 1
[assignees.crasher]
command = ["sh", "-c", "exit 3"]
[assignees.dana]
human = true
"""
COMMANDS = (
    ("create", "a"), ("edit", "CARD", "--title", "b"), ("assign", "CARD", "ann"), ("link", "CARD", "OTHER"),
    ("unlink", "CARD", "OTHER"), ("comment", "CARD", "hi"), ("schedule", "CARD", "+1h"), ("archive", "CARD"),
    ("archive", "CARD", "--cascade", "--dry-run"), ("reopen", "CARD"), ("claim", "--next"), ("claim", "CARD"),
    ("heartbeat", "CARD", "--lock", "l"), ("progress", "CARD", "--lock", "l"), ("complete", "CARD"),
    ("block", "CARD", "why"), ("review", "CARD", "--lock", "l"), ("changes", "CARD", "why"), ("unblock", "CARD"),
    ("unblock", "--all", "--cause", "operator", "--dry-run"), ("stop", "CARD"), ("accept", "CARD", "1"), ("list",),
    ("show", "CARD"), ("board",), ("why", "CARD"), ("runs", "CARD"), ("log", "CARD"), ("stats",), ("events",),
    ("events", "CARD"), ("events", "--jsonl"), ("sweep",), ("sweep", "--dry-run"), ("pause",), ("resume",), ("replay",),
    ("replay", "--strict"), ("policy",), ("policy", "--run-limit", "9"), ("db", "status"), ("db", "upgrade"),
    ("db", "upgrade", "--dry-run"), ("db", "rebuild"), ("worker", "run", "CARD", "--", "true"),
    ("verify",), ("checkpoint",), ("export",), ("redact", "3"), ("metrics",), ("diff", "1"), ("db", "snapshot"),
    ("list", "--at", "2"), ("replay", "--at", "2"),
)  # fmt: skip
"""Every command that opens a store that must be there, with what it needs."""
OTHERS = {
    "init",
    "demo",
    "config",
    "doctor",
    "backup",
    "restore",
    "prune",
    "owner",
    "audit",
    "import",
    "serve",
    "watch",
}
"""They make a store, look after one (see test_care.py), need a file that is there first, or open no store of ours."""
READS = (
    ("list",), ("list", "--sort", "updated", "--limit", "3"), ("show", "CARD"), ("show", "OTHER"), ("board",),
    ("why", "CARD"), ("why", "OTHER"), ("runs", "CARD"), ("log", "CARD"), ("stats",), ("events",), ("events", "OTHER"),
    ("policy",), ("db", "status"), ("sweep", "--dry-run"),
    ("unblock", "--all", "--cause", "failure_budget", "--dry-run"),
)  # fmt: skip
LOOKS_BACK = (("diff", "1"), ("list", "--at", "2"), ("show", "CARD", "--at", "2"), ("stats", "--at", "2"))
"""The same of an earlier position."""


@pytest.fixture(scope="module")
def lived(founded, tmp_path_factory):
    """A home whose store has cards of many kinds in it, real runs too, and two of its cards."""
    from tests.cli.test_cruel_fuzz import inside

    folder = tmp_path_factory.mktemp("lived")
    shutil.copytree(founded.folder, folder / "home")
    (folder / "home" / "ledger.toml").write_text(PROBES)
    with inside(folder) as den:
        ids = [
            den.json("create", f"card {number} {'x' * 60}", "--body", "y" * 300, "--label", "red", "--key",
            f"k{number}",
                     "--assignee", "crasher" if number == 0 else "ann")["task"]["id"]
            for number in range(24)
        ]  # fmt: skip
        den.json("sweep")
        until(lambda: den.json("sweep")["booked"])
        den.json("link", ids[2], ids[1])
        for number, verb in enumerate(("complete", "block", "review", "complete"), start=4):
            lock = den.json("claim", ids[number])["lock"]
            den.json("progress", ids[number], "half", "--tokens", "5", "--cost", "0.5", "--lock", lock)
            den.json(verb, ids[number], "said", "--lock", lock)
        den.json("claim", ids[9])
        den.json("comment", ids[5], "hello")
        den.json("schedule", ids[10], "+2h")
        den.json("archive", ids[11])
        den.json("pause", "--assignee", "zed")
        den.json("policy", "--failure-limit", "1")
        den.json("sweep", "--max", "0")
    return folder / "home", {"CARD": ids[0], "OTHER": ids[5]}


# Stores that are none


def missing(path, _whole):
    """Nothing is there."""


def empty(path, _whole):
    path.touch()


def folder(path, _whole):
    path.mkdir()


def pipe(path, _whole):
    os.mkfifo(path)


def device(path, _whole):
    path.symlink_to("/dev/zero")


def dangling(path, _whole):
    path.symlink_to(path.parent / "nowhere")


def text(path, _whole):
    path.write_text("hello\n")


def one_byte(path, _whole):
    """SQLite itself takes it for an empty file."""
    path.write_text("\n")


def long_text(path, _whole):
    path.write_text("hello\n" * 5_000)


def foreign(path, _whole):
    run_sql(path, "CREATE TABLE recipes (name)")


def foreign_and_live(path, _whole):
    """A write-ahead log lies beside it, as after a crash: folding it in would be a change."""
    die_after(path, "PRAGMA journal_mode=WAL", "CREATE TABLE recipes (name)")
    assert path.with_name(f"{path.name}-wal").stat().st_size


def emptied(path, _whole):
    run_sql(path, "CREATE TABLE recipes (name)", "DROP TABLE recipes")


def older(path, whole):
    path.write_bytes(whole)
    run_sql(path, "UPDATE alembic_version SET version_num = '0000'")


def newer(path, whole):
    path.write_bytes(whole)
    run_sql(path, "UPDATE alembic_version SET version_num = '9999'")


def of_no_revision(path, whole):
    path.write_bytes(whole)
    run_sql(path, "UPDATE alembic_version SET version_num = x'ff00'")


def without_revision(path, whole):
    path.write_bytes(whole)
    run_sql(path, "DELETE FROM alembic_version")


def run_sql(path, *statements):
    """As another program."""
    other = sqlite_module().connect(path, isolation_level=None)
    for statement in statements:
        other.execute(statement)
    other.close()


def die_after(path, *statements):
    """As another program that is killed before it has closed the file."""
    child = os.fork()
    if child == 0:
        other = sqlite_module().connect(path, isolation_level=None)
        for statement in statements:
            other.execute(statement)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


KINDS = {
    missing: "store_missing", empty: "store_missing", folder: "store_missing", pipe: "store_missing",
    device: "store_missing", dangling: "store_missing", text: "store_damaged", long_text: "store_damaged",
    one_byte: "store_damaged", foreign: "store_missing", foreign_and_live: "store_missing", emptied: "store_missing",
    older: "store_outdated",
    newer: "store_too_new", of_no_revision: "store_damaged", without_revision: "store_missing",
}  # fmt: skip
ANSWERED = {older: ("db status", "db upgrade", "db upgrade --dry-run"), newer: ("db status",)}
"""What may look at a store of another revision: that is what it is for."""


def looked_at(folder):
    """What lies in *folder*: kind, mode and bytes; SQLite's index of a log that is there anyway left out."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
        if not path.name.endswith("-shm")
    }


def tried(ledger, places, store, argv, form):
    """Type *argv* at *store*; what lies around it before and after."""
    before = looked_at(store.parent)
    line = (*(places.get(word, word) for word in argv), "--database", f"sqlite:///{store}", *form)
    said = ledger(*line)
    assert looked_at(store.parent) == before, line
    return said


def refused(said, code=None):
    """8 and one clear line, or one JSON object."""
    assert said.code == 8, said
    if said.out:
        assert code is None or said.error["code"] == code, said
        assert said.error["message"].isprintable(), said
    else:
        fault, *remedy = said.err.splitlines()
        assert fault.startswith("error: "), said
        assert [line[:5] for line in remedy] in ([], ["try: "]), said


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_no_store_of_this_program_is_left_alone_by_every_command(bare, lived, tmp_path, kind):
    """8, one line; nothing is made, mended or folded in."""
    home, places = lived
    store = tmp_path / "there" / "x.db"
    store.parent.mkdir()
    kind(store, (home / "ledger.db").read_bytes())
    for number, argv in enumerate(COMMANDS):
        if " ".join(argv) not in ANSWERED.get(kind, ()):
            refused(tried(bare, places, store, argv, [(), ("--json",)][number % 2]), KINDS[kind])


@pytest.mark.parametrize(
    "kind", [folder, pipe, device, text, one_byte, long_text, foreign, foreign_and_live, newer, older, of_no_revision]
)
def test_init_makes_nothing_where_something_is(bare, lived, tmp_path, kind):
    """It may be somebody else's."""
    store = tmp_path / "there" / "x.db"
    store.parent.mkdir()
    kind(store, (lived[0] / "ledger.db").read_bytes())
    refused(tried(bare, {}, store, ("init",), ("--json",)))
    assert not bare.home.exists()


def test_every_command_is_tried():
    """A new one is added to the table above."""
    assert {argv[0] for argv in COMMANDS} | OTHERS >= set(app_command().commands)


# Stores that were cut short


def test_a_store_that_was_cut_short_is_left_alone(bare, lived, tmp_path):
    """At every boundary of a page and at odd sizes: 8, and not one byte is mended."""
    home, places = lived
    whole = (home / "ledger.db").read_bytes()
    store = tmp_path / "there" / "x.db"
    store.parent.mkdir()
    sizes = {1, 15, 16, 18, 21, 24, 28, 99, 100, 511, 512, 513, *range(4_096, len(whole), 4_096), len(whole) - 1}
    for size, argv in zip(sorted(sizes | {size + 1 for size in sizes} - {len(whole)}), itertools.cycle(COMMANDS)):
        store.write_bytes(whole[:size])
        refused(tried(bare, places, store, argv, ("--json",)), "store_damaged")


def test_a_log_beside_a_store_that_was_cut_short_is_left_alone(bare, lived, tmp_path):
    """Folding it in would write into what must be restored."""
    home, places = lived
    store = tmp_path / "there" / "x.db"
    store.parent.mkdir()
    store.write_bytes((home / "ledger.db").read_bytes())
    die_after(store, "CREATE TABLE more (name)")
    with store.open("r+b") as file:
        file.truncate(8_192)
    for argv in (("list",), ("create", "a"), ("sweep",), ("db", "status")):
        said = tried(bare, places, store, argv, ("--json",))
        assert said.code == 8, (argv, said)


# Stores in which a bit fell over

FLIPS = 130
TABLES = ("boards", "events", "words", "tasks", "runs", "links", "settings")
"""What a replay compares; leases, held and sweeps are no part of the log."""


def stored(path):
    """All values of *path*, read past every index; none where SQLite cannot read it."""
    raw = sqlite_module().connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        raw.text_factory = bytes  # a broken text of the schema is no broken value
        schema = raw.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
        raw.text_factory = str
        rows = {table: sorted(map(repr, raw.execute(f"SELECT * FROM {table} NOT INDEXED"))) for table in TABLES}
        return rows | {"schema": schema}
    except (sqlite_module().Error, UnicodeDecodeError):
        return None
    finally:
        raw.close()


@pytest.mark.parametrize("part", range(4))
def test_a_bit_that_fell_over_is_found_or_did_no_harm(bare, lived, tmp_path, part):
    """7 where a stored value changed, 8 where SQLite cannot read; 0 only where it is what it was. No traceback."""
    home, places = lived
    whole, told = (home / "ledger.db").read_bytes(), stored(home / "ledger.db")
    used = [page for page in range(0, len(whole), 4_096) if any(whole[page : page + 4_096])]
    dice = random.Random(part)
    reads = itertools.cycle((*READS, *LOOKS_BACK))
    store = tmp_path / "there" / "x.db"
    store.parent.mkdir()
    for number in range(part, FLIPS, 4):
        flipped = bytearray(whole)
        at = used[number % len(used)] + dice.randrange(4_096)
        flipped[at] ^= 1 << dice.randrange(8)
        store.write_bytes(flipped)
        values = stored(store)
        expected = {0, 8} if values == told else {7, 8}  # 8: a page that no value stands on cannot be read
        if values is not None and values["schema"] != told["schema"]:
            expected = {0, 7, 8}
        for argv in (("replay", *["--strict"][: number % 2]), next(reads), next(reads), next(reads)):
            said = bare(*(places.get(word, word) for word in argv), "--database", f"sqlite:///{store}", "--json")
            told_so = (at, argv, said)
            assert said.code in ({0, 1, 5, 8} if argv[0] != "replay" else expected), told_so
            assert json.loads(said.out).get("error", {}).get("code") != "internal", told_so
            assert "Traceback" not in said.err, told_so
        assert store.read_bytes() == flipped, at


def test_values_of_the_wrong_kind_anywhere_are_damage_and_no_bug(bare, lived, tmp_path):
    """Column by column: text for numbers, numbers for text, nothing, and JSON that is none."""
    home, places = lived
    store = tmp_path / "there" / "x.db"
    store.parent.mkdir()
    with sqlite3.connect(home / "ledger.db") as raw:
        triggers = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        columns = [
            (table, name)
            for table in (*TABLES, "leases", "held", "sweeps")
            for _, name, *_ in raw.execute(f"PRAGMA table_info({table})")
            if name not in {"board", "position", "task", "version"}
        ]
    raw.close()
    values = itertools.cycle(
        ("'zzz'", "x'ff'", "'{'", "-1", "9223372036854775807", "'[]'", "1.5", "CAST(x'80' AS TEXT)")
    )
    reads = itertools.cycle((*READS, *LOOKS_BACK))
    for table, name in columns:
        store.write_bytes((home / "ledger.db").read_bytes())
        value = next(values)
        run_sql(store, "PRAGMA ignore_check_constraints=ON", "PRAGMA foreign_keys=OFF",
                *(f"DROP TRIGGER {trigger}" for trigger in triggers),
                f'UPDATE OR IGNORE {table} SET "{name}" = {value}')  # fmt: skip
        for argv in (next(reads),):
            said = bare(*(places.get(word, word) for word in argv), "--database", f"sqlite:///{store}", "--json")
            told_so = (table, name, value, argv, said)
            assert said.code in {0, 1, 5, 8}, told_so
            assert json.loads(said.out).get("error", {}).get("code") != "internal", told_so


def test_a_board_that_lost_its_row_is_damaged_and_not_unknown(ledger):
    """8: `ledger init`, which makes an unknown board, would only make it worse."""
    ledger.create("a")
    run_sql(ledger.home / "ledger.db", "DROP TRIGGER boards_no_delete", "DELETE FROM boards")
    for argv in (("list",), ("create", "b"), ("replay",)):
        refused(ledger(*argv, "--json"), "store_damaged")


def test_a_store_is_the_same_file_after_all_of_it(lived):
    """The tests above worked on copies."""
    home, _ = lived
    assert len(hashlib.sha256((home / "ledger.db").read_bytes()).digest()) == 32
    assert stored(home / "ledger.db") is not None
