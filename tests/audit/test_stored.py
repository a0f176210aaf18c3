"""What is stored of cards and runs, against what the events say, and how sure that is."""

import pytest

from tests.audit.boards import CARD, Board, claimed, created, event, gave_up

CRASHED = (created(), claimed(1), event("crashed", 1))
LATER = event("commented")
TWO = "there a change and its count are two transactions: a kill between them loses the count"


def only(board, kind="stored_against_history"):
    """The only finding of *kind*."""
    (finding,) = [each for each in board.audit().findings if each.kind == kind]
    return finding


def none_of(board, *kinds):
    """Whether there is no finding of *kinds*."""
    return not [each for each in board.audit().findings if each.kind in kinds]


@pytest.mark.parametrize(
    ("history", "stored", "says"),
    [
        ([created()], {"status": "done"}, "status is done, by its events ready"),
        ([created()], {"consecutive_failures": 3}, "failures is 3, by its events 0"),
        ([created()], {"status": ""}, "status is , by its events ready"),
        (
            [created(), event("linked", parent="t_p")],
            {"status": "blocked"},
            "status is blocked, by its events ready or todo",
        ),
        ([created()], {"block_kind": "needs_input"}, "block is needs_input × 0, by its events untyped × 0"),
        ([created()], {"block_recurrences": 2}, "block is untyped × 2, by its events untyped × 0"),
        ([created()], {"current_run_id": 4}, "run is 4, by its events none"),
        (
            [*CRASHED, gave_up(2, 2)],
            {"consecutive_failures": 0},
            "status is ready, by its events blocked; failures is 0, by its events 2",
        ),
    ],
)
def test_a_row_that_its_events_do_not_make_is_named_with_both_values(board, history, stored, says):
    """One finding a card, whatever is wrong with it."""
    board.card(*history, **stored)
    finding = only(board)
    assert (finding.text, finding.sure, finding.runs) == (says, "certain", [])


def test_the_events_that_speak_against_the_row_are_named(board):
    """The last that set the status, and those that make the counter."""
    board.card(*CRASHED, gave_up(2, 2), LATER)
    assert only(board).events == (4,)
    board.say("UPDATE tasks SET status = 'blocked', consecutive_failures = 7")
    board.say("DELETE FROM task_events WHERE kind = 'gave_up'")
    assert only(board).events == (1, 3)


def test_what_a_version_cannot_have_written_narrows_the_counter(board):
    """Before 0.15 an unblock left it alone; an event that only 0.16 writes says that it was later."""
    history = (claimed(1), event("crashed", 1), gave_up(1, 1), event("unblocked"))
    board.card(created(), *history, consecutive_failures=1)
    assert none_of(board, "stored_against_history")
    board.card(created(goal_mode=None), *history, task="t_b", consecutive_failures=1)
    assert only(board).text == "failures is 1, by its events 0"


def test_a_row_that_its_events_make_is_no_finding(board):
    """Here a blocked card with its counter and its block."""
    history = (*CRASHED, gave_up(1, 1), event("unblocked"), event("blocked", kind="x", recurrences=1, reason="r"))
    board.card(*history, status="blocked", block_kind="x", block_recurrences=1)
    assert board.audit().findings == ()


@pytest.mark.parametrize(
    ("history", "counter"), [(CRASHED, 0), ([*CRASHED, event("completed", 1)], 1), ([*CRASHED, claimed(2)], 0)]
)
def test_a_counter_between_a_change_and_its_count_is_likely_a_kill(board, history, counter):
    """That system counts an end, and clears after a completion, in a second transaction."""
    status = {"crashed": "ready", "completed": "done", "claimed": "running"}[history[-1].kind]
    board.card(*history, LATER, status=status, consecutive_failures=counter)
    finding = only(board)
    assert (finding.sure, finding.because) == ("likely", TWO)


def test_at_the_newest_event_of_the_board_it_may_be_the_moment_of_the_copy(board):
    """Somebody is about to count that end: nothing is known."""
    board.card(*CRASHED)
    finding = only(board)
    assert (finding.sure, finding.because) == (
        "unknown", "the copy may stand between a change and its count, which are two transactions there",
    )  # fmt: skip


def test_a_counter_that_lost_more_than_its_events_can_explain_is_certain(board):
    """One end is one count."""
    board.card(*CRASHED, claimed(2), event("spawn_failed", 2, failures=2), LATER)
    assert only(board).sure == "certain"


def test_an_unknown_kind_behind_what_settled_the_value_makes_it_unknown(board):
    """It may have moved it; before that it cannot have."""
    board.card(created(), event("teleported"), status="done")
    assert only(board).because == "event 2 is of a kind that is not known"
    board.event(event("status", status="ready"))
    assert only(board).sure == "certain"


def test_an_unknown_kind_behind_the_counter_alone_makes_the_counter_unknown(board):
    """Each value has an event of its own that settled it."""
    board.card(created(), event("teleported"), claimed(1), event("stale", 1), consecutive_failures=1)
    assert only(board).sure == "unknown"


def test_a_history_that_begins_in_the_middle_makes_it_likely(board):
    """What was deleted may have had more to it."""
    board.card(event("completed"), status="ready")
    finding = only(board)
    assert (finding.sure, finding.because) == ("likely", "its history begins in the middle, at event 1")


def test_what_the_rest_of_a_history_leaves_open_is_no_finding(board):
    """Any counter, any block, any status may have been before the first event that is left."""
    board.card(event("commented"), consecutive_failures=9, block_kind="x", block_recurrences=1, current_run_id=None)
    board.card(event("completed"), task="t_b", status="done")
    assert none_of(board, "stored_against_history")


def test_a_newer_version_makes_it_likely(tmp_path):
    """Its rules are known less well than those of 0.13 to 0.19."""
    board = Board(tmp_path, version=20)
    board.card(created(), status="done")
    assert (only(board).sure, only(board).because) == ("likely", "the versions after 0.19 are known less well")


@pytest.mark.parametrize(("version", "column"), [(13, "block_recurrences"), (17, "block_kind")])
def test_a_column_that_is_missing_says_nothing(version, column, tmp_path):
    """Older versions had no blocks of a kind."""
    board = Board(tmp_path, version)
    board.card(created(), event("blocked", reason="r", recurrences=1), status="blocked")
    assert board.audit().findings == ()
    assert column not in board.audit_columns()


@pytest.mark.parametrize(("status", "kinds"), [("ready", ["stored_against_history"]), ("done", []), ("archived", [])])
def test_a_card_without_any_event_is_named_unless_they_may_have_been_deleted(board, status, kinds):
    """That system deletes the events of what is done."""
    board.card(status=status)
    found = board.audit()
    assert [each.kind for each in found.findings] == kinds
    assert [each.sure for each in found.findings] == ["likely"] * len(kinds)


# Runs


@pytest.mark.parametrize("current", [None, 1])
@pytest.mark.parametrize("status", ["done", "archived", "ready", "blocked"])
def test_a_run_that_is_open_on_a_card_that_does_not_run_is_named(board, status, current):
    """With the event that claimed it, whether or not the card still points to it."""
    board.card(created(), claimed(1), event("status", status=status), status=status, current_run_id=current)
    board.run(1, 1_000, None)
    finding = only(board, "run_left_open")
    assert (finding.text, finding.events, finding.sure) == (f"run 1 is open, the card is {status}", (2,), "certain")


def test_the_open_run_of_a_running_card_is_as_it_should_be(board):
    """Only another one beside it is not, and then they are two."""
    board.card(created(), claimed(1), status="running", current_run_id=1)
    board.run(1, 1_000, None)
    assert board.audit().findings == ()
    board.run(2, 1_001, None)
    assert only(board, "run_left_open").text == "run 2 is open, the card is running"
    two = only(board, "two_live_runs")
    assert (two.text, two.runs, two.sure) == ("runs 1, 2 are open at once", [2], "certain")


def test_a_run_of_a_card_that_is_gone_is_nobodys(board):
    """As is one that has ended."""
    board.run(1, 1_000, None, task="t_gone")
    board.card(created())
    board.run(2, 1_000, 1_001)
    assert board.audit().findings == ()


@pytest.mark.parametrize(
    ("second", "kinds"), [((1_005, 1_020), ["two_live_runs"]), ((1_010, 1_020), []), ((1_005, 1_005), [])]
)
def test_runs_that_overlap_by_their_times_are_likely_two_where_the_events_are_gone(board, second, kinds):
    """A run of no length at all was made up for the record, and whole seconds may touch."""
    board.card(status="done")
    board.run(1, 1_000, 1_010)
    board.run(2, *second)
    found = board.audit().findings
    assert [each.kind for each in found] == kinds
    assert [(each.sure, each.runs, each.text) for each in found] == [
        ("likely", [2], "run 2 began 5 s before run 1 ended") for _ in kinds
    ]


def test_where_the_events_are_there_they_tell_and_not_the_times(board):
    """Clocks go back; claims do not."""
    board.card(created(), claimed(1), event("stale", 1), claimed(2), event("completed", 2), status="done")
    board.run(1, 1_000, 1_010)
    board.run(2, 1_005, 1_020)
    assert named_kinds(board) == []


def named_kinds(board):
    """The kinds of all findings."""
    return [each.kind for each in board.audit().findings if each.task == CARD]
