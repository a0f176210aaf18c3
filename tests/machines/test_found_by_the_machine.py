"""What the machine found, as the shortest stories that show it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kanban.refusals import NotClaimable
from tests.machines.air import Death
from tests.machines.board_machine import BoardMachine


@pytest.fixture
def story() -> Iterator[BoardMachine]:
    """A machine whose steps the test chooses; what it leaves is audited."""
    machine = BoardMachine()
    yield machine
    machine.teardown()


def card(story, worker="ann", parents=()):
    """A new card's id."""
    story.a_card(worker, list(parents), 0, None, "work", None)
    return story.cards[-1]


def test_a_dry_run_foresees_the_children_that_a_wish_unlinks(story):
    """§7: a dry run says exactly what the tick does: `archive --unlink` frees a child in the tick that applies it."""
    parent = card(story)
    story._tick("a")
    child = card(story, parents=[0])
    story._act(lambda board: board.archive(parent, children="unlink", force=True))
    story.air.ends((parent, 1), Death(5))
    foretold = story.sweepers["a"].sweep(dry_run=True)

    story._tick("a")

    assert foretold.claimed == [{"task": child, "run": 1, "pid": None}]
    assert story.watch.naive.status(child) == "running"


def test_a_run_before_the_last_keeps_its_card_while_its_processes_are_here(story):
    """§7.7: while its group on this host lives the card is not claimable, also after a run on another host."""
    name = card(story)
    story._tick("a")
    story._act(lambda board: story._said(board, (name, 1), story.air.locks[name, 1], "review"))
    story._tick("c")
    story.air.ends((name, 2), Death(5))
    story._tick("c")
    story.air.ends((name, 3), Death(5))
    story._act(lambda board: board.pause())
    story._tick("c")
    story._act(lambda board: board.resume())
    story._act(lambda board: board.unblock(name))

    refused = story._act(lambda board: board.claim(name))

    assert story.air.group((name, 1), "h1")
    assert isinstance(refused, NotClaimable)
    assert refused.reason == "ending"


def test_a_stop_that_another_card_s_end_asks_for_stands_before_the_end_of_the_run(story):
    """§6: a `stop_requested` at a lower position decides the outcome, also one of the same tick, or replay objects."""
    parent = card(story)
    child = card(story, worker="bob", parents=[0])
    story._act(lambda board: board.complete(parent))
    story._tick("a")
    story._act(lambda board: board.reopen(parent))
    story._tick("a")
    story._act(lambda board: board.archive(parent, children="cascade", force=True))
    for task in (parent, child):
        story.air.ends((task, 1), Death(5))

    story.sweepers["a"].sweep()

    assert [event.outcome for event in story.office.events(child) if event.kind == "exited"] == ["interrupted"]
    assert story.office.replay().divergences == ()
