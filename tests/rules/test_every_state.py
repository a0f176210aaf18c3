"""RULES §4–5 over every sequence of endings and acts of people up to eight, for every limit and two policies.

`tests/rules/walk.py` walks over states instead of sequences. The first test says why that is enough, and
`test_walk_can_fail` shows that a wrong rule does not get through.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from functools import cache

import pytest

from ledger.events import COUNTED, NEUTRAL, Outcome
from projections.budgets import lift, tripped
from projections.policy import Policy
from projections.task import Card, Task, evolve
from tests import given
from tests.rules import walk as w

DEPTH = 8
NEAR = 3
PAIRS = 100_000
PARTS = ["failures", "streak", "spent", "neutral", "runs", "run", "hold", "not_before", "outcome", "archived", "lane"]


# Why states are enough


def read(event):
    """*event* as it stands in a log."""
    return given.history(event)[0]


INERT = [
    given.commented(),
    given.edited(title="B", priority=3, labels=["x"]),
    given.linked(),
    given.unlinked(),
    given.scheduled(),
    given.late_result(),
    given.redacted(),
]
LETTERS = {
    "running": [
        *(given.exited(1, outcome) for outcome in (*COUNTED, Outcome.CLEAN, Outcome.CONFIG)),
        *(given.exited(1, outcome) for outcome in (*NEUTRAL, *NEUTRAL)),
        given.blocked(1, "worker", block_kind="needs_input"),
        given.waiting(1),
        *(given.review_requested(1, reviewer=name) for name in (None, "critic", "eve")),
        given.changes_requested(1),
        given.completed(1),
        given.completed(1, "fail"),
        *(given.worker_bound(1), given.progressed(1), given.stop_requested(1), given.violation(1)),
        *(given.edited(max_retries=own) for own in w.OWN_LIMITS),
    ],
    "ready": [
        *(given.claimed(1) for _ in range(12)),
        given.budget_blocked(),
        given.budget_blocked("attempt_budget", count=6, limit=6),
        given.budget_blocked("violation_budget", sticky=True),
        given.changes_requested(None),
        given.assigned("eve"),
    ],
    "held": [given.unblocked("limit_raised"), given.unblocked("reassigned")],
    "person": [
        given.unblocked(),
        given.assigned("eve"),
        given.blocked(),
        given.blocked(None, block_kind="waits"),
        given.completed(None, "fail"),
        given.archived(),
        *(given.edited(max_retries=own) for own in w.OWN_LIMITS),
        *INERT,
    ],
    "closed": [given.reopened(), given.reopened(), given.commented()],
}
LETTERS = {name: [read(event) for event in events] for name, events in LETTERS.items()}
ALPHABETS = {
    "running": LETTERS["running"],
    "free": LETTERS["ready"] + LETTERS["person"],
    "held": LETTERS["held"] * 4 + LETTERS["person"],
    "sticky": LETTERS["person"],
    "closed": LETTERS["closed"],
}
TEAM = ["builder", "eve", "zoe"]


def alphabet(task):
    """The events that a card in this state could come to see next."""
    if task.run is not None:
        return ALPHABETS["running"]
    if task.closed:
        return ALPHABETS["closed"]
    return ALPHABETS["free" if task.hold is None else "sticky" if task.hold.sticky else "held"]


def told(task, now, letter, wait):
    """*task* after *letter*, and the time then. What the letter leaves open is filled in as this card's log would."""
    event = letter._replace(position=task.position + 3)
    match letter.kind:
        case "claimed":
            return evolve(task, event._replace(run=task.last_run + 1)), max(now, task.not_before or 0)
        case "exited" if wait and letter.outcome in NEUTRAL:
            event = event._replace(facts_text=letter.facts_text.replace("null", str(now + 7)))
        case "assigned":
            role = "reviewer" if task.lane == "review" else "assignee"
            other = next(name for name in TEAM if name != getattr(task.card, f"last_{role}"))
            event = event._replace(facts_text=f'{{"previous":null,"role":"{role}","to":"{other}"}}')
        case _:
            pass
    return evolve(task, event), now


def outlook(task, then, at, policy):
    """What can be told of a card after an event: essence, standing, what that end trips, whether its hold lifts."""
    ended = task.run is not None and then.run is None
    trips = tripped(task, then, policy, ended_by="exited") if ended else None
    standing = then.lane, then.archived, then.done, then.run is None, then.hold and then.hold.sticky
    return w.essence(then, at), standing, trips, lift(then, policy) is None


def unequal_futures(pairs, essence=w.essence):
    """What tells two cards of one *essence* apart after one more event, in so many random *pairs* of histories."""
    draw = random.Random(5)
    met = {}
    while pairs > 0:
        now = draw.randrange(1_000)
        task = evolve(Task("t_a"), read(given.created(max_retries=draw.choice(w.OWN_LIMITS))))
        for _ in range(draw.randrange(4, 16)):
            kind = essence(task, now)
            other = met.get(kind)
            met[kind] = task, now
            letter, wait, policy = draw.choice(alphabet(task)), draw.random() < 0.5, draw.choice(w.BOTH)
            then, at = told(task, now, letter, wait)
            if other is not None and other[0] != task:
                pairs -= 1
                if outlook(task, then, at, policy) != outlook(other[0], *told(*other, letter, wait), policy):
                    yield f"{letter.kind}, {letter.outcome}: after {task} not as after {other[0]}"
            task, now = then, at


def test_histories_with_equal_states_fold_on_equally():
    """An `essence` is all that the future of a card depends on: no event tells two cards of one essence apart."""
    assert next(unequal_futures(PAIRS), None) is None


@pytest.mark.parametrize("part", PARTS)
def test_an_essence_holds_nothing_to_spare(part):
    """Without any one of its parts, some event does tell two cards of one essence apart."""
    without = {part: Task._field_defaults[part]}
    assert next(unequal_futures(20_000, lambda task, now: w.essence(task, now)._replace(**without)), None) is not None


def test_an_essence_holds_the_cards_own_limit():
    """The last part of it stands in the card."""
    assert next(unequal_futures(20_000, lambda task, now: w.essence(task, now)._replace(card=Card())), None) is not None


# The walk


class Walked:
    """All that a walk came by: how often each act, what was broken, which causes blocked and lifted."""

    def __init__(self, steps):
        self.acts, self.causes, self.broken = Counter(), Counter(), defaultdict(list)
        self.states = set(w.STARTS)
        for step in steps:
            self.acts[step.act] += 1
            self.states.add(step.after)
            self.causes.update(cause for draft in step.drafts if (cause := w.cause_of(draft)) is not None)
            for law in w.LAWS:
                wrong = law(step)
                if wrong is not None:
                    self.broken[law].append(f"{step}: {wrong}")


@cache
def walked():
    """The walk over all sequences of at most eight."""
    return Walked(w.walk(w.STARTS, DEPTH, ends=w.ROWS))


@pytest.mark.parametrize("law", w.LAWS, ids=lambda law: law.__name__)
def test_no_step_breaks_the_law(law):
    """Each law stands in `walk.py` with the sentence of RULES that it is."""
    assert walked().broken[law] == []


def test_the_walk_comes_by_every_act():
    """A law that is asked of no step proves nothing."""
    assert set(walked().acts) == {*w.SWEEPS, *w.ROWS, *w.PEOPLE}


def test_the_walk_comes_by_every_budget_and_both_lifts():
    """RULES §5: each row of the table names some hold, and each cause of a lift some `unblocked`."""
    budgets = {cause for cause, _, _ in w.TABLE}
    assert set(walked().causes) == {*budgets, "worker", "operator", "limit_raised", "reassigned"}


def test_the_walk_says_how_far_it_came(capsys):
    """The numbers, to be read."""
    with capsys.disabled():
        print(f"\n{len(walked().states)} states, {walked().acts.total()} steps")  # noqa: T201 – asked for
    assert len(walked().states) > 20_000


@cache
def nearby():
    """Every state within three acts, archived ones too, and the steps of its ends."""
    return list(w.walk(w.STARTS, NEAR, people=w.ARCHIVING))


@pytest.mark.parametrize("law", [*w.LAWS, w.raising_blocks_no_more], ids=lambda law: law.__name__)
def test_no_step_breaks_the_law_where_cards_are_archived_too(law):
    """RULES §4: `archived` moves no counter; whatever then reopens the card starts an epoch."""
    assert list(w.faults(nearby(), [law])) == []


@pytest.mark.parametrize("verb", w.WISHES)
def test_a_wish_comes_to_what_the_person_would_have_done_right_after_the_end(verb):
    """RULES §7.1: wishes are applied by whatever event ends the run, after any budget's `blocked`."""
    for step in nearby():
        if step.act in w.ENDS:
            (granted,) = w.steps_from(step.before, {step.act: w.WISHED[step.act, verb]})
            assert granted.after == w.after(step.after, (*w.decided(step.after, w.wished(verb)),)), granted
            assert list(w.faults([granted])) == []


@pytest.mark.parametrize("act", [*(f"gets limit {own}" for own in w.OWN_LIMITS), "policy moves"])
def test_a_limit_that_changes_under_an_open_run_comes_to_what_it_comes_to_before(act):
    """RULES §5: a claim reads no limit; so the walk changes limits between runs only."""
    for claim in (step for step in nearby() if step.act == "is claimed"):
        for sooner in w.steps_from(claim.before, {act: w.PEOPLE[act]}):
            (then,) = w.steps_from(sooner.after, {"is claimed": w.claims})
            (later,) = w.steps_from(claim.after, {act: w.PEOPLE[act]})
            assert then.after == later.after, later


@pytest.mark.parametrize("end", w.TWINS)
def test_ends_of_one_row_come_to_the_same(end):
    """RULES §4: so the long walk needs one of each row."""
    states = {step.before for step in nearby() if step.act in w.ENDS}
    for state in states:
        one, other = (next(w.steps_from(state, {name: w.ENDS[name]})) for name in (end, w.TWINS[end]))
        assert one.after == other.after, one


# Chains


@pytest.mark.parametrize(("own", "longest"), [(1, 25), (2, 50)])
def test_an_automatic_chain_ends_at_the_run_limit(own, longest, capsys):
    """RULES §5: the most runs that a card can use between two acts of a person is run_limit, whatever sweeps book."""
    ends = {name: w.ENDS[name] for name in ("exits crashed", "exits clean", "exits lost")}
    found = w.longest_chain(w.fresh(own, Policy()), ends)
    with capsys.disabled():
        print(f"\nmax_retries {own}: the longest chain of sweeps is {found} runs")  # noqa: T201 – to be read
    assert found == longest <= Policy().run_limit


@pytest.mark.parametrize("own", w.OWN_LIMITS)
def test_a_chain_with_workers_that_use_every_verb_ends_at_the_run_limit(own):
    """RULES §5: two agents that send a card to and fro are stopped too."""
    assert w.longest_chain(w.fresh(own, w.SMALL), w.ENDS) == w.SMALL.run_limit
