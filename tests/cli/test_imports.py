"""What the commands that run every minute import: start-up is most of an idle tick."""

import os
import subprocess
import sys

import pytest

NEVER = {"alembic", "rich", "psycopg", "sqlalchemy.orm"}
"""No command that only looks, and no idle sweep, needs migrations, a terminal library, a server's driver or an ORM."""
PROBE = """
import sys
import cli.main
sys.argv = ["ledger", *{argv!r}]
try:
    cli.main.main()
except SystemExit as end:
    code = end.code or 0
print(code, *sorted({watched!r} & set(sys.modules)), file=sys.stderr)
"""


def imported(*argv, watched):
    """Which of *watched* a process has imported once it has done what *argv* says."""
    probe = PROBE.format(argv=list(argv), watched=watched)
    command = [sys.executable, "-c", probe]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd="/", env=os.environ)
    code, *found = ran.stderr.splitlines()[-1].split()
    assert code == "0", ran
    return found


@pytest.mark.parametrize("argv", [["--version"], ["list"], ["sweep"]])
def test_frequent_commands_import_nothing_heavy(fleet, argv):
    """Of a board with a card on it that nobody can start."""
    fleet.create("a")
    assert imported(*argv, watched=NEVER) == []


@pytest.mark.parametrize("argv", [["--version"], ["list"]])
def test_only_the_sweep_looks_at_processes(fleet, argv):
    """Nothing else needs psutil."""
    fleet.create("a")
    assert imported(*argv, watched={"psutil"}) == []
