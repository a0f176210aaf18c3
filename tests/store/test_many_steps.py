"""Many steps of a plan in one transaction: few statements, and what each alone would have come to (RULES §7)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kanban.applying import Booker, renewed
from kanban.at_desk import at_desk
from kanban.commands import Decision
from kanban.desk import Desk
from kanban.evidence import NO_EVIDENCE
from kanban.outcome import Verb
from kanban.plan import AskStop, Book, Forget, Lease, Lift, Renew, Seen, Signal
from kanban.processes import Presence
from kanban.tick import Tick
from ledger.events import Actor, Outcome
from projections import tables
from tests import given
from tests.sent import sent
from tests.store.test_projections import assert_refolded

BOOKER = Booker(Actor(kind="sweep", name="sweep", host="desk"), "desk:1")
GONE = Seen(Presence.GONE, evidence=NO_EVIDENCE)
ROWS = (tables.tasks, tables.runs, tables.links, tables.leases, tables.held)


class Undone(Exception):
    """The transaction is over, and nothing of it stays."""


def running(store, cards):
    """As many cards, each with an open run whose process is bound; their runs."""
    ids = [f"t_{number:03}" for number in range(cards)]
    with at_desk(store.engine, "b", store.clock) as desk:
        for card in ids:
            begun = given.created(), given.claimed(1, by="spawn"), given.worker_bound(1)
            desk.write(Decision(tuple(given.draft(event, task=card) for event in begun)))
        return [desk.run(card, 1) for card in ids]


def ends(runs, outcome=Outcome.CRASHED):
    """A death of each."""
    return [Book(run, outcome, GONE, Lease(run.lease_until, None, row=True)) for run in runs]


def apply(store, steps, how=Booker.apply):
    """Do *steps*; what is told of them."""
    with at_desk(store.engine, "b", store.clock) as desk:
        tick = Tick(desk.now)
        left = how(BOOKER, tick, desk, steps)
    return tick, left


def leased(store):
    """The cards whose runs have a lease."""
    return sorted(row["task"] for row in store.rows(tables.leases))


@pytest.fixture
def mixture(store):
    """Steps of every kind, on cards that wait for one another."""
    runs = running(store, 8)
    store.append(given.created(parents=["t_001"]), task="t_child")
    store.append(given.stop_requested(1, wish=given.wish("block", kind=None)), task="t_001")
    store.append(given.stop_requested(1, wish=given.wish(children=None)), task="t_002")
    store.append(given.completed(1), task="t_003")
    store.append(given.created(), given.budget_blocked(), task="t_held")
    with at_desk(store.engine, "b", store.clock) as desk:
        idle, wished = desk.run("t_001", 1), desk.run("t_002", 1)
    return [
        *ends(runs[:1]),
        *ends([idle], Verb.COMPLETE),
        *ends([wished], Outcome.INTERRUPTED),
        *ends(runs[3:4]),  # it has ended by now
        Forget(runs[3]),
        AskStop(runs[4], "stalled", 7, 9),
        Signal(runs[4], 15),
        Renew(runs[5], given.NOW + 10**12),
        *ends(runs[6:8], Outcome.CLEAN),
        Lift("t_held", "reassigned"),
    ]


def test_steps_done_together_come_to_what_each_alone_comes_to(store, mixture):
    """In their order: the same words, events and rows, however they are sent."""
    found = []
    for how in (Booker._together, Booker._one_by_one):
        with suppress(Undone), at_desk(store.engine, "b", store.clock) as desk:
            tick = Tick(0)
            left = how(BOOKER, tick, desk, mixture)
            rows = [sorted(map(repr, desk.tx.execute(table.select()))) for table in ROWS]
            found.append((tick, left, [(event.task, event.kind) for event in desk._log._appended], rows))
            raise Undone
    assert [each[0].errors for each in found] == [[], []]
    assert found[0] == found[1]
    tick, left, events, _ = found[0]
    assert [each["task"] for each in tick.booked] == ["t_000", "t_001", "t_002", "t_006", "t_007"]
    assert [note.partition(":")[0] for note in tick.notes] == ["t_001"]
    assert renewed(left) == {("t_005", 1): given.NOW + 10**12}
    assert left == [step for step in mixture if isinstance(step, Signal | Renew)]
    assert [event for event in events if event[0] in {"t_001", "t_003", "t_held"}] == [
        ("t_001", "completed"),
        ("t_held", "unblocked"),
    ]


def test_the_lease_of_an_end_goes_whatever_it_is_booked_as(store):
    """RULES §7: its processes were seen gone, so by a verb or not, and booked by another before, nothing is kept."""
    runs = running(store, 6)
    store.append(given.completed(1), task="t_005")
    apply(store, [*ends(runs[:3]), *ends(runs[3:4], Verb.COMPLETE), *ends(runs[5:])])
    assert leased(store) == ["t_004"]
    assert_refolded(store)


@pytest.mark.parametrize("broken", [0, 3, 5])
def test_what_fails_leaves_nothing_and_the_others_are_done_and_told_once(store, monkeypatch, broken):
    """RULES §7: also where it comes out only once all of it was decided and some of it written."""
    runs = running(store, 6)
    write = Desk.write

    def cursed(self, decision, **how):
        recorded = write(self, decision, **how)
        if recorded[0].task == runs[broken].task:
            self.flush()
            raise ValueError("cursed")
        return recorded

    monkeypatch.setattr(Desk, "write", cursed)
    tick, _ = apply(store, ends(runs))
    sound = [run.task for run in runs if run is not runs[broken]]
    assert [each["task"] for each in tick.booked] == sound
    assert tick.errors == [{"task": runs[broken].task, "error": "ValueError: cursed"}]
    assert [event.task for event in store.read() if event.kind == "exited"] == sound
    assert leased(store) == [runs[broken].task]
    assert_refolded(store)


def test_many_ends_take_the_statements_of_a_few(store):
    """DESIGN §8: beside the rows themselves, nothing that is said to the store grows with the dead."""
    counts = []
    for number in (5, 45):
        runs = running(store, 50)[-number:] if not counts else [*all_open(store)][:number]
        with sent(store.engine) as said:
            apply(store, ends(runs))
        words = [" ".join(each.text.split()[:2]) for each in said]
        rows = ("INSERT", "UPDATE", "DELETE", "--") if store.is_file else ()  # a file takes them one by one
        counts.append(sorted(each for each in words if not each.startswith(rows or "\0")))
    assert counts[0] == counts[1]


def all_open(store):
    """The runs that are open."""
    with at_desk(store.engine, "b", store.clock) as desk:
        return [desk.run(run.task, run.run) for run in desk.live()]
