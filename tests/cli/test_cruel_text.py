"""What people type: refused by name where no store could keep it, else kept to the letter, and shown harmless."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import get_args, get_origin

import pytest

from cli.app import app_command
from tests.cli.test_cruel_fuzz import leaves
from tests.engines import on, once

KEPT = {
    "escape": "\x1b[2J\x1b]0;owned\x07",
    "bell": "ding\a\b\x7f",
    "carriage return": "safe\rrm -rf /",
    "lines": "one\r\ntwo\nthree",
    "C1": "next\x85line \x9b31m",
    "separators": "a\u2028b\u2029c",
    "bidi": "\u202eevil\u202c \u2066x\u2069 \u200fy",
    "emoji": "👩🏽\u200d🚀 🏳️\u200d🌈",
    "combining": "Z͑ͫa̴l̶g̷o e\N{COMBINING ACUTE ACCENT} é",
    "right to left": "שלום עולם مرحبا",
    "zero width": "a\u200bb\ufeffc\u00ad",
    "private": "\ue000\U0010ffff\ufffe\ufffd",
    "tab": "a\tb",
    "quotes": "\"'`$(reboot)\\n%s{0}",
    "spaces": "  two  spaces\u00a0and\u3000wide  ",
}
CONTROL = [chr(code) for code in (*range(1, 32), *range(127, 160), 0x2028, 0x2029, 0x202E, 0x2066, 0x200F, 0xFEFF)]
HARMFUL = {letter for letter in CONTROL if letter != "\n"}
BAD = {"a\0b": "NUL", "a\ud800b": "UTF-8", "\udfff": "UTF-8", "\ud83d\ude00": "UTF-8"}


def text_fields():
    """Every parameter of every command that takes a text, with what must stand before it."""
    before = {
        "task": "CARD", "child": "CARD", "parent": "CARD", "first": "CARD", "second": "a", "title": "a", "to": "ann",
        "text": "a", "when": "+1h", "run": "1", "file": "copy.db", "tasks": "CARD", "topic": "hold", "reason": "a",
        "position": "1",
    }  # fmt: skip
    for path, params in leaves(app_command()):
        if path == ("demo",):
            continue
        arguments = [param for param in params if param.param_type_name == "argument"]
        for param in params:
            kind = param.type_descriptor.annotation
            kind = get_args(kind)[0] if get_origin(kind) is list else kind
            if kind in {int, bool} or get_origin(kind) is not None:
                continue
            if param in arguments:
                words = [before.get(each.name, "a") for each in arguments[: arguments.index(param)]] + ["?"]
                words += [before.get(each.name, "a") for each in arguments[len(words) :] if each.required]
            else:
                words = [before.get(each.name, "a") for each in arguments if each.required] + [param.opts[0], "?"]
            needed = [each for each in params if each.required and each not in {*arguments, param}]
            yield (*path, *words, *(word for each in needed for word in (each.opts[0], "a")))
    for name in ("--board", "--database", "--config", "--actor"):
        yield ("list", name, "?")


@once
@pytest.mark.parametrize("argv", list(text_fields()), ids=" ".join)
def test_a_text_that_no_store_can_keep_is_refused_by_name(ledger, argv):
    """RULES §10: NUL and lone surrogates, in every text of every command; nothing is written."""
    card = ledger.create("a")
    before = ledger.position()
    for text, what in BAD.items():
        said = ledger(*(card if word == "CARD" else text if word == "?" else word for word in argv), "--json")
        assert (said.code, said.error["code"]) in {(2, "invalid_text"), (2, "usage")}, (text, said)
        assert any(part in said.error["message"] for part in (what, "null byte", "surrogates")), said
        name = argv[argv.index("?") - 1] if argv[argv.index("?") - 1].startswith("--") else ""
        assert name in said.error["message"], said
    assert ledger.position() == before


@once
@pytest.mark.parametrize("name", ["USER", "LEDGER_ACTOR", "LEDGER_BOARD"])
@pytest.mark.parametrize("text", ["\udcff", "a\udc80"])
def test_the_environment_too_may_hold_bytes_that_are_no_text(ledger, monkeypatch, name, text):
    """Bytes that are no UTF-8 arrive as lone surrogates: 2, and the field is named."""
    monkeypatch.setenv(name, text)
    said = ledger("create", "a", "--json")
    assert (said.code, said.error["code"]) == (2, "invalid_text"), said


def harmless(said):
    """No control character and no override reaches a terminal."""
    assert not HARMFUL & set(said.out + said.err), said


def written(ledger, text):
    """*text* in every place where words are kept; what `show`, `list` and `events` make of it."""
    lock = ("--lock", ledger.json("claim", card := ledger.create(text, "--body", text))["lock"])
    ledger.ok("comment", card, text)
    ledger.ok("progress", card, text, *lock)
    ledger.ok("review", card, text, "--reviewer", "dana", *lock)
    ledger.ok("changes", card, text)
    ledger.ok("schedule", card, "+1h", "--reason", text)
    ledger.ok("block", card, text)
    ledger.ok("unblock", card, "--reason", text)
    (ledger.home / "result").write_bytes(text.encode())
    metadata = json.dumps({text: [text]})
    ledger.ok("complete", card, text, "--result", str(ledger.home / "result"), "--metadata", metadata)
    ledger.ok("reopen", card, "--reason", text)
    return card


@once
@pytest.mark.parametrize("text", KEPT.values(), ids=list(KEPT))
def test_any_other_text_is_kept_to_the_letter_and_shown_harmless(ledger, text):
    """JSON gives back what was typed, in every place; a terminal gets escapes."""
    kept(ledger, text)


@on("postgresql")
def test_a_server_too_keeps_every_text_to_the_letter(ledger):
    """All of them at once."""
    kept(ledger, " ".join(KEPT.values()))


def kept(ledger, text):
    """Write *text* wherever words are kept, and hold every answer against it."""
    card = written(ledger, text)
    shown = ledger.json("show", card)
    assert (shown["task"]["title"], shown["task"]["body"], shown["comments"][0]["body"]) == (text, text, text)
    words = [event["words"] for event in ledger.json("events", card)["events"]]
    said = [value for each in words for value in each.values() if isinstance(value, str)]
    assert said.count(text) == 12, said
    assert [each["metadata"] for each in words if each.get("metadata")] == [{text: [text]}]
    assert ledger.json("list")["tasks"][0]["title"] == text
    jsonl = [json.loads(line) for line in ledger.ok("events", "--jsonl").out.splitlines()]
    assert jsonl[2]["words"]["title"] == text
    for argv in (("show", card), ("list",), ("board",), ("events",), ("why", card), ("runs", card)):
        harmless(ledger.ok(*argv))
    assert ledger.json("replay", "--strict")["divergences"] == []


@once
@pytest.mark.parametrize(
    "letter", [*CONTROL[:30:6], *CONTROL[30::5], "\u2028", "\u202e"], ids=lambda letter: f"U+{ord(letter):04X}"
)
def test_names_hold_no_control_characters(ledger, letter):
    """Assignees, labels, tenants, keys and kinds are compared by eye: 2. An actor's name is shown harmless."""
    card, reviewed = ledger.create("a"), ledger.create("b")
    lock = ledger.json("claim", reviewed)["lock"]
    for argv in (
        ("create", "a", "--label", f"a{letter}b"), ("edit", card, "--label", f"a{letter}b"), ("assign", card,
        f"a{letter}b"),
        ("create", "a", "--assignee", f"a{letter}b"), ("create", "a", "--tenant", f"a{letter}b"),
        ("create", "a", "--key", f"a{letter}b"), ("pause", "--assignee", f"a{letter}b"), ("edit", card, "--tenant",
        f"a{letter}b"),
        ("block", card, "why", "--kind", f"a{letter}b"), ("claim", "--next", "--assignee", f"a{letter}b"),
        ("review", reviewed, "--reviewer", f"a{letter}b", "--lock", lock),
    ):  # fmt: skip
        said = ledger(*argv)
        assert said.code == 2, (argv, said)
        harmless(said)
    harmless(ledger.ok("comment", card, "hi", "--actor", f"a{letter}b"))
    for argv in (("list",), ("show", card), ("events",), ("why", card), ("stats",), ("policy",), ("board",)):
        harmless(ledger.ok(*argv))


def test_a_text_of_a_megabyte_is_kept_whole(ledger):
    """Title, body, comment and summary; what is shown of it stays harmless."""
    text = ("שלום \x1b[2J é " * 80_000)[: 1024 * 1024]
    card = ledger.create(text, "--body", text)
    ledger.ok("comment", card, text)
    ledger.ok("complete", card, text)
    shown = ledger.json("show", card)
    assert (shown["task"]["title"], shown["task"]["body"], shown["comments"][0]["body"]) == (text, text, text)
    harmless(ledger.ok("list"))
    harmless(ledger.ok("show", card))
    assert ledger.json("replay", "--strict")["divergences"] == []


def test_a_file_of_a_result_is_kept_to_the_letter(ledger):
    """Also its line ends; a NUL in it is refused by name, bytes that are no text too."""
    path = ledger.home / "result"
    for raw, code in ((b"a\r\nb\r", 0), (b"\xef\xbb\xbfa", 0), (b"a\0b", 2), (b"\xff\xfe", 2), (b"\xed\xa0\x80", 2)):
        card = ledger.create("a")
        path.write_bytes(raw)
        said = ledger("complete", card, "--result", str(path), "--json")
        assert said.code == code, (raw, said)
        if code == 0:
            assert ledger.json("events", card)["events"][-1]["words"]["result"] == raw.decode()
        else:
            assert ("result" in said.error["message"], ledger.json("show", card)["task"]["status"]) == (True, "ready")


def test_what_a_worker_wrote_is_shown_harmless(fleet):
    """The log of a run goes to the terminal as it is read; its last words are escaped wherever they stand in a line."""
    card = fleet.create("a", "--assignee", "noisy")
    (fleet.home / "ledger.toml").write_text(
        "[assignees.noisy]\ncommand = ['printf', '\\033[2J\\a\\302\\205bye\\r\\nend\\n\\377']\n"
    )
    pid = fleet.json("sweep")["claimed"][0]["pid"]
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
    fleet.ok("sweep")
    assert "bye" in fleet.json("runs", card)["runs"][0]["last_words"]
    for argv in (("runs", card), ("show", card), ("why", card), ("events", card)):
        harmless(fleet.ok(*argv))
