"""PostgreSQL's plans of what dashboards, sweeps and claims ask: by an index and in its order, where SQLite's are.

A plan is made for the values that are asked for, or, of a statement that is asked again and again, for any: both count.
"""

from __future__ import annotations

from itertools import islice

import psycopg
import pytest

from kanban import snapshot
from kanban.at_desk import at_desk
from kanban.claims import HandClaim, claim_all
from kanban.hosts import Host
from ledger import standing as standings
from ledger import store as log
from ledger.database import connected, reading, writing
from ledger.schema import events, words
from projections import leases, queries, tables
from projections.read_models import apply
from tests import given, ledgers, servers
from tests.engines import on
from tests.given import NOW, SECOND
from tests.orders import IN_ORDER
from tests.sent import heard

pytestmark = on("postgresql")

HOST = Host(id="node-1", name="node-1", boot="boot-1", namespace="pid:1")
NAMES = (HOST.id, HOST.name)
KINDS, COPIES = 300, 20
STORIES = {
    1: [given.blocked()],
    2: [given.scheduled(NOW + 3_600 * SECOND)],
    3: [given.claimed(), given.exited(1, "crashed"), given.budget_blocked()],
    4: [given.claimed(), given.review_requested(1)],
}
"""What became of some cards of each fifty."""
TRIED = [event for run in (1, 2, 3) for event in (given.claimed(run), given.exited(run, "lost"))]
"""What became of one card in five."""
MANY = {"tasks", "runs", "links", "events", "words"}
"""The tables that grow with a board: no question of one card, or of one page, may read one of them whole."""


def grow(url):
    """A board of 6,300 cards with as many runs, links and events as such a board has, and what ANALYZE learns of it."""
    store = ledgers.founded(url)
    with writing(store.engine) as tx:
        for number in range(KINDS):
            parents = [f"t_{number - back:03}" for back in (39, 38)] if number % 50 > 39 else []
            often = [] if number % 5 else [*TRIED, given.completed(None)]
            story = [given.claimed()] if number == 61 else STORIES.get(number % 50, often)
            made = given.created(f"card {number}", priority=number % 9, parents=parents)
            drafts = [given.draft(event, task=f"t_{number:03}") for event in (made, *story)]
            apply(tx, "b", log.append(tx, "b", drafts, expected=0, at=NOW + number * SECOND))
        leases.grant(tx, "b", "t_061", 1, until=NOW)
        leases.grant(tx, "b", "t_005", 3, until=NOW)
    store.engine.dispose()
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as tx:
        tx.execute("SET session_replication_role = replica")  # these rows are for the planner alone
        for table in (tables.tasks, tables.runs, tables.links, events, words):
            tx.execute(copies_of(table))
        tx.execute("ANALYZE")


COPIED = {
    tables.tasks: "run IS NULL",
    tables.runs: "ended_by IS NOT NULL",
    events: "task <> ''",
    words: "position > 1",
}
"""The rows that are copied: few cards run at a time, whatever the board's size."""


def copies_of(table):
    """The statement that copies cards' rows in *table*, under names of their own, a little younger."""
    changed = {
        "task": "task || '_' || n", "child": "child || '_' || n", "created_at": "created_at + n",
        **({"position": "position + n * 100000"} if table in {events, words} else {}),
    }  # fmt: skip
    names = [f'"{column.name}"' for column in table.columns]
    values = [changed.get(column.name, f'"{column.name}"') for column in table.columns]
    source = f"{table.name}, generate_series(1, {COPIES}) AS n WHERE {COPIED.get(table, True)}"
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {', '.join(values)} FROM {source}"


@pytest.fixture(scope="module")
def grown(engine_name):
    """The grown board, for questions that change nothing."""
    with of_its_own() as store:
        yield store


class of_its_own:  # noqa: N801
    """A copy of the grown board for one test."""

    def __enter__(self):
        databases = servers.shared()
        databases.template("grown", grow)
        self.lent = databases.lent("grown")
        self.store = ledgers.opened(self.lent.__enter__())
        return self.store

    def __exit__(self, *fault):
        self.store.engine.dispose()
        self.lent.__exit__(*fault)


# Plans


class Plan:
    """How PostgreSQL would find the answer to *statement*."""

    def __init__(self, statement, root):
        self.statement = statement
        self.all = list(nodes(root))
        self.main = list(nodes(root, but="SubPlan"))

    def index(self, name):
        """The condition with which the index *name* is searched."""
        (found,) = [node for node in self.main if node.get("Index Name") == name]
        return found["Index Cond"]

    @property
    def sorts(self):
        """Whether it sorts rows, a card's few parents aside."""
        return any("Sort" in node["Node Type"] for node in self.main)

    @property
    def whole(self):
        """The tables that it reads whole."""
        return {node["Relation Name"] for node in self.all if node["Node Type"] == "Seq Scan"}

    def __repr__(self):
        return f"{self.statement}\n{self.all}"


def nodes(node, *, but=None):
    """A plan's node and those below it."""
    yield node
    for below in node.get("Plans", ()):
        if below.get("Parent Relationship") != but:
            yield from nodes(below, but=but)


def explain(tx, statement, values, *, generic):
    driver = tx.connection.driver_connection
    if generic:
        numbers = iter(range(1, len(values) + 1))
        asked = "".join(part if part != "%s" else f"${next(numbers)}" for part in parts(statement))
        found = driver.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF, FORMAT JSON) {asked}", prepare=False)
    else:
        found = driver.execute(f"EXPLAIN (COSTS OFF, FORMAT JSON) {statement}", values, prepare=False)
    return Plan(statement, found.fetchone()[0][0]["Plan"])


def parts(statement):
    before, *rest = statement.split("%s")
    yield before
    for part in rest:
        yield "%s"
        yield part


EXPLAINED = ("SELECT", "WITH", "UPDATE", "DELETE")


@pytest.fixture(params=[False, True], ids=["for these values", "for any values"])
def generic(request):
    """For which values a plan is made."""
    return request.param


def plans(tx, ask_it, *, generic=False, able=False):
    """The plan of each statement that *ask_it* really sends, however; *able*: the one that sorts nothing, if any."""
    sent = []
    with heard(lambda _, text, values: sent.append((text, values))):
        ask_it(tx)
    for what in ("seqscan", "bitmapscan", "sort") if able else ():
        tx.exec_driver_sql(f"SET LOCAL enable_{what} = off")
    asked = {text: values for text, values in sent if text.lstrip().startswith(EXPLAINED)}
    assert asked
    return [explain(tx, text, values, generic=generic) for text, values in asked.items()]


def ordered(found):
    """The plans of those statements that put cards in their order."""
    return [plan for plan in found if "priority DESC" in plan.statement]


# What a tick asks


def some_candidates(cards):
    return lambda tx: list(islice(snapshot.candidates(tx, "b", NOW, NAMES), cards))


def test_the_first_candidates_come_out_of_their_index_in_order(grown, generic):
    """A sweep's price is that of the cards it starts: it reads them in order, sorting nothing."""
    with reading(grown.engine) as tx:
        (first,) = plans(tx, some_candidates(10), generic=generic)
    assert first.index("tasks_claimable")
    assert not first.sorts


def test_the_candidates_behind_them_can_begin_in_the_index_where_those_ended(grown, generic):
    """Each page is one range of the index: whatever came before is not read again."""
    with reading(grown.engine) as tx:
        found = plans(tx, some_candidates(700), generic=generic, able=True)
    first, same, smaller = found
    assert not any(plan.sorts for plan in found)
    assert "priority" not in first.index("tasks_claimable")
    assert "(priority = " in same.index("tasks_claimable")
    assert "(ROW(created_at, task) > ROW(" in same.index("tasks_claimable")
    assert "(priority < " in smaller.index("tasks_claimable")


def test_next_at_reads_no_card_without_a_time(grown, generic):
    """A tick's price does not grow with the cards that wait for a slot."""
    with reading(grown.engine) as tx:
        (plan,) = plans(tx, lambda tx: queries.next_at(tx, "b", NOW), generic=generic)
    assert plan.index("tasks_timed")


def test_cards_with_a_hold_that_may_lift_are_found_without_the_others(grown, generic):
    """RULES §7.5: those that were held by a budget, be they many or few."""
    with reading(grown.engine) as tx:
        (plan,) = plans(tx, lambda tx: snapshot.liftable(tx, "b"), generic=generic)
    assert plan.index("tasks_liftable")  # which has no others
    assert plan.whole & MANY == set()


def test_the_runs_to_watch_are_found_without_reading_every_run_there_ever_was(grown, generic):
    """RULES §7.1: open runs, and ended ones whose lease is left: a tick's price is that of the live ones."""
    with reading(grown.engine) as tx:
        seen = snapshot.watch(tx, "b")
        found = plans(tx, lambda tx: snapshot.watch(tx, "b"), generic=generic)
    assert [[each.run.task for each in runs] for runs in (seen.open, seen.ending)] == [["t_061"], ["t_005"]]
    assert [plan for plan in found if plan.whole & MANY] == []


def test_the_runs_of_a_host_are_counted_without_reading_every_run_there_ever_was(grown, generic):
    """RULES §7.6: a host's cap counts open runs over all boards."""
    with reading(grown.engine) as tx:
        (plan,) = plans(tx, lambda tx: snapshot.spawned_here(tx, "node-1"), generic=generic)
    assert plan.whole == set()


# Claims and appends


def test_a_claim_of_the_next_card_reads_no_table_whole(engine_name, generic):
    """Its price does not depend on the board's size, whatever it reads and writes."""
    wanted = HandClaim(None, None, None, {}, lock="l")
    with of_its_own() as store, at_desk(store.engine, "b", store.clock) as desk:
        found = plans(desk.tx, lambda _: claim_all(desk, [wanted], given.OPERATOR, HOST, frozenset()), generic=generic)
        (next_card,) = ordered(found)
        assert desk.task("t_008").run == 1
    assert next_card.index("tasks_claimable")
    assert not next_card.sorts
    assert [plan for plan in found if plan.whole & MANY] == []


def test_a_claim_of_the_next_card_goes_by_keys_though_the_server_last_saw_an_empty_board(store):
    """What a server knows of its tables may be a minute old, and a fleet has many leases by then."""
    for number in range(40):
        store.append(given.created(), task=f"t_{number}")
    store.sql("ANALYZE")
    wanted = HandClaim(None, None, None, {}, lock="l")
    with at_desk(store.engine, "b", store.clock) as desk:
        found = plans(desk.tx, lambda _: claim_all(desk, [wanted], given.OPERATOR, HOST, frozenset()), generic=True)
        (next_card,) = ordered(found)
    assert next_card.index("tasks_claimable")
    assert not next_card.sorts
    read = [node for plan in found for node in plan.all if "Relation Name" in node and "Scan" in node["Node Type"]]
    assert [node for node in read if not {"Index Cond", "Recheck Cond"} & node.keys()] == []


PLANNING = ("plan_cache_mode", "enable_seqscan", "enable_sort")


def planning(transaction):
    with transaction as tx:
        return [tx.exec_driver_sql(f"SHOW {name}").scalar() for name in PLANNING]


def test_a_writers_statements_are_planned_by_keys_and_a_readers_as_usual(store):
    """A reader may want many rows of a table."""
    assert planning(writing(store.engine)) == ["force_generic_plan", "off", "off"]
    assert planning(reading(store.engine)) == ["auto", "on", "on"]


@pytest.mark.parametrize("name", PLANNING)
def test_what_somebody_chose_otherwise_stays_as_it_is(store, name):
    """By the address, for a role or for the database: then none of them is touched."""
    other = "force_custom_plan" if name == "plan_cache_mode" else "off"
    with connected(f"{store.url}&options=-c{name}%3D{other}") as engine:
        chosen = dict(zip(PLANNING, planning(writing(engine)), strict=True))
    assert chosen == {"plan_cache_mode": "auto", "enable_seqscan": "on", "enable_sort": "on"} | {name: other}


LOG = {
    "head": (lambda tx: standings.head(tx, "b"), "boards_pkey"),
    "version": (lambda tx: log.version(tx, "b", "t_007"), "events_stream"),
    "command": (lambda tx: log.by_command(tx, "b", "c-1"), "events_command"),
    "position": (lambda tx: log.at_position(tx, "b", 70), "events_pkey"),
    "kind": (lambda tx: log.last_of_kind(tx, "b", "t_007", "created"), "events_stream"),
    "stream": (lambda tx: log.read_task(tx, "b", "t_007"), "events_stream"),
    "page": (lambda tx: list(log.read_board(tx, "b", after=70, limit=50)), "events_pkey"),
}


@pytest.mark.parametrize("what", LOG)
def test_the_log_is_read_by_its_keys(grown, what, generic):
    """One event, one stream, one page: each costs what it holds, and comes in its order."""
    question, index = LOG[what]
    with reading(grown.engine) as tx:
        (plan,) = plans(tx, question, generic=generic, able=what == "head")
    assert plan.index(index)
    assert not plan.sorts
    assert plan.whole == set()


# Lists


@pytest.mark.parametrize("question", [queries.list_tasks, queries.cards])
def test_the_first_page_of_a_list_costs_what_it_shows(grown, question, generic):
    """It is read out of the index in its order, and no further."""
    with reading(grown.engine) as tx:
        found = plans(tx, lambda tx: question(tx, "b", limit=100), generic=generic)
    (plan,) = ordered(found)
    assert plan.index("tasks_in_order")
    assert not plan.sorts


@pytest.mark.parametrize("question", [queries.list_tasks, queries.cards])
@pytest.mark.parametrize(("filters", "index"), IN_ORDER, ids=str)
def test_a_list_can_be_read_out_of_its_index_in_order(grown, question, filters, index, generic):
    """Where what passes a filter is rare, or a board small, to sort it is cheaper: the planner has the choice."""
    with reading(grown.engine) as tx:
        found = plans(tx, lambda tx: question(tx, "b", limit=100, **filters), generic=generic, able=True)
    (plan,) = ordered(found)
    assert "board = " in plan.index(index)
    assert not plan.sorts


@pytest.mark.parametrize(("filters", "index"), IN_ORDER, ids=str)
def test_a_later_page_can_begin_in_the_index_where_the_one_before_ended(grown, filters, index, generic):
    """The last page costs what the first did: the rest of that priority, then the smaller ones."""
    with reading(grown.engine) as tx:
        found = plans(
            tx,
            lambda tx: queries.list_tasks(tx, "b", limit=9_000, after="t_044", **filters),
            generic=generic,
            able=True,
        )
    rest, smaller = ordered(found)
    assert "(priority = " in rest.index(index)
    assert "(ROW(created_at, task) > ROW(" in rest.index(index)
    assert "(priority < " in smaller.index(index)
    assert not rest.sorts
    assert not smaller.sorts


def test_a_list_of_what_runs_is_chosen_from_what_runs(grown, generic):
    """Its price is that of the live ones, whatever the board's size."""
    with reading(grown.engine) as tx:
        found = plans(tx, lambda tx: queries.list_tasks(tx, "b", limit=100, status="running"), generic=generic)
    (plan,) = ordered(found)
    assert plan.index("runs_open")
    assert plan.whole & MANY == set()


OF_ONE_CARD = {
    "task": lambda tx: queries.task(tx, "b", "t_044"),
    "show": lambda tx: queries.show(tx, "b", "t_044"),
    "runs": lambda tx: queries.runs(tx, "b", "t_005"),
    "why": lambda tx: queries.why(tx, "b", "t_044", now=NOW),
}


@pytest.mark.parametrize("question", OF_ONE_CARD)
def test_a_question_about_one_card_reads_no_table_whole(grown, question, generic):
    """Its price is that of the card."""
    with reading(grown.engine) as tx:
        found = plans(tx, OF_ONE_CARD[question], generic=generic)
    assert [plan for plan in found if plan.whole & MANY] == []
