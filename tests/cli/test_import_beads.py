"""Issues of beads brought in as cards: import beads."""

from __future__ import annotations

import io
import json
import sys

import pytest

from tests.cli.imports import FIXTURES, blocked, brought, by_title, created, links, note, refused
from tests.engines import once

ISSUES = FIXTURES / "beads" / "issues.jsonl"


def test_issues_of_beads_become_cards(ledger):
    """Closed ones done, those in progress released, the others held as they were; deleted ones are left out."""
    made = brought(ledger, "beads", ISSUES)
    assert (made["tasks"], made["linked"], made["comments"]) == (5, 2, 2)
    assert made["skipped"] == [{"id": "bd-6", "why": "it is deleted there"}]
    assert made["notes"] == [
        "2 links of other types than blocks hold nothing back there: told in the cards' notes",
        "bd-3 does not wait for bd-99: it is not here",
        "1 card was at work there, and nobody holds them here; stop their workers there: bd-2",
    ]
    cards = by_title(ledger)
    assert {title: shown["task"]["status"] for title, shown in cards.items()} == {
        "Write the parser": "done", "Mend the parser": "ready", "Release": "blocked", "Ask the vendor": "blocked",
        "Rewrite it all": "blocked",
    }  # fmt: skip
    assert links(ledger) == {("Mend the parser", "Write the parser"), ("Release", "Mend the parser")}
    assert blocked(ledger, cards["Ask the vendor"]) == (None, None, True)
    assert blocked(ledger, cards["Rewrite it all"]) == ("deferred", "its status in beads is deferred", True)


def test_an_issue_keeps_all_that_beads_says(ledger):
    """Its texts are the body; 0 is the most urgent there, and the largest goes first here; the rest is in the note."""
    brought(ledger, "beads", ISSUES)
    cards = by_title(ledger)
    shown = cards["Write the parser"]
    facts = created(ledger, shown)
    assert facts["key"] == "beads:bd-1@2025-10-12T09:00:00.123456789+02:00"
    assert (facts["assignee"], facts["labels"], facts["priority"]) == ("ann", ["core", "parser"], 1)
    words = json.loads(ledger.ok("events", shown["task"]["id"], "--kind", "created", "--jsonl").out)["words"]
    parts = ("It reads a line.", "## Design", "By hand, no generator.", "## Acceptance criteria",
             "Each line has a test.", "## Notes", "Ask Béa.")  # fmt: skip
    assert words["body"] == "\n\n".join(parts)
    completed = json.loads(ledger.ok("events", shown["task"]["id"], "--kind", "completed", "--jsonl").out)
    assert completed["words"] == {"summary": "merged in 4f2a", "result": None, "metadata": None}
    said = note(shown, "beads")
    assert (said["id"], said["issue_type"], said["closed_at"]) == ("bd-1", "epic", "2025-10-14T10:00:00Z")
    mended = cards["Mend the parser"]
    assert [each["body"] for each in mended["comments"][1:]] == [
        "ann wrote at 2025-10-15T11:00:00Z:\nIt chokes on tabs.\nAnd on form feeds.",
        "an author that is not named wrote at 2025-10-15T12:00:00Z:\nSeen.",
    ]
    assert len(note(mended, "beads")["dependencies"]) == 2
    assert [cards[title]["task"]["priority"] for title in ("Mend the parser", "Release", "Rewrite it all")] == [
        2,
        0,
        -2,
    ]


def test_issues_come_from_stdin_as_well_and_a_repeat_is_harmless(ledger, monkeypatch):
    """As `bd export` pipes them."""
    stdin = io.TextIOWrapper(io.BytesIO(ISSUES.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    made = brought(ledger, "beads", "-")
    assert (made["source"], made["tasks"]) == ("stdin", 5)
    assert brought(ledger, "beads", ISSUES)["known"] == 5


@once
@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "there is no issue in it"),
        (b"\n \n", "there is no issue in it"),
        (b'{"id":"a","title":"b"}\nnot json\n', "line 2 is no JSON"),
        (b'{"id":"a","title":"b"}\n[1]\n', "line 2 is no JSON object"),
        (b'{"id":"a","title":"b"}\n\n{"position":1,"task":"x"}', "line 3 has no id or no title; it has position, task"),
        (b"\xff\xfe\n", "line 1 is no JSON"),
        (b'{"id":"a","title":"b","x":' + b"[" * 100_000, "line 1 is no JSON"),
    ],
)
def test_a_line_that_is_no_issue_is_named_and_nothing_is_imported(bare, tmp_path, raw, says):
    """Exit 8: the whole file is read before the first card is made."""
    path = tmp_path / "issues.jsonl"
    path.write_bytes(raw)
    assert says in refused(bare, 8, "import", "beads", str(path))["message"]
    assert bare("list").code == 8


@once
def test_issues_that_cannot_be_read_are_missing(bare, tmp_path):
    """A folder names what lies in it, often."""
    for path in (tmp_path, tmp_path / "nowhere"):
        error = refused(bare, 8, "import", "beads", str(path))
        assert str(path) in error["message"]
        assert ".beads/issues.jsonl" in error["try"]


def test_odd_issues_come_in_as_far_as_they_say_something(ledger, tmp_path):
    """Fields of another type are as if they were not there; a key that nobody knows stands in the note."""
    odd = {"id": "x", "title": "odd", "status": 7, "priority": "high", "labels": ["red", 7],
           "comments": [{}, 4], "assignee": None, "rig": {"deep": [1.5, True, float("inf")]},
           "dependencies": [3, {}, {"depends_on_id": "y"}, {"depends_on_id": "y"},
                            {"issue_id": "z", "depends_on_id": "z"}]}  # fmt: skip
    (tmp_path / "issues.jsonl").write_text(json.dumps(odd))
    made = brought(ledger, "beads", tmp_path / "issues.jsonl")
    assert (made["tasks"], made["notes"]) == (1, ["x does not wait for y: it is not here"])
    shown = by_title(ledger)["odd"]
    assert (shown["task"]["status"], shown["task"]["hold"]["kind"], shown["task"]["priority"]) == ("blocked", "7", 0)
    assert shown["task"]["labels"] == ["red"]
    assert note(shown, "beads")["rig"] == {"deep": [1.5, True, "inf"]}
