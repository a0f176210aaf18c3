"""The table of the reference system's cases is whole, and names no test that is not there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PLAIN = """
test_disabled_without_kanban_task test_env_zero_disables_and_blank_ids_are_not_workers
test_max_attempts_parsing_and_clamp test_delay_schedule_repeats_last_entry test_retryable_failed_turn_is_eligible
test_claim_check_fails_closed_without_a_board test_missing_pinned_carrier_fails_closed
test_missing_db_pin_never_resolves_an_ambient_board test_lease_expired_during_the_backoff_blocks_model_reentry
test_recovery_loop_retries_until_success_and_reports test_recovery_loop_bounded_when_result_never_changes
test_recovery_loop_order_is_check_sleep_check_turn test_nudge_terminal_contract
test_exit_mapping_composes_with_the_stripped_worker_predicate
test_explicit_blank_carrier_never_falls_back_to_the_env_pin test_recovers_in_place
test_budget_exhausted_stops_and_releases test_non_worker_frame_is_never_recovered
test_claim_denial_stops_before_model_reentry test_worker_client_reports_the_owner_exit_and_reply
test_non_worker_one_shot_prints_its_exit_summary test_goal_mode_continues_after_a_successful_authorized_recovery
test_violation_budget_trip_holds_until_operator_unblock test_plain_budget_trip_still_auto_recovers
test_exit_single_query_writes_trailer_only_for_kanban_workers
"""
IN_ROWS = {
    "test_should_recover_turn_refuses": "not-retryable success nothing-settled quota-wall billing-wall "
    "upstream-quota-wall interrupt terminal-settlement unfinished-nonfailed completed-false",
    "test_claim_ownership_matrix": "owned-live released-to-the-board other-process-owns-the-claim run-already-closed "
    "run-handed-to-another-pid no-live-run-pointer board-moved-to-another-run claim-lock-no-longer-ours "
    "task-lease-expired run-lease-expired null-task-lease-is-not-unbounded null-run-lease-is-not-unbounded",
    "test_single_turn_route_outcomes": "nothing-settled denial-unfinished-turn quota-wall billing-wall "
    "upstream-quota-wall",
    "test_goal_mode_does_not_continue": "recovery-denied lease-expired-during-backoff quota-wall-billing "
    "quota-wall-upstream interrupt terminal-settlement budget-exhausted unfinished-nonfailed",
    "test_fresh_process_sweep_books_the_logged_exit_code": "0 75",
}
CASES = [
    *((name, "") for name in PLAIN.split()),
    *((name, row) for name, rows in IN_ROWS.items() for row in rows.split()),
]
"""Each case as the reference system names it: its test, and the row of that test."""
ROW = re.compile(r"\| `(?P<name>test_\w+)`(?: \[(?P<row>[\w-]+)\])? \| (?P<pins>[^|]+) \| (?P<tests>[^|]*) \|")


@pytest.fixture(scope="module")
def rows():
    """The rows of the table: (case, what it pins, our tests)."""
    lines = (HERE / "README.md").read_text().splitlines()
    found = [ROW.fullmatch(line) for line in lines if line.startswith("| `")]
    assert all(found), [line for line in lines if line.startswith("| `") and not ROW.fullmatch(line)]
    return [((row["name"], row["row"] or ""), row["pins"], re.findall(r"`([^`]+)`", row["tests"])) for row in found]


@pytest.fixture(scope="module")
def collected():
    """What pytest finds in this folder: `file::test[row]`."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(HERE)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parents[1]).stdout
    return {line.rpartition("tests/reference/")[2] for line in said.splitlines() if "::" in line}


def test_every_case_has_one_row(rows):
    """All of them, none twice, and none that the reference system does not have."""
    assert len(CASES) == len(set(CASES)) == 62
    assert sorted(case for case, _, _ in rows) == sorted(CASES)
    assert all(pins.strip() for _, pins, _ in rows)


def test_every_case_is_pinned(rows):
    """By a test of ours at least."""
    assert [case for case, _, tests in rows if not tests] == []


def test_every_test_of_the_table_is_there(rows, collected):
    """Where it names a row, that row too."""
    named = {test for _, _, tests in rows for test in tests}
    known = collected | {test.partition("[")[0] for test in collected}
    assert named - known == set()
    assert len(collected) > len(named)
