"""RULES §4, row by row: what each event does to the counters, the run, the hold and the waiting times."""

from __future__ import annotations

import pytest

from ledger.errors import NewerSchema, UnknownKind
from ledger.events import COUNTED, KINDS, NEUTRAL
from projections.task import Card, Hold, Task, evolve
from tests import given

LATER = given.NOW + 7_200 * given.SECOND
HELD = Hold("failure_budget", None, sticky=False, count=2, limit=2, limit_source="policy", position=8)
BEFORE = Task(
    "t_a",
    Card(assignee="builder", last_assignee="builder", reviewer="critic", last_reviewer="critic"),
    version=9,
    position=9,
    updated_at=given.NOW,
    failures=1,
    streak=2,
    spent=5,
    neutral=3,
    runs=7,
    last_run=7,
    run=7,
    hold=HELD,
    not_before=given.NOW + 1,
    scheduled=given.NOW + 2,
    open_parents=1,
)
"""No counter is zero and nothing is empty: a row that forgets one shows it."""
EPOCH = {"failures": 0, "streak": 0, "spent": 0, "neutral": 0, "runs": 0}
SAME: dict[str, object] = {}


def held(cause: str, **fields: object) -> Hold:
    """The hold that the event at position 10 sets."""
    plain = {"kind": None, "sticky": True, "count": None, "limit": None, "limit_source": None}
    return Hold(cause=cause, position=10, **(plain | fields))


ROWS = {
    **{
        f"exited {outcome}": (
            given.exited(7, outcome),
            {"failures": 2, "streak": 0, "spent": 6, "neutral": 0, "run": None},
        )
        for outcome in sorted(COUNTED)
    },
    "exited clean": (given.exited(7, "clean"), {"streak": 3, "spent": 6, "neutral": 0, "run": None}),
    **{
        f"exited {outcome}": (
            given.exited(7, outcome, not_before=LATER),
            {"neutral": 4, "run": None, "not_before": LATER},
        )
        for outcome in sorted(NEUTRAL)
    },
    "exited interrupted, first in a row": (
        given.exited(7, "interrupted", not_before=None),
        {"neutral": 4, "run": None, "not_before": None},
    ),
    "exited config": (
        given.exited(7, "config"),
        {"failures": 2, "streak": 0, "spent": 6, "neutral": 0, "run": None, "hold": held("config")},
    ),
    "completed ok": (given.completed(7, "ok"), EPOCH | {"run": None, "hold": None, "outcome": "ok"}),
    "completed fail": (given.completed(7, "fail"), EPOCH | {"run": None, "hold": None, "outcome": "fail"}),
    "blocked by worker": (
        given.blocked(7, "worker", block_kind="needs_input"),
        {"streak": 0, "neutral": 0, "run": None, "hold": held("worker", kind="needs_input")},
    ),
    "blocked by operator, no run": (
        given.blocked(None, "operator", block_kind="waits"),
        {"hold": held("operator", kind="waits")},
    ),
    "blocked with hold false": (given.waiting(7), {"streak": 0, "neutral": 0, "run": None}),
    "blocked by a budget": (
        given.budget_blocked("attempt_budget", count=6, limit=6),
        {"hold": held("attempt_budget", sticky=False, count=6, limit=6, limit_source="policy")},
    ),
    "review_requested": (
        given.review_requested(7),
        {"streak": 0, "neutral": 0, "run": None, "lane": "review"},
    ),
    "changes_requested by a worker": (given.changes_requested(7), {"streak": 0, "neutral": 0, "run": None}),
    "unblocked by operator": (given.unblocked("operator"), EPOCH | {"hold": None, "not_before": None}),
    "unblocked limit_raised": (given.unblocked("limit_raised"), {"hold": None}),
    "unblocked reassigned": (given.unblocked("reassigned"), {"hold": None}),
    "assigned to somebody else": (given.assigned("other"), EPOCH | {"not_before": None}),
    "assigned to another reviewer": (given.assigned("other", role="reviewer"), EPOCH | {"not_before": None}),
    "reopened": (given.reopened(), EPOCH | {"hold": None, "scheduled": None, "not_before": None}),
    "created": (given.created(), SAME),
    "edited": (given.edited(title="B", max_retries=9), SAME),
    "linked": (given.linked(), SAME),
    "unlinked": (given.unlinked(), SAME),
    "commented": (given.commented(), SAME),
    "scheduled": (given.scheduled(LATER), {"scheduled": LATER}),
    "claimed": (given.claimed(8), {"runs": 8, "run": 8, "last_run": 8, "scheduled": None}),
    "worker_bound": (given.worker_bound(7), SAME),
    "progressed": (given.progressed(7), SAME),
    "stop_requested": (given.stop_requested(7), SAME),
    "violation": (given.violation(7), SAME),
    "archived": (given.archived(), {"archived": True}),
    "late_result": (given.late_result(7), SAME),
    "redacted": (given.redacted(1), SAME),
    "assigned to nobody": (given.assigned(None), SAME),
    "assigned to the same": (given.assigned("builder"), SAME),
}


def after(event):
    """BEFORE, and *event* at position 10."""
    return evolve(BEFORE, given.draft(event).as_if(position=10, version=10, at=LATER))


def state(task):
    """All that §4 speaks of."""
    return {name: getattr(task, name) for name in Task._fields if name != "card"}


@pytest.mark.parametrize("row", ROWS)
def test_row(row):
    """RULES §4: the row's fields move as it says and all others stay."""
    event, changes = ROWS[row]
    seen = {"version": 10, "position": 10, "updated_at": LATER}
    assert state(after(event)) == state(BEFORE) | seen | changes


def test_every_kind_of_a_card_has_a_row():
    """RULES §4: nothing but this table moves a counter."""
    board = {"board_created", "policy_changed", "paused", "resumed"}
    assert {event.kind for event, _ in ROWS.values()} == set(KINDS) - board


def test_every_outcome_of_an_exit_has_a_row():
    """RULES §4: no ending is left to a catch-all."""
    declared = set(KINDS["exited"].model_fields["outcome"].annotation.__args__)
    assert {event.outcome for event, _ in ROWS.values() if event.kind == "exited"} == declared


def test_a_reopened_card_is_in_lane_work_and_neither_done_nor_archived():
    """RULES §4: reopened: lane work."""
    task = given.fold(
        [given.created(lane="triage"), given.claimed(), given.review_requested(), given.completed(None),
         given.archived(), given.reopened()]
    )  # fmt: skip
    assert (task.lane, task.outcome, task.archived) == ("work", None, False)


def test_changes_requested_by_an_operator_sends_the_card_back():
    """RULES §4 and §8: lane work, and the streak of the reviewer's card starts again."""
    task = given.fold([given.created(), given.claimed(), given.review_requested(), given.changes_requested(None)])
    assert (task.lane, task.streak, task.neutral) == ("work", 0, 0)


def test_runs_are_counted_in_the_epoch_but_numbered_for_ever():
    """RULES §1: the counters start from zero, the history stays."""
    task = given.fold([given.created(), given.claimed(1), given.exited(1), given.unblocked(), given.claimed(2)])
    assert (task.runs, task.last_run, task.run) == (1, 2, 2)


def test_an_epoch_resets_runs_when_nothing_was_spent():
    """RULES §4: `runs` is 0 in every row that writes 0 for `spent`, also when `spent` was 0."""
    task = given.fold([given.created(), given.claimed(1), given.exited(1, "lost"), given.unblocked()])
    assert task.runs == 0


def test_a_neutral_end_between_two_clean_ones_keeps_the_streak():
    """RULES §4: clean exits in a row, neutral ends not counted."""
    ends = ["clean", "lost", "clean"]
    task = given.fold([event for n, end in enumerate(ends, 1) for event in (given.claimed(n), given.exited(n, end))])
    assert task.streak == 2


def test_the_card_that_comes_back_to_its_last_worker_after_nobody_starts_no_epoch():
    """RULES §1: somebody else differs from the last one that was not none."""
    task = given.fold([given.assigned(None), given.assigned("builder", previous=None)], BEFORE)
    assert (task.failures, task.card.assignee, task.card.last_assignee) == (1, "builder", "builder")


def test_the_card_that_goes_to_another_after_nobody_starts_an_epoch():
    """RULES §1: somebody else differs from the last one that was not none."""
    task = given.fold([given.assigned(None), given.assigned("other", previous=None)], BEFORE)
    assert (task.failures, task.card.last_assignee) == (0, "other")


def test_a_new_reviewer_leaves_the_assignee_alone():
    """RULES §1: the last one *in that role*."""
    card = given.fold([given.assigned("other", role="reviewer")], BEFORE).card
    assert (card.assignee, card.reviewer, card.last_reviewer) == ("builder", "other", "other")


def test_a_review_request_without_a_reviewer_keeps_the_last():
    """RULES §1: a `review_requested` without one keeps the last."""
    assert given.fold([given.review_requested(7, reviewer=None)], BEFORE).card.reviewer == "critic"


def test_a_review_request_names_its_reviewer():
    """RULES §1: in lane review the worker is the reviewer."""
    task = given.fold([given.review_requested(7, reviewer="eve")], BEFORE)
    assert (task.worker, task.card.last_reviewer) == ("eve", "eve")


def test_a_created_card_says_all_that_it_was_made_with():
    """RULES §2: everything needed to rebuild the card is in `created`."""
    recorded = given.history(given.EXAMPLES["created"])
    assert given.fold(recorded).card == Card(
        assignee="builder",
        last_assignee="builder",
        labels=("red", "blue"),
        tenant="acme",
        max_retries=3,
        max_runtime=600,
        goal_max_turns=5,
        host="node-2",
        key="k-1",
        made_by_task="t_p",
        made_by_run=2,
        title_position=1,
        body_position=1,
        created_at=given.NOW,
    )


def test_an_edit_changes_the_fields_that_it_names():
    """RULES §2: field → new value."""
    task = given.fold(
        [given.created(priority=1, tenant="acme"), given.edited(priority=5, labels=["x"], goal={"max_turns": 3})]
    )
    assert (task.card.priority, task.card.labels, task.card.goal_max_turns, task.card.tenant) == (5, ("x",), 3, "acme")


def test_an_edit_can_take_the_goal_away():
    """RULES §2: field → new value, none included."""
    task = given.fold([given.created(goal={"max_turns": 3}), given.edited(goal=None)])
    assert task.card.goal_max_turns is None


def test_an_edit_of_the_lane_moves_the_card():
    """RULES §2: lane (triage ↔ work)."""
    assert given.fold([given.created(lane="triage"), given.edited(lane="work")]).lane == "work"


@pytest.mark.parametrize(("field", "positions"), [("title", (2, 1)), ("body", (1, 2))])
def test_a_fold_knows_where_a_word_stands_but_not_the_word(field, positions):
    """RULES §2: words are read by no fold; the card points at the event that holds them."""
    card = given.fold([given.created(), given.edited(**{field: "new"})]).card
    assert (card.title_position, card.body_position) == positions


def test_an_unknown_kind_stops_the_fold_of_its_task():
    """RULES §2: never skipped in silence; the error names the position."""
    (event,) = given.history(given.commented())
    with pytest.raises(UnknownKind, match="position 1: unknown event kind 'sung'") as caught:
        evolve(Task("t_a"), event._replace(kind="sung"))
    assert caught.value.position == 1


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"board_created", "policy_changed", "paused", "resumed"}))
def test_a_newer_schema_stops_the_fold_of_its_task(kind):
    """RULES §2: also where the fold reads no facts of that kind."""
    (event,) = given.history(given.EXAMPLES[kind])
    with pytest.raises(NewerSchema, match=f"position 1: {kind} has schema 2"):
        evolve(Task("t_a"), event._replace(schema=2))


def test_an_event_of_the_board_is_no_event_of_a_card():
    """RULES §2: the board has its own stream."""
    (event,) = given.history(given.paused())
    with pytest.raises(UnknownKind):
        evolve(Task("t_a"), event._replace(task="t_a"))
