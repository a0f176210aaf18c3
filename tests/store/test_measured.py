"""What a board measures: read from the store alone, counted once for each event, and right after any crash."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pytest

from kanban import measures
from kanban.at_desk import APPENDED, at_desk
from kanban.commands import Decision
from kanban.laps import Lap, Laps
from kanban.measures import Measures
from ledger.database import reading, writing
from ledger.errors import UnknownBoard
from ledger.events import ENDINGS
from projections import counted as c
from projections import measured as m
from projections.counted import OTHERS, Counted, counted
from projections.measured import FAMILIES, PHASES, measured
from tests import given, ledgers
from tests.engines import on
from tests.given import SECOND
from tests.store.test_plans import plans


def ask(store, *, later=0, known=None):
    """What is known of the log, and every metric so many seconds *later*: the values by the labels behind the board."""
    with reading(store.engine) as tx:
        known, samples = measured(tx, ledgers.BOARD, store.clock() + later * SECOND, known)
    assert set(samples) <= {family.name for family in FAMILIES}
    return known, {name: {labels[1:]: value for labels, value in found} for name, found in samples.items()}


def values(store, **how):
    """The metrics alone."""
    return ask(store, **how)[1]


def counts(store):
    """What has ended and tripped, as whoever asks now counts it."""
    with reading(store.engine) as tx:
        return dict(counted(tx, ledgers.BOARD, store.head().position).tally)


def counted_to(store):
    """Up to which position sweeps have counted."""
    with reading(store.engine) as tx:
        return c.stored_position(tx, ledgers.BOARD)


def sweep(store, by, host="node-1", *, dies=False):
    """*by* writes what a sweep writes; what it counted, unless it *dies* before the commit."""
    end = store.head().position
    with writing(store.engine) as tx:
        found = by.write(tx, host, end, store.clock())
        return found if not dies else 1 // 0


def ticked(store, host="node-1", errors=0):
    """A sweep of *host* was here now."""
    store.sql(f"DELETE FROM sweeps WHERE host = '{host}'")
    store.sql(f"INSERT INTO sweeps VALUES ('b', '{host}', {store.clock()}, NULL, {errors})")


ENDS = (
    lambda run: (given.exited(run, "crashed"), given.budget_blocked()),
    lambda run: (given.exited(run, "config"),),
    lambda run: (given.exited(run, "clean"), given.budget_blocked("violation_budget", sticky=True)),
    lambda run: (given.completed(run), given.reopened()),
    lambda run: (given.completed(run, "fail"), given.reopened()),
    lambda run: (given.blocked(run, "worker", reason="failure_budget"),),
    lambda run: (given.review_requested(run),),
)
BETWEEN = ((given.blocked(reason="a run_budget"),), (given.unblocked(),), (given.completed(None), given.reopened()))


def lived(store, seed, steps=40):
    """A few cards, runs that end in every way, holds by budgets and by people, completions without a run."""
    dice, runs = random.Random(seed), Counter()
    for number in range(5):
        store.append(given.created(), task=f"t_{number}")
    for _ in range(steps):
        task = f"t_{dice.randrange(5)}"
        runs[task] += 1
        store.append(given.claimed(runs[task], worker=dice.choice(["ann", "bob", "a b c"])), task=task)
        store.append(*dice.choice(ENDS)(runs[task]), task=task)
        store.append(*dice.choice(BETWEEN), task=task)


def walked(store):
    """The same counts by walking the log, and nothing else."""
    found, workers = Counter(), {}
    for event in store.read():
        if event.kind == "claimed":
            workers[event.task, event.run] = event.facts["worker"]
        elif event.kind in ENDINGS and event.run is not None:
            found["ended", event.outcome or event.kind, workers[event.task, event.run]] += 1
        if event.kind == "blocked" and event.facts["cause"].endswith("_budget"):
            found["tripped", event.facts["cause"]] += 1
        if event.outcome == "config":
            found["tripped", "config"] += 1
    return dict(found)


# Runs and budgets


@pytest.mark.parametrize("seed", range(3))
def test_ends_and_trips_are_what_walking_the_log_counts(store, seed):
    """Each event once: by outcome and worker, and by budget; what an operator ended without a run is no run."""
    lived(store, seed)
    assert counts(store) == walked(store)
    found = values(store)
    assert found["ledger_runs_ended_total"] == {key[1:]: n for key, n in walked(store).items() if key[0] == "ended"}
    assert found["ledger_budget_trips_total"] == {key[1:]: n for key, n in walked(store).items() if key[0] == "tripped"}


@pytest.mark.parametrize("most", [1, 7, 1_000])
def test_sweeps_that_count_in_steps_come_to_the_same(store, tmp_path, monkeypatch, most):
    """However little one of them counts, whoever asks between two of them hears all of it, and nothing twice."""
    monkeypatch.setattr(measures, "MOST", most)
    lived(store, 1, steps=8)
    by, seen = Measures.of(tmp_path, ledgers.BOARD), []
    while counted_to(store) < store.head().position:
        before = counted_to(store)
        seen += sweep(store, by)
        assert before < counted_to(store) <= before + most
        assert counts(store) == walked(store)
    assert dict(Counter(each.key for each in seen)) == walked(store)
    assert [each.position for each in seen] == sorted(each.position for each in seen)
    assert sweep(store, by) == []


def test_two_hosts_count_each_event_once(store, tmp_path):
    """What one of them wrote down is where the other goes on."""
    ours, theirs = (Measures.of(tmp_path / name, ledgers.BOARD) for name in ("ours", "theirs"))
    for seed, by in enumerate((ours, theirs, theirs, ours)):
        task = f"t_{seed}"
        store.append(given.created(), given.claimed(1), given.exited(1, "crashed"), given.budget_blocked(), task=task)
        assert len(sweep(store, by)) == 2
    assert counts(store) == walked(store)
    assert values(store)["ledger_runs_ended_total"] == {("crashed", "builder"): 4}


def test_what_is_rolled_back_is_counted_again(store, tmp_path):
    """The position and the counts stand in one transaction: a sweep that dies in it has counted nothing."""
    by = Measures.of(tmp_path, ledgers.BOARD)
    store.append(given.created(), given.claimed(1), given.completed(1))
    with pytest.raises(ZeroDivisionError):
        sweep(store, by, dies=True)
    assert counted_to(store) == 0
    store.append(given.reopened(), given.claimed(2), given.completed(2))
    sweep(store, by)
    assert counts(store) == walked(store) == {("ended", "ok", "builder"): 2}


def test_of_many_workers_the_first_are_named(store, tmp_path, monkeypatch):
    """The others are one: the same one, whether a sweep counts or whoever asks, so that no count ever falls."""
    monkeypatch.setattr(c, "MOST_WORKERS", 2)
    by = Measures.of(tmp_path, ledgers.BOARD)
    for run, worker in enumerate(("ann", "bob", "eve", "ann", "joe", "bob"), 1):
        events = () if run > 1 else (given.created(),)
        store.append(*events, given.claimed(run, worker=worker), given.exited(run, "crashed"))
        if run == 4:
            sweep(store, by)
    alike = {("ended", "crashed", "ann"): 2, ("ended", "crashed", "bob"): 2, ("ended", "crashed", OTHERS): 2}
    assert counts(store) == alike
    sweep(store, Measures.of(tmp_path, ledgers.BOARD))
    assert counts(store) == alike


def test_what_is_known_already_is_not_read_again(store):
    """Where the log stands still only what moves without events is read; else what has come since is added."""
    lived(store, 2, steps=5)
    known, before = ask(store)
    again, after = ask(store, known=known)
    assert again is known
    assert after == before
    store.append(given.created(), given.claimed(1), given.exited(1, "lost"), task="t_new")
    moved, later = ask(store, known=known)
    assert moved.counted.position == store.head().position
    assert later["ledger_runs_ended_total"] == values(store)["ledger_runs_ended_total"]
    with reading(store.engine) as tx:  # and no more than that
        forged = Counted(store.head().position - 1, {("ended", "ok", "x"): 5})
        assert counted(tx, "b", store.head().position, forged).tally == {
            **forged.tally,
            ("ended", "lost", "builder"): 1,
        }


def test_a_run_ends_once(store):
    """As the fold has it: what an odd log says of its end after that is no end of a run."""
    store.append(given.created(), given.claimed(1), given.exited(1, "crashed"), given.exited(1, "lost"))
    assert counts(store) == {("ended", "crashed", "builder"): 1}


def test_a_store_that_was_put_back_is_counted_anew(store):
    """What is known of positions that the log does not have is forgotten."""
    store.append(given.created(), given.claimed(1), given.completed(1))
    with reading(store.engine) as tx:
        assert dict(counted(tx, "b", 4, Counted(99, {("ended", "ok", "x"): 5})).tally) == walked(store)


# What stands now


def test_a_fresh_board_has_values_too(store):
    """Counts of nothing are 0; what never was is not told."""
    found = values(store, later=7)
    assert found["ledger_events_total"] == {(): 1}
    assert found["ledger_head_age_seconds"] == {(): 7}
    assert found["ledger_cards"] == dict.fromkeys(((status,) for status in m.STATUSES), 0)
    assert found["ledger_oldest_ready_age_seconds"] == {(): 0}
    assert found["ledger_lag_events"] == {("projection",): 0, ("snapshot",): 1, ("replay",): 1}
    assert "ledger_replay_divergences" not in found


def test_cards_by_status_and_by_what_holds_them(store):
    """Statuses as the board shows them; holds by cause; what a tick did not start by its reason."""
    store.append(given.created(), task="t_a")
    store.append(given.created(), given.blocked(), task="t_b")
    store.append(given.created(), given.claimed(1, worker="ann"), task="t_c")
    store.append(given.created(), given.budget_blocked(), task="t_d")
    store.append(given.created(), given.blocked(), given.completed(None), task="t_e")
    store.sql("INSERT INTO held VALUES ('b', 't_a', 'no_assignee', NULL, 0)")
    found = values(store)
    assert {key: n for key, n in found["ledger_cards"].items() if n} == {
        ("ready",): 1, ("blocked",): 2, ("running",): 1, ("done",): 1,
    }  # fmt: skip
    assert found["ledger_blocked_cards"] == {("operator",): 1, ("failure_budget",): 1}
    assert found["ledger_held_cards"] == {("no_assignee",): 1}
    assert found["ledger_live_runs"] == {("ann",): 1}


def test_the_oldest_ready_card_is_one_that_could_be_claimed(store):
    """Not one that waits for a time, for a parent or for a person."""
    store.append(given.created(), given.blocked(), task="t_held")
    store.append(given.created(parents=["t_held"]), task="t_waits")
    store.append(given.created(), given.scheduled(store.clock() + 60 * SECOND), task="t_parked")
    assert values(store)["ledger_oldest_ready_age_seconds"] == {(): 0}
    store.clock.advance(20)
    store.append(given.created(), task="t_ready")
    assert values(store, later=5)["ledger_oldest_ready_age_seconds"] == {(): 5}
    assert values(store, later=45)["ledger_oldest_ready_age_seconds"] == {(): 65}


def test_live_runs_of_many_workers(store, monkeypatch):
    """Those with the most are named, and the others told together."""
    monkeypatch.setattr(m, "MOST_WORKERS", 1)
    for number, worker in enumerate(("ann", "bob", "ann", "eve")):
        store.append(given.created(), given.claimed(1, worker=worker), task=f"t_{number}")
    assert values(store)["ledger_live_runs"] == {("ann",): 2, (OTHERS,): 2}


def test_a_projection_that_stands_behind_shows(store):
    """The stored card of the last event, or the board itself, stands where the log ends, or it lags."""
    store.append(given.created(), task="t_a")
    assert values(store)["ledger_lag_events"]["projection",] == 0
    store.sql("UPDATE tasks SET position = 1")
    assert values(store)["ledger_lag_events"]["projection",] == 1
    store.append(given.policy_changed(), task="")
    assert values(store)["ledger_lag_events"]["projection",] == 0


def test_a_snapshot_counts_where_this_program_can_use_it(store):
    """One of another fold version is none."""
    store.append(given.created(), given.blocked())
    store.sql("INSERT INTO snapshots VALUES ('b', -1, 3)")
    assert values(store)["ledger_lag_events"]["snapshot",] == 3
    store.sql(f"INSERT INTO snapshots VALUES ('b', {m.FOLD_VERSION}, 2)")
    assert values(store)["ledger_lag_events"]["snapshot",] == 1


def test_a_board_that_is_not_there_has_no_metrics(store):
    """It is an error, not zeros."""
    with reading(store.engine) as tx, pytest.raises(UnknownBoard):
        measured(tx, "elsewhere", store.clock())


def test_no_label_names_a_card(store, tmp_path):
    """Cards come and go by the thousand: their ids would be a series each."""
    lived(store, 3)
    sweep(store, Measures.of(tmp_path, ledgers.BOARD))
    labels = {label for found in values(store).values() for key in found for label in key}
    assert labels
    assert not [label for label in labels if label.startswith("t_")]


# Sweeps


def test_a_dead_sweeper_looks_dead(store):
    """The time since the last sweep grows while nobody sweeps, from the founding of a board that nobody ever swept."""
    assert values(store, later=90)["ledger_last_sweep_age_seconds"] == {(): 90}
    store.clock.advance(100)
    ticked(store, errors=2)
    store.clock.advance(10)
    ticked(store, "node-2")
    for later in (0, 5, 1_000_000):
        found = values(store, later=later)
        assert found["ledger_last_sweep_age_seconds"] == {(): later}
        assert found["ledger_sweep_age_seconds"] == {("node-1",): later + 10, ("node-2",): later}
    assert found["ledger_sweep_timestamp_seconds"]["node-2",] == store.clock() / SECOND
    assert found["ledger_sweep_errors"] == {("node-1",): 2, ("node-2",): 0}


def test_only_the_hosts_that_were_heard_of_last_are_named(store, monkeypatch, tmp_path):
    """Containers have a new name each time."""
    monkeypatch.setattr(m, "MOST_HOSTS", 2)
    for number in range(4):
        store.clock.advance(1)
        ticked(store, f"node-{number}")
        by = Measures.of(tmp_path, ledgers.BOARD)
        by.take([Lap("plan", 0, SECOND)])
        sweep(store, by, f"node-{number}")
    found = values(store)
    assert set(found["ledger_sweep_age_seconds"]) == {("node-2",), ("node-3",)}
    assert set(found["ledger_sweep_phase_seconds"]) == {("node-2", "plan"), ("node-3", "plan")}


def test_the_parts_of_ticks_add_up(store, tmp_path):
    """By host and part: how many there were, and their seconds."""
    for host, seconds in (("node-1", 1), ("node-1", 2), ("node-2", 5)):
        by = Measures.of(tmp_path, ledgers.BOARD)
        by.take([Lap(phase, 0, place * seconds * 10**9) for place, phase in enumerate(PHASES, 1)])
        sweep(store, by, host)
    found = values(store)["ledger_sweep_phase_seconds"]
    assert found["node-1", "observe"] == (2, 3)
    assert found["node-1", "start"] == (2, 12)
    assert found["node-2", "apply"] == (1, 15)


def test_what_a_host_noted_last_wins_over_what_it_wrote(store, tmp_path):
    """A replay is told where it was made as soon as it was; the latest of all hosts says how far behind it is."""
    note = {m.REPLAY_DIVERGENCES: 3, m.REPLAY_POSITION: 1}
    store.append(given.created(), given.commented(), task="t_a")
    with writing(store.engine) as tx:
        measures.put(tx, ledgers.BOARD, "node-1", 5 * SECOND, {**note, m.REPLAY_POSITION: 2})
        measures.put(tx, ledgers.BOARD, "node-2", 6 * SECOND, {**note, m.REPLAY_POSITION: 3})
    assert values(store)["ledger_lag_events"]["replay",] == 0
    with reading(store.engine) as tx:
        _, samples = measured(tx, ledgers.BOARD, 0, noted={"node-1": m.Noted(7 * SECOND, note)})
    assert samples["ledger_replay_position"] == [(("b", "node-1"), 1), (("b", "node-2"), 3)]
    assert samples["ledger_replay_timestamp_seconds"] == [(("b", "node-1"), 7), (("b", "node-2"), 6)]
    assert dict(samples["ledger_lag_events"])["b", "replay"] == 2


def test_laps_lie_one_behind_the_other():
    """No part of a tick is counted twice, and none is left out."""
    laps = Laps()
    for phase in PHASES:
        laps.end(phase)
    assert [lap.phase for lap in laps.told] == list(PHASES)
    assert [lap.begun for lap in laps.told] == [laps.begun, *(lap.ended for lap in laps.told[:-1])]
    assert laps.told[-1].ended <= laps.now


def test_what_a_sweep_measures_last_is_written_by_the_next(store, tmp_path):
    """Whichever process that is, and once: the file is removed before it is written."""
    first, second, third = (Measures.of(tmp_path, ledgers.BOARD) for _ in range(3))
    first.keep([Lap("start", 0, 10**9)])
    second.keep([Lap("start", 0, 2 * 10**9)])
    sweep(store, third)
    sweep(store, first)
    assert values(store)["ledger_sweep_phase_seconds"] == {("node-1", "start"): (2, 3)}
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("garbage", [b"", b"nonsense", b"[1]", b'{"appends": Infinity, "x": "y"}', b"\xff"])
def test_a_file_of_measures_that_is_garbage_is_dropped(store, tmp_path, garbage):
    """An agent may have written it."""
    by = Measures.of(tmp_path, ledgers.BOARD)
    by.keep([Lap("start", 0, 1)])
    by.file.write_bytes(garbage)
    sweep(store, by)
    assert "ledger_sweep_phase_seconds" not in values(store)
    assert "ledger_append_seconds" not in values(store)


def test_what_a_process_appended_after_its_last_sweep_is_not_lost(store, tmp_path):
    """The next sweep writes it, whichever process that is."""
    first, second = (Measures.of(tmp_path, ledgers.BOARD) for _ in range(2))
    with at_desk(store.engine, ledgers.BOARD, store.clock) as desk:
        desk.write(Decision((given.draft(given.created(), task="t_a"),)))
    with at_desk(store.engine, ledgers.BOARD, store.clock):
        pass  # nothing is appended
    with suppress(ZeroDivisionError), at_desk(store.engine, ledgers.BOARD, store.clock) as desk:
        desk.write(Decision((given.draft(given.created(), task="t_b"),)))
        1 / 0  # noqa: B018 – and what was appended is rolled back
    assert APPENDED[ledgers.BOARD][0] == 1
    first.keep([])
    assert ledgers.BOARD not in APPENDED
    sweep(store, second)
    ((host, (times, seconds)),) = values(store)["ledger_append_seconds"].items()
    assert (host, times) == (("node-1",), 1)
    assert seconds > 0


def test_a_board_of_any_name_has_a_file(tmp_path):
    """Also one that no folder can be called after."""
    names = ["a/b", "..", ".", "a b"]
    for name in names:
        by = Measures.of(tmp_path, name)
        by.keep([Lap("start", 0, 1)])
        assert by.file.parent == tmp_path / "measures"
    assert len(list((tmp_path / "measures").iterdir())) == len(names)


def test_a_home_that_cannot_be_written_stops_no_sweep(store, tmp_path):
    """What was measured stays in memory, and is written with the next tick."""
    (tmp_path / "measures").write_text("in the way")
    by = Measures.of(tmp_path, ledgers.BOARD)
    by.keep([Lap("start", 0, 10**9)])
    sweep(store, by)
    assert values(store)["ledger_sweep_phase_seconds"] == {("node-1", "start"): (1, 1)}


# What it costs


@on("sqlite")
@pytest.mark.parametrize("analyzed", [False, True])
def test_a_scrape_walks_no_log_and_no_runs(store, tmp_path, analyzed):
    """Where sweeps have counted, only the cards are walked to count them by status; all else comes from an index."""
    for number in range(60):  # most are done, as on a board of some age
        ended = (given.exited(1, "crashed"), given.budget_blocked()) if number % 9 == 0 else (given.completed(1),)
        store.append(given.created(), given.claimed(1), *ended, task=f"t_{number:04}")
    store.append(given.created(), task="t_ready")
    sweep(store, Measures.of(tmp_path, ledgers.BOARD))
    if analyzed:
        store.sql("ANALYZE")
        store.engine.dispose()
    with reading(store.engine) as tx:
        found = plans(tx, lambda tx: measured(tx, ledgers.BOARD, store.clock()))
    narrow = {"events": ("position",), "runs": ("ended_by=?", "task=?"), "tasks": ("_blocked", "_claimable", "task=?")}
    for statement, plan in found.items():
        if "GROUP BY cards.status" in statement:
            continue
        for step in plan.splitlines():
            table = step.removeprefix("SEARCH ").split()[0]
            assert "SCAN" not in step, statement
            assert any(by in step for by in narrow.get(table, ("",))), (statement, step)
    assert len(found) > len(narrow)
