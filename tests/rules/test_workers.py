"""RULES §8: the verbs of a worker, fenced by its lock; what its late words come to; and what it may not do."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kanban.commands import (
    Accept,
    AddLink,
    Archive,
    AskChanges,
    AskReview,
    Assign,
    Block,
    Comment,
    Complete,
    Create,
    Credential,
    Edit,
    Pause,
    Progress,
    RemoveLink,
    Reopen,
    Resume,
    Schedule,
    SetPolicy,
    Spent,
    Unblock,
)
from kanban.decide import decide_beat
from kanban.refusals import Forbidden, LostClaim, NotInReview, Unmet
from ledger.errors import InvalidInput, UnknownRun, UnknownTask
from tests import given
from tests.rules.world import SECOND, WorldView

VERBS = {
    "complete": lambda proof: Complete("t_a", "done", claim=proof),
    "block": lambda proof: Block("t_a", "stuck", claim=proof),
    "review": lambda proof: AskReview("t_a", proof, "look", "critic"),
    "progress": lambda proof: Progress("t_a", proof, "half"),
    "changes": lambda proof: AskChanges("t_a", "no", proof),
}
ENDINGS = sorted(set(VERBS) - {"progress", "changes"})
KINDS = {
    "complete": "completed",
    "block": "blocked",
    "review": "review_requested",
    "progress": "progressed",
    "changes": "changes_requested",
}


def running(**limits):
    """A board whose card t_a has run 1 open, and its claim."""
    world = WorldView(**limits)
    world.create()
    return world, world.claim()


def in_review():
    """A board whose card t_a has run 2 open in lane review, and its claim."""
    world, claim = running()
    world.do(AskReview("t_a", claim.proof, reviewer="critic"))
    return world, world.claim()


def told(world, command, **who):
    """The kinds that *command* appends."""
    since = world.head
    world.do(command, **who)
    return world.kinds(since)


# With the lock of the open run


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"changes"}))
def test_the_holder_of_the_lock_may_use_its_verbs(verb):
    """RULES §8: progress, complete, block, request review: run open and lock matches."""
    world, claim = running()
    assert told(world, VERBS[verb](claim.proof)) == [KINDS[verb]]
    assert world.log[-1].run == 1


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_reviewer_may_use_all_of_them(verb):
    """RULES §8: in lane review request changes too."""
    world, claim = in_review()
    assert told(world, VERBS[verb](claim.proof)) == [KINDS[verb]]


def test_changes_can_be_asked_in_lane_review_only():
    """RULES §8: in lane review request changes (worker)."""
    world, claim = running()
    world.refuses(NotInReview, VERBS["changes"](claim.proof))


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_whoever_speaks_the_worker_of_the_run_is_the_actor(verb):
    """RULES §8: the actor is that worker whatever the flags say."""
    world, claim = in_review()
    world.do(VERBS[verb](claim.proof), given.OPERATOR)
    assert (world.log[-1].actor_kind, world.log[-1].actor_name) == ("worker", "critic")


def test_a_lock_says_by_itself_which_run_it_is():
    """RULES §1: the lock is the fencing token."""
    world, claim = running()
    assert told(world, Complete("t_a", claim=Credential(claim.lock))) == ["completed"]


def test_a_completion_says_all_that_the_worker_said():
    """RULES §2: `completed`: outcome, summary, result, metadata, usage."""
    world, claim = running()
    world.do(Complete("t_a", "sum", "fail", "res", {"a": 1}, Spent(7, Decimal("0.50")), claim=claim.proof))
    event = world.log[-1]
    assert (event.outcome, event.words) == ("fail", {"summary": "sum", "result": "res", "metadata": {"a": 1}})
    assert event.facts["usage"] == {"tokens": 7, "cost": "0.50"}


def test_progress_says_what_was_used():
    """RULES §2: `progressed`: note, usage."""
    world, claim = running()
    world.do(Progress("t_a", claim.proof, None, Spent(3)))
    assert world.log[-1].facts["usage"] == {"tokens": 3, "cost": None}


def test_a_block_of_a_worker_is_sticky():
    """RULES §4: `blocked` by worker: set, sticky."""
    world, claim = running()
    world.do(Block("t_a", "no key", "needs_input", claim=claim.proof))
    hold = world.card().hold
    assert (hold.cause, hold.kind, hold.sticky) == ("worker", "needs_input", True)


@pytest.mark.parametrize("reason", [None, "", "  "])
@pytest.mark.parametrize("verb", ["block", "changes"])
def test_a_reason_must_say_something(verb, reason):
    """CLI: `block ID REASON`, `changes ID REASON`."""
    world, claim = in_review()
    command = Block("t_a", reason, claim=claim.proof) if verb == "block" else AskChanges("t_a", reason, claim.proof)
    world.refuses(InvalidInput, command)


def test_a_review_without_a_reviewer_keeps_the_last():
    """RULES §1: a `review_requested` without one keeps the last."""
    world, claim = in_review()
    world.do(AskChanges("t_a", "no", claim.proof))
    third = world.claim()
    world.do(AskReview("t_a", third.proof, "again"))
    assert (world.card().lane, world.card().worker) == ("review", "critic")


def test_changes_send_the_card_back_to_its_implementer():
    """RULES §2: `changes_requested`: ends the run, changes the lane."""
    world, claim = in_review()
    world.do(VERBS["changes"](claim.proof))
    assert (world.status(), world.card().worker) == ("ready", "builder")


def test_a_reviewer_may_complete():
    """RULES §8: complete (worker): run open and lock matches, in any lane."""
    world, claim = in_review()
    world.do(VERBS["complete"](claim.proof))
    assert world.status() == "done"


# With another lock


@pytest.mark.parametrize("verb", sorted(VERBS))
@pytest.mark.parametrize("run", [1, None])
def test_a_wrong_lock_is_forbidden(verb, run):
    """RULES §8: with a wrong lock `Forbidden`, no event."""
    world, _ = in_review()
    world.refuses(Forbidden, VERBS[verb](Credential("guessed", run)))


def test_the_lock_of_another_run_is_a_wrong_lock():
    """RULES §8: a completion whose lock is that of the run *it names*."""
    world, claim = running()
    world.exit()
    world.claim()
    world.refuses(Forbidden, Complete("t_a", claim=Credential(claim.lock, 2)))


def test_the_lock_of_another_card_is_a_wrong_lock():
    """RULES §8: with a wrong lock `Forbidden`."""
    world, claim = running()
    world.create("t_b")
    world.claim("t_b")
    world.refuses(Forbidden, Complete("t_b", claim=Credential(claim.lock)))


def test_a_run_that_never_was_is_unknown():
    """RULES §8: nothing is kept of it."""
    world, claim = running()
    world.refuses(UnknownRun, Complete("t_a", claim=Credential(claim.lock, 9)))


def test_a_card_that_never_was_is_unknown():
    """RULES §8: nothing is kept of it."""
    world, claim = running()
    world.refuses(UnknownTask, Complete("t_x", claim=claim.proof))


# After the run has ended


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"complete"}))
def test_an_ended_run_has_lost_its_claim(verb):
    """RULES §8: else `LostClaim`; any other act of an ended run: `LostClaim`."""
    world, claim = in_review()
    world.exit()
    refusal = world.refuses(LostClaim, VERBS[verb](claim.proof))
    assert (refusal.run, refusal.current, refusal.kept) == (2, None, False)


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"complete"}))
def test_a_lost_claim_names_the_run_that_has_it_now(verb):
    """RULES §8: `LostClaim`: never two live runs."""
    world, claim = running()
    world.exit()
    world.claim()
    assert world.refuses(LostClaim, VERBS[verb](claim.proof)).current == 2


@pytest.mark.parametrize("ended_by", ENDINGS)
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_any_other_act_of_an_ended_run_is_lost(verb, ended_by):
    """RULES §8: any other act of an ended run: `LostClaim`, even on a done card."""
    world, claim = running()
    world.do(VERBS[ended_by](claim.proof))
    if verb in {ended_by, "complete"}:
        return
    world.refuses(LostClaim, VERBS[verb](claim.proof))


@pytest.mark.parametrize("ended_by", [*ENDINGS, "changes"])
def test_a_verb_that_is_repeated_by_the_run_that_it_ended_is_no_event(ended_by):
    """RULES §8: same lock and same request: no event, exit 0, `"changed": false`."""
    world, claim = in_review()
    world.do(VERBS[ended_by](claim.proof))
    assert told(world, VERBS[ended_by](claim.proof)) == []
    assert world.do(VERBS[ended_by](claim.proof)).refusal is None


OTHERWISE = {
    "block": lambda proof: [Block("t_a", "else", claim=proof), Block("t_a", "stuck", "money", claim=proof)],
    "review": lambda proof: [AskReview("t_a", proof, "else", "critic"), AskReview("t_a", proof, "look", "other")],
    "changes": lambda proof: [AskChanges("t_a", "else", proof)],
}


@pytest.mark.parametrize("ended_by", OTHERWISE)
def test_the_same_verb_with_another_request_is_lost(ended_by):
    """RULES §8: same lock *and same request*."""
    world, claim = in_review()
    world.do(VERBS[ended_by](claim.proof))
    for command in OTHERWISE[ended_by](claim.proof):
        world.refuses(LostClaim, command)


def test_a_verb_is_repeated_also_when_the_card_has_moved_on():
    """RULES §8: a verb repeated by the run that it ended."""
    world, claim = running()
    world.do(VERBS["review"](claim.proof))
    world.claim()
    assert told(world, VERBS["review"](claim.proof)) == []


def test_a_redacted_verb_equals_nothing():
    """RULES §2: redacted words equal nothing."""
    world, claim = running()
    world.do(VERBS["block"](claim.proof))
    world.redact(world.head)
    world.refuses(LostClaim, VERBS["block"](claim.proof))


def test_a_corrected_dependency_that_is_repeated_is_no_event():
    """RULES §8: same lock and same request: what the board made of it does not matter."""
    world, claim = running()
    command = Block("t_a", "waits", "dependency", claim=claim.proof)
    world.do(command)
    assert told(world, command) == []


def test_a_dependency_that_is_repeated_after_the_parents_were_done_is_no_event():
    """RULES §8: same lock and same request: what the board would make of it now does not matter."""
    world, claim = running()
    world.create("t_p")
    world.do(AddLink("t_a", "t_p", claim=claim.proof))
    command = Block("t_a", "waits", "dependency", claim=claim.proof)
    world.do(command)
    world.do(Complete("t_p"))
    assert told(world, command) == []


# Late results


def late(world, claim, summary="late", **said):
    """The decision on a completion by an ended run, and the kinds that it appends."""
    since = world.head
    decision = world.do(Complete("t_a", summary, claim=claim.proof, **said))
    return decision, world.kinds(since)


@pytest.mark.parametrize("outcome", ["crashed", "interrupted", "lost"])
def test_a_completion_that_comes_too_late_is_kept(outcome):
    """RULES §8: a completion whose lock is that of the run it names is kept, once, as `late_result`."""
    world, claim = running()
    world.exit(outcome=outcome)
    decision, kinds = late(world, claim, result="res", metadata=[1])
    assert kinds == ["late_result"]
    assert isinstance(decision.refusal, LostClaim)
    assert decision.refusal.kept
    assert "ledger accept t_a 1" in decision.refusal.remedy
    event = world.log[-1]
    assert (event.run, event.facts["verdict"]) == (1, "ok")
    assert event.words == {"summary": "late", "result": "res", "metadata": [1]}
    assert outcome in event.facts["why"]
    assert world.status() != "done"


def test_a_late_result_is_kept_once():
    """RULES §8: is kept, once."""
    world, claim = running()
    world.exit()
    late(world, claim)
    refusal = world.refuses(LostClaim, Complete("t_a", "better", claim=claim.proof))
    assert refusal.kept


def test_a_late_result_is_kept_while_somebody_else_has_the_card():
    """RULES §2: kept, never lost, never accepted by itself."""
    world, claim = running()
    world.exit()
    world.claim()
    decision, kinds = late(world, claim)
    assert (kinds, decision.refusal.current, world.status()) == (["late_result"], 2, "running")


def test_each_run_may_leave_one():
    """RULES §8: kept, once: of that run."""
    world, first = running()
    world.exit()
    second = world.claim()
    world.exit(outcome="lost")
    assert (late(world, first)[1], late(world, second)[1]) == (["late_result"], ["late_result"])


def test_a_completion_otherwise_than_the_run_completed_is_kept_as_late():
    """RULES §8: any other act of an ended run: `LostClaim`, even on a done card."""
    world, claim = running()
    world.do(VERBS["complete"](claim.proof))
    decision, kinds = late(world, claim, "otherwise")
    assert (kinds, type(decision.refusal), world.status()) == (["late_result"], LostClaim, "done")


@pytest.mark.parametrize("lock", ["guessed", ""])
def test_a_late_completion_with_a_wrong_lock_leaves_nothing(lock):
    """RULES §8: with a wrong lock `Forbidden`, no event."""
    world, _ = running()
    world.exit()
    world.refuses(Forbidden, Complete("t_a", claim=Credential(lock, 1)))


# Unmet


def waiting(**limits):
    """A run that is open on a card whose parent t_p is open, and its claim."""
    world, claim = running(**limits)
    world.create("t_p")
    world.do(AddLink("t_a", "t_p", claim=claim.proof))
    return world, claim


def test_a_completion_before_the_parents_is_kept_and_ends_the_run():
    """RULES §8: `Unmet`: kept as `late_result`, the run ends by the row of kind `dependency`, the worker is told."""
    world, claim = waiting()
    decision, kinds = late(world, claim, "early")
    assert kinds == ["late_result", "blocked"]
    assert isinstance(decision.refusal, Unmet)
    assert decision.refusal.parents == ("t_p",)
    assert "ledger accept t_a 1" in decision.refusal.remedy
    facts = world.log[-1].facts
    assert (facts["hold"], facts["sticky"], facts["block_kind"]) == (False, False, "dependency")
    assert world.status() == "todo"


def test_it_comes_back_when_the_parents_are_done():
    """RULES §4: hold false: status is `todo` through its parents."""
    world, claim = waiting()
    late(world, claim)
    world.do(Complete("t_p"))
    assert world.status() == "ready"


def test_it_can_be_accepted_then():
    """RULES §8: `accept` completes with it later."""
    world, claim = waiting()
    late(world, claim, "early")
    world.do(Complete("t_p"))
    assert told(world, Accept("t_a", 1)) == ["completed"]
    assert world.log[-1].words["summary"] == "early"


@pytest.mark.parametrize("end", [Archive("t_p", "keep"), Complete("t_p", outcome="fail")])
def test_a_completion_under_a_dead_parent_is_a_sticky_hold(end):
    """RULES §8: hold false while a parent is open, else sticky."""
    world, claim = waiting()
    world.do(end)
    late(world, claim)
    assert (world.status(), world.card().hold.sticky) == ("blocked", True)


def test_a_completion_without_satisfied_parents_trips_the_run_budget():
    """RULES §5: looked at when a run ends by anything but `completed` or a sticky `blocked`."""
    world, claim = waiting(run_limit=1)
    _, kinds = late(world, claim)
    assert kinds == ["late_result", "blocked", "blocked"]
    assert world.card().hold.cause == "run_budget"


def test_a_failed_completion_waits_for_its_parents_too():
    """RULES §8: complete (worker) with a parent not satisfied."""
    world, claim = waiting()
    _, kinds = late(world, claim, outcome="fail")
    assert kinds == ["late_result", "blocked"]
    assert world.log[-2].facts["verdict"] == "fail"


def test_a_parent_that_asks_for_any_outcome_is_satisfied_by_a_failure():
    """RULES §3: satisfied when it is done with the outcome that the link requires."""
    world, claim = running()
    world.create("t_p")
    world.do(AddLink("t_a", "t_p", "any", claim=claim.proof))
    world.do(Complete("t_p", outcome="fail"))
    assert told(world, VERBS["complete"](claim.proof)) == ["completed"]


# Dependency


def test_a_block_for_a_dependency_holds_nothing_while_a_parent_is_open():
    """RULES §8: block with kind `dependency`: a parent is neither done nor archived: hold false."""
    world, claim = waiting()
    decision = world.do(Block("t_a", "waits", "dependency", claim=claim.proof))
    facts = world.log[-1].facts
    assert (facts["hold"], facts["sticky"], facts["block_kind"], decision.notes) == (False, False, "dependency", ())
    assert (world.card().hold, world.status()) == (None, "todo")


@pytest.mark.parametrize("end", [Archive("t_p", "keep"), Complete("t_p"), Complete("t_p", outcome="fail")])
def test_a_block_for_a_dependency_that_nobody_works_on_is_a_sticky_one(end):
    """RULES §8: booked as a sticky block, kind corrected, worker told."""
    world, claim = waiting()
    world.do(end)
    decision = world.do(Block("t_a", "waits", "dependency", claim=claim.proof))
    facts = world.log[-1].facts
    assert (facts["hold"], facts["sticky"], facts["block_kind"]) == (True, True, "needs_input")
    assert "t_a" in decision.notes[0]


def test_a_block_for_a_dependency_without_parents_is_a_sticky_one():
    """RULES §8: booked as a sticky block, kind corrected, worker told."""
    world, claim = running()
    assert world.do(Block("t_a", "waits", "dependency", claim=claim.proof)).notes
    assert world.card().hold.kind == "needs_input"


@pytest.mark.parametrize("kind", [None, "needs_input", "money"])
def test_a_block_of_another_kind_is_sticky_whatever_the_parents(kind):
    """RULES §4: `blocked` by worker: set, sticky."""
    world, claim = waiting()
    world.do(Block("t_a", "stuck", kind, claim=claim.proof))
    assert (world.card().hold.kind, world.card().hold.sticky) == (kind, True)


# Beats


def test_a_beat_is_the_open_runs():
    """RULES §8: heartbeat: run open and lock matches."""
    world, claim = running()
    assert decide_beat(world, "t_a", claim.proof).run == 1


def test_a_beat_of_an_ended_run_is_lost():
    """RULES §8: else `LostClaim`."""
    world, claim = running()
    world.exit()
    with pytest.raises(LostClaim):
        decide_beat(world, "t_a", claim.proof)


def test_a_beat_with_a_wrong_lock_is_forbidden():
    """RULES §8: with a wrong lock `Forbidden`."""
    world, _ = running()
    with pytest.raises(Forbidden):
        decide_beat(world, "t_a", Credential("guessed", 1))


def test_a_beat_is_refused_when_the_grace_of_a_stop_is_over():
    """RULES §7.2: after `stop_requested` + stop_grace (10 s) a beat is refused."""
    world, claim = running()
    world.do(Block("t_a", "stop", force=True))
    world.later(10)
    assert decide_beat(world, "t_a", claim.proof).run == 1
    world.now += 1
    with pytest.raises(LostClaim):
        decide_beat(world, "t_a", claim.proof)


def test_the_first_stop_starts_that_grace():
    """RULES §7.2: after `stop_requested` + stop_grace."""
    world, claim = running()
    world.do(Block("t_a", "stop", force=True))
    world.later(9)
    world.do(Block("t_a", "stop!", force=True))
    world.later(2)
    with pytest.raises(LostClaim):
        decide_beat(world, "t_a", claim.proof)


def test_a_worker_that_was_asked_to_stop_may_still_finish():
    """RULES §6: a worker that used its verb first is done, however it exits."""
    world, claim = running()
    world.do(Block("t_a", "stop", force=True))
    world.now += 600 * SECOND
    assert told(world, VERBS["complete"](claim.proof)) == ["completed"]


# What a worker may do beside


def test_a_worker_may_create_cards_which_are_recorded_as_made_by_its_run():
    """RULES §8: `create` cards (recorded as made by its run)."""
    world, claim = running()
    assert told(world, Create("t_n", "New", made_by=("t_a", 1)), own=claim.own) == ["created"]
    event = world.log[-1]
    assert (event.facts["made_by"], event.actor_kind, event.actor_name) == (
        {"task": "t_a", "run": 1},
        "worker",
        "builder",
    )


@pytest.mark.parametrize("said", [None, ("t_a", 9), ("t_b", 1)])
def test_a_card_is_made_by_the_run_that_makes_it_whatever_it_says(said):
    """RULES §8: the actor is that worker whatever the flags say."""
    world, claim = running()
    world.do(Create("t_n", "New", made_by=said), own=claim.own)
    assert world.log[-1].facts["made_by"] == {"task": "t_a", "run": 1}


def test_a_worker_may_comment_on_any_card():
    """RULES §8: a worker may … comment."""
    world, claim = running()
    world.create("t_b")
    assert told(world, Comment("t_b", "seen"), own=claim.own) == ["commented"]
    assert world.log[-1].actor_kind == "worker"


def test_a_worker_may_link_its_own_card():
    """RULES §8: link into a running card: by the run itself."""
    world, claim = running()
    world.create("t_p")
    assert told(world, AddLink("t_a", "t_p", claim=claim.proof), own=claim.own) == ["linked"]
    assert world.log[-1].actor_kind == "worker"


def test_a_worker_may_not_link_another_card():
    """RULES §8: link its own card; nothing else."""
    world, claim = running()
    world.create("t_b")
    world.refuses(Forbidden, AddLink("t_b", "t_a"), own=claim.own)


def test_a_worker_may_not_use_its_lock_on_another_card():
    """RULES §8: act on its own run."""
    world, claim = running()
    world.create("t_b")
    world.refuses(Forbidden, AddLink("t_b", "t_a", claim=Credential(claim.lock)), own=claim.own)


@pytest.mark.parametrize(
    "command",
    [
        Accept("t_a", 1), Archive("t_a", force=True), Assign("t_a", "other"), Block("t_a", "x"),
        Complete("t_b"), Edit("t_a", {"priority": 3}), AskChanges("t_a", "x"), Pause(),
        RemoveLink("t_a", "t_p"), Reopen("t_a"), Resume(), Schedule("t_a", 1), SetPolicy({"failure_limit": 9}),
        Unblock("t_a"),
    ],
    ids=lambda command: type(command).__name__.lower(),
)  # fmt: skip
def test_anything_else_is_forbidden_to_a_worker(command):
    """RULES §8: nothing else; `policy`, `pause`, `unblock`, `accept` are `Forbidden` whatever the flags say."""
    world, claim = running()
    world.create("t_b")
    world.refuses(Forbidden, command, own=claim.own)


@pytest.mark.parametrize("command", [Create("t_n", "New"), Comment("t_a", "word")])
def test_a_worker_whose_run_has_ended_may_not_even_create_or_comment(command):
    """RULES §8: any other act of an ended run: `LostClaim`, even on a done card."""
    world, claim = running()
    world.do(VERBS["complete"](claim.proof))
    world.refuses(LostClaim, command, own=claim.own)


@pytest.mark.parametrize("command", [Create("t_n", "New"), Comment("t_a", "word"), Unblock("t_a")])
def test_a_worker_with_a_wrong_lock_is_nobody(command):
    """RULES §8: with a wrong lock `Forbidden`."""
    world, _ = running()
    world.refuses(Forbidden, command, own=("t_a", Credential("guessed", 1)))


def test_an_ended_run_may_not_link_its_card():
    """RULES §8: link into a running card by the run itself: an ended one has lost its claim."""
    world, claim = running()
    world.create("t_p")
    world.exit()
    world.refuses(LostClaim, AddLink("t_a", "t_p", claim=claim.proof), own=claim.own)


@pytest.mark.parametrize("command", [AskReview("t_a", Credential("guessed")), Progress("t_a", Credential("guessed"))])
def test_the_verbs_of_a_run_are_for_its_worker(command):
    """RULES §8: run open and lock matches."""
    world, _ = running()
    world.refuses(Forbidden, command)
