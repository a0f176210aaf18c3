"""RULES §6–8 as a model: claim, gate, lease, fence and sweepers, in every order, with a crash after every step.

`protocol.py` says which line of the code each step stands for. The broken protocols show what each guard is for: the
shortest story in which it would have been needed is the test.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest

from tests.model.checker import check
from tests.model.protocol import ACCIDENTS, FAULTS, RULES, STANDS_FOR, Protocol, forget, one_worker_a_card

ROOT = Path(__file__).parents[2]
MOST = 200_000
MODELS = {
    "two sweepers, an operator, two cards": Protocol(cards=2, in_all=3, acts=1, crashes=2, pauses=True),
    "two sweepers, an operator who also pauses, three runs, three crashes": Protocol(
        runs=3, acts=2, crashes=3, pauses=True
    ),
    "two hosts, two cards": Protocol(hosts=(0, 1), cards=2, in_all=3, crashes=2),
    "two hosts, leases, an operator": Protocol(hosts=(0, 1), acts=1, crashes=2, leases=True),
    "a sweeper, a person who claims by hand, three runs": Protocol(runs=3, acts=2, crashes=2, hands=1),
}
SMALL = {
    "two sweepers, an operator": Protocol(acts=1, crashes=2, pauses=True),
    "two cards": Protocol(cards=2, crashes=1),
    "two hosts, leases": Protocol(hosts=(0, 1), crashes=1, leases=True),
}


@pytest.fixture(autouse=True, scope="module")
def _without_collector():
    """A model makes no rings, and the collector would walk through all its states again and again."""
    gc.disable()
    yield
    checked.cache_clear()
    forget()
    gc.enable()


@cache
def checked(protocol, rules=RULES):
    """All states of *protocol*, until a rule is broken."""
    kept = {rule.__name__: partial(rule, protocol) for rule in rules}
    return check(protocol.start(), protocol.steps, kept, most=MOST, alike=protocol.alike)


# The protocol


@pytest.mark.parametrize("name", MODELS)
def test_every_rule_holds_in_every_order_with_a_crash_after_every_step(name, capsys):
    """RULES §6–8: one worker a card, no wish lost, one end a run, nothing unbound runs, a stale lock opens nothing."""
    found = checked(MODELS[name])
    with capsys.disabled():
        print(f"\n{name}: {found.states} states")  # noqa: T201 – to be read
    assert (found.broken, found.trace) == (None, ())
    assert found.states > 10_000


@pytest.mark.parametrize("name", SMALL)
def test_every_run_can_end_whatever_has_happened(name):
    """RULES §7: a kill between any two steps loses nothing. From every state some way leads to where no run is open."""
    protocol = SMALL[name]

    def rests(state):
        return not any(card.open for card in state.cards)

    assert checked(protocol).stuck(protocol.steps, rests, protocol.alike) is None


# The model and the code


@pytest.mark.parametrize("step", STANDS_FOR)
def test_a_step_stands_for_a_line_of_the_code(step):
    """Whoever moves the line is told to look whether the model still says what it does."""
    file, line = STANDS_FOR[step]
    assert " ".join((ROOT / file).read_text().split()).count(line) == 1


def test_the_models_take_every_step_and_no_other():
    """Each label is a step of the code or an accident."""
    labels = {label for model in MODELS.values() for _, _, label in checked(model).visited.values() if label}
    known = {word: {label for label in labels if word in label} for word in (*STANDS_FOR, *ACCIDENTS)}
    assert [word for word, found in known.items() if not found] == []
    assert labels - set().union(*known.values()) == set()


# What each guard is for

CLAIMED = ("sweeper 0 takes the lock", "sweeper 0 looks", "sweeper 0 applies: claims 0.0")
STARTED = (*CLAIMED, "sweeper 0 launches 0.0", "sweeper 0 binds", "sweeper 0 opens 0.0")
CLAIMED_ELSEWHERE = ("sweeper 0 takes the lock, looks", "sweeper 0 applies: claims 0.0", "sweeper 0 launches 0.0")


def second_run(sweeper):
    """From claim to command."""
    acts = (f"sweeper {sweeper} {act}" for act in ("launches 0.1", "binds", "opens 0.1"))
    return (*acts, "0.1 starts the command")


STORIES = {
    "gate": (
        Protocol(crashes=0),
        "never_bound_never_ran",
        (*CLAIMED, "sweeper 0 launches 0.0"),
    ),
    "lock of its own": (
        Protocol(crashes=1),
        "a_stale_lock_opens_nothing",
        (
            *STARTED,
            "sweeper 0 takes the lock",
            "0.0 starts the command",
            "0.0 ends and leaves a stray",
            "sweeper 0 looks",
            "sweeper 0 applies: books 0.0, claims 0.1",
            "0.0: its stray completes",
        ),
    ),
    "sight of death": (
        Protocol(crashes=1),
        "one_worker_a_card",
        (
            *STARTED,
            "sweeper 0 takes the lock",
            "0.0 starts the command",
            "0.0: its supervisor dies",
            "sweeper 0 looks",
            "sweeper 0 applies: books 0.0, claims 0.1",
            *second_run(0),
        ),
    ),
    "second look": (
        Protocol(crashes=1),
        "a_run_ends_once",
        (
            *STARTED,
            "sweeper 0 takes the lock",
            "0.0 starts the command",
            "0.0 ends and leaves a stray",
            "sweeper 0 looks",
            "0.0: its stray completes",
            "sweeper 0 applies: books 0.0",
        ),
    ),
    "second look at a claim": (
        Protocol(hosts=(0, 1), crashes=0),
        "a_run_ends_once",
        (
            "sweeper 0 takes the lock, looks",
            "sweeper 1 takes the lock, looks",
            "sweeper 0 applies: claims 0.0",
            "sweeper 1 applies: claims 0.1",
        ),
    ),
    "check at binding": (
        Protocol(hosts=(0, 1), crashes=0),
        "never_bound_never_ran",
        (
            *CLAIMED_ELSEWHERE,
            "sweeper 1 takes the lock, looks",
            "sweeper 1 applies: books 0.0, claims 0.1",
            "sweeper 0 binds",
        ),
    ),
    "fence of an ending": (
        Protocol(crashes=0),
        "one_worker_a_card",
        (
            *STARTED,
            "sweeper 0 takes the lock",
            "sweeper 0 looks",
            "0.0 starts the command",
            "0.0 asks for review",
            "sweeper 0 applies: claims 0.1",
            *second_run(0),
        ),
    ),
    "wish at a verb": (
        Protocol(acts=1, crashes=0),
        "no_wish_is_lost",
        (*STARTED, "0.0 starts the command", "operator wishes to archive 0", "0.0 completes"),
    ),
    "watch of the lease": (
        Protocol(hosts=(0, 1), crashes=0, leases=True),
        "one_worker_a_card",
        (
            *CLAIMED_ELSEWHERE,
            "sweeper 0 binds",
            "sweeper 0 opens 0.0",
            "sweeper 1 takes the lock, looks",
            "0.0 starts the command",
            "0.0: its lease runs out",
            "sweeper 1 applies: books 0.0, claims 0.1",
            *second_run(1),
        ),
    ),
    "lock of the host": (
        Protocol(crashes=0),
        "one_worker_a_card",
        (
            *CLAIMED,
            "sweeper 0 launches 0.0",
            "sweeper 1 takes the lock",
            "sweeper 1 looks",
            "sweeper 0 binds",
            "sweeper 0 opens 0.0",
            "0.0 starts the command",
            "0.0 asks for review",
            "sweeper 1 applies: claims 0.1",
            *second_run(1),
        ),
    ),
    "look at open runs": (
        Protocol(hands=1, acts=1, crashes=0),
        "one_worker_a_card",
        (
            *STARTED,
            "person looks",
            "0.0 starts the command",
            "0.0 asks for review",
            "person claims by hand 0",
        ),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_without_its_guard_the_protocol_breaks(fault):
    """The shortest trace to a broken rule, step by step."""
    protocol, broken, trace = STORIES[fault]
    found = checked(replace(protocol, without=fault))
    assert (found.broken, found.trace) == (broken, trace)


@pytest.mark.parametrize("fault", FAULTS)
def test_with_its_guard_the_same_model_holds(fault):
    """It is the missing guard that breaks it."""
    assert checked(STORIES[fault][0]).broken is None


def test_spawning_before_the_process_is_known_gives_a_card_two_workers():
    """RULES §11: what the gate is there for: the dispatcher dies between the two, and nobody knows of the first."""
    found = checked(Protocol(crashes=1, without="gate"), (one_worker_a_card,))
    assert found.trace == (
        *CLAIMED,
        "sweeper 0 launches 0.0",
        "sweeper 0 dies",
        "sweeper 0 takes the lock",
        "sweeper 0 looks",
        "sweeper 0 applies: books 0.0, claims 0.1",
        "sweeper 0 launches 0.1",
    )


def test_each_rule_is_broken_by_some_fault():
    """A rule that nothing can break would prove nothing."""
    assert {broken for _, broken, _ in STORIES.values()} == {rule.__name__ for rule in RULES}
