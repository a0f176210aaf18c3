"""`ledger worker run` on the command line: its words, its refusals in JSON, and where it is found."""

import json

import pytest


def last(said):
    """The one JSON object that was printed."""
    return json.loads(said.out)


def test_help_lists_it(ledger):
    """Under its own name, and with what it does."""
    assert "worker" in ledger.ok("--help").out
    assert "wait until its run is booked" in ledger.ok("worker", "run", "--help").out


def test_what_stands_after_the_dashes_is_the_commands_own(ledger):
    """Even words that are options of ours, and a blank one."""
    card = ledger.create()
    script = 'printf "<%s>" "$@"'
    said = ledger(
        "worker", "run", card, "--json", "--", "sh", "-c", script, "sh", "--json", "--board", "x", "", "{task}"
    )
    assert (said.code, last(said)["outcome"]) == (0, "clean")
    assert ledger.ok("log", card).out.startswith(f"<--json><--board><x><><{card}>")


def test_it_says_what_became_of_the_run(ledger):
    """A line for people; the log's place comes first, on stderr, and not with --quiet."""
    card = ledger.create()
    said = ledger("worker", "run", card, "--", "false")
    assert (said.code, said.out) == (1, f"{card} run 1: booked as crashed\n")
    assert said.err.startswith(f"{card} run 1: its log is {ledger.home}/boards/default/runs/{card}/1/log")
    quiet = ledger("worker", "run", card, "--quiet", "--", "false")
    assert (quiet.code, quiet.out, quiet.err) == (1, "", "")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("CARD", "--", " "), 2, "usage"),
        (("CARD", "--assignee", " ", "--", "true"), 2, "invalid_input"),
        (("t_nowhere", "--", "true"), 5, "unknown_task"),
        (("CARD",), 4, "not_claimable"),
        ((), 2, "usage"),
    ],
)
def test_a_refusal_is_an_error_object_and_writes_nothing(ledger, words, code, error):
    """As every other command's."""
    card = ledger.create()
    before = ledger.position()
    said = ledger("worker", "run", "--json", *[card if word == "CARD" else word for word in words])
    assert (said.code, said.error["code"]) == (code, error)
    assert ledger.position() == before


def test_a_card_with_a_run_is_taken(ledger):
    """Exit code 3, and the run is named."""
    card = ledger.create()
    ledger.claim(card)
    said = ledger("worker", "run", card, "--json", "--", "true")
    assert (said.code, said.error["code"]) == (3, "taken")


def test_inside_a_worker_it_is_forbidden(worker):
    """RULES §8: for operators, on its own card and on any other."""
    ledger, card = worker
    said = ledger("worker", "run", card, "--json", "--", "true")
    assert (said.code, said.error["code"]) == (4, "forbidden")
    assert said.error["message"] == "worker run is not a worker's"


def test_nobodys_card_is_claimed_for_the_assignee_that_is_named(fleet):
    """And with its section: the crasher crashes."""
    card = fleet.create()
    assert fleet("worker", "run", card, "--assignee", "crasher").code == 1
    assert [run["assignee"] for run in fleet.json("runs", card)["runs"]] == ["crasher"]
