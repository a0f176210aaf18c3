"""Boards that the reference system itself has written: only what was changed by hand speaks against its own history."""

import sqlite3
from contextlib import closing

import pytest

from kanban.foreign.audit import audit
from tests.audit.boards import DUMPS, FIXTURES, named, real

OF_THE_FOLD = (
    "stored_against_history", "status_without_event", "counter_without_event", "two_live_runs", "run_left_open",
)  # fmt: skip
UNTOUCHED = ["hermes-board-small.db", *DUMPS]
MOVED = {
    "status": "UPDATE tasks SET status = iif(status = 'triage', 'scheduled', 'triage') WHERE id = ?",
    "failures": "UPDATE tasks SET consecutive_failures = consecutive_failures + 3 WHERE id = ?",
    "block": "UPDATE tasks SET block_recurrences = block_recurrences + 1 WHERE id = ?",
}


def test_five_rows_that_were_changed_by_hand_are_named():
    """Four cards that are done by their events and ready in their rows, and one that a breaker held, and no other."""
    found = [each for each in audit(FIXTURES / "hermes-board-drift.db").findings if each.kind == OF_THE_FOLD[0]]
    assert {each.task: (dict(each.stored), dict(each.history)) for each in found} == {
        "t_ac7e706e": ({"status": "ready"}, {"status": "done"}),
        "t_b0f0f682": ({"status": "ready", "failures": 0}, {"status": "blocked", "failures": 2}),
        "t_d1af5bae": ({"status": "ready"}, {"status": "done"}),
        "t_d9ccaf06": ({"status": "ready"}, {"status": "done"}),
        "t_f0856c41": ({"status": "ready"}, {"status": "done"}),
    }
    assert {(each.sure, each.events, each.text) for each in found if each.task == "t_b0f0f682"} == {
        ("certain", (153,), "status is ready, by its events blocked; failures is 0, by its events 2")
    }


@pytest.mark.parametrize("name", UNTOUCHED)
def test_a_board_that_nobody_touched_agrees_with_its_own_history(name, tmp_path):
    """Written by 0.13, by 0.15, by 0.19, by several in turn, and by one that deleted old events."""
    assert named(audit(real(name, tmp_path)), *OF_THE_FOLD) == []


@pytest.mark.parametrize("name", UNTOUCHED)
@pytest.mark.parametrize("column", MOVED)
def test_any_row_that_is_changed_by_hand_is_the_one_that_is_named(name, column, tmp_path):
    """Card by card: its status, its counter, its block, wherever the history is there from the beginning."""
    path = real(name, tmp_path)
    with closing(sqlite3.connect(path)) as driver:
        columns = {row[1] for row in driver.execute("PRAGMA table_info(tasks)")}
        found = driver.execute("SELECT DISTINCT task_id FROM task_events WHERE kind = 'created' ORDER BY id")
        cards = [card for (card,) in found][::3]
    if column == "block" and "block_recurrences" not in columns:
        return
    for card in cards:
        with closing(sqlite3.connect(path)) as driver:
            driver.execute("BEGIN")
            before = driver.execute("SELECT * FROM tasks WHERE id = ?", (card,)).fetchone()
            driver.execute(MOVED[column], (card,))
            driver.commit()
            assert named(audit(path), "stored_against_history") == [("stored_against_history", card)], card
            driver.execute("DELETE FROM tasks WHERE id = ?", (card,))
            driver.execute(f"INSERT INTO tasks VALUES ({', '.join('?' * len(before))})", before)
            driver.commit()


def test_what_else_is_true_of_the_changed_board_is_said_with_its_price():
    """Ten cards were promoted under a breaker that had just tripped; one run ours would not have started."""
    found = audit(FIXTURES / "hermes-board-drift.db")
    totals = found.totals
    assert totals["by_finding"] == {"promoted_while_held": 10, "budget_exceeded": 10, "stored_against_history": 5}
    assert totals["by_certainty"] == {"certain": 25, "likely": 0, "unknown": 0}
    assert (totals["runs"], totals["runs_cost"], totals["runs_not_started_by_ours"]) == (37, 10, 1)
    (ours,) = found.ours
    assert (ours.task, ours.cause, ours.count, ours.limit, ours.at, ours.runs) == (
        "t_691da831", "violation_budget", 3, 3, 179, [33],
    )  # fmt: skip
    (told,) = {each.ours for each in found.findings if each.task == "t_691da831"}
    assert told == "held at event 179 (violation_budget 3 of 3): 1 run not started"


def test_a_card_that_was_given_to_somebody_else_was_promoted_rightly():
    """On the untouched board: a breaker held t_cdb72e3a at event 65; it went to the builder, and was promoted at 90."""
    found = audit(FIXTURES / "hermes-board-small.db")
    assert [each.events for each in found.findings if each.task == "t_cdb72e3a" and each.kind != "budget_exceeded"] == [
        (41, 43)
    ]
