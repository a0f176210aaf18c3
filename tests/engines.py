"""The databases that a test runs on: SQLite, and a real PostgreSQL; one suite for both.

A test that takes the fixture `engine_name`, or another that takes it, runs once on each. `pytestmark = on("sqlite")`,
or `@on("sqlite")` over one test, says what is about one of them alone.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

ENGINES: Final = ("sqlite", "postgresql")


def on(*engines: str) -> Any:
    """Run on these *engines* only."""
    return pytest.mark.engines(*engines)


once: Final = on("sqlite")
"""For a test whose subject is no store: it needs one, or only a home, and which one makes no difference."""


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Give the test an `engine_name` for each engine that it runs on."""
    if "engine_name" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("engines")
        metafunc.parametrize("engine_name", marked.args if marked else ENGINES, scope="session")


def of(item: pytest.Item) -> str | None:
    """The engine that a test runs on, or none where it is about none."""
    called = getattr(item, "callspec", None)
    return None if called is None else called.params.get("engine_name")
