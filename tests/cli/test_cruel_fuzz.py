"""Every command of the app with generated values, in sequences on one store: it ends well, and the log stays whole.

`LEDGER_FUZZ_EXAMPLES=5000 pytest tests/cli/test_cruel_fuzz.py` looks longer, and each time elsewhere.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sqlite3
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from itertools import count
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from cli.app import app_command, run
from tests.cli import homes
from tests.engines import on

EXAMPLES = int(os.environ.get("LEDGER_FUZZ_EXAMPLES", "0"))
CODES = {*range(10), 130, 141}
ENDLESS = {("demo",), ("serve",), ("watch",), ("owner",), ("worker", "client"), ("worker", "ask")}
"""Commands that go on, or take half a minute: also those that wait for an owner."""
LEFT_OUT = {"follow", "every", "until_idle"}
"""Parameters that go on for ever."""
ASSIGNEES = """\
max_running = 1
[assignees.quick]
command = ["true"]
on_success = "complete"
[assignees.failing]
command = ["sh", "-c", "exit 3"]
[assignees.nowhere]
command = ["/no/such/program", "{prompt}"]
[assignees.dana]
human = true
"""
CARDS = ("ready", "running", "blocked", "done", "review", "triage", "child", "archived", "quick", "failing")

# What is typed

GARBAGE = ("", " ", "none", "t_", "t_nowhere", "-", "--", "-x", "--no-such-flag", "a\0b", "\udcff", "\x1b[2J", "'; --",
           "../../x", "%s{0}{task}", "é" * 300, "\u202etxet", "🧑‍🚀", "\N{COMBINING ACUTE ACCENT}",
           "a\r\nb\x85c\u2028d", "x" * 20_000, "*", "[]", "null", "=", "--json", "@")  # fmt: skip
NUMBERS = ("0", "-1", "1", "2", "3", "9", "1000000000", "1000000001", "2147483648", "9223372036854775807",
           "9223372036854775808", "1" + "0" * 30, "1e5", "NaN", "inf", " 1 ", "١", "0x10", "1_0", "+1", "1.0",
           "")  # fmt: skip
DURATIONS = ("0", "1", "90", "5m", "1h30m", "2d", "520w", "521w", "3650d", "3651d", "-5m", "1e3", "m", "٣m", "none", "",
             "9" * 400)  # fmt: skip
TIMES = ("now", "+2h", "+0", "tomorrow 09:00", "25:00", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z",
         "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59", "0001-01-01", "10000-01-01", "2026-06-30T23:59:60Z",
         "2026-03-29T02:30", "+3650d", "yesterday", "")  # fmt: skip
FILES = ("no-such-file", "text", "noise", "folder", "folder/new", "/dev/null", "home/ledger.db", "copy.db")
GOOD = {
    **dict.fromkeys(("task", "tasks", "child", "parent", "first"), tuple(f"CARD-{name}" for name in CARDS)),
    **dict.fromkeys(("assignee", "to", "reviewer"), ("quick", "failing", "nowhere", "dana", "ann", "none")),
    "lock": ("LOCK",), "run": ("1",), "pid": ("PID",), "label": ("red", "none"), "tenant": ("acme", "none"),
    "key": ("k", "l"), "when": TIMES, "result": ("-", "text"), "cost": ("0.25", "1e-9", "1E+9"),
    "metadata": ('{"a": [1, null, 1e300]}', "1"), "kind": ("needs_input", "dependency", "claimed", "created"),
    "cause": ("operator", "worker", "failure_budget"), "host": (os.uname().nodename,),
    "workspace": ("scratch", "dir:folder", "dir:/no/such", "worktree:folder", "dir:"),
}  # fmt: skip
BAD = {
    "metadata": ('"\\u0000"', '{"a": NaN}', "[" * 3_000, "{", ""), "lock": ("wrong", "", "\0"), "run": NUMBERS,
    "pid": NUMBERS, "cost": NUMBERS, "when": DURATIONS, "result": FILES,
}  # fmt: skip
GLOBAL = (["--quiet"], ["--verbose"], ["--board", "default"], ["--board", "b2"], ["--help"], ["--config", "?FILE"],
          ["--actor", "?"], ["--board", "?"], ["--database", "?URL"])  # fmt: skip
URLS = ("nonsense", "sqlite://", "sqlite:///text", "sqlite:///folder", "sqlite:///no-such-file", "", "postgresql://",
        "postgresql+psycopg://ada:pw@/no_such?host=/nonexistent", "postgresql://h:port/db", "postgresql+asyncpg://h/db",
        "postgresql:///db?no_such_option=1", "postgresql:///db?host=/nonexistent&connect_timeout=x")  # fmt: skip


def some_text(dice):
    """Garbage that was thought of, or that nobody thought of."""
    if dice.random() < 0.6:
        return dice.choice(GARBAGE)
    return "".join(chr(dice.choice((dice.randrange(128), dice.randrange(0x110000)))) for _ in range(dice.randrange(20)))


def value_of(param, dice):
    """What may be typed for one parameter: mostly what makes sense, or a line would end at its first word."""
    kind = param.type_descriptor.annotation
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if kind is Path:
        return dice.choice(FILES)
    if get_origin(kind) is Literal:
        good, bad = get_args(kind), GARBAGE
    elif kind in {int, float} or param.metavar in {"N", "N|none"}:
        good, bad = GOOD.get(param.name, ("1", "2", "3")), NUMBERS
    elif "DURATION" in (param.metavar or ""):
        good, bad = ("1", "90", "5m", "2d"), DURATIONS
    else:
        good, bad = GOOD.get(param.name, ("a text", "another\nof two lines")), BAD.get(param.name)
    if dice.random() < 0.85:
        return dice.choice(good)
    return some_text(dice) if bad is None else dice.choice(bad)


def words_of(param, dice):
    """The words that give one parameter, once or oftener."""
    if param.param_type_name == "argument":
        return [value_of(param, dice) for _ in range(1 if param.nargs == 1 or dice.random() < 0.7 else 3)]
    if param.is_flag:
        return [param.opts[0]]
    return [word for _ in range(1 + (dice.random() < 0.1)) for word in (param.opts[0], value_of(param, dice))]


def leaves(command, path=()):
    """Every command of the tree, with the words that lead to it."""
    for name, each in getattr(command, "commands", {}).items():
        yield from leaves(each, (*path, name))
    if not getattr(command, "commands", {}):
        yield path, [param for param in command.params if param.name not in LEFT_OUT]


COMMANDS = {path: params for path, params in leaves(app_command()) if path not in ENDLESS}


def line_of(dice):
    """A command line: a real command, its arguments mostly there, some of its options, in any order."""
    path = dice.choice(sorted(COMMANDS))
    params = COMMANDS[path]
    arguments = [param for param in params if param.param_type_name == "argument" and dice.random() < 0.95]
    options = [param for param in params if param.param_type_name != "argument"]
    options = dice.sample(options, min(len(options), dice.choice((0, 1, 1, 2, 2, 4))))
    groups = [words_of(param, dice) for param in options]
    if dice.random() < 0.2:
        values = {"?": some_text(dice), "?FILE": dice.choice(FILES), "?URL": dice.choice(URLS)}
        groups.append([values.get(word, word) for word in dice.choice(GLOBAL)])
    groups += [["--json"]] * dice.randrange(2)
    dice.shuffle(groups)
    words = [word for param in arguments for word in words_of(param, dice)]
    return [*path, *words, *(word for group in groups for word in group)]


# Where it is typed


class Den:
    """A home to be cruel to, and the command line in it."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder
        self.url = url
        self.places: dict[str, str] = {"PID": str(os.getpid())}

    def __call__(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        kept, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b"from stdin"))
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = run([self.places.get(word, word) for word in argv])
        finally:
            sys.stdin = kept
        return code, out.getvalue(), err.getvalue()

    def json(self, *argv):
        code, out, err = self(*argv, "--json")
        assert code == 0, (argv, code, out, err)
        return json.loads(out)

    def log(self):
        """Position → hash, read behind the program's back."""
        if self.url is not None:
            return {row[2]: row[-1] for row in homes.rows(self.url)["events"] if row[1] == "default"}
        with sqlite3.connect(f"file:{self.folder}/home/ledger.db?mode=ro", uri=True) as raw:
            found = dict(raw.execute("SELECT position, hash FROM events WHERE board = 'default'"))
        raw.close()
        return found


@contextmanager
def inside(folder, url=None):
    """This process as ada's, in Berlin, in *folder*, whose home is `home`, with the store at *url*."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        with homes.environment(folder / "home", url):
            yield Den(folder, url)
    finally:
        os.chdir(here)


@pytest.fixture(scope="module")
def peopled(founded, tmp_path_factory):
    """A home whose board has a card of each kind on it, and what the words of `CARDS` and LOCK stand for."""
    places = {}

    def people(home):
        (home / "ledger.toml").write_text(ASSIGNEES)
        den = Den(home.parent, None)
        places.update({f"CARD-{name}": den.json("create", name)["task"]["id"] for name in CARDS})
        den.places |= places
        places["LOCK"] = den.json("claim", "CARD-running")["lock"]
        reviewed = den.json("claim", "CARD-review")
        den.json("review", "CARD-review", "look", "--lock", reviewed["lock"], "--reviewer", "dana")
        den.json("block", "CARD-blocked", "why")
        den.json("complete", "CARD-done", "done")
        den.json("edit", "CARD-triage", "--lane", "triage", "--label", "red", "--tenant", "acme")
        den.json("link", "CARD-child", "CARD-ready")
        den.json("archive", "CARD-archived")
        den.json("assign", "CARD-quick", "quick")
        den.json("assign", "CARD-failing", "failing")

    folder = tmp_path_factory.mktemp("peopled")
    return founded.then("peopled", people, folder / "home"), places


def furnished(folder):
    """*folder*, with what the words of `FILES` name."""
    folder.mkdir()
    (folder / "text").write_text("a text")
    (folder / "noise").write_bytes(b"\xff\x00\xfe")
    (folder / "folder").mkdir()
    return folder


NUMBER = count()
STARTED = re.compile(r'pid"?:? ([0-9]+)')


def told_well(argv, code, out, err):
    """What every answer owes: a code of the table, no traceback, and with --json one JSON object."""
    told = (argv, code, out[-2_000:], err[-2_000:])
    assert code in CODES, told
    assert "internal" not in err.partition(":")[0], told
    assert "Traceback" not in err, told
    if {"--help", "-h"} & set(argv):
        return
    if "--json" in argv[: argv.index("--") if "--" in argv else None]:
        objects = [json.loads(line) for line in out.splitlines()]
        assert len(objects) == 1 or ({"--jsonl", "export"} & set(argv) and code == 0), told
        assert all(each.get("error", {}).get("code") != "internal" for each in objects), told
        assert code in {0, 1, 7, 8} or "error" in objects[0] or "skipped" in objects[0], told
    elif code not in {0, 7}:
        assert err or argv[0] == "doctor", told  # what it finds is its answer


TYPED = given(st.lists(st.randoms(use_true_random=True).map(line_of), min_size=1, max_size=6))


def at_most(examples):
    """How many sequences are tried; with `LEDGER_FUZZ_EXAMPLES` so many, and each time others."""
    return settings(
        max_examples=EXAMPLES or examples, derandomize=not EXAMPLES, database=None, print_blob=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@on("sqlite")
@at_most(70)
@TYPED
def test_whatever_is_typed_ends_well(peopled, tmp_path_factory, typed):
    """Never a traceback; afterwards the replay is clean and the log has only grown."""
    ends_well(*peopled, tmp_path_factory, typed)


@on("postgresql")
@at_most(25)
@TYPED
def test_whatever_is_typed_at_a_server_ends_well(peopled, tmp_path_factory, typed):
    """As in a file: there a connection takes longer than most commands."""
    ends_well(*peopled, tmp_path_factory, typed)


def ends_well(home, places, tmp_path_factory, typed):
    folder = furnished(tmp_path_factory.getbasetemp() / f"den-{next(NUMBER)}")
    try:
        with home.lent(folder / "home") as url, inside(folder, url) as den:
            den.places |= places
            before = den.log()
            restored = [argv for argv in typed if is_well_told(den, argv) and argv[0] == "restore"]
            assert restored or before.items() <= den.log().items()
            code, out, _ = den("replay", "--strict", "--json")
            assert (code, json.loads(out).get("divergences")) == (0, []), out
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_well_told(den, argv):
    """Type it, bury what it started, and hold the answer against what it owes; whether it did what was asked."""
    note(argv)
    code, out, err = den(*argv)
    told_well(argv, code, out, err)
    for pid in STARTED.findall(out):
        bury(int(pid))
    return code == 0


def bury(pid):
    """Wait for a worker of ours: it ends at once."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def test_every_command_can_be_typed():
    """The walk over the tree finds the commands of the manual; without it the fuzz would be silent."""
    assert {("create",), ("sweep",), ("db", "rebuild"), ("config", "show"), ("policy",)} <= COMMANDS.keys()
    assert sum(map(len, COMMANDS.values())) > 80
