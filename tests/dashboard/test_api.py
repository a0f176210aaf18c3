"""The JSON routes: what each answers, that their description is true, and that nothing a program sends breaks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from dashboard.app import make_app
from dashboard.source import Source
from tests.dashboard.conftest import READ, TOKENS, WRITE, Site
from tests.engines import once

FEW: Final = 8  # requests of each kind
BEARER: Final = {"get": {"authorization": f"Bearer {READ}"}, "post": {"authorization": f"Bearer {WRITE}"}}
TILE: Final = {
    "id", "title", "status", "worker", "assignee", "reviewer", "lane", "priority", "labels", "tenant", "budgets", "run",
    "hold", "held", "waits", "waits_on", "not_before", "scheduled", "outcome", "runs", "created_at", "updated_at",
    "position",
}  # fmt: skip


def said(site: Site, path: str, **query: Any) -> dict[str, Any]:
    """The answer of what must not fail."""
    answer = site.reader.get(f"/api/{path}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["schema"] == 1
    return found


def refused(site: Site, path: str, **query: Any) -> tuple[int, str]:
    """HTTP code and error code of what must fail."""
    answer = site.reader.get(f"/api/{path}", params=query)
    error = answer.json()["error"]
    assert error.keys() == {"code", "message", "task", "try"}
    return answer.status_code, str(error["code"])


def test_the_board_in_columns(site: Site) -> None:
    """Counted whole, shown in part; without a single body."""
    for number in range(3):
        site.create(f"card {number}", body="BODY")
    site.board.pause(reason="deploy")
    found = said(site, "board", limit=2)
    assert found.keys() == {"schema", "columns", "paused", "position"}
    ready = next(column for column in found["columns"] if column["status"] == "ready")
    assert (ready["count"], len(ready["tasks"]), ready["next"]) == (3, 2, ready["tasks"][-1]["id"])
    assert ready["tasks"][0].keys() == TILE
    assert found["paused"] == [{"scope": "board", "name": "", "position": found["position"]}]
    assert "BODY" not in str(found)


def test_a_column_a_page_at_a_time(site: Site) -> None:
    """`next` leads on."""
    cards = [site.create(f"card {number}") for number in range(3)]
    first = said(site, "tasks", status="ready", limit=2)
    rest = said(site, "tasks", status="ready", limit=2, after=first["next"])
    assert [task["id"] for page in (first, rest) for task in page["tasks"]] == cards
    assert rest["next"] is None
    assert refused(site, "tasks", status="ready", after="t_nowhere") == (404, "unknown_task")
    assert refused(site, "tasks") == (422, "invalid_input")


def test_counts_and_choices(site: Site) -> None:
    """How many there are, and what they can be filtered by."""
    site.create(assignee="ann", labels=["x"], tenant="acme")
    assert said(site, "counts", q="card")["counts"]["ready"] == 1
    assert said(site, "counts", q="nothing")["counts"]["ready"] == 0
    found = said(site, "choices")
    assert (found["assignees"], found["labels"], found["tenants"]) == (["ann"], ["x"], ["acme"])


def test_a_card_whole(site: Site) -> None:
    """With its body, its events and why it stands where it stands."""
    card = site.create("a card", body="the body", parents=[site.create("parent")])
    found = said(site, f"tasks/{card}")
    assert found.keys() == {
        "schema", "task", "parents", "children", "runs", "why", "events", "earlier", "position",
    }  # fmt: skip
    assert (found["task"]["body"], found["why"]["status"], found["parents"][0]["title"]) == (
        "the body",
        "todo",
        "parent",
    )
    assert [event["kind"] for event in found["events"]] == ["created"]
    assert refused(site, "tasks/t_nowhere") == (404, "unknown_task")


def test_the_past_is_asked_for_by_its_position(site: Site) -> None:
    """Every route that reads takes `at`."""
    card = site.create()
    then = site.board.stats()["position"]
    site.board.complete(card)
    assert said(site, f"tasks/{card}", at=then)["task"]["status"] == "ready"
    assert said(site, "counts", at=then)["counts"]["ready"] == 1
    assert said(site, "board", at=then)["position"] == then
    assert said(site, "choices", at=then)["position"] == then
    assert said(site, "tasks", status="ready", at=then)["count"] == 1
    assert refused(site, "board", at=-1) == (422, "invalid_input")
    assert refused(site, f"tasks/{card}", at=1) == (404, "unknown_task")


def test_why_of_the_past_blames_no_sweep_and_says_nothing_to_run(site: Site) -> None:
    """What a sweep saw then is not in the log; the page says as much."""
    card = site.create("Mend it", assignee="ann")
    site.board.comment(card, "see there")
    position = site.board.stats()["position"] - 1
    why = said(site, f"tasks/{card}", at=position)["why"]
    assert why["try"] is None
    assert why["because"][-1]["text"].startswith("nothing in the log kept it")
    assert said(site, f"tasks/{card}")["why"]["try"] == "ledger sweep"
    page = site.reader.get(f"/card/{card}", params={"at": position}).text
    assert "nothing in the log kept it" in page
    assert "ledger sweep" not in page


def test_the_end_of_a_runs_log(site: Site) -> None:
    """Of a run that there is, on a host that has it."""
    card = site.create(assignee="ann")
    site.board.claim(card)
    assert refused(site, "tasks/t_nowhere/runs/1/log") == (404, "unknown_task")
    assert refused(site, f"tasks/{card}/runs/2/log") == (404, "unknown_run")
    assert refused(site, f"tasks/{card}/runs/1/log") == (404, "not_found")
    folder = site.board.home / "boards" / site.board.name / "runs" / card / "1"
    folder.mkdir(parents=True)
    (folder / "log").write_text("half of the tests are green\n")
    found = said(site, f"tasks/{card}/runs/1/log")
    assert (found["text"], found["before"]) == ("half of the tests are green\n", 0)


@once
def test_what_is_no_request_is_refused_in_the_ledgers_words(site: Site) -> None:
    """Wrong methods, numbers that are none, bodies that are none: one shape of error for all."""
    card = site.create()
    assert refused(site, "board", limit=0) == (422, "invalid_input")
    assert refused(site, "board", status="lost") == (422, "invalid_input")
    assert refused(site, "counts", label="a\0b") == (422, "invalid_text")
    bearer = BEARER["post"]
    wrong = site.nobody.post("/api/board", headers=bearer)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    for content in (b"", b"{", b"[]", b'{"reason": 5}', b'{"reason": "\\ud800"}', b"\xff"):
        answer = site.nobody.post(
            f"/api/tasks/{card}/block", content=content, headers=bearer | {"content-type": "application/json"}
        )
        assert answer.status_code == 422, content
        assert answer.json()["error"]["code"] in {"invalid_input", "invalid_text"}


@once
def test_the_description_names_every_act_and_its_errors(site: Site) -> None:
    """And no page, which is for people."""
    found = site.reader.get("/api/openapi.json").json()
    assert {"/api/board", "/api/tasks/{task}/unblock", "/api/pause"} <= found["paths"].keys()
    assert not [path for path in found["paths"] if path.startswith(("/card", "/act", "/live"))]
    answers = found["paths"]["/api/tasks/{task}/unblock"]["post"]["responses"]
    assert {"200", "401", "403", "404", "409", "413", "421", "422", "503"} == answers.keys()
    assert answers["422"]["content"]["application/json"]["schema"]["$ref"].endswith("/Refused")


def operations(site: Site) -> Iterator[Any]:
    """Every operation that the description promises, of the JSON routes."""
    app = make_app(Source.of(site.board), TOKENS, names=["testserver"])  # the name by which the tool calls it
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=BEARER["get"])
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.startswith("/api/"):
            yield operation


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the tool's own libraries
def test_the_description_is_true_whatever_is_sent(site: Site) -> None:
    """Requests made from the description, right ones and wrong ones: every answer is one that it promises."""
    card, seen = site.create("a card", assignee="ann", blocked="why"), set[tuple[str, int]]()
    for operation in operations(site):

        @settings(
            max_examples=FEW, derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy(), is_known=...)
        def sends(case: Any, *, is_known: bool) -> None:
            if is_known and "task" in (case.path_parameters or {}):
                case.path_parameters["task"] = card
            answer = case.call_and_validate(headers=BEARER[case.method.lower()], excluded_checks=_EXCLUDED)
            assert answer.status_code < 500
            seen.add((case.method, answer.status_code))

        sends()
    assert {("GET", 200), ("GET", 404), ("GET", 422), ("POST", 200), ("POST", 404), ("POST", 422)} <= seen


_EXCLUDED: Final = [
    check
    for name in ("ignored_auth", "positive_data_acceptance", "unsupported_method")
    if (check := getattr(schemathesis.checks, name, None)) is not None
]
