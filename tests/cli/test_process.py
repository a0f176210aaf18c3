"""`ledger` as a process of its own: start-up, signals, pipes, bytes that are no text, and strangers in the way."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from cli import main
from cli.app import app_command
from tests.engines import once
from tests.fleets import PATIENCE

SCRIPT = Path(sys.executable).with_name("ledger")
ROOT = Path(main.__file__).resolve().parent.parent
HEAVY = {"sqlalchemy", "alembic", "psutil", "rich", "asyncio", "sqlite3", "pysqlite3", "kanban.board"}
"""Not Pydantic: Typer reads parameters with it."""


def process(*argv, **more):
    """Run the installed script."""
    return subprocess.run([SCRIPT, *argv], capture_output=True, timeout=PATIENCE, check=False, **more)


@pytest.mark.parametrize("argv", [["--help"], ["list", "--help"], ["--version"], [], ["nonsense"], ["list", "--bogus"]])
def test_help_loads_nothing_heavy(argv):
    """A sweep starts from cron every minute, and help is asked for more often than that."""
    probe = (
        "import sys, cli.main\n"
        f"sys.argv = ['ledger', *{argv!r}]\n"
        "try:\n    cli.main.main()\n"
        "except SystemExit:\n    pass\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=PATIENCE, check=True, cwd="/"
    )
    assert ran.stderr.splitlines()[-1] == "[]"


def test_importing_the_entry_loads_no_room():
    """It looks where the rooms come from before it takes anything from them."""
    probe = "import sys, cli.main; print(sorted({'ledger', 'kanban', 'projections', 'typer'} & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=PATIENCE, check=True, cwd="/"
    )
    assert ran.stdout == "[]\n"


@once
def test_every_command_has_help_that_names_the_global_options(ledger):
    """And one sentence of its own."""
    told = {argv: ledger.ok(*argv, "--help").out for argv in commands(app_command())}
    assert len(told) > 35
    for argv, said in told.items():
        assert "--actor" in said, argv
        assert said.split("\n\n")[1].strip().endswith("."), argv


@once
def test_a_command_that_is_built_alone_is_the_same(ledger, capsys):
    """The others are left out for speed alone: its help, and what is said of a slip in it, are to the letter."""
    alone = {argv: ledger.ok(*argv, "--help").out for argv in commands(app_command())}
    for argv, said in alone.items():
        app_command()([*argv, "--help"], prog_name="ledger", standalone_mode=False)
        assert capsys.readouterr().out == said
    assert "Did you mean 'list'" in ledger("lsit").err
    assert ledger("list", "--bogus").err.endswith("try: ledger list --help\n")


def commands(group, above=()):
    """Every command, as one types it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))
        else:
            yield (*above, name)


@once
def test_version(ledger):
    """The installed package's, however it is asked."""
    said = f"ledger {version('kanban-ledger')}\n"
    assert [ledger.ok("--version").out, ledger.ok("--quiet", "--version").out] == [said, said]
    assert process("--version", text=True).stdout == said


def test_a_version_that_nobody_can_read():
    """As with every other answer: 141 for a reader that has gone, one line for a full disk."""
    nobody, gone = os.pipe()
    os.close(nobody)
    full = os.open("/dev/full", os.O_WRONLY)
    environ = {
        name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"
    }  # it would hide a buffer
    told = [
        subprocess.run([SCRIPT, "--version"], stdout=out, stderr=subprocess.PIPE, env=environ, text=True, check=False)
        for out in (gone, full)
    ]
    os.close(gone)
    os.close(full)
    assert [(ran.returncode, ran.stderr.count("\n")) for ran in told] == [(141, 0), (1, 1)]
    assert "No space left" in told[1].stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_nobody_and_never_becomes_a_file(tmp_path, closed):
    """As under cron or a daemon: no traceback, the same code, and a store that stays whole."""
    environ = {"LEDGER_HOME": str(tmp_path), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for said in ("init", "create 'A card' --json", "list", "list --json", "show --help", "replay"):
        command = f"{SCRIPT} {said} {closed}"
        ran = subprocess.run(command, shell=True, env=environ, capture_output=True, text=True, check=False)
        assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), (said, ran)


@pytest.mark.parametrize("said", ["--version", "list", "list --json", "--help", "sweep --help", "show t_none --json"])
def test_an_answer_that_a_full_disk_does_not_take_is_one_line_and_code_1(tmp_path, said):
    """Even where a buffer took it first."""
    environ = {"LEDGER_HOME": str(tmp_path), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for words in ("init", "create 'A card'"):
        subprocess.run(f"{SCRIPT} {words}", shell=True, env=environ, capture_output=True, check=True)
    command = f"{SCRIPT} {said} > /dev/full"
    ran = subprocess.run(command, shell=True, env=environ, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1), ran
    assert "No space left" in ran.stderr


GARBAGE = """
import atexit, gc, sys, cli.main
from cli import wiring
usual, opened = gc.get_threshold(), wiring.Call._opened
def told(call, kind):
    before = gc.get_threshold()
    board = opened(call, kind)
    print(before != usual, gc.get_threshold() == usual, gc.get_freeze_count() > 10_000, file=sys.stderr)
    return board
wiring.Call._opened = told
atexit.register(lambda: print(len(gc.get_objects()), file=sys.stderr))
sys.argv = ["ledger", "list", "--quiet"]
cli.main.main()
"""


@once
def test_garbage_is_looked_for_once_work_begins(ledger):
    """Not while modules are loaded, nor at the end; in between as usual, or a loop would grow."""
    ran = subprocess.run([sys.executable, "-c", GARBAGE], capture_output=True, text=True, check=True, cwd="/")
    during, left = ran.stderr.splitlines()
    assert during == "True True True"
    assert int(left) < 1_000


def test_a_stranger_in_the_way_is_named(tmp_path):
    """One line that names the path, exit code 1, no traceback."""
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "__init__.py").write_text("raise SystemExit('the stranger was loaded')")
    ran = process("list", env={**os.environ, "PYTHONPATH": str(tmp_path)}, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"ledger: {tmp_path}/ledger/__init__.py stands in the way of {ROOT}/ledger\n"


@once
def test_a_plugin_of_another_package_is_not_loaded(ledger, tmp_path):
    """Pydantic would take any that is installed, and what is valid would depend on it."""
    (tmp_path / "stranger.py").write_text("raise SystemExit('the stranger was loaded')")
    (tmp_path / "stranger-1.dist-info").mkdir()
    (tmp_path / "stranger-1.dist-info" / "METADATA").write_text("Name: stranger\nVersion: 1\n")
    (tmp_path / "stranger-1.dist-info" / "entry_points.txt").write_text("[pydantic]\nstranger = stranger:plugin\n")
    ran = process("stats", "--quiet", env={**os.environ, "PYTHONPATH": str(tmp_path)}, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_all_rooms_are_ours():
    """And one that is not there is told, too."""
    assert main.shadowed() is None
    assert "not found" in main.shadowed(["no_such_room"])


def test_windows_is_refused(monkeypatch):
    """One line that names WSL."""
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as end:
        main.main()
    assert "WSL" in str(end.value)


@once
def test_bytes_that_are_no_text(ledger):
    """They arrive as lone surrogates; the line is one line of ASCII, or valid JSON."""
    ran = process(b"create", b"caf\xe9", env=os.environ)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(b"error: TITLE: text that is not UTF-8")
    ran = process(b"show", b"t_\xff", b"--json", env=os.environ)
    assert json.loads(ran.stdout)["error"]["code"] == "invalid_text"


def test_a_reader_that_goes_away_is_no_fault(ledger):
    """`ledger events | head -1`: nothing on stderr."""
    for number in range(30):
        ledger.create(f"card {number} " + "x" * 5_000)
    line = f"{SCRIPT} events --jsonl | head -c 100 >/dev/null; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=PATIENCE, check=True, env=os.environ
    )
    assert (ran.stdout, ran.stderr) == ("141\n", "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_loop(fleet, number, code):
    """Also one that waits for its next tick; every line before is whole."""
    child = subprocess.Popen(
        [SCRIPT, "sweep", "--every", "60s", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    )
    assert json.loads(child.stdout.readline())["schema"] == 1
    time.sleep(0.1)
    child.send_signal(number)
    rest, told = child.communicate(timeout=PATIENCE)
    assert (child.returncode, rest, b"Traceback" in told) == (code, b"", False)


def test_a_worker_speaks_through_the_command_line(ledger):
    """A real worker, started by a real sweep, completes its card with one word."""
    (ledger.home / "ledger.toml").write_text(
        f'[assignees.b]\ncommand = ["sh", "-c", \'"{SCRIPT}" complete "built it" --metadata 7\']\n'
    )
    card = ledger.create("a", "--assignee", "b")
    ran = process("sweep", "--until-idle", "--quiet", env=os.environ, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    last = ledger.json("events", card)["events"][-1]
    assert (last["kind"], last["words"]["summary"], last["words"]["metadata"]) == ("completed", "built it", 7)
    assert last["actor"] == {"kind": "worker", "name": "b", "host": last["actor"]["host"]}


def test_the_shell_completes():
    """Typer's completion answers with commands."""
    asked = {"_LEDGER_COMPLETE": "complete_bash", "COMP_WORDS": "ledger sw", "COMP_CWORD": "1"}
    ran = process(env={**os.environ, **asked}, text=True)
    assert ran.stdout.split() == ["sweep"]


@once
def test_a_narrow_locale_prints_json(ledger):
    """stdout that knows only ASCII gets escapes."""
    card = ledger.create("größer")
    asked = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert json.loads(process("show", card, "--json", env=asked).stdout)["task"]["title"] == "größer"
    assert b"gr\\xf6\\xdfer" in process("show", card, env=asked).stdout
