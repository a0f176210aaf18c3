"""The stored projections: what is kept up event by event equals what the whole log folds to, always."""

from __future__ import annotations

import itertools
import threading
from dataclasses import astuple

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, text

from ledger.database import reading, writing
from ledger.errors import NewerSchema, UnknownBoard, UnknownKind
from projections import queries, read_models, tables
from projections.read_models import PROJECTIONS, load_run, load_settings, load_task, rebuild
from projections.rows import (
    RUN_COLUMNS,
    SETTINGS_COLUMNS,
    TASK_COLUMNS,
    run_changes,
    run_from,
    run_row,
    run_values,
    settings_of,
    settings_row,
    task_changes,
    task_from,
    task_row,
)
from projections.run import Run, evolve_run
from projections.settings import NEW_BOARD, Settings
from projections.task import Hold, Task, claimable, status
from tests import given, ledgers
from tests.audits import outside
from tests.sent import sent

CARDS = ["t_a", "t_b", "t_c"]
HOLD = Hold("failure_budget", None, sticky=False, count=2, limit=2, limit_source="policy", position=3)


def assert_refolded(store, board="b"):
    """Every stored row is the one that the whole log folds to."""
    world = store.world(board)
    for table in PROJECTIONS:
        assert store.rows(table, board) == sorted(world.rows(table), key=repr), table.name


# Histories of any shape

RUN = st.integers(1, 4)
OTHER = st.sampled_from([*CARDS, "t_unknown"])
REQUIRE = st.sampled_from(["ok", "any"])
VERDICT = st.sampled_from(["ok", "fail"])
OUTCOMES = ["crashed", "timed_out", "stalled", "spawn_failed", "clean", "rate_limited", "interrupted", "lost", "config"]
OF_A_CARD = st.one_of(
    st.builds(given.linked, OTHER, REQUIRE),
    st.builds(given.unlinked, OTHER, REQUIRE),
    st.builds(given.completed, st.none() | RUN, VERDICT),
    st.builds(given.reopened),
    st.builds(given.archived),
    st.just("claim"),
    st.just("claim"),
    st.just("claim"),
    st.builds(given.exited, RUN, st.sampled_from(OUTCOMES), not_before=st.none() | st.integers(0, 9), code=st.just(3)),
    st.builds(given.worker_bound, RUN, role=st.sampled_from(["group", "turns"]), pid=st.integers(1, 9)),
    st.builds(given.progressed, RUN, tokens=st.none() | st.integers(0, 9), cost=st.sampled_from([None, "0.10"])),
    st.builds(given.stop_requested, RUN, st.sampled_from(["operator", "stalled"])),
    st.builds(given.review_requested, RUN, reviewer=st.sampled_from([None, "critic", "eve"])),
    st.builds(given.changes_requested, st.none() | RUN),
    st.builds(given.blocked, st.none() | RUN, hold=st.booleans(), sticky=st.booleans(), count=st.just(2)),
    st.builds(given.unblocked, st.sampled_from(["operator", "limit_raised", "reassigned"])),
    st.builds(given.assigned, st.sampled_from([None, "ann", "bob"]), role=st.sampled_from(["assignee", "reviewer"])),
    st.builds(given.edited, title=st.just("new"), max_runtime=st.none() | st.integers(1, 9), labels=st.just(["x"])),
    st.builds(given.edited, lane=st.sampled_from(["triage", "work"]), goal=st.none() | st.just({"max_turns": 2})),
    st.builds(given.scheduled, st.integers(0, 9)),
    st.builds(given.late_result, RUN, VERDICT),
    st.sampled_from([given.EXAMPLES["commented"], given.EXAMPLES["violation"], given.EXAMPLES["redacted"]]),
    st.builds(
        given.created, parents=st.lists(st.tuples(OTHER, REQUIRE), max_size=3), lane=st.sampled_from(["work", "triage"])
    ),
)
OF_THE_BOARD = st.one_of(
    st.builds(given.paused, st.sampled_from(["assignee", "host"]), st.sampled_from("xy"), drain=st.booleans()),
    st.builds(given.resumed, st.sampled_from(["assignee", "host"]), st.sampled_from("xy")),
    st.builds(given.policy_changed, failure_limit=st.integers(1, 9)),
)
APPENDS = st.lists(
    st.tuples(st.sampled_from(CARDS), st.lists(OF_A_CARD, min_size=1, max_size=3))
    | st.tuples(st.just(""), st.lists(OF_THE_BOARD, min_size=1, max_size=2)),
    max_size=25,
)


def play(store, appends):
    """Append what was drawn; claims get the card's next number, as every claim does."""
    last = dict.fromkeys(CARDS, 0)
    for task, drawn_events in appends:
        events = []
        for event in drawn_events:
            if event == "claim":
                last[task] += 1
            events.append(given.claimed(last[task], quota=("q",)) if event == "claim" else event)
        store.append(*events, task=task)


def test_what_is_stored_is_what_the_log_folds_to(lend, engine_name):
    """RULES §9: every stored column equals the refold, after any history at all (evolve is total)."""

    @settings(max_examples=100 if engine_name == "sqlite" else 25)
    @drawn(APPENDS)
    def after(appends):
        with lend("founded") as store:
            play(store, appends)
            assert_refolded(store)
            rebuild(store.engine, "b")
            assert_refolded(store)

    after()


def test_open_parents_is_the_number_of_links_that_are_not_satisfied(lend, engine_name):
    """RULES §3: counted anew from links and outcomes, by the rule's own words."""

    @settings(max_examples=40 if engine_name == "sqlite" else 10)
    @drawn(APPENDS)
    def after(appends):
        with lend("founded") as store:
            play(store, appends)
            outcomes = {row["task"]: row["outcome"] for row in store.rows(tables.tasks)}
            links, rows = store.rows(tables.links), store.rows(tables.tasks)
            for row in rows:
                wanted = [link for link in links if link["child"] == row["task"]]
                open_ones = [
                    link
                    for link in wanted
                    if outcomes.get(link["parent"]) not in {"ok", "fail" if link["require"] == "any" else "ok"}
                ]
                assert row["open_parents"] == len(open_ones)

    after()


def test_a_loaded_card_is_the_folded_card(store):
    """Loading a row *is* loading the fold."""
    store.append(given.created(parents=["t_p"], labels=("x",)), given.claimed(), given.exited(), given.blocked())
    with reading(store.engine) as tx:
        assert load_task(tx, "b", "t_a") == store.world().task("t_a")


def test_a_loaded_run_is_the_folded_run(store):
    """Loading a row *is* loading the fold."""
    store.append(
        given.created(), given.claimed(quota=("q",)), given.worker_bound(), given.stop_requested(), given.exited()
    )
    with reading(store.engine) as tx:
        assert load_run(tx, "b", "t_a", 1) == store.world().runs["t_a", 1]


def test_loaded_settings_are_the_folded_settings(store):
    """Loading a row *is* loading the fold."""
    store.append(given.paused(drain=True), given.policy_changed(lease=5))
    with reading(store.engine) as tx:
        assert load_settings(tx, "b") == store.world().settings


def test_what_is_not_there_loads_as_nothing(store):
    """An unknown card, run or board."""
    with reading(store.engine) as tx:
        found = (load_task(tx, "b", "t_a"), load_run(tx, "b", "t_a", 1), load_settings(tx, "x"))
    assert (*found, store.world().task("t_a")) == (None, None, NEW_BOARD, None)


def test_an_append_answers_with_the_card_as_it_is_now(store):
    """RULES §8: decide, append, evolve."""
    store.append(given.created(), task="t_p")
    drafts = [given.draft(given.created(parents=["t_p"]))]
    with writing(store.engine) as tx:
        task = read_models.apply(tx, "b", ledgers.log.append(tx, "b", drafts, expected=0, at=given.NOW))
    assert (task, task.open_parents) == (store.world().task("t_a"), 1)


def test_a_new_max_runtime_is_stored_with_the_open_run(store):
    """RULES §2: a new max_runtime holds for the open run too."""
    store.append(given.created(), given.claimed())
    store.append(given.edited(max_runtime=60))
    with reading(store.engine) as tx:
        assert load_run(tx, "b", "t_a", 1).max_runtime == 60


@pytest.mark.parametrize("kind", given.EXAMPLES)
def test_every_kind_is_stored_as_it_is_folded(store, kind):
    """RULES §9: on a card with a run that is open."""
    store.append(given.created(), given.claimed(1), given.worker_bound(1), given.scheduled())
    store.append(given.EXAMPLES[kind])
    assert_refolded(store)


def test_a_child_that_was_there_first_sees_its_parent_finish_in_one_append(store):
    """RULES §3: touched only in `open_parents`."""
    store.append(given.created(parents=["t_p"]))
    store.append(given.created(), given.completed(None), task="t_p")
    with reading(store.engine) as tx:
        assert load_task(tx, "b", "t_a").open_parents == 0


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([given.linked("t_q")], 2),
        ([given.unlinked("t_p")], 0),
        ([given.linked("t_p", "any")], 1),
        ([given.unlinked("t_q")], 1),
        ([given.linked("t_q"), given.unlinked("t_p"), given.unlinked("t_q")], 0),
    ],
    ids=["link", "unlink", "again", "unlink a stranger", "all in one append"],
)
def test_links_are_counted_as_they_come_and_go(store, events, left):
    """RULES §3 row 6: a parent is not satisfied."""
    store.append(given.created(parents=["t_p"]))
    store.append(*events)
    (row,) = store.rows(tables.tasks)
    assert row["open_parents"] == left


def test_a_parents_end_touches_only_the_count_of_its_child(store):
    """RULES §3: a card's row is touched by another card's event only in `open_parents`."""
    store.append(given.created(parents=["t_p"]))
    (before,) = store.rows(tables.tasks)
    store.append(given.created(), given.completed(None), task="t_p")
    after = next(row for row in store.rows(tables.tasks) if row["task"] == "t_a")
    assert after == before | {"open_parents": 0}


def test_a_card_that_waits_for_itself_does_not_hang_and_is_refolded(store):
    """RULES §3: a ring already in a log must not hang a fold."""
    store.append(given.created(), given.linked("t_a"))
    store.append(given.completed(None), given.linked("t_b"))
    assert_refolded(store)
    store.append(given.reopened())
    assert_refolded(store)


def test_boards_do_not_touch_each_other(store):
    """Every key in the store starts with the board."""
    ledgers.new_board(store, "c", "c" * 32)
    for board in ("b", "c"):
        store.append(given.created(parents=["t_p"]), given.claimed(), board=board)
    store.append(given.created(), given.completed(None), task="t_p", board="c")
    assert_refolded(store, "b")
    assert_refolded(store, "c")


def test_an_unknown_kind_stops_the_fold_of_the_board(store):
    """RULES §2: an event that a newer program wrote is never skipped in silence."""
    store.append(given.created(), given.commented())
    outside(store, "UPDATE events SET kind = 'sung' WHERE position = 3")
    with pytest.raises(UnknownKind, match="position 3"):
        rebuild(store.engine, "b")


def test_a_newer_schema_stops_the_fold_of_the_board(store):
    """RULES §2: also of a kind whose facts no fold reads."""
    store.append(given.created(), given.commented())
    outside(store, "UPDATE events SET schema = 2 WHERE position = 3")
    with pytest.raises(NewerSchema, match="position 3"):
        rebuild(store.engine, "b")


# Rebuilding


@pytest.fixture
def busy(store):
    """A board with cards, links, runs and pauses."""
    store.append(given.created(), given.claimed(), given.completed(1), task="t_p")
    store.append(given.created(parents=["t_p", "t_q"]), given.claimed(), given.worker_bound(), given.exited())
    store.append(given.paused("host", "h"))
    return store


def test_a_rebuild_answers_with_the_position_that_it_reached(busy):
    """A checkpoint."""
    assert rebuild(busy.engine, "b") == busy.head().position


def test_a_rebuild_gives_the_same_rows(busy):
    """RULES §11: projections disposable."""
    before = [busy.rows(table) for table in PROJECTIONS]
    rebuild(busy.engine, "b")
    assert [busy.rows(table) for table in PROJECTIONS] == before


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE tasks SET failures = 99",
        "UPDATE tasks SET open_parents = 7",
        "UPDATE runs SET outcome = 'ok'",
        "UPDATE links SET require = 'any'",
        "UPDATE settings SET pauses = '[]'",
        "DELETE FROM tasks",
        "DELETE FROM settings",
        "INSERT INTO links VALUES ('b', 't_x', 't_y', 'ok')",
    ],
)
def test_a_rebuild_mends_what_somebody_spoilt(busy, spoil):
    """RULES §11: the log is the truth."""
    busy.sql(spoil)
    rebuild(busy.engine, "b")
    assert_refolded(busy)


def test_a_rebuild_leaves_the_other_boards_alone(busy):
    """Every key in the store starts with the board."""
    ledgers.new_board(busy, "c", "c" * 32)
    busy.append(given.created(), board="c")
    busy.sql("UPDATE tasks SET failures = 99")
    rebuild(busy.engine, "b")
    assert [row["failures"] for row in busy.rows(tables.tasks, "c")] == [99]


def test_a_rebuild_of_an_unknown_board_is_refused(store):
    """`ledger init` alone makes boards."""
    with pytest.raises(UnknownBoard):
        rebuild(store.engine, "x")


def test_a_rebuild_takes_in_what_came_while_it_folded(busy, monkeypatch):
    """Only the swap holds the board, and only for what came meanwhile."""
    late = [given.commented("late")]
    real = read_models.read_board

    def read_board(tx, board, *, after, limit=None):
        found = list(real(tx, board, after=after, limit=limit))
        if not found and late:
            busy.append(late.pop())
        return iter(found)

    monkeypatch.setattr(read_models, "read_board", read_board)
    assert rebuild(busy.engine, "b") == busy.head().position
    assert_refolded(busy)


def test_rebuilding_while_another_writes_ends_equal(busy):
    """Nothing that a writer appends is lost by a swap."""

    def write():
        for number in range(40):
            task = f"t_{number % 5}"
            busy.append(given.commented() if number > 5 else given.created(parents=["t_p"]), task=task)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        rebuild(busy.engine, "b")
    writer.join()
    assert_refolded(busy)


# The SQL of statuses

STATES = [
    Task(
        f"t_{number}",
        archived=archived,
        outcome=outcome,
        run=run,
        hold=hold,
        lane=lane,
        open_parents=parents,
        scheduled=scheduled,
    )
    for number, (archived, outcome, run, hold, lane, parents, scheduled) in enumerate(
        itertools.product(
            [False, True],
            [None, "ok", "fail"],
            [None, 1],
            [None, HOLD],
            ["work", "triage", "review"],
            [0, 1, 2],
            [None, 5],
        )
    )
]


@pytest.fixture
def every_state(store):
    """A row for each combination of the inputs of a status; a card that runs has its run, as in any log."""
    with writing(store.engine) as tx:
        rows = [{"board": "b", "open_parents": task.open_parents, **task_row(task)} for task in STATES]
        tx.execute(insert(tables.tasks), rows)
        opened = evolve_run(None, given.history(given.claimed())[0])
        runs = [{"board": "b", **run_row(opened._replace(task=task.id))} for task in STATES if task.run is not None]
        tx.execute(insert(tables.runs), runs)
    return store


def test_the_view_gives_every_card_the_status_that_the_fold_gives_it(every_state):
    """RULES §3: one table, in SQL and in Python."""
    with reading(every_state.engine) as tx:
        found = {row.task: row.status for row in tx.execute(select(tables.cards.c.task, tables.cards.c.status))}
    assert found == {task.id: status(task) for task in STATES}


@pytest.mark.parametrize("wanted", queries.STATUSES)
def test_a_list_of_one_status_finds_every_card_that_has_it(every_state, wanted):
    """RULES §3: what a list says to an index narrows nothing."""
    with reading(every_state.engine) as tx:
        found = {card.id for card in queries.cards(tx, "b", status=wanted, limit=None).cards}
    assert found == {task.id for task in STATES if status(task) == wanted}
    assert found


def test_the_index_of_claimable_cards_holds_those_that_the_fold_would_claim(every_state):
    """RULES §3: claimable, time aside."""
    with reading(every_state.engine) as tx:
        found = set(tx.execute(select(tables.tasks.c.task).where(text(tables.CLAIMABLE))).scalars())
    assert found == {task.id for task in STATES if claimable(task, given.NOW)}


def test_the_view_has_the_columns_that_are_declared(store):
    """The view is made by a revision and declared by hand."""
    with reading(store.engine) as tx:
        names = list(tx.exec_driver_sql("SELECT * FROM cards").keys())
    assert names == [column.name for column in tables.cards.columns]


# Rows


@drawn(st.from_type(Task))
def test_a_card_survives_its_row(task):
    """Loading a row *is* loading the fold."""
    assert task_from({**task_row(task), "open_parents": task.open_parents}) == task


@drawn(st.from_type(Run))
def test_a_run_survives_its_row(run):
    """Loading a row *is* loading the fold."""
    assert run_from(run_row(run)) == run
    assert list(run_row(run)) == [column.name for column in tables.runs.columns][1:]
    assert run_values(run) == list(run_row(run).values())


@drawn(st.from_type(Task), st.from_type(Task))
def test_the_changes_of_a_card_make_its_row_the_next(before, after):
    """What is written is what changed: with all the rest it is the whole row."""
    after = after._replace(id=before.id)
    assert {**task_row(before), **task_changes(before, after)} == task_row(after)


@drawn(st.from_type(Run), st.from_type(Run))
def test_the_changes_of_a_run_make_its_row_the_next(before, after):
    """What is written is what changed: with all the rest it is the whole row."""
    assert {**run_row(before), **run_changes(before, after)} == run_row(after)


def test_an_event_writes_the_columns_that_it_moves_and_no_others(store):
    """A column that is written is taken out of its indexes and put back, though it be the same."""
    store.append(given.created())
    with sent(store.engine) as said:
        store.append(given.commented(), at=given.NOW + 1)
    (written,) = [each.text for each in said if each.text.startswith("UPDATE tasks")]
    columns = written.split(" SET ")[1].split(" WHERE ")[0].split(", ")
    assert [column.split("=")[0] for column in columns] == ["version", "position", "updated_at"]


@drawn(st.from_type(Settings))
def test_settings_survive_their_row(board):
    """Loading a row *is* loading the fold."""
    assert settings_of(tuple(settings_row(board).values())) == board


@pytest.mark.parametrize(
    ("columns", "table", "more"),
    [(TASK_COLUMNS, tables.tasks, {"board", "open_parents"}), (RUN_COLUMNS, tables.runs, {"board"}),
     (SETTINGS_COLUMNS, tables.settings, {"board"})],
    ids=["tasks", "runs", "settings"],
)  # fmt: skip
def test_a_table_has_a_column_for_every_folded_field(columns, table, more):
    """A field that no column keeps would be lost at the next load."""
    assert {column.name for column in table.columns} == set(columns) | more


def test_a_hold_is_kept_whole():
    """RULES §1: cause, kind, sticky or not, count, limit, limit source and position."""
    row = task_row(Task("t_a", hold=HOLD))
    assert tuple(row[name] for name in row if name.startswith("hold_")) == astuple(HOLD)
