"""May a turn be tried again, and with which code does a worker end: the reference system's tables, in our words."""

import pytest

from kanban.worker.authority import NEVER_RETRIED, Denial, denied
from kanban.worker.carrier import is_worker
from kanban.worker.exits import TERMINAL, TRANSIENT, Credentials, exit_code
from kanban.worker.result import UNSETTLED, Status, TurnResult, result_of, result_of_exit
from tests.reference.workers import (
    BILLING,
    INTERRUPT,
    PARTIAL,
    QUOTA,
    SETTLED,
    SUCCESS,
    TIMEOUT,
    UPSTREAM_QUOTA,
)

AUTH = {"failed": True, "failure_retryable": False, "failure_reason": "auth"}
COUNTED_REASONS = (
    "context_overflow", "truncated", "invalid_response", "empty_response", "loop_error", "interpreter_shutdown",
    "session_busy", "malformed_tool_call", "format_error", "unknown", None, "a word of tomorrow",
)  # fmt: skip


def denial(said, *, made=0, budget=3, worker=True, **sets):
    """Why the result gives no other turn."""
    return denied(result_of(said), is_worker=worker, made=made, budget=budget, **sets)


@pytest.mark.parametrize(("made", "why"), [(0, None), (2, None), (3, Denial.SPENT), (4, Denial.SPENT)])
def test_a_retryable_failure_goes_on_within_the_budget(made, why):
    """Yes at 0 and 2 made, no at 3 of 3."""
    assert denial(TIMEOUT, made=made) == why


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param(AUTH, Denial.NOT_RETRYABLE, id="not-retryable"),
        pytest.param(SUCCESS, Denial.NOT_FAILED, id="success"),
        pytest.param(None, Denial.UNSETTLED, id="nothing-settled"),
        pytest.param(QUOTA, Denial.NEVER, id="quota-wall"),
        pytest.param(BILLING, Denial.NEVER, id="billing-wall"),
        pytest.param(UPSTREAM_QUOTA, Denial.NEVER, id="upstream-quota-wall"),
        pytest.param(INTERRUPT, Denial.INTERRUPTED, id="interrupt"),
        pytest.param(SETTLED, Denial.SETTLED, id="terminal-settlement"),
        pytest.param(PARTIAL, Denial.NOT_FAILED, id="unfinished-nonfailed"),
        pytest.param({"completed": False}, Denial.NOT_FAILED, id="completed-false"),
        pytest.param(TIMEOUT | {"failure_retryable": 1}, Denial.NOT_RETRYABLE, id="retryable-but-not-true"),
        pytest.param(TIMEOUT | {"failed": 1}, Denial.NOT_RETRYABLE, id="failed-but-not-true"),
        pytest.param(TIMEOUT | {"failed": False}, Denial.NOT_FAILED, id="retryable-without-failure"),
    ],
)
def test_nothing_else_goes_on(said, why):
    """An allow-list over typed fields: an interrupt and a settlement beat a retryable stamp."""
    assert denial(said) == why


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"worker": False}, Denial.DISABLED),
        ({"budget": 0}, Denial.DISABLED),
        ({"made": 3}, Denial.SPENT),
        ({}, Denial.INTERRUPTED),
        ({"drop": "interrupted"}, Denial.SETTLED),
        ({"drop": "turn_exit_reason"}, Denial.NOT_RETRYABLE),
        ({"drop": "failure_retryable"}, Denial.NEVER),
    ],
)
def test_the_first_that_holds_decides(changes, why):
    """One result with everything wrong, of which one thing after the other is mended, in the order of the rule."""
    wrong = INTERRUPT | SETTLED | BILLING | {"interrupted": True, "failure_retryable": False}
    mends = ["interrupted", "turn_exit_reason", "failure_retryable"]
    for name in mends[: mends.index(changes["drop"]) + 1 if "drop" in changes else 0]:
        wrong[name] = {"interrupted": False, "turn_exit_reason": "", "failure_retryable": True}[name]
    made, budget = changes.get("made", 0), changes.get("budget", 3)
    assert denial(wrong, made=made, budget=budget, worker=changes.get("worker", True)) == why


def test_the_two_sets_of_reasons_are_apart_and_replaceable():
    """They share quota and billing; a timeout goes on first, and is come-back-later once that is spent."""
    assert NEVER_RETRIED < TRANSIENT
    assert TRANSIENT.isdisjoint(TERMINAL)
    assert sorted(TRANSIENT - NEVER_RETRIED) == ["overloaded", "server_error", "timeout"]
    assert denial(TIMEOUT, never={"timeout"}) == Denial.NEVER
    assert denial(BILLING, never=set()) is None
    assert exit_code(result_of(TIMEOUT), is_worker=True, transient=set()) == 1
    assert exit_code(result_of(TIMEOUT), is_worker=True, transient=set(), terminal={"timeout"}) == 78


@pytest.mark.parametrize(
    ("said", "worker", "other"),
    [
        (SUCCESS, 0, 0),
        ({}, 0, 0),
        ({"completed": None}, 0, 0),
        ({"completed": 0}, 0, 0),
        (None, 1, 1),
        ("all done", 1, 1),
        (INTERRUPT, 130, 130),
        ({"interrupted": True, "completed": True}, 130, 130),
        (PARTIAL, 1, 1),
        ({"completed": False}, 1, 1),
        (PARTIAL | {"failure_reason": "overloaded"}, 75, 1),
        (SETTLED, 75, 1),
        ({"completed": False, "turn_exit_reason": "max_iterations_reached(9/9)"}, 1, 1),
        ({"completed": True, "turn_exit_reason": "max_iterations_reached(9/9)"}, 0, 0),
        ({"failed": 1, "failure_reason": "timeout"}, 75, 1),
        *[({"failed": True, "failure_reason": reason}, 75, 1) for reason in sorted(TRANSIENT)],
        *[({"failed": True, "failure_reason": reason}, 78, 1) for reason in sorted(TERMINAL)],
        *[({"failed": True, "failure_reason": reason}, 1, 1) for reason in COUNTED_REASONS],
    ],
)
def test_the_exit_code_follows_the_result(said, worker, other):
    """0 done, 75 come back later, 78 configuration, 130 interrupted, 1 all else; outside a worker 0, 1 and 130."""
    assert exit_code(result_of(said), is_worker=True) == worker
    assert exit_code(result_of(said), is_worker=False) == other


@pytest.mark.parametrize(
    ("credentials", "worker"), [(Credentials.FINE, 1), (Credentials.LIMITED, 75), (Credentials.REFUSED, 78)]
)
def test_credentials_speak_where_no_turn_did(credentials, worker):
    """For a worker only; a real result always wins over them."""
    assert exit_code(UNSETTLED, is_worker=True, credentials=credentials) == worker
    assert exit_code(UNSETTLED, is_worker=False, credentials=credentials) == 1
    assert exit_code(result_of(PARTIAL), is_worker=True, credentials=credentials) == 1
    assert exit_code(result_of(SUCCESS), is_worker=True, credentials=credentials) == 0


@pytest.mark.parametrize(("task", "code"), [("   ", 1), ("  t_bound  ", 75)])
def test_the_exit_code_asks_the_same_question_as_the_recovery(task, code):
    """An id of spaces is no worker for either, one with spaces around it is one for both."""
    worker = is_worker({"LEDGER_TASK": task})
    assert exit_code(result_of(QUOTA), is_worker=worker) == code


@pytest.mark.parametrize(
    ("code", "status", "own"),
    [
        (0, Status.OK, 0), (75, Status.FAILED, 75), (78, Status.FAILED, 78), (130, Status.INTERRUPTED, 130),
        (143, Status.INTERRUPTED, 130), (-2, Status.INTERRUPTED, 130), (-15, Status.INTERRUPTED, 130),
        (1, Status.FAILED, 1), (3, Status.FAILED, 1), (-9, Status.FAILED, 1),
    ],
)  # fmt: skip
def test_a_command_is_one_turn_and_its_code_the_result(code, status, own):
    """Its meaning is kept, and no code asks for another try in place."""
    result = result_of_exit(code, "its last words")
    assert (result.status, result.output) == (status, "its last words")
    assert exit_code(result, is_worker=True) == own
    assert denied(result, is_worker=True, made=0, budget=3) is not None


@pytest.mark.parametrize(("said", "at"), [(1.5, 1.5), (7, 7.0), (True, None), ("7", None), (None, None), ([7], None)])
def test_a_reset_is_a_number(said, at):
    """And nothing else is."""
    assert result_of({"failure_resets_at": said}).resets_at == at


def test_a_typed_result_is_itself():
    """An agent may answer with one."""
    result = TurnResult(Status.FAILED, retryable=True, reason="timeout", error="504")
    assert result_of(result) is result
    assert result_of(TIMEOUT | {"final_response": " ", "error": 5}).error is None
