"""Ids, numbers, durations and instants at their edges and past them: what was typed, or a clear refusal."""

from __future__ import annotations

import pytest

from cli import output
from tests.engines import on, once

HUGE = str(10**30)
NUMBERS = {
    "0": 0, "-1": -1, "1": 1, "007": 7, "999999999": 999_999_999, "1000000000": 10**9, "1000000001": 10**9 + 1,
    "2147483648": 2**31, "9223372036854775808": 2**63, HUGE: 10**30, "": None, " ": None, "1e5": None, "NaN": None,
    "inf": None, "1.5": None, "0x10": None, "١٢": None, "१": None, "²": None, "½": None,
}  # fmt: skip
"""What is typed → the number that it is, none where it is none of this program's."""
PLACES = {
    ("edit", "CARD", "--priority", "?"): (-(10**9), 10**9), ("create", "a", "--priority", "?"): (-(10**9), 10**9),
    ("create", "a", "--max-retries", "?"): (1, 10**9), ("edit", "CARD", "--max-retries", "?"): (1, 10**9),
    ("list", "--limit", "?"): (1, 10**6), ("events", "--after", "?"): (0, 2**62), ("sweep", "--dry-run", "--max",
    "?"): (0, 10**9),
    ("policy", "--failure-limit", "?"): (1, 10**9), ("policy", "--max-running", "?"): (1, 10**9),
    ("progress", "CARD", "--tokens", "?", "--lock", "LOCK"): (0, 10**15),
}  # fmt: skip


@once
@pytest.mark.parametrize("argv", PLACES, ids=" ".join)
def test_a_number_is_what_was_typed_or_is_refused(ledger, argv):
    """2 for what is none and for what is out of range; never another number in silence."""
    least, most = PLACES[argv]
    card = ledger.create("a")
    lock = ledger.json("claim", card)["lock"]
    for text, number in NUMBERS.items():
        places = {"CARD": card, "LOCK": lock, "?": text}
        said = ledger(*(places.get(word, word) for word in argv), "--json")
        if number is not None and least <= number <= most:
            assert said.code == 0, (text, said)
        else:
            assert (said.code, bool(said.error["message"])) == (2, True), (text, said)
    for number in (least, most):
        assert ledger(*({"CARD": card, "LOCK": lock, "?": str(number)}.get(word, word) for word in argv)).code == 0
    for number in (least - 1, most + 1):
        assert ledger(*({"CARD": card, "LOCK": lock, "?": str(number)}.get(word, word) for word in argv)).code == 2
    assert ledger.json("replay", "--strict")["divergences"] == []


@on("postgresql")
def test_the_least_and_the_most_are_kept_by_a_server_too(ledger):
    """Its columns have a width each."""
    card = ledger.create("a")
    lock = ledger.json("claim", card)["lock"]
    for argv, bounds in PLACES.items():
        for number in bounds:
            ledger.ok(*({"CARD": card, "LOCK": lock, "?": str(number)}.get(word, word) for word in argv))
    shown = ledger.json("show", card)
    assert (shown["task"]["priority"], shown["task"]["max_retries"]) == (10**9, 10**9)
    assert shown["events"][-1]["facts"]["usage"]["tokens"] == 10**15
    assert ledger.json("replay", "--strict")["divergences"] == []


@once
@pytest.mark.parametrize("text", ["0", "-1", "2147483648", "9223372036854775808", HUGE, "", "١", "1e5", "NaN"])
@pytest.mark.parametrize("argv", [("claim", "CARD", "--pid", "?"), ("accept", "CARD", "?"), ("log", "CARD", "--run",
"?"),
                                  ("heartbeat", "CARD", "--run", "?", "--lock", "l")],
                                  ids=lambda argv: argv[0])  # fmt: skip
def test_a_run_or_a_process_that_cannot_be_is_refused(ledger, argv, text):
    """2: such a number names nothing."""
    card = ledger.create("a")
    said = ledger(*({"CARD": card, "?": text}.get(word, word) for word in argv), "--json")
    assert (said.code, bool(said.error["message"])) == (2, True), said
    assert ledger.json("show", card)["task"]["status"] == "ready"


DURATIONS = {
    "1": 1, "90": 90, " 5m ": 300, "1h30m": 5_400, "2d": 172_800, "1w": 604_800, "520w": 314_496_000,
    "3650d": 315_360_000,
    "0" * 500 + "7s": 7, "0": None, "0s": None, "-1": None, "-5m": None, "3651d": None, HUGE: None,
    "9" * 5_000 + "s": None,
    "1e5": None, "NaN": None, "5 m": None, "m": None, "1m1h": None, "1.5h": None, "٣m": None, "５m": None, "": None,
    " ": None,
    "1h\n": 3_600,
}  # fmt: skip


@once
@pytest.mark.parametrize("text", DURATIONS, ids=lambda text: text[:12])
def test_a_duration_is_what_was_typed_or_is_refused(ledger, text):
    """Everywhere alike: on a card, in the policy, in an edit."""
    card = ledger.create("a")
    for argv in (("create", "b", "--max-runtime", text), ("edit", card, "--max-runtime", text)):
        said = ledger(*argv, "--json")
        assert said.code == (2 if DURATIONS[text] is None else 0), said
        if said.code == 0:
            assert said.json["task"]["max_runtime"] == DURATIONS[text]
    said = ledger("policy", "--lease", text, "--json")
    assert said.code == (2 if DURATIONS[text] is None else 0), said
    if said.code == 0:
        assert said.json["policy"]["lease"] == DURATIONS[text]
        ledger.ok("claim", card)


TIMES = {
    "1970-01-01T00:00:00Z": "1970-01-01T00:00:00.000000Z", "1970-01-01T01:00": "1970-01-01T00:00:00.000000Z",
    "9999-12-31T22:59:59Z": "9999-12-31T22:59:59.000000Z", "2026-03-29T02:30": "2026-03-29T01:30:00.000000Z",
    "2026-10-25T02:30": "2026-10-25T00:30:00.000000Z", "2024-02-29": "2024-02-28T23:00:00.000000Z",
    "2026-06-30T23:59:59.999999999Z": "2026-06-30T23:59:59.999999Z",
    "2026-01-01t00:00:00z": "2026-01-01T00:00:00.000000Z",
    "2026-01-01T00:00:00+23:59": "2025-12-31T00:01:00.000000Z", "2026-06-30T23:59:60Z": None,
    "1969-12-31T23:59:59Z": None,
    "0001-01-01": None, "0000-01-01": None, "-0001-01-01": None, "-2026-01-01": None, "10000-01-01": None,
    "9999-12-31T23:59:59-00:01": None, "2025-02-29": None, "2026-13-01": None, "2026-01-01T24:00": None,
    "2026-01-01T00:00+24:00": None, "24:00": None, "9:60": None, HUGE: None, "1767225600": None, "+" + HUGE: None,
    "+-1h": None, "-1h": None, "٢٠٢٦-٠١-٠١": None, "1e5": None, "NaN": None, "": None, " ": None, "tomorrow": None,
}  # fmt: skip


@once
@pytest.mark.parametrize("text", [text for text, understood in TIMES.items() if understood is None])
def test_what_is_no_instant_is_refused(ledger, text):
    """Also what the store could not keep, or show again."""
    card = ledger.create("a")
    assert ledger("schedule", card, "--json", "--", text).code == 2
    assert ledger.json("show", card)["task"]["scheduled"] is None


@pytest.mark.parametrize("text", [text for text, understood in TIMES.items() if understood is not None])
def test_an_instant_is_what_was_typed(ledger, text):
    """The answer says in UTC what was understood; whatever is shown afterwards can show it."""
    card = ledger.create("a")
    said = ledger("schedule", card, "--json", "--", text).json
    assert said["task"]["scheduled"] == said["understood"] == TIMES[text]
    for argv in (("show", card), ("list",), ("why", card), ("board",), ("events",), ("sweep", "--dry-run"), ("stats",)):
        ledger.ok(*argv)
        ledger.ok(*argv, "--json")


@once
@pytest.mark.parametrize(
    "zone", ["Pacific/Kiritimati", "Pacific/Niue", "UTC", "No/Such_Zone", "", ":", "\x1b[2J", "../../etc/passwd"]
)
def test_the_last_instant_is_shown_in_every_zone(ledger, monkeypatch, zone):
    """East of Greenwich the year 10000 has begun: it cannot be written, and that is no reason to fail."""
    card = ledger.create("a")
    monkeypatch.setenv("TZ", zone)
    output.zone.cache_clear()
    said = ledger("schedule", card, "9999-12-31T23:59:59.999999Z")
    assert said.code == 0, said
    for argv in (
        ("show", card),
        ("list",),
        ("why", card),
        ("events",),
        ("sweep",),
        ("sweep", "--dry-run"),
        ("schedule", card, "1970-01-01T00:00Z"),
        ("show", card),
    ):
        said = ledger.ok(*argv)
        assert "\x1b" not in said.out + said.err


STRANGERS = (
    "", " ", "t_", "t_" + "x" * 10_000, "T_ABC", "t_\N{CYRILLIC SMALL LETTER A}", "١", "-", "--", "%", "_", "*",
    "' OR 1=1 --", "../..", "default", "none",
)  # fmt: skip
MEANT_FOR_A_DATABASE = ("%", "_", "' OR 1=1 --")


@once
@pytest.mark.parametrize("word", STRANGERS)
def test_an_id_of_no_card_is_not_found(ledger, word):
    """5, or 2 for what is no id at all; never another card, never a folder."""
    found_nowhere(ledger, word)


@on("postgresql")
@pytest.mark.parametrize("word", MEANT_FOR_A_DATABASE)
def test_an_id_that_means_something_to_a_database_is_not_found_by_a_server(ledger, word):
    """It gets there as a value."""
    found_nowhere(ledger, word)


def found_nowhere(ledger, word):
    """Type *word* where a card is wanted, for every command that wants one."""
    card = ledger.create("a")
    before = ledger.position()
    for argv in (
        ("show",),
        ("why",),
        ("runs",),
        ("log",),
        ("events",),
        ("archive",),
        ("stop",),
        ("reopen",),
        ("claim",),
        ("unblock",),
        ("complete",),
    ):
        said = ledger(*argv, "--json", "--", word)
        assert said.code in {2, 5}, (argv, said)
        assert said.error["message"]
    for argv in (("link", card, word), ("link", word, card), ("unlink", word, card), ("list", "--after", word)):
        said = ledger(argv[0], *(["--json", *argv[1:]] if argv[0] == "list" else ["--json", "--", *argv[1:]]))
        assert said.code in {2, 5} or (argv[0], said.code) == ("unlink", 0), (argv, said)
    assert ledger.position() == before
