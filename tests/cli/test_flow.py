"""`ledger stats`: what was done, how fast and at what cost; as JSON and in words, with a picture."""

import io
import sys

import pytest

from cli.picture import bar, line

FLOW = {
    "between", "created", "completed", "failed", "runs", "lead_time", "cycle_time", "runs_per_completion", "usage",
    "cost_per_card", "tokens_per_card", "dearest", "assignees", "days",
}  # fmt: skip


@pytest.fixture
def worked(ledger):
    """One card done in two runs, one by a person, one open."""
    card = ledger.create("mend it", "--assignee", "ann")
    ledger.ok("progress", card, "half", "--tokens", "5", "--cost", "0.25", *(proof := ledger.claim(card)))
    ledger.ok("review", card, *proof, "--reviewer", "bob")
    ledger.ok("complete", card, "done", *ledger.claim(card))
    ledger.ok("complete", ledger.create("by hand"), "--outcome", "fail")
    ledger.create("open")
    return ledger


def test_the_flow_stands_beside_the_counts(worked):
    """What was there stays as it was; one key more."""
    said = worked.json("stats")
    assert said.keys() == {
        "schema", "by_status", "live", "claimable", "oldest_ready_at", "sweeps", "position", "flow",
    }  # fmt: skip
    flow = said["flow"]
    assert flow.keys() == FLOW
    assert [flow[name] for name in ("created", "completed", "failed", "runs")] == [3, 1, 1, 2]
    assert flow["usage"].items() >= {"runs": 2, "tokens": 5, "cost": "0.25", "runs_without_usage": 1}.items()
    assert flow["runs_per_completion"]["distribution"] == {"0": 1, "2": 1}


def test_the_flow_in_words_with_a_picture(worked):
    """A day a row, with a bar; how many runs; who; what was dear."""
    out = worked.ok("stats").out
    for part in ("from (Europe/Berlin)", "1 completed; 1 failed; 3 created; 2 runs started, 2 ended", "cost 0.25",
                 "1 did not say all that they used", "cycle time of 1 cards", "DAY (UTC)", "█", "ASSIGNEE", "ann",
                 "dearest cards", "runs until a card was completed"):  # fmt: skip
        assert part in out, part


def test_a_stretch_by_positions_and_by_times(worked):
    """Both ends are in it; what was understood is told."""
    whole = worked.json("stats")["flow"]
    last = worked.position()
    for between in (("1", str(last)), ("2000-01-01", "now"), ("1", "now"), ("0", str(last + 100))):
        assert worked.json("stats", "--between", *between)["flow"] == whole
    some = worked.json("stats", "--between", "1", "5")["flow"]
    assert (some["between"]["to_position"], some["completed"]) == (5, 0)
    assert "positions 1–5" in worked.ok("stats", "--between", "1", "5").out
    assert "no event in that stretch" in worked.ok("stats", "--between", "2000-01-01", "2000-01-02").err


@pytest.mark.parametrize(
    ("between", "told"),
    [
        (("9", "3"), "ends before it begins"),
        (("now", "2000-01-01"), "ends before it begins"),
        (("soon", "now"), "'soon'"),
        (("-3", "4"), "'-3'"),
        (("1", "99999999999999999999999"), "is no time"),
    ],
)
def test_a_stretch_that_is_none_is_refused(worked, between, told):
    """Exit 2, and the word that is wrong."""
    answer = worked("stats", "--between", *between)
    assert answer.code == 2
    assert told.replace("'", '"') in answer.err or told in answer.err


def test_one_end_is_not_enough(worked):
    """A usage error."""
    assert worked("stats", "--between", "1").code == 2


# The picture


@pytest.mark.parametrize(
    ("value", "drawn"), [(0, ""), (-1, ""), (1, "▎"), (4, "█"), (5, "█▎"), (40, "█" * 10), (80, "█" * 10)]
)
def test_a_bar_is_as_long_as_its_value(monkeypatch, value, drawn):
    """To an eighth of a character, beside the largest; nothing is no bar, and little is a little one."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert bar(value, 40, 10) == drawn


def test_the_smallest_bar_can_be_seen(monkeypatch):
    """One of a million is not nothing."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert bar(1, 1_000_000) == "▏"
    assert bar(1, 0) == ""


def test_a_line_has_a_height_for_every_value(monkeypatch):
    """A dot for a day without any."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert line([0, 1, 4, 8]) == "·▂▅█"
    assert line([]) == ""


def test_where_stdout_takes_only_letters_the_picture_is_of_them(monkeypatch):
    """LANG=C."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert bar(20, 40, 10) == "#####"
    assert line([0, 1, 2]) == ".=#"
    assert (bar(1, 40, 10) + line([0, 1, 9])).isascii()
