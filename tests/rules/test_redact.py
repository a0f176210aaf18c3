"""What may be redacted, by whom, and what comes of it (RULES §2, §8, §10)."""

from __future__ import annotations

import pytest

from kanban.commands import Redact
from kanban.refusals import Forbidden, NoWords
from ledger.errors import UnknownPosition
from ledger.events import KINDS, words_of
from tests import given
from tests.rules.world import WorldView


@pytest.fixture
def world():
    """A card, and a comment on it at position 3."""
    world = WorldView()
    world.create(title="Secret", body="More")
    world.happened(given.commented("Told"))
    return world


def test_a_redaction_stands_in_the_stream_of_what_it_redacts(world):
    """RULES §2: it names the position; who did it and why stands with it."""
    world.do(Redact(3, "a key"))
    event = world.log[-1]
    assert (event.task, event.kind, event.facts) == ("t_a", "redacted", {"redacts": 3})
    assert event.words == {"reason": "a key"}
    assert event.actor_kind == "operator"


def test_words_that_are_redacted_already_are_no_event(world):
    """RULES §8: a wish that is exactly true already."""
    world.redact(3)
    assert world.do(Redact(3)).drafts == ()


def test_words_that_somebody_else_has_deleted_are_explained(world):
    """RULES §10: words missing without a `redacted` are a divergence; an operator may say that they are gone."""
    world.log[2] = world.log[2]._replace(words_text=None)
    assert [draft.kind for draft in world.do(Redact(3)).drafts] == ["redacted"]


def test_words_that_came_back_are_redacted_again(world):
    """RULES §10: the words of that event are gone: made true, and said, once more."""
    world.happened(given.redacted(3))
    assert [draft.kind for draft in world.do(Redact(3)).drafts] == ["redacted"]


@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if not words_of(kind)))
def test_an_event_without_words_has_nothing_to_redact(world, kind):
    """RULES §10: facts are read by folds and stay; the refusal names the position."""
    event = world.happened(given.EXAMPLES[kind])
    assert world.refuses(NoWords, Redact(event.position)).position == event.position


@pytest.mark.parametrize(
    "event",
    [given.completed(None), given.completed(None, summary=" "), given.stop_requested(), given.unblocked(),
     given.stop_requested(wish=given.wish("block"), wish_words={"reason": None})],
)  # fmt: skip
def test_an_event_that_says_nothing_has_nothing_to_redact(world, event):
    """RULES §10: a number that was mistyped must not look as if the words were gone."""
    world.refuses(NoWords, Redact(world.happened(event).position))


@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if words_of(kind)))
def test_whatever_has_words_can_be_redacted(world, kind):
    """RULES §2: on open and closed cards, on the board's own stream; a redaction's reason too."""
    event = world.happened(given.EXAMPLES[kind])
    world.do(Redact(event.position))
    assert (world.log[-1].task, world.log[-1].facts) == (event.task, {"redacts": event.position})


@pytest.mark.parametrize("position", [4, 0, -1, 2**70])
def test_a_position_where_nothing_stands_is_named(world, position):
    """CLI: exit 5."""
    assert world.refuses(UnknownPosition, Redact(position)).position == position


@pytest.mark.parametrize("end", [given.completed(None), given.archived()])
def test_the_words_of_a_closed_card_can_go(world, end):
    """RULES §8: an operator's act on a done or archived card but … redact."""
    world.happened(end)
    assert world.do(Redact(3)).drafts


def test_the_words_of_a_running_card_can_go_at_once(world):
    """RULES §8: no row says otherwise: it is no wish and stops nothing."""
    claim = world.claim()
    world.do(Redact(2))
    assert world.card().run == claim.run


def test_a_worker_redacts_nothing(world):
    """RULES §8: a worker may act on its own run, create, comment and link; nothing else."""
    claim = world.claim()
    world.refuses(Forbidden, Redact(3), own=claim.own)
