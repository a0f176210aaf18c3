"""A disk that is full, and folders that may not be written: one line, and nothing half written or half claimed."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import shutil
import subprocess
import time
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import pytest

from cli.app import run
from tests.cli.conftest import Said
from tests.engines import on
from tests.fleets import until

PROBES = """\
max_running = 4
[assignees.quick]
command = ["true"]
on_success = "complete"
"""
WRITES = (
    ("create", "another", "--body", "LONG"), ("edit", "CARD", "--title", "b"), ("assign", "CARD", "ann"),
    ("link", "CARD", "OTHER"), ("comment", "CARD", "LONG"), ("schedule", "CARD", "+1h"), ("archive", "CARD"),
    ("reopen", "DONE"), ("claim", "CARD"), ("complete", "CARD", "LONG"), ("block", "CARD", "LONG"), ("stop", "CARD"),
    ("unblock", "BLOCKED"), ("pause",), ("policy", "--run-limit", "9"), ("sweep",), ("db", "rebuild"),
)  # fmt: skip
LONG = "x" * 200_000


def in_child(argv, *prepare):
    """`ledger` *argv* in a process of its own after *prepare*: limits and users cannot be taken back."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        out, err = io.StringIO(), io.StringIO()
        try:
            for step in prepare:
                step()
            with redirect_stdout(out), redirect_stderr(err):
                code = run(argv)
        except BaseException as fault:  # noqa: BLE001 – the parent is to see it
            code, out = -1, io.StringIO(repr(fault))
        with os.fdopen(write_end, "wb") as pipe:
            pickle.dump((code, out.getvalue(), err.getvalue()), pipe)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        said = Said(*pickle.load(pipe))
    os.waitpid(child, 0)
    return said


@pytest.fixture
def cards(ledger):
    """A board with an assignee, and what the words of `WRITES` stand for."""
    (ledger.home / "ledger.toml").write_text(PROBES)
    places = {name: ledger.create(name) for name in ("CARD", "OTHER", "DONE", "BLOCKED")}
    ledger.ok("complete", places["DONE"])
    ledger.ok("block", places["BLOCKED"], "why")
    return places | {"LONG": LONG}


def told(said):
    """8 or 1, in one line or one JSON object that names no bug."""
    assert said.code in {1, 8}, said
    if said.out:
        (line,) = said.out.splitlines()
        answer = json.loads(line)
        assert answer.get("error", {"code": None})["code"] != "internal", said
    else:
        lines = said.err.splitlines()
        assert len([line for line in lines if line.startswith("error: ")]) == 1, said
        assert "internal" not in said.err, said


def log_of(ledger):
    return [event["hash"] for event in ledger.json("events")["events"]]


def whole(ledger, before):
    """The log is what it was, and the audit finds nothing."""
    assert log_of(ledger) == before
    assert ledger.json("replay", "--strict")["divergences"] == []


def no_file_beyond(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@on("sqlite")
@pytest.mark.parametrize("argv", WRITES, ids=lambda argv: argv[0])
def test_where_no_file_may_grow_nothing_is_written(ledger, cards, argv):
    """`ulimit -f`, a quota: the log is what it was before, and once there is room the same command works."""
    before = log_of(ledger)
    line = [cards.get(word, word) for word in argv]
    if argv == ("sweep",):
        ledger.ok("assign", cards["CARD"], "quick")
        before = log_of(ledger)
    told(in_child([*line, "--json"], partial(no_file_beyond, 4_096)))
    told(in_child(line, partial(no_file_beyond, 4_096)))
    whole(ledger, before)
    ledger.ok(*line)


@on("sqlite")
@pytest.mark.parametrize("room", [20_000, 60_000, 100_000, 200_000])
def test_a_write_that_runs_out_of_room_in_the_middle_is_no_write(ledger, cards, room):
    """Whatever was acknowledged is there, and nothing else."""
    size = (ledger.home / "ledger.db").stat().st_size
    acknowledged = 0
    for _ in range(6):
        said = in_child(["comment", cards["CARD"], "y" * 40_000, "--json"], partial(no_file_beyond, size + room))
        if said.code == 0:
            acknowledged += 1
        else:
            told(said)
    assert len(ledger.json("show", cards["CARD"])["comments"]) == acknowledged
    assert ledger.json("replay", "--strict")["divergences"] == []


# A file system of its own


@contextmanager
def small_disk(folder, size):
    """A file system of *size* KiB at *folder*; skipped where none can be mounted."""
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    """Leave no block of the file system free."""
    with (folder / "filler").open("wb", buffering=0) as file:
        for size in (4_096, 1_024, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass


@on("sqlite")
def test_on_a_full_disk_nothing_is_written_and_with_room_it_goes_on(ledger, cards, monkeypatch, tmp_path):
    """8 or 1 for everything that writes; afterwards the log is whole and every command works."""
    with small_disk(tmp_path / "disk", 4_096) as disk:
        shutil.copytree(ledger.home, disk / "home")
        monkeypatch.setenv("LEDGER_HOME", str(disk / "home"))
        before = log_of(ledger)
        fill(disk)
        for argv in WRITES:
            told(ledger(*(cards.get(word, word) for word in argv), "--json"))
        (disk / "filler").unlink()
        whole(ledger, before)
        for argv in WRITES[:4]:
            ledger.ok(*(cards.get(word, word) for word in argv))
        assert ledger.json("replay", "--strict")["divergences"] == []


def test_a_sweep_claims_nothing_that_it_cannot_start(ledger, cards, monkeypatch, tmp_path):
    """The store has room and the home, where prompts and logs go, has none: 1, it says so, and no run is spent."""
    ids = [ledger.create(f"card {number}", "--assignee", "quick") for number in range(3)]
    with small_disk(tmp_path / "disk", 256) as disk:
        home = disk / "home"
        home.mkdir()
        shutil.copy(ledger.home / "ledger.toml", home)
        monkeypatch.setenv("LEDGER_DATABASE_URL", ledger.url)
        monkeypatch.setenv("LEDGER_HOME", str(home))
        fill(disk)
        before = log_of(ledger)
        said = ledger("sweep", "--json")
        assert (said.code, said.json["claimed"]) == (1, []), said
        assert "No space left" in said.json["errors"][0]["error"]
        told(ledger("sweep"))
        whole(ledger, before)
        (disk / "filler").unlink()
        assert len(ledger.json("sweep")["claimed"]) == 3
        until(lambda: ledger("sweep").code == 0 and not ledger.json("stats")["live"])
    assert {ledger.json("show", card)["task"]["status"] for card in ids} == {"done"}


@on("sqlite")
@pytest.mark.parametrize("room", range(0, 400, 80))
def test_a_sweep_that_runs_out_of_room_on_the_way_books_all_or_nothing(ledger, cards, room):
    """SQLite gives a whole transaction up by itself where a disk is full: what comes after must not stand alone."""
    for number in range(8):
        ledger.create(f"card {number}", "--assignee", "quick")
    before = log_of(ledger)
    size = (ledger.home / "ledger.db").stat().st_size
    said = in_child(["sweep", "--json"], partial(no_file_beyond, max(4_096, room * 1_024)))
    after = log_of(ledger)
    assert after[: len(before)] == before
    assert ledger.json("replay", "--strict")["divergences"] == []
    if said.code == 0:
        assert len(said.json["claimed"]) == 4, (size, said)
    else:
        told(said)


# Folders that may not be written


NOBODY = 65_534


def as_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@pytest.fixture
def readable(ledger, cards, tmp_path):
    """The home as another user may read it."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes somebody else")
    shared = Path("/tmp") / f"cruel-{os.getpid()}-{time.monotonic_ns()}"
    shutil.copytree(ledger.home, shared / "home")
    for path in (shared, *shared.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield shared / "home"
    shutil.rmtree(shared)


@on("sqlite")
@pytest.mark.parametrize("argv", [*WRITES, ("list",), ("show", "CARD"), ("replay",), ("init",)], ids=" ".join)
def test_a_folder_that_may_not_be_written_is_said_to_be_so(readable, ledger, cards, argv, monkeypatch):
    """8 or 1 and one line, reads too where SQLite must write beside the store; not a byte is changed."""
    monkeypatch.setenv("LEDGER_HOME", str(readable))
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.chdir("/")
    before = {path: path.read_bytes() for path in readable.rglob("*") if path.is_file()}
    for form in ((), ("--json",)):
        said = in_child([*(cards.get(word, word) for word in argv), *form], as_nobody)
        if argv[0] in {"list", "show", "replay", "init"} and said.code == 0:
            continue
        told(said)
    assert {path: path.read_bytes() for path in readable.rglob("*") if path.is_file()} == before
