"""Events in words: a sentence for every kind, from its facts alone, and what somebody said beside it."""

from __future__ import annotations

import pytest

from ledger.errors import UnknownKind
from ledger.events import KINDS, Event
from projections.sentences import said, sentence
from tests import given


def told(event: Event) -> str:
    """The sentence of *event*."""
    return sentence(given.history(event)[0])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_has_a_sentence_of_its_own_without_its_words(kind: str) -> None:
    """No kind is told by its name alone, and what people wrote is not in it: that may be redacted."""
    found = told(given.EXAMPLES[kind])
    assert found != kind.replace("_", " ") or kind in {"commented", "reopened"}
    assert "WORD" not in found
    assert "None" not in found
    assert len(found) < 120


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (given.created("A", assignee=None), "created for nobody"),
        (given.created("A", parents=["t_p", "t_q"]), "created for builder, after t_p, t_q"),
        (given.edited(title="B", max_retries=3), "edited: max retries, title"),
        (given.assigned("coder"), "its assignee is now coder, before builder"),
        (given.assigned(None, role="reviewer", previous=None), "its reviewer is now nobody"),
        (given.linked("t_p", "any"), "waits for t_p, however it ends"),
        (given.linked("t_p"), "waits for t_p"),
        (given.scheduled(given.NOW), "parked until 2025-06-15 15:06 UTC"),
        (given.claimed(2), "run 2 was claimed for builder on node-1"),
        (given.worker_bound(1, pid=7), "run 1 has process 7"),
        (given.worker_bound(1, role="turns", pid=7), "run 1 has process 7, which takes its turns"),
        (given.stop_requested(1, "max_runtime"), "run 1 was asked to stop: it ran over its time"),
        (given.exited(1, "crashed", code=3), "run 1 crashed (code 3)"),
        (given.exited(1, "interrupted", signal=15), "run 1 was interrupted (signal 15)"),
        (given.exited(1, "clean", code=0), "run 1 ended without a word (code 0)"),
        (given.violation(1, streak=2), "run 1 broke the rule to say how it ended: 2 of 3 in a row"),
        (given.completed(1), "completed by run 1"),
        (given.completed(None, "fail"), "completed as failed"),
        (given.review_requested(1), "run 1 asks critic to look"),
        (given.review_requested(1, reviewer=None), "run 1 asks somebody to look"),
        (given.budget_blocked(), "blocked: failure budget, 2 of 2 (policy limit)"),
        (given.blocked(), "blocked: an operator wants it"),
        (
            given.blocked(1, "worker", block_kind="needs_input"),
            "blocked by run 1: its worker asks (needs input)",
        ),
        (given.unblocked("limit_raised"), "unblocked: a limit was raised"),
        (
            given.paused("assignee", "builder", drain=True),
            "assignee builder was paused and drained",
        ),
        (given.resumed(), "the board was resumed"),
        (given.archived("cascade"), "archived, its children: cascade"),
        (given.archived(), "archived"),
        (given.redacted(3), "the words at 3 were redacted"),
    ],
)
def test_a_sentence_says_who_what_and_how_much(event: Event, wanted: str) -> None:
    """As people would say it."""
    assert told(event) == wanted


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (given.commented("careful"), "careful"),
        (given.exited(1, last_words="ImportError"), "ImportError"),
        (given.completed(1, summary="done", result="long"), "done"),
        (given.completed(1, result="long"), None),
        (given.blocked(reason="no key"), "no key"),
        (given.progressed(1, "halfway"), "halfway"),
        (given.created("A title", body="A body"), None),
        (given.unblocked(), None),
    ],
)
def test_what_was_said_stands_beside_the_sentence(event: Event, wanted: str | None) -> None:
    """A title and a body are the card's, and are not told again."""
    assert said(given.history(event)[0]) == wanted


def test_redacted_words_are_not_said() -> None:
    """The sentence is the same with and without them."""
    event = given.history(given.commented("a secret"))[0]
    gone = event._replace(words_text=None)
    assert said(gone) is None
    assert sentence(gone) == sentence(event)


def test_an_event_of_a_kind_that_is_not_known_is_not_told() -> None:
    """Never skipped in silence (RULES §2)."""
    with pytest.raises(UnknownKind):
        sentence(given.history(given.commented())[0]._replace(kind="abducted"))
