"""A workspace is its agent's: whatever modules lie there, none of them is ever imported by us.

What an agent's own `python agent.py` imports is its own: docs/design.md §4 says how to start it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleets import PATIENCE, sh, until

NAMES = (
    "kanban", "cli", "ledger", "projections", "migrations", "json", "os", "sqlite3", "pysqlite3", "logging", "re",
    "typer", "sqlalchemy", "pydantic", "sitecustomize",
)  # fmt: skip
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
VERBS = "ledger show; ledger claim --check; ledger progress 'half way'; ledger heartbeat; ledger complete 'all of it'"


@pytest.fixture
def workspace(fleet):
    """A folder full of traps: each tells when it is imported."""
    folder = fleet.home / "repository"
    for number, name in enumerate(NAMES):
        trap = folder / name / "__init__.py" if number % 2 else folder / f"{name}.py"
        trap.parent.mkdir(parents=True, exist_ok=True)
        trap.write_text(f"open({str(fleet.home / 'sprung')!r}, 'a').write({name!r})\nraise SystemExit(99)\n")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(sh(VERBS), id="ledger"),
        pytest.param([sys.executable, str(EXAMPLES / "agent.py"), "sh", "-c", "cat; echo done"], id="agent"),
        pytest.param([str(EXAMPLES / "agent.sh"), "sh", "-c", "cat; echo done"], id="shell-agent"),
        pytest.param(
            [sys.executable, "-P", "-c", "from kanban import Worker; Worker.from_environment().complete('done')"],
            id="safe-path",
        ),
    ],
)
def test_a_worker_imports_nothing_of_its_workspace(fleet, workspace, command):
    """Neither its supervisor, nor `ledger`, nor an agent that lies elsewhere."""
    fleet.staff({"w": {"command": command}})
    card = fleet.create(workspace=f"dir:{workspace}")
    fleet.finish(card)
    until(lambda: not fleet.members(card))
    assert not (fleet.home / "sprung").exists()


@pytest.mark.parametrize("argv", [["list"], ["sweep"], ["claim", "--next"], ["--help"], ["replay"]])
def test_ledger_imports_nothing_of_the_folder_that_it_is_run_in(fleet, workspace, argv):
    """The script's own folder is the first where Python looks, and never the working folder."""
    fleet.staff({"w": {"command": sh("ledger complete done")}})
    card = fleet.create()
    script = Path(sys.executable).parent / "ledger"
    ran = subprocess.run(
        [script, *argv], env=fleet.environ, cwd=workspace, capture_output=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran
    assert not (fleet.home / "sprung").exists()
    if argv == ["sweep"]:
        fleet.finish(card)


def test_the_traps_can_spring(fleet, workspace):
    """An agent of the workspace's own gets the workspace's own modules: that cannot be promised away."""
    (workspace / "agent.py").write_text("import kanban")
    environ = {"PATH": os.environ["PATH"]}
    for flags, sprung in ((["-P"], False), ([], True)):
        subprocess.run([sys.executable, *flags, "agent.py"], env=environ, cwd=workspace, check=False, timeout=PATIENCE)
        assert (fleet.home / "sprung").exists() is sprung
