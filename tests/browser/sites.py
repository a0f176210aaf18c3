"""The page of a real board, served by a thread of this process on a port of its own, and a browser to look at it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Final, Literal

import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from dashboard.app import make_app
from dashboard.serving import listen, url_of
from dashboard.source import Source
from dashboard.stream import Live
from dashboard.tokens import Grant, Tokens
from kanban import Board
from tests.browser import showcase

TOKENS: Final = {"read": "a-token-for-looking-only", "write": "a-token-for-acting-too"}
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
LONG: Final = 60.0
"""Seconds that anything may need on a machine that is busy."""
Role = Literal["read", "write"]


class NoBrowser(Exception):
    """There is no browser to test with; the message says how to get one."""


@dataclass(frozen=True)
class Site:
    """A board that is being served: where, and the board itself, to act on it from outside."""

    url: str
    board: Board
    named: dict[str, str]
    """The ids of the cards that tests ask for, by what the story calls them."""
    live: Live

    @property
    def open_streams(self) -> int:
        """How many pages are told what changes."""
        return self.live.clients

    def at(self, path: str, role: Role) -> str:
        """The address of *path* for somebody who comes for the first time, with a token."""
        return f"{self.url.rstrip('/')}{path}{'&' if '?' in path else '?'}token={TOKENS[role]}"

    def card(self, name: str) -> str:
        """The path of the page of a card."""
        return f"/card/{self.named[name]}"


@contextmanager
def served(
    folder: Path,
    named: dict[str, str],
    *,
    clock: Callable[[], int] | None = None,
    port: int = 0,
    name: str = showcase.BOARD,
) -> Iterator[Site]:
    """The board of the story that lies in *folder*; its time goes on from the end of the story unless *clock* says.

    *name*: another board.
    """
    begun = time.monotonic_ns()
    told = clock or (lambda: showcase.END + (time.monotonic_ns() - begun) // 1_000)
    environ = {"LEDGER_HOME": str(folder)}
    url = f"sqlite:///{folder}/ledger.db"
    with (
        Board.open(url, name, actor="dana", environ=environ, cwd=folder, clock=told) as board,
        _serving(board, port) as (address, live),
    ):
        yield Site(address, board, named, live)


@contextmanager
def _serving(board: Board, port: int) -> Iterator[tuple[str, Live]]:
    grants = (Grant("read", TOKENS["read"]), Grant("write", TOKENS["write"]))
    app = make_app(Source.of(board), Tokens(grants))
    server = uvicorn.Server(
        uvicorn.Config(app, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=3)
    )
    with closing(listen("127.0.0.1", port, guarded=False)) as door:
        thread = Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive(), "the server to begin")
            yield url_of(door), app.state.live
        finally:
            app.state.live.close()
            server.should_exit = True
            thread.join(LONG)


def until(true: Callable[[], Any], what: str) -> None:
    """Wait for something that takes as long as it takes."""
    end = time.monotonic() + LONG
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.01)


def copied(template: Path, folder: Path) -> Path:
    """A copy of the story's folder, to change it."""
    shutil.copytree(template, folder)
    folder.chmod(0o700)
    return folder


def browser_path(which: Callable[[str], str | None] = shutil.which) -> str:
    """Where a Chromium of this machine is. Raises `NoBrowser`."""
    found = next((path for name in BROWSERS if (path := which(name))), None)
    if found is None:
        raise NoBrowser("no Chromium on this machine: apt-get install -y --no-install-recommends chromium")
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """A Chromium, without a window."""
    path = browser_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Browser, site: Site, role: Role, **options: Any) -> Iterator[BrowserContext]:
    """A visitor who has shown a token of that *role*; *options* are Playwright's, for a context."""
    wanted = {"viewport": {"width": 1_440, "height": 900}, "locale": "en-GB", "timezone_id": "Europe/Berlin"}
    context = browser.new_context(base_url=site.url, **(wanted | options))
    context.set_default_timeout(LONG * 1_000)
    context.request.get(site.at("/", role))
    yield context
    context.close()


class Visits:
    """Pages that are open, and what went wrong in any of them."""

    def __init__(self, browser: Browser) -> None:
        self._browser, self._open = browser, ExitStack()
        self.wrong: list[str] = []

    def __call__(self, site: Site, path: str = "/", *, role: Role = "read", **options: Any) -> Page:
        """A new visitor's page at *path*."""
        page = self._open.enter_context(visiting(self._browser, site, role, **options)).new_page()
        page.on("console", lambda said: self.wrong.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda fault: self.wrong.append(str(fault)))
        page.goto(path)
        return page

    def close(self) -> None:
        """Close them all."""
        self._open.close()
