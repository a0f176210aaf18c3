"""RULES §8, row `archive with open children`: the choice, and the exact set that a cascade takes."""

from __future__ import annotations

import pytest

from kanban.archiving import cascaded
from kanban.commands import Archive, Block, Complete, Edit
from kanban.refusals import ChoiceNeeded, LiveClaim
from tests import given
from tests.rules.world import WorldView


def tree(**parents):
    """Cards t_<name>, each waiting for its parents: `tree(a=(), b="a", c=("a", ("b", "any")))`."""
    world = WorldView()
    for name, above in parents.items():
        links = [(f"t_{each}", "ok") if isinstance(each, str) else (f"t_{each[0]}", each[1]) for each in above]
        world.create(f"t_{name}", parents=links)
    return world


def going(world, root="a"):
    """The names of the cards that a cascade from *root* takes along."""
    return {card.id.removeprefix("t_") for card in cascaded(world, world.card(f"t_{root}"))}


def told(world, command):
    """(card, kind) of what *command* appends."""
    since = world.head
    world.do(command)
    return [(task.removeprefix("t_"), kind) for task, kind in world.told(since)]


# The choice


def test_a_card_without_children_is_put_away():
    """RULES §2: `archived`."""
    world = tree(a=())
    assert told(world, Archive("t_a")) == [("a", "archived")]
    assert world.last("archived").facts["children"] is None


def test_open_children_need_a_choice():
    """RULES §8: archive with open children: a choice, else `ChoiceNeeded`."""
    world = tree(a=(), b="a", c="a")
    assert world.refuses(ChoiceNeeded, Archive("t_a")).children == ("t_b", "t_c")


@pytest.mark.parametrize("end", [Archive("t_b"), Complete("t_b")])
def test_closed_children_need_none(end):
    """RULES §8: *open* children."""
    world = tree(a=(), b=())
    world.do(end)
    world.happened(given.linked("t_a"), "t_b")
    assert told(world, Archive("t_a")) == [("a", "archived")]


def test_children_that_the_card_satisfies_need_none():
    """RULES §3: a parent is satisfied when it is done, archived or not."""
    world = tree(a=(), b="a")
    world.do(Complete("t_a"))
    assert told(world, Archive("t_a")) == [("a", "archived")]
    assert world.status("t_b") == "ready"


def test_children_that_a_failed_card_leaves_waiting_need_a_choice():
    """RULES §3: dead: done with the wrong outcome."""
    world = tree(a=(), b="a")
    world.do(Complete("t_a", outcome="fail"))
    world.refuses(ChoiceNeeded, Archive("t_a"))


def test_keep_leaves_the_children_waiting():
    """RULES §8: `--keep`."""
    world = tree(a=(), b="a")
    assert told(world, Archive("t_a", "keep")) == [("a", "archived")]
    assert world.status("t_b") == "todo"


def test_unlink_lets_the_children_go():
    """RULES §8: `--unlink`."""
    world = tree(a=(), b="a", c=(("a", "any"),))
    assert told(world, Archive("t_a", "unlink")) == [("a", "archived"), ("b", "unlinked"), ("c", "unlinked")]
    assert world.last("unlinked").facts == {"parent": "t_a", "require": "any"}
    assert (world.status("t_b"), world.status("t_c")) == ("ready", "ready")


def test_unlink_leaves_other_parents():
    """RULES §8: unlinked *from it*."""
    world = tree(a=(), p=(), b=("a", "p"))
    world.do(Archive("t_a", "unlink"))
    assert [link.parent for link in world.parents("t_b")] == ["t_p"]


def test_the_choice_is_in_the_log():
    """RULES §2: `archived`: what happens to open children."""
    world = tree(a=(), b="a")
    world.do(Archive("t_a", "cascade"))
    assert [event.facts["children"] for event in world.log if event.kind == "archived"] == ["cascade", "cascade"]


@pytest.mark.parametrize("choice", [None, "keep", "unlink", "cascade"])
def test_what_is_archived_already_is_archived(choice):
    """RULES §8: a wish that is exactly true already: no event."""
    world = tree(a=(), b="a")
    world.do(Archive("t_a", "keep"))
    assert told(world, Archive("t_a", choice)) == []


def test_a_done_card_can_be_archived():
    """RULES §8: an operator's act on a done card but … archive."""
    world = tree(a=())
    world.do(Complete("t_a"))
    assert told(world, Archive("t_a")) == [("a", "archived")]


def test_a_running_card_is_not_archived():
    """RULES §8: archive (operator) on a running card, else `LiveClaim`."""
    world = tree(a=())
    world.claim("t_a")
    world.refuses(LiveClaim, Archive("t_a"))


def test_a_running_card_with_children_needs_the_choice_even_with_force():
    """RULES §8: archive with open children: a choice."""
    world = tree(a=(), b="a")
    world.claim("t_a")
    world.refuses(ChoiceNeeded, Archive("t_a", force=True))


# The cascade


def test_a_cascade_takes_the_whole_chain():
    """RULES §8: all open descendants that have an unsatisfied parent, if all of those are being archived too."""
    world = tree(a=(), b="a", c="b", d="c")
    assert going(world) == {"b", "c", "d"}


def test_a_cascade_is_one_append_and_leaves_nothing_waiting():
    """RULES §8: one append."""
    world = tree(a=(), b="a", c="b")
    decision = world.do(Archive("t_a", "cascade"))
    assert [(draft.task, draft.kind) for draft in decision.drafts] == [
        ("t_a", "archived"), ("t_b", "archived"), ("t_c", "archived"),
    ]  # fmt: skip


def test_a_diamond_goes_whole():
    """RULES §8: if all of those are being archived too."""
    assert going(tree(a=(), b="a", c="a", d=("b", "c"))) == {"b", "c", "d"}


def test_a_child_that_waits_for_another_card_too_stays_and_is_unlinked():
    """RULES §8: other open children of an archived card are unlinked from it."""
    world = tree(a=(), p=(), b=("a", "p"), c="b")
    assert going(world) == set()
    assert told(world, Archive("t_a", "cascade")) == [("a", "archived"), ("b", "unlinked")]
    assert [link.parent for link in world.parents("t_b")] == ["t_p"]


def test_a_descendant_that_stays_is_unlinked_from_every_archived_parent():
    """RULES §8: other open children of *an* archived card are unlinked from it."""
    world = tree(a=(), p=(), b="a", c=("a", "b", "p"))
    assert told(world, Archive("t_a", "cascade")) == [
        ("a", "archived"), ("b", "archived"), ("c", "unlinked"), ("c", "unlinked"),
    ]  # fmt: skip
    assert world.status("t_c") == "todo"
    assert [link.parent for link in world.parents("t_c")] == ["t_p"]


def test_a_parent_that_is_satisfied_already_keeps_no_child_back():
    """RULES §8: that have an unsatisfied parent, if all of *those* are being archived."""
    world = tree(p=(), a=(), b=("a", "p"))
    world.do(Complete("t_p"))
    assert going(world) == {"b"}


def test_a_child_that_the_card_satisfies_is_not_taken():
    """RULES §8: descendants that have an unsatisfied parent."""
    world = tree(a=(), b="a", c=(("a", "any"),))
    world.do(Complete("t_a", outcome="fail"))
    assert going(world) == {"b"}
    assert told(world, Archive("t_a", "cascade")) == [("a", "archived"), ("b", "archived")]
    assert world.status("t_c") == "ready"


@pytest.mark.parametrize("end", [Archive("t_b", "keep"), Complete("t_b", outcome="fail")])
def test_a_closed_child_is_neither_taken_nor_unlinked(end):
    """RULES §8: all *open* descendants."""
    world = tree(a=(), b=(), c="b")
    world.do(end)
    world.happened(given.linked("t_a"), "t_b")
    assert going(world) == set()
    assert told(world, Archive("t_a", "cascade")) == [("a", "archived")]


@pytest.mark.parametrize("how", [Block("t_b", "wait"), Edit("t_b", {"lane": "triage"})])
def test_a_held_or_untriaged_descendant_is_open_too(how):
    """RULES §8: all open descendants."""
    world = tree(a=(), b="a")
    world.do(how)
    assert going(world) == {"b"}


def test_the_order_in_which_descendants_are_met_does_not_matter():
    """RULES §8: exactly that set: a child met before the last of its parents is taken all the same."""
    assert going(tree(a=(), z="a", y="z", b=("a", "y"))) == {"z", "y", "b"}


def test_a_running_descendant_gets_a_wish():
    """RULES §8: running ones get the wish `archive --cascade`."""
    world = tree(a=(), b=(), c="b", d="b")
    world.claim("t_b")
    world.happened(given.linked("t_a"), "t_b")
    assert told(world, Archive("t_a", "cascade")) == [
        ("a", "archived"), ("b", "stop_requested"), ("c", "archived"), ("d", "archived"),
    ]  # fmt: skip
    asked = world.last("stop_requested").facts["wish"]
    assert (asked["verb"], asked["data"], asked["actor"]["name"]) == ("archive", {"children": "cascade"}, "ada")
    world.exit("t_b", "interrupted")
    assert world.status("t_b") == "archived"


def test_a_wished_cascade_takes_the_set_of_its_own_moment():
    """RULES §7.1: applied by whatever event ends the run, in the same append."""
    world = tree(a=(), b="a", p=())
    world.claim("t_a")
    world.do(Archive("t_a", "cascade", force=True))
    world.create("t_c", parents=["t_a"])
    world.create("t_d", parents=["t_a", "t_p"])
    since = world.head
    world.exit("t_a", "interrupted")
    assert world.told(since) == [
        ("t_a", "exited"), ("t_a", "archived"), ("t_b", "archived"), ("t_c", "archived"), ("t_d", "unlinked"),
    ]  # fmt: skip


def test_a_wished_cascade_after_a_completion_takes_nobody_whom_it_satisfied():
    """RULES §7.1: on a card that is done by then only `archive` is applied; §8: unsatisfied parents only."""
    world = tree(a=(), b="a")
    claim = world.claim("t_a")
    world.do(Archive("t_a", "cascade", force=True))
    since = world.head
    world.do(Complete("t_a", claim=claim.proof))
    assert world.told(since) == [("t_a", "completed"), ("t_a", "archived")]
    assert world.status("t_b") == "ready"


def test_a_ring_in_the_log_does_not_hang_a_cascade():
    """RULES §3: a ring already in a log must not hang a fold, nor what reads it."""
    world = tree(a=(), b="a")
    world.happened(given.linked("t_b"), "t_a")
    assert going(world) == {"b"}
