"""Acting from the page: each verb by form and as JSON, in whose name, refused as the command line refuses it."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from httpx import Response

from dashboard.acts import ASKS, fresh_command
from ledger.errors import InvalidInput, LedgerError, StoreBusy
from tests.dashboard.conftest import TOKENS, Site
from tests.engines import once


def by_form(site: Site, verb: str, **fields: str) -> Response:
    """What a browser gets that sends the form of *verb*."""
    return site.writer.post(f"/act/{verb}", data={"csrf": TOKENS.grants[1].csrf, **fields})


def by_json(site: Site, path: str, **fields: Any) -> Response:
    """What a script of the page gets."""
    return site.writer.post(f"/api/{path}", json=fields, headers={"x-csrf-token": TOKENS.grants[1].csrf})


def status(site: Site, card: str) -> str:
    """Where the card stands."""
    return str(site.board.show(card)["task"]["status"])


def last_event(site: Site, card: str) -> dict[str, Any]:
    """The card's newest event."""
    found: dict[str, Any] = site.board.show(card)["events"][-1]
    return found


def test_a_card_is_blocked_and_unblocked(site: Site) -> None:
    """By form, and the browser is sent back to the card."""
    card = site.create()
    answer = by_form(site, "block", task=card, reason="wait for Dana")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/card/{card}?said=changed")
    assert site.board.show(card)["task"]["hold"]["reason"] == "wait for Dana"
    by_form(site, "unblock", task=card, reason="she is back")
    assert (status(site, card), last_event(site, card)["words"]) == ("ready", {"reason": "she is back"})


def test_a_card_is_assigned_and_taken_away_again(site: Site) -> None:
    """A blank field, and the word none, mean nobody."""
    card = site.create()
    for given, found in (("ann", "ann"), ("", None), ("bob", "bob"), ("none", None)):
        by_form(site, "assign", task=card, assignee=given)
        assert site.board.show(card)["task"]["assignee"] == found


def test_a_card_is_commented(site: Site) -> None:
    """The text is kept as it was sent."""
    card = site.create()
    by_form(site, "comment", task=card, body="  <b>two\r\nlines</b> & more ")
    assert site.board.show(card)["comments"][0]["body"] == "  <b>two\r\nlines</b> & more "


def test_a_run_is_stopped(site: Site) -> None:
    """Its stop is asked for and the card will be held; meant for one run, it is refused once another is open."""
    card = site.create(assignee="ann")
    site.board.claim(card)
    refused = by_json(site, f"tasks/{card}/stop", run=7)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "lost_claim")
    by_form(site, "stop", task=card, run="1", reason="")
    assert last_event(site, card)["kind"] == "stop_requested"
    assert last_event(site, card)["words"]["wish_words"]["reason"] == "stopped by an operator"


def test_a_card_is_archived_with_a_choice_for_its_children(site: Site) -> None:
    """Without a choice it is refused, and the choices are named."""
    card = site.create()
    child = site.create(parents=[card])
    refused = by_form(site, "archive", task=card)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "choice_needed")
    by_form(site, "archive", task=card, children="unlink")
    assert (status(site, card), status(site, child)) == ("archived", "ready")


def test_the_board_is_paused_and_resumed(site: Site) -> None:
    """The board, or one assignee; a scope without its name is refused."""
    assert by_form(site, "pause", reason="deploy", next="/").headers["location"] == "/?said=changed"
    assert by_form(site, "pause", scope="assignee", name="ann", drain="on").status_code == 303
    assert [(each.scope, each.name, each.drain) for each in site.board.settings.pauses] == [
        ("board", "", False), ("assignee", "ann", True),
    ]  # fmt: skip
    by_form(site, "resume")
    by_json(site, "resume", scope="assignee", name="ann")
    assert site.board.settings.pauses == ()
    for fields in ({"scope": "assignee"}, {"scope": "host", "name": " "}, {"name": "ann"}):
        assert by_json(site, "pause", **fields).status_code == 422
        assert by_json(site, "resume", **fields).status_code == 422


@pytest.mark.parametrize(
    ("verb", "fields", "kinds"),
    [
        ("unblock", {}, {"unblocked"}), ("block", {"reason": "why"}, {"blocked"}), ("stop", {}, {"blocked"}),
        ("assign", {"assignee": "bob"}, {"assigned"}), ("comment", {"body": "hello"}, {"commented"}),
        ("archive", {}, {"archived"}),
    ],
)  # fmt: skip
def test_every_verb_of_a_card_answers_in_json(site: Site, verb: str, fields: dict[str, Any], kinds: set[str]) -> None:
    """The card as it is now, whether anything changed, and the position that the answer stands for."""
    card = site.create(blocked="parked" if verb == "unblock" else None)
    answer = by_json(site, f"tasks/{card}/{verb}", **fields)
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert said.keys() == {"schema", "task", "changed", "replayed", "notes", "position"}
    assert (said["schema"], said["changed"], said["task"]["id"]) == (1, True, card)
    assert said["position"] == site.board.stats()["position"]
    assert last_event(site, card)["kind"] in kinds


def test_nothing_can_be_dispatched(site: Site) -> None:
    """No route claims, sweeps, creates or completes, or speaks for a worker: the page has eyes and a few hands."""
    paths = {str(route.path) for route in iter_route_contexts(site.app.routes)}
    words = {word for path in paths for word in path.strip("/").split("/")}
    assert not words & {"claim", "sweep", "dispatch", "create", "complete", "heartbeat", "progress", "policy", "spawn"}
    assert set(ASKS) == {"unblock", "block", "stop", "assign", "comment", "archive", "pause", "resume"}
    card = site.create()
    for verb in ("claim", "sweep", "complete", "reopen", "edit"):
        assert by_form(site, verb, task=card).status_code == 404
        assert by_json(site, f"tasks/{card}/{verb}").status_code == 404
    assert len(site.board.show(card)["events"]) == 1


def test_an_act_is_the_operators_who_owns_the_token(site: Site) -> None:
    """The token's name where it has one, else the user of the server; always an operator of this host."""
    card = site.create()
    by_form(site, "comment", task=card, body="mine")
    dana = {"authorization": f"Bearer {TOKENS.grants[2].token}"}
    site.nobody.post(f"/api/tasks/{card}/comment", json={"body": "hers"}, headers=dana)
    assert [comment["actor"] for comment in site.board.show(card)["comments"]] == [
        {"kind": "operator", "name": name, "host": site.board.host.id} for name in ("ada", "dana")
    ]


def test_a_click_that_is_repeated_acts_once(site: Site) -> None:
    """The second one gets the first one's answer; another form, another card and another verb are other acts."""
    card, other = site.create(), site.create()
    command = fresh_command()
    first = by_form(site, "comment", task=card, body="once", command=command)
    again = by_form(site, "comment", task=card, body="once", command=command)
    assert (first.headers["location"], again.headers["location"]) == (
        f"/card/{card}?said=changed", f"/card/{card}?said=replayed",
    )  # fmt: skip
    by_form(site, "comment", task=other, body="once", command=command)
    assert by_json(site, f"tasks/{card}/block", reason="why", command=command).json()["changed"]
    by_form(site, "comment", task=card, body="once", command=fresh_command())
    assert [len(site.board.show(each)["comments"]) for each in (card, other)] == [2, 1]


def test_a_wish_that_is_true_already_changes_nothing(site: Site) -> None:
    """And the page is told so."""
    card = site.create()
    assert by_form(site, "unblock", task=card).headers["location"].endswith("?said=same")
    assert by_json(site, f"tasks/{card}/unblock").json()["changed"] is False


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/", "/?said=changed"),
        ("/?q=a&status=ready", "/?q=a&status=ready&said=changed"),
        ("/card/t_a#runs", "/card/t_a?said=changed#runs"),
        ("//evil.example", None),
        ("///evil.example", None),
        ("/\\evil.example", None),
        ("https://evil.example/", None),
        ("javascript:alert(1)", None),
        ("/a\r\nset-cookie: x=y", None),
        ("", None),
    ],
)
def test_a_browser_is_sent_back_to_where_it_was_on_this_server(site: Site, path: str, location: str | None) -> None:
    """Or to the card, where the place is none of this server's."""
    card = site.create()
    answer = by_form(site, "comment", task=card, body="x", next=path)
    assert answer.headers["location"] == (location or f"/card/{card}?said=changed")
    assert "set-cookie" not in answer.headers


@once
@pytest.mark.parametrize(
    ("verb", "fields", "code", "what"),
    [
        ("comment", {"task": "t_nowhere", "body": "x"}, 404, "unknown_task"),
        ("comment", {"body": "x"}, 404, "unknown_task"),
        ("comment", {"task": "CARD", "body": "  "}, 422, "invalid_input"),
        ("comment", {"task": "CARD"}, 422, "invalid_input"),
        ("comment", {"task": "CARD", "body": "a\0b"}, 422, "invalid_text"),
        ("comment", {"task": "\0", "body": "x"}, 422, "invalid_text"),
        ("comment", {"task": "CARD", "body": "x", "command": "\0"}, 422, "invalid_text"),
        ("comment", {"task": "CARD", "body": "x", "command": "c" * 101}, 422, "invalid_input"),
        ("comment", {"task": "CARD", "body": "x", "surprise": "y"}, 422, "invalid_input"),
        ("assign", {"task": "CARD"}, 422, "invalid_input"),
        ("assign", {"task": "CARD", "assignee": "a\tb"}, 422, "invalid_input"),
        ("archive", {"task": "CARD", "children": "eat"}, 422, "invalid_input"),
        ("block", {"task": "CARD", "reason": "x", "force": "perhaps"}, 422, "invalid_input"),
        ("pause", {"scope": "world"}, 422, "invalid_input"),
        ("launch", {"task": "CARD"}, 404, "no_such_page"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(site: Site, verb: str, fields: dict[str, str], code: int, what: str) -> None:
    """With the ledger's own errors, what to do, and nothing written."""
    card = site.create()
    answer = by_form(site, verb, **{name: card if value == "CARD" else value for name, value in fields.items()})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (code, what), error
    assert error["message"]
    assert len(site.board.show(card)["events"]) == 1


@once
def test_a_refusal_of_the_rules_keeps_its_code_and_its_remedy(site: Site) -> None:
    """A live run is in the way; a done card is closed; the store is busy: each its HTTP code."""
    card, done = site.create(assignee="ann"), site.create()
    site.board.claim(card)
    site.board.complete(done)
    live = by_json(site, f"tasks/{card}/block", reason="x")
    assert (live.status_code, live.json()["error"]["code"], live.json()["error"]["task"]) == (409, "live_claim", card)
    assert "--force" in live.json()["error"]["try"]
    assert by_json(site, f"tasks/{card}/block", reason="x", force=True).json()["changed"]
    closed = by_json(site, f"tasks/{done}/unblock")
    assert (closed.status_code, closed.json()["error"]["code"]) == (409, "closed")


@once
def test_a_store_that_is_busy_is_no_fault_of_the_visitor(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """503: try again."""

    def busy(*_: object) -> None:
        raise StoreBusy("another writer held the store")

    monkeypatch.setattr("dashboard.api.perform", busy)
    answer = by_json(site, f"tasks/{site.create()}/unblock")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_busy")


@once
def test_what_is_no_form_is_refused(site: Site) -> None:
    """Bytes that are no text, and more fields than any form has."""
    token = {"x-csrf-token": TOKENS.grants[1].csrf, "content-type": "application/x-www-form-urlencoded"}
    for content in (b"task=\xff", b"&".join(b"a%d=1" % number for number in range(60))):
        answer = site.writer.post("/act/comment", content=content, headers=token)
        assert (answer.status_code, answer.json()["error"]["message"]) == (422, "that is no form")


def test_every_error_of_the_ledger_has_an_http_code() -> None:
    """A class that is not named has its parent's, and the codes say whose fault it is."""
    from dashboard.faults import CODES, http_code

    assert http_code(InvalidInput("x")) == 422
    assert http_code(LedgerError("x")) == 500
    assert set(CODES.values()) <= {401, 403, 404, 409, 413, 421, 422, 500, 503}
