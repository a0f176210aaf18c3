"""A board that is looked at again and again: the same as one that is read whole, at the price of what changed."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from sqlalchemy import event, text

from ledger.database import reading
from projections import watched as w
from projections.listed import STATUSES
from projections.queries import cards
from projections.touched import lines, touched
from projections.watched import Watched
from tests import given, ledgers
from tests.given import SECOND


def look(store, seen):
    """Look again; whether anything had changed."""
    with reading(store.engine) as tx:
        return seen.look(tx)


def fresh(store):
    """The board as somebody sees it who has just come."""
    seen = Watched(ledgers.BOARD)
    assert look(store, seen)
    return seen


def shown(seen):
    """All that *seen* tells."""
    counts = {status: seen.counts[status] for status in STATUSES}
    return (
        seen.position, seen.at, seen.ticks, seen.cards, counts, seen.live, seen.held, seen.waiting, list(seen.events),
    )  # fmt: skip


@pytest.fixture
def asked(store):
    """The statements that the store is asked from now on."""
    said = []
    event.listen(store.engine, "before_cursor_execute", lambda _c, _u, statement, *_: said.append(statement))
    return said


def step(store, dice, state):
    """Something legal happens to one of a few cards."""
    task = f"t_{dice.randrange(8)}"
    status, runs = state.get(task, ("", 0))
    match status:
        case "":
            parent = f"t_{dice.randrange(8)}"
            waits = [parent] if parent in state and parent != task else []
            store.append(given.created(task, priority=dice.randrange(3), parents=waits), task=task)
            state[task] = "open", 0
        case "open" if dice.randrange(4) == 0:
            store.append(given.completed(None, dice.choice(["ok", "fail"])), task=task)
            state[task] = "closed", runs
        case "open" if dice.randrange(3) == 0:
            store.append(dice.choice([given.blocked(reason="why"), given.unblocked(), given.commented()]), task=task)
        case "open":
            run = runs + 1
            store.append(given.claimed(run), task=task)
            if dice.randrange(3):
                store.append(given.exited(run, "crashed"), given.budget_blocked(), task=task)
            else:
                store.append(given.exited(run, "lost"), task=task)
            state[task] = "open", run
        case "closed" if dice.randrange(3) == 0:
            store.append(given.archived(), task=task)
            state[task] = "archived", runs
        case _:
            store.append(given.reopened(), task=task)
            state[task] = "open", runs


@pytest.mark.parametrize("seed", range(3))
def test_a_board_that_is_watched_is_the_board(store, seed):
    """Whatever happened since the last look: statuses, counts, parents that are done, archived and reopened cards."""
    dice, state, seen = random.Random(seed), {}, Watched(ledgers.BOARD)
    for _ in range(25):
        for _ in range(dice.randrange(1, 5)):
            step(store, dice, state)
        assert look(store, seen)
        assert shown(seen) == shown(fresh(store))
    with reading(store.engine) as tx:
        everyone = cards(tx, ledgers.BOARD, limit=None).cards
    assert Counter(card.status for card in everyone) == +seen.counts
    assert {card for card in everyone if card.status not in {"done", "archived"}} == set(seen.cards.values())


def test_where_nothing_changed_nothing_is_read(store, asked):
    """But where the log ends, and when hosts swept last."""
    store.append(given.created(), given.claimed(1))
    seen = fresh(store)
    asked.clear()
    assert not look(store, seen)
    assert not [said for said in asked if any(name in said for name in ("events", "tasks", "cards", "runs", "held"))]


def test_what_changed_is_read_and_no_more(store, asked):
    """No statement lists the board once it is known."""
    store.append(given.created(), task="t_a")
    store.append(given.created(), task="t_b")
    seen = fresh(store)
    asked.clear()
    store.append(given.blocked(), task="t_b")
    asked.clear()
    assert look(store, seen)
    (listed,) = [said for said in asked if "FROM cards" in said]
    assert "task IN" in listed


def test_a_board_that_went_far_ahead_is_read_whole(store, monkeypatch):
    """And so is one whose log ends before what is known: a copy was put in its place."""
    seen = fresh(store)
    monkeypatch.setattr(w, "FURTHEST", 3)
    for number in range(5):
        store.append(given.created(), task=f"t_{number}")
    assert look(store, seen)
    assert shown(seen) == shown(fresh(store))
    seen.position = 99
    assert look(store, seen)
    assert shown(seen) == shown(fresh(store))


def test_a_tick_is_a_change_although_it_is_no_event(store):
    """Leases are renewed and reasons stored without one."""
    store.append(given.created(), given.claimed(1), task="t_a")
    store.append(given.created(), task="t_b")
    seen = fresh(store)
    (run,) = seen.live
    assert (run.task, run.run, run.worker, run.lease_until) == ("t_a", 1, "builder", given.NOW + 900 * SECOND)
    store.sql("INSERT INTO leases VALUES ('b', 't_a', 1, 77, NULL)")
    store.sql("INSERT INTO held VALUES ('b', 't_b', 'at_capacity', NULL, 0)")
    assert not look(store, seen)
    store.sql("INSERT INTO sweeps VALUES ('b', 'node-1', 5, NULL, 0)")
    store.sql("INSERT INTO sweeps VALUES ('b', 'node-2', 6, NULL, 0)")
    assert look(store, seen)
    assert seen.ticks == (("node-2", 6), ("node-1", 5))
    assert seen.live == [run._replace(lease_until=77)]
    assert seen.waiting == {"t_b": "at_capacity"}


def test_held_cards_say_what_was_counted_and_what_was_said(store):
    """A reason that was redacted is none."""
    store.append(given.created(), given.budget_blocked(), task="t_a")
    store.append(given.created(priority=1), given.blocked(reason="needs a key"), task="t_b")
    seen = fresh(store)
    assert seen.held == [
        ("t_b", "builder", "operator", None, None, "needs a key"), ("t_a", "builder", "failure_budget", 2, 2, None),
    ]  # fmt: skip
    store.sql("DELETE FROM words")
    assert [each.reason for each in fresh(store).held] == [None, None]


def test_the_last_events_are_kept(store, monkeypatch):
    """So many of them, in order, whether they came one by one or all at once."""
    monkeypatch.setattr(w, "EVENTS", 4)
    slow = Watched(ledgers.BOARD)
    for number in range(6):
        store.append(given.created(), given.commented(), task=f"t_{number}")
        look(store, slow)
    assert [each.position for each in list(slow.events)[-4:]] == [10, 11, 12, 13]
    assert [each.position for each in fresh(store).events] == [10, 11, 12, 13]


def test_many_cards_at_once(store, monkeypatch):
    """More than one statement takes; those that are not there are left out, and the board itself is no card."""
    monkeypatch.setattr("projections.touched._CHUNK", 2)
    store.append(given.created(), task="t_p")
    for number in range(5):
        store.append(given.created(parents=["t_p"]), task=f"t_{number}")
    before = store.head().position
    store.append(given.policy_changed(), task="")
    store.append(given.completed(None), task="t_p")
    with reading(store.engine) as tx:
        moved = touched(tx, ledgers.BOARD, before, before + 2)
        assert moved == {"t_p", *(f"t_{number}" for number in range(5))}
        assert touched(tx, ledgers.BOARD, before, before + 1) == set()
        assert {card.id for card in lines(tx, ledgers.BOARD, moved | {"t_nowhere"})} == moved
        assert tx.execute(text("SELECT count(*) FROM tasks")).scalar() == 6
