"""The live page of 20,000 cards: its first page, what an open one costs, and what twenty of them cost a sweep.

The page is served by `ledger serve`, a process of its own; the twenty open pages are a third process, and do what a
browser does: they hear the event stream, and fetch the tiles that have changed. Wall time, for that is what people and
ticks wait for; looks at the log are processor time.

python -m benchmarks.dashboard URL COOKIE        the open pages: they say `open` once they are
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from benchmarks.boards import Store, card_id, commented, growing, mixed, settle
from benchmarks.measure import ROUNDS, Duel, Row, cpu, growth, medians, rounds, scaled, spent, wall
from benchmarks.sweep import DEAD, Dying
from dashboard.source import Source
from dashboard.stream import Watch
from ledger.database import writing
from ledger.standing import head
from ledger.store import append, version
from ledger.upgrade import open_store
from projections import read_models

CARDS, EVENTS, FEW = scaled(20_000, least=500), scaled(1_000_000, least=25_000), scaled(1_000, least=100)
PAGES: Final = 20
LOOKS: Final = 200
TOLD: Final = 20
TICKS: Final = 4
FIRST_PAGE, NO_CHANGE, SLOWED = 300, 10, 1.1
_TOGETHER: Final = 100


def rows(scratch: Path) -> Iterator[Row]:
    """On one board, with a short log and with a long one; and on a small board."""
    short, small = mixed(scratch / "short", growing(CARDS)), mixed(scratch / "small", growing(FEW))
    long = lengthened(mixed(scratch / "long", growing(CARDS)))
    yield from first_pages(short, long)
    yield from looks(small, long)
    yield from slowed(long)
    for store in (short, small, long):
        store.close()


def lengthened(store: Store) -> Store:
    """*store* with a log of `EVENTS`: comments on its cards, a hundred cards at a time."""
    engine, said = open_store(store.url), [commented()]
    with writing(engine) as tx:
        end = head(tx, "default")
    each, at = (EVENTS - end.position) // CARDS + 1, end.at
    for start in range(1, CARDS + 1, _TOGETHER):
        with writing(engine) as tx:
            for card in (card_id(number) for number in range(start, min(start + _TOGETHER, CARDS + 1))):
                drafts = [draft._replace(task=card) for draft in said * each]
                append(tx, "default", drafts, expected=version(tx, "default", card), at=at)
    read_models.rebuild(engine, "default")
    engine.dispose()
    settle(store)
    return store


# The first page


def first_pages(short: Store, long: Store) -> Iterator[Row]:
    """What somebody waits for who opens the board: its whole page, and the same as JSON."""
    with served(short) as before, served(long) as after:
        cases = {
            "page": lambda: spent(lambda: after.fetched("/")),
            "JSON": lambda: spent(lambda: after.fetched("/api/board")),
            "search": lambda: spent(lambda: after.fetched("/api/board?q=number+19")),
            "page of a short log": lambda: spent(lambda: before.fetched("/")),
        }
        times = rounds(cases)
    what = f"of {CARDS:,} cards and {EVENTS:,} events"
    for name in ("page", "JSON", "search"):
        yield Row(f"first {name}, {what}", "–", [each * 1e3 for each in times[name]], FIRST_PAGE, False, "ms")
    figures, note = growth(times, "page", "page of a short log"), medians(times, "page", "page of a short log")
    yield Row("first page, with the long log against a short one", "itself", figures, 1.3, False, note=note)


class Browser:
    """Somebody at a server, with its token to write."""

    def __init__(self, said: dict[str, str]) -> None:
        self.url = said["url"].partition("/?")[0]
        self._client = httpx.Client(base_url=self.url, timeout=60)
        self._client.get("/", params={"token": said["write_url"].partition("token=")[2]})

    @property
    def cookie(self) -> str:
        """What the browser keeps."""
        ((name, value),) = self._client.cookies.items()
        return f"{name}={value}"

    def fetched(self, path: str) -> str:
        """The page at *path*."""
        answer = self._client.get(path)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.text


@contextmanager
def served(store: Store) -> Iterator[Browser]:
    """`ledger serve` on the board of *store*, and a browser at it."""
    command = [Path(sys.executable).with_name("ledger"), "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, env=store.environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Browser(json.loads(process.stdout.readline()))
        finally:
            process.terminate()


# What an open page costs


def looks(small: Store, long: Store) -> Iterator[Row]:
    """One look at the log for all open pages of a server, while nothing happens; and one after a card has moved."""
    open_pages = {"few cards": Open(small), "many cards": Open(long)}
    cases = {f"look, {name}": page.looked for name, page in open_pages.items()}
    cases |= {f"delta, {name}": page.told for name, page in open_pages.items()}
    times = rounds(cases)
    quiet = [each * 1e3 for each in times["look, many cards"]]
    yield Row(f"delta without a change, of {CARDS:,} cards", "–", quiet, NO_CHANGE, False, "ms")
    for what, kind in (("delta without a change", "look"), ("delta of one card", "delta")):
        sides = f"{kind}, many cards", f"{kind}, few cards"
        figures, note = growth(times, *sides), medians(times, *sides)
        yield Row(f"{what}, {CARDS:,} cards against {FEW:,}", "itself", figures, 1.3, False, note=note)


class Open:
    """The open pages of a server, whatever their number, and somebody who moves a card."""

    def __init__(self, store: Store) -> None:
        self.board = store.open()
        self.watch = Watch(Source.of(self.board))
        self.watch.look()

    def looked(self) -> float:
        """Processor seconds of a look at a board on which nothing happened."""
        return spent(lambda: [self._look(changed=False) for _ in range(LOOKS)], cpu, per=LOOKS)

    def told(self) -> float:
        """Processor seconds of a look after a comment, and of putting into words what it saw."""
        seconds = 0.0
        for number in range(TOLD):
            self.board.comment(card_id(1 + number), "look at this")
            seconds += spent(lambda: self._look(changed=True), cpu, per=TOLD)
        return seconds

    def _look(self, *, changed: bool) -> None:
        found = self.watch.look()
        assert (found is not None) == changed
        if found is not None:
            found.as_event()


# What twenty open pages cost a sweep


def slowed(store: Store) -> Iterator[Row]:
    """Ticks that book fifty deaths, with nobody looking and with twenty pages open, by turns."""
    dying, duel = Dying(store), Duel()
    with served(store) as browser:

        def alone(_: object) -> tuple[float, float]:
            return _tick(dying)

        def watched(_: object) -> tuple[float, float]:
            with pages(browser):
                return _tick(dying)

        for turn in range(-1, ROUNDS):
            duel.meet("tick", {"alone": alone, "watched": watched}, dict.fromkeys(("alone", "watched"), range(TICKS)))
            duel.end(warm=turn < 0)
    figures = growth(duel.times, "watched tick", "alone tick")
    note = medians(duel.times, "watched tick", "alone tick", "watched tick cpu", "alone tick cpu")
    yield Row(f"a tick that books {DEAD} deaths, beside {PAGES} open pages", "alone", figures, SLOWED, False, note=note)


def _tick(dying: Dying) -> tuple[float, float]:
    dying.prepared()
    busy, begun = cpu(), wall()
    dying.tick()
    return wall() - begun, cpu() - busy


@contextmanager
def pages(browser: Browser) -> Iterator[None]:
    """`PAGES` open pages at the server of *browser*."""
    command = [sys.executable, "-m", "benchmarks.dashboard", browser.url, browser.cookie]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield
        finally:
            process.terminate()


async def opened(url: str, cookie: str) -> None:
    """Open the pages, say so, and live as they do."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, headers={"cookie": cookie}, timeout=None, limits=limits) as client:
        begun = [asyncio.Event() for _ in range(PAGES)]
        living = [asyncio.create_task(_page(client, each)) for each in begun]
        for each in begun:
            await each.wait()
        print("open", flush=True)
        await asyncio.gather(*living)


async def _page(client: httpx.AsyncClient, begun: asyncio.Event) -> None:
    """Hear what happens, and fetch the tiles that have changed, as the page's script does."""
    position = (await client.get("/api/counts")).json()["position"]
    async with client.stream("GET", "/live", params={"after": position}) as stream:
        async for line in stream.aiter_lines():
            begun.set()
            if line.startswith("data: ") and (cards := json.loads(line.removeprefix("data: ")).get("cards")):
                await client.get("/fragments/tiles", params=[("id", card["id"]) for card in cards])


if __name__ == "__main__":
    asyncio.run(opened(*sys.argv[1:]))
