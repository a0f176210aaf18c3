"""A fault on one card is that card's alone: the others go on, and the log stays true (RULES §7)."""

import pytest

import kanban.claims
import kanban.starting
from kanban.desk import Desk
from kanban.refusals import NotClaimable
from ledger.errors import StoreBusy, StoreDenied, StoreFull, StoreMissing, StoreMoved, StoreUnreachable
from tests.fleets import sh


def test_a_claim_that_fails_alone_is_not_counted_by_the_claims_after_it(fleet, monkeypatch):
    """§7.6: caps are counted inside the claiming transaction, so a claim that was rolled back is not live."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    fleet.board.set_policy(max_running=5)
    broken, sound = fleet.create(priority=1), fleet.create()
    write = Desk.write

    def refuse(self, decision, **how):
        if decision.drafts[0].task == broken and decision.drafts[0].kind == "claimed":
            raise ValueError("this card is cursed")
        return write(self, decision, **how)

    monkeypatch.setattr(Desk, "write", refuse)
    tick = fleet.board.sweep()

    assert tick.errors == [{"task": broken, "error": "ValueError: this card is cursed"}]
    assert [claimed["task"] for claimed in tick.claimed] == [sound]
    assert fleet.events(sound, "claimed")[0].facts["caps"][0] == {"cap": "board", "limit": 5, "live": 0}


def test_no_signal_is_sent_without_the_event_that_must_stand_before_it(fleet, monkeypatch):
    """§7.2: `stop_requested` before any signal to an open run whose supervisor lives."""
    fleet.staff({"w": {"command": sh("sleep 30")}})
    card = fleet.create(max_runtime=1)
    fleet.sweep()
    write = Desk.write

    def refuse(self, decision, **how):
        if decision.drafts and decision.drafts[0].kind == "stop_requested":
            raise ValueError("the stop cannot be written")
        return write(self, decision, **how)

    monkeypatch.setattr(Desk, "write", refuse)
    fleet.clock.advance(5)
    tick = fleet.board.sweep()

    assert [error["task"] for error in tick.errors] == [card]
    assert tick.stopped == []
    assert fleet.workers(card)


@pytest.mark.parametrize(
    "fault",
    [StoreBusy("held"), StoreDenied("no"), StoreFull("full"), StoreMissing("x"), StoreMoved("y"), StoreUnreachable("")],
    ids=lambda fault: fault.code,
)
def test_a_fault_of_the_store_while_a_worker_is_started_is_charged_to_no_card(fleet, monkeypatch, fault):
    """§6: nothing was wrong with the spawn: no record 127; the claim ends as interrupted once its grace is over."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    card = fleet.create()

    def away(*_):
        raise fault

    with monkeypatch.context() as broken:
        broken.setattr(kanban.starting, "prompt_card", away)
        with pytest.raises(type(fault)):
            fleet.board.sweep()
    assert not (fleet.folder(card) / "exit.json").exists()
    fleet.clock.advance(31)
    fleet.sweep(most=0)
    assert (fleet.runs(card)[0]["outcome"], fleet.counters(card)) == ("interrupted", (0, 0, 0, 1))


def test_a_claim_by_hand_waits_for_a_worker_that_ended_its_run_after_the_look(fleet, monkeypatch):
    """§7.7: while the last run's group has a live member its card is `ending`, also if the verb came just now."""
    fleet.staff({"w": {"command": sh("sleep 30")}})
    card = fleet.create()
    fleet.sweep()
    worker, lock = fleet.another(), fleet.lock(card)
    look = kanban.claims.seen_gone

    def then_the_verb(*what):
        gone = look(*what)
        worker.review(card, "please look", reviewer="eve", lock=lock)
        return gone

    monkeypatch.setattr(kanban.claims, "seen_gone", then_the_verb)
    with pytest.raises(NotClaimable) as refused:
        fleet.board.claim(card)

    assert refused.value.reason == "ending"
    assert fleet.workers(card)
