"""What grows and what must not: the write-ahead log, the log, the folders; and what a tidy-up may take (RULES §10)."""

import pytest

from kanban.prune import prune
from ledger.database import sqlite_module
from ledger.errors import InvalidInput
from tests.field.stories import hold
from tests.fleets import sh


def wal(fleet):
    """Bytes of the write-ahead log."""
    path = fleet.home / "ledger.db-wal"
    return path.stat().st_size if path.exists() else 0


def checkpoint(fleet):
    """Busy, and frames left behind: none where no reader pins the log."""
    with sqlite_module().connect(fleet.home / "ledger.db") as other:
        busy, frames, moved = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    other.close()
    return busy, frames - moved


def test_no_look_of_ours_pins_the_write_ahead_log(fleet):
    """B65: a half-read log, a follower between two polls, an open dashboard: all their transactions are over."""
    for number in range(20):
        fleet.create(f"card {number}")
    card = fleet.create()
    watching = [fleet.board.events(), fleet.board.events(card), fleet.another().follow()]
    for each in watching:
        next(each)
    for _ in range(50):
        fleet.board.tasks(), fleet.board.cards(), fleet.board.stats(), fleet.board.columns()
    assert [card.id for card in fleet.board.cards().cards] == [card["id"] for card in fleet.board.tasks()["tasks"]]
    fleet.board.create("after", body="x" * 100_000)
    assert checkpoint(fleet) == (0, 0)
    assert [sum(1 for _ in each) for each in watching[:2]] == [23, 0]


def test_a_strangers_long_read_stops_nobody(fleet):
    """B65: writers and sweeps go on beside it; the log shrinks again as soon as it has gone."""
    fleet.create()
    stranger = sqlite_module().connect(fleet.home / "ledger.db")
    stranger.execute("BEGIN")
    stranger.execute("SELECT count(*) FROM events").fetchone()
    for _ in range(20):
        fleet.board.create("x", body="y" * 200_000)
    grown, left = wal(fleet), checkpoint(fleet)[1]
    assert grown > 4_000_000
    assert left > 0
    fleet.sweep()
    stranger.close()
    assert checkpoint(fleet)[1] == 0
    size = wal(fleet)
    for _ in range(5):
        fleet.board.create("x", body="y" * 200_000)
    assert wal(fleet) <= size


@pytest.mark.parametrize("age", [0, -1, -86_400])
def test_no_age_that_is_none_removes_anything(ledger, fleet, age):
    """B44: a retention of zero or less is an error, before anything is looked at."""
    fleet.create()
    with pytest.raises(InvalidInput):
        prune(fleet.board, older_than=age)
    assert ledger("prune", "--older-than", str(age)).code == 2


def test_a_tidy_up_takes_files_and_never_events(fleet):
    """B44: folders of cards that were closed long ago go; the log, its chain and every answer stay."""
    fleet.staff({"w": {"command": sh("echo hello; exit 75")}})
    card, living = fleet.create(), fleet.create(assignee=None)
    fleet.ended(card)
    fleet.board.complete(card)
    fleet.clock.advance(90 * 86_400)
    before, shown = [event.hash for event in fleet.board.events()], fleet.board.show(card)
    assert prune(fleet.board, older_than=30 * 86_400).removed
    assert not fleet.folder(card).exists()
    assert [event.hash for event in fleet.board.events()] == before
    assert fleet.board.show(card) == shown
    assert fleet.card(living)["status"] == "ready"


def test_signs_of_life_do_not_fill_the_log(fleet):
    """B44: beats, ticks that change nothing and looks are no events: the log grows by what happened."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card)
    position = fleet.board.stats()["position"]
    for _ in range(20):
        fleet.clock.advance(30)
        fleet.board.heartbeat(card, lock=granted.lock)
        fleet.sweep()
        fleet.board.why(card)
    assert fleet.board.stats()["position"] == position


def test_a_long_log_keeps_an_old_answer(world):
    """B44: nothing that a fold reads is ever gone: a card of yesterday is blocked for the reason of yesterday."""
    world.create()
    for _ in range(2):
        world.attempt()
    for number in range(500):
        world.create(f"t_{number}")
    assert hold(world) == ("failure_budget", False)
    assert world.event(world.card().hold.position).facts["count"] == 2
