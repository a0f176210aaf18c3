"""The law of `why`: the events of a proof, folded alone, give the same value; without any one of them they do not.

What a slice gives is worked out here from the folds of a whole board, and shares nothing with the proofs.
"""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

from projections.proof import prove
from projections.proof import told as told_by
from projections.task import Task, evolve, status
from projections.world import World
from tests import given
from tests.rules.laws import VERBS, Move, played
from tests.rules.remembered import Remembered
from tests.rules.world import SECOND

COUNTER_OF = {
    "violation_budget": "streak", "neutral_budget": "neutral", "run_budget": "runs", "failure_budget": "failures",
    "attempt_budget": "spent",
}  # fmt: skip
TOPICS = ("status", "failures", "streak", "hold", "held")


# What a slice gives


def value_of(about, events, card, now):
    """The answer to *about*, of *events* and nothing else."""
    world = World()
    world.take(events)
    match about:
        case "status":
            task = world.task(card)
            return None if task is None else status(task)
        case "hold":
            return hold_of([event for event in events if event.task == card])
        case "held":
            return held_of(world, card, now)
        case _:
            task = world.task(card)
            return 0 if task is None else getattr(task, about)


def hold_of(stream):
    """The hold in force, and what its budget counted at the moment when it was set."""
    cards = [Task("?")]
    for event in stream:
        cards.append(evolve(cards[-1], event))
    hold = cards[-1].hold
    if hold is None:
        return None
    before = next(card for card, event in zip(cards, stream, strict=False) if event.position == hold.position)
    return hold, getattr(before, COUNTER_OF[hold.cause]) if hold.cause in COUNTER_OF else None


def held_of(world, card, now):
    """Why the card was not started, as RULES §7.6 has it, as far as a log says."""
    task = world.task(card)
    if task is None or status(task) not in {"ready", "review", "scheduled"}:
        return None
    if (task.not_before or 0) > now:
        return "cools", task.not_before
    if (task.scheduled or 0) > now:
        return "parked", task.scheduled
    worker = task.card.reviewer if task.lane == "review" else task.card.assignee
    scopes = [("board", ""), ("assignee", worker), ("host", task.card.host)]
    paused = {(pause.scope, pause.name): pause.position for pause in world.settings.pauses}
    for scope in scopes:
        if scope in paused:
            return "paused", paused[scope]
    if worker is None:
        return "nobody"
    most = world.settings.policy.max_running
    full = most is not None and sum(run.open for run in world.runs.values()) >= most
    return ("full", most) if full else "free"


# Logs

MOVES = st.lists(
    st.builds(Move, st.sampled_from(VERBS), st.integers(0, 2), st.integers(0, 2), st.integers(0, 59)),
    min_size=10,
    max_size=70,
)
STOPS = (
    given.paused(),
    given.paused("assignee", "builder"),
    given.paused("assignee", "critic"),
    given.paused("host", "node-9"),
    given.policy_changed(max_running=1),
    given.policy_changed(max_running=2),
)
"""What keeps every card of a board, or some."""
BIRTHS = (
    {"parents": ("t_a",)},
    {"lane": "triage"},
    {"lane": "triage", "parents": ("t_a", ("t_b", "any"))},
    {"host": "node-9"},
    {"assignee": None},
)


CALM = ("end", "unblock", "schedule", "reopen", "lane", "assign", "end", "unlink", "says review")
"""What brings cards to rest, so that many of them could be started."""


def told(cards, births, moves, stops, later):
    """A story of *cards* and of cards that were born otherwise; then *stops*, and the question, some time *later*."""
    story = played(cards, moves[: len(moves) // 2])
    for number, fields in enumerate(births):
        story.world.happened(given.created(**fields), f"t_n{number}", given.OPERATOR)
    born = [f"t_n{number}" for number in range(len(births))]
    story.cards = (*story.cards, *born)
    story.claims |= {card: [] for card in born}
    for move in moves[len(moves) // 2 :]:
        story.make(move._replace(card=move.card + move.n % len(story.cards)))
    for move in moves[-5:]:
        story.make(move._replace(verb=CALM[move.n % len(CALM)], card=move.card + move.n % len(story.cards)))
    for event in stops:
        story.world.happened(event)
    return story.world.log, story.cards, story.world.now + later * SECOND


LOGS = st.builds(
    told,
    st.integers(1, 3),
    st.lists(st.sampled_from(BIRTHS), max_size=3),
    MOVES,
    st.lists(st.sampled_from(STOPS), max_size=2),
    st.sampled_from((0, 0, 100, 100_000)),
)


def random_log(seed):
    """A log of the same kind, the same for the same seed."""
    dice = random.Random(seed)
    draw = dice.randrange
    moves = [Move(dice.choice(VERBS), draw(3), draw(3), draw(60)) for _ in range(60)]
    births, stops = dice.sample(BIRTHS, draw(4)), dice.sample(STOPS, draw(3))
    return told(1 + draw(3), births, moves, stops, dice.choice((0, 0, 100, 100_000)))


# The law


def holds(log, card, now):
    """The law for all that `why` can be asked about *card*; how many events each proof has."""
    found = {}
    for about in TOPICS:
        proof = prove(about, Remembered(log, card, now))
        assert proof is not None, (card, about)
        whole = value_of(about, log, card, now)
        assert told_by(about, log, card, now=now) == proof.value, (card, about)
        assert value_of(about, proof.events, card, now) == whole, (card, about, proof.positions)
        for event in proof.events:
            rest = [other for other in proof.events if other is not event]
            assert value_of(about, rest, card, now) != whole, (card, about, proof.positions, event.position)
        found[about] = proof
    return found


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@drawn(LOGS)
def test_a_proof_gives_the_value_and_none_of_it_can_be_left_out(told):
    """RULES §3–5, §7.6: for every card of every log, and for everything that can be asked."""
    log, cards, now = told
    for card in cards:
        holds(log, card, now)


def test_the_logs_are_not_idle():
    """Every status, every hold and everything that keeps a card is proved, with one event and with many."""
    seen = Counter()
    for seed in range(150):
        log, cards, now = random_log(seed)
        for card in cards:
            for about, proof in holds(log, card, now).items():
                what = value_of(about, log, card, now)
                kind = what[0].cause if about == "hold" and what else what[0] if isinstance(what, tuple) else what
                seen[about, kind] += 1
                seen[about, f"{min(len(proof.events), 4)} events"] += 1
    statuses = ("archived", "done", "running", "blocked", "triage", "todo", "scheduled", "review", "ready")
    wanted = [("status", each) for each in statuses]
    wanted += [("hold", cause) for cause in (*COUNTER_OF, "config", "operator", "worker", None)]
    wanted += [("held", each) for each in ("cools", "parked", "paused", "nobody", "full", "free", None)]
    wanted += [("status", "2 events"), ("held", "2 events"), ("held", "3 events"), ("failures", 2), ("streak", 1)]
    assert [each for each in wanted if not seen[each]] == []
