"""Many steps in one tick: done together, and as if each had been done alone (RULES §7)."""

from __future__ import annotations

import gc

import pytest

from kanban.at_desk import at_desk
from kanban.desk import Desk
from kanban.sweep import Sweeper
from kanban.tick import Tick
from ledger.errors import StoreFull
from tests.field.test_sweep import LEASE_OVER, claimed_by_hand
from tests.fleets import sh


def steps_at(fleet, desk):
    """What a tick would now do."""
    sweeper, tick = fleet.board.sweeper, Tick(desk.now)
    seen = sweeper._observe(tick)
    return sweeper._settle(tick, desk, sweeper._watch(desk), seen)


def a_mixture(fleet):
    """Lost runs, one with a wish and one whose card has a child; a run to be asked to stop; a hold to lift."""
    fleet.staff({"w": {"command": sh("exit 3")}})
    held = fleet.create("held", max_retries=1)
    fleet.finish(held, "blocked")
    fleet.board.edit(held, max_retries=3)
    lost = claimed_by_hand(fleet, 5)
    fleet.create("waits", assignee=None, parents=[lost[0]])
    fleet.board.block(lost[1], reason="not now", force=True)
    late = fleet.create("late", assignee=None, max_runtime=1)
    fleet.clock.advance(LEASE_OVER)
    fleet.board.claim(late)
    fleet.clock.advance(2)
    return lost, late, held


def test_one_that_fails_is_told_once_and_all_others_are_done_once(fleet, monkeypatch):
    """§7: a fault on one card is reported and the others go on; nothing of the first attempt is left or told twice."""
    lost, late, held = a_mixture(fleet)
    write = Desk.write

    def refuse(self, decision, **how):
        recorded = write(self, decision, **how)
        if decision.drafts and decision.drafts[0].task == lost[3]:
            raise ValueError("this card is cursed")
        return recorded

    monkeypatch.setattr(Desk, "write", refuse)
    tick = fleet.board.sweep()
    assert tick.errors == [{"task": lost[3], "error": "ValueError: this card is cursed"}]
    assert sorted(each["task"] for each in tick.booked) == sorted({*lost} - {lost[3]})
    assert ([each["task"] for each in tick.lifted], [each["task"] for each in tick.stopped]) == ([held], [late])
    ended = {card: [kind for kind in fleet.kinds(card) if kind in {"exited", "stop_requested"}] for card in lost}
    assert ended == {card: ["stop_requested"] * (card == lost[1]) + ["exited"] * (card != lost[3]) for card in lost}


def test_a_fault_of_the_store_is_charged_to_no_card_and_is_not_tried_again(fleet, monkeypatch):
    """§7: what is wrong with the store ends the tick: card by card it would be met as often as there are cards."""
    claimed_by_hand(fleet, 5)
    fleet.clock.advance(LEASE_OVER)
    tried = []

    def full(self, decision, **_):
        tried.append(decision)
        raise StoreFull("full")

    monkeypatch.setattr(Desk, "write", full)
    with pytest.raises(StoreFull):
        fleet.board.sweep()
    assert len(tried) == 1


def test_each_end_is_decided_anew_inside_the_lock(fleet, monkeypatch):
    """§7: a run that another ended after the look is not booked a second time, though many are read at once."""
    cards = claimed_by_hand(fleet, 6)
    fleet.clock.advance(LEASE_OVER)
    changes = Sweeper._changes_nothing

    def and_then(self, *seen):
        nothing = changes(self, *seen)
        with at_desk(fleet.board.engine, "default", fleet.clock) as desk:
            self.booker.apply(Tick(desk.now), desk, steps_at(fleet, desk)[2:3])
        return nothing

    monkeypatch.setattr(Sweeper, "_changes_nothing", and_then)
    ended = {each["task"] for each in fleet.sweep(most=0).booked}
    assert (len(ended), {*cards} > ended) == (5, True)
    assert [fleet.kinds(card).count("exited") for card in cards] == [1] * 6


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_a_tick_leaves_the_collector_as_it_was(fleet, monkeypatch, on):
    """DESIGN §8: no search for garbage while writers wait, and afterwards what the caller had chosen."""
    during, look = [], Sweeper._observe

    def looking(self, tick):
        during.append(gc.isenabled())
        return look(self, tick)

    monkeypatch.setattr(Sweeper, "_observe", looking)
    try:
        (gc.enable if on else gc.disable)()
        fleet.sweep()
        assert (during, gc.isenabled()) == ([False], on)
    finally:
        gc.enable()
