"""Appending and reading: versions, positions, instants, command ids, several writers, followers."""

from __future__ import annotations

import fcntl
import multiprocessing
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from ledger import store as log
from ledger.database import reading, savepoint, writing
from ledger.errors import InvalidText, StoreDamaged, UnknownBoard, WrongExpectedVersion
from ledger.recorded import Draft
from tests import given, ledgers
from tests.audits import outside
from tests.engines import on


class Cancelled(Exception):
    """Something goes wrong in the middle of a transaction."""


def texts(recorded):
    return [event.words["body"] for event in recorded]


def test_what_was_appended_is_what_is_read(store):
    """RULES §2: one event of every kind, the envelope, facts and words as they were given back."""
    appended = [event for example in given.EXAMPLES.values() for event in store.append(example)]
    assert store.read(after=1) == appended


def test_every_kind_reads_back_as_the_event_that_it_was(store):
    """RULES §2: facts and words together are the whole event."""
    appended = {kind: store.append(example)[0] for kind, example in given.EXAMPLES.items()}
    assert {kind: recorded.event() for kind, recorded in appended.items()} == dict(given.EXAMPLES)


@pytest.mark.parametrize("expected", [0, 2])
def test_a_wrong_expected_version_is_refused_and_names_both(store, expected):
    """The decision was based on another state."""
    store.append(given.created())
    with pytest.raises(WrongExpectedVersion, match=f"t_a is at version 1, expected {expected}") as caught:
        store.append(given.commented(), expected=expected)
    assert (caught.value.expected, caught.value.actual, caught.value.task) == (expected, 1, "t_a")


def test_a_refused_append_writes_nothing(store):
    """RULES §8: all of it or none."""
    store.append(given.created())
    before = (store.read(), store.head())
    with pytest.raises(WrongExpectedVersion):
        store.append(given.commented(), expected=0)
    assert (store.read(), store.head()) == before


def test_a_wrong_version_of_the_boards_own_stream_says_the_board(store):
    """The board's stream has no name that a person would know."""
    with pytest.raises(WrongExpectedVersion, match="the board is at version 1, expected 0"):
        store.append(given.paused(), expected=0)


def test_an_append_to_an_unknown_board_is_refused(store):
    """`ledger init` alone makes boards."""
    with pytest.raises(UnknownBoard, match="no board 'x' in this store"):
        store.append(given.created(), board="x", expected=0)


def test_one_append_is_one_stream(store):
    """RULES §2: an expected version is that of one stream."""
    drafts = [given.draft(given.commented(), task="t_a"), given.draft(given.commented(), task="t_b")]
    with pytest.raises(ValueError, match="one append is one stream"), writing(store.engine) as tx:
        log.append(tx, "b", drafts, expected=0, at=given.NOW)


def test_positions_run_through_all_cards_and_versions_through_each(store):
    """RULES §2: position 1, 2, 3… per board, version 1, 2, 3… per task."""
    store.append(given.created(), given.commented(), task="t_a")
    store.append(given.created(), task="t_b")
    store.append(given.commented(), task="t_a")
    assert [(event.position, event.task, event.version) for event in store.read(after=1)] == [
        (2, "t_a", 1),
        (3, "t_a", 2),
        (4, "t_b", 1),
        (5, "t_a", 3),
    ]


def written(tx, task):
    """A first event of *task* in the transaction of somebody else."""
    log.append(tx, "b", [given.draft(given.created(), task=task)], expected=0, at=given.NOW)


def cancelled(tx, task):
    """The same, but then it goes wrong."""
    written(tx, task)
    raise Cancelled


def test_a_transaction_that_was_rolled_back_leaves_no_hole(store):
    """RULES §2: positions have no gaps; nothing that is kept in memory survives a rollback."""
    with suppress(Cancelled), writing(store.engine) as tx:
        cancelled(tx, "t_a")
    store.append(given.created(), expected=0)
    assert [event.position for event in store.read()] == [1, 2]


def test_a_part_that_failed_alone_leaves_no_hole(store):
    """RULES §7: a fault on one card is reported and the others go on."""
    with writing(store.engine) as tx:
        for task, act in (("t_a", written), ("t_b", cancelled), ("t_c", written)):
            with suppress(Cancelled), savepoint(tx):
                act(tx, task)
    assert [(event.position, event.task) for event in store.read(after=1)] == [(2, "t_a"), (3, "t_c")]


def test_the_log_is_valid_after_all_that(store):
    """RULES §10: also for the independent reader."""
    for example in given.EXAMPLES.values():
        store.append(example, example if example.kind != "created" else given.commented())
    assert ledgers.faults(store) == []


def test_the_instant_never_goes_back(store):
    """RULES §2: never less than the `at` before it, also across cards."""
    store.append(given.created(), task="t_a", at=given.NOW + 50)
    store.append(given.created(), task="t_b", at=given.NOW + 10)
    assert [event.at for event in store.read()] == [given.NOW, given.NOW + 50, given.NOW + 50]


def test_an_event_has_the_instant_of_the_clock_that_was_passed_in(store):
    """Now is a parameter."""
    store.clock.advance(5)
    (event,) = store.append(given.created())
    assert event.at == given.NOW + 5 * given.SECOND


def test_an_event_names_its_actor(store):
    """RULES §8: every change has an actor."""
    (event,) = store.append(given.created(), actor=given.WORKER)
    assert (event.actor_kind, event.actor_name, event.actor_host) == ("worker", "builder", "node-1")


def test_several_actors_can_share_one_append(store):
    """RULES §7.1: wishes are applied in the same append, each with its own actor."""
    drafts = [given.draft(given.created(), actor=given.SWEEP), given.draft(given.commented(), actor=given.OPERATOR)]
    with writing(store.engine) as tx:
        recorded = log.append(tx, "b", drafts, expected=0, at=given.NOW)
    assert [event.actor_kind for event in recorded] == ["sweep", "operator"]


def test_every_event_has_a_salt_of_its_own(store):
    """RULES §10: a 32-byte salt; equal words have different digests."""
    one, two = store.append(given.commented("same"), given.commented("same"))
    assert len(one.salt) == 32
    assert one.words_digest != two.words_digest


def test_a_command_id_marks_the_first_event_of_its_append(store):
    """RULES §2: command id (optional)."""
    recorded = store.append(given.created(), given.commented(), command_id="c-1")
    assert [event.command_id for event in recorded] == ["c-1", None]


def test_a_command_id_finds_the_first_answer(store):
    """RULES §8: a repeat gets the first answer."""
    first, _ = store.append(given.created(), given.commented(), command_id="c-1")
    with reading(store.engine) as tx:
        assert log.by_command(tx, "b", "c-1") == first


def test_an_unknown_command_id_finds_nothing(store):
    """The command has not been given yet."""
    with reading(store.engine) as tx:
        assert log.by_command(tx, "b", "c-1") is None


def test_a_command_id_is_of_its_board(store):
    """Every key in the store starts with the board."""
    ledgers.new_board(store, "c", "c" * 32)
    store.append(given.created(), command_id="c-1", board="b")
    store.append(given.created(), command_id="c-1", board="c")
    with reading(store.engine) as tx:
        assert log.by_command(tx, "c", "c-1").board == "c"


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800"])
def test_a_command_id_that_no_store_can_keep_is_refused_by_name(store, bad):
    """RULES §10: NUL and lone surrogates are refused by name."""
    with pytest.raises(InvalidText, match="command_id"):
        store.append(given.created(), command_id=bad)


def test_an_event_is_found_by_its_position(store):
    """With its words."""
    store.append(given.created(), given.commented("third"))
    with reading(store.engine) as tx:
        assert log.at_position(tx, "b", 3).words == {"body": "third"}


def test_a_position_beyond_the_head_holds_nothing(store):
    """The log ends where its head says."""
    with reading(store.engine) as tx:
        assert log.at_position(tx, "b", 2) is None


def test_the_last_event_of_a_kind_is_found_in_its_stream(store):
    """Later ones of other kinds and of other cards do not matter."""
    store.append(given.commented("first"), given.commented("last"), given.archived(), task="t_a")
    store.append(given.commented("elsewhere"), task="t_b")
    with reading(store.engine) as tx:
        assert log.last_of_kind(tx, "b", "t_a", "commented").words == {"body": "last"}


def test_a_kind_that_never_happened_has_no_last(store):
    """Nothing is not an event."""
    with reading(store.engine) as tx:
        assert log.last_of_kind(tx, "b", "t_a", "commented") is None


def test_a_stream_is_read_alone_and_from_where_it_was_left(store):
    """*after* is a version."""
    store.append(given.created(), given.commented("one"), task="t_a")
    store.append(given.created(), task="t_b")
    store.append(given.commented("two"), task="t_a")
    with reading(store.engine) as tx:
        assert texts(log.read_task(tx, "b", "t_a", after=1)) == ["one", "two"]


def test_the_boards_own_stream_has_the_empty_name(store):
    """RULES §2: empty text, never NULL, for the board's own stream."""
    store.append(given.created())
    store.append(given.paused())
    with reading(store.engine) as tx:
        assert [event.kind for event in log.read_task(tx, "b", "")] == ["board_created", "paused"]


def test_a_log_is_read_in_order_however_its_rows_lie(store):
    """A restore may have written them in any order."""
    store.append(*(given.commented(str(n)) for n in range(3)))
    outside(
        store,
        "CREATE TEMPORARY TABLE kept AS SELECT * FROM events WHERE position = 2",
        "DELETE FROM events WHERE position = 2",
        "INSERT INTO events SELECT * FROM kept",
    )
    with reading(store.engine) as tx:
        for how in () if store.is_file else ("indexscan", "bitmapscan"):
            tx.exec_driver_sql(f"SET LOCAL enable_{how} = off")
        assert [event.position for event in log.read_board(tx, "b")] == [1, 2, 3, 4]


def test_a_log_is_read_between_two_positions_and_to_a_limit(store):
    """*after* is exclusive, *until* inclusive."""
    store.append(*(given.commented(str(n)) for n in range(9)))
    with reading(store.engine) as tx:
        parts = [
            texts(log.read_board(tx, "b", after=3, until=5)),
            texts(log.read_board(tx, "b", after=3, limit=1)),
        ]
    assert parts == [["2", "3"], ["2"]]


def test_a_store_names_its_boards(store):
    """In the order of their names."""
    ledgers.new_board(store, "a", "a" * 32)
    with reading(store.engine) as tx:
        assert log.board_names(tx) == ["a", "b"]


def test_boards_do_not_share_positions(store):
    """RULES §2: per board."""
    ledgers.new_board(store, "c", "c" * 32)
    store.append(given.created(), board="c")
    assert (store.head("b").position, store.head("c").position) == (1, 2)


def test_words_are_never_left_out_of_a_write(store):
    """RULES §10: words missing without a `redacted` are a divergence."""
    (event,) = given.history(given.created())
    with pytest.raises(StoreDamaged, match="position 1 would be written without its words"):
        log.words_row(event._replace(words_text=None))


@on("sqlite")
def test_a_writer_waits_its_turn_at_the_gate(store):
    """One fair gate before `BEGIN IMMEDIATE`, so that writers are not starved by a busy handler."""
    store.append(given.created())
    with Path(f"{store.path}.gate").open() as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        writer = threading.Thread(target=store.append, args=(given.commented(),))
        writer.start()
        writer.join(0.1)
        waited = writer.is_alive()
    writer.join()
    assert (waited, store.head().position) == (True, 3)


@pytest.fixture
def four_writers(store):
    """Four processes, each with 50 appends to a card of its own, all on one board."""
    spawn = multiprocessing.get_context("spawn")
    names = [f"t_{number}" for number in range(4)]
    writers = [spawn.Process(target=ledgers.append_many, args=(store.url, name, 50)) for name in names]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(50)
    assert [writer.exitcode for writer in writers] == [0] * 4
    return store


def test_several_processes_write_one_board_without_loss_holes_or_a_broken_chain(four_writers):
    """RULES §10: one gapless chain in commit order, whoever writes."""
    events = four_writers.read(after=1)
    wanted = {f"t_{task} {number}" for task in range(4) for number in range(50)}
    assert (len(events), set(texts(events)), ledgers.faults(four_writers)) == (200, wanted, [])


def test_a_follower_sees_each_event_once_and_in_order_while_another_writes(store):
    """Positions become visible in order, so nothing can appear behind a follower."""
    writer = threading.Thread(target=lambda: [store.append(given.commented(str(n))) for n in range(60)])
    over = False

    def wait():
        nonlocal over
        if over:
            return False
        writer.join(0.001)
        over = not writer.is_alive()
        return True

    writer.start()
    seen = texts(log.follow(store.engine, "b", after=1, page=7, wait=wait))
    writer.join()
    assert seen == [str(number) for number in range(60)]


def test_a_follower_waits_for_what_has_not_been_written_yet(store):
    """`wait` is called only when nothing is left to read."""
    later = [given.commented("later")]

    def wait():
        if not later:
            return False
        store.append(later.pop())
        return True

    assert texts(log.follow(store.engine, "b", after=1, wait=wait)) == ["later"]


def test_a_follower_waits_a_moment_by_itself(monkeypatch):
    """By default it looks five times a second, for ever."""
    waited = []
    monkeypatch.setattr(log.time, "sleep", waited.append)
    assert log._a_moment() is True
    assert waited == [0.2]


def test_a_draft_can_be_looked_at_as_if_it_were_recorded():
    """Decide folds its own events before the append."""
    draft = Draft.of("t_a", given.exited(3, "clean"), given.SWEEP)
    event = draft.as_if(position=9, version=4, at=5)
    assert (event.position, event.version, event.at, event.run, event.outcome) == (9, 4, 5, 3, "clean")
