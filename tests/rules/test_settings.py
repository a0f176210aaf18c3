"""What the board's own stream says: its identity, its policy, its pauses."""

from __future__ import annotations

from functools import reduce

import pytest

from ledger.errors import NewerSchema, UnknownKind
from projections.policy import Policy
from projections.settings import NEW_BOARD, Pause, evolve_settings
from tests import given


def fold(*events):
    return reduce(evolve_settings, given.history(given.board_created("id-1", "plans"), *events), NEW_BOARD)


def pause(kind, name, *, position, drain=False):
    return Pause(kind, name, drain, position, given.NOW + (position - 1) * given.SECOND)


def test_a_board_begins_with_its_identity_and_the_default_policy():
    """RULES §5: the defaults are in force until an event says otherwise."""
    settings = fold()
    assert (settings.board_id, settings.name, settings.policy) == ("id-1", "plans", Policy())


def test_every_event_of_the_stream_moves_version_and_position():
    """RULES §2: also one that changes nothing here."""
    (redacted,) = given.history(given.redacted(), task="")
    settings = evolve_settings(fold(), redacted._replace(position=9, version=2))
    assert settings == fold()._replace(position=9, version=2)


def test_a_policy_replaces_the_one_before_it_whole():
    """RULES §2: `policy_changed` carries the whole policy."""
    settings = fold(given.policy_changed(failure_limit=9), given.policy_changed(run_limit=5))
    assert (settings.policy, settings.policy_position) == (Policy(run_limit=5), 3)


def test_a_pause_stands_until_it_is_resumed():
    """RULES §2: `paused` and `resumed` name a scope."""
    assert fold(given.paused("assignee", "ann")).pauses == (pause("assignee", "ann", position=2),)


def test_resuming_ends_the_pause_of_that_scope_only():
    """RULES §2: scope (board, assignee, host)."""
    settings = fold(given.paused("assignee", "ann"), given.paused("host", "ann"), given.resumed("assignee", "ann"))
    assert settings.pauses == (pause("host", "ann", position=3),)


def test_resuming_one_assignee_leaves_the_others_paused():
    """RULES §2: a scope is its kind and its name."""
    settings = fold(given.paused("assignee", "ann"), given.paused("assignee", "bob"), given.resumed("assignee", "ann"))
    assert [each.name for each in settings.pauses] == ["bob"]


def test_a_second_pause_of_a_scope_replaces_the_first():
    """RULES §7: `pause --drain` on a paused board drains it."""
    settings = fold(given.paused(), given.paused(drain=True))
    assert settings.pauses == (pause("board", "", position=3, drain=True),)


def test_resuming_what_is_not_paused_changes_nothing():
    """Evolve is total and never judges."""
    assert fold(given.resumed("host", "node-1")).pauses == ()


@pytest.mark.parametrize(
    ("kind", "name", "stopped"),
    [("board", "", True), ("assignee", "ann", True), ("host", "h1", True), ("assignee", "bob", False),
     ("host", "h2", False), ("assignee", "h1", False)],
)  # fmt: skip
def test_a_claim_is_stopped_by_a_pause_of_board_worker_or_host(kind, name, stopped):
    """RULES §7.6: pause (board, assignee, host)."""
    found = fold(given.paused(kind, name)).pause_of(worker="ann", host="h1")
    assert (found is not None) == stopped


def test_the_widest_pause_is_named_first():
    """RULES §7.6: board, then assignee, then host."""
    settings = fold(given.paused("host", "h1"), given.paused("assignee", "ann"), given.paused())
    assert settings.pause_of(worker="ann", host="h1").scope == "board"


def test_a_card_without_a_worker_is_stopped_by_no_pause_of_an_assignee():
    """RULES §7.6: there is nobody whom it could mean."""
    assert fold(given.paused("assignee", "ann")).pause_of() is None


def test_an_unknown_kind_stops_the_fold_of_the_board():
    """RULES §2: never skipped in silence."""
    (event,) = given.history(given.paused())
    with pytest.raises(UnknownKind, match="position 1"):
        evolve_settings(NEW_BOARD, event._replace(kind="hushed"))


@pytest.mark.parametrize("kind", ["board_created", "policy_changed", "paused", "resumed"])
def test_a_newer_schema_stops_the_fold_of_the_board(kind):
    """RULES §2: never skipped in silence."""
    (event,) = given.history(given.EXAMPLES[kind])
    with pytest.raises(NewerSchema, match="position 1"):
        evolve_settings(NEW_BOARD, event._replace(schema=2))
