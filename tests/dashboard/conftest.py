"""The live page of a board in this process: a fresh store, an app on it, and a browser for each kind of visitor."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi import FastAPI
from starlette.exceptions import StarletteDeprecationWarning

from dashboard.app import make_app
from dashboard.source import Source
from dashboard.tokens import Grant, Tokens
from kanban.board import Board
from tests.cli import homes

with warnings.catch_warnings():  # it would rather have httpx2, which nothing else here needs
    warnings.simplefilter("ignore", StarletteDeprecationWarning)
    from starlette.testclient import TestClient

ADDRESS: Final = "http://127.0.0.1:8420"
READ, WRITE = "read-token-of-the-tests", "write-token-of-the-tests"
TOKENS: Final = Tokens((Grant("read", READ), Grant("write", WRITE), Grant("write", "another-write-token", "dana")))


@dataclass
class Site:
    """A board and its page, as visitors with and without tokens see it."""

    board: Board

    @cached_property
    def app(self) -> FastAPI:
        """The page's app."""
        return make_app(Source.of(self.board), TOKENS)

    @cached_property
    def nobody(self) -> TestClient:
        """A browser without a token."""
        return self.browser()

    @cached_property
    def reader(self) -> TestClient:
        """A browser that has opened the address with the read token."""
        return self._with_cookie(READ)

    @cached_property
    def writer(self) -> TestClient:
        """A browser that has opened the address with the write token."""
        return self._with_cookie(WRITE)

    def browser(self, **more: Any) -> TestClient:
        """A fresh browser, on the machine of the server."""
        client: Any = ("127.0.0.1", 50_000)
        return TestClient(self.app, base_url=ADDRESS, follow_redirects=False, client=client, **more)

    def create(self, title: str = "a card", **more: Any) -> str:
        """The id of a new card."""
        return str(self.board.create(title, **more).task["id"])

    def _with_cookie(self, token: str) -> TestClient:
        browser = self.browser()
        assert browser.get("/", params={"token": token}).status_code == 303
        return browser


@pytest.fixture(scope="session")
def founded(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> homes.Home:
    """A home after `ledger init`, to be copied."""
    return homes.founded(engine_name, tmp_path_factory.mktemp("founded") / engine_name)


@pytest.fixture
def face(founded: homes.Home, tmp_path: Path) -> Iterator[Board]:
    """A board without cards, opened by ada."""
    home = tmp_path / "home"
    with founded.lent(home) as url, Board.open(environ=homes.variables(home, url), cwd=tmp_path) as board:
        yield board


@pytest.fixture
def site(face: Board) -> Site:
    """Its page."""
    return Site(face)
