"""A browser for the whole run, the story's board served once to look at, and a copy of it for whoever changes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import showcase, sites
from tests.browser.sites import Site

expect.set_options(timeout=sites.LONG * 1_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each file: while it is there an event loop runs in this thread, and no other test may have one."""
    try:
        with sites.launched() as found:
            yield found
    except sites.NoBrowser as fault:
        pytest.fail(str(fault), pytrace=False)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder in which the story lies, and its cards."""
    folder = tmp_path_factory.mktemp("story")
    return folder, showcase.founded(f"sqlite:///{folder}/ledger.db", folder)


@pytest.fixture(scope="session")
def shown(story: tuple[Path, dict[str, str]]) -> Iterator[Site]:
    """The story's board, for those who only look; its time stands."""
    folder, named = story
    with sites.served(folder, named, clock=lambda: showcase.END) as site:
        yield site


@pytest.fixture
def site(story: tuple[Path, dict[str, str]], tmp_path: Path, visit: sites.Visits) -> Iterator[Site]:
    """A copy of it, for those who change it; its time goes on, and its pages are closed before it ends."""
    folder, named = story
    with sites.served(sites.copied(folder, tmp_path / "home"), named) as found:
        yield found
        visit.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[sites.Visits]:
    """Opens pages; no script of any of them may fail or complain."""
    visits = sites.Visits(browser)
    yield visits
    visits.close()
    assert visits.wrong == []
