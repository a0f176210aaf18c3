"""The past: every read at an earlier position is that of a rebuild which stopped there."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from sqlalchemy import select

from ledger.database import reading
from ledger.errors import UnknownBoard, UnknownKind, UnknownTask
from ledger.events import ENDINGS
from projections import folding, queries, snapshots, stretch, tables
from projections.past import past
from projections.places import Stretch
from projections.read_models import PROJECTIONS, rebuild
from projections.statistics import flow
from projections.why import TOPICS
from projections.world import World
from tests import given
from tests.audits import audit, named, outside
from tests.engines import on
from tests.store.test_projections import APPENDS, CARDS

LATER = given.NOW + 3_600_000_000


@pytest.fixture(autouse=True)
def near(monkeypatch):
    """Snapshots so near to each other that short logs have many, and never one at each position."""
    monkeypatch.setattr(snapshots, "SPACING", 4)


def told(tx):
    """All that people and programs are told of a board."""
    cards = [card["id"] for card in queries.list_tasks(tx, "b", limit=None)["tasks"]]
    lists = [queries.list_tasks(tx, "b", sort=sort, limit=2) for sort in ("priority", "created", "updated")]
    lists += [queries.list_tasks(tx, "b", status=status) for status in queries.STATUSES]
    lists += [queries.list_tasks(tx, "b", label="red"), queries.list_tasks(tx, "b", assignee="none")]
    rows = queries.cards(tx, "b", limit=None)
    of_cards = [(queries.show(tx, "b", card), queries.runs(tx, "b", card)) for card in cards]
    reasons = [queries.why(tx, "b", card, now=LATER, topic=topic) for card in cards for topic in (None, *TOPICS)]
    whole = [queries.board(tx, "b"), queries.stats(tx, "b", LATER), queries.held(tx, "b"), queries.next_at(tx, "b", 0)]
    end = queries.board(tx, "b")["position"]
    return lists, rows, of_cards, reasons, whole, flow(tx, "b", Stretch(0, end))


def rows_of(tx):
    """Every row of the projections."""
    found = {}
    for table in PROJECTIONS:
        rows = [dict(row) for row in tx.execute(select(table).where(table.c.board == "b")).mappings()]
        found[table.name] = sorted(({name: row[name] for name in row if name != "board"} for row in rows), key=repr)
    return found


def folded(events, position):
    """The rows that the log up to *position* folds to."""
    world = World()
    world.take(event for event in events if event.position <= position)
    found = {table.name: sorted(world.rows(table), key=repr) for table in PROJECTIONS}
    return found if position else found | {"settings": []}


class Sane:
    """Appends what a board could have written: one run of a card at a time, behind its end only what came too late."""

    def __init__(self, store):
        self.store = store
        self.last, self.live = dict.fromkeys(CARDS, 0), dict.fromkeys(CARDS)

    def play(self, appends):
        for task, drawn_events in appends:
            for event in drawn_events:
                self.append(task, given.claimed(self.last[task] + 1) if event == "claim" else event)

    def append(self, task, event):
        if not self.could_be(task, event):
            return
        if event.kind == "claimed":
            self.last[task] = self.live[task] = event.run
        if event.kind in ENDINGS:
            self.live[task] = None
        self.store.append(event, task=task)

    def could_be(self, task, event):
        run = getattr(event, "run", None)
        if event.kind == "claimed":
            return self.live[task] is None
        if event.kind == "late_result":
            return run <= self.last[task] and run != self.live[task]
        if event.kind in ENDINGS or event.kind in {"reopened", "archived", "created"}:
            return run == self.live[task]
        return run is None or run == self.live[task]


def test_at_every_position_the_rows_are_those_that_the_log_up_to_there_folds_to(lend, engine_name):
    """Any history at all, with any number of snapshots taken on the way."""

    @settings(max_examples=12 if engine_name == "sqlite" else 4, deadline=None)
    @drawn(APPENDS)
    def after(appends):
        with lend("founded") as store:
            sane, half = Sane(store), len(appends) // 2
            sane.play(appends[:half])
            snapshots.take(store.engine, "b")
            sane.play(appends[half:])
            snapshots.take(store.engine, "b", most=1)
            log = store.read()
            for position in range(len(log) + 1):
                with past(store.engine, "b", position) as tx:
                    assert rows_of(tx) == folded(log, position), position

    after()


@pytest.mark.parametrize("position", range(1, 24))
def test_every_answer_is_that_of_a_rebuild_which_stopped_there(board, lend, position):
    """Lists, board, show, why, stats, runs: the same code over the same rows."""
    snapshots.take(board.engine, "b")
    with past(board.engine, "b", position) as tx:
        found = told(tx)
    with lend("lived") as other:
        head = "head_position = events.position, head_at = events.at, head_hash = events.hash FROM events"
        outside(
            other,
            f"DELETE FROM words WHERE position > {position}",
            f"DELETE FROM events WHERE position > {position}",
            f"UPDATE boards SET {head} WHERE events.board = boards.board AND events.position = {position}",
        )
        rebuild(other.engine, "b")
        with reading(other.engine) as tx:
            assert found == told(tx)


def test_before_the_board_began_there_is_nothing(board):
    """Position 0: no card, and the log's end is its beginning."""
    with past(board.engine, "b", 0) as tx:
        assert queries.list_tasks(tx, "b")["tasks"] == []
        assert queries.stats(tx, "b", LATER)["position"] == 0
        with pytest.raises(UnknownTask):
            queries.show(tx, "b", "t_a")


@pytest.mark.parametrize("position", [23, 24, 2**60])
def test_behind_the_end_of_the_log_is_its_end(board, position):
    """What has not happened is not guessed."""
    with past(board.engine, "b", position) as tx:
        assert rows_of(tx) == folded(board.read(), 23)


def test_what_no_log_tells_is_not_told_of_the_past(board):
    """Leases, held reasons and sweeps are those of now, so nothing is said of then."""
    board.sql("INSERT INTO held VALUES ('b', 't_a', 'at_capacity', NULL, 6)")
    board.sql("INSERT INTO sweeps VALUES ('b', 'host', 5, NULL, 0)")
    with past(board.engine, "b", 22) as tx:
        assert queries.held(tx, "b") == {}
        assert queries.stats(tx, "b", LATER)["sweeps"] == []


def test_words_that_were_redacted_since_are_gone_from_the_past_too(board):
    """RULES §10: `redact` deletes them; no look at an earlier position brings them back."""
    outside(board, "DELETE FROM words WHERE position = 21")
    with past(board.engine, "b", 21) as tx:
        assert [comment["body"] for comment in queries.show(tx, "b", "t_a")["comments"]] == [None]


def test_nothing_of_a_look_at_the_past_stays(board):
    """The next transaction, on the same connection too, sees the board as it stands."""
    with past(board.engine, "b", 6):
        pass
    with reading(board.engine) as tx:
        assert rows_of(tx) == folded(board.read(), 23)
    board.append(given.commented("More"))
    assert audit(board).divergences == ()


def test_a_look_at_the_past_sees_nothing_that_is_appended_meanwhile(board):
    """One snapshot of the store, and writers wait for none."""
    with past(board.engine, "b", 23) as tx:
        board.append(given.commented("More"))
        assert queries.board(tx, "b")["position"] == 23


def test_a_board_that_is_not_there_has_no_past(store):
    """It is named, as everywhere."""
    with pytest.raises(UnknownBoard), past(store.engine, "x", 3):
        pass


def test_events_that_cannot_be_read_are_named(store):
    """RULES §2: never skipped in silence. Snapshots before them are taken, and any position before them is shown."""
    store.append(*[given.created()] * 4)
    store.append(given.created("Other"), task="t_b")
    outside(store, "UPDATE events SET kind = 'dreamt' WHERE position = 6")
    with pytest.raises(UnknownKind), past(store.engine, "b", 6):
        pass
    store.append(given.commented("x"), given.commented("y"), task="t_b")
    with pytest.raises(UnknownKind):
        snapshots.take(store.engine, "b")
    with past(store.engine, "b", 5) as tx:
        assert len(queries.list_tasks(tx, "b")["tasks"]) == 1


# Snapshots


def count(board, table=tables.snapshots):
    """How many rows of *table* there are, of every fold version."""
    return len(board.rows(table))


def test_snapshots_are_taken_where_the_log_has_grown_by_enough(board):
    """One for every so many events; twice is harmless."""
    assert snapshots.take(board.engine, "b") == 5
    assert [row["position"] for row in board.rows(tables.snapshots)] == [12, 16, 20, 4, 8]
    assert snapshots.take(board.engine, "b") == 0


def test_no_more_are_taken_than_asked_for(board):
    """So that a tick of the sweep stays short."""
    with reading(board.engine) as tx:
        assert snapshots.missing(tx, "b") == 5
    assert snapshots.take(board.engine, "b", most=2) == 2
    with reading(board.engine) as tx:
        assert (snapshots.missing(tx, "b"), snapshots.newest(tx, "b", 23)) == (3, 8)


def test_a_snapshot_of_another_fold_version_is_never_used(board, monkeypatch):
    """Whatever it says; and the next one that is taken throws away what earlier versions left, not later ones'."""
    snapshots.take(board.engine, "b")
    for table in tables.PAST:
        board.sql(f"UPDATE {table.name} SET fold = 7")
    board.sql("UPDATE past_tasks SET failures = 99")
    with past(board.engine, "b", 22) as tx:
        assert rows_of(tx) == folded(board.read(), 22)
    assert snapshots.take(board.engine, "b") == 5
    assert {row["fold"] for row in board.rows(tables.snapshots)} == {folding.FOLD_VERSION, 7}
    for module in (snapshots, stretch):
        monkeypatch.setattr(module, "FOLD_VERSION", 8)
    assert snapshots.take(board.engine, "b") == 5
    assert {row["fold"] for row in board.rows(tables.past_tasks)} == {8}


def test_a_snapshot_that_was_forged_shows_in_a_replay_of_that_past(board):
    """RULES §9: what is shown of the past is compared with the refold as what is shown of the present is."""
    snapshots.take(board.engine, "b")
    board.sql("UPDATE past_tasks SET failures = 9 WHERE task = 't_a' AND since = 16")
    told = "tasks.failures of t_a is 9, the log makes it 0"
    assert [(each.task, each.position, each.text) for each in audit(board, until=16).divergences] == [("t_a", 16, told)]
    assert named(audit(board, until=15)) == named(audit(board, until=22)) == []


def test_what_another_process_snapshots_meanwhile_is_not_snapshot_twice(board, monkeypatch):
    """Both folded the same stretch: the second one's rows are dropped."""
    fold = snapshots.moved

    def slow(tx, name, snapshot, until):
        monkeypatch.setattr(snapshots, "moved", fold)
        assert snapshots.take(board.engine, "b") == 5
        return fold(tx, name, snapshot, until)

    monkeypatch.setattr(snapshots, "moved", slow)
    snapshots.take(board.engine, "b", most=1)
    assert count(board) == 5
    with past(board.engine, "b", 21) as tx:
        assert rows_of(tx) == folded(board.read(), 21)


def test_what_was_forgotten_meanwhile_is_not_gone_on_with(board, monkeypatch):
    """A rebuild throws snapshots away: one that rests on them is not kept."""
    snapshots.take(board.engine, "b", most=2)
    fold = snapshots.moved

    def slow(tx, name, snapshot, until):
        found = fold(tx, name, snapshot, until)
        rebuild(board.engine, "b")
        return found

    monkeypatch.setattr(snapshots, "moved", slow)
    snapshots.take(board.engine, "b", most=1)
    assert count(board) == count(board, tables.past_tasks) == 0


def test_a_rebuild_throws_snapshots_away(board):
    """They are folded anew, as everything that is shown."""
    snapshots.take(board.engine, "b")
    rebuild(board.engine, "b")
    assert count(board) == count(board, tables.past_tasks) == 0


@on("sqlite")
def test_a_card_is_found_in_the_past_without_walking_the_log(board):
    """Plans: by its stream, and by the key of its rows."""
    snapshots.take(board.engine, "b")
    with past(board.engine, "b", 22) as tx:
        for query in (
            "SELECT * FROM events WHERE board = 'b' AND task = 't_a' AND version < 9 ORDER BY version DESC",
            "SELECT * FROM cards WHERE board = 'b' AND task = 't_a'",
        ):
            plan = [row[3] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
            assert not {"SCAN past_tasks", "SCAN main.events", "SCAN past_links"} & set(plan), plan
