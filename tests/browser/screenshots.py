"""`make screenshots`: the pictures of the manual, of the story's board and of `ledger demo`'s.

python -m tests.browser.screenshots

They are for eyes: look at them before they are committed. Fonts are this machine's: with Inter (`fonts-inter`) they
look as those in the repository do.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from playwright.sync_api import Browser, Page

from ledger.clock import system_clock
from tests.browser import showcase, sites
from tests.browser.sites import Site

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
_NARROW: Final = {"viewport": {"width": 360, "height": 720}, "device_scale_factor": 2}


class Shot(NamedTuple):
    """A picture: its name, the page's path, how it is looked at, and what is done first."""

    name: str
    path: Callable[[Site], str]
    options: dict[str, Any]
    first: Callable[[Page], None] = lambda _: None


def _looked_back(page: Page, position: str) -> None:
    page.locator("#at").fill(position)
    page.locator("#past").wait_for()
    page.locator("#at").blur()


SHOTS: Final = (
    Shot("board", lambda _: "/", {}),
    Shot("board-dark", lambda _: "/", {"color_scheme": "dark"}),
    Shot("lanes", lambda _: "/?lanes=1", {}),
    Shot("card", lambda site: site.card("silent"), {"viewport": {"width": 1_440, "height": 1_180}}),
    Shot("past", lambda _: "/", {"color_scheme": "dark"}, lambda page: _looked_back(page, "492")),
    Shot("changes", lambda _: "/changes?from=519", {}),
    Shot("pictures", lambda _: "/pictures", {"viewport": {"width": 1_440, "height": 1_480}}),
    Shot("phone", lambda _: "/", _NARROW),
    Shot("phone-dark", lambda site: site.card("rounding"), {**_NARROW, "color_scheme": "dark"}),
)


OF_DEMO: Final = (
    Shot("demo-board", lambda _: "/", {}),
    Shot("demo-card", lambda site: site.card("stuck"), {"viewport": {"width": 1_440, "height": 1_180}}),
    Shot("demo-past", lambda _: "/", {}, lambda page: _looked_back(page, "40")),
    Shot("demo-pictures", lambda _: "/pictures", {"viewport": {"width": 1_440, "height": 1_480}}),
)


def take(folder: Path) -> None:
    """Take every picture into *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    _of_story(folder)
    _of_demo(folder)


def _of_demo(folder: Path) -> None:
    """Of what `ledger demo` leaves behind."""
    ledger = Path(sys.executable).with_name("ledger")
    told = json.loads(subprocess.run([ledger, "demo", "--json"], check=True, capture_output=True).stdout)
    home = Path(told["home"])
    stuck = next(card["id"] for card in told["tasks"] if (card["hold"] or {}).get("cause") == "violation_budget")
    try:
        with sites.served(home, {"stuck": stuck}, clock=system_clock, name="default") as site:
            _all(OF_DEMO, site, folder)
    finally:
        shutil.rmtree(home)


def _of_story(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ledger-story-") as home:
        named = showcase.founded(f"sqlite:///{home}/ledger.db", Path(home))
        clock: Callable[[], int] = lambda: showcase.END  # noqa: E731 – a clock that stands
        with sites.served(Path(home), named, clock=clock) as site:
            _all(SHOTS, site, folder)


def _all(shots: Sequence[Shot], site: Site, folder: Path) -> None:
    with sites.launched() as browser:
        for shot in shots:
            _take(browser, site, shot, folder)


def _take(browser: Browser, site: Site, shot: Shot, folder: Path) -> None:
    with sites.visiting(browser, site, "write", **shot.options) as context:
        page = context.new_page()
        page.goto(shot.path(site))
        page.locator("#live[data-state=live], main:not([data-position])").first.wait_for()
        shot.first(page)
        page.screenshot(path=folder / f"{shot.name}.png")
        print(folder / f"{shot.name}.png")  # noqa: T201 – a script


if __name__ == "__main__":
    take(FOLDER)
