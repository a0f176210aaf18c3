"""Turns that go on after a failure: the loop, what it says, what the agent is told, and how the run ends.

The reference system's cases in our words. The reference begins its first turn without a proof; ours takes one.
"""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanban.worker import recovery
from kanban.worker.exits import Credentials
from kanban.worker.face import Worker
from kanban.worker.nudge import LONGEST_ERROR, in_a_line, recovery_nudge
from kanban.worker.proof import Live, Lost, Reason
from kanban.worker.recovery import recover
from kanban.worker.result import Status, TurnResult, result_of
from kanban.worker.turns import run_turns
from ledger.clock import SECOND
from ledger.recorded import check_text
from tests.reference.workers import (
    BILLING,
    CARRIER,
    INTERRUPT,
    PARTIAL,
    QUOTA,
    SETTLED,
    SUCCESS,
    TIMEOUT,
    UPSTREAM_QUOTA,
    Turns,
    hold,
    proofs,
    ticking,
)

ALIVE, GONE = Live(1), Lost(Reason.NOT_RUNNING, "the card is ready")
LOGGER = "kanban.worker.recovery"


def alive():
    """A claim that always holds."""
    return ALIVE


def loop(turns, first=TIMEOUT, *, environ=None, **means):
    """The loop with a sleep that notes its seconds; (what it came to, the seconds, the lines)."""
    slept, lines = [], []
    means = {"check": alive, "sleep": slept.append, "emit": lines.append} | means
    return recover(turns, first, CARRIER, environ=environ or {}, **means), slept, lines


def test_it_goes_on_until_it_succeeds_and_says_so(caplog):
    """One attempt, 15 s; the text has the phrase and the card; one line, to the log and to the sink alike."""
    turns = Turns([SUCCESS])
    with caplog.at_level(logging.WARNING, logger=LOGGER):
        recovered, slept, lines = loop(turns)
    assert (recovered.attempts, recovered.result.status, slept) == (1, Status.OK, [15])
    (text,) = turns.texts
    assert "Do NOT start over" in text
    assert CARRIER.task in text
    (line,) = lines
    assert all(part in line for part in ("[kanban]", "attempt 1/3", "15 s", CARRIER.task, "context kept"))
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        (LOGGER, "WARNING", line)
    ]


def test_it_is_bounded_when_the_result_never_changes():
    """Three attempts, 15, 45 and 90 seconds."""
    turns = Turns([TIMEOUT])
    recovered, slept, lines = loop(turns)
    assert (recovered.attempts, slept, len(turns.texts), len(lines)) == (3, [15, 45, 90], 3, 3)


@pytest.mark.parametrize(
    ("said", "order", "attempts"),
    [
        ([ALIVE, ALIVE], ["check", 15, "check", "turn"], 1),
        ([ALIVE, GONE], ["check", 15, "check"], 1),
        ([GONE], ["check"], 0),
    ],
)
def test_the_order_is_check_sleep_check_turn(said, order, attempts):
    """Lost during the sleep: the attempt counts all the same, and no turn is taken."""
    seen, lines = [], []

    def turn(_text):
        seen.append("turn")
        return SUCCESS

    recovered = recover(
        turn, TIMEOUT, CARRIER, environ={}, check=proofs(said, seen), sleep=seen.append, emit=lines.append
    )
    assert (seen, recovered.attempts) == (order, attempts)
    if GONE in said:
        assert "no longer holds a live run/claim" in lines[-1]
        assert CARRIER.task in lines[-1]


def test_nothing_is_proved_or_said_where_the_result_gives_no_turn():
    """Success: the claim is not even looked at."""
    seen = []
    recovered, slept, lines = loop(Turns([SUCCESS]), SUCCESS, check=proofs([], seen))
    assert (recovered.attempts, seen, slept, lines) == (0, [], [], [])


def test_a_lease_that_ends_during_the_sleep_keeps_the_agent_out(fleet):
    """The real proof, and a clock that can be read twice, once a proof: one attempt, no turn, the last line says why.

    The loop renews nothing while it sleeps.
    """
    held = hold(fleet)
    clock = ticking(held.lease_until - 600 * SECOND, held.lease_until + 100 * SECOND)
    turns, lines = Turns([SUCCESS]), []
    recovered = recover(
        turns, TIMEOUT, held.carrier, environ=fleet.environ, clock=clock, sleep=lambda _: None, emit=lines.append
    )
    assert (recovered.attempts, turns.texts) == (1, [])
    assert "no longer holds a live run/claim (lease_expired)" in lines[-1]
    assert len(lines) == 2


def test_the_detail_of_a_lost_claim_is_for_the_log_alone(caplog):
    """The sink gets the line, the log the line and the detail."""
    with caplog.at_level(logging.WARNING, logger=LOGGER):
        _, _, lines = loop(Turns([]), check=lambda: GONE)
    assert len(lines) == 1
    logged = [record.getMessage() for record in caplog.records]
    assert any(GONE.detail in line for line in logged)
    assert not any(GONE.detail in line for line in lines)


def test_a_broken_sink_costs_no_turn():
    """Whatever it raises."""

    def broken(_line):
        raise OSError("the pipe is closed")

    turns = Turns([SUCCESS])
    assert loop(turns, emit=broken)[0].attempts == 1
    assert len(turns.texts) == 1


def test_delays_clock_and_sleep_are_bound_late(monkeypatch):
    """What the module names when the loop runs is what it uses."""
    slept = []
    monkeypatch.setattr(recovery, "DELAYS", (0,))
    monkeypatch.setattr(recovery.time, "sleep", slept.append)
    monkeypatch.setattr(recovery, "system_clock", lambda: 7)
    monkeypatch.setattr(recovery, "prove", lambda _carrier, now, _identity: Live(now))
    assert recover(Turns([SUCCESS]), TIMEOUT, CARRIER, environ={}).attempts == 1
    assert slept == [0]


def test_the_budget_is_read_anew_for_each_attempt():
    """An operator may end it meanwhile."""
    environ = {"LEDGER_TURN_RECOVERY": "9"}
    turns = Turns([TIMEOUT])

    def sleep(_seconds):
        environ["LEDGER_TURN_RECOVERY"] = "off"

    assert recover(turns, TIMEOUT, CARRIER, environ=environ, check=alive, sleep=sleep).attempts == 1


def test_the_nudge_says_all_that_is_needed():
    """The card, which attempt, both closing commands, not to start over, to look before repeating, and the failure."""
    text = recovery_nudge(CARRIER, result_of(TIMEOUT), 1, 3)
    for part in ("t_bound", "1/3", "`ledger complete`", "`ledger block`", "Do NOT start over", TIMEOUT["error"]):
        assert part in text
    assert "state on disk" in text
    other = recovery_nudge(CARRIER, result_of(TIMEOUT), 2, 3, complete="finish()", block="ask()")
    assert "`finish()`" in other
    assert "`ask()`" in other
    assert "ledger complete" not in other


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"error": "first", "final_response": "second"}, "(first)"),
        ({"final_response": "two\n  lines"}, "(two lines)"),
        ({}, "(the model provider's API failed)"),
        ({"error": "x" * 301}, f"({'x' * (LONGEST_ERROR - 1)}…)"),
        ({"error": "x" * 300}, f"({'x' * LONGEST_ERROR})"),
        ({"error": "401 for sk-abcdefghijklmnop"}, "(401 for [redacted])"),
        ({"error": f"sent {CARRIER.lock}!"}, "(sent [redacted]!)"),
    ],
)
def test_the_nudge_tells_the_failure_in_one_line(said, shown):
    """`error`, else the text of the turn, at most 300 characters, and no secret."""
    text = recovery_nudge(CARRIER, result_of({"failed": True} | said), 1, 3)
    assert shown in text
    assert "\n" not in text


@given(st.text(st.characters(exclude_categories=()) | st.sampled_from("\0\ud800\udfff"), max_size=LONGEST_ERROR + 9))
def test_law_whatever_was_said_can_be_stored_and_be_an_argument(said):
    """RULES §10: one line of a bounded length, without a NUL or a lone surrogate."""
    line = in_a_line(CARRIER, said)
    check_text("reason", line)
    assert line.encode().decode() == line
    assert (len(line) <= LONGEST_ERROR, line.splitlines() in ([], [line])) == (True, True)


@pytest.mark.parametrize("said", [10**400, float("inf"), float("-inf"), float("nan"), True, "9", None])
def test_a_reset_that_is_no_instant_is_none(said):
    """A number that no clock shows says nothing."""
    assert result_of({"failed": True, "failure_resets_at": said}).resets_at is None


def test_the_nudge_without_a_card_is_worded_neutrally():
    """And not with a blank."""
    assert "your card" in recovery_nudge(None, result_of(TIMEOUT), 1, 3)


# The worker's whole way: prove, run, recover, exit


def run_worker(fleet, turns, *, environ=None, **means):
    """A worker's turns on a claim that is held for real: how they ended."""
    held = hold(fleet)
    foreign = {**CARRIER.as_environment(), **fleet.environ, **(environ or {})}
    worker = Worker(held.carrier, foreign)
    return held, worker.run(turns, "do it", **({"sleep": lambda _: None} | means))


def test_recovers_in_place(fleet):
    """Two turns, code 0; the second text names the worker's own card and not the one that the environment names."""
    turns = Turns([TIMEOUT, SUCCESS])
    held, ended = run_worker(fleet, turns)
    assert (ended.code, ended.result.output, len(turns.texts)) == (0, SUCCESS["final_response"], 2)
    assert turns.texts[0] == "do it"
    assert "Do NOT start over" in turns.texts[1]
    assert held.carrier.task in turns.texts[1]
    assert CARRIER.task not in turns.texts[1]


def test_a_spent_budget_stops_and_releases(fleet):
    """A budget of 1 and a provider that does not come back: two turns, then come back later."""
    turns = Turns([TIMEOUT])
    _, ended = run_worker(fleet, turns, environ={"LEDGER_TURN_RECOVERY": "1"})
    assert (ended.code, len(turns.texts)) == (75, 2)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param(None, 1, id="nothing-settled"),
        pytest.param(PARTIAL, 1, id="unfinished-turn"),
        pytest.param(QUOTA, 75, id="quota-wall"),
        pytest.param(BILLING, 75, id="billing-wall"),
        pytest.param(UPSTREAM_QUOTA, 75, id="upstream-quota-wall"),
        pytest.param(INTERRUPT, 130, id="interrupt"),
        pytest.param(SETTLED, 75, id="terminal-settlement"),
        pytest.param(SUCCESS, 0, id="success"),
    ],
)
def test_one_turn_and_its_code(fleet, said, code):
    """No other turn is taken."""
    turns = Turns([said, SUCCESS])
    _, ended = run_worker(fleet, turns)
    assert (ended.code, len(turns.texts)) == (code, 1)


def test_a_lost_claim_stops_before_the_agent_is_entered_again(fleet, caplog):
    """The lease ends with the first turn: 75, since the code follows the result; the log says why."""
    held = hold(fleet)
    clock = ticking(held.lease_until, held.lease_until + 1)
    turns = Turns([TIMEOUT])
    with caplog.at_level(logging.WARNING, logger=LOGGER):
        ended = Worker(held.carrier, fleet.environ).run(turns, "do it", clock=clock)
    assert (ended.code, len(turns.texts)) == (75, 1)
    assert any("no longer holds a live run/claim" in record.getMessage() for record in caplog.records)


def test_a_claim_that_is_lost_before_the_first_turn_begins_none(fleet):
    """Ours alone: what was taken away is not worked on, and the code is 1."""
    held = hold(fleet)
    turns = Turns([SUCCESS])
    ended = Worker(held.carrier, fleet.environ).run(turns, "do it", clock=lambda: held.lease_until + 1)
    assert (ended.code, turns.texts) == (1, [])


def test_a_turn_that_breaks_has_settled_nothing(fleet, caplog):
    """Its exception is logged; what it says of the credentials decides between 1, 75 and 78."""

    def broken(_text):
        raise RuntimeError("no such model")

    for credentials, code in ((None, 1), (Credentials.LIMITED, 75), (Credentials.REFUSED, 78)):
        caplog.clear()
        judge = None if credentials is None else {RuntimeError: credentials}
        means = {} if judge is None else {"credentials": lambda fault, judge=judge: judge[type(fault)]}
        _, ended = run_worker(fleet, broken, **means)
        assert (ended.code, ended.result.status) == (code, Status.UNSETTLED)
        assert "no such model" in caplog.text


@pytest.mark.parametrize("where", ["turn", "sleep"])
def test_an_interrupt_ends_it_with_130(fleet, where):
    """In a turn or between two. Booked as interrupted, neutral (RULES §6): the reference counts it as a crash."""
    calls = []

    def turn(_text):
        calls.append("turn")
        if where == "turn":
            raise KeyboardInterrupt
        return TIMEOUT

    def sleep(_seconds):
        raise KeyboardInterrupt

    _, ended = run_worker(fleet, turn, sleep=sleep)
    assert (ended.code, calls) == (130, ["turn"])


RESULTS = st.sampled_from([None, SUCCESS, TIMEOUT, TIMEOUT, TIMEOUT, QUOTA, PARTIAL, INTERRUPT, SETTLED])


@given(
    results=st.lists(RESULTS, min_size=12, max_size=12),
    claims=st.lists(st.booleans(), min_size=30, max_size=30),
    budget=st.sampled_from(["", "0", "1", "2", "10", "99", "off", "what"]),
)
def test_no_turn_begins_without_a_proof_after_the_last_sleep(results, claims, budget):
    """For every sequence of results and lost claims; and there are at most 1 + budget turns."""
    seen, answers, held = [], iter(results), iter(claims)

    def turn(_text):
        seen.append("turn")
        return next(answers)

    def check():
        seen.append("proof" if next(held) else "denial")
        return ALIVE if seen[-1] == "proof" else GONE

    environ = {"LEDGER_TURN_RECOVERY": budget}
    run_turns(turn, "do it", CARRIER, environ=environ, check=check, sleep=lambda _: seen.append("sleep"))
    assert all(seen[at - 1] == "proof" for at, each in enumerate(seen) if each == "turn")
    assert seen.count("turn") <= 1 + recovery.budget_of(environ)
    assert "denial" not in seen[:-1]


def test_a_typed_result_goes_through_as_a_mapping_does():
    """An agent may answer with `TurnResult`."""
    failed = TurnResult(Status.FAILED, retryable=True, reason="overloaded")
    recovered, _, _ = loop(Turns([failed, TurnResult(Status.OK)]), failed)
    assert (recovered.attempts, recovered.result.status) == (2, Status.OK)
