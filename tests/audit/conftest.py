"""An empty board of version 0.19 for every test that asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.boards import Board


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """A board without cards."""
    return Board(tmp_path)
