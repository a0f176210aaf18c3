"""Whatever is typed ends with a clear line: never a traceback, never half written."""

import json

import pytest

from cli.app import run
from tests.engines import on, once

TEXTS = ("", "a\0b", "\udcff", "\x1b[2J", "'; DROP TABLE tasks; --", "../../etc/passwd")
NUMBERS = ("-1", "0", "9" * 30, "9" * 5_000, "1e9", "٣", "NaN", "", "\0")
TEXT_ARGUMENTS = (
    ("create", "?"), ("create", "a", "--body", "?"), ("create", "a", "--assignee", "?"),
    ("create", "a", "--parent", "?"),
    ("create", "a", "--label", "?"), ("create", "a", "--tenant", "?"), ("create", "a", "--key", "?"),
    ("create", "a", "--workspace", "?"), ("create", "a", "--blocked", "?"), ("edit", "CARD", "--title", "?"),
    ("edit", "CARD", "--body", "?"), ("edit", "CARD", "--tenant", "?"), ("edit", "CARD", "--label", "?"),
    ("edit", "CARD", "--workspace", "?"), ("edit", "?", "--title", "b"), ("assign", "CARD", "?"),
    ("assign", "?", "ann"),
    ("link", "CARD", "?"), ("link", "?", "CARD"), ("unlink", "CARD", "?"), ("comment", "CARD", "?"),
    ("comment", "?", "hi"),
    ("schedule", "CARD", "?"), ("schedule", "CARD", "+1h", "--reason", "?"), ("archive", "?"), ("reopen", "?"),
    ("claim", "?"), ("claim", "--next", "--assignee", "?"), ("heartbeat", "?"), ("heartbeat", "CARD", "--lock", "?"),
    ("progress", "CARD", "?", "--lock", "LOCK"), ("complete", "?"), ("complete", "CARD", "?"),
    ("complete", "CARD", "--result", "?"), ("complete", "CARD", "--metadata", "?"), ("block", "CARD", "?"),
    ("block", "CARD", "why", "--kind", "?"), ("block", "?", "why"), ("review", "CARD", "?", "--lock", "LOCK"),
    ("review", "CARD", "--reviewer", "?", "--lock", "LOCK"), ("changes", "CARD", "?"), ("unblock", "?"),
    ("unblock", "CARD", "--reason", "?"), ("unblock", "--all", "--cause", "?"), ("stop", "?"),
    ("stop", "CARD", "--reason", "?"),
    ("accept", "?", "1"), ("list", "--assignee", "?"), ("list", "--label", "?"), ("list", "--tenant", "?"),
    ("list", "--after", "?"), ("list", "--status", "?"), ("list", "--sort", "?"), ("show", "?"), ("why", "?"),
    ("why", "CARD", "?"), ("runs", "?"), ("log", "?"), ("events", "?"), ("events", "--kind", "?"), ("pause", "?"),
    ("pause", "--assignee", "?"), ("pause", "--host", "?"), ("resume", "--assignee", "?"), ("replay", "--task", "?"),
    ("list", "--board", "?"), ("list", "--database", "?"), ("list", "--config", "?"),
    ("comment", "CARD", "hi", "--actor", "?"),
    ("init", "--board", "?"), ("init", "--database", "?"), ("db", "?"), ("?",), ("db", "status", "--database", "?"),
)  # fmt: skip
NUMBER_ARGUMENTS = (
    ("create", "a", "--priority", "?"), ("create", "a", "--max-retries", "?"), ("create", "a", "--max-runtime", "?"),
    ("edit", "CARD", "--priority", "?"), ("edit", "CARD", "--max-retries", "?"), ("edit", "CARD", "--max-runtime", "?"),
    ("claim", "CARD", "--pid", "?"), ("heartbeat", "CARD", "--run", "?", "--lock", "LOCK"), ("accept", "CARD", "?"),
    ("progress", "CARD", "--tokens", "?", "--lock", "LOCK"), ("progress", "CARD", "--cost", "?", "--lock", "LOCK"),
    ("list", "--limit", "?"), ("log", "CARD", "--run", "?"), ("events", "--after", "?"),
    ("sweep", "--max", "?", "--dry-run"),
    ("sweep", "--every", "?", "--dry-run"), ("policy", "--run-limit", "?"), ("policy", "--lease", "?"),
    ("policy", "--max-running", "?"), ("policy", "--stop-grace", "?"), ("policy", "--progress-timeout", "?"),
    ("complete", "CARD", "--metadata", "?"), ("schedule", "CARD", "?"), ("schedule", "CARD", "+?"),
)  # fmt: skip


def tried(ledger, argv, texts):
    card = ledger.create("a", "--assignee", "ann")
    lock = ledger.claim(card)[-1]
    wrong = []
    for text in texts:
        places = {"CARD": card, "LOCK": lock}
        words = [places.get(word, text if word == "?" else word.replace("?", text)) for word in argv]
        said = ledger(*words, "--json")
        if said.code not in {0, 2, 3, 4, 5, 6, 8} or "internal error" in said.out + said.err:
            wrong.append((text, said))
        if said.code != 0:
            assert said.error["message"]
    return wrong


@once
@pytest.mark.parametrize("argv", TEXT_ARGUMENTS, ids=" ".join)
def test_any_text(ledger, argv):
    """Exit code 0, or one that says what was wrong."""
    assert tried(ledger, argv, TEXTS) == []
    assert ledger.json("replay")["divergences"] == []


@once
@pytest.mark.parametrize("argv", NUMBER_ARGUMENTS, ids=" ".join)
def test_any_number(ledger, argv):
    """The same for numbers and durations."""
    assert tried(ledger, argv, NUMBERS) == []
    assert ledger.json("replay", "--strict")["divergences"] == []


@on("postgresql")
def test_any_text_and_any_number_at_a_server(ledger):
    """Those that can reach it: the others are refused before a store is asked."""
    for argv in TEXT_ARGUMENTS:
        assert tried(ledger, argv, TEXTS[3:5]) == []
        if argv[0] == "pause":
            ledger.ok("resume")
    for argv in NUMBER_ARGUMENTS:
        assert tried(ledger, argv, NUMBERS[1:3]) == []
    assert ledger.json("replay", "--strict")["divergences"] == []


@once
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a": "\\ud800"}',
        '{"a": "\\u0000"}',
        '{"\\udfff": 1}',
        "1e999",
        "-Infinity",
        "9" * 5_000,
        "[1,]",
        "",
    ],
)
def test_data_for_programs_is_json_that_can_be_kept(ledger, text):
    """2, and the card is not finished."""
    card = ledger.create("a")
    said = ledger("complete", card, "--metadata", text, "--json")
    assert said.code == 2, said
    assert ledger.json("show", card)["task"]["status"] == "ready"


@once
def test_words_too_are_clean(ledger, capsys):
    """A fault that quotes what was typed does not send it to the terminal."""
    for argv in (["show", "\x1b[2J"], ["\x1b[2J"], ["list", "--sort", "\x1b[2J"], ["list", "--board", "\x1b[2J"]):
        capsys.readouterr()
        run(argv)
        assert "\x1b" not in capsys.readouterr().err


@once
def test_json_stays_json_when_the_message_quotes_bytes(ledger):
    """Bytes that are no UTF-8 arrive as lone surrogates."""
    said = ledger("show", "t_\udcff", "--json")
    assert said.code == 2
    json.dumps(said.error).encode("utf-8")
