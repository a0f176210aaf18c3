"""What our rules would have done with the same history, and where that is not known any more."""

import pytest

from tests.audit.boards import claimed, created, event, gave_up

CLEAN = {"protocol_violation": True}


def ours(board, *history, **stored):
    """Where ours differs."""
    board.card(*history, **stored)
    return board.audit().ours


def ended(kind, *runs, **facts):
    """Runs that are claimed and end alike, one after the other."""
    return tuple(each for run in runs for each in (claimed(run), event(kind, run, **facts)))


@pytest.mark.parametrize(
    ("history", "cause", "count", "limit"),
    [
        (ended("crashed", 1, 2), "failure_budget", 2, 2),
        (ended("timed_out", 1, 2, limit_seconds=1), "failure_budget", 2, 2),
        (ended("stale", 1, 2), "failure_budget", 2, 2),
        (ended("spawn_failed", 1, 2, failures=1), "failure_budget", 2, 2),
        (ended("protocol_violation", 1, 2, 3, **CLEAN), "violation_budget", 3, 3),
        (ended("rate_limited", *range(1, 26), exit_code=75), "neutral_budget", 25, 25),
        (ended("reclaimed", *range(1, 26), stale_lock="h:1"), "neutral_budget", 25, 25),
        (ended("crashed", *range(1, 26), exit_kind="signaled", exit_code=15), "neutral_budget", 25, 25),
        (ended("crashed", *range(1, 26), exit_kind="nonzero_exit", exit_code=130), "neutral_budget", 25, 25),
        (ended("spawn_failed", *range(1, 26), failures=0, infrastructure=True), "neutral_budget", 25, 25),
        (tuple(claimed(run) for run in range(1, 26)), "neutral_budget", 25, 25),
        ((*ended("crashed", 1), event("assigned", assignee="builder"), *ended("crashed", 2)), "failure_budget", 2, 2),
        ((*ended("crashed", 1, 2), event("status", status="triage"), event("specified")), "failure_budget", 2, 2),
        (ended("crashed", 1, exit_code=78, terminal_provider=True), "config", None, None),
        ((claimed(1), gave_up(1, 1, 1, trigger_outcome="spawn_failed"), event("promoted"), *ended("crashed", 2)),
         "failure_budget", 2, 2),
        ((claimed(1), event("blocked", 1, reason="r"), event("promoted")), "worker", None, None),
        ((event("blocked", reason="r"), event("promoted")), "operator", None, None),
        ((claimed(1), event("block_loop_detected", 1, reason="r"), event("specified")), "worker", None, None),
    ],
)  # fmt: skip
def test_a_budget_of_ours_holds_the_card_at_the_end_that_reaches_it(board, history, cause, count, limit):
    """The run after it would not have been started; whatever that system itself made of it."""
    found = ours(board, created(), *history, claimed(99))
    assert [(each.cause, each.count, each.limit, each.runs, each.sure) for each in found] == [
        (cause, count, limit, [99], "certain")
    ]


@pytest.mark.parametrize(
    "history",
    [
        ended("crashed", 1),
        ended("protocol_violation", 1, 2, **CLEAN),
        ended("rate_limited", *range(1, 25)),
        (*ended("crashed", 1), *ended("protocol_violation", 2, **CLEAN)),
        (*ended("crashed", 1), event("assigned", assignee="other"), *ended("crashed", 2)),
        (*ended("crashed", 1), *ended("reclaimed", 2, manual=True), *ended("crashed", 3)),
        (*ended("crashed", 1), event("unblocked"), *ended("crashed", 2)),
        (*ended("crashed", 1, 2), event("unblocked")),
        (*ended("crashed", 1, 2), event("assigned", assignee="other")),
        (*ended("crashed", 1, 2), event("promoted_manual")),
        (claimed(1), event("dependency_wait", 1, kind="dependency")),
        (claimed(1), event("review_requested", 1), claimed(2), event("changes_requested", 2)),
        (claimed(1), event("scheduled", 1), event("unblocked")),
        (claimed(1), event("block_loop_detected", 1, reason="r"), event("status", status="todo"), event("promoted")),
    ],
)
def test_below_our_limits_and_after_an_act_of_a_person_nothing_differs(board, history):
    """The same run would have been started."""
    assert ours(board, created(), *history, claimed(99)) == ()


def test_a_cards_own_limit_goes_before_ours(board):
    """As `max_retries` does there."""
    (found,) = ours(board, created(), *ended("crashed", 1), claimed(2), max_retries=1)
    assert (found.count, found.limit, found.limit_source) == (1, 1, "task")


@pytest.mark.parametrize("limit", [0, -3, "many"])
def test_a_limit_that_is_none_leaves_ours_in_force(board, limit):
    """Somebody may have written anything there."""
    (found,) = ours(board, created(), *ended("crashed", 1, 2), claimed(3), max_retries=limit)
    assert (found.limit, found.limit_source) == (2, "policy")


def test_mixed_ends_that_no_budget_there_counts_are_a_finding_of_ours(board):
    """Its limits look at each kind of end alone: such a card may run for ever."""
    history = (
        *ended("protocol_violation", 1, 2, **CLEAN),
        *ended("crashed", 3),
        *ended("protocol_violation", 4, 5, **CLEAN),
    )
    board.card(created(), *history, claimed(6), max_retries=4)
    (finding,) = [each for each in board.audit().findings if each.kind == "budget_exceeded"]
    assert (finding.law.of, finding.runs, finding.sure) == ("ledger", [5, 6], "certain")
    assert finding.text == "2 runs beyond our attempt budget, 4 of 4 at event 9"


def test_knowledge_ends_at_the_first_run_that_would_not_have_started(board):
    """All that follows is counted until a person acts, and what came of it is said."""
    history = (created(), *ended("crashed", 1, 2), *ended("crashed", 3, 4), claimed(5), event("completed", 5))
    (found,) = ours(board, *history)
    assert (found.at, found.known_until, found.runs, found.finished, found.until) == (5, 6, [3, 4, 5], True, None)


def test_after_a_person_has_acted_it_is_what_would_have_been_if_people_had_done_the_same(board):
    """Their act sets the counts to zero in both; it is likely, not certain."""
    again = (*ended("crashed", 1, 2), claimed(3), event("crashed", 3), event("unblocked"))
    first, second = ours(board, created(), *again, *ended("crashed", 4, 5), claimed(6))
    assert (first.until, first.runs, first.sure) == (8, [3], "certain")
    assert (second.runs, second.sure, second.until) == ([6], "likely", None)


@pytest.mark.parametrize(
    "act", [event("unblocked"), event("promoted_manual"), event("reclaimed", 3, manual=True), event("review_reopened"),
            event("status", status="ready"), event("assigned", assignee="other")],
)  # fmt: skip
def test_any_act_of_a_person_ends_what_is_not_known(board, act):
    """What a person wanted there, they would have wanted here."""
    (found,) = ours(board, created(), *ended("crashed", 1, 2), claimed(3), act, claimed(4))
    assert (found.runs, found.until) == ([3], 7)


def test_a_reassignment_lifts_only_what_is_not_sticky(board):
    """A budget of exits without a word waits for a person, whoever has the card."""
    away = event("assigned", assignee="other")
    (found,) = ours(board, created(), *ended("protocol_violation", 1, 2, 3, **CLEAN), away, claimed(4))
    assert found.cause == "violation_budget"


def test_a_card_that_was_taken_from_its_worker_is_blocked_by_an_operator(board):
    """The run is over when the card is moved away from running."""
    history = (claimed(1), event("status", status="ready"), event("blocked", reason="r"), event("promoted"), claimed(2))
    (found,) = ours(board, created(), *history)
    assert found.cause == "operator"


def test_a_move_on_the_dashboard_out_of_a_block_is_an_unblock(board):
    """And out of done it is a reopening; both start from zero."""
    blocked = (*ended("crashed", 1, 2), gave_up(2, 2), event("status", status="ready"))
    assert ours(board, created(), *blocked, claimed(3)) == ()


def test_a_reopened_card_starts_from_zero(board):
    """Its runs before do not count, and it is held and let go like any other."""
    reopened = (*ended("crashed", 1), claimed(2), event("completed", 2), event("status", status="ready"))
    held = (*ended("crashed", 3, 4), event("assigned", assignee="other"))
    assert ours(board, created(), *reopened, *held, claimed(5)) == ()


def test_archiving_ends_the_run_and_nobody_is_to_blame(board):
    """The worker was interrupted."""
    history = (*ended("crashed", 1), claimed(2), event("archived"), event("status", status="ready"))
    assert ours(board, created(), *history, *ended("crashed", 3), claimed(4)) == ()


def test_a_run_that_was_open_under_another_is_lost(board):
    """Neither is counted as a failure."""
    assert ours(board, created(), *ended("crashed", 1), claimed(2), claimed(3), claimed(4)) == ()


@pytest.mark.parametrize(("beginning", "sure"), [([], "likely"), ([created(), event("teleported")], "unknown")])
def test_what_is_not_known_of_a_history_makes_it_less_sure(board, beginning, sure):
    """Deleted events can only have added to the counts; an unknown kind may have been anything."""
    (found,) = ours(board, *beginning, *ended("crashed", 1, 2), claimed(3))
    assert found.sure == sure


def test_a_card_that_was_born_blocked_is_held_by_an_operator(board):
    """A promotion lifts nothing."""
    (found,) = ours(board, created("blocked"), event("promoted"), claimed(1))
    assert (found.cause, found.at) == ("operator", 1)


def test_findings_tell_what_ours_would_have_done(board):
    """Where a hold of ours was in force, and where none was."""
    tripped = (claimed(1), event("crashed", 1), gave_up(1, 1), event("promoted"))
    board.card(created(), *tripped, *ended("crashed", 2), gave_up(2, 1), event("promoted"), claimed(3))
    told = {each.ours for each in board.audit().findings if each.kind == "promoted_while_held"}
    assert told == {
        "no hold by our rules at that time: started too", "held at event 7 (failure_budget 2 of 2): 1 run not started",
    }  # fmt: skip


def test_it_is_printed_with_where_knowledge_ends(board):
    """For programs: the hold, the runs, the event of the first of them, and what came of them."""
    (found,) = ours(board, created(), *ended("crashed", 1, 2), claimed(3))
    assert found.as_json() == {
        "task": "t_a", "held_at": 5, "cause": "failure_budget", "count": 2, "limit": 2, "limit_source": "policy",
        "runs": [3], "not_started": 1, "known_until": 6, "until": None, "finished": False, "certainty": "certain",
    }  # fmt: skip
