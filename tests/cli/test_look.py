"""Commands that look: in words and in JSON, row by row of the contract."""

import json

import pytest

from cli.app import run
from cli.stream import chosen, stream
from ledger.errors import InvalidInput

EVENT = {
    "board", "position", "task", "version", "kind", "schema", "at", "actor", "run", "outcome", "command_id", "facts",
    "words", "salt", "words_digest", "hash",
}  # fmt: skip
RUN = {
    "run", "assignee", "claimed_at", "lease_until", "pid", "host", "outcome", "code", "signal", "evidence", "ended_at",
    "last_words", "summary", "usage", "positions",
}  # fmt: skip


def test_list_filters_and_pages(ledger):
    """By status, assignee, label, tenant; the next page begins behind the last card."""
    a = ledger.create("a", "--assignee", "ann", "--label", "x", "--priority", "2")
    b = ledger.create("b", "--tenant", "acme", "--blocked", "why")
    for flags, found in (
        (("--status", "blocked"), [b]), (("--assignee", "ann"), [a]), (("--assignee", "none"), [b]),
        (("--label", "x"), [a]), (("--tenant", "acme"), [b]), ((), [a, b]), (("--sort", "created"), [a, b]),
        (("--sort", "updated"), [b, a]), (("--status", "done"), []),
    ):  # fmt: skip
        assert [task["id"] for task in ledger.json("list", *flags)["tasks"]] == found
    page = ledger.json("list", "--limit", "1")
    assert page.keys() == {"schema", "tasks", "position", "next"}
    assert [task["id"] for task in ledger.json("list", "--after", page["next"])["tasks"]] == [b]
    assert f"--after {a}" in ledger.ok("list", "--limit", "1").err
    assert ledger("list", "--after", "t_nowhere").code == 5


def test_list_in_words(ledger):
    """A heading, a card a line, columns that line up; nothing on stdout where there is nothing."""
    assert ledger.ok("list").out == ""
    ledger.create("größer", "--assignee", "ann")
    ledger.create("日本", "--blocked", "why")
    heading, *rows = ledger.ok("list").out.splitlines()
    assert heading.split() == ["CARD", "STATUS", "ASSIGNEE", "NOTE", "TITLE"]
    assert {row.split()[-1] for row in rows} == {"größer", "日本"}
    assert len({row.index(row.split()[1]) for row in rows}) == 1


def test_show(ledger):
    """The card whole."""
    parent = ledger.create("p")
    card = ledger.create("c", "--body", "at\nlength", "--parent", parent, "--label", "x", "--max-runtime", "5m")
    ledger.ok("comment", card, "see there")
    ledger.ok("complete", parent)
    ledger.ok("block", card, "cannot", *ledger.claim(card))
    said = ledger.json("show", card)
    assert said.keys() == {"schema", "task", "runs", "parents", "children", "comments", "events"}
    assert said["runs"][0].keys() >= RUN
    assert said["events"][0].keys() == EVENT
    out = ledger.ok("show", card).out
    for part in (
        "at\n  length",
        "waits for",
        "see there",
        "runs",
        "cannot",
        "until a person unblocks it",
        "(Europe/Berlin)",
    ):
        assert part in out, part
    assert ledger("show", "t_nowhere", "--json").error == {
        "code": "unknown_task", "message": "no card 't_nowhere' on this board", "task": "t_nowhere",
        "try": "ledger list",
    }  # fmt: skip


def test_board(ledger):
    """One section a status that has cards."""
    assert "no open card" in ledger.ok("board").err
    busy = ledger.create("busy", "--assignee", "ann")
    ledger.create("waits", "--blocked", "why")
    ledger.claim(busy)
    said = ledger.json("board")
    assert said.keys() == {"schema", "columns", "position"}
    assert [task["id"] for task in said["columns"]["running"]] == [busy]
    out = ledger.ok("board").out
    assert out.splitlines()[0] == "running"
    assert "run 1" in out
    assert "[operator]" in out


def test_why(ledger):
    """Text, rule and positions of each reason, then what to run next."""
    card = ledger.create("a", "--blocked", "x")
    said = ledger.json("why", card)
    assert said.keys() == {"schema", "task", "status", "because", "proof", "waits_on", "chain", "also", "try"}
    assert said["because"][0].keys() == {"text", "rule", "positions"}
    assert said["proof"][0].keys() == {"about", "value", "rule", "clause", "events"}
    first, *reasons, last = ledger.ok("why", card).out.splitlines()
    assert first == f"{card} is blocked"
    assert all(reason.startswith("  - ") and "RULES §" in reason for reason in reasons)
    assert last.startswith("  try: ledger ")
    assert "  - proof of hold: 4 blocked   RULES §4: blocked by operator, no run · " in "\n".join(reasons)
    for topic in ("status", "failures", "streak", "hold", "held"):
        assert ledger.ok("why", card, topic).out.startswith(card)


def test_why_of_a_child(ledger):
    """It names the parent that it waits for."""
    parent, child = ledger.create("p"), ledger.create("c")
    ledger.ok("link", child, parent)
    assert ledger.json("why", child)["waits_on"][0]["parent"] == parent
    assert parent in ledger.ok("why", child).out


def test_why_of_a_grandchild(ledger):
    """The way to what must happen first, what else must, and the command that moves the first of them."""
    first = ledger.create("p", "--blocked", "ask Ann")
    others = [ledger.create("q", "--assignee", "ann") for _ in range(7)]
    middle = ledger.create("m", "--parent", first)
    child = ledger.create("c", "--parent", middle, *(word for other in others for word in ("--parent", other)))
    out = ledger.ok("why", child).out
    assert f"  → {middle} is todo: waiting_on: {first} is blocked: operator" in out
    assert f'  → {first} is blocked: operator "ask Ann"; only a person lifts it   RULES §5   positions ' in out
    assert "it also waits for " in out
    assert " (ready) and 2 more" in out
    assert f"try: ledger runs {first}, then ledger unblock {first} --reason …" in out


def test_runs(ledger):
    """Every run with how it ended; none is no error."""
    card = ledger.create("a", "--assignee", "ann")
    assert "no run yet" in ledger.ok("runs", card).err
    ledger.ok("block", card, "cannot", *ledger.claim(card))
    said = ledger.json("runs", card)
    assert said["task"]["id"] == card
    assert said["runs"][0].keys() >= RUN
    assert "cannot" in ledger.ok("runs", card).out
    assert ledger("runs", "t_nowhere").code == 5


def test_stats(ledger):
    """Cards by status, live, claimable, since when."""
    ledger.create("a")
    said = ledger.json("stats")
    assert said.keys() >= {"schema", "by_status", "live", "claimable", "oldest_ready_at", "position"}
    assert (said["by_status"]["ready"], said["live"], said["claimable"]) == (1, 0, 1)
    assert "claimable now: 1" in ledger.ok("stats").out
    ledger.ok("sweep")
    assert ledger.json("stats")["sweeps"][0].keys() == {"host", "ticked_at", "errors"}
    assert "LAST TICK (Europe/Berlin)" in ledger.ok("stats").out


def test_events(ledger):
    """The whole log, one card's, one kind's, or what came after a position."""
    a, b = ledger.create("a"), ledger.create("b")
    events = ledger.json("events")["events"]
    assert [event["position"] for event in events] == [1, 2, 3, 4]
    assert all(event.keys() == EVENT for event in events)
    assert [event["task"] for event in ledger.json("events", b)["events"]] == [b]
    assert [event["task"] for event in ledger.json("events", "--kind", "created")["events"]] == [a, b]
    assert [event["task"] for event in ledger.json("events", "--after", "3")["events"]] == [b]
    assert ledger("events", "t_nowhere").code == 5
    assert "did" not in ledger("events", "--kind", "claimd", "--json").error["message"]
    assert ledger("events", "--kind", "claimd", "--json").error["try"] == "--kind claimed"


def test_events_as_lines(ledger):
    """--jsonl: one event a line, without a frame around them."""
    ledger.create("a")
    lines = [json.loads(line) for line in ledger.ok("events", "--jsonl").out.splitlines()]
    assert [line["position"] for line in lines] == [1, 2, 3]
    assert all(line.keys() == EVENT for line in lines)
    heading, *rows = ledger.ok("events").out.splitlines()
    assert heading.split()[0] == "POSITION"
    assert len(rows) == 3


def test_events_follow(ledger, monkeypatch):
    """It goes on with what is appended later, of that card only."""
    from kanban.board import Board

    card = ledger.create("a")
    with Board.open() as board:
        found = stream(board, card, after=0, follow=True, kinds=frozenset())
        assert next(found).kind == "created"
        ledger.create("other")
        ledger.ok("comment", card, "later")
        assert next(found).kind == "commented"


def test_follow_ends_with_ctrl_c(ledger, monkeypatch, capsys):
    """130, after the lines that came before."""
    ledger.create("a")

    def interrupted(*_args, **_more):
        yield from ()
        raise KeyboardInterrupt

    monkeypatch.setattr("kanban.questions.follow", interrupted)
    assert run(["events", "--follow", "--jsonl"]) == 130


def test_a_kind_that_nobody_knows_has_a_nearest(ledger):
    """Not an empty answer."""
    with pytest.raises(InvalidInput):
        chosen(["exit"])
    assert chosen([]) == frozenset()
