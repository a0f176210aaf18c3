"""How that system's own rules fold the history of a card, version by version."""

import pytest

from kanban.foreign.account import Account, Block, Count
from kanban.foreign.fold import step
from kanban.foreign.kinds import STATUSES, Era
from tests.audit.boards import CARD, claimed, created, event, gave_up

V13, V15, V19, NEW = Era(13, 13), Era(15, 15), Era(19, 19), Era(20, 20)
UNSURE = Era(13, 19)


def fold(*history, era=V19, others=None):
    """The account of a card after *history*."""
    account = Account(CARD)
    for number, each in enumerate(history, start=1):
        account = step(account, each._replace(id=number), era, others or {})
    return account


def known(status, task="t_p"):
    """Another card, of which the status is known."""
    return {task: fold(created(status))}


CRASH = event("crashed", 1)
RUNNING = (created(), claimed(1))


@pytest.mark.parametrize(
    ("history", "status"),
    [
        ([created("todo")], "todo"),
        ([created("triage"), event("specified")], "todo"),
        ([event("created", by="me", from_decompose_of="t_r")], "todo"),
        ([created("triage"), event("decomposed", child_ids=["t_k"])], "todo"),
        ([*RUNNING], "running"),
        ([created("todo"), event("promoted")], "ready"),
        ([created("todo"), event("promoted", status="review")], "review"),
        ([created("todo"), event("promoted_manual", actor="me")], "ready"),
        ([created(), event("claim_rejected")], "todo"),
        ([created("triage"), event("claim_rejected")], "triage"),
        ([*RUNNING, CRASH], "ready"),
        ([*RUNNING, event("crashed", 1, retry_status="review")], "review"),
        ([*RUNNING, event("stale", 1)], "ready"),
        ([*RUNNING, event("timed_out", 1, limit_seconds=5)], "ready"),
        ([*RUNNING, event("spawn_failed", 1, failures=1)], "ready"),
        ([*RUNNING, event("timed_out", 1, failures=1)], "ready"),
        ([*RUNNING, event("blocked", 1, reason="r"), event("timed_out", failures=1)], "blocked"),
        ([*RUNNING, CRASH, gave_up(2, 2)], "blocked"),
        ([*RUNNING, event("archived"), gave_up(2, 2)], "archived"),
        ([*RUNNING, event("blocked", 1, reason="r")], "blocked"),
        ([*RUNNING, event("dependency_wait", 1, kind="dependency")], "todo"),
        ([*RUNNING, event("block_loop_detected", 1, reason="r")], "triage"),
        ([created("blocked"), event("unblocked")], "ready"),
        ([created("blocked"), event("unblocked", status="todo")], "todo"),
        ([*RUNNING, event("scheduled", 1)], "scheduled"),
        ([*RUNNING, event("completed", 1)], "done"),
        ([*RUNNING, event("review_requested", 1)], "review"),
        ([*RUNNING, event("changes_requested", 1, status="todo")], "todo"),
        ([created("review"), event("review_reopened")], "ready"),
        ([*RUNNING, event("completed", 1), event("status", status="todo")], "todo"),
        ([*RUNNING, event("completed", 1), event("archived")], "archived"),
        ([*RUNNING, event("descendant_invalidated", new_status="todo")], "todo"),
        ([created(), event("assigned", assignee="x"), event("edited"), event("heartbeat")], "ready"),
    ],
)
def test_an_event_leaves_a_card_where_that_system_leaves_it(history, status):
    """One row a kind, and the rows where a guard keeps the status as it was."""
    assert fold(*history).status == status


@pytest.mark.parametrize(
    ("history", "era", "count"),
    [
        ([*RUNNING, CRASH], V19, (1, 1)),
        ([*RUNNING, event("timed_out", 1)], V19, (1, 1)),
        ([*RUNNING, event("spawn_failed", 1, failures=4)], V19, (4, 4)),
        ([*RUNNING, event("spawn_failed", 1)], V19, (0, 1)),
        ([*RUNNING, event("blocked", 1), event("timed_out", failures=4)], V19, (0, 0)),
        ([*RUNNING, event("protocol_violation", 1, protocol_violation=True)], V19, (0, 0)),
        ([*RUNNING, event("protocol_violation", 1)], V15, (1, 1)),
        ([*RUNNING, event("rate_limited", 1)], V19, (0, 0)),
        ([*RUNNING, event("stale", 1)], V19, (0, 0)),
        ([*RUNNING, event("reclaimed", 1, stale_lock="h:1")], V19, (0, 0)),
        ([*RUNNING, event("reclaimed", 1, stale_lock="h:1", retry_status="ready")], NEW, (0, 1)),
        ([*RUNNING, CRASH, claimed(2), event("reclaimed", 2, manual=True)], V19, (0, 0)),
        ([*RUNNING, CRASH, gave_up(7, 2)], V19, (7, 7)),
        ([*RUNNING, CRASH, event("archived"), gave_up(1, 1)], V19, (0, 0)),
        ([*RUNNING, CRASH, event("completed")], V19, (0, 0)),
        ([*RUNNING, CRASH, gave_up(1, 1), event("unblocked")], V19, (0, 0)),
        ([*RUNNING, CRASH, gave_up(1, 1), event("unblocked")], V13, (1, 1)),
        ([*RUNNING, CRASH, gave_up(1, 1), event("unblocked")], UNSURE, (0, 1)),
        ([*RUNNING, CRASH, gave_up(1, 1), event("promoted")], V15, (0, 0)),
        ([*RUNNING, CRASH, gave_up(1, 1), event("promoted")], V19, (1, 1)),
        ([*RUNNING, CRASH, gave_up(1, 1), event("promoted")], UNSURE, (0, 1)),
        ([created("todo"), event("promoted")], V15, (0, 0)),
        ([*RUNNING, CRASH, event("assigned", assignee="builder")], V19, (1, 1)),
        ([*RUNNING, CRASH, event("assigned", assignee="other")], V19, (0, 0)),
        ([*RUNNING, CRASH, event("assigned", assignee=None)], V19, (0, 0)),
        ([*RUNNING, CRASH, event("assigned", assignee="other", source="default")], V19, (1, 1)),
        ([event("created", from_decompose_of="t_r"), claimed(1), CRASH, event("assigned", assignee="x")], V19, (0, 1)),
        ([*RUNNING, CRASH, event("assigned", assignee="x", **{"from": "x"})], NEW, (1, 1)),
        (
            [*RUNNING, CRASH, event("specified", changed_fields=["assignee"]), event("assigned", assignee="x")],
            NEW,
            (0, 1),
        ),
        ([*RUNNING, CRASH, event("descendant_invalidated", new_status="todo")], NEW, (0, 1)),
        ([CRASH], V19, (1, None)),
        ([CRASH, event("completed")], V19, (0, 0)),
    ],
)
def test_the_counter_is_what_the_events_make_it_and_a_range_where_they_leave_it_open(history, era, count):
    """The rules differ by version; where the version is not known, each of them may have been in force."""
    assert fold(*history, era=era).failures == Count(*count)


@pytest.mark.parametrize(
    ("last", "block"),
    [
        (event("blocked", 1, kind="needs_input", recurrences=1), Block("needs_input", 1, known=True)),
        (event("block_loop_detected", 1, kind=None, recurrences=2), Block(None, 2, known=True)),
        (event("blocked", 1, reason="older than 0.18"), Block(None, 0, known=True)),
        (event("blocked", kind="capability", classified_in_place=True), Block("capability", 1, known=True)),
        (event("dependency_wait", 1, kind="dependency"), Block("dependency", 0, known=True)),
        (event("dependency_wait", reason="parent_not_done"), Block(None, 0, known=True)),
        (event("completed", 1), Block(None, 0, known=True)),
        (event("descendant_invalidated", new_status="todo"), Block(None, 0, known=False)),
    ],
)
def test_the_block_is_the_last_one_that_was_typed(last, block):
    """A completion forgets it; an unblock does not."""
    assert fold(*RUNNING, last, event("unblocked")).block == block


def test_a_block_from_before_the_history_is_not_known():
    """Where the first events are gone nothing is said of it until one carries it."""
    assert not fold(event("unblocked")).block.known
    assert fold(event("blocked", recurrences=1)).block.known


@pytest.mark.parametrize(
    ("parent", "era", "statuses"),
    [
        ("ready", V19, {"todo"}),
        ("done", V19, {"ready"}),
        ("archived", V19, {"todo"}),
        ("archived", NEW, {"todo", "ready"}),
    ],
)
def test_a_link_to_an_open_parent_takes_a_card_out_of_ready(parent, era, statuses):
    """Up to 0.19 an archived parent counts as open here; what later versions do is left open."""
    linked = event("linked", parent="t_p", child=CARD)
    assert fold(created(), linked, era=era, others=known(parent)).statuses == statuses


def test_a_parent_of_which_nothing_is_known_leaves_the_child_open():
    """Its status may have been done."""
    linked = event("linked", parent="t_p", child=CARD)
    assert fold(created(), linked).statuses == {"todo", "ready"}


def test_parents_come_from_creation_links_and_taking_apart():
    """And an unlinked one is gone."""
    history = (
        created("triage", parents=["t_1", 7]), event("decomposed", child_ids=["t_2"]), event("linked", parent="t_3"),
        event("unlinked", parent="t_1"),
    )  # fmt: skip
    assert fold(*history).parents == {"t_2", "t_3"}
    assert fold(created(parents="no list")).parents == frozenset()


def test_a_history_that_begins_in_the_middle_knows_nothing_before_its_first_event():
    """And nothing after a `decomposed` that was kept when the events behind it were deleted."""
    assert fold(event("commented")).statuses == STATUSES
    assert fold(event("decomposed", child_ids=[])).statuses == STATUSES
    assert fold(event("completed")).status == "done"
    assert not fold(event("completed")).whole
    assert fold(event("completed"), created()).whole


def test_a_breaker_may_not_have_stopped_a_card_of_which_the_status_is_not_known():
    """It stops only what runs or is ready."""
    assert fold(gave_up(2, 2)).statuses == STATUSES - {"ready", "running"}
    assert fold(gave_up(2, 2)).failures == Count(1, 2)


def test_a_status_that_nobody_knows_is_no_status():
    """A newer version's own word leaves it open."""
    assert fold(created(), event("status", status="parked")).statuses == STATUSES
    assert fold(created("parked")).statuses == STATUSES


def test_an_unknown_kind_moves_nothing_and_is_remembered():
    """It may have moved what nobody here knows of."""
    account = fold(created(), event("teleported"), event("heartbeat"))
    assert (account.status, account.strange, account.moved) == ("ready", 2, 1)


@pytest.mark.parametrize("last", ["blocked", "completed", "crashed", "scheduled", "archived", "review_requested"])
def test_what_ends_the_work_closes_the_run(last):
    """And until then the claimed one is open."""
    assert fold(*RUNNING).run == 1
    assert fold(*RUNNING, event(last, 1)).run is None


def test_a_breaker_closes_only_the_run_that_it_names():
    """The sweep's own books none."""
    assert fold(*RUNNING, gave_up(2, 2, 1)).run is None
    assert fold(*RUNNING, gave_up(2, 2)).run == 1


@pytest.mark.parametrize(
    ("history", "hold"),
    [
        ([*RUNNING, event("blocked", 1, reason="r")], (3, "blocked")),
        ([*RUNNING, CRASH, gave_up(2, 2)], (4, "gave_up")),
        ([created("blocked")], (1, "created")),
        ([created(), event("status", status="blocked")], (2, "status")),
        ([*RUNNING, event("blocked", 1), gave_up(2, 2)], (3, "blocked")),
        ([*RUNNING, CRASH, gave_up(2, 2), event("blocked", kind="x", classified_in_place=True)], (4, "gave_up")),
        ([created("blocked"), event("assigned", assignee="x")], (1, "created")),
        ([created("blocked"), event("promoted")], None),
        ([created("blocked"), event("unblocked", status="todo")], None),
        ([*RUNNING, event("completed", 1)], None),
    ],
)
def test_the_hold_is_the_event_that_blocked_the_card(history, hold):
    """It stays while the card is blocked, whatever is said of it meanwhile."""
    found = fold(*history).hold
    assert (found and (found.event, found.kind)) == hold
