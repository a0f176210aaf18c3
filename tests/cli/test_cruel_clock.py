"""A clock that is set back by a day, or forward by ten years, between two commands: nothing is lost.

Where the store has a server its clock counts, and what this machine's says moves nothing.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from ledger.clock import SECOND, instant
from tests.engines import on

DAY = 86_400
TEN_YEARS = 3_649 * DAY
MINUTE = 60 * SECOND
PROBES = """\
[assignees.sleeper]
command = ["sleep", "60"]
[assignees.throttled]
command = ["sh", "-c", "exit 75"]
[assignees.quick]
command = ["true"]
on_success = "complete"
"""


@pytest.fixture
def jump(monkeypatch):
    """Set the program's clock: seconds from the true time, which a test itself still has."""
    true = time.time_ns

    def set_clock(seconds):
        monkeypatch.setattr("time.time_ns", lambda: true() + seconds * 10**9)

    return set_clock


@pytest.fixture
def board(ledger):
    """A board with workers."""
    (ledger.home / "ledger.toml").write_text(PROBES)
    return ledger


def whole(ledger):
    """No instant of the log is before the one before it, and the audit finds nothing."""
    instants = [event["at"] for event in ledger.json("events")["events"]]
    assert instants == sorted(instants)
    assert ledger.json("replay", "--strict")["divergences"] == []


def bury(pid):
    """Wait for a worker of ours that ends by itself; the sweep may have taken note of it already."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def swept(ledger, *pids):
    """Wait for workers of ours that end, then sweep."""
    for pid in pids:
        bury(pid)
    return ledger.json("sweep")


def status(ledger, card):
    return ledger.json("show", card)["task"]["status"]


LINES = (
    ("create", "a"), ("edit", "CARD", "--title", "b"), ("comment", "CARD", "hi"), ("schedule", "CARD", "+1h"),
    ("sweep",),
    ("claim", "OTHER"), ("complete", "OTHER", "--force"), ("sweep",), ("block", "CARD", "why"), ("unblock", "CARD"),
    ("policy", "--run-limit", "9"), ("pause",), ("resume",), ("list",), ("stats",), ("board",), ("why", "CARD"),
    ("show", "OTHER"), ("runs", "OTHER"), ("archive", "CARD"), ("reopen", "CARD"),
)  # fmt: skip


@on("sqlite")
@pytest.mark.parametrize("jumps", [(-DAY,), (TEN_YEARS,), (0, -DAY, TEN_YEARS, 0, -DAY, -20 * 365 * DAY)], ids=str)
def test_the_log_never_goes_back(board, jump, jumps):
    """RULES §2: `at` is never less than the `at` before it, and every command goes on working."""
    places = {name: board.create(name) for name in ("CARD", "OTHER")}
    for number, argv in enumerate(LINES):
        jump(jumps[number % len(jumps)])
        board.ok(*(places.get(word, word) for word in argv))
    whole(board)
    jump(0)
    whole(board)


@pytest.mark.parametrize("seconds", [-DAY, TEN_YEARS])
def test_a_live_worker_keeps_its_claim(board, jump, seconds):
    """RULES §6: expiry alone never ends a run whose process this host can see alive."""
    board.ok("policy", "--max-runtime", "3650d")
    card = board.create("a", "--assignee", "sleeper")
    pid = board.json("sweep")["claimed"][0]["pid"]
    try:
        jump(seconds)
        for _ in range(2):
            tick = board.json("sweep")
            assert (tick["booked"], tick["stopped"], tick["live"]) == ([], [], 1)
        assert board.json("runs", card)["runs"][0]["lease_until"] > board.json("show", card)["events"][-1]["at"]
    finally:
        os.killpg(pid, 9)
        assert [each["outcome"] for each in swept(board, pid)["booked"]] == ["crashed"]
    whole(board)


@pytest.mark.parametrize("seconds", [-DAY, TEN_YEARS])
def test_a_worker_that_ended_before_the_clock_moved_is_booked_as_what_it_was(board, jump, seconds):
    """Evidence first, always: no clock takes part in it."""
    cards = [board.create(name, "--assignee", "quick") for name in ("a", "b")]
    started = board.json("sweep")["claimed"]
    for each in started:
        bury(each["pid"])
    jump(seconds)
    board.ok("sweep")
    assert [status(board, card) for card in cards] == ["done", "done"]
    whole(board)


def test_a_claim_by_hand_outlives_a_clock_that_is_set_back(board, jump):
    """Its lease counts from the last event: it never ends before its time."""
    card = board.create("a")
    lock = board.claim(card)
    jump(-DAY)
    assert board.json("sweep")["booked"] == []
    board.ok("heartbeat", card, *lock)
    board.ok("complete", card, "done", *lock)
    assert status(board, card) == "done"
    whole(board)


@on("sqlite")
def test_a_claim_by_hand_is_lost_after_ten_years_and_its_result_is_kept(board, jump):
    """RULES §7.4, §8: `lost` is nobody's fault, and what the worker brings later can be accepted."""
    card = board.create("a")
    lock = board.claim(card)
    jump(TEN_YEARS)
    assert [each["outcome"] for each in board.json("sweep")["booked"]] == ["lost"]
    jump(0)
    said = board("complete", card, "my life's work", *lock, "--json")
    assert (said.code, said.error["code"]) == (3, "lost_claim")
    shown = board.json("show", card)["task"]
    assert (shown["status"], shown["failures"], shown["neutral"]) == ("ready", 0, 1)
    board.ok("accept", card, "1")
    assert status(board, card) == "done"
    whole(board)


@on("sqlite")
def test_a_schedule_is_an_instant_and_not_a_wait(board, jump):
    """Set back, the card waits a day longer; set forward, it comes back; and what was claimed then stays claimed."""
    card = board.create("a")
    board.ok("schedule", card, "+2h")
    for seconds, code in ((-DAY, 4), (0, 4), (TEN_YEARS, 0)):
        jump(seconds)
        assert board("claim", card).code == code
    jump(0)
    assert status(board, card) == "running"
    whole(board)


@on("sqlite")
def test_a_cooldown_ends_once_and_never_begins_again(board, jump):
    """RULES §4: not before is an instant; a clock set back does not make the next one earlier than the log."""
    card = board.create("a", "--assignee", "throttled")
    assert [each["outcome"] for each in swept(board, board.json("sweep")["claimed"][0]["pid"])["booked"]] == [
        "rate_limited"
    ]
    until = board.json("show", card)["task"]["not_before"]
    jump(-DAY)
    assert board.json("sweep")["claimed"] == []
    assert board.json("show", card)["task"]["not_before"] == until
    jump(TEN_YEARS)
    again = board.json("sweep")["claimed"]
    assert [each["run"] for each in again] == [2]
    jump(0)
    assert [each["outcome"] for each in swept(board, again[0]["pid"])["booked"]] == ["rate_limited"]
    shown = board.json("show", card)
    last = datetime.fromisoformat(shown["events"][-1]["at"])
    assert datetime.fromisoformat(shown["task"]["not_before"]) - last >= timedelta(minutes=5)
    whole(board)


@on("sqlite")
@pytest.mark.parametrize("seconds", [-1_800_000_000, -3_000_000_000])
def test_before_1970_the_board_goes_on_from_its_last_event(board, jump, seconds):
    """A machine without a battery: what is written is dated by the log."""
    places = {name: board.create(name) for name in ("CARD", "OTHER")}
    jump(seconds)
    for argv in LINES:
        if argv[0] != "schedule":  # an hour from now is before 1970: no time to park a card until
            board.ok(*(places.get(word, word) for word in argv))
    whole(board)


@on("sqlite")
@pytest.mark.parametrize("year", [9910, 9999, 10_050])
def test_a_clock_beyond_all_reason_is_told_and_nothing_is_done(board, jump, year):
    """1: an instant that no calendar can write would stay in the log for ever."""
    places = {name: board.create(name) for name in ("CARD", "OTHER")}
    position, now = board.position(), datetime.now(UTC).year
    jump(round((year - now) * 365.2425 * DAY))
    for argv in LINES:
        said = board(*(places.get(word, word) for word in argv), "--json")
        assert (said.code, said.error["code"]) == (1, "clock_broken"), (argv, said)
    jump(0)
    assert board.position() == position
    whole(board)


# The clock of a machine, and not the one of its store


@on("postgresql")
@pytest.mark.parametrize("seconds", [-DAY, TEN_YEARS, -1_800_000_000, 8_000 * 365 * DAY])
def test_the_server_tells_the_time_and_no_clock_of_a_host(board, jump, seconds):
    """Every event is dated by the server, even from a machine whose clock no calendar can write."""
    began = instant(datetime.now(UTC))
    places = {name: board.create(name) for name in ("CARD", "OTHER")}
    jump(seconds)
    for argv in LINES:
        board.ok(*(places.get(word, word) for word in argv))
    dated = [instant(datetime.fromisoformat(event["at"])) for event in board.json("events")["events"][2:]]
    assert began - MINUTE < min(dated) <= max(dated) < instant(datetime.now(UTC)) + MINUTE
    whole(board)


@on("postgresql")
@pytest.mark.parametrize("seconds", [-DAY, TEN_YEARS])
def test_no_lease_schedule_or_cooldown_ends_by_the_clock_of_a_host(board, jump, seconds):
    """Hosts whose clocks disagree see the same claims, and the same cards that wait."""
    claimed, parked = board.create("a"), board.create("b")
    throttled = board.create("c", "--assignee", "throttled")
    lock = board.claim(claimed)
    swept(board, board.json("sweep")["claimed"][0]["pid"])
    jump(seconds)
    board.ok("schedule", parked, "+2h")
    until = datetime.fromisoformat(board.json("show", parked)["task"]["scheduled"])
    assert abs(until - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=1)
    tick = board.json("sweep")
    assert (tick["booked"], tick["claimed"]) == ([], [])
    assert [board("claim", card).code for card in (parked, throttled)] == [4, 4]
    board.ok("complete", claimed, "done", *lock)
    whole(board)
