"""The event stream: what an open page is told, what that costs, and what is left of a page that is gone."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection

from dashboard import stream
from dashboard.board_view import Wanted, counts
from dashboard.source import Source
from dashboard.stream import Delta, Live, Reload, Watch
from kanban.board import Board
from ledger.errors import LedgerError, StoreBusy
from tests.dashboard.conftest import Site
from tests.engines import once

QUICK = 0.01  # seconds between two looks, where a test waits for one
LONG = 60.0  # seconds in which anything has happened, on the most loaded machine
Heard = tuple[str, dict[str, Any]]


def parsed(said: str) -> Heard:
    """Kind and data of an event; a comment is its own kind."""
    if said.startswith(":"):
        return said.strip(), {}
    fields = dict(line.split(": ", 1) for line in said.strip().splitlines())
    data = json.loads(fields["data"])
    assert fields.get("id") in {None, str(data.get("position"))}
    return fields["event"], data


class Page:
    """An open page: what it hears, one event after another."""

    def __init__(self, live: Live, after: int) -> None:
        self.said: AsyncIterator[str] = live.stream(after)

    async def open(self) -> None:
        """Open it: the first thing said is how soon to come again."""
        assert (await anext(self.said)).startswith("retry: ")

    async def next(self) -> Heard:
        """The next event."""
        return parsed(await asyncio.wait_for(anext(self.said), LONG))

    async def ends(self) -> None:
        """Wait for the end of the stream."""
        async for _ in self.said:
            pass


@asynccontextmanager
async def opened(live: Live, after: int, pages: int = 1) -> AsyncIterator[list[Page]]:
    """So many open pages."""
    found = [Page(live, after) for _ in range(pages)]
    for page in found:
        await page.open()
    yield found
    for page in found:
        await page.said.aclose()  # type: ignore[attr-defined]


def ran(story: Callable[[], Awaitable[None]]) -> None:
    """Run a *story* to its end."""
    asyncio.run(asyncio.wait_for(story(), 2 * LONG))  # type: ignore[arg-type]


def pollers() -> int:
    """How many tasks look at the log now and then."""
    return sum("Live._poll" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for it, as long as that takes."""
    while not holds():  # noqa: ASYNC110 – what is waited for is no event of this test's
        await asyncio.sleep(QUICK)


def head(face: Board) -> int:
    """Where the log ends."""
    return int(face.stats()["position"])


def counted(face: Board) -> dict[str, int]:
    """How many cards stand where, by a walk over the board."""
    with Source.of(face).reading() as tx:
        return counts(tx, face.name, Wanted())


def made(face: Board, title: str = "a card", **more: Any) -> str:
    """The id of a new card."""
    return str(face.create(title, **more).task["id"])


# What a page is told


def test_an_open_page_hears_what_happens(face: Board) -> None:
    """The card as it is now, with the column's counts and the position to come again with."""
    card = made(face)
    live = Live(Source.of(face), every=QUICK)

    async def story() -> None:
        async with opened(live, head(face)) as (page,):
            hearing = asyncio.create_task(page.next())
            await until(lambda: live.clients == 1)
            await asyncio.to_thread(face.block, card, "why")
            kind, said = await hearing
            assert (kind, said["position"], said["paused"]) == ("delta", head(face), [])
            assert [(tile["id"], tile["status"], tile["hold"]) for tile in said["cards"]] == [
                (card, "blocked", "operator")
            ]
            assert said["counts"] == counted(face)

    ran(story)


def test_a_page_that_comes_again_hears_what_it_has_missed(face: Board) -> None:
    """Once a card, however often it moved, and nothing of what it had seen."""
    made(face, "seen")
    seen = head(face)
    card = made(face, "new")
    face.comment(card, "hello")
    face.pause(reason="deploy")

    async def story() -> None:
        async with opened(Live(Source.of(face)), seen) as (page,):
            kind, said = await page.next()
            assert (kind, [tile["id"] for tile in said["cards"]]) == ("delta", [card])
            assert said["paused"] == [{"scope": "board", "name": "", "position": head(face)}]

    ran(story)


def test_children_of_a_card_that_is_settled_have_moved_too(face: Board) -> None:
    """No event is in their stream, but they wait no longer; cards that wait for others are left alone."""
    parent, other = made(face, "parent"), made(face, "other")
    child, stays = made(face, "child", parents=[parent]), made(face, "stays", parents=[other])
    seen = head(face)
    face.complete(parent)

    async def story() -> None:
        async with opened(Live(Source.of(face)), seen) as (page,):
            _, said = await page.next()
            assert {tile["id"]: tile["status"] for tile in said["cards"]} == {parent: "done", child: "ready"}
            assert stays not in json.dumps(said)

    ran(story)


def test_counts_are_those_of_the_board_whatever_happens(face: Board) -> None:
    """They are moved by what changed, and equal a walk over the whole board after every look."""
    source, chance = Source.of(face), random.Random(7)
    cards = [made(face, f"card {number}") for number in range(6)]
    watch = Watch(source)
    assert watch.look() is None
    acts: list[Callable[[str], Any]] = [
        lambda card: face.block(card, "why"), face.unblock, face.complete, face.reopen,
        lambda card: face.archive(card, children="keep"),
        lambda card: cards.append(made(face, "child", parents=[card])),
    ]  # fmt: skip
    for _ in range(40):
        for _ in range(chance.randrange(3)):
            try:
                chance.choice(acts)(chance.choice(cards))
            except LedgerError:  # a rule said no: nothing happened
                continue
        found = watch.look()
        assert found is None or (isinstance(found, Delta) and found.counts == counted(face))
        assert watch.position == head(face)
    again = watch.since(2)
    assert isinstance(again, Reload | Delta)
    assert isinstance(again, Reload) or again.counts == counted(face)


@pytest.mark.parametrize("why", ["too much has happened since", "too many cards", "the limits were changed", "ahead"])
def test_a_page_that_cannot_be_told_card_by_card_is_sent_to_read_anew(
    face: Board, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Behind too wide a gap, with too many cards, after the limits of all cards have moved, or from another log."""
    made(face)
    seen = head(face)
    cards = [made(face) for _ in range(3)]
    if why == "the limits were changed":
        face.set_policy(failure_limit=5)
    monkeypatch.setattr(stream, "WIDEST", 2 if why == "too much has happened since" else 100)
    monkeypatch.setattr(stream, "MOST_CARDS", 2 if why == "too many cards" else 100)
    after = seen if why != "ahead" else head(face) + 1

    async def story() -> None:
        live = Live(Source.of(face), every=QUICK)
        async with opened(live, after) as (page,):
            kind, said = await page.next()
            assert (kind, said["position"]) == ("reload", head(face))
            assert why in said["why"] or why == "ahead"
            await asyncio.to_thread(face.comment, cards[0], "on we go")
            kind, said = await page.next()
            assert (kind, [tile["id"] for tile in said["cards"]]) == ("delta", [cards[0]])

    ran(story)


def test_an_open_page_is_sent_to_read_anew_when_the_limits_change(face: Board) -> None:
    """Every gauge of every tile has another limit then; the counts are right again afterwards."""
    made(face)
    watch = Watch(Source.of(face))
    watch.look()
    face.set_policy(failure_limit=5)
    card = made(face)
    assert isinstance(watch.look(), Reload)
    face.complete(card)
    found = watch.look()
    assert isinstance(found, Delta)
    assert found.counts == counted(face)


# What it costs


@contextmanager
def nothing_but_the_head(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it whoever reads anything else of a board breaks."""

    def read(*_: object, **__: object) -> None:
        pytest.fail("something was read of a board on which nothing happened")

    with monkeypatch.context() as broken:
        for name in ("touched", "lines", "load_settings", "select"):
            broken.setattr(stream, name, read)
        yield


def test_where_nothing_happened_nothing_is_read_but_the_head(face: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the look of the server, and for a page that comes again."""
    made(face)
    watch = Watch(Source.of(face))
    watch.look()
    with nothing_but_the_head(monkeypatch):
        assert watch.look() is None
        assert watch.since(head(face)) is None
        made(face, "this is seen")
        with pytest.raises(pytest.fail.Exception):
            watch.look()


@once
def test_one_look_serves_all_pages(face: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty pages hear the same words, put together once; and there is one poller for all of them."""
    card = made(face)
    told: list[object] = []
    plain = stream.lines

    def lines(tx: Connection, board: str, ids: list[str]) -> Any:
        told.append(ids)
        return plain(tx, board, ids)

    monkeypatch.setattr(stream, "lines", lines)
    live = Live(Source.of(face), every=QUICK)

    async def story() -> None:
        async with opened(live, head(face), pages=20) as pages:
            hearing = [asyncio.create_task(page.next()) for page in pages]
            await until(lambda: live.clients == 20)
            await asyncio.to_thread(face.comment, card, "hello")
            heard = await asyncio.gather(*hearing)
            assert len({json.dumps(said) for said in heard}) == 1
            assert pollers() == 1

    ran(story)
    assert told == [[card]]


# Who is there


@once
def test_a_page_on_which_nothing_happens_hears_that_the_server_is_there(face: Board) -> None:
    """A comment, which a page does not see and a proxy does; then what happens as before."""
    live = Live(Source.of(face), every=QUICK, beat=QUICK)

    async def story() -> None:
        async with opened(live, head(face)) as (page,):
            assert await page.next() == (": still here", {})
            await asyncio.to_thread(made, face)
            while (said := await page.next())[0].startswith(":"):
                pass
            assert said[0] == "delta"

    ran(story)


@once
def test_nothing_is_left_of_pages_that_are_gone(face: Board) -> None:
    """The last one takes the poller along; the next page that is opened has one again."""
    live = Live(Source.of(face), every=QUICK)

    async def story() -> None:
        for _ in range(2):
            pages = [Page(live, head(face)) for _ in range(3)]
            hearing = [asyncio.create_task(_opened(page)) for page in pages]
            await until(lambda: live.clients == 3)
            for task in hearing:
                task.cancel()
            await asyncio.wait(hearing)
            for page in pages:
                await page.said.aclose()  # type: ignore[attr-defined]
            assert live.clients == 0
            await until(lambda: pollers() == 0)

    ran(story)


async def _opened(page: Page) -> Heard:
    await page.open()
    return await page.next()


@once
def test_a_server_that_ends_ends_its_streams(face: Board) -> None:
    """From another thread, as a signal does; and no new one begins."""
    live = Live(Source.of(face), every=QUICK)

    async def story() -> None:
        async with opened(live, head(face), pages=2) as pages:
            hearing = [asyncio.create_task(page.ends()) for page in pages]
            await until(lambda: live.clients == 2)
            await asyncio.to_thread(live.close)
            await asyncio.wait_for(asyncio.gather(*hearing), LONG)
        late = Page(live, head(face))
        await late.open()
        await late.ends()
        assert live.clients == 0

    ran(story)
    live.close()  # its loop is over: nobody is there to be told


@once
def test_a_page_that_reads_too_slowly_is_cut_off(face: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for it does not grow: it comes again with the last position that it has seen."""
    monkeypatch.setattr(stream, "_WAITING", 2)
    card = made(face)
    live = Live(Source.of(face), every=QUICK)

    async def story() -> None:
        async with opened(live, head(face)) as (page,):
            first = asyncio.create_task(page.next())
            await until(lambda: live.clients == 1)
            for number in range(12):  # as the page begins it may be told several at once
                await asyncio.to_thread(face.comment, card, str(number))
                await until(lambda: live._watch.position == head(face))
            assert (await first)[0] == "delta"
            await page.ends()

    ran(story)


@once
def test_a_store_that_cannot_be_read_is_told_once_and_the_stream_goes_on(
    face: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a password, should the address stand in what is said; and once it can be read again it is."""
    card = made(face)
    live = Live(Source.of(face), every=QUICK, beat=5 * QUICK)
    away, plain = [True], Watch.look

    def look(watch: Watch) -> Any:
        if away[0]:
            raise StoreBusy("postgresql://ann:hunter2@db/ledger is busy")
        return plain(watch)

    async def story() -> None:
        async with opened(live, head(face)) as (page,):
            monkeypatch.setattr(Watch, "look", look)
            kind, said = await page.next()
            assert (kind, "busy" in said["message"], "hunter2" in said["message"]) == ("trouble", True, False)
            assert [await page.next() for _ in range(2)] == [(": still here", {})] * 2
            await asyncio.to_thread(face.comment, card, "nobody sees this")
            away[0] = False
            while (heard := await page.next())[0].startswith(":"):
                pass
            assert heard == ("reload", {"why": "the board could not be read for a while", "position": head(face)})

    ran(story)


@once
def test_a_fault_in_one_look_ends_no_stream(
    face: Board, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, with its trace, and the page hears that something is wrong without its innards."""
    card, other = made(face), made(face)
    live = Live(Source.of(face), every=QUICK)
    plain = stream.lines
    monkeypatch.setattr(stream, "lines", lambda *_: 1 / 0)

    async def story() -> None:
        async with opened(live, head(face)) as (page,):
            hearing = asyncio.create_task(page.next())
            await until(lambda: live.clients == 1)
            await asyncio.to_thread(face.block, card, "its status moves unseen")
            kind, said = await hearing
            assert (kind, said) == ("trouble", {"message": "the server failed at that"})
            monkeypatch.setattr(stream, "lines", plain)
            assert (await page.next())[0] == "reload"
            await asyncio.to_thread(face.comment, other, "hello")
            kind, said = await page.next()
            assert (kind, said["counts"]) == ("delta", counted(face))

    ran(story)
    assert "ZeroDivisionError" in caplog.text


# The route


class Recorder:
    """In the place of the open pages: it keeps what it is asked for, and says one thing."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def stream(self, after: int) -> AsyncIterator[str]:
        """One comment."""
        self.asked.append(after)
        yield ": hello\n\n"


@once
@pytest.mark.parametrize(
    ("query", "last", "after"),
    [
        ({}, None, 0), ({"after": "7"}, None, 7), ({"after": "7"}, "9", 9), ({"after": "7"}, "", 7),
        ({"after": "7"}, "x", 7), ({"after": "7"}, "9" * 30, 7), ({"after": "7"}, "²", 7),
    ],
)  # fmt: skip
def test_a_page_says_where_it_was(site: Site, query: dict[str, str], last: str | None, after: int) -> None:
    """In the address when it is opened, in Last-Event-ID when its browser comes again: the later of the two counts."""
    site.app.state.live = recorder = Recorder()
    headers: Any = {} if last is None else {"last-event-id": last.encode("latin-1")}
    answer = site.reader.get("/live", params=query, headers=headers)
    assert (answer.status_code, answer.text, recorder.asked) == (200, ": hello\n\n", [after])
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"


@once
def test_a_place_that_is_none_is_refused(site: Site) -> None:
    """Before a stream begins."""
    for after in ("-1", "x", str(2**60)):
        assert site.reader.get("/live", params={"after": after}).status_code == 422
