"""What the commands that run every minute import, and ask a server first: start-up is most of an idle tick."""

import itertools
import os
import subprocess
import sys

import pytest

from tests import sent
from tests.engines import on, once
from tests.fleets import PATIENCE

NEVER = {"alembic", "rich", "sqlalchemy.orm"}
"""What no frequent command needs: migrations, a terminal library, an ORM."""
SERVERS = {"psycopg", "sqlalchemy.dialects.postgresql", "ledger.postgres"}
"""What speaks to a server: where the store is a file nobody needs it."""
SWEEP = {"kanban.sweep", "kanban.starting", "kanban.snapshot", "kanban.spawn"}
CHANGES = SWEEP | {"kanban.board", "kanban.verbs", "kanban.commands", "kanban.decide", "kanban.claims", "kanban.plan"}
"""What decides and changes: whoever only looks does not need it."""
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
LOOKS = [["list"], ["show", "CARD"], ["why", "CARD"], ["runs", "CARD"], ["stats"], ["events"]]
BEATS = [["heartbeat", "CARD", "RUN"], ["progress", "CARD", "on it", "RUN"], ["complete", "CARD", "RUN"]]


@pytest.fixture
def imported(fleet):
    """Which of *watched* a process has imported once it has done what *argv* says about a card that is claimed."""
    card = fleet.create("a")
    run = fleet.claim(card)

    def probed(argv, watched):
        words = [word.replace("CARD", card) for word in argv if word != "RUN"]
        probe = PROBE.format(argv=[*words, *(run if "RUN" in argv else ())], watched=watched)
        command = [sys.executable, "-c", probe]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=True, cwd="/", env=os.environ
        )
        code, *found = ran.stderr.splitlines()[-1].split()
        assert code == "0", ran
        return found

    return probed


@on("sqlite")
@pytest.mark.parametrize("argv", [["--version"], *LOOKS, *BEATS, ["create", "b"], ["claim", "--next"], ["sweep"]])
def test_frequent_commands_import_nothing_heavy(fleet, imported, argv):
    """Of a board with a card on it that nobody can start."""
    fleet.create("another")
    assert imported(argv, NEVER | SERVERS) == []


@on("postgresql")
@pytest.mark.parametrize("argv", [["list"], BEATS[0], ["claim", "--next"], ["sweep"]])
def test_at_a_server_frequent_commands_import_nothing_heavy_but_what_speaks_to_it(fleet, imported, argv):
    """That is a fifth of their start-up."""
    fleet.create("another")
    assert set(imported(argv, NEVER | SERVERS)) == SERVERS


@on("postgresql")
@pytest.mark.parametrize("argv", [*LOOKS, ["create", "b"], ["sweep"]])
def test_a_server_is_asked_little_before_the_board_is_looked_at(fleet, argv):
    """Four questions of SQLAlchemy's, five of ours, and none about its tables: those are the long ones."""
    card = fleet.create("a")
    said = []
    with sent.heard(lambda _, text, __: said.append(text)):
        fleet.ok(*(word.replace("CARD", card) for word in argv))
    before = list(itertools.takewhile(lambda text: "FROM boards" not in text, said))
    assert len(before) <= 9, before
    assert not [text for text in before if "pg_class" in text]


@once
@pytest.mark.parametrize("argv", [["--version"], *LOOKS, *BEATS])
def test_only_the_sweep_looks_at_processes(imported, argv):
    """Nothing else needs psutil, or what starts workers."""
    assert imported(argv, {"psutil"} | SWEEP) == []


@once
@pytest.mark.parametrize("argv", LOOKS)
def test_who_only_looks_loads_nothing_that_changes_a_board(imported, argv):
    """The rules of every command are as long to load as the list is to make."""
    assert imported(argv, CHANGES) == []


@once
def test_the_version_is_said_before_anything_is_loaded(imported):
    """Scripts ask for it to know whether the program is there at all."""
    libraries = {"typing", "pathlib", "importlib.metadata", "json", "typer", "pydantic", "sqlalchemy"}
    assert imported(["--version"], libraries | {"cli.app", "ledger", "kanban", "projections"}) == []
