"""What every test shares: properties have no deadline, since a busy machine is no fault of the program."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import engines

gc.set_threshold(50_000, 20, 20)  # thousands of tests keep much: to walk it again and again takes a tenth of the time
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of the store runs on each database."""
    engines.parametrize(metafunc)


@pytest.fixture(autouse=True)
def a_board_is_a_shard(request: pytest.FixtureRequest) -> Iterator[object]:
    """On PostgreSQL the program says nothing that a distributed one could not do; who listens to it."""
    if engines.of(request.node) != "postgresql":
        yield None
        return
    from tests import strict

    with strict.watched() as watch:
        yield watch
