"""Every route there is, walked: without a token, with one to read, and with hostile text wherever a text can be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Final

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from httpx import Response
from starlette.testclient import TestClient

from dashboard.acts import ASKS
from dashboard.guard import LARGEST_BODY, OPEN, POLICY
from tests.dashboard.conftest import ADDRESS, READ, TOKENS, WRITE, Site
from tests.engines import once

HOSTILE: Final = "\"'><xss onfocus=alert(1)>{{70707*70707}}</title></script><script>alert(1)</script><!-- \u202e"
NAME: Final = HOSTILE.replace("\u202e", "")
"""It again, as a name may be."""
WRITES: Final = {"POST", "PUT", "PATCH", "DELETE"}
UNENDING: Final = {"/live"}
pytestmark = once


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of every route."""
    for found in iter_route_contexts(app.routes):
        for method in sorted(found.methods or {"GET"}):
            yield method, str(found.path)


def filled(path: str, text: str = "t_a") -> str:
    """*path* with something in each of its places."""
    named = path.replace("{run}", "1").replace("{verb}", "comment")
    return re.sub(r"\{[^}]*\}", text, named) + ("/page.css" if path == "/static" else "")


def code(answer: Response) -> str:
    """The error's code."""
    return str(answer.json()["error"]["code"])


def csrf(browser: TestClient) -> dict[str, str]:
    """What a script of the page sends along."""
    grant = TOKENS.of_cookie(browser.cookies[TOKENS.cookie_name])
    assert grant is not None
    return {"x-csrf-token": grant.csrf}


# Without a token


def test_the_walk_sees_all_kinds_of_routes(site: Site) -> None:
    """Pages, JSON, acts, the event stream, metrics, the description and the files: none is walked past."""
    paths = {path for _, path in routes(site.app)}
    assert {
        "/", "/card/{task}", "/live", "/act/{verb}", "/api/board", "/api/tasks/{task}/unblock", "/metrics", "/healthz",
        "/api/openapi.json", "/static",
    } <= paths  # fmt: skip
    assert len(list(routes(site.app))) > 25


def test_no_route_answers_without_a_token(site: Site) -> None:
    """Whatever the method; the event stream too, and paths that there are not: nobody learns what there is."""
    site.app.state.live.close()  # else, should it answer, it would not end
    asked = {*routes(site.app), *((method, "/nowhere") for method in (*WRITES, "GET", "HEAD", "OPTIONS"))}
    asked |= {(method, path) for _, path in routes(site.app) for method in ("OPTIONS", "HEAD", "POST")}
    told = {(method, path): site.nobody.request(method, filled(path)).status_code for method, path in asked}
    open_to_all = {(method, path) for method, path in asked if path in OPEN}
    assert {where for where, status in told.items() if status != 401} <= open_to_all
    assert told["GET", "/live"] == told["GET", "/static"] == told["GET", "/api/openapi.json"] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {READ}"},
        {"authorization": READ},
        {"authorization": "Bearer"},
        {"cookie": f"{TOKENS.cookie_name}={READ}"},
        {"cookie": f"{TOKENS.cookie_name}=wrong"},
        {"cookie": f"other={TOKENS.grants[0].cookie}"},
    ],
)
def test_what_is_no_token_opens_nothing(site: Site, headers: dict[str, str]) -> None:
    """A wrong one, one of another scheme, or one where it does not belong."""
    answer = site.nobody.get("/api/board", headers=headers)
    assert (answer.status_code, code(answer)) == (401, "unauthorised")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_wrong_token_in_the_address_opens_nothing(site: Site) -> None:
    """Not even for a browser that was let in before."""
    assert site.reader.get("/", params={"token": "wrong"}).status_code == 401


def test_health_is_told_to_this_machine_alone(site: Site) -> None:
    """Not to other machines, and not through a proxy on this one; it says nothing of the board."""
    site.create("PRIVATE title")
    for path in OPEN:
        answer = site.nobody.get(path)
        assert (answer.status_code, len(answer.content) < 20) == (200, True)
        assert site.nobody.get(path, headers={"x-forwarded-for": "203.0.113.9"}).status_code == 401
    stranger: Any = ("203.0.113.9", 50_000)
    assert TestClient(site.app, base_url=ADDRESS, client=stranger).get("/healthz").status_code == 401


# With a token to read


def test_a_read_token_writes_nowhere(site: Site) -> None:
    """Every route that takes a method that writes refuses it, with the form's value too; and nothing is written."""
    card = site.create("a card", blocked="why")
    before = site.board.stats()["position"]
    writes = {(method, path) for method, path in routes(site.app) if method in WRITES}
    assert len(writes) >= len(ASKS)
    for method, path in {*writes, ("POST", "/nowhere"), ("DELETE", "/api/board")}:
        for headers in ({}, csrf(site.reader), {"authorization": f"Bearer {READ}"}):
            answer = site.reader.request(method, filled(path, card), headers=headers, json={"reason": "x"})
            assert (answer.status_code, code(answer)) == (403, "read_only"), (method, path)
    assert site.board.stats()["position"] == before


def test_a_read_token_reads_every_page(site: Site) -> None:
    """Nothing that only looks asks for more than that."""
    card = site.create("a card")
    with site.board.look():
        granted = site.board.claim(card)
    for method, path in routes(site.app):
        if method == "GET" and path not in UNENDING:
            answer = site.reader.get(filled(path, granted.task))
            assert answer.status_code in {200, 404, 422}, (path, answer.text)
            if "{run}" not in path:
                assert answer.status_code == 200 or path.startswith("/fragments") or path == "/api/tasks", path


# Hostile text


class Seen(HTMLParser):
    """The tags and attributes that a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.inside = ""
        self.inline = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = tag
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.inside in {"script", "style"}:
            self.inline += data.strip()

    def handle_endtag(self, _tag: str) -> None:
        self.inside = ""


def is_harmless(answer: Response) -> None:
    """That *answer* is no page, or one in which hostile text is text."""
    kind = answer.headers.get("content-type", "")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.status_code < 500, answer.text
    if not kind.startswith("text/html"):
        assert kind.startswith(("application/json", "text/plain", "text/css", "text/javascript", "image/")) or not kind
        return
    seen = Seen(answer.text)
    assert "xss" not in seen.tags
    assert seen.inline == "", seen.inline
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in {"style", "srcdoc"}]
    links = {value for name, value in seen.attributes if name in {"href", "src", "action"}} - {"data:,"}
    assert not [value for value in links if not value.startswith(("/", "?", "#")) or value.startswith("//")], links
    assert str(70707 * 70707) not in answer.text  # nor is it a template


def hostile_card(site: Site) -> str:
    """A card with hostile text in every field that takes one, and hostile events behind it."""
    board = site.board
    parent = site.create(HOSTILE)
    card = site.create(HOSTILE, body=HOSTILE, assignee=NAME, labels=[NAME], tenant=NAME, parents=[parent], key=NAME)
    board.comment(card, HOSTILE)
    board.complete(parent, HOSTILE, result=HOSTILE, metadata={HOSTILE: HOSTILE})
    granted = board.claim(card)
    board.progress(card, HOSTILE, run=granted.run, lock=granted.lock)
    board.block(card, HOSTILE, kind=NAME, run=granted.run, lock=granted.lock)
    board.pause(scope="assignee", name=NAME, reason=HOSTILE)
    folder = board.home / "boards" / board.name / "runs" / card / "1"
    folder.mkdir(parents=True)
    (folder / "log").write_text(HOSTILE)
    return card


def test_hostile_text_of_a_card_is_never_markup(site: Site) -> None:
    """In every field of a card, on every page, now and in the past, and in a log."""
    card = hostile_card(site)
    last = site.board.stats()["position"]
    shown = 0
    for method, path in routes(site.app):
        if method != "GET" or path in UNENDING:
            continue
        for query in ({}, {"id": card, "status": "blocked"}, {"at": str(last)}, {"lanes": "1"}):
            answer = site.writer.get(filled(path, card), params=query, headers={"accept": "text/html"})
            is_harmless(answer)
            shown += "&lt;xss" in answer.text
    assert shown >= 5


def test_hostile_text_of_a_visitor_is_never_markup(site: Site) -> None:
    """In every part of a request that a page might repeat: path, search, filters, headers; whoever sends it."""
    queries: list[dict[str, str]] = [
        {name: HOSTILE} for name in ("q", "assignee", "label", "tenant", "status", "after", "at", "id", "said", "next")
    ]
    for browser in (site.nobody, site.reader):
        for method, path in {*routes(site.app), ("GET", "/{anything}")}:
            if method == "GET" and path not in UNENDING:
                for query in ({}, *queries):
                    is_harmless(
                        browser.get(filled(path, "%22%3Cxss%3E"), params=query, headers={"accept": "text/html"})
                    )
        for name in (
            "host",
            "origin",
            "referer",
            "user-agent",
            "accept",
            "x-forwarded-host",
            "authorization",
            "cookie",
        ):
            headers: dict[str, Any] = {"accept": b"text/html", name: f"text/html {HOSTILE}".encode()}
            is_harmless(browser.get("/", headers=headers))


def test_hostile_forms_are_never_markup(site: Site) -> None:
    """What a form says comes back as text: where it is refused, and on the card where it is taken."""
    card = site.create("a card")
    for verb in ASKS:
        for fields in ({"task": card}, {"task": HOSTILE}):
            data = dict.fromkeys(
                ("reason", "assignee", "body", "name", "run", "children", "next", "csrf", "x"), HOSTILE
            )
            answer = site.writer.post(
                f"/act/{verb}", data={**data, **fields}, headers={"accept": "text/html", **csrf(site.writer)}
            )
            is_harmless(answer)
            assert (answer.headers.get("location") or "/").startswith("/")
    site.writer.post("/act/comment", data={"task": card, "body": HOSTILE}, headers=csrf(site.writer))
    page = site.writer.get(f"/card/{card}")
    is_harmless(page)
    assert "&lt;xss" in page.text


# The guard


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8420", 200), ("localhost", 200), ("LOCALHOST:1", 200), ("[::1]:8420", 200), ("203.0.113.9", 200),
        ("ledger.example", 200), ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("", 421),
        ("localhost.evil.example", 421), ("[::1", 421), ("a b", 421), ("127.0.0.1@evil.example", 421),
    ],
)  # fmt: skip
def test_a_server_answers_to_its_own_names_alone(site: Site, host: str, status: int) -> None:
    """A DNS name that was rebound to this machine is another one's; an address cannot be rebound."""
    from dashboard.app import make_app
    from dashboard.source import Source

    app = make_app(Source.of(site.board), TOKENS, names=["Ledger.Example"])
    browser = TestClient(app, base_url=ADDRESS, headers={"authorization": f"Bearer {READ}"})
    answer = browser.get("/api/counts", headers={"host": host})
    assert answer.status_code == status
    assert status == 200 or code(answer) == "foreign_host"


@pytest.mark.parametrize(
    ("origin", "is_taken"),
    [
        (ADDRESS, True), (None, True), ("http://127.0.0.1:8421", False), ("http://evil.example", False),
        ("null", False), ("https://127.0.0.1:8420.evil.example", False), ("http://[", False),
    ],
)  # fmt: skip
def test_a_page_of_another_site_cannot_act(site: Site, origin: str | None, *, is_taken: bool) -> None:
    """Its browser says whose page asked; scripts without a browser say nothing, and have a token."""
    card = site.create("a card")
    headers = csrf(site.writer) | ({} if origin is None else {"origin": origin})
    answer = site.writer.post(f"/api/tasks/{card}/comment", json={"body": "hello"}, headers=headers)
    assert answer.status_code == (200 if is_taken else 403), answer.text
    assert len(site.board.show(card)["comments"]) == is_taken


@pytest.mark.parametrize("given", [None, "", "wrong", WRITE, TOKENS.grants[0].csrf, TOKENS.grants[1].cookie])
def test_a_browser_acts_only_from_a_form_of_this_server(site: Site, given: str | None) -> None:
    """Its cookie alone is not enough: another page could have sent that."""
    card = site.create("a card")
    fields = {"task": card, "body": "hello"} | ({} if given is None else {"csrf": given})
    answer = site.writer.post("/act/comment", data=fields)
    assert (answer.status_code, code(answer)) == (403, "stale_form")
    assert site.board.show(card)["comments"] == []


def test_a_script_with_a_token_needs_no_form(site: Site) -> None:
    """No browser sends a bearer token by itself."""
    card = site.create("a card")
    bearer = {"authorization": f"Bearer {WRITE}"}
    assert site.nobody.post(f"/api/tasks/{card}/comment", json={"body": "hello"}, headers=bearer).status_code == 200


def test_a_token_of_the_address_becomes_a_cookie(site: Site) -> None:
    """The browser is sent to the same page without it, and no page, script or other site ever sees it."""
    answer = site.browser().get("/card/t_a", params={"token": READ, "at": "7"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/card/t_a?at=7")
    kept = answer.headers["set-cookie"]
    assert READ not in kept
    assert set(kept.split("; ")[1:]) == {"HttpOnly", "SameSite=strict", "Path=/"}
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example"])
def test_nobody_is_sent_to_another_site(site: Site, path: str) -> None:
    """An address that looks like one of this server's stays one."""
    answer = site.browser().get(f"{ADDRESS}{path}", params={"token": READ})
    assert answer.status_code == 303
    assert re.match(r"/[^/\\]", answer.headers["location"])


def test_every_answer_has_the_headers(site: Site) -> None:
    """Good or bad, page or file: nothing inline, nothing framed, nothing guessed, nothing kept."""
    for browser, path in (
        (site.nobody, "/"),
        (site.reader, "/"),
        (site.reader, "/nowhere"),
        (site.reader, "/api/board"),
    ):
        headers = browser.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert (headers["referrer-policy"], headers["cache-control"]) == ("same-origin", "no-store")
    assert "max-age" in site.reader.get("/static/page.css").headers["cache-control"]


@pytest.mark.parametrize("told", [True, False])
def test_a_request_has_a_limit(site: Site, *, told: bool) -> None:
    """Whether it says how long it is or not; what is no longer is read whole."""
    card = site.create("a card")
    for size, status in ((LARGEST_BODY, 413), (LARGEST_BODY - 100, 200)):
        body = b'{"body": "' + b"x" * size + b'"}'
        content: Any = body if told else iter([body[:10], body[10:]])
        answer = site.writer.post(f"/api/tasks/{card}/comment", content=content, headers=csrf(site.writer) | {
            "content-type": "application/json"
        })  # fmt: skip
        assert answer.status_code == status


def test_a_fault_of_the_server_is_told_without_its_innards(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who asked gets the headers and no trace; the log gets the trace."""
    monkeypatch.setattr("dashboard.api.counts", lambda *_: 1 / 0)
    answer = site.reader.get("/api/counts")
    assert (answer.status_code, code(answer)) == (500, "broken")
    assert "ZeroDivision" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY
    assert "ZeroDivisionError" in caplog.text


def test_a_web_socket_is_not_spoken(site: Site) -> None:
    """There is none, and none that would pass by the guard."""
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), site.reader.websocket_connect("/live"):
        pass
