"""The two kinds of fault that were reported of boards on the web, as tests of this one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import Engine

from dashboard.app import make_app
from dashboard.board_view import Wanted, board_view
from dashboard.serving import Unguarded, listen
from dashboard.source import Source
from dashboard.stream import Delta, Watch
from dashboard.tokens import Tokens
from kanban.board import Board
from ledger.database import reading
from tests import given, ledgers
from tests.dashboard.conftest import READ, WRITE, Site
from tests.engines import on

OPEN: Final = {"/healthz", "/readyz"}
WRITING: Final = {"authorization": f"Bearer {WRITE}"}
HUGE: Final = "x" * 200_000


def asked(site: Site) -> Iterator[tuple[str, str]]:
    """Method and path of every route, with something in each of its places."""
    for route in iter_route_contexts(site.app.routes):
        path = str(route.path).replace("{run}", "1").replace("{verb}", "comment").replace("{task}", "t_a")
        yield from ((method, path) for method in route.methods or {"GET"})


def test_every_route_without_a_token_is_refused(site: Site) -> None:
    """B49: pages, JSON, acts, files and the event stream: 401; a new route needs nobody to remember that."""
    site.app.add_api_route("/forgotten", lambda: "secret", methods=["GET", "POST"])
    site.app.state.live.close()  # else, should it answer, it would not end
    told = {(method, path): site.nobody.request(method, path).status_code for method, path in asked(site)}
    assert {code for (_, path), code in told.items() if path not in OPEN} == {401}
    assert {("GET", "/live"), ("GET", "/"), ("POST", "/act/comment"), ("POST", "/forgotten")} <= told.keys()


def test_a_read_token_is_refused_on_every_write(site: Site) -> None:
    """B49: 403, whatever the route, also one that was forgotten."""
    site.app.add_api_route("/forgotten", lambda: "done", methods=["POST"])
    writes = {(method, path) for method, path in asked(site) if method not in {"GET", "HEAD"}}
    bearer = {"authorization": f"Bearer {READ}"}
    assert {site.nobody.request(method, path, headers=bearer).status_code for method, path in writes} == {403}
    assert ("POST", "/forgotten") in writes


def test_without_tokens_nothing_listens_for_other_machines() -> None:
    """B49: loopback by default, and an address that others reach is refused where nobody set tokens."""
    for host in ("0.0.0.0", "::"):
        with pytest.raises(Unguarded):
            listen(host, 0, guarded=False)
    with listen("127.0.0.1", 0, guarded=False) as door:
        assert door.getsockname()[0] == "127.0.0.1"


def test_a_server_without_any_token_lets_nobody_in(site: Site) -> None:
    """B49: no token is not the same as an empty one."""
    site.app = make_app(Source.of(site.board), Tokens(()))
    for headers in ({}, {"authorization": "Bearer "}, {"cookie": f"{Tokens(()).cookie_name}="}):
        assert site.nobody.get("/api/board", headers=headers).status_code == 401
    assert site.nobody.get("/", params={"token": ""}).status_code == 401


def test_nothing_on_the_web_starts_a_worker(site: Site) -> None:
    """B49: no route dispatches, with any token; cards cannot be made either."""
    card = site.create(assignee="ann")
    for method, path in asked(site):
        assert "sweep" not in path
        assert "claim" not in path
        if method == "POST":
            site.nobody.post(path.replace("t_a", card), json={"reason": "x"}, headers=WRITING)
    for path in ("/api/tasks", "/api/sweep", "/act/sweep", "/act/create", f"/api/tasks/{card}/claim"):
        assert site.nobody.post(path, json={"title": "x"}, headers=WRITING).status_code in {404, 405}
    assert [event["kind"] for event in site.board.show(card)["events"]][:2] == ["created", "blocked"]
    assert (site.board.stats()["live"], site.board.runs(card)["runs"]) == (0, [])


def test_lists_have_bounded_fields_and_no_bodies(site: Site) -> None:
    """B53: a card with 200 KB of pasted log makes no list, no delta and no page of the board longer."""
    card = site.create("short", body=HUGE)
    site.create("t" * 100_000, blocked=HUGE)
    with Source.of(site.board).reading() as tx:
        view = board_view(tx, site.board.name, Wanted())
    assert len(json.dumps(view.as_json())) < 8_000
    watch = Watch(Source.of(site.board))
    watch.look()
    site.board.comment(card, HUGE)
    delta = watch.look()
    assert isinstance(delta, Delta)
    assert len(delta.as_event()) < 4_000
    assert "x" * 1_000 not in site.reader.get("/").text


# What it costs, in steps of the database's own machine: the same on every computer


def filled(face: Board, cards: int) -> None:
    """*cards* more cards, one in ten of them with a long body, and half of them done."""
    store = ledgers.Ledger(face.url, face.engine)
    for number in range(cards):
        body = HUGE if number % (cards // 10) == 0 else "a body"
        story: list[Any] = [given.created(f"card {number}", body=body, assignee="ann")]
        told = [*story, given.completed(None)] if number % 2 else story
        store.append(*told, task=f"t_{cards}_{number}", board=face.name)


@contextmanager
def steps(engine: Engine) -> Iterator[list[int]]:
    """How many steps SQLite takes within it, as one number at its end."""
    counted = [0]
    with reading(engine) as tx:
        driver: Any = tx.connection.dbapi_connection
    driver.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 1)  # the one that is used next, too
    try:
        yield counted
    finally:
        driver.set_progress_handler(None, 0)


def price(face: Board, work: Callable[[], object]) -> int:
    """Steps that *work* takes."""
    with steps(face.engine) as counted:
        work()
    return counted[0]


@on("sqlite")
def test_what_an_open_page_costs_depends_on_what_changed(face: Board) -> None:
    """B53: on a board five times as large a look and a delta take as many steps; without a change next to none."""
    quiet, busy = [], []
    for cards in (100, 500):
        filled(face, cards)
        card = face.create("the one that moves").task["id"]
        watch = Watch(Source.of(face))
        watch.look()
        quiet.append(price(face, watch.look))
        face.comment(card, "hello")
        busy.append(price(face, watch.look))
    assert 0 < quiet[0] == quiet[1] < 60
    assert quiet[1] < busy[0] < 2_000
    assert abs(busy[0] - busy[1]) <= busy[0] // 10


@on("sqlite")
def test_the_steps_are_counted(face: Board) -> None:
    """B53: what walks over the board is seen to take more steps on a larger one, so that the test above can fail."""
    source, walks = Source.of(face), []
    for cards in (100, 500):
        filled(face, cards)
        walks.append(price(face, lambda: Watch(source).look()))
    assert walks[1] > 4 * walks[0] > 1_000


def test_a_page_that_comes_again_is_told_no_more_than_it_missed(site: Site) -> None:
    """B53: it says what it has seen, and does not get the whole board again."""
    for number in range(30):
        site.create(f"card {number}")
    seen = site.board.stats()["position"]
    card = site.create("new")
    watch = Watch(Source.of(site.board))
    watch.look()
    delta = watch.since(seen)
    assert isinstance(delta, Delta)
    assert [tile.id for tile in delta.cards] == [card]
    assert watch.since(delta.position) is None
