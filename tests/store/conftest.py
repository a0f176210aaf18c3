"""One fresh store for each test, empty or with a lived-in log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import audits, ledgers


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


@pytest.fixture(scope="session")
def lived(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store whose rows fill every column of the projections that a legal log can fill."""
    path = tmp_path_factory.mktemp("lived") / "ledger.db"
    store = ledgers.copied(template, path)
    audits.live(store)
    store.engine.dispose()
    return path


@pytest.fixture
def board(lived: Path, tmp_path: Path) -> Iterator[ledgers.Ledger]:
    """A store of its own with the lived-in log."""
    ledger = ledgers.copied(lived, tmp_path / "ledger.db")
    yield ledger
    ledger.engine.dispose()
