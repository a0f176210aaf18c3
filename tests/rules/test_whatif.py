"""What other limits would have made of a log, beside the same moves made under those limits."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

from kanban.commands import AddLink, Complete, Edit, Reopen, Unblock
from ledger.errors import InvalidInput
from ledger.events import RunRef
from projections.tried import LIMITS as TRIED
from projections.whatif import what_if
from tests import given
from tests.rules.laws import VERBS, Move, Story
from tests.rules.world import WorldView

# The law: two worlds

ALONE = [verb for verb in VERBS if verb not in {"create", "link", "unlink"}]
"""What can happen to a card that has no relatives."""
LIFTS = ("spawn", "end", "spawn", "end", "tick", "policy", "limit", "assign")
"""Runs that end, and what lets a tick lift a hold."""
OTHERS = st.dictionaries(st.sampled_from(TRIED), st.integers(1, 6), min_size=1, max_size=2)


def moves_of(verbs):
    """So many moves of these, on one card."""
    move = st.builds(Move, st.sampled_from(verbs), st.just(0), st.just(0), st.integers(0, 59))
    return st.lists(move, min_size=20, max_size=80)


class Worlds:
    """The same *moves* made under the limits of the log and under *others*; where the logs stood after each move.

    What is tried stands throughout, whatever a move makes of the policy. What people wanted and a rule refused left no
    trace in the log, so in the other world they do not want it; ticks, clocks and ends of processes go on in both.
    """

    BY_THEMSELVES = frozenset({"spawn", "tick", "end", "wait"})

    def __init__(self, moves, others):
        self.log, self.instead = Story(1), Story(1)
        self.others, self.heads = others, []
        self.log.world.policy()  # so that positions are the same
        self.instead.world.policy(**others)
        for move in moves:
            self.make(move)
            self.heads.append((self.log.world.head, self.instead.world.head))

    def make(self, move):
        log, instead, head = self.log.world, self.instead.world, self.log.world.head
        self.log.make(move)
        if move.verb in self.BY_THEMSELVES:
            self.instead.make(move)
        elif log.head > head and move.verb == "policy":
            instead.policy(**(log.settings.policy._asdict() | self.others))
        elif log.head > head:
            self.instead.make(move)
        instead.now = max(instead.now, log.now)


def told(event):
    """What an event says of the course of things: not its numbers, nor what came of chance."""
    facts = json.loads(event.facts_text)
    hold = (facts["cause"], facts["hold"], facts["sticky"]) if event.kind == "blocked" else None
    return event.task, event.kind, event.run, event.outcome, hold


def parted(one, other):
    """The first position at which two logs differ; none where one is how the other begins."""
    for left, right in zip(one, other, strict=False):
        if told(left) != told(right):
            return left.position
    return None if len(one) == len(other) else min(len(one), len(other)) + 1


def agrees(moves, others):
    """Whether the worlds are what the trial says; what it said."""
    worlds = Worlds(moves, others)
    found = what_if(worlds.log.world.log, others)
    differ = parted(worlds.log.world.log, worlds.instead.world.log)
    if not found.fates:
        assert differ is None, (differ, others)
        return None
    (fate,) = found.fates
    if fate.decision == "held_shorter":
        assert differ is None or differ > fate.position
    else:
        ends = 2 if worlds.log.world.log[fate.position - 1].outcome == "clean" else 1
        first = fate.position if fate.decision == "held_longer" else fate.position + ends
        assert differ == first, (fate, differ)
    if fate.decision in {"held_earlier", "held_longer", "held_otherwise"}:
        never_started(worlds, fate)
    return fate


def never_started(worlds, fate):
    """As long as something is known, no run opens in the other world; those that the log has are counted."""
    until = fate.known_until or 10**9
    known = [other for head, other in worlds.heads if head < until]
    events = worlds.instead.world.log[: known[-1] if known else 0]
    opened = [event for event in events if event.position > fate.position and event.kind == "claimed"]
    assert opened == [], fate
    counted = [event.run for event in worlds.log.world.log if event.kind == "claimed" and event.task == fate.task
               and fate.position < event.position < until]  # fmt: skip
    assert counted == fate.runs


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@drawn(st.one_of(moves_of(ALONE), moves_of(LIFTS)), OTHERS)
def test_where_two_worlds_part_is_where_the_trial_says(moves, others):
    """RULES §5: the first decision that differs; up to there they are one, and a hold keeps until a person acts."""
    agrees(moves, others)


def test_the_worlds_part_in_every_way():
    """Most ways to differ are met, and runs that would not have started; the rarest stand below."""
    seen = Counter()
    for seed in range(400):
        dice = random.Random(seed)
        verbs = (ALONE, LIFTS)[seed % 2]
        moves = [Move(dice.choice(verbs), 0, 0, dice.randrange(60)) for _ in range(60)]
        fate = agrees(moves, {dice.choice(TRIED): dice.randrange(1, 7)})
        if fate is not None:
            seen += Counter(
                {fate.decision: 1, "runs": len(fate.runs), f"known to the end: {fate.known_until is None}": 1}
            )
    for what in ("held_earlier", "held_later", "held_otherwise", "runs"):
        assert seen[what] >= 1, seen
    assert seen["known to the end: True"] and seen["known to the end: False"]  # noqa: PT018


# One card each


@pytest.fixture
def world():
    """A board with one card."""
    board = WorldView()
    board.create()
    return board


def only(world, **limits):
    """The one fate, and the runs that it would have saved."""
    (fate,) = what_if(world.log, limits).fates
    return fate


def seen(fate):
    """What a fate says in short."""
    return fate.decision, fate.position, fate.runs, fate.known_until


def test_a_lower_limit_holds_earlier_and_no_run_starts_until_a_person_acts(world):
    """RULES §5: the run after the first failure would not have been; a comment is no act that lifts anything."""
    (first,) = world.attempt()
    world.happened(given.commented())
    world.attempt()
    held = world.last("blocked")
    world.do(Unblock("t_a"))
    world.attempt()
    fate = only(world, failure_limit=1)
    assert seen(fate) == ("held_earlier", first.position, [2], held.position + 1)
    assert (fate.in_log, str(fate.instead)) == (None, "failure_budget: 1 of 1 (policy)")
    assert fate.ended_by == f"a person acted: unblocked, at position {held.position + 1}"


def test_without_an_act_of_a_person_knowledge_reaches_to_the_end(world):
    """Every run after that hold is one too many."""
    world.policy(failure_limit=4)
    (first,) = world.attempt()
    for _ in range(3):
        world.attempt()
    assert seen(only(world, failure_limit=1)) == ("held_earlier", first.position, [2, 3, 4], None)
    (last,) = what_if(world.log[: first.position], {"failure_limit": 1}).fates
    assert seen(last) == ("held_earlier", first.position, [], None)


def test_a_claim_by_hand_is_an_act_of_a_person(world):
    """Under the hold it would have been refused, and nobody knows what that person had done then."""
    (first,) = world.attempt()
    claim = world.claim(by="hand")
    world.exit()
    assert seen(only(world, failure_limit=1)) == ("held_earlier", first.position, [], first.position + 1)
    assert claim.run == 2


def test_after_a_hold_that_would_not_have_come_nothing_is_known(world):
    """Neither how many more runs there had been nor how they end: only how many there could be."""
    world.attempt()
    last, held = world.attempt()
    world.do(Unblock("t_a"))
    world.attempt()
    fate = only(world, failure_limit=3)
    assert seen(fate) == ("held_later", last.position, [], last.position)
    assert (str(fate.in_log), fate.instead) == ("failure_budget: 2 of 2 (policy)", None)
    assert fate.ended_by == "without the hold it could have used up to 48 more runs, and nobody knows how they end"
    assert held.kind == "blocked"
    assert what_if(world.log, {"failure_limit": 3}).as_json()["cards"][0]["runs"] is None


def test_another_budget_may_hold_at_the_same_end(world):
    """RULES §5: the first in the order of the table names the hold, and only a person lifts a sticky one."""
    world.attempt()
    last, _ = world.attempt()
    fate = only(world, run_limit=2)
    assert seen(fate) == ("held_otherwise", last.position, [], None)
    assert (fate.in_log.cause, fate.instead.cause, fate.instead.sticky) == ("failure_budget", "run_budget", True)


def test_a_raised_limit_lifts_nothing_where_it_is_tried_lower(world):
    """RULES §5: `limit_raised`; the change stands in the log, and what is tried overrides it."""
    world.attempt()
    world.attempt()
    world.policy(failure_limit=5)
    world.settle()
    lifted = world.last("unblocked")
    world.attempt()
    fate = only(world, failure_limit=2)
    assert seen(fate) == ("held_longer", lifted.position, [3], None)
    assert str(fate.instead) == "failure_budget: 2 of 2 (policy)"
    assert what_if(world.log, {"attempt_limit": 6}).fates == ()


def test_a_lift_right_after_the_end_of_another_cards_run_is_seen_too(world):
    """One tick books the one and lifts the other: the events stand side by side."""
    world.create("t_b")
    world.attempt()
    world.attempt()
    world.claim("t_b")
    world.policy(failure_limit=5)
    world.exit("t_b")
    world.settle()
    assert world.last("unblocked").position == world.last("exited").position + 1
    assert [fate.decision for fate in what_if(world.log, {"failure_limit": 2}).fates] == ["held_longer"]


def test_a_hold_may_have_been_lifted_where_the_log_has_it_stand(world):
    """A raised limit and a lowered one in one change: what is tried overrides the lowered one, so a tick could lift."""
    world.policy(failure_limit=5, violation_limit=2)
    for outcome in ("crashed", "clean") * 4:
        world.attempt("t_a", outcome)
    world.policy(failure_limit=2, violation_limit=8)
    changed = world.head
    world.policy(violation_limit=9)
    fate = only(world, failure_limit=5)
    assert seen(fate) == ("held_shorter", changed, [], changed)
    assert (str(fate.in_log), fate.instead) == ("attempt_budget: 8 of 8 (policy)", None)


def test_a_card_that_loses_its_own_limit_may_be_lifted_by_another(world):
    """RULES §5: the task's limit was raised, and the policy's is at its count all the same, unless it were another."""
    world.policy(failure_limit=1)
    world.do(Edit("t_a", {"max_retries": 1}))
    world.attempt()
    world.do(Edit("t_a", {"max_retries": None}))
    assert seen(only(world, failure_limit=5)) == ("held_shorter", world.head, [], world.head)
    assert what_if(world.log, {"failure_limit": 1}).fates == ()


def test_a_cards_own_limit_goes_on_to_win(world):
    """RULES §5: task.max_retries, else the policy's."""
    world.do(Edit("t_a", {"max_retries": 2}))
    world.attempt()
    world.attempt()
    assert what_if(world.log, {"failure_limit": 1, "violation_limit": 1, "attempt_limit": 1}).fates == ()
    assert only(world, run_limit=1).decision == "held_earlier"


def test_the_limits_in_force_change_nothing(world):
    """The log under its own rules."""
    for outcome in ("crashed", "clean", "lost", "crashed"):
        world.attempt("t_a", outcome)
    assert what_if(world.log, {"failure_limit": 2, "violation_limit": 3, "attempt_limit": None}).fates == ()


# What it cost, and what others lose


def test_what_the_runs_used_is_summed_where_it_is_known(world):
    """Unknown is none, never 0: a run that said nothing is counted as such."""
    world.policy(failure_limit=4)
    world.attempt()
    for tokens, cost in ((12, "0.25"), (None, "0.50"), (None, None)):
        world.claim()
        if tokens or cost:
            world.happened(given.progressed(world.card().run, tokens=tokens, cost=cost), "t_a", given.WORKER)
        world.later(100)
        world.exit()
    found = what_if(world.log, {"failure_limit": 1})
    assert found.used["t_a"] == (3, 300, 12, "0.75", 2)
    assert found.totals == {
        "cards": 1, "held_earlier": 1, "held_later": 0, "held_otherwise": 0, "held_longer": 0, "held_shorter": 0,
        "unknown": 0, "runs_saved": 3, "seconds": 300, "tokens": 12, "cost": "0.75", "runs_without_usage": 2,
    }  # fmt: skip
    assert json.loads(json.dumps(found.as_json()))["cards"][0]["runs"] == [2, 3, 4]
    silent = what_if(world.log[: world.of("t_a")[5].position], {"failure_limit": 1})
    assert [silent.totals[name] for name in ("runs_saved", "seconds", "tokens", "cost")] == [1, None, None, None]


def test_a_card_whose_parent_would_perhaps_not_be_done_is_unknown_from_there(world):
    """And so is what waits for that one; what happened to it before is still known."""
    world.create("t_b", parents=["t_a"])
    world.create("t_c", parents=["t_b"])
    world.create("t_d")
    world.attempt("t_d")
    world.attempt()
    world.do(Complete("t_a"))
    done = world.last("completed").position
    world.attempt("t_b")
    world.attempt("t_b")
    world.do(Complete("t_b"))
    world.do(Reopen("t_a"))
    found = what_if(world.log, {"failure_limit": 1})
    assert [fate.task for fate in found.fates] == ["t_d", "t_a"]
    last = world.last("completed").position
    assert world.last("reopened").position > last
    assert found.unknown == {
        "t_b": (done, f"its parent t_a would perhaps not be completed, at position {done}"),
        "t_c": (last, f"its parent t_b would perhaps not be completed, at position {last}"),
    }
    assert [fate.task for fate in what_if(world.log, {"failure_limit": 1}, task="t_d").fates] == ["t_d"]
    assert list(what_if(world.log, {"failure_limit": 1}, task="t_c").unknown) == ["t_c"]


def test_a_card_that_is_linked_to_such_a_parent_later_is_unknown_from_there(world):
    """It came under a parent that was done by then, and perhaps would not have been."""
    world.attempt()
    world.claim()
    world.happened(given.completed(2), "t_a", given.WORKER)
    world.create("t_b", parents=["t_a"])
    born = world.head
    world.create("t_c")
    world.do(AddLink("t_c", "t_a"))
    found = what_if(world.log, {"failure_limit": 1})
    assert seen(found.fates[0])[2:] == ([2], None)
    assert found.fates[0].position < born
    assert {card: at for card, (at, _) in found.unknown.items()} == {"t_b": born, "t_c": world.head}


def test_a_limit_that_is_changed_ends_what_is_known_of_a_hold_that_it_would_lift(world):
    """RULES §5: `limit_raised`; a tick could have lifted it, and when a run had started then, nobody knows."""
    world.policy(failure_limit=5, violation_limit=2)
    for outcome in ("clean", "crashed") * 3:
        world.attempt("t_a", outcome)
    last, _ = world.attempt("t_a", "clean")
    world.policy(violation_limit=8)
    changed = world.head
    world.attempt()
    fate = only(world, failure_limit=4)
    assert (seen(fate), str(fate.instead)) == (
        ("held_earlier", last.position, [], changed), "attempt_budget: 7 of 7 (policy)",
    )  # fmt: skip
    assert fate.ended_by == f"a limit was changed so that a tick could have lifted the hold, at position {changed}"


def test_a_card_under_a_parent_that_is_not_done_in_either_world_stays_known(world):
    """It waits in both."""
    world.attempt()
    world.create("t_b", parents=["t_a"])
    world.create("t_c")
    world.do(AddLink("t_c", "t_a"))
    assert what_if(world.log, {"failure_limit": 1}).unknown == {}


def test_a_card_that_such_a_run_made_would_perhaps_not_be(world):
    """RULES §8: recorded as made by its run."""
    world.policy(failure_limit=3)
    world.attempt()
    run = world.claim()
    world.happened(given.created(made_by=RunRef(task="t_a", run=run.run)), "t_new", given.WORKER)
    made = world.head
    world.exit()
    world.attempt("t_new")
    world.create("t_b")
    other = world.claim("t_b")
    world.happened(given.created(made_by=RunRef(task="t_b", run=other.run)), "t_newer", given.WORKER)
    found = what_if(world.log, {"failure_limit": 1})
    assert [fate.task for fate in found.fates] == ["t_a"]
    assert found.unknown == {
        "t_new": (made, f"a run of t_a made it, which perhaps would not have been, at position {made}")
    }


# What cannot be tried


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"max_runtime": 5}, "'max_runtime' cannot be tried"),
        ({"lease": 5}, "'lease' cannot be tried"),
        ({"failure_limit": 0}, "failure_limit is 0"),
        ({"failure_limit": None}, "failure_limit is None"),
    ],
)
def test_what_is_no_limit_is_refused_by_name(limits, told):
    """What another time would have made of a run is not in the log."""
    with pytest.raises(InvalidInput, match=told):
        what_if([], limits)
