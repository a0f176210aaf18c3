"""Cards with a goal: turn after turn until a judge agrees. The reference system's cases, in our words.

The reference goes on without a proof, judges a failed turn by its error, and blocks through whatever store the process
names; here each goal turn is proved and may recover as a first one, and only a turn that went well is judged.
"""

import logging

import pytest

from kanban.worker.exits import DONE, Credentials
from kanban.worker.frame import Frame, variables_of
from kanban.worker.goal import closing_nudge, goal_nudge, pursue
from kanban.worker.proof import Live, Lost, Reason
from kanban.worker.result import Status, result_of
from kanban.worker.serving import serve
from kanban.worker.turns import Ended
from kanban.worker.verdict import Asked, Ruling, Verdict
from ledger.clock import SECOND
from projections.goals import Goal, turns_of
from tests.reference.goals import MET, MORE, SECOND_REPLY, STUCK, WAIT, Pursued, doing
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
    ticking,
)

# After the first turn


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param(BILLING, 75, id="quota-wall-billing"),
        pytest.param(UPSTREAM_QUOTA, 75, id="quota-wall-upstream"),
        pytest.param(QUOTA, 75, id="quota-wall"),
        pytest.param(INTERRUPT, 130, id="interrupt"),
        pytest.param(SETTLED, 75, id="terminal-settlement"),
        pytest.param(PARTIAL, 1, id="unfinished-nonfailed"),
        pytest.param(None, 1, id="nothing-settled"),
    ],
)
def test_a_goal_does_not_go_on_after(fleet, said, code):
    """One turn, its own code, and no judge."""
    pursued = Pursued(fleet, [said])
    assert (pursued.ended.code, len(pursued.turns.texts), pursued.judge.texts) == (code, 1, [])
    assert pursued.shown["status"] == "running"


def test_a_goal_does_not_go_on_where_recovery_is_denied(fleet):
    """The lease ends with the first turn: 75, since the code follows the result."""
    pursued = Pursued(fleet, [TIMEOUT], run=False)
    until = pursued.held.lease_until
    ended = pursued.run(clock=ticking(until, until + 1))
    assert (ended.code, len(pursued.turns.texts), pursued.judge.texts) == (75, 1, [])


def test_a_goal_does_not_go_on_where_the_lease_ends_in_the_backoff(fleet):
    """The attempt is counted, its turn is not taken: 75."""
    pursued = Pursued(fleet, [TIMEOUT, SUCCESS], run=False)
    now = pursued.held.lease_until - 600 * SECOND
    ended = pursued.run(clock=ticking(now, now, now + 700 * SECOND))
    assert (ended.code, len(pursued.turns.texts), pursued.judge.texts) == (75, 1, [])


def test_a_goal_does_not_go_on_once_the_budget_is_spent(fleet):
    """One attempt, and a provider that does not come back: two turns, then 75."""
    pursued = Pursued(fleet, [TIMEOUT], environ={"LEDGER_TURN_RECOVERY": "1"})
    assert (pursued.ended.code, len(pursued.turns.texts), pursued.judge.texts) == (75, 2, [])


def test_a_goal_goes_on_after_a_recovered_turn(fleet):
    """Two turns and 0; the judge is asked of the recovered reply, never of the error before it."""
    pursued = Pursued(fleet, [TIMEOUT, SUCCESS], [STUCK])
    assert (pursued.ended.code, len(pursued.turns.texts)) == (0, 2)
    assert pursued.judge.texts == [Asked(pursued.card, "Mend the roof\n\nIt leaks.", SUCCESS["final_response"], 1, 20)]


# From turn to turn


def test_the_agent_is_sent_on_until_it_closes_its_card(fleet):
    """Each text says which turn it is and what the judge missed; a card that is done is not judged."""
    pursued = Pursued(fleet, [], [MORE], run=False)
    turn, texts = doing(lambda: pursued.worker.complete("all of it"), at=3)
    assert pursued.run(turn).code == 0
    assert (len(texts), len(pursued.judge.texts), pursued.shown["status"]) == (3, 2, "done")
    assert texts[0] == "do it"
    for at, text in enumerate(texts[1:], 2):
        for part in (f"turn {at}/20", "two tests fail", pursued.card, "`ledger complete`", "`ledger block`"):
            assert part in text
        assert CARRIER.task not in text
        assert pursued.held.carrier.lock not in text


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        (lambda worker: worker.complete("done"), "done"),
        (lambda worker: worker.block("which colour?"), "blocked"),
        (lambda worker: worker.review("look", reviewer="dana"), "review"),
    ],
)
@pytest.mark.parametrize("at", [1, 2])
def test_a_run_that_has_ended_ends_the_turns(fleet, verb, status, at):
    """Whatever verb ended it: the judge is not asked of it, and the code is the turn's."""
    pursued = Pursued(fleet, [], [MORE], run=False)
    turn, texts = doing(lambda: verb(pursued.worker), at)
    assert pursued.run(turn).code == 0
    assert (len(texts), len(pursued.judge.texts), pursued.shown["status"]) == (at, at - 1, status)


def test_the_claim_of_another_run_ends_the_turns(fleet):
    """Somebody else has the card: neither judged nor blocked."""
    pursued = Pursued(fleet, [], [MORE], run=False)

    def taken():
        fleet.board.stop(pursued.card)
        fleet.clock.advance(30)
        fleet.sweep(most=0)
        fleet.clock.advance(2000)
        fleet.sweep(most=0)
        fleet.board.unblock(pursued.card)
        fleet.board.claim(pursued.card)

    turn, texts = doing(taken, at=1)
    assert (pursued.run(turn).code, len(texts), pursued.judge.texts) == (0, 1, [])
    assert (pursued.shown["status"], pursued.shown["run"]) == ("running", 2)


def test_to_wait_is_to_go_on(fleet):
    """Something else is under way; the next turn sees how far it is."""
    pursued = Pursued(fleet, [SUCCESS], [WAIT, STUCK])
    assert (pursued.ended.code, len(pursued.turns.texts)) == (0, 2)
    assert "is not met yet; this is turn 2/20" in pursued.turns.texts[1]


def test_a_judge_that_sees_no_way_blocks_the_card(fleet):
    """In the run's own name, whatever claim the environment names, and no turn follows."""
    pursued = Pursued(fleet, [SUCCESS], [MORE, STUCK])
    assert (pursued.ended.code, len(pursued.turns.texts)) == (0, 2)
    assert (pursued.shown["status"], pursued.shown["hold"]["sticky"]) == ("blocked", True)
    assert "nobody has the key" in pursued.shown["hold"]["reason"]
    blocked = fleet.events(pursued.card)[-1]
    assert (blocked.kind, blocked.run, blocked.actor_kind) == ("blocked", 1, "worker")


@pytest.mark.parametrize("status", ["blocked", "done"])
def test_a_working_folder_that_was_removed_keeps_no_verb_from_the_card(fleet, tmp_path, monkeypatch, status):
    """Neither the loop's block nor the agent's own verb needs a ./ledger.toml."""
    pursued = Pursued(fleet, [SUCCESS], [STUCK], run=False)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    turn = pursued.turns if status == "blocked" else doing(lambda: pursued.worker.complete("done"), 1)[0]
    assert pursued.run(turn).code == 0
    monkeypatch.undo()
    assert pursued.shown["status"] == status


def test_a_goal_that_is_met_is_closed_by_the_agent(fleet):
    """It is told once to close its card, and does."""
    pursued = Pursued(fleet, [], [MET], run=False)
    turn, texts = doing(lambda: pursued.worker.complete("done"), at=2)
    assert (pursued.run(turn).code, len(texts), len(pursued.judge.texts)) == (0, 2, 1)
    assert pursued.shown["status"] == "done"
    for part in ("is met: all is green", "turn 2/20", "`ledger complete`", "`ledger block`", "will be blocked"):
        assert part in texts[1]


@pytest.mark.parametrize("between", [[], [MORE, WAIT]])
def test_a_second_done_without_a_closing_command_blocks(fleet, between):
    """The agent was told once; more work may lie between, and it is not told again."""
    pursued = Pursued(fleet, [SUCCESS], [MET, *between, MET])
    assert (pursued.ended.code, len(pursued.turns.texts)) == (0, 2 + len(between))
    assert pursued.shown["status"] == "blocked"
    assert "no closing command was given" in pursued.shown["hold"]["reason"]


def test_without_finalize_whoever_called_closes_the_card(fleet):
    """A goal that is met ends the turns with 0, and the card is still the worker's."""
    pursued = Pursued(fleet, [SUCCESS], [MORE, MET], finalize=False)
    assert (pursued.ended.code, len(pursued.turns.texts)) == (0, 2)
    assert pursued.shown["status"] == "running"
    assert pursued.worker.complete("done")["status"] == "done"


@pytest.mark.parametrize(("most", "last"), [(1, MORE), (3, MORE), (3, WAIT), (3, MET), (1, MET)])
def test_a_goal_whose_turns_are_used_up_is_blocked_with_the_last_verdict(fleet, most, last):
    """The first turn counts. A goal that is met in the last turn has none left to be closed in."""
    pursued = Pursued(fleet, [SUCCESS], [*[MORE] * (most - 1), last], max_turns=most)
    assert (pursued.ended.code, len(pursued.turns.texts), len(pursued.judge.texts)) == (0, most, most)
    reason = pursued.shown["hold"]["reason"]
    assert f"{most} of {most} turns" in reason
    assert last["verdict"] in reason
    assert last.get("reason", "") in reason


@pytest.mark.parametrize(("asked", "turns"), [(None, 20), (0, 20), (-3, 20), (1, 1), (7, 7), (10**9, 10**9)])
def test_a_goal_without_a_number_of_turns_has_twenty(fleet, asked, turns):
    """None, 0 and less: in the value, and on a card."""
    assert turns_of(asked) == turns
    if asked is not None:
        assert fleet.card(fleet.create(goal_max_turns=asked))["goal_max_turns"] == turns


@pytest.mark.parametrize("junk", [None, "done", 7, {}, {"verdict": "perhaps"}, {"verdict": ["done"]}, {"reason": "x"}])
def test_a_judge_without_a_verdict_ends_the_turns(fleet, junk):
    """Code 1, since the goal was not shown to be met; the card is not blocked for its judge's fault."""
    pursued = Pursued(fleet, [SUCCESS], [junk])
    assert (pursued.ended.code, len(pursued.turns.texts), len(pursued.judge.texts)) == (1, 1, 1)
    assert pursued.ended.result.output == SUCCESS["final_response"]
    assert pursued.shown["status"] == "running"


def test_a_judge_that_breaks_ends_the_turns(fleet):
    """Whatever it raises, and that is told, without the lock."""
    pursued, lines = Pursued(fleet, [SUCCESS], run=False), []

    def broken(_asked):
        raise OSError(f"no such model for {pursued.held.carrier.lock}")

    assert pursued.run(judge=broken, emit=lines.append).code == 1
    assert len(pursued.turns.texts) == 1
    assert "the judge failed, no further turn is begun: OSError: no such model for [redacted]" in lines[-1]


def test_a_lost_claim_is_not_judged(fleet):
    """The lease ended with the turn: code 1, as where the first turn finds no claim."""
    pursued, lines = Pursued(fleet, [SUCCESS], run=False), []
    until = pursued.held.lease_until
    ended = pursued.run(clock=ticking(until, until + 1), emit=lines.append)
    assert (ended.code, len(pursued.turns.texts), pursued.judge.texts) == (1, 1, [])
    assert "no longer holds a live run/claim (lease_expired)" in lines[-1]


@pytest.mark.parametrize(
    ("reason", "code"), [(reason, 0 if reason in {"not_running", "other_run"} else 1) for reason in Reason]
)
def test_only_a_run_that_the_board_shows_as_ended_keeps_its_code(reason, code):
    """Whatever else takes a claim away, the goal was not met, and nothing may be completed for it."""
    first = Ended(DONE, result_of(SUCCESS))
    judge, means = Turns([]), {"check": lambda: Lost(reason), "goal": Goal("it")}
    assert pursue(Turns([]), first, CARRIER, judge, environ={}, **means) == Ended(code, first.result)
    assert judge.texts == []


def test_a_claim_that_is_lost_while_the_judge_thinks_gives_no_turn(fleet):
    """Each goal turn is proved after all that went before it."""
    pursued = Pursued(fleet, [SUCCESS], [MORE], run=False)
    until = pursued.held.lease_until
    ended = pursued.run(clock=ticking(until, until, until + 1))
    assert (ended.code, len(pursued.turns.texts), len(pursued.judge.texts)) == (1, 1, 1)


def test_a_goal_turn_recovers_as_a_first_one_does(fleet):
    """With a budget of its own; the judge sees what came of it."""
    pursued = Pursued(fleet, [TIMEOUT, SUCCESS, TIMEOUT, TIMEOUT, SECOND_REPLY], [MORE, STUCK])
    assert (pursued.ended.code, len(pursued.turns.texts)) == (0, 5)
    assert ["attempt 1/3" in text for text in pursued.turns.texts] == [False, True, False, True, False]
    assert "attempt 2/3" in pursued.turns.texts[4]
    assert pursued.replies == ["all of it is done", "more of it is done"]


@pytest.mark.parametrize(
    ("said", "code", "turns"),
    [
        (TIMEOUT, 75, 3), (BILLING, 75, 2), (QUOTA, 75, 2), (UPSTREAM_QUOTA, 75, 2), (INTERRUPT, 130, 2),
        (SETTLED, 75, 2), (PARTIAL, 1, 2), (None, 1, 2),
    ],
)  # fmt: skip
def test_a_goal_turn_that_fails_ends_them_all_with_its_own_code(fleet, said, code, turns):
    """The judge is not asked again, and the card is not blocked."""
    pursued = Pursued(fleet, [SUCCESS, said], [MORE], environ={"LEDGER_TURN_RECOVERY": "1"})
    assert (pursued.ended.code, len(pursued.turns.texts), len(pursued.judge.texts)) == (code, turns, 1)
    assert pursued.shown["status"] == "running"


def test_a_goal_turn_that_breaks_has_settled_nothing(fleet):
    """What its exception says of the credentials decides the code, as in a first turn."""
    pursued = Pursued(fleet, [], [MORE], run=False)

    def breaks():
        raise RuntimeError("log in again")

    turn, texts = doing(breaks, at=2)
    assert pursued.run(turn, credentials=lambda _: Credentials.REFUSED).code == 78
    assert len(texts) == 2


@pytest.mark.parametrize("where", ["turn", "judge"])
def test_an_interrupt_ends_them_with_130(fleet, where):
    """In a goal turn, or while the judge thinks."""

    def interrupted(*_):
        raise KeyboardInterrupt

    pursued = Pursued(fleet, [SUCCESS], [MORE], run=False)
    turn, _ = doing(interrupted, at=2)
    ended = pursued.run(turn) if where == "turn" else pursued.run(judge=interrupted)
    assert (ended.code, ended.result.status) == (130, Status.INTERRUPTED)


def test_a_block_that_is_refused_ends_them_with_1(fleet):
    """The lease of the run holds, but the store cannot be written: the card stays as it is."""
    lines = []

    def refuses(_reason):
        raise OSError("no space left")

    first = Ended(DONE, result_of(SUCCESS))
    means = {"check": lambda: Live(1), "block": refuses, "emit": lines.append, "goal": Goal("it")}
    assert pursue(Turns([]), first, CARRIER, lambda _: STUCK, environ={}, **means).code == 1
    assert "could not be blocked" in lines[-1]
    assert "no space left" in lines[-1]


def test_an_owner_pursues_the_goal_of_its_frame(fleet, monkeypatch):
    """Proved for the owner, judged, and blocked by the claim of the frame, whatever claim the owner itself carries."""
    for name, value in CARRIER.as_environment().items():
        monkeypatch.setenv(name, value)
    held = hold(fleet, goal_max_turns=3)
    frame = Frame.of("do it", variables_of(held.environment()))
    turns, judge = Turns([TIMEOUT, SUCCESS, SECOND_REPLY]), Turns([MORE, STUCK])
    served = serve(lambda text, _: turns(text), frame, held.identity, judge=judge, sleep=lambda _: None)
    assert (served.code, len(turns.texts), len(judge.texts)) == (0, 3, 2)
    assert fleet.card(held.carrier.task)["status"] == "blocked"
    assert all(CARRIER.task not in text for text in turns.texts)


def test_what_it_does_is_told(fleet, caplog):
    """To its own log and to the sink: each verdict, and why it ended."""
    lines = []
    with caplog.at_level(logging.WARNING, logger="kanban.worker.goal"):
        pursued = Pursued(fleet, [SUCCESS], [MORE, MET, STUCK], emit=lines.append)
    assert [line.partition("the judge says ")[2] for line in lines] == [
        "continue: two tests fail", "done: all is green", "blocked: nobody has the key"
    ]  # fmt: skip
    assert all(line.startswith(f"[kanban] {pursued.card}: after turn {at}/20 ") for at, line in enumerate(lines, 1))
    told = [record.getMessage() for record in caplog.records if record.name == "kanban.worker.goal"]
    assert told == lines


def test_the_texts_hold_no_secret():
    """Whatever the judge says."""
    verdict = Verdict(Ruling.CONTINUE, f"use\n{CARRIER.lock} and sk-abcdefghijklmnop")
    for text in (goal_nudge(CARRIER, verdict, 2, 3), closing_nudge(CARRIER, verdict, 2, 3)):
        assert "use [redacted] and [redacted]" in text
        assert "\n" not in text
