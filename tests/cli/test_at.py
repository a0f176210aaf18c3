"""`--at` and `diff`: the board as it stood, and what changed since."""

from __future__ import annotations

import pytest

from kanban.lookback import AT_ONCE, Lookback
from ledger.database import connect
from ledger.errors import StoreFull
from projections import snapshots

READS = (("list",), ("show", "CARD"), ("board",), ("why", "CARD"), ("stats",), ("runs", "CARD"))


@pytest.fixture
def card(ledger):
    """A card that was created (3), commented on (4), blocked (5) and unblocked (6)."""
    made = ledger.create("Mend it", "--assignee", "ann")
    ledger.ok("comment", made, "see there")
    ledger.ok("block", made, "no key")
    ledger.ok("unblock", made)
    return made


def named(words, card):
    return [card if word == "CARD" else word for word in words]


@pytest.mark.parametrize("words", READS, ids=lambda words: words[0])
def test_every_read_tells_of_an_earlier_position(ledger, card, words):
    """The moment stands in the answer, in UTC; without `--at` it does not."""
    then = ledger.json(*named(words, card), "--at", "5")
    assert then["at"]["position"] == 5
    assert then["at"]["time"].endswith("Z")
    assert "at" not in ledger.json(*named(words, card))


@pytest.mark.parametrize("words", READS, ids=lambda words: words[0])
def test_for_people_the_moment_is_told_on_stderr(ledger, card, words):
    """So that data stay data."""
    said = ledger.ok(*named(words, card), "--at", "5")
    assert said.err.startswith("as of position 5, 20")
    assert "as of" not in said.out


def test_the_answers_are_those_of_then(ledger, card):
    """A card that is ready now was blocked then, for a reason that stands in the log."""
    assert ledger.json("list", "--at", "5")["tasks"][0]["status"] == "blocked"
    assert ledger.json("show", card, "--at", "5")["task"]["hold"]["position"] == 5
    assert [card["id"] for card in ledger.json("board", "--at", "5")["columns"]["blocked"]] == [card]
    assert ledger.json("why", card, "--at", "5")["because"][0]["positions"] == [5]
    assert ledger.json("stats", "--at", "5")["by_status"]["blocked"] == 1
    assert len(ledger.json("show", card, "--at", "4")["events"]) == 2
    assert ledger.json("list")["tasks"][0]["status"] == "ready"
    assert ledger.json("list", "--at", "2")["tasks"] == ledger.json("list", "--at", "0")["tasks"] == []


def test_a_time_means_all_that_had_happened_by_then(ledger, card):
    """The instant of an event is right behind it; a time without an offset is local, and shown in UTC."""
    events = ledger.json("events")["events"]
    found = ledger.json("list", "--at", events[3]["at"])
    assert found["position"] >= 4
    assert found["at"]["time"] == events[3]["at"]
    assert ledger.json("list", "--at", "2020-01-01")["at"]["position"] == 0


@pytest.mark.parametrize(
    ("at", "code", "said"),
    [("99", 5, "no event stands at position 99"), ("+2h", 2, "has not come yet"), ("never", 2, "no time"),
     ("-4", 2, "no time"), ("4x", 2, "no time"), ("9" * 30, 2, "no time")],
)  # fmt: skip
def test_a_moment_that_is_none_is_refused(ledger, card, at, code, said):
    """By what is wrong with it."""
    found = ledger("list", "--at", at)
    assert (found.code, said in found.err) == (code, True)


def test_a_card_that_was_not_there_then_is_not_there(ledger, card):
    """As one that never was."""
    later = ledger.create("Later")
    assert ledger("show", later, "--at", "6").code == 5
    assert ledger("why", later, "--at", "6").code == 5


def test_a_replay_stops_there_and_compares_what_is_shown_of_then(ledger, card):
    """`replay --at`: also by a time, and with other limits."""
    found = ledger.json("replay", "--at", "5")
    assert (found["events"], found["position"], found["divergences"]) == (5, 5, [])
    assert ledger.json("replay", "--at", ledger.json("events")["events"][-1]["at"])["events"] == 6
    assert ledger.json("replay", "--what-if", "failure_limit=1", "--at", "5")["position"] == 5
    assert ledger("replay", "--at", "99").code == 5


# What changed


def test_diff_tells_which_cards_changed_how_and_by_which_events(ledger, card):
    """From right behind one position to right behind another."""
    found = ledger.json("diff", "4", "5")
    assert (found["from"]["position"], found["to"]["position"]) == (4, 5)
    [changed] = found["changed"]
    assert (changed["task"], changed["changes"]["status"]) == (card, {"from": "ready", "to": "blocked"})
    assert changed["events"] == [{"position": 5, "task": card, "kind": "blocked", "run": None, "outcome": None}]


def test_diff_in_words(ledger, card):
    """A card, its changes a line each, and the events that made them."""
    said = ledger.ok("diff", "4", "5")
    assert said.out.splitlines() == [
        f"{card}  Mend it",
        "    status: ready → blocked",
        "    hold: none → operator (position 5)",
        "    by 5 blocked",
    ]
    assert said.err.startswith("from position 4, ")
    assert "    new: status ready, assignee ann" in ledger.ok("diff", "2", "4").out


def test_diff_without_an_end_is_to_now(ledger, card):
    """And where nothing happened it says so."""
    assert ledger.json("diff", "5")["to"]["position"] == 6
    assert ledger.json("diff", "6")["changed"] == []
    assert "nothing changed" in ledger.ok("diff", "6").err


def test_diff_of_the_board_itself(ledger, card):
    """Its policy and pauses are named beside the cards."""
    ledger.ok("policy", "--failure-limit", "3")
    ledger.ok("pause", "lunch")
    said = ledger.ok("diff", "6").out
    assert said.startswith("the board")
    assert "    failure_limit: 2 → 3" in said


@pytest.mark.parametrize(("first", "last", "code"), [("5", "4", 2), ("99", "100", 5), ("4", "99", 5), ("x", "5", 2)])
def test_diff_refuses_what_is_no_stretch(ledger, card, first, last, code):
    """Backwards, behind the end, and what is no moment."""
    assert ledger("diff", first, last).code == code


# Snapshots


def test_db_snapshot_takes_what_is_missing(ledger, card, monkeypatch):
    """Twice is harmless; what is then shown is the same."""
    monkeypatch.setattr(snapshots, "SPACING", 2)
    before = ledger.json("board", "--at", "5")
    assert ledger.json("db", "snapshot")["taken"] == 3
    assert ledger.ok("db", "snapshot").out.endswith("0 snapshots taken\n")
    assert ledger.json("board", "--at", "5") == before


def test_the_sweep_takes_them_as_the_log_grows(ledger, card, monkeypatch):
    """A few a tick, and none where the log has not grown by enough."""
    monkeypatch.setattr(snapshots, "SPACING", 2)
    ledger.ok("sweep")
    assert ledger.json("db", "snapshot")["taken"] == 0


def test_a_snapshot_that_cannot_be_taken_is_told_and_not_tried_at_every_tick(ledger, card, monkeypatch):
    """The tick has done its work: the error stands beside it, and the log must grow before the next try."""
    monkeypatch.setattr(snapshots, "SPACING", 2)
    tried = []

    def take(*_given, **_more):
        tried.append(1)
        raise snapshots_fault

    snapshots_fault = StoreFull("no room", remedy="free space")
    monkeypatch.setattr(snapshots, "take", take)
    lookback = Lookback(connect(ledger.url), "default", due=2)
    assert lookback.take(1) is None
    assert lookback.take(5) == "no snapshot of the past was taken: no room"
    assert lookback.take(5) is None
    assert (len(tried), lookback.due) == (1, 6)


def test_a_log_that_was_brought_in_is_caught_up_with_tick_by_tick(monkeypatch):
    """No tick takes longer for it than a fraction of a second."""
    left = [AT_ONCE, AT_ONCE, 1]
    monkeypatch.setattr(snapshots, "take", lambda *_given, most: min(left.pop(0), most))
    lookback = Lookback(None, "default")
    position = 9 * snapshots.SPACING
    for _ in range(5):
        assert lookback.take(position) is None
    assert left == []
    assert lookback.due == position + snapshots.SPACING


def test_why_of_the_past_does_not_say_what_to_run_and_blames_no_sweep(ledger, card):
    """What a sweep saw then is not in the log, and what could be done then is not what can be done now."""
    found = ledger.json("why", card, "--at", "4")
    assert found["try"] is None
    assert found["because"][-1]["text"].startswith("nothing in the log kept it from being started")
    assert "try:" not in ledger.ok("why", card, "--at", "4").out
    assert ledger.json("why", card)["try"] == "ledger sweep"
