"""One fleet for each test: real workers, and none of them outlives it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import fleets
from tests.supervisors import Run


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
def make(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Supervisors for one test, none of which outlives it."""
    runs: list[Run] = []

    def make(**kwargs) -> Run:
        folder = tmp_path / str(len(runs))
        folder.mkdir()
        runs.append(Run(folder, **kwargs))
        return runs[-1]

    yield make
    for run in runs:
        run.clear()
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def run(make: Callable[..., Run]) -> Run:
    """One of them."""
    return make()
