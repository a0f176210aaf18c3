"""Two moments side by side: which cards changed, how, and by which events."""

from __future__ import annotations

import pytest

from ledger.errors import UnknownBoard
from projections import snapshots
from projections.differences import Change, differences
from tests import given


def told(store, first, last):
    """Card, what changed of it as `name: before → after`, and the positions that made it so."""
    return {
        each.task: (
            {f"{name}: {change.before} → {change.after}" for name, change in each.changes.items()},
            [event.position for event in each.events],
        )
        for each in differences(store.engine, "b", first, last)
    }


@pytest.fixture(autouse=True)
def near(monkeypatch):
    """Snapshots between the moments that are looked at."""
    monkeypatch.setattr(snapshots, "SPACING", 4)


def test_nothing_changes_between_a_moment_and_itself(board):
    """No card, and not the board."""
    assert told(board, 12, 12) == {}


def test_a_card_that_failed_is_told_with_its_hold_and_its_events(board):
    """From its claim to the budget's `blocked`: status, counters, hold, by their names."""
    snapshots.take(board.engine, "b")
    changes, events = told(board, 16, 18)["t_a"]
    assert {"status: running → blocked", "failures: 0 → 1", "spent: 0 → 1", "run: 2 → None"} <= changes
    assert any(change.startswith("hold: None → {'cause': 'failure_budget'") for change in changes)
    assert events == [17, 18]


def test_a_new_card_is_told_as_one(board):
    """Nothing was before it; what is as everywhere is not told."""
    [made] = differences(board.engine, "b", 3, 4)
    assert (made.task, made.title, made.is_new) == ("t_p", "Parent", True)
    assert made.changes["status"] == Change(None, "ready")
    assert "failures" not in made.changes


def test_a_card_that_its_parent_moved_is_told_with_the_parents_event(board):
    """RULES §3: a card's status is moved by another card's event in `open_parents` only."""
    assert told(board, 10, 11)["t_a"] == ({"status: todo → ready"}, [11])


def test_a_card_whose_parent_came_back_is_told_too(board):
    """Reopened, it is waited for again."""
    board.append(given.unblocked())
    board.append(given.reopened(), task="t_p")
    before = board.head().position - 1
    changes, events = told(board, before, before + 1)["t_a"]
    assert any(change.startswith("status: ") and change.endswith("→ todo") for change in changes)
    assert events == [before + 1]


def test_a_card_that_was_unlinked_meanwhile_is_told_by_its_own_event(store):
    """The link of before counts as much as that of after."""
    store.append(given.created("Parent"), task="t_p")
    store.append(given.created(parents=["t_p"]))
    store.append(given.completed(None), task="t_p")
    store.append(given.unlinked("t_p"))
    assert told(store, 3, 5)["t_a"] == ({"status: todo → ready", "parents: ['t_p'] → []"}, [4, 5])


def test_a_card_on_which_something_happened_that_changed_nothing_is_told_without_changes(board):
    """A comment is an event, and no change of the card."""
    assert told(board, 20, 23) == {"t_a": (set(), [21, 22]), "t_p": (set(), [23])}


def test_what_changed_of_the_board_itself_comes_first(board):
    """Its policy and its pauses."""
    first, *_ = differences(board.engine, "b", 1, 4)
    assert first.task == ""
    assert first.changes["failure_limit"] == Change(2, 1)
    assert [pause["name"] for pause in first.changes["paused"].after] == ["node-9"]
    assert first.as_json()["task"] is None


def test_as_json_an_event_is_its_position_card_kind_run_and_outcome(board):
    """Plain values: what `ledger diff --json` prints."""
    [card] = [each for each in differences(board.engine, "b", 16, 17) if each.task == "t_a"]
    shown = card.as_json()
    assert shown["events"] == [{"position": 17, "task": "t_a", "kind": "exited", "run": 2, "outcome": "crashed"}]
    assert shown["changes"]["failures"] == {"from": 0, "to": 1}


def test_from_before_the_board_began_every_card_is_new(board):
    """Position 0."""
    assert {each.task: each.is_new for each in differences(board.engine, "b", 0, 23)} == {
        "": False, "t_a": True, "t_p": True,
    }  # fmt: skip


def test_a_board_that_is_not_there_is_named(store):
    """As everywhere."""
    with pytest.raises(UnknownBoard):
        differences(store.engine, "x", 0, 1)
