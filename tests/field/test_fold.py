"""Live and replayed answers that differed, events nobody could read any more, rebuilds that hung (RULES §2–3, §9)."""

import random
import time

import pytest
from hypothesis import given as each
from hypothesis import strategies as st
from sqlalchemy import text

from ledger import writes
from ledger.database import reading, sqlite_module, writing
from ledger.errors import NewerSchema, StoreFault, UnknownKind, Unreadable
from ledger.recorded import Draft
from ledger.schema import events
from ledger.store import append
from projections import tables
from projections.compared import rows
from projections.read_models import PROJECTIONS, apply, rebuild
from projections.task import status
from projections.world import World
from tests import fleets, given
from tests.field.stories import die, go
from tests.rules.world import WorldView

MOVES = (
    "crash",
    "clean",
    "quota",
    "deploy",
    "complete",
    "block",
    "unblock",
    "reopen",
    "archive",
    "edit",
    "later",
    "link",
)


def lived(moves):
    """A board on which *moves* were tried, one after the other; what a rule refuses did not happen."""
    from kanban.commands import AddLink, Archive, Block, Complete, Edit, Reopen, Unblock
    from ledger.errors import LedgerError

    world = WorldView()
    for name in ("t_a", "t_b"):
        world.create(name)
    codes = {"crash": 3, "clean": 0, "quota": 75, "deploy": 143}
    commands = {
        "complete": Complete, "block": lambda task: Block(task, "wait"), "unblock": Unblock, "reopen": Reopen,
        "archive": lambda task: Archive(task, "keep"), "edit": lambda task: Edit(task, {"max_retries": 4}),
        "link": lambda task: AddLink(task, "t_a" if task == "t_b" else "t_b"),
    }  # fmt: skip
    for task, move in moves:
        try:
            match move:
                case "later":
                    world.later(5_000)
                case _ if move in codes:
                    go(world, codes[move], task)
                case _:
                    world.do(commands[move](task))
        except LedgerError:
            continue
    return world


LIVES = st.lists(st.tuples(st.sampled_from(("t_a", "t_b")), st.sampled_from(MOVES)), max_size=25)


def essence(world):
    """Everything of the cards but instants: status, counters, holds, runs, links."""
    cards = world.tasks
    return {
        name: (status(card), card.failures, card.streak, card.spent, card.neutral, card.runs, card.hold, card.last_run,
               card.outcome, card.open_parents, card.version, card.position)
        for name, card in cards.items()
    }  # fmt: skip


@each(LIVES)
def test_live_and_replayed_answers_are_equal(moves):
    """B63: event by event, all at once, cut anywhere: one and the same board."""
    live = lived(moves)
    whole, cut = World(), World()
    whole.take(live.log)
    middle = len(live.log) // 2
    cut.take(live.log[:middle])
    cut.take(live.log[middle:])
    for other in (whole, cut):
        assert (other.tasks, other.runs, other.settings) == (live.world.tasks, live.world.runs, live.world.settings)


@each(LIVES)
def test_a_board_that_is_folded_in_place_is_the_same_board(moves):
    """B63: an audit keeps no earlier state of a card; what it folds is what everybody else folds."""
    live, placed = lived(moves), World(in_place=True)
    for event in live.log:
        placed.evolve(event)
        if event.task:
            card, copy = placed.tasks[event.task], placed.tasks[event.task].frozen()
            assert (status(card), card.worker, card.closed) == (status(copy), copy.worker, copy.closed)
    assert {name: card.frozen() for name, card in placed.tasks.items()} == live.world.tasks
    assert {key: run.frozen() for key, run in placed.runs.items()} == live.world.runs
    for table in PROJECTIONS:
        assert placed.rows(table) == live.world.rows(table)
        assert list(rows(placed, table.name)) == list(rows(live.world, table.name))


@each(LIVES, st.randoms(use_true_random=False))
def test_order_is_that_of_positions_and_never_of_times(moves, chance):
    """B63: instants shuffled, positions kept: the same statuses, counters, holds and runs."""
    live = lived(moves)
    times = [event.at for event in live.log]
    chance.shuffle(times)
    shuffled = World()
    shuffled.take([event._replace(at=at) for event, at in zip(live.log, times, strict=True)])
    assert essence(shuffled) == essence(live.world)


def test_no_fold_asks_what_time_it_is(fleet, monkeypatch):
    """B63: with every clock broken a log folds as ever; so does the same log in a second."""
    world = lived([("t_a", move) for move in MOVES] * 3)
    frozen = [event._replace(at=given.NOW) for event in world.log]

    def broken(*_):
        raise AssertionError("a fold asked for the time")

    for name in ("time", "time_ns", "monotonic"):
        monkeypatch.setattr(time, name, broken)
    monkeypatch.setattr(random, "random", broken)
    for log in (world.log, frozen):
        folded = World()
        folded.take(log)
        assert essence(folded) == essence(world.world)
    monkeypatch.undo()


def test_an_end_of_a_card_ends_its_run(world):
    """B21: lost, claimed again, completed by a person with force: no open run is left, the card is done."""
    from dataclasses import replace

    from kanban.commands import Complete

    world.create()
    world.claim(by="hand")
    world.later(961)
    world.settle()
    world.claim()
    world.do(replace(Complete("t_a", "I did"), force=True))
    die(world, 143)
    assert (world.status(), world.card().run, world.live()) == ("done", None, ())
    assert [run.outcome for run in world.world.runs.values()] == ["lost", "interrupted"]


def test_a_claim_and_a_status_cannot_disagree(fleet):
    """B21: status is computed from the run itself: a row that somebody changed is named, with what it should be."""
    card = fleet.create(assignee=None)
    fleet.board.claim(card)
    fleet.spoilt = True
    with writing(fleet.board.engine) as tx:
        tx.execute(text("UPDATE tasks SET run = NULL WHERE task = :task"), {"task": card})
    assert fleet.card(card)["status"] == "ready", "the view follows its row"
    (found,) = [each for each in fleet.board.replay().divergences if each.task == card]
    assert (found.stored, found.computed, found.position) != (None, None, None)
    fleet.board.rebuild()
    assert (fleet.card(card)["status"], fleet.board.replay().divergences) == ("running", ())


def stored(fleet, card, **columns):
    """The card's last event as another program has left it."""
    fleet.spoilt = True
    with sqlite_module().connect(fleet.home / "ledger.db") as other:
        other.execute("DROP TRIGGER events_no_update")
        names = ", ".join(f"{name} = :{name}" for name in columns)
        last = "(SELECT max(position) FROM events WHERE task = :task)"
        other.execute(f"UPDATE events SET {names} WHERE position = {last}", columns | {"task": card})
    other.close()


@pytest.mark.parametrize(
    ("columns", "kind", "said"),
    [({"kind": "teleported"}, UnknownKind, "teleported"), ({"schema": 99}, NewerSchema, "schema 99")],
)
def test_an_event_of_a_newer_program_stops_its_card_alone(ledger, fleet, columns, kind, said):
    """B61: never skipped in silence: named by position and kind, exit 7 or 8; every other card goes on."""
    old, other = fleet.create(), fleet.create(assignee=None)
    fleet.board.comment(old, "hello")
    stored(fleet, old, **columns)
    found = [each for each in fleet.board.replay().divergences if each.task == old]
    assert any(said in f"{each.stored} {each.computed} {each.rule}" or each.position for each in found)
    assert ledger("replay").code == 7
    with pytest.raises(Unreadable) as caught:
        rebuild(fleet.board.engine, "default")
    assert isinstance(caught.value, kind)
    assert said in str(caught.value)
    assert fleet.board.claim(other).run == 1
    assert fleet.card(other)["status"] == "running"


def test_a_rebuild_that_cannot_read_an_event_leaves_what_was_there(fleet):
    """B61: old rows are better than none: a rebuild that fails swaps nothing."""
    card = fleet.create()
    fleet.board.comment(card, "hello")
    stored(fleet, card, schema=99)
    before = fleet.card(card)
    with pytest.raises(Unreadable):
        fleet.board.rebuild()
    assert fleet.card(card) == before


def test_a_lived_log_reads_the_same_by_every_way(fleet):
    """B61: stored rows, refold and rebuild say one thing, in values and in types."""
    card = fleet.create(labels=["a", "b"], max_retries=3, priority=5, key="k")
    granted = fleet.board.claim(card)
    fleet.board.review(card, "look", reviewer="dana", lock=granted.lock)
    shown, stats = fleet.board.show(card), fleet.board.stats()
    digest = fleet.board.replay().digest
    fleet.board.rebuild()
    assert (fleet.board.show(card), fleet.board.stats(), fleet.board.replay().digest) == (shown, stats, digest)


def test_a_board_without_cards_is_rebuilt(fleet):
    """B60: no event of a card is a normal case: rebuilt and audited, at once."""
    assert fleet.board.rebuild() == 2
    assert (fleet.board.replay().divergences, fleet.board.tasks()["tasks"]) == ((), [])


def test_readers_see_no_empty_board_while_it_is_rebuilt(fleet, monkeypatch):
    """B60: the new rows are made beside the old ones: whoever looks meanwhile sees all of them, as they were."""
    for number in range(30):
        fleet.create(f"card {number}")
    looked, original = [], World.take
    reader = fleet.another()

    def looking(self, *args, **kwargs):
        looked.append(len(reader.tasks()["tasks"]))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(World, "take", looking)
    fleet.board.rebuild()
    looked.append(len(reader.tasks()["tasks"]))
    assert set(looked) == {30}


def test_a_card_with_a_very_long_past_can_go_on_and_stop(fleet):
    """B60: twelve thousand events on one card: read, explained, claimed and completed, not folded anew each time."""
    card = fleet.create(assignee=None)
    drafts = [Draft.of(card, given.commented(f"{number}"), given.OPERATOR) for number in range(1_000)]
    with writing(fleet.board.engine) as tx:
        for step in range(12):
            apply(tx, "default", append(tx, "default", drafts, expected=1 + 1_000 * step, at=fleet.clock()))
    with fleets.at_once():
        granted = fleet.board.claim(card)
        fleet.board.heartbeat(card, lock=granted.lock)
        fleet.board.complete(card, "done", lock=granted.lock)
        assert fleet.board.tasks(status="done")["tasks"][0]["id"] == card
    found = fleet.board.replay()
    assert (found.divergences, found.events > 12_000, found.events_per_second > 0) == ((), True, True)


def test_a_replay_says_how_far_and_how_fast(fleet):
    """B60: progress is told, there is no limit of time, and the end of the log is an end."""
    for number in range(20):
        fleet.create(f"card {number}")
    told = []
    found = fleet.board.replay(progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (22, 22)
    assert found.position == fleet.board.stats()["position"] == 22


def test_a_half_applied_append_cannot_be(fleet, monkeypatch):
    """B21: events and rows are one transaction: where the rows fail, the events are not there either."""

    sent, send = [], writes._Part.send

    def failing(part, tx):
        if part.saying.table is tables.tasks:
            raise StoreFault("no")
        sent.append(part.saying.table)
        send(part, tx)

    card = fleet.create()
    before = fleet.board.stats()["position"]
    monkeypatch.setattr(writes._Part, "send", failing)
    with pytest.raises(StoreFault):
        fleet.board.comment(card, "hello")
    assert events in sent
    monkeypatch.undo()
    assert fleet.board.stats()["position"] == before
    with reading(fleet.board.engine) as tx:
        assert tx.execute(text("SELECT count(*) FROM events WHERE task = :task"), {"task": card}).scalar() == 1
