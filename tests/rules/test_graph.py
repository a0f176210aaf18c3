"""Parents and children: what satisfies a link, what never can, rings, and how many parents are open."""

from __future__ import annotations

import pytest

from projections.graph import Graph, Link, dead, ring, satisfied
from tests import given


def graph(*events):
    """The graph that *events*, told as (card, event), make."""
    made = Graph()
    for event in given.history(*events):
        made.evolve(event)
    return made


def waits(*events):
    """How many parents of `c` are open after *events*."""
    return graph(*events).open.get("c", 0)


@pytest.mark.parametrize(
    ("outcome", "require", "expected"),
    [("ok", "ok", True), ("ok", "any", True), ("fail", "ok", False), ("fail", "any", True), (None, "ok", False),
     (None, "any", False)],
)  # fmt: skip
def test_a_link_is_satisfied_by_the_outcome_that_it_requires(outcome, require, expected):
    """RULES §3: done with the outcome that the link requires."""
    assert satisfied(outcome, require) is expected


@pytest.mark.parametrize(
    ("outcome", "require", "archived", "known", "expected"),
    [
        (None, "ok", False, True, False),
        ("ok", "ok", True, True, False),
        ("fail", "any", True, True, False),
        ("fail", "ok", False, True, True),
        (None, "any", True, True, True),
        (None, "ok", False, False, True),
    ],
    ids=["open", "satisfied, archived", "any, archived", "wrong outcome", "archived undone", "unknown"],
)
def test_a_parent_is_dead_when_only_a_person_can_satisfy_the_link(outcome, require, archived, known, expected):
    """RULES §3: wrong outcome, archived undone, or unknown."""
    assert dead(outcome, require, archived=archived, known=known) is expected


def closes(child, parent, **parents):
    """The ring that the link would close, as it is printed."""
    found = ring(child, parent, lambda name: parents.get(name, ()))
    return None if found is None else " → ".join(found)


def test_a_link_to_itself_is_a_ring():
    """RULES §3: a link that makes a ring is refused."""
    assert closes("a", "a") == "a → a"


def test_two_cards_that_wait_for_each_other_are_a_ring():
    """RULES §3: the ring is printed whole."""
    assert closes("a", "b", b=["a"]) == "a → b → a"


def test_a_long_ring_is_printed_whole_and_in_order():
    """RULES §3: each waits for the next."""
    assert closes("a", "b", b=["x", "c"], x=["y"], c=["d"], d=["a"]) == "a → b → c → d → a"


def test_a_diamond_is_no_ring():
    """RULES §3: two ways to the same parent close nothing."""
    assert closes("a", "b", b=["c", "d"], c=["e"], d=["e"]) is None


def test_a_ring_above_that_the_link_does_not_close_does_not_hang_the_search():
    """RULES §3: a ring already in a log must not hang."""
    assert closes("a", "b", b=["c"], c=["b"]) is None


def test_a_very_deep_chain_is_walked():
    """RULES §3: no recursion that a long project could exhaust."""
    deep = {str(n): [str(n + 1)] for n in range(5_000)}
    assert ring("5000", "0", lambda name: deep.get(name, ()))[-1] == "5000"


def test_an_open_parent_is_counted():
    """RULES §3 row 6: a parent is not satisfied."""
    assert waits(("p", given.created()), ("c", given.created(parents=["p"]))) == 1


def test_a_parent_that_nobody_has_seen_counts_as_open():
    """RULES §3: unknown is dead, so not satisfied."""
    assert waits(("c", given.created(parents=["p"]))) == 1


def test_a_parent_that_is_named_twice_is_one_parent():
    """RULES §3: the last requirement counts."""
    assert waits(("c", given.created(parents=[("p", "ok"), ("p", "any")]))) == 1


@pytest.mark.parametrize(
    ("require", "outcome", "left"), [("ok", "ok", 0), ("ok", "fail", 1), ("any", "ok", 0), ("any", "fail", 0)]
)
def test_a_completion_satisfies_the_links_that_ask_for_it(require, outcome, left):
    """RULES §3: the outcome that the link requires."""
    events = [("c", given.created(parents=[("p", require)])), ("p", given.created())]
    assert waits(*events, ("p", given.completed(None, outcome))) == left


@pytest.mark.parametrize(("require", "outcome", "left"), [("ok", "ok", 0), ("ok", "fail", 1), ("any", "fail", 0)])
def test_a_link_to_a_parent_that_is_done_already_counts_at_once(require, outcome, left):
    """RULES §3: satisfied is a state, not a moment."""
    done = [("p", given.created()), ("p", given.completed(None, outcome))]
    assert waits(*done, ("c", given.created(parents=[("p", require)]))) == left


@pytest.mark.parametrize("end", [given.archived(), given.exited(), given.commented()])
def test_nothing_but_a_completion_satisfies(end):
    """RULES §3: touched by another card's event only by `completed` and `reopened` of a parent."""
    assert waits(("p", given.created()), ("c", given.created(parents=["p"])), ("p", end)) == 1


def test_an_archived_parent_stays_satisfied():
    """RULES §3: archived or not."""
    events = [("c", given.created(parents=["p"])), ("p", given.completed(None)), ("p", given.archived())]
    assert waits(*events) == 0


def test_a_reopened_parent_is_open_again():
    """RULES §3: by `completed` and `reopened` of a parent."""
    events = [("c", given.created(parents=["p"])), ("p", given.completed(None)), ("p", given.reopened())]
    assert waits(*events) == 1


def test_a_second_completion_counts_once():
    """Evolve is total."""
    events = [("c", given.created(parents=["p"])), ("p", given.completed(None)), ("p", given.completed(None))]
    assert waits(*events) == 0


def test_a_completion_that_turns_bad_opens_the_link_again():
    """RULES §3: the last completion counts."""
    events = [("c", given.created(parents=["p"])), ("p", given.completed(None)), ("p", given.completed(None, "fail"))]
    assert waits(*events) == 1


def test_a_link_adds_and_an_unlink_takes_away():
    """RULES §2: in the child's stream."""
    made = graph(("c", given.created()), ("c", given.linked("p")), ("c", given.linked("q")), ("c", given.unlinked("p")))
    assert (made.open["c"], made.parents["c"], made.children["p"]) == (1, {"q": "ok"}, {})


def test_linking_again_changes_the_requirement():
    """RULES §3: remedies: link with `any`."""
    events = [
        ("c", given.created(parents=["p"])),
        ("p", given.completed(None, "fail")),
        ("c", given.linked("p", "any")),
    ]
    assert waits(*events) == 0


def test_unlinking_a_satisfied_parent_takes_nothing_away():
    """RULES §3: only open ones are counted."""
    events = [("c", given.created(parents=["p", "q"])), ("p", given.completed(None)), ("c", given.unlinked("p"))]
    assert waits(*events) == 1


def test_unlinking_what_is_not_linked_changes_nothing():
    """Evolve is total."""
    assert waits(("c", given.created(parents=["p"])), ("c", given.unlinked("q"))) == 1


def test_a_ring_in_the_log_does_not_hang_the_fold():
    """RULES §3: a ring already in a log must not hang a fold."""
    made = graph(
        ("a", given.created(parents=["b"])), ("b", given.created(parents=["a"])), ("b", given.linked("b")),
        ("a", given.completed(None)), ("b", given.completed(None)), ("a", given.reopened()),
    )  # fmt: skip
    assert made.open == {"a": 0, "b": 1}


def test_a_link_reads_parent_child_require():
    """RULES §2: *child* waits for *parent*."""
    assert Link("p", "c", "ok")._asdict() == {"parent": "p", "child": "c", "require": "ok"}
