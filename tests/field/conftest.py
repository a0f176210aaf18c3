"""One fleet for each test, the command line over the same home, and a board in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import output
from tests import fleets
from tests.cli.conftest import Ledger
from tests.rules.world import WorldView


@pytest.fixture(scope="session")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store to copy: founding takes longer than copying."""
    return fleets.new_template(tmp_path_factory.mktemp("founded"))


@pytest.fixture
def fleet(founded: Path, tmp_path: Path) -> Iterator[fleets.Fleet]:
    """A fresh fleet without assignees; what it leaves in the log is audited."""
    made = fleets.new_fleet(founded, tmp_path / "home")
    try:
        yield made
        made.audit()
    finally:
        made.end()


@pytest.fixture
def ledger(fleet: fleets.Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ledger:
    """The command line in the fleet's home, as ada types it."""
    for name in [name for name in os.environ if name.startswith("LEDGER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(fleet.home)
    for name, value in (fleet.environ | {"TZ": "UTC"}).items():
        monkeypatch.setenv(name, value)
    output.zone.cache_clear()
    return Ledger(fleet.home, capsys)


@pytest.fixture
def world() -> WorldView:
    """A board in memory, without cards."""
    return WorldView()
