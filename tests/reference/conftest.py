"""One fleet for each test: real workers, and none of them outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fleets


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
