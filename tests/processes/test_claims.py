"""A claim by hand and the processes of the runs before it: looked at where there may be any, never under the lock."""

import pytest

from kanban import claims
from kanban.processes import ProcessTable
from ledger.database import writing
from projections import leases
from tests.fleets import sh


@pytest.fixture
def left(fleet):
    """A card whose spawned run ended by a verb; its process may still be there, and then is not."""
    fleet.staff({"w": {"command": sh("sleep 30")}})
    card = fleet.create()
    fleet.sweep()
    fleet.another().review(card, "please look", reviewer="eve", lock=fleet.lock(card))
    return card


def test_no_process_is_looked_at_where_none_was_spawned(fleet, monkeypatch):
    """The price of a claim does not depend on what runs on the machine."""
    monkeypatch.setattr(claims, "ProcessTable", None)
    card = fleet.create()
    assert fleet.board.claim(card).run == 1


def test_processes_of_other_cards_are_no_matter_of_a_named_one(fleet, left, monkeypatch):
    """§7.7: `ending` is a card's own state."""
    monkeypatch.setattr(claims, "ProcessTable", None)
    card = fleet.create()
    assert fleet.board.claim(card).run == 1


def test_processes_are_looked_at_before_the_lock(fleet, left, monkeypatch):
    """Others write meanwhile: a look at a machine full of processes holds nobody up."""
    snapshot = ProcessTable.snapshot

    def look(*what):
        fleet.another().comment(left, "I could write")
        return snapshot(*what)

    monkeypatch.setattr(claims.ProcessTable, "snapshot", look)
    with pytest.raises(claims.NotClaimable, match="ending"):
        fleet.board.claim(left)
    assert [event.words["body"] for event in fleet.events(left, "commented")] == ["I could write"]


def test_a_run_whose_process_cannot_be_read_holds_nobody_up(fleet, left):
    """As for a sweep: a row that cannot be read is one of its card, and the others go on."""
    fleet.spoilt = True
    with writing(fleet.board.engine) as tx:
        tx.exec_driver_sql("UPDATE runs SET \"group\" = '{'")
    assert fleet.board.claim(fleet.create()).run == 1
    assert fleet.board.claim().run >= 1


def test_the_next_card_is_not_held_by_the_processes_of_another(fleet, left):
    """§7.7: a lease that was left behind is no process, whatever else runs."""
    card = fleet.create(priority=9)
    own = fleet.board.claim(card)
    fleet.board.complete(card, run=own.run, lock=own.lock)
    fleet.board.reopen(card)
    with writing(fleet.board.engine) as tx:
        leases.grant(tx, fleet.board.name, card, 1, until=fleet.board.clock())
    assert fleet.board.claim().task == card
    with pytest.raises(claims.NothingToDo):
        fleet.board.claim()
