"""Inside a worker's environment: ids may be left out, and what is an operator's is forbidden."""

import pytest


@pytest.mark.parametrize(
    ("argv", "kind", "status"),
    [
        (("complete", "did it"), "completed", "done"),
        (("complete",), "completed", "done"),
        (("block", "what I need", "--kind", "needs_input"), "blocked", "blocked"),
        (("review", "please look"), "review_requested", "review"),
        (("progress", "half way"), "progressed", "running"),
        (("progress", "--tokens", "3"), "progressed", "running"),
        (("heartbeat",), "claimed", "running"),
    ],
)
def test_the_card_may_be_left_out(worker, argv, kind, status):
    """One positional that is no id is the text; the actor is the worker whatever the flags say."""
    ledger, card = worker
    said = ledger.json(*argv, "--actor", "somebody")
    assert (said["task"]["id"], said["task"]["status"]) == (card, status)
    last = ledger.json("events", card)["events"][-1]
    assert last["kind"] == kind
    if kind != "claimed":
        assert last["actor"]["kind"] == "worker"
        assert set(argv[1:2]) - {"--tokens"} <= set((last["words"] or {}).values())


def test_the_card_may_be_named(worker):
    """Alone, or before the text."""
    ledger, card = worker
    ledger.ok("progress", card)
    assert ledger.json("complete", card, "did it")["task"]["status"] == "done"


def test_a_worker_in_review_sends_it_back(worker, monkeypatch):
    """`ledger changes "reason"` by the reviewer's own run."""
    ledger, card = worker
    ledger.ok("review", "look", "--reviewer", "dana")
    for name in ("TASK", "RUN", "LOCK"):
        monkeypatch.delenv(f"LEDGER_{name}")
    got = ledger.json("claim", card)
    for name, value in {"TASK": card, "RUN": str(got["run"]), "LOCK": got["lock"]}.items():
        monkeypatch.setenv(f"LEDGER_{name}", value)
    assert ledger.json("changes", "tests first")["task"]["status"] == "ready"


@pytest.mark.parametrize("argv", [("complete", "two", "words"), ("block", "need", "input")])
def test_a_text_without_quotes_is_a_usage_error(worker, argv):
    """It is neither an id and a text nor one text."""
    assert worker[0](*argv).code == 2


def test_a_block_without_a_reason_is_a_usage_error(worker):
    """The card's id alone is no reason."""
    assert worker[0]("block", worker[1]).code == 2


@pytest.mark.parametrize(
    "argv",
    [
        ("sweep",), ("sweep", "--dry-run"), ("policy", "--run-limit", "9"), ("pause",), ("resume",),
        ("unblock", "OWN"), ("unblock", "--all", "--cause", "worker"), ("accept", "OWN", "1"), ("stop", "OWN"),
        ("claim", "--next"), ("claim", "OTHER"), ("init",), ("db", "upgrade"), ("db", "rebuild"),
        ("edit", "OWN", "--priority", "9"), ("assign", "OWN", "me"), ("archive", "OWN"), ("reopen", "OWN"),
        ("schedule", "OWN", "+1h"), ("complete", "OTHER", "not mine"), ("block", "OTHER", "not mine"),
        ("unlink", "OWN", "OTHER"), ("link", "OTHER", "OWN"), ("review", "OTHER", "not mine"),
    ],
)  # fmt: skip
def test_what_is_an_operators_is_forbidden(worker, argv, monkeypatch):
    """Exit code 4, and nothing is written."""
    ledger, card = worker
    other = ledger.create("other")
    before = ledger.position()
    said = ledger(*[{"OWN": card, "OTHER": other}.get(word, word) for word in argv], "--json")
    assert (said.code, said.error["code"]) == (4, "forbidden"), said
    assert ledger.position() == before


def test_a_worker_creates_comments_and_links_its_own(worker):
    """What it makes is recorded as made by its run."""
    ledger, card = worker
    made = ledger.json("create", "follow up")["task"]
    assert made["made_by"] == {"task": card, "run": 1}
    assert ledger.json("comment", made["id"], "see there")["changed"] is True
    assert ledger.json("link", card, made["id"])["task"]["parents"] == [made["id"]]


def test_a_worker_may_look(worker):
    """Questions are nobody's privilege."""
    ledger, card = worker
    for argv in (
        ("list",),
        ("show", card),
        ("why", card),
        ("board",),
        ("stats",),
        ("events",),
        ("policy",),
        ("replay",),
    ):
        ledger.ok(*argv)


@pytest.mark.parametrize(("name", "value"), [("LOCK", ""), ("RUN", ""), ("RUN", "one"), ("RUN", "9" * 30)])
def test_half_a_claim_is_forbidden(worker, monkeypatch, name, value):
    """A worker whose environment lost a part speaks for nobody."""
    ledger, _ = worker
    monkeypatch.setenv(f"LEDGER_{name}", value)
    said = ledger("complete", "did it", "--json")
    assert (said.code, said.error["code"]) == (4, "forbidden")


def test_settings_of_the_folder_are_not_read(worker, tmp_path):
    """./ledger.toml belongs to the agent's working folder; that it was passed over is told."""
    ledger, card = worker
    (tmp_path / "here" / "ledger.toml").write_text('actor = "mallory"')
    said = ledger.ok("show", card)
    assert "ledger.toml was not read: inside a worker" in said.err
    assert ledger.ok("show", card, "--quiet").err == ""
