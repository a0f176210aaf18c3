"""What dashboards ask: every answer on a board of appended events."""

from __future__ import annotations

import json
from itertools import pairwise
from urllib.parse import quote

import pytest
from sqlalchemy import insert

from kanban import snapshot
from ledger import copies
from ledger.clock import rfc3339
from ledger.database import connect, reading, writing
from ledger.errors import InvalidInput, UnknownTask
from projections import leases, queries, tables
from tests import given, ledgers
from tests.given import NOW, SECOND
from tests.sent import sent

HOUR = 3_600 * SECOND
READ_ONLY = quote("-c default_transaction_read_only=on")
STORIES = {
    "triage": [given.created("triage", lane="triage")],
    "todo": [given.created("todo", parents=["t_running"])],
    "scheduled": [given.created("scheduled"), given.scheduled(NOW + HOUR)],
    "ready": [given.created("ready", assignee="ann", labels=("red", "blue"), tenant="acme")],
    "running": [given.created("running"), given.claimed()],
    "review": [given.created("review"), given.claimed(), given.review_requested()],
    "blocked": [given.created("blocked", assignee=None), given.blocked(reason="ask Ann", block_kind="needs_input")],
    "done": [given.created("done"), given.completed(None)],
    "archived": [given.created("archived"), given.archived()],
}
"""A card in each status, each a second younger than the one before."""
QUESTIONS = {
    "task": lambda tx: queries.task(tx, "b", "t_blocked"),
    "list": lambda tx: queries.list_tasks(tx, "b", status="ready", assignee="ann", label="red", tenant="acme"),
    "cards": lambda tx: [list(card) for card in queries.cards(tx, "b").cards],
    "show": lambda tx: queries.show(tx, "b", "t_todo"),
    "runs": lambda tx: queries.runs(tx, "b", "t_review"),
    "board": lambda tx: queries.board(tx, "b"),
    "stats": lambda tx: queries.stats(tx, "b", NOW),
    "held": lambda tx: queries.held(tx, "b"),
    "next_at": lambda tx: queries.next_at(tx, "b", NOW),
    "why": lambda tx: queries.why(tx, "b", "t_ready", now=NOW),
}


@pytest.fixture
def board(store):
    """Nine cards, one in each status; `t_todo` waits for `t_running`. Another board has a card of the same id."""
    for status, story in STORIES.items():
        store.append(*story, task=f"t_{status}")
        store.clock.advance(1)
    ledgers.new_board(store, "other", "o" * 32)
    store.append(given.created("elsewhere", priority=9, labels=("red",)), task="t_ready", board="other")
    return store


def ask(store, question, *args, **named):
    """The answer of *question* about the board `b`."""
    with reading(store.engine) as tx:
        return question(tx, ledgers.BOARD, *args, **named)


def ids(answer):
    return [card["id"] for card in answer["tasks"]]


def keep(store, table, **row):
    """Write an operational row, as a tick does."""
    with writing(store.engine) as tx:
        tx.execute(insert(table).values(board=ledgers.BOARD, **row))


def redact(store, position, task="t_a"):
    """What `ledger redact` does to the words of the event at *position*."""
    store.append(given.redacted(position), task=task)
    store.sql("DELETE FROM words WHERE board = 'b' AND position = :position", position=position)


# One card


def test_a_card_has_the_shape_that_scripts_rely_on(store):
    """docs/cli.md: every key, instants as RFC 3339, unknown numbers as none."""
    store.append(
        given.created(
            "Build it", priority=3, labels=("red",), tenant="acme", max_retries=4, max_runtime=60, workspace="dir:/x",
            goal=given.e.Goal(max_turns=5), host="node-1", key="k1", made_by=given.e.RunRef(task="t_m", run=2),
            parents=["t_q", "t_p"],
        )
    )  # fmt: skip
    assert ask(store, queries.task, "t_a") == {
        "id": "t_a", "title": "Build it", "status": "todo", "assignee": "builder", "priority": 3, "labels": ["red"],
        "tenant": "acme", "parents": ["t_p", "t_q"], "run": None, "failures": 0, "streak": 0, "spent": 0, "neutral": 0,
        "runs_used": 0, "lane": "work", "reviewer": None, "outcome": None, "hold": None, "not_before": None,
        "scheduled": None, "max_retries": 4, "max_runtime": 60, "workspace": "dir:/x", "goal": True,
        "goal_max_turns": 5, "host": "node-1", "key": "k1", "made_by": {"task": "t_m", "run": 2}, "version": 1,
        "created_at": rfc3339(NOW), "updated_at": rfc3339(NOW), "position": 2,
    }  # fmt: skip


def test_a_card_tells_its_counters_hold_and_waits(store):
    """RULES §4–5: what moved, what holds it, until when."""
    store.append(given.created(), given.claimed(1), given.exited(1, "rate_limited", not_before=NOW + HOUR))
    store.append(given.claimed(2), given.exited(2, "crashed"), given.claimed(3), given.exited(3, "clean"))
    store.append(given.violation(3), given.budget_blocked("attempt_budget", count=2, limit=2, limit_source="task"))
    store.append(given.scheduled(NOW + 2 * HOUR))
    told = ask(store, queries.task, "t_a")
    assert told["hold"] == {
        "cause": "attempt_budget", "kind": None, "reason": None, "sticky": False, "count": 2, "limit": 2,
        "limit_source": "task", "position": 10,
    }  # fmt: skip
    counted = {name: told[name] for name in ("failures", "streak", "spent", "neutral", "runs_used", "goal", "made_by")}
    assert counted == {
        "failures": 1, "streak": 1, "spent": 2, "neutral": 0, "runs_used": 3, "goal": False, "made_by": None,
    }  # fmt: skip
    assert (told["not_before"], told["scheduled"]) == (rfc3339(NOW + HOUR), rfc3339(NOW + 2 * HOUR))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (given.blocked(1, "worker", block_kind="needs_input", reason="which colour?"), "which colour?"),
        (given.exited(1, "config", last_words="no key"), "no key"),
    ],
    ids=["a worker's reason", "the last words of a broken configuration"],
)
def test_a_hold_says_why_in_the_words_of_the_event_that_set_it(store, end, reason):
    """RULES §1, hold: one at a time, with its reason."""
    store.append(given.created(), given.claimed(), end)
    assert ask(store, queries.task, "t_a")["hold"]["reason"] == reason


@pytest.mark.parametrize("status", STORIES)
def test_a_card_says_its_status(board, status):
    """RULES §3."""
    assert ask(board, queries.task, f"t_{status}")["status"] == status


@pytest.mark.parametrize("question", [queries.task, queries.show, queries.runs])
def test_a_card_that_is_not_there_is_named(board, question):
    """`UnknownTask`, also where another board has it."""
    with pytest.raises(UnknownTask, match="t_nobody"):
        ask(board, question, "t_nobody")


# Lists


@pytest.mark.parametrize("status", STORIES)
def test_a_list_of_one_status(board, status):
    """RULES §3: each card is in exactly one."""
    assert ids(ask(board, queries.list_tasks, status=status)) == [f"t_{status}"]


def test_a_list_names_its_position_and_holds_cards_as_task_does(board):
    """One shape of a card everywhere."""
    answer = ask(board, queries.list_tasks)
    assert answer["position"] == board.head().position
    assert answer["next"] is None
    assert answer["tasks"] == [ask(board, queries.task, f"t_{status}") for status in STORIES]


LEAN = ("id", "title", "status", "assignee", "reviewer", "lane", "priority", "tenant", "run", "failures", "streak")
LEAN += ("neutral", "outcome", "position")


@pytest.mark.parametrize("filters", [{}, {"limit": 4}, {"status": "blocked"}, {"sort": "updated"}], ids=str)
def test_lean_rows_say_what_the_list_says(board, filters):
    """The same cards in the same order; instants as integers, of a hold the cause."""
    listed, lean = ask(board, queries.list_tasks, **filters), ask(board, queries.cards, **filters)
    assert (lean.position, lean.next) == (listed["position"], listed["next"])
    assert len(lean.cards) == len(listed["tasks"]) > 0
    for row, card in zip(lean.cards, listed["tasks"], strict=True):
        assert {name: getattr(row, name) for name in LEAN} == {name: card[name] for name in LEAN}
        assert (list(row.labels), row.hold) == (card["labels"], card["hold"] and card["hold"]["cause"])
        for name in ("created_at", "updated_at", "scheduled", "not_before"):
            at = getattr(row, name)
            assert card[name] == (None if at is None else rfc3339(at))


def test_two_cards_with_the_same_labels_do_not_share_a_list(store):
    """Whoever changes an answer changes that answer alone."""
    for task in ("t_a", "t_b"):
        store.append(given.created(labels=("red",)), task=task)
    first, second = ask(store, queries.list_tasks)["tasks"]
    first["labels"].append("blue")
    assert second["labels"] == ask(store, queries.task, "t_a")["labels"] == ["red"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"assignee": "ann"}, ["t_ready"]),
        ({"assignee": "none"}, ["t_blocked"]),
        ({"tenant": "acme"}, ["t_ready"]),
        ({"label": "blue"}, ["t_ready"]),
        ({"label": "blue", "assignee": "builder"}, []),
        ({"status": "ready", "label": "red", "tenant": "acme", "assignee": "ann"}, ["t_ready"]),
        ({"tenant": "other"}, []),
    ],
    ids=str,
)
def test_filters_narrow_a_list(board, filters, found):
    """Together they narrow it further; `none` means without an assignee."""
    assert ids(ask(board, queries.list_tasks, **filters)) == found


@pytest.mark.parametrize("label", ["Red", "re", "r_d", "%", "", ",", '","', "rot-ä", 'say "hi"', "back\\slash"])
def test_a_label_is_found_as_it_is_written_and_nothing_else_is(store, label):
    """No part of a label, no other case, no wildcard."""
    store.append(given.created(labels=("red", "blue")), task="t_other")
    assert ids(ask(store, queries.list_tasks, label=label)) == []
    store.append(given.created(labels=("x", label)), task="t_it")
    assert ids(ask(store, queries.list_tasks, label=label)) == ["t_it"]


@pytest.mark.parametrize(("wrong", "said"), [({"sort": "size"}, "priority, created"), ({"status": "asleep"}, "triage")])
def test_an_unknown_order_or_status_is_refused_with_those_there_are(board, wrong, said):
    """`InvalidInput`: correct the request."""
    with pytest.raises(InvalidInput) as caught:
        ask(board, queries.list_tasks, **wrong)
    assert said in caught.value.remedy


ORDERS = {
    "priority": lambda card: (-card["priority"], card["created_at"], card["id"]),
    "created": lambda card: (card["created_at"], card["id"]),
    "updated": lambda card: ([-ord(letter) for letter in card["updated_at"]], card["id"]),
}


@pytest.fixture
def tied(store):
    """Eleven cards with ties in every order; ids go against age."""
    for number in range(11):
        task = f"t_{(number * 7) % 11:02}"
        store.append(given.created(priority=number % 3, labels=("odd",) if number % 2 else ()), task=task)
        store.clock.advance(number % 2)
    for number in (4, 1, 9):
        store.append(given.commented(), task=f"t_{number:02}")
        store.clock.advance(number % 3)
    return store


@pytest.mark.parametrize("sort", ORDERS)
def test_a_list_has_the_order_that_was_asked_for(tied, sort):
    """Larger priority, then older, then id; or older; or newest change first."""
    cards = ask(tied, queries.list_tasks, sort=sort)["tasks"]
    assert len(cards) == 11
    assert all(ORDERS[sort](one) < ORDERS[sort](two) for one, two in pairwise(cards))


@pytest.mark.parametrize("filters", [{}, {"label": "odd"}], ids=str)
@pytest.mark.parametrize("limit", [1, 2, 5, 11, 12, None])
@pytest.mark.parametrize("sort", ORDERS)
def test_pages_give_every_card_once_and_in_order(tied, sort, limit, filters):
    """Also among cards that tie, and where the last page is full."""
    whole = ids(ask(tied, queries.list_tasks, sort=sort, limit=None, **filters))
    paged, after, pages = [], None, 0
    while after is not None or not pages:
        answer = ask(tied, queries.list_tasks, sort=sort, limit=limit, after=after, **filters)
        paged, after, pages = paged + ids(answer), answer["next"], pages + 1
    assert paged == whole
    assert pages == -(-len(whole) // (limit or 99))


def test_a_page_goes_on_behind_a_card_that_the_filter_no_longer_finds(board):
    """The card was finished between two pages."""
    first = ask(board, queries.list_tasks, assignee="builder", limit=1, status="ready")
    assert first == {"tasks": [], "position": board.head().position, "next": None}
    assert ids(ask(board, queries.list_tasks, after="t_triage", status="ready")) == ["t_ready"]


def test_a_page_behind_nobody_is_refused(board):
    """`UnknownTask`: look again."""
    with pytest.raises(UnknownTask):
        ask(board, queries.list_tasks, after="t_nobody")


def test_a_list_longer_than_one_statement_can_name_has_every_title_and_parent(store):
    """Words and parents are read in parts."""
    store.append(given.created("first"), task="t_first")
    ledgers.filled(store, 1_020)
    store.append(given.created("last", parents=["t_first"]), task="t_last")
    cards = ask(store, queries.list_tasks, limit=None)["tasks"]
    assert {card["id"]: card["title"] for card in cards} == {
        "t_first": "first", "t_last": "last", **{f"t_{number:04}": f"card {number}" for number in range(1_020)},
    }  # fmt: skip
    assert [card["id"] for card in cards if card["parents"]] == ["t_last"]


# One card whole


def test_show_gives_the_card_with_everything_around_it(store):
    """docs/cli.md: body, runs, parents, children, comments and events."""
    store.append(given.created("Child", body="old", parents=["t_up", ("t_gone", "any")]))
    store.append(given.created("Up"), given.completed(None, "fail"), task="t_up")
    store.append(given.created("Down", parents=["t_a"]), task="t_down")
    store.append(given.edited(body="new"), given.edited(priority=2), given.commented("hm"), actor=given.WORKER)
    shown = ask(store, queries.show, "t_a")
    assert shown["task"] == {**ask(store, queries.task, "t_a"), "body": "new"}
    assert shown["parents"] == [
        {"task": "t_gone", "require": "any", "status": None, "outcome": None},
        {"task": "t_up", "require": "ok", "status": "done", "outcome": "fail"},
    ]
    assert shown["children"] == [{"task": "t_down", "require": "ok", "status": "todo", "outcome": None}]
    assert shown["comments"] == [
        {
            "position": 8,
            "at": rfc3339(NOW),
            "actor": {"kind": "worker", "name": "builder", "host": "node-1"},
            "body": "hm",
        }
    ]
    assert [(event["kind"], event["version"]) for event in shown["events"]] == [
        ("created", 1), ("edited", 2), ("edited", 3), ("commented", 4),
    ]  # fmt: skip
    assert shown["runs"] == []


def test_an_event_is_shown_with_all_that_its_hash_is_made_of(store):
    """docs/cli.md, `events`: whoever has the JSON can compute the chain."""
    (event,) = store.append(given.created("T"), command_id="c1", salt=bytes)
    (shown,) = ask(store, queries.show, "t_a")["events"]
    assert shown == {
        "board": "b", "position": 2, "task": "t_a", "version": 1, "kind": "created", "schema": 1, "at": rfc3339(NOW),
        "actor": {"kind": "operator", "name": "ada", "host": "desk"}, "run": None, "outcome": None,
        "command_id": "c1", "facts": json.loads(event.facts_text), "words": {"title": "T", "body": None},
        "salt": "00" * 32, "words_digest": event.words_digest.hex(), "hash": event.hash.hex(),
    }  # fmt: skip


def test_runs_tell_how_each_ended_and_what_it_left(store):
    """docs/cli.md, a run: oldest first."""
    store.append(given.created(), given.claimed(1), given.worker_bound(1), given.stop_requested(1, "max_runtime"))
    store.append(given.exited(1, "timed_out", code=3, signal=15, evidence="exit_record", last_words="slow"))
    store.append(given.claimed(2, worker="bob", host="node-2"), given.progressed(2, tokens=7, cost="0.5"))
    store.append(given.completed(2, summary="done it", usage=given.usage(5, None)), at=NOW + SECOND)
    first, second = ask(store, queries.runs, "t_a")["runs"]
    assert first == {
        "run": 1, "assignee": "builder", "lane": "work", "claimed_at": rfc3339(NOW),
        "lease_until": rfc3339(NOW + 900 * SECOND), "pid": 4242, "host": "node-1", "outcome": "timed_out", "code": 3,
        "signal": 15, "evidence": "exit_record", "ended_at": rfc3339(NOW), "last_words": "slow", "summary": None,
        "usage": None, "stops": [{"position": 5, "cause": "max_runtime", "at": rfc3339(NOW)}], "positions": [3, 6],
    }  # fmt: skip
    assert second == {
        "run": 2, "assignee": "bob", "lane": "work", "claimed_at": rfc3339(NOW),
        "lease_until": rfc3339(NOW + 900 * SECOND), "pid": None, "host": "node-2", "outcome": "ok", "code": None,
        "signal": None, "evidence": None, "ended_at": rfc3339(NOW + SECOND), "last_words": None, "summary": "done it",
        "usage": {"tokens": 12, "cost": "0.5"}, "stops": [], "positions": [7, 9],
    }  # fmt: skip


def test_a_worker_that_blocked_left_its_reason(store):
    """The last thing that the run said."""
    store.append(given.created(), given.claimed(), given.blocked(1, "worker", reason="which colour?"))
    (run,) = ask(store, queries.runs, "t_a")["runs"]
    assert (run["outcome"], run["summary"]) == ("blocked", "which colour?")


def test_an_open_run_tells_the_lease_in_force(store):
    """Renewals are no events: the lease's row knows, until the run has ended."""
    store.append(given.created(), given.claimed())
    with writing(store.engine) as tx:
        leases.renew(tx, "b", "t_a", 1, until=NOW + HOUR)
    (open_run,) = ask(store, queries.runs, "t_a")["runs"]
    assert (open_run["lease_until"], open_run["outcome"], open_run["positions"]) == (rfc3339(NOW + HOUR), None, [3])
    store.append(given.completed())
    (ended,) = ask(store, queries.runs, "t_a")["runs"]
    assert ended["lease_until"] == rfc3339(NOW + 900 * SECOND)


# The board


def test_the_board_has_every_card_in_its_column(board):
    """docs/cli.md: columns by status, archived cards left out."""
    answer = ask(board, queries.board)
    assert {status: ids({"tasks": cards}) for status, cards in answer["columns"].items()} == {
        status: [f"t_{status}"] for status in STORIES if status != "archived"
    }
    assert answer["position"] == board.head().position


def test_a_column_is_in_the_order_of_the_board(tied):
    """Larger priority, then older, then id."""
    assert ask(tied, queries.board)["columns"]["ready"] == ask(tied, queries.list_tasks)["tasks"]


def test_stats_count_the_board(board):
    """docs/cli.md: by status, live, claimable now and since when; the last tick of each host."""
    keep(board, tables.sweeps, host="node-1", ticked_at=NOW, changed_at=None, errors=2)
    assert ask(board, queries.stats, NOW) == {
        "by_status": dict.fromkeys(queries.STATUSES, 1), "live": 1, "claimable": 2,
        "oldest_ready_at": rfc3339(NOW + 3 * SECOND),
        "sweeps": [{"host": "node-1", "ticked_at": rfc3339(NOW), "errors": 2}], "position": board.head().position,
    }  # fmt: skip


def test_stats_of_an_empty_board_know_no_oldest_card(store):
    """Unknown is none, never 0."""
    told = ask(store, queries.stats, NOW)
    assert (told["claimable"], told["oldest_ready_at"], told["sweeps"]) == (0, None, [])
    assert set(told["by_status"].values()) == {0}


def test_what_can_be_claimed_changes_with_the_clock_alone(board):
    """RULES §3: time never enters a fold; it is compared at query time."""
    assert [ask(board, queries.stats, NOW + HOUR + more)["claimable"] for more in (-1, 0)] == [2, 3]


def test_held_names_the_cards_of_each_reason(board):
    """RULES §7.6, as the last tick stored them."""
    assert ask(board, queries.held) == {}
    for task, reason in (("t_ready", "paused"), ("t_b", "no_assignee"), ("t_a", "paused")):
        keep(board, tables.held, task=task, reason=reason, until=None, since=NOW)
    assert ask(board, queries.held) == {"no_assignee": ["t_b"], "paused": ["t_a", "t_ready"]}


def test_next_at_is_when_time_alone_frees_a_card(store):
    """RULES §3: both the schedule and the cooldown must have passed; only cards that wait for time count."""
    assert ask(store, queries.next_at, NOW) is None
    store.append(given.created(), given.scheduled(NOW + 9 * SECOND), given.blocked(), task="t_blocked")
    store.append(given.created(), task="t_ready")
    assert ask(store, queries.next_at, NOW) is None
    store.append(given.created(), given.claimed(), given.exited(1, "lost", not_before=NOW + 20 * SECOND), task="t_both")
    store.append(given.scheduled(NOW + 10 * SECOND), task="t_both")
    assert ask(store, queries.next_at, NOW) == NOW + 20 * SECOND
    store.append(given.created(), given.scheduled(NOW + 15 * SECOND), task="t_soon")
    assert ask(store, queries.next_at, NOW) == NOW + 15 * SECOND
    assert ask(store, queries.next_at, NOW + 20 * SECOND) is None


# What every answer keeps to


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_writes_nothing(board, name):
    """RULES §4: reads move nothing. A connection that cannot write gives the same answer."""
    keep(board, tables.held, task="t_ready", reason="paused", until=None, since=NOW)
    unable = copies.open_to_look(board.path) if board.is_file else connect(f"{board.url}&options={READ_ONLY}")
    with reading(unable) as tx, reading(board.engine) as able:
        assert QUESTIONS[name](tx) == QUESTIONS[name](able)
    unable.dispose()


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_plain_json(board, name):
    """Scripts read it."""
    with reading(board.engine) as tx:
        answer = QUESTIONS[name](tx)
    assert json.loads(json.dumps(answer)) == answer


def test_redacted_words_come_out_as_none(store):
    """RULES §10: the words are gone, everything else stays."""
    store.append(given.created("SECRET", body="SECRET"), given.commented("SECRET"))
    store.append(given.claimed(1), given.exited(1, last_words="SECRET"))
    store.append(given.claimed(2), given.blocked(2, "worker", reason="SECRET"))
    for position in (2, 3, 5, 7):
        redact(store, position)
    shown = ask(store, queries.show, "t_a")
    card, (comment,), runs = shown["task"], shown["comments"], shown["runs"]
    assert (card["title"], card["body"], card["hold"]["reason"], comment["body"]) == (None, None, None, None)
    assert [(run["last_words"], run["summary"]) for run in runs] == [(None, None), (None, None)]
    gone = {event["position"]: (event["words"], event["salt"]) for event in shown["events"]}
    assert {position for position, words in gone.items() if words == (None, None)} == {2, 3, 5, 7}
    assert ask(store, queries.list_tasks)["tasks"][0]["title"] is None
    answers = [shown, ask(store, queries.board), ask(store, queries.why, "t_a", now=NOW)]
    assert "SECRET" not in json.dumps(answers)


def test_a_later_page_that_is_full_looks_no_further(tied):
    """The smaller priorities are not asked for."""
    first = ids(ask(tied, queries.list_tasks, limit=1))[0]
    for limit, statements in ((1, 1), (2, 2)):  # and one card more, to know of a next page: three have 2
        with sent(tied.engine) as said:
            ask(tied, queries.list_tasks, limit=limit, after=first)
        assert len([each for each in said if "priority DESC" in each.text]) == statements


@pytest.mark.parametrize(("first", "later"), [(16, 500), (1, 1), (2, 3), (4, 2), (11, 1)])
def test_the_order_of_the_candidates_is_the_order_of_the_list(tied, monkeypatch, first, later):
    """RULES §7.6 and `list` agree on who is first, wherever a page of candidates ends."""
    monkeypatch.setattr(snapshot, "_FEW", first)
    monkeypatch.setattr(snapshot, "_MANY", later)
    with reading(tied.engine) as tx:
        found = [task.id for task in snapshot.candidates(tx, "b", NOW + HOUR, "node-1")]
    assert found == ids(ask(tied, queries.list_tasks))
