"""Many acts in one transaction: what each came to, and what is left of those that are refused."""

from __future__ import annotations

import pytest

from kanban import commands as c
from kanban.refusals import Closed, Paused
from ledger.errors import UnknownTask


def created(fleet, count):
    """So many cards, made at once."""
    return fleet.board.do_many([c.Create(f"t_{number}", f"card {number}") for number in range(count)])


def test_many_commands_are_decided_in_order_and_written_whole(fleet):
    """Each sees what those before it made; the answers stand in the same order."""
    done = fleet.board.do_many([c.Create("t_a", "first"), c.Comment("t_a", "seen"), c.Create("t_b", "second")])
    assert [(each.task, each.changed, each.refusal) for each in done] == [
        ("t_a", True, None), ("t_a", True, None), ("t_b", True, None),
    ]  # fmt: skip
    assert fleet.kinds("t_a") == ["created", "commented"]
    assert done[-1].position == fleet.board.stats()["position"]


def test_one_that_is_refused_leaves_nothing_and_does_not_stop_the_others(fleet):
    """Whatever refuses it: there is no such card, or a rule."""
    created(fleet, 1)
    fleet.board.complete("t_0")
    before = fleet.board.stats()["position"]
    unknown, closed, made = fleet.board.do_many(
        [c.Comment("t_none", "x"), c.Schedule("t_0", 1), c.Create("t_1", "another")]
    )
    assert isinstance(unknown.refusal, UnknownTask)
    assert isinstance(closed.refusal, Closed)
    assert not unknown.changed
    assert not closed.changed
    assert (made.changed, made.position) == (True, before + 1)


def test_a_fault_in_the_middle_leaves_nothing_of_any(fleet):
    """All of it is one transaction."""
    before = fleet.board.stats()["position"]
    with pytest.raises(AttributeError):
        fleet.board.do_many([c.Create("t_a", "a card"), c.Comment("t_a", 5)])  # type: ignore[arg-type]
    assert fleet.board.stats()["position"] == before


def test_the_next_cards_are_claimed_at_once_each_with_a_lock_of_its_own(fleet):
    """As many as there are; then none, which is no error."""
    created(fleet, 3)
    claims = fleet.board.claim_many(5)
    assert [claim.task for claim in claims] == ["t_0", "t_1", "t_2"]
    assert len({claim.lock for claim in claims}) == 3
    for claim in claims:
        fleet.board.complete(claim.task, run=claim.run, lock=claim.lock)
    assert fleet.board.claim_many(5) == []


def test_many_claims_keep_the_caps(fleet):
    """Counted after each of them."""
    fleet.board.set_policy(max_running=2)
    created(fleet, 4)
    assert len(fleet.board.claim_many(4)) == 2


def test_nothing_is_claimed_on_a_paused_board(fleet):
    """It says so, as one claim does."""
    created(fleet, 1)
    fleet.board.pause()
    with pytest.raises(Paused):
        fleet.board.claim_many(2)
