"""SQLite's plans of what dashboards and sweeps ask: by an index, in its order, whatever the board's size."""

from __future__ import annotations

import pytest

from kanban import snapshot
from kanban.at_desk import at_desk
from kanban.claims import HandClaim, claim_all
from kanban.hosts import Host
from ledger.database import reading, writing
from projections import leases, queries
from tests import given, ledgers
from tests.engines import on
from tests.given import NOW
from tests.orders import IN_ORDER

pytestmark = on("sqlite")

HOST = Host(id="node-1", name="node-1", boot="boot-1", namespace="pid:1")


@pytest.fixture(params=[0, 3, 600])
def sized(store, request):
    """A board of so many cards."""
    ledgers.filled(store, request.param)
    return store


@pytest.fixture(params=[False, True], ids=["never analyzed", "analyzed"])
def planned(sized, request):
    """The same with and without what ANALYZE learns, read by a fresh connection."""
    if request.param:
        sized.sql("ANALYZE")
    sized.engine.dispose()
    return sized


def plans(tx, ask_it):
    """The plan of each SELECT that *ask_it* really sends, however it sends it: statement → plan."""
    driver, sent = tx.connection.driver_connection, []
    driver.set_trace_callback(sent.append)
    try:
        ask_it(tx)
    finally:
        driver.set_trace_callback(None)
    selects = [statement for statement in sent if statement.lstrip().startswith("SELECT")]
    assert selects
    return {
        statement: "\n".join(str(row[3]) for row in driver.execute(f"EXPLAIN QUERY PLAN {statement}"))
        for statement in selects
    }


def ordered(found):
    """The plan of the one statement among *found* that orders cards."""
    (plan,) = [plan for statement, plan in found.items() if "priority DESC" in statement]
    return plan


def ordered_by_id(found):
    """The plan of the one statement among *found* that chooses ids first."""
    (plan,) = [plan for statement, plan in found.items() if "task IN (SELECT task FROM cards" in statement]
    return plan


def test_candidates_come_out_of_their_index_in_order(planned):
    """A sweep's price is that of the cards it starts: it reads them in order, sorting nothing."""
    with reading(planned.engine) as tx:
        found = plans(tx, lambda tx: list(snapshot.candidates(tx, "b", NOW, ("node-1", "node")))).values()
    for plan in found:
        assert "USING INDEX tasks_claimable" in plan
        assert "TEMP B-TREE" not in plan


def test_the_candidates_behind_a_page_begin_in_the_index_where_it_ended(store):
    """Each page is one range of the index: whatever came before is not read again."""
    ledgers.filled(store, 600)
    with reading(store.engine) as tx:
        found = plans(tx, lambda tx: list(snapshot.candidates(tx, "b", NOW, ("node-1", "node"))))
    first, same, smaller = found.values()
    assert "USING INDEX tasks_claimable (board=?)" in first
    assert "USING INDEX tasks_claimable (board=? AND priority=? AND (created_at,task)>(?,?))" in same
    assert "USING INDEX tasks_claimable (board=? AND priority<?)" in smaller


def test_next_at_reads_no_card_without_a_time(planned):
    """A tick's price does not grow with the cards that wait for a slot."""
    with reading(planned.engine) as tx:
        (plan,) = plans(tx, lambda tx: queries.next_at(tx, "b", NOW)).values()
    assert "USING INDEX tasks_timed" in plan


@pytest.mark.parametrize("question", [queries.list_tasks, queries.cards])
@pytest.mark.parametrize(("filters", "index"), IN_ORDER, ids=str)
def test_the_first_page_of_a_list_comes_out_of_its_index_in_order(planned, question, filters, index):
    """A page's price is that of the page."""
    with reading(planned.engine) as tx:
        plan = ordered(plans(tx, lambda tx: question(tx, "b", limit=100, **filters)))
    assert f"SEARCH tasks USING INDEX {index} (board=?)" in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(("filters", "index"), IN_ORDER, ids=str)
def test_a_later_page_begins_in_the_index_where_the_one_before_ended(sized, filters, index):
    """The last page costs what the first did: the rest of that priority, then the smaller ones."""
    sized.append(given.created(), task="t_before")
    with reading(sized.engine) as tx:
        found = plans(tx, lambda tx: queries.list_tasks(tx, "b", limit=5_000, after="t_before", **filters))
    rest, smaller = [plan for statement, plan in found.items() if "priority DESC" in statement]
    assert f"USING INDEX {index} (board=? AND priority=? AND (created_at,task)>(?,?))" in rest
    assert f"USING INDEX {index} (board=? AND priority<?)" in smaller
    assert [plan for plan in found.values() if "TEMP B-TREE" in plan or "SCAN tasks" in plan] == []


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({"status": "running"}, "runs USING COVERING INDEX runs_open (ended_by=? AND board=?)"),
        ({"sort": "created"}, "tasks USING COVERING INDEX tasks_in_order (board=?)"),
    ],
    ids=str,
)
def test_cards_that_no_index_has_in_order_are_chosen_by_id_from_the_fewest_there_can_be(sized, filters, index):
    """What is live or held, whatever the board's size; no title is read of a card that is not shown."""
    with reading(sized.engine) as tx:
        plan = ordered_by_id(plans(tx, lambda tx: queries.list_tasks(tx, "b", limit=100, **filters)))
    chosen = plan[plan.index("LIST SUBQUERY") :]
    assert f"SEARCH {index}" in chosen
    assert "SCAN tasks" not in chosen
    assert "SCAN runs" not in chosen
    assert plan.startswith("SEARCH tasks USING PRIMARY KEY (board=? AND task=?)")


def test_a_claim_of_the_next_card_reads_no_table_whole(planned):
    """Its price does not depend on the board's size: every statement of it goes by an index, or over the leases."""
    planned.append(given.created(priority=1_000), task="t_next")
    wanted = HandClaim(None, None, None, {}, lock="l")
    with at_desk(planned.engine, "b", planned.clock) as desk:
        found = plans(desk.tx, lambda _: claim_all(desk, [wanted], given.OPERATOR, HOST, frozenset()))
    assert "USING INDEX tasks_claimable" in ordered(found)
    assert [plan for plan in found.values() if "SCAN" in plan.replace("SCAN leases", "") or "TEMP" in plan] == []
    with reading(planned.engine) as tx:
        assert queries.task(tx, "b", "t_next")["status"] == "running"


def test_cards_with_a_hold_that_may_lift_are_found_without_the_others(planned):
    """RULES §7.5: those that were held by a budget, be they many or few."""
    with reading(planned.engine) as tx:
        (plan, *_) = plans(tx, lambda tx: snapshot.liftable(tx, "b")).values()
    assert plan.startswith("SEARCH tasks USING INDEX tasks_liftable (board=?)")
    assert "TEMP" not in plan


def test_the_runs_to_watch_are_found_without_reading_every_run_there_ever_was(planned):
    """RULES §7.1: open runs, and ended ones whose lease is left: a tick's price is that of the live ones."""
    for task, *more in (("t_open",), ("t_ending", given.completed()), ("t_gone", given.completed())):
        planned.append(given.created(), given.claimed(), *more, task=task)
    with writing(planned.engine) as tx:
        leases.grant(tx, "b", "t_open", 1, until=NOW)
        leases.grant(tx, "b", "t_ending", 1, until=NOW)
    with reading(planned.engine) as tx:
        seen = snapshot.watch(tx, "b")
        found = plans(tx, lambda tx: snapshot.watch(tx, "b"))
    assert [[each.run.task for each in runs] for runs in (seen.open, seen.ending)] == [["t_open"], ["t_ending"]]
    assert [plan for plan in found.values() if "SCAN runs" in plan] == []
