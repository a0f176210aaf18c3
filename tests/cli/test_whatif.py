"""`ledger replay --what-if`: other limits, tried on the log; a table for people, JSON for programs."""

import pytest

KEYS = {"schema", "what_if", "events", "tasks", "position", "cards", "unknown", "totals", "notes"}


@pytest.fixture
def crashed(fleet):
    """A card that crashed twice and was held, a person unblocked it, and it crashed once more; its id comes along."""
    card = fleet.create("mend it", "--assignee", "crasher")
    fleet("sweep", "--every", "1s", "--until-idle")
    assert fleet.json("show", card)["task"]["hold"]["cause"] == "failure_budget"
    fleet.ok("unblock", card)
    return fleet, card


def test_a_lower_limit_in_json_and_in_words(crashed):
    """The first decision that differs, the runs that would not have started, and where knowledge ends."""
    ledger, card = crashed
    said = ledger.json("replay", "--what-if", "failure_limit=1")
    assert said.keys() == KEYS
    (told,) = said["cards"]
    assert (said["what_if"], told["task"], told["decision"], told["runs"]) == (
        {"failure_limit": 1}, card, "held_earlier", [2],
    )  # fmt: skip
    assert told["known_until"] == ledger.position()
    assert (told["tokens"], told["cost"], told["runs_without_usage"]) == (None, None, 1)
    assert said["totals"]["runs_saved"] == 1
    out = ledger.ok("replay", "--what-if", "failure-limit=1").out
    for part in ("failure_limit=1, on ", card, "held earlier", "failure_budget: 1 of 1 (policy)", "at least 1"):
        assert part in out


def test_a_higher_limit_leaves_the_rest_unknown(crashed):
    """A hold that would not have come: nobody knows what came instead."""
    ledger, _ = crashed
    out = ledger.ok("replay", "--what-if", "failure_limit=3", "--what-if", "attempt_limit=none").out
    assert "held later or never" in out
    assert "unknown" in out
    assert "runs that would not have started" not in out


def test_limits_that_change_nothing_say_so(crashed):
    """And so does a card to which nothing would have happened."""
    ledger, card = crashed
    said = ledger.ok("replay", "--what-if", "failure_limit=2")
    assert "no decision would have differed" in said.err
    other = ledger.create("other")
    assert ledger.json("replay", "--what-if", "failure_limit=1", "--task", other)["cards"] == []
    assert len(ledger.json("replay", "--what-if", "failure_limit=1", "--task", card)["cards"]) == 1
    assert ledger("replay", "--what-if", "failure_limit=1", "--task", "t_nowhere").code == 5


@pytest.mark.parametrize(
    ("said", "told", "remedy"),
    [
        ("failure_limit", "wanted LIMIT=N", None),
        ("failure_limit=", "whole number", None),
        ("failure_limit=0", "whole number", None),
        ("failure_limit=none", "failure_limit is None", None),
        ("failure_limit=ten", "whole number", None),
        ("failure_limt=1", "'failure_limt' cannot be tried", "failure_limit"),
        ("lease=1", "'lease' cannot be tried", "one of: failure_limit, "),
        ("=1", "'' cannot be tried", "one of: failure_limit, "),
    ],
)
def test_what_cannot_be_tried_is_refused_with_what_can(ledger, said, told, remedy):
    """Exit 2, before anything is read."""
    answer = ledger("replay", "--what-if", said, "--json")
    assert answer.code == 2
    assert told in answer.error["message"]
    assert remedy is None or answer.error["try"].startswith(remedy)


def test_one_limit_twice_and_the_flags_of_the_audit_are_refused(ledger):
    """Neither the last of two nor half an audit is a guess."""
    twice = ledger("replay", "--what-if", "run_limit=1", "--what-if", "run-limit=2")
    assert (twice.code, "run_limit is said twice" in twice.err) == (2, True)
    for flag in ("--strict", "--no-chain"):
        assert ledger("replay", "--what-if", "run_limit=1", flag).code == 2
