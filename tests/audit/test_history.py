"""What is found within the history of a card: each kind of finding, and beside it what is none."""

import pytest

from tests.audit.boards import CARD, Board, claimed, created, event, gave_up, named

CRASHED = (created(), claimed(1), event("crashed", 1))
TRIPPED = (*CRASHED, gave_up(1, 1))
GOAL = {"goal_mode": None}  # a fact that only 0.16 and later write


def held(board, *history, **stored):
    """A board with one card of that *history*; the findings but for those of the row."""
    board.card(*history, **stored)
    return [each for each in board.audit().findings if each.kind != "stored_against_history"]


# Promoted while held


def test_a_sticky_block_that_was_promoted_breaks_that_systems_own_rule(board):
    """Both events are named, and the run that it cost."""
    history = (created(), event("blocked", reason="wait", kind=None, recurrences=1), event("promoted"), claimed(2))
    (finding,) = held(board, *history)
    assert (finding.kind, finding.events, finding.runs, finding.sure) == ("promoted_while_held", (2, 3), [2], "certain")
    assert (finding.law.of, finding.text) == ("hermes", "blocked; then promoted, though nobody had acted")


def test_a_breaker_that_was_promoted_breaks_ours(board):
    """That system's own sweep does it whenever another limit says so."""
    history = (event("promoted"), claimed(2), event("crashed", 2), event("assigned", assignee="other"), claimed(3))
    finding, _ = held(board, *TRIPPED, *history)
    assert (finding.kind, finding.law.of, finding.runs) == ("promoted_while_held", "ledger", [2])
    assert finding.text == "gave_up at 1 of 1 failures; then promoted, though nobody had acted"


def test_a_block_that_was_lifted_before_does_not_stick_to_a_later_breaker(board):
    """That system's own rule asks for the last of the two events."""
    lifted = (created(), event("blocked", reason="wait"), event("unblocked"), claimed(1), event("crashed", 1))
    (finding,) = held(board, *lifted, gave_up(1, 1), event("promoted"))
    assert finding.law.of == "ledger"


def test_a_card_that_was_born_blocked_and_promoted_is_named(board):
    """No event but its creation says that it is blocked."""
    (finding,) = held(board, created("blocked"), event("promoted"))
    assert finding.text == "created blocked; then promoted, though nobody had acted"


@pytest.mark.parametrize(
    "act", [event("unblocked", status="todo"), event("promoted_manual"), event("assigned", assignee="other")]
)
def test_a_hold_that_somebody_lifted_was_not_promoted_over(board, act):
    """A person may: by unblocking, by promoting, by giving the card to somebody else."""
    again = () if act.kind == "promoted_manual" else (event("promoted"),)
    assert named_of(held(board, *TRIPPED, act, *again, claimed(2))) == []


def test_giving_a_card_back_to_the_same_lifts_nothing(board):
    """Nor does a default that the dispatcher fills in."""
    same = event("assigned", assignee="builder"), event("assigned", assignee="other", source="kanban.default_assignee")
    assert named_of(held(board, *TRIPPED, *same, event("promoted"))) == ["promoted_while_held"]


def test_a_promotion_out_of_todo_is_what_promotions_are_for(board):
    """It is no finding."""
    assert held(board, created("todo"), event("promoted"), claimed(1)) == []


def test_a_promotion_pays_only_until_the_next_block(board):
    """What comes after that is the price of the next one."""
    history = (event("promoted"), claimed(2), event("crashed", 2), gave_up(2, 2), event("promoted"), claimed(3))
    first, second = [each for each in held(board, *TRIPPED, *history) if each.kind == "promoted_while_held"]
    assert (first.runs, second.runs) == ([2], [3])


# Budgets


def test_runs_beyond_a_budget_are_counted_until_somebody_acts(board):
    """The limit is the one that the breaker has named."""
    again = (event("promoted"), claimed(2), event("crashed", 2), gave_up(2, 1), event("promoted"), claimed(3))
    history = (*TRIPPED, *again, event("crashed", 3), gave_up(3, 1), event("unblocked"), claimed(4))
    (finding,) = [each for each in held(board, *history) if each.kind == "budget_exceeded"]
    assert (finding.runs, finding.events, finding.sure) == ([2, 3], (4, 6, 10), "certain")
    assert finding.text == "2 runs beyond 1 of 1 failures, before anybody acted"


def test_exits_without_a_word_have_a_budget_of_their_own(board):
    """And its arithmetic is in the event, beside the other counter."""
    trip = gave_up(1, 3, protocol_violations=3, protocol_violation_limit=3)
    ended = event("protocol_violation", 1, protocol_violation=True)
    finding = held(board, created(), claimed(1), ended, trip, event("promoted"), claimed(2))[-1]
    assert finding.text == "1 run beyond 3 of 3 exits without a word, before anybody acted"


def test_a_cards_own_limit_counts_although_no_breaker_tripped(board):
    """A count that was lost is how that happens."""
    (finding,) = held(board, *CRASHED, claimed(2), max_retries=1)
    assert (finding.kind, finding.runs, finding.events) == ("budget_exceeded", [2], (1, 3, 4))
    assert finding.text == "1 run beyond 1 of 1 failures (a limit of its own), before anybody acted"


def test_below_the_limit_nothing_is_exceeded(board):
    """A card with two tries may fail once."""
    assert held(board, *CRASHED, claimed(2), max_retries=2) == []


def test_an_operator_who_takes_the_claim_back_gives_a_fresh_budget(board):
    """Also where a breaker had stopped it: that system puts it back into ready."""
    assert held(board, *TRIPPED, event("reclaimed", manual=True), claimed(2)) == []


# Live runs, parents, reasons


def test_a_claim_under_an_open_run_is_two_live_runs(board):
    """Whether the first one's process was alive no table says."""
    finding = found_one(held(board, created(), claimed(1), claimed(2)), "two_live_runs")
    assert (finding.events, finding.runs, finding.sure) == ((2, 3), [2], "likely")


def test_a_claim_after_a_process_that_outlived_its_kill_is_too(board):
    """An operator's reclaim lets go of the claim whether or not the process went."""
    let_go = event("reclaimed", 1, manual=True, termination_attempted=True, terminated=False, prev_pid=77)
    (finding,) = held(board, created(), claimed(1), let_go, claimed(2))
    assert (finding.kind, finding.sure, finding.events) == ("two_live_runs", "likely", (3, 4))
    assert finding.text == "run 2 was claimed although process 77 of run 1 outlived its kill"


def test_a_process_that_died_when_it_was_killed_is_none(board):
    """Only one that survived."""
    let_go = event("reclaimed", 1, manual=True, termination_attempted=True, terminated=True)
    assert held(board, created(), claimed(1), let_go, claimed(2)) == []


def test_a_worker_that_was_reaped_under_its_successor_was_alive(board):
    """That one is certain: the system has seen it."""
    history = (created(), claimed(1), event("blocked", 1, reason="r"), event("unblocked"), claimed(2))
    (finding,) = held(board, *history, event("terminal_worker_reaped", 1, pid=77))
    assert (finding.kind, finding.sure, finding.events) == ("two_live_runs", "certain", (5, 6))


@pytest.mark.parametrize("run", [1, 2, None])
def test_a_worker_that_was_reaped_when_nobody_else_had_the_card_is_none(board, run):
    """It only came late, or it is not said whose it was."""
    history = (created(), claimed(1), event("completed", 1), event("status", status="ready"))
    again = (claimed(2),) if run != 1 else ()
    assert held(board, *history, *again, event("terminal_worker_reaped", run)) == []


@pytest.mark.parametrize(
    ("parent", "kinds"),
    [
        ("ready", ["claimed_with_open_parents"]),
        ("triage", ["claimed_with_open_parents"]),
        ("done", []),
        ("archived", []),
    ],
)
def test_a_claim_under_an_open_parent_is_named(board, parent, kinds):
    """Wherever the parent stood at that moment; later is no excuse."""
    board.card(created(parent), event("archived"), task="t_p", status="archived")
    board.say("DELETE FROM task_events WHERE kind = 'archived'")
    board.card(created("todo", parents=["t_p"]), event("promoted"), claimed(1))
    board.event(event("archived"), task="t_p")
    assert named(board.audit(), "claimed_with_open_parents") == [(kind, CARD) for kind in kinds]


def test_a_reviewers_claim_under_an_open_parent_breaks_our_rule_only(board):
    """Up to 0.19 that system does not look at parents there."""
    board.card(created(), task="t_p")
    board.card(created("review", parents=["t_p"]), claimed(1, source_status="review"))
    finding = found_one(board.audit().findings, "claimed_with_open_parents")
    assert finding.law.of == "ledger"


def test_a_parent_that_is_not_on_the_board_stands_in_nobodys_way(board):
    """That system forgets the links of a card that it deletes."""
    assert held(board, created("todo", parents=["t_gone"]), event("promoted"), claimed(1)) == []


def test_a_parent_of_which_nothing_is_known_makes_no_finding(board):
    """Its events may have been deleted when it was done."""
    board.card(event("commented"), task="t_p", status="done")
    assert held(board, created("todo", parents=["t_p"]), event("promoted"), claimed(1)) == []


def test_what_is_not_known_of_a_parent_makes_a_finding_unsure(board):
    """An unknown kind may have been what finished it."""
    board.card(created(), event("teleported"), task="t_p")
    board.card(created("todo", parents=["t_p"]), event("promoted"), claimed(1))
    assert found_one(board.audit().findings, "claimed_with_open_parents").sure == "unknown"


@pytest.mark.parametrize("kind", ["blocked", "block_loop_detected"])
@pytest.mark.parametrize("reason", [None, "", "  ", 7])
def test_a_block_without_a_reason_is_named(board, kind, reason):
    """Nobody can act on it."""
    (finding,) = held(board, created(), event(kind, reason=reason))
    assert (finding.kind, finding.events, finding.law.of) == ("blocked_without_reason", (2,), "ledger")


def test_a_block_that_is_typed_later_needs_no_second_reason(board):
    """It was blocked by a breaker, which gave one."""
    board_ = held(board, *TRIPPED, event("blocked", kind="needs_input", classified_in_place=True))
    assert board_ == []


# Moves without an event


def test_a_claim_of_a_finished_card_was_moved_there_by_something_else(board):
    """And the run is its price."""
    (finding,) = held(board, created(**GOAL), claimed(1), event("completed", 1), claimed(2))
    assert (finding.kind, finding.events, finding.runs) == ("status_without_event", (3, 4), [2])
    assert finding.text == "claimed, but by the events before it the card was done: it was moved without one"


@pytest.mark.parametrize(
    ("before", "kind"),
    [("done", "promoted"), ("todo", "completed"), ("ready", "unblocked"), ("ready", "crashed"), ("todo", "claimed")],
)
def test_an_event_that_its_status_does_not_allow_tells_of_a_move(board, before, kind):
    """Each of these is written only from certain statuses."""
    assert named_of(held(board, created(before), event(kind, 1))) == ["status_without_event"]


def test_where_two_statuses_are_possible_nothing_is_said(board):
    """An event that one of them allows is no proof; one that neither allows is."""
    assert held(board, created(), event("linked", parent="t_gone"), claimed(1)) == []
    board.card(created(), event("linked", parent="t_gone"), event("crashed", 1), task="t_b")
    finding = found_one(board.audit().findings, "status_without_event")
    assert finding.text == "crashed, but by the events before it the card was ready or todo: it was moved without one"


def test_versions_that_are_known_less_well_make_it_likely_only(tmp_path):
    """They may move what the older ones did not."""
    board = Board(tmp_path, version=20)
    (finding,) = held(board, created("todo"), claimed(1))
    assert (finding.kind, finding.sure) == ("status_without_event", "likely")


def test_a_counter_that_jumps_was_moved_by_something_else(board):
    """The events before it are named, and what each side says."""
    (finding,) = [each for each in held(board, *CRASHED, gave_up(5, 2)) if each.kind == "counter_without_event"]
    assert (finding.events, finding.sure) == ((1, 3, 4), "certain")
    assert (dict(finding.stored), dict(finding.history)) == ({"failures": 5}, {"failures": "1"})


def test_a_count_that_was_lost_between_two_transactions_is_likely(board):
    """A dispatcher that is killed there loses it for good."""
    (finding,) = held(board, *CRASHED, claimed(2), event("crashed", 2), gave_up(1, 1))
    assert (finding.kind, finding.sure) == ("counter_without_event", "likely")


@pytest.mark.parametrize(
    "history",
    [
        (created(), claimed(1), event("spawn_failed", 1, failures=1)),
        (created(), claimed(1), gave_up(1, 1, 1, trigger_outcome="spawn_failed")),
        (created(), claimed(1), event("timed_out", 1, failures=1)),
        (*CRASHED, gave_up(1, 1)),
        (created(), claimed(1), event("protocol_violation", 1, protocol_violation=True),
         gave_up(1, 3, protocol_violations=3, protocol_violation_limit=3)),
        (*CRASHED, gave_up(1, 1, trigger_outcome=None)),
        (created(), claimed(1), event("spawn_failed", 1, failures=0, infrastructure=True)),
    ],
)  # fmt: skip
def test_a_counter_that_follows_from_its_events_is_none(board, history):
    """Some events count the end themselves, others follow one that was counted."""
    assert held(board, *history) == []


def test_an_unknown_kind_before_it_makes_any_finding_unsure(board):
    """It may have been what moved the card."""
    (finding,) = held(board, created("todo"), event("teleported"), claimed(1))
    assert (finding.kind, finding.sure) == ("status_without_event", "unknown")
    assert finding.because == "event 2 is of a kind that is not known"


def test_a_history_that_begins_in_the_middle_makes_none(board):
    """A claim, an end, a counter: each may be right after what was deleted."""
    assert held(board, claimed(7), event("crashed", 7), gave_up(9, 2), event("unblocked")) == []


def test_a_counter_below_what_is_left_of_a_history_was_moved(board):
    """One end is at least one count, unless it was lost."""
    (finding,) = held(board, claimed(7), event("crashed", 7), gave_up(0, 2))
    assert (finding.kind, finding.sure, dict(finding.history)) == (
        "counter_without_event", "likely", {"failures": "1 or more"},
    )  # fmt: skip


def test_what_is_seen_in_what_is_left_of_a_history_is_certain(board):
    """Nothing before a breaker can make the promotion behind it right."""
    (finding,) = held(board, claimed(7), event("crashed", 7), gave_up(9, 2), event("promoted"))
    assert (finding.kind, finding.sure) == ("promoted_while_held", "certain")


def named_of(findings):
    """Their kinds."""
    return [each.kind for each in findings]


def found_one(findings, kind):
    """The only one of *kind*."""
    (finding,) = [each for each in findings if each.kind == kind]
    return finding
