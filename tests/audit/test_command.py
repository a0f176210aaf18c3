"""`ledger audit hermes PATH`: a table for people, JSON for programs, an exit code for alarms, and no store of ours."""

import json
import os

import pytest

from cli.app import run
from tests.audit.boards import FIXTURES, claimed, created, event, gave_up

DRIFT = str(FIXTURES / "hermes-board-drift.db")


@pytest.fixture
def ledger(tmp_path, monkeypatch, capsys):
    """The command line, where there is no store and no settings: its exit code, stdout and stderr."""
    monkeypatch.setenv("LEDGER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LEDGER_DATABASE_URL", raising=False)

    def said(*argv):
        code = run(argv)
        return code, *capsys.readouterr()

    return said


def test_findings_end_with_7_and_a_clean_board_with_0(ledger, board):
    """An alarm needs no more than that."""
    board.card(created())
    assert ledger("audit", "hermes", str(board.path))[0] == 0
    board.say("UPDATE tasks SET status = 'done'")
    assert ledger("audit", "hermes", str(board.path))[0] == 7


def test_it_needs_no_store_and_makes_none(ledger, tmp_path, board):
    """Nor a home: a stranger's board can be looked at before anything is set up."""
    board.card(created())
    ledger("audit", "hermes", str(board.path))
    assert [path.name for path in tmp_path.iterdir()] == ["kanban.db"]


def test_programs_get_everything_in_one_object(ledger):
    """With the keys that are promised, and each finding whole."""
    code, out, err = ledger("audit", "hermes", DRIFT, "--json")
    found = json.loads(out)
    assert (code, err, len(out.splitlines())) == (7, "", 1)
    assert (found["schema"], found["board"], found["tasks"], found["events"]) == (1, DRIFT, 40, 200)
    assert found["totals"]["findings"] == len(found["findings"]) == 25
    assert found["totals"]["by_finding"]["stored_against_history"] == 5
    assert found["totals"]["tasks"] == 13
    assert [note.split(":")[0] for note in found["notes"]] == ["ours"]
    (one,) = [each for each in found["findings"] if each["task"] == "t_b0f0f682" and each["stored"]]
    assert one == {
        "finding": "stored_against_history", "task": "t_b0f0f682", "events": [153], "certainty": "certain",
        "text": "status is ready, by its events blocked; failures is 0, by its events 2", "because": None,
        "rule": "every change of a card writes an event", "rule_of": "hermes", "runs": [], "cost": 0,
        "stored": {"status": "ready", "failures": 0}, "history": {"status": "blocked", "failures": 2},
        "ours": "status and counters are computed from the events (§3, §4); replay names a row that says otherwise",
    }  # fmt: skip
    (ours,) = found["ours"]
    assert (ours["task"], ours["held_at"], ours["not_started"]) == ("t_691da831", 179, 1)


def test_people_get_a_section_a_kind_with_its_rule_and_a_line_a_card(ledger):
    """First what is stored wrongly, and at the end the sum."""
    code, out, err = ledger("audit", "hermes", DRIFT)
    lines = out.splitlines()
    assert code == 7
    assert lines[:5] == [
        "stored_against_history: 5",
        "  rule (hermes): every change of a card writes an event",
        "  ours: status and counters are computed from the events (§3, §4); replay names a row that says otherwise",
        "  CARD        SURE     EVENTS  WHAT",
        "  t_d9ccaf06  certain  94      status is ready, by its events done",
    ]
    assert "  t_691da831  certain  179      violation_budget 3 of 3  1 run        182" in lines
    assert lines[-1] == (
        f"{DRIFT}: 40 cards, 37 runs, 200 events; 25 findings on 13 cards; they cost 10 runs; ours would not have "
        "started 1"
    )
    assert err.startswith("note: ours: the limits of a new board (failure_limit 2, violation_limit 3")


def test_a_board_without_findings_is_one_line(ledger, board):
    """And the notes, which say what was not looked at."""
    board.card(created())
    _, out, err = ledger("audit", "hermes", str(board.path))
    assert out == f"{board.path}: 1 card, 0 runs, 1 event; no finding\n"
    assert err.count("note:") == 1
    assert ledger("audit", "hermes", str(board.path), "--quiet")[2] == ""


def test_many_events_are_named_by_the_first_and_the_last(ledger, board):
    """A card that ran two hundred times fits on a line; what came of it is said."""
    again = (event("promoted"), claimed(2), event("crashed", 2), claimed(3), event("crashed", 3), claimed(4))
    ours = (event("protocol_violation", 4, protocol_violation=True), claimed(5), event("completed", 5))
    board.card(created(), claimed(1), event("crashed", 1), gave_up(1, 1), *again, *ours, status="done")
    _, out, _ = ledger("audit", "hermes", str(board.path))
    assert "4, 6, … 12 (5)" in out
    assert "done all the same" in out


@pytest.mark.parametrize(
    ("path", "code"),
    [("nowhere", "foreign_missing"), (os.devnull, "foreign_missing"), ("/", "foreign_missing"),
     (__file__, "foreign_damaged"), ("a\tb\x1b[2J", "foreign_missing"), ("", "foreign_missing"),
     ("x" * 9_999, "foreign_missing")],
)  # fmt: skip
def test_what_is_no_board_ends_with_8_and_says_what_was_found(path, code, ledger):
    """In JSON too, and harmless to a terminal."""
    ended, out, _ = ledger("audit", "hermes", path, "--json")
    assert (ended, json.loads(out)["error"]["code"]) == (8, code)
    assert json.loads(out)["error"]["try"]
    ended, out, err = ledger("audit", "hermes", path)
    assert (ended, out) == (8, "")
    assert "\x1b" not in err


@pytest.mark.parametrize("argv", [["audit"], ["audit", "--json"], ["audit", "hermes"], ["audit", "hermes", "a", "b"],
                                  ["audit", "beads", "a"], ["audit", "hermes", "--task", "a"]])  # fmt: skip
def test_a_line_that_names_no_board_is_a_wrong_line(argv, ledger):
    """Without a system the help is printed."""
    code, out, _ = ledger(*argv)
    assert code == (0 if argv == ["audit"] else 2)
    assert ("hermes" in out) == (argv == ["audit"])


def test_titles_and_names_of_others_cannot_speak_to_the_terminal(ledger, board):
    """Whatever stands in the file."""
    board.card(event("\x1b[2J"), task="t_\x1b[31m", status="\x1b]0;x\x07")
    code, out, err = ledger("audit", "hermes", str(board.path))
    assert code == 0
    assert "\x1b" not in out + err
    assert "\x1b" not in ledger("audit", "hermes", str(board.path), "--json")[1]
