"""RULES §7.1, §8: what operators want done to a running card waits in a `stop_requested`, and comes after its end."""

from __future__ import annotations

import pytest

from kanban.commands import AddLink, Archive, AskChanges, AskReview, Assign, Block, Complete, Reopen, Schedule, Unblock
from kanban.refusals import LiveClaim
from ledger.events import Actor
from tests import given
from tests.rules.world import NOW, SECOND, WorldView

EVE = Actor(kind="operator", name="eve", host="desk")
LATER = NOW + 86_400 * SECOND
VERBS = {
    "complete": Complete("t_a", "mine", force=True),
    "block": Block("t_a", "wait", force=True),
    "schedule": Schedule("t_a", LATER, force=True),
    "assign": Assign("t_a", "other", force=True),
    "archive": Archive("t_a", force=True),
}
DONE_BY = {
    "complete": "completed",
    "block": "blocked",
    "schedule": "scheduled",
    "assign": "assigned",
    "archive": "archived",
}


def running(**limits):
    """A board whose one card has run 1 open, and its claim."""
    world = WorldView(**limits)
    world.create()
    return world, world.claim()


def after(world, outcome="interrupted", **seen):
    """The kinds that follow when the run is booked as *outcome*."""
    since = world.head
    world.exit(outcome=outcome, **seen)
    return world.kinds(since)


# Asking


@pytest.mark.parametrize("verb", VERBS)
def test_an_act_on_a_running_card_becomes_a_wish(verb):
    """RULES §8: with `--force`: a `stop_requested` that carries the wish, its whole data and its actor."""
    world, _ = running()
    world.do(VERBS[verb], EVE)
    event = world.last("stop_requested")
    assert (event.facts["cause"], event.facts["wish"]["verb"], event.run) == ("operator", verb, 1)
    assert event.facts["wish"]["actor"] == EVE.model_dump()
    assert event.facts["since"] == world.now
    assert world.status() == "running"


@pytest.mark.parametrize("command", [Complete("t_a"), Block("t_a", "w"), Schedule("t_a", LATER), Assign("t_a", "other"),
                                     Archive("t_a")])  # fmt: skip
def test_an_act_on_a_running_card_without_force_is_refused(command):
    """RULES §8: complete, block, schedule, assign, archive (operator) on a running card, else `LiveClaim`."""
    world, _ = running()
    assert world.refuses(LiveClaim, command).run == 1


def test_the_words_of_a_wish_are_words():
    """RULES §2: words … also those inside a wish."""
    world, _ = running()
    world.do(Complete("t_a", "sum", result="res", metadata={"a": 1}, force=True))
    event = world.last("stop_requested")
    assert event.words["wish_words"] == {"summary": "sum", "result": "res", "metadata": {"a": 1}}
    assert event.facts["wish"]["data"] == {"outcome": "ok"}


# Granting


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("outcome", ["interrupted", "crashed", "config"])
def test_a_wish_comes_after_the_end_in_the_same_append_by_its_own_actor(verb, outcome):
    """RULES §7.1: wishes are applied by whatever event ends the run, in the same append, each with its own actor."""
    world, _ = running()
    world.do(VERBS[verb], EVE)
    assert after(world, outcome) == ["exited", DONE_BY[verb]]
    assert (world.log[-1].actor_name, world.log[-1].actor_kind, world.log[-1].run) == ("eve", "operator", None)


def test_a_completion_that_was_wished_says_all_that_it_said():
    """RULES §2: a wish carries the verb and its whole data."""
    world, _ = running()
    world.do(Complete("t_a", "sum", outcome="fail", result="res", metadata=[1], force=True))
    after(world)
    event = world.last("completed")
    assert (event.outcome, event.words) == ("fail", {"summary": "sum", "result": "res", "metadata": [1]})


def test_a_block_that_was_wished_keeps_kind_and_reason():
    """RULES §2: a wish carries the verb and its whole data."""
    world, _ = running()
    world.do(Block("t_a", "no budget", "money", force=True))
    after(world)
    assert world.card().hold.kind == "money"
    assert world.last("blocked").words["reason"] == "no budget"


def test_a_schedule_that_was_wished_keeps_time_and_reason():
    """RULES §2: a wish carries the verb and its whole data."""
    world, _ = running()
    world.do(Schedule("t_a", LATER, "after the fair", force=True))
    after(world)
    assert (world.card().scheduled, world.last("scheduled").words["reason"]) == (LATER, "after the fair")


def test_an_archive_that_was_wished_keeps_its_choice():
    """RULES §2: a wish carries the verb and its whole data."""
    world, _ = running()
    world.create("t_c", parents=["t_a"])
    world.do(Archive("t_a", "unlink", force=True))
    assert after(world) == ["exited", "archived", "unlinked"]
    assert world.last("archived").facts["children"] == "unlink"


@pytest.mark.parametrize(
    ("verb", "kinds"),
    [
        (lambda claim: AskReview("t_a", claim.proof), ["review_requested", "scheduled"]),
        (lambda claim: Block("t_a", "stuck", claim=claim.proof), ["blocked", "scheduled"]),
    ],
    ids=["review", "block"],
)
def test_a_wish_is_granted_after_a_workers_own_verb_too(verb, kinds):
    """RULES §7.1: by whatever event ends the run (exited, completed, blocked, review…)."""
    world, claim = running()
    world.do(VERBS["schedule"])
    since = world.head
    world.do(verb(claim))
    assert world.kinds(since) == kinds


def test_a_wish_is_granted_after_changes_were_asked_too():
    """RULES §7.1: by whatever event ends the run."""
    world, claim = running()
    world.do(AskReview("t_a", claim.proof, reviewer="critic"))
    second = world.claim()
    world.do(VERBS["block"])
    since = world.head
    world.do(AskChanges("t_a", "no", second.proof))
    assert world.kinds(since) == ["changes_requested", "blocked"]


def test_wishes_queue_and_are_granted_oldest_first():
    """RULES §8: requests queue; RULES §7.1: oldest first."""
    world, _ = running()
    world.do(VERBS["assign"], EVE)
    world.do(VERBS["schedule"])
    world.do(VERBS["block"], EVE)
    assert after(world) == ["exited", "assigned", "scheduled", "blocked"]
    assert [event.actor_name for event in world.log[-3:]] == ["eve", "ada", "eve"]


def test_the_later_of_two_like_wishes_has_the_last_word():
    """RULES §7.1: oldest first, so the younger stands on top."""
    world, _ = running()
    world.do(Assign("t_a", "other", force=True))
    world.do(Assign("t_a", "critic", force=True))
    assert after(world) == ["exited", "assigned", "assigned"]
    assert world.card().card.assignee == "critic"
    assert world.last("assigned").facts["previous"] == "other"


def test_a_wish_comes_after_the_budgets_block():
    """RULES §7.1: after any budget's `blocked`."""
    world, _ = running(failure_limit=1)
    world.do(VERBS["assign"])
    assert after(world, "crashed") == ["exited", "blocked", "assigned"]


def test_a_wish_comes_after_violation_and_budget():
    """RULES §7.1: after any budget's `blocked`."""
    world, _ = running(violation_limit=1)
    world.do(VERBS["schedule"])
    assert after(world, "clean") == ["exited", "violation", "blocked", "scheduled"]


def test_a_wished_completion_lifts_the_budgets_hold():
    """RULES §4: `completed`: lifted."""
    world, _ = running(failure_limit=1)
    world.do(VERBS["complete"])
    assert after(world, "crashed") == ["exited", "blocked", "completed"]
    assert (world.card().hold, world.status()) == (None, "done")


def test_a_wish_of_an_earlier_run_is_not_granted_again():
    """RULES §7.1: once its run ends."""
    world, _ = running()
    world.do(VERBS["block"])
    after(world)
    world.do(Unblock("t_a"))
    world.claim()
    assert after(world) == ["exited"]


def test_a_stop_without_a_wish_grants_nothing():
    """RULES §2: wish or none."""
    world, _ = running()
    world.happened(given.stop_requested(1, "max_runtime"), actor=given.SWEEP)
    assert after(world) == ["exited"]


# What is true already


def test_an_assignment_that_is_true_by_then_writes_nothing():
    """RULES §7.1: one that is already true writes nothing."""
    world, _ = running()
    world.do(VERBS["assign"])
    world.do(VERBS["assign"], EVE)
    assert after(world) == ["exited", "assigned"]


def test_an_archive_that_is_true_by_then_writes_nothing():
    """RULES §7.1: one that is already true writes nothing."""
    world, _ = running()
    world.do(VERBS["archive"])
    world.do(VERBS["archive"])
    assert after(world) == ["exited", "archived"]


def test_a_schedule_that_is_true_by_then_writes_nothing():
    """RULES §7.1: one that is already true writes nothing."""
    world, _ = running()
    world.do(VERBS["schedule"])
    world.do(VERBS["schedule"])
    assert after(world) == ["exited", "scheduled"]


def test_a_block_that_was_asked_twice_is_written_once():
    """RULES §7.1: one that is already true writes nothing: the same sticky hold stands in this very append."""
    world, _ = running()
    world.do(VERBS["block"])
    world.do(VERBS["block"], EVE)
    assert after(world) == ["exited", "blocked"]


def test_a_block_that_the_worker_said_itself_is_written_once():
    """RULES §8: no event only if a sticky hold of the same kind and reason is in force."""
    world, claim = running()
    world.do(Block("t_a", "no key", "needs_input", force=True))
    since = world.head
    world.do(Block("t_a", "no key", "needs_input", claim=claim.proof))
    assert world.kinds(since) == ["blocked"]


@pytest.mark.parametrize("ahead", range(1, 6))
def test_another_cards_like_block_does_not_make_a_wish_true(ahead):
    """RULES §8: only if the hold *in force* has the same kind and reason: a budget's hold has not."""
    world, _ = running(violation_limit=1)
    cards = [world.create(f"t_{number}").id for number in range(ahead)]
    world.do(VERBS["block"])
    for card in cards:
        world.do(Block(card, "wait"))
    assert after(world, "clean") == ["exited", "violation", "blocked", "blocked"]


def test_a_block_for_another_reason_is_written_on_top():
    """RULES §8: no event only if a sticky hold of the same kind and reason is in force."""
    world, _ = running()
    world.do(VERBS["block"])
    world.do(Block("t_a", "and for this", force=True))
    assert after(world) == ["exited", "blocked", "blocked"]


# On a card that is done by then


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"archive"}))
def test_a_done_card_is_left_alone_and_the_wish_is_named(verb):
    """RULES §7.1: on a card that is done by then only `archive` is applied; the others write nothing, and are named."""
    world, claim = running()
    world.do(VERBS[verb])
    position, since = world.head, world.head
    decision = world.do(Complete("t_a", "done", claim=claim.proof))
    assert world.kinds(since) == ["completed"]
    assert len(decision.notes) == 1
    assert verb in decision.notes[0]
    assert f"position {position}" in decision.notes[0]


def test_a_done_card_is_still_archived():
    """RULES §7.1: on a card that is done by then only `archive` is applied."""
    world, claim = running()
    world.do(VERBS["block"])
    world.do(VERBS["archive"])
    since = world.head
    decision = world.do(Complete("t_a", "done", claim=claim.proof))
    assert (world.kinds(since), world.status()) == (["completed", "archived"], "archived")
    assert len(decision.notes) == 1


def test_what_follows_a_wished_completion_comes_to_nothing():
    """RULES §7.1: done by then, also by an older wish."""
    world, _ = running()
    world.do(VERBS["complete"])
    world.do(VERBS["schedule"])
    since = world.head
    decision = world.book("t_a", "interrupted")
    world.write(decision.drafts)
    assert world.kinds(since) == ["exited", "completed"]
    assert "schedule" in decision.notes[0]


def test_the_notes_of_a_clean_exit_that_completes_name_them_too():
    """RULES §7.1: the tick names them, whichever event ends the run."""
    world = WorldView()
    world.create()
    world.claim(on_success="complete")
    world.do(VERBS["block"])
    assert len(world.book("t_a", "complete").notes) == 1


# Refused


def test_a_completion_whose_parents_are_not_satisfied_becomes_a_block():
    """RULES §7.1: one that a rule refuses at that moment becomes `blocked`, sticky, kind `wish_refused`."""
    world, claim = running()
    world.create("t_p")
    world.do(AddLink("t_a", "t_p", claim=claim.proof))
    world.do(VERBS["complete"])
    assert after(world) == ["exited", "blocked"]
    event = world.last("blocked")
    facts = {name: event.facts[name] for name in ("cause", "block_kind", "hold", "sticky", "count", "limit")}
    assert facts == {
        "cause": "operator", "block_kind": "wish_refused", "hold": True, "sticky": True, "count": None, "limit": None,
    }  # fmt: skip
    assert "t_p" in event.words["reason"]
    assert event.actor_name == "ada"


def test_an_archive_without_a_choice_becomes_a_block_when_children_came_meanwhile():
    """RULES §7.1: one that a rule refuses at that moment becomes `blocked`, sticky, kind `wish_refused`."""
    world, _ = running()
    world.do(VERBS["archive"])
    world.create("t_c", parents=["t_a"])
    assert after(world) == ["exited", "blocked"]
    assert (world.card().hold.kind, world.card().hold.sticky) == ("wish_refused", True)


def test_a_wish_on_a_card_that_an_older_wish_archived_is_refused():
    """RULES §7.1: archived undone is not done: a refused wish becomes `blocked`."""
    world, _ = running()
    world.do(VERBS["archive"])
    world.do(VERBS["assign"])
    assert after(world) == ["exited", "archived", "blocked"]
    assert world.last("blocked").facts["block_kind"] == "wish_refused"


def test_wishes_after_a_refused_one_are_granted():
    """RULES §7.1: each wish for itself."""
    world, _ = running()
    world.do(VERBS["archive"])
    world.create("t_c", parents=["t_a"])
    world.do(VERBS["assign"])
    assert after(world) == ["exited", "blocked", "assigned"]


# Redacted


def test_a_wish_whose_words_were_redacted_is_granted_without_them():
    """RULES §2: redacted words equal nothing, and a wish is applied without them."""
    world, _ = running()
    world.do(Complete("t_a", "secret", outcome="fail", force=True))
    world.redact(world.head)
    after(world)
    event = world.last("completed")
    assert (event.outcome, event.words) == ("fail", {"summary": None, "result": None, "metadata": None})


@pytest.mark.parametrize("verb", ["block", "schedule"])
def test_a_redacted_reason_is_no_reason_and_the_wish_is_granted(verb):
    """RULES §2: a wish is applied without its redacted words."""
    world, _ = running()
    world.do(VERBS[verb])
    world.redact(world.head)
    assert after(world) == ["exited", DONE_BY[verb]]
    assert world.log[-1].words["reason"] is None


def test_two_blocks_whose_reasons_were_redacted_are_not_the_same():
    """RULES §2: redacted words equal nothing."""
    world, _ = running()
    for _ in range(2):
        world.do(VERBS["block"])
        world.redact(world.head)
    assert after(world) == ["exited", "blocked", "blocked"]


# What a wish means


def test_an_assignment_keeps_the_role_that_it_meant_when_the_lane_changed():
    """RULES §7.1: `assign` means the role that it meant when asked."""
    world, claim = running()
    world.do(VERBS["assign"])
    world.do(AskReview("t_a", claim.proof, reviewer="critic"))
    card = world.card()
    assert (card.lane, card.card.assignee, card.card.reviewer) == ("review", "other", "critic")


def test_an_assignment_in_review_keeps_meaning_the_reviewer():
    """RULES §7.1: `assign` means the role that it meant when asked."""
    world, claim = running()
    world.do(AskReview("t_a", claim.proof, reviewer="critic"))
    second = world.claim()
    world.do(VERBS["assign"])
    world.do(AskChanges("t_a", "no", second.proof))
    card = world.card()
    assert (card.lane, card.card.assignee, card.card.reviewer) == ("work", "builder", "other")


def test_a_card_that_a_wish_gave_to_somebody_else_is_lifted_by_the_next_tick():
    """RULES §5: the card went to somebody else after the hold (`reassigned`)."""
    world, _ = running(failure_limit=1)
    world.do(VERBS["assign"])
    after(world, "crashed")
    assert world.status() == "blocked"
    world.settle()
    assert (world.last("unblocked").facts["cause"], world.status()) == ("reassigned", "ready")


def test_a_card_that_was_reopened_owes_nothing_to_old_wishes():
    """RULES §4: `reopened`: none; the run that carried the wish is over."""
    world, claim = running()
    world.do(VERBS["schedule"])
    world.do(Complete("t_a", claim=claim.proof))
    world.do(Reopen("t_a"))
    assert world.status() == "ready"
