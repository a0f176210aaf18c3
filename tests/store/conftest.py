"""One fresh store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ledgers


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with the board `b` in it: migrating takes 70 ms, copying does not."""
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    ledgers.new_ledger(path).engine.dispose()
    return path


@pytest.fixture
def store(template: Path, tmp_path: Path) -> Iterator[ledgers.Ledger]:
    """A fresh store with the board `b` and its first event."""
    ledger = ledgers.copied(template, tmp_path / "ledger.db")
    yield ledger
    ledger.engine.dispose()
