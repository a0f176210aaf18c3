"""What a desk remembers of the board inside its lock: never what an append of its own has moved."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from kanban import Board, commands
from kanban import desk as desks
from kanban.at_desk import at_desk, looking
from kanban.commands import Decision
from kanban.desk import Desk
from kanban.refusals import Paused
from ledger import ids, standing
from ledger.errors import StoreFault, WrongExpectedVersion
from ledger.events import Event
from projections import leases, queries, tables
from tests import given
from tests.engines import on
from tests.sent import sent, trips
from tests.store.test_projections import APPENDS, CARDS
from tests.store.test_shelf import drafts_of


@pytest.fixture
def family(store):
    """A card with a running parent, and one that has nothing to do with them."""
    store.append(given.created(), given.claimed(), task="t_parent")
    store.append(given.created(parents=["t_parent"]), task="t_child")
    store.append(given.created(), given.claimed(), task="t_other")
    return store


def write(desk: Desk, *events: Event, task: str) -> None:
    desk.write(Decision(tuple(given.draft(event, task=task) for event in events)))


def test_a_card_that_waited_is_seen_free_once_its_parent_is_done(family):
    """RULES §3: inside one lock too; and it waits again once the parent is reopened."""
    with at_desk(family.engine, "b", family.clock) as desk:
        waits = [desk.task("t_child").open_parents]
        for event in (given.completed(), given.reopened()):
            write(desk, event, task="t_parent")
            waits.append(desk.task("t_child").open_parents)
    assert waits == [1, 0, 1]


def test_a_card_its_run_and_the_position_move_with_their_own_events(family):
    """What is read after an append is what the append made of it."""
    with at_desk(family.engine, "b", family.clock) as desk:
        assert desk.run("t_parent", 1).open
        before = desk.position
        write(desk, given.exited(), task="t_parent")
        assert not desk.run("t_parent", 1).open
        assert desk.task("t_parent").run is None
        assert desk.position == before + 1


def test_the_boards_own_events_move_its_settings(family):
    """A pause holds for the next decision inside the same lock."""
    with at_desk(family.engine, "b", family.clock) as desk:
        assert desk.settings.pauses == ()
        write(desk, given.paused(), task="")
        assert len(desk.settings.pauses) == 1


def test_no_card_or_run_is_read_again_after_an_append_to_another(family, monkeypatch):
    """DESIGN §8: fifty deaths in a tick read each card and run once."""
    read = Counter()
    for name in ("load_task", "load_run"):
        look = getattr(desks, name)
        monkeypatch.setattr(
            desks, name, lambda tx, board, *what, look=look: read.update([what]) or look(tx, board, *what)
        )
    with at_desk(family.engine, "b", family.clock) as desk:
        desk.know([desk.run("t_other", 1)])
        for task in ("t_parent", "t_other"):
            desk.task("t_other")
            desk.run("t_other", 1)
            write(desk, given.exited(), task=task)
        assert not desk.run("t_other", 1).open
    assert read == Counter([("t_other", 1), ("t_other",), ("t_parent",)])


def test_after_a_rollback_everything_is_read_anew(family):
    """A savepoint that was rolled back took its events with it."""
    with at_desk(family.engine, "b", family.clock) as desk:
        say = desk.tx.connection.cursor().execute
        say("SAVEPOINT part")
        write(desk, given.exited(), task="t_parent")
        say("ROLLBACK TO part")
        desk.forget()
        assert desk.run("t_parent", 1).open
        assert desk.task("t_parent").run == 1


def opened(store, home):
    """The board of *store*, as programs open it."""
    return Board.open(store.url, "b", environ={"LEDGER_HOME": str(home), "USER": "ann"}, cwd=home, clock=store.clock)


# A card read at once


def test_a_card_read_at_once_is_what_is_read_of_it_bit_by_bit(lend, engine_name):
    """Its fold, its open run, its links, its leases and where its stream ends."""

    @settings(max_examples=60 if engine_name == "sqlite" else 20, deadline=None)
    @drawn(APPENDS)
    def after(appends):
        with lend("founded") as store:
            with at_desk(store.engine, "b", store.clock) as desk:
                last = dict.fromkeys(CARDS, 0)
                for task, drawn_events in appends:
                    desk.write(Decision(tuple(drafts_of(task, drawn_events, last))))
            with at_desk(store.engine, "b", store.clock) as one, at_desk_of(store) as bits:
                for task in [*CARDS, "t_unknown"]:
                    one.know_one(task)
                    assert all_of(one, task) == all_of(bits, task)

    after()


def at_desk_of(store):
    """The same board for another reader, while a writer holds it."""
    return looking(store.engine, "b", store.clock)


def all_of(desk, task):
    """All that a decision may ask of *task*."""
    card = desk.task(task)
    run = None if card is None or card.run is None else desk.run(task, card.run)
    return card, run, desk.parents(task), desk.children(task), desk.is_leased(task), desk._version(task)


def test_what_is_told_of_a_card_that_was_read_at_once_is_what_its_rows_say(lend, engine_name):
    """However it moved since, in the same transaction: title, parents, hold and all."""

    @settings(max_examples=60 if engine_name == "sqlite" else 20, deadline=None)
    @drawn(APPENDS, st.sets(st.integers(0, 24)))
    def after(appends, read):
        with lend("founded") as store, at_desk(store.engine, "b", store.clock) as desk:
            last = dict.fromkeys(CARDS, 0)
            for turn, (card, drawn_events) in enumerate(appends):
                if turn in read and card:
                    desk.know_one(card)
                desk.write(Decision(tuple(drafts_of(card, drawn_events, last))))
                told = {task: desk.shown(task) for task in CARDS if desk.task(task) is not None}
                assert told == {task: queries.task(desk.tx, "b", task) for task in told}

    after()


def test_a_title_that_is_changed_or_redacted_is_told_as_it_is(store):
    """What was read before counts no more."""
    store.append(given.created("one"))
    titles = []
    with at_desk(store.engine, "b", store.clock) as desk:
        desk.know_one("t_a")
        titles.append(desk.shown("t_a")["title"])
        write(desk, given.edited(title="two"), task="t_a")
        titles.append(desk.shown("t_a")["title"])
        write(desk, given.redacted(desk.position), task="t_a")
        titles.append(desk.shown("t_a")["title"])
    assert titles == ["one", "two", None]


def test_a_card_that_was_appended_in_this_transaction_is_read_with_its_words(store):
    """What waits to be written is written first."""
    with at_desk(store.engine, "b", store.clock) as desk:
        write(desk, given.created(), task="t_p")
        write(desk, given.created("the child", parents=["t_p"]), task="t_c")
        write(desk, given.completed(), task="t_p")
        desk.know_one("t_c")
        assert desk.shown("t_c")["title"] == "the child"


def test_a_hold_is_told_with_its_reason(store):
    """Its words are not folded: they are read."""
    store.append(given.created())
    with at_desk(store.engine, "b", store.clock) as desk:
        desk.know_one("t_a")
        write(desk, given.blocked(reason="no key"), task="t_a")
        assert desk.shown("t_a")["hold"]["reason"] == "no key"


def test_a_card_that_was_linked_before_it_was_created_is_told_with_its_parents(store):
    """No command does that; a log may hold it."""
    with at_desk(store.engine, "b", store.clock) as desk:
        write(desk, given.created(), task="t_p")
        write(desk, given.linked("t_p"), task="t_a")
        write(desk, given.created(), task="t_a")
        assert desk.shown("t_a")["parents"] == ["t_p"]


def test_a_run_whose_row_cannot_be_read_is_missed_only_where_it_is_asked_for(store):
    """A comment needs no run."""
    store.append(given.created(), given.claimed())
    store.sql("UPDATE runs SET stops = '{'")
    with at_desk(store.engine, "b", store.clock) as desk:
        desk.know_one("t_a")
        assert desk.task("t_a").run == 1
        with pytest.raises(ValueError, match="Expecting"):
            desk.run("t_a", 1)


@on("postgresql")
def test_settings_that_were_changed_while_the_board_was_waited_for_are_read_as_they_are(store, monkeypatch):
    """A statement that waits for a lock sees all else as it was before the wait."""
    monkeypatch.setattr(standing, "_LOOKING", 0)

    def pauses():
        with at_desk(store.engine, "b", store.clock) as desk:
            return len(desk.settings.pauses)

    with ThreadPoolExecutor(1) as crew:
        with at_desk(store.engine, "b", store.clock) as desk:
            second = crew.submit(pauses)
            while not waits_for_a_lock(store):
                time.sleep(0.01)
            write(desk, given.paused(), task="")
        assert second.result() == 1


def waits_for_a_lock(store):
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return store.sql(waiting)[0][0] > 0


@on("postgresql")
def test_a_command_is_two_trips_to_the_server(store, tmp_path):
    """The board's lock with what is decided on, and what comes of it; the next card is asked for once time is told."""
    with opened(store, tmp_path) as board:
        card = board.create("a job").task["id"]
        own = board.claim(card)
        speaks = {"run": own.run, "lock": own.lock}
        verbs = [
            lambda: board.create("another job"),
            board.claim,
            lambda: board.heartbeat(card, **speaks),
            lambda: board.progress(card, "half of it", **speaks),
            lambda: board.comment(card, "well done"),
            lambda: board.complete(card, "all of it", **speaks),
            lambda: board.create("a third job"),
            lambda: board.claim_many(1),
        ]
        counted = []
        for verb in verbs:
            with trips() as made:
                verb()
            counted.append(len(made))
        assert counted == [2, 3, 3, 2, 2, 2, 2, 3]


@on("postgresql")
def test_a_batch_of_commands_is_two_trips_to_the_server(store, tmp_path):
    """However many they are: ten jobs that end cost what one costs."""
    with opened(store, tmp_path) as board:
        board.do_many([commands.Create(f"t_{number}", "a job") for number in range(20)])
        for most in (3, 10):
            claims = board.claim_many(most)
            with trips() as made:
                done = board.do_many([completing(each) for each in claims])
            assert [each.changed for each in done] == [True] * most
            assert len(made) == 2


def completing(claim):
    """The command with which its worker ends a claim."""
    return commands.Complete(claim.task, "ok", claim=commands.Credential(claim.lock, claim.run))


@pytest.mark.parametrize("named", [True, False])
def test_a_card_that_is_claimed_by_hand_is_held_no_longer(store, tmp_path, named):
    """What held it, and only it; a card that nothing held is claimed without asking for that to be deleted."""
    with opened(store, tmp_path) as board:
        card, other = (
            board.create(title, priority=priority).task["id"] for title, priority in (("one", 2), ("two", 1))
        )
        for each in (card, other):
            store.sql(f"INSERT INTO held VALUES ('b', '{each}', 'at_capacity', NULL, 6)")
        board.claim(card if named else None)
        assert [row["task"] for row in store.rows(tables.held)] == [other]
        free = board.create("three").task["id"]
        with sent(board.engine) as said:
            board.claim(free)
    assert not any("DELETE FROM held" in each.text for each in said)


def test_an_id_that_was_drawn_twice_is_refused_by_the_keys(store, tmp_path, monkeypatch):
    """Nobody looks whether a new card is there already; nothing of the second is left."""
    monkeypatch.setattr(ids, "task_id", lambda: "t_same")
    with opened(store, tmp_path) as board:
        board.create("the first")
        before = store.head()
        with pytest.raises((WrongExpectedVersion, StoreFault)):
            board.create("the second")
        assert board.show("t_same")["task"]["title"] == "the first"
    assert store.head() == before


# The next cards


def test_a_paused_board_is_said_to_be_so_at_its_first_card(store, tmp_path):
    """Nothing could be claimed of the others: they are not read."""
    for number in range(20):
        store.append(given.created(), task=f"t_{number:02}")
    store.append(given.paused(), task="")
    with opened(store, tmp_path) as board, sent(board.engine) as said:
        with pytest.raises(Paused):
            board.claim()
        assert sum("priority DESC" in statement.text for statement in said) == 1


def test_a_card_whose_lease_was_left_behind_is_claimed_all_the_same(store, tmp_path):
    """§7.7 asks for processes: a run that was never spawned here has none."""
    store.append(given.created(), given.claimed(), given.completed(1), given.reopened())
    with at_desk(store.engine, "b", store.clock) as desk:
        leases.grant(desk.rows, "b", "t_a", 1, until=store.clock())
    with opened(store, tmp_path) as board:
        assert board.claim().run == 2


def test_the_cards_behind_the_first_page_are_claimed_as_those_on_it(store, tmp_path):
    """A page is what is read at once, and no limit."""
    for number in range(5):
        store.append(given.created(assignee="bob" if number < 3 else "ann"), task=f"t_{number}")
    store.append(given.paused("assignee", "bob"), task="")
    with opened(store, tmp_path) as board:
        assert [granted.task for granted in board.claim_many(2)] == ["t_3", "t_4"]
    with at_desk(store.engine, "b", store.clock) as desk:
        assert len(list(islice(desk.live(), 9))) == 2
