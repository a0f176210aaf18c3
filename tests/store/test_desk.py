"""What a desk remembers of the board inside its lock: never what an append of its own has moved."""

from __future__ import annotations

from collections import Counter

import pytest

from kanban import desk as desks
from kanban.commands import Decision
from kanban.desk import Desk, at_desk
from ledger.events import Event
from tests import given


@pytest.fixture
def family(store):
    """A card with a running parent, and one that has nothing to do with them."""
    store.append(given.created(), given.claimed(), task="t_parent")
    store.append(given.created(parents=["t_parent"]), task="t_child")
    store.append(given.created(), given.claimed(), task="t_other")
    return store


def write(desk: Desk, *events: Event, task: str) -> None:
    desk.write(Decision(tuple(given.draft(event, task=task) for event in events)))


def test_a_card_that_waited_is_seen_free_once_its_parent_is_done(family):
    """RULES §3: inside one lock too; and it waits again once the parent is reopened."""
    with at_desk(family.engine, "b", family.clock) as desk:
        waits = [desk.task("t_child").open_parents]
        for event in (given.completed(), given.reopened()):
            write(desk, event, task="t_parent")
            waits.append(desk.task("t_child").open_parents)
    assert waits == [1, 0, 1]


def test_a_card_its_run_and_the_position_move_with_their_own_events(family):
    """What is read after an append is what the append made of it."""
    with at_desk(family.engine, "b", family.clock) as desk:
        assert desk.run("t_parent", 1).open
        before = desk.position
        write(desk, given.exited(), task="t_parent")
        assert not desk.run("t_parent", 1).open
        assert desk.task("t_parent").run is None
        assert desk.position == before + 1


def test_the_boards_own_events_move_its_settings(family):
    """A pause holds for the next decision inside the same lock."""
    with at_desk(family.engine, "b", family.clock) as desk:
        assert desk.settings.pauses == ()
        write(desk, given.paused(), task="")
        assert len(desk.settings.pauses) == 1


def test_no_card_or_run_is_read_again_after_an_append_to_another(family, monkeypatch):
    """DESIGN §8: fifty deaths in a tick read each card and run once."""
    read = Counter()
    for name in ("load_task", "load_run"):
        look = getattr(desks, name)
        monkeypatch.setattr(
            desks, name, lambda tx, board, *what, look=look: read.update([what]) or look(tx, board, *what)
        )
    with at_desk(family.engine, "b", family.clock) as desk:
        desk.know([desk.run("t_other", 1)])
        for task in ("t_parent", "t_other"):
            desk.task("t_other")
            desk.run("t_other", 1)
            write(desk, given.exited(), task=task)
        assert not desk.run("t_other", 1).open
    assert read == Counter([("t_other", 1), ("t_other",), ("t_parent",)])


def test_after_a_rollback_everything_is_read_anew(family):
    """A savepoint that was rolled back took its events with it."""
    with at_desk(family.engine, "b", family.clock) as desk:
        say = desk.tx.connection.cursor().execute
        say("SAVEPOINT part")
        write(desk, given.exited(), task="t_parent")
        say("ROLLBACK TO part")
        desk.forget()
        assert desk.run("t_parent", 1).open
        assert desk.task("t_parent").run == 1
