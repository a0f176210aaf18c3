"""`why`: every answer names what is true, the rule, the positions that it rests on, and what to run next."""

from __future__ import annotations

import json
import random
from itertools import count, product
from pathlib import Path

import pytest
from sqlalchemy import insert

from ledger import store as log
from ledger.clock import rfc3339
from ledger.database import reading, writing
from ledger.errors import InvalidInput, UnknownKind, UnknownTask
from ledger.events import COUNTED, NEUTRAL, Actor
from projections import clauses, tables
from projections.asked import Asked
from projections.proof import prove
from projections.read_models import apply
from projections.why import TOPICS, why
from tests import given, ledgers
from tests.audits import outside
from tests.given import NOW, SECOND
from tests.rules.remembered import Remembered
from tests.rules.test_why_law import random_log

LATER = NOW + 3_600 * SECOND
COUNTERS = {
    "streak": "violation_budget",
    "neutral": "neutral_budget",
    "runs": "run_budget",
    "failures": "failure_budget",
    "spent": "attempt_budget",
}


def ask(store, topic=None, task="t_a", now=NOW):
    with reading(store.engine) as tx:
        return why(tx, ledgers.BOARD, task, now=now, topic=topic)


def told(store, topic=None, **more):
    """Each reason as (text, positions)."""
    return [(ground["text"], ground["positions"]) for ground in ask(store, topic, **more)["because"]]


def keep(store, reason, task="t_a"):
    """Store a held reason, as a tick does."""
    row = {"board": "b", "task": task, "reason": reason, "until": None, "since": NOW}
    with writing(store.engine) as tx:
        tx.execute(insert(tables.held).values(**row))


# The status

STATUSES = {
    "archived": ([given.created(), given.archived(), given.commented()], "it was archived", [3], "ledger reopen t_a"),
    "done": (
        [given.created(), given.completed(None, "fail"), given.commented()],
        "it was completed with outcome fail", [3], "ledger reopen t_a",
    ),
    "running": (
        [given.created(), given.claimed()],
        "run 1 by builder is open", [3], "ledger log t_a --follow, or ledger stop t_a",
    ),
    "blocked": (
        [given.created(), given.blocked(), given.commented()],
        "a hold is in force", [3], "ledger runs t_a, then ledger unblock t_a --reason …",
    ),
    "triage": (
        [given.created(lane="triage"), given.edited(priority=4)],
        "it waits in triage for somebody to take it into work", [2], "ledger edit t_a --lane work",
    ),
    "todo": (
        [given.created(parents=["t_p"])],
        "waiting_on: t_p is ready, the link requires ok", [2], "ledger sweep",
    ),
    "scheduled": (
        [given.created(), given.scheduled(LATER), given.commented()],
        f"it is parked until {rfc3339(LATER)}", [3], "ledger schedule t_a TIME",
    ),
    "review": (
        [given.created(), given.claimed(), given.review_requested(), given.commented()],
        "it waits for its reviewer critic", [4], "ledger sweep",
    ),
    "ready": (
        [given.created()],
        "it is open: no hold is in force, and it waits for no other card", [2], "ledger sweep",
    ),
}  # fmt: skip


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_has_its_reason_the_events_behind_it_and_a_next_step(store, status):
    """RULES §3: the events that made it so, not those that came later."""
    story, text, positions, remedy = STATUSES[status]
    if status == "todo":
        store.append(given.created(), task="t_p")
    store.append(*story)
    answer = ask(store)
    assert (answer["task"], answer["status"], answer["try"]) == ("t_a", status, remedy)
    assert answer["because"][0] == {"text": text, "rule": "§3", "positions": positions}


def test_a_card_that_went_back_to_triage_rests_on_that_edit(store):
    """The last event that set the lane, not the last edit."""
    store.append(given.created(), given.edited(lane="triage"), given.edited(priority=1))
    assert told(store) == [("it waits in triage for somebody to take it into work", [3])]


def test_a_review_without_a_reviewer_says_so(store):
    """RULES §1, worker: none at all is held `no_assignee`."""
    store.append(given.created(), given.claimed(), given.review_requested(reviewer=None))
    assert told(store) == [("it waits for its reviewer (none)", [4]), ("no_assignee: no sweep starts it", [4])]


def test_a_running_card_names_its_process_and_who_wants_it_to_stop(store):
    """Of this run, not of the one before."""
    first = [given.claimed(1), given.worker_bound(1), given.stop_requested(1, "stalled"), given.exited(1, "stalled")]
    store.append(given.created(), *first, given.claimed(2))
    assert told(store) == [("run 2 by builder is open", [7])]
    store.append(given.worker_bound(2, pid=77), given.stop_requested(2, "drain"))
    assert told(store) == [
        ("run 2 by builder is open", [7]), ("process 77 has the run", [8]), ("it was asked to stop: drain", [9]),
    ]  # fmt: skip


# Parents


@pytest.fixture
def family(store):
    """`t_a` waits for `t_p` with the outcome ok."""
    store.append(given.created(), task="t_p")
    store.append(given.created(parents=["t_p"]))
    return store


LOG = "ledger log t_p --follow, or ledger stop t_p"
WAITS = {
    "it is open": ([], "ready", None, None, 2, "ledger sweep"),
    "it runs": ([given.claimed(), given.progressed()], "running", None, None, 4, LOG),
    "it is held": (
        [given.blocked(1, "worker"), given.commented()], "blocked", None, "worker", 4,
        "ledger runs t_p, then ledger unblock t_p --reason …",
    ),
    "it was held and runs again": (
        [given.blocked(), given.unblocked(), given.claimed(), given.commented()], "running", None, None, 6, LOG,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAITS)
def test_a_parent_that_may_still_come_is_waited_for(family, name):
    """RULES §7.6, waiting_on: its status, its hold, and the event that it rests on."""
    story, status, outcome, hold, position, remedy = WAITS[name]
    if story:
        family.append(*story, task="t_p")
    answer = ask(family)
    assert answer["waits_on"] == [
        {
            "parent": "t_p",
            "require": "ok",
            "status": status,
            "outcome": outcome,
            "hold": hold,
            "dead": False,
            "position": position,
        }
    ]
    stands = status if hold is None else f"{status}: {hold}"
    assert told(family) == [(f"waiting_on: t_p is {stands}, the link requires ok", [position])]
    assert answer["try"] == remedy


DEAD = {
    "the wrong outcome": (
        [given.completed(None, "fail"), given.commented()], "done: fail", 4,
        "ledger reopen t_p, or ledger unlink t_a t_p, or ledger link t_a t_p --require any",
    ),
    "archived with the wrong outcome": (
        [given.completed(None, "fail"), given.archived(), given.commented()], "archived: fail", 5,
        "ledger reopen t_p, or ledger unlink t_a t_p, or ledger link t_a t_p --require any",
    ),
    "archived undone": (
        [given.archived(), given.commented()], "archived", 4, "ledger reopen t_p, or ledger unlink t_a t_p",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEAD)
def test_a_dead_parent_is_told_with_the_remedies_that_would_help(family, name):
    """RULES §3: `any` asks that it is done, so it frees nobody from a parent that was archived undone."""
    story, stands, position, remedy = DEAD[name]
    family.append(*story, task="t_p")
    assert told(family) == [(f"waiting_for_ever: t_p is {stands}, the link requires ok", [position])]
    assert ask(family)["try"] == remedy


def test_an_unknown_parent_can_only_be_unlinked(store):
    """RULES §3: nobody can reopen a card that is not there."""
    store.append(given.created(parents=[("t_gone", "any")]))
    answer = ask(store)
    assert told(store) == [("waiting_for_ever: t_gone is unknown, the link requires any", [])]
    assert (answer["waits_on"][0]["dead"], answer["try"]) == (True, "ledger unlink t_a t_gone")


def test_a_dead_parent_comes_first_and_a_satisfied_one_is_not_named(family):
    """What a person must do is what to run next."""
    family.append(given.created(), given.completed(None), task="t_done")
    family.append(given.created(), given.archived(), task="t_z")
    family.append(given.linked("t_done"), given.linked("t_z"))
    answer = ask(family)
    assert [wait["parent"] for wait in answer["waits_on"]] == ["t_p", "t_z"]
    assert answer["try"].startswith("ledger reopen t_z")


def test_the_ready_child_of_a_done_parent_waits_for_nobody(family):
    """RULES §3: satisfied, archived or not."""
    family.append(given.completed(None), given.archived(), task="t_p")
    assert (ask(family)["status"], ask(family)["waits_on"]) == ("ready", [])


# What must happen first


def stands(card, *parents, after=()):
    """A card that waits for *parents*."""
    return card, [given.created(parents=parents), *after]


def tell(store, *cards):
    """Append the stories of *cards*, in order."""
    for card, story in cards:
        store.append(*story, task=card)


def chain(store, task="t_a", **more):
    """The steps from the card to what must happen first, as (card, status, first word, positions)."""
    steps = ask(store, task=task, **more)["chain"]
    return [(step["task"], step["status"], step["text"].split(":")[0], step["positions"]) for step in steps]


def test_a_chain_leads_to_what_must_happen_first(store):
    """From parent to parent: the links, and where the last card stands; and the command that would move that one."""
    tell(store, stands("t_c"), stands("t_b", "t_c"), stands("t_a", "t_b"))
    store.append(given.blocked(), task="t_c")
    assert chain(store) == [
        ("t_a", "todo", "waiting_on", [4]),
        ("t_b", "todo", "waiting_on", [3]),
        ("t_c", "blocked", "operator; only a person lifts it", [5]),
    ]
    assert ask(store)["try"] == "ledger runs t_c, then ledger unblock t_c --reason …"


ENDS = {
    "ready": ((), "no sweep has looked at it since it became claimable", [2], "ledger sweep"),
    "nobody's": (
        (given.assigned(None),), "no_assignee: no sweep starts it", [2, 3], "ledger assign t_b NAME",
    ),
    "running": (
        (given.claimed(),), "run 1 by builder is open", [3], "ledger log t_b --follow, or ledger stop t_b",
    ),
    "cooling": (
        (given.claimed(), given.exited(1, "lost", not_before=NOW + 9_000_000_000)),
        f"cooldown_until {rfc3339(NOW + 9_000_000_000)}", [4], "ledger unblock t_b",
    ),
    "failed": (
        (given.completed(None, "fail"),), "it was completed with outcome fail", [3],
        "ledger reopen t_b, or ledger unlink t_a t_b, or ledger link t_a t_b --require any",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_a_chain_ends_with_why_that_card_stands_there(store, name):
    """Its reason and its events, and the command that would move it, are those of `why` about that card."""
    story, text, positions, remedy = ENDS[name]
    tell(store, stands("t_b", after=story), stands("t_a", "t_b"))
    end, answer = ask(store)["chain"][-1], ask(store)
    assert (end["task"], end["text"], end["positions"], answer["try"]) == ("t_b", text, positions, remedy)


def test_a_chain_that_ends_with_an_unknown_card_says_so(store):
    """RULES §3: dead."""
    tell(store, stands("t_b", "t_gone"), stands("t_a", "t_b"))
    assert chain(store)[-1] == ("t_gone", "unknown", "there is no such card on this board", [])
    assert ask(store)["try"] == "ledger unlink t_b t_gone"


def test_what_nobody_will_ever_do_comes_first_and_the_others_are_named(store):
    """A dead parent, then what waits for a person, then what a tick could start, then what runs: by what is urgent."""
    story = {"t_9": [given.archived()], "t_8": [given.blocked()], "t_6": [], "t_5": [given.claimed()]}
    tell(store, *(stands(card, after=after) for card, after in reversed(story.items())))
    tell(store, ("t_7", [given.created(lane="triage")]), stands("t_b", "t_6", "t_5"))
    tell(store, stands("t_a", "t_b", "t_8", "t_9", "t_7"))
    answer = ask(store)
    assert [step["task"] for step in answer["chain"]] == ["t_a", "t_9"]
    assert answer["also"] == [
        {"task": card, "status": status}
        for card, status in [("t_8", "blocked"), ("t_7", "triage"), ("t_6", "ready"), ("t_5", "running")]
    ]


def test_of_two_things_as_urgent_the_nearer_comes_first(store):
    """Then the one whose id is first."""
    tell(store, stands("t_1"), stands("t_9"), stands("t_8"), stands("t_b", "t_1"), stands("t_a", "t_b", "t_9", "t_8"))
    answer = ask(store)
    assert answer["chain"][-1]["task"] == "t_8"
    assert [other["task"] for other in answer["also"]] == ["t_9", "t_1"]


def test_of_two_ways_to_a_card_the_shorter_is_told(store):
    """The card that must move is named once."""
    tell(store, stands("t_d"), stands("t_c", "t_d"), stands("t_b", "t_c", "t_d"), stands("t_a", "t_b", "t_c"))
    assert [step["task"] for step in ask(store)["chain"]] == ["t_a", "t_b", "t_d"]
    assert ask(store)["also"] == []


def test_a_ring_is_told_whole_and_hangs_nothing(store):
    """RULES §3: a ring already in a log must not hang a fold; somebody must take a link out of it."""
    tell(store, stands("t_b", "t_c"), stands("t_c", "t_d"), stands("t_d", "t_b"), stands("t_a", "t_b"))
    answer = ask(store)
    assert [step["task"] for step in answer["chain"]] == ["t_a", "t_b", "t_c", "t_d"]
    assert answer["chain"][-1]["text"] == "waiting_on: t_b is todo, the link requires ok"
    assert (answer["also"], answer["try"]) == ([], "ledger unlink t_d t_b")
    assert [step["task"] for step in ask(store, task="t_c")["chain"]] == ["t_c", "t_d", "t_b"]


def test_a_ring_comes_before_what_could_start(store):
    """Nothing in a ring can ever happen, whatever else is done."""
    tell(store, stands("t_c"), stands("t_b", "t_b"), stands("t_a", "t_c", "t_b"))
    answer = ask(store)
    assert [step["task"] for step in answer["chain"]] == ["t_a", "t_b"]
    assert (answer["also"], answer["try"]) == ([{"task": "t_c", "status": "ready"}], "ledger unlink t_b t_b")


def test_a_ring_is_found_past_what_could_start(store):
    """Only links between cards that wait for each other are in it."""
    tell(store, stands("t_1"), stands("t_2", "t_1"), stands("t_c", "t_b", "t_2"), stands("t_b", "t_2", "t_c"))
    tell(store, stands("t_a", "t_2", "t_b"))
    assert [step["task"] for step in ask(store)["chain"]] == ["t_a", "t_b", "t_c"]
    assert ask(store)["also"] == [{"task": "t_1", "status": "ready"}]


def test_a_parent_that_was_put_away_under_a_hold_is_dead_and_not_held(store):
    """RULES §3: the first match wins, and archived comes before blocked."""
    tell(store, stands("t_p", after=[given.blocked(), given.archived()]), stands("t_a", "t_p"))
    (wait,) = ask(store)["waits_on"]
    assert (wait["status"], wait["hold"], wait["dead"], wait["position"]) == ("archived", None, True, 4)


def test_only_a_waiting_card_has_a_chain(store):
    """RULES §3: a hold comes before the parents; the parents are named all the same."""
    tell(store, stands("t_b"), stands("t_a", "t_b", after=[given.blocked()]))
    answer = ask(store)
    assert (answer["chain"], answer["also"]) == ([], [])
    assert [wait["parent"] for wait in answer["waits_on"]] == ["t_b"]


# Holds


def runs(*outcomes, first=1):
    """So many runs that ended so."""
    events = []
    for number, outcome in enumerate(outcomes, first):
        events += [given.claimed(number), given.exited(number, outcome)]
    return events


HOLDS = {
    "operator": ([given.blocked(reason="wait for Ann")], 'operator "wait for Ann"; only a person lifts it', [3]),
    "a wish": ([given.blocked(block_kind="wish_refused")], "operator (wish_refused); only a person lifts it", [3]),
    "worker": (
        [given.claimed(), given.blocked(1, "worker", block_kind="needs_input", reason="which?")],
        'worker (needs_input) "which?"; only a person lifts it', [4],
    ),
    "config": (
        [given.claimed(), given.exited(1, "config", code=78, last_words="no key")],
        'config "no key"; only a person lifts it', [4],
    ),
    "failure_budget": (
        [*runs("crashed", "lost", "timed_out"), given.budget_blocked()],
        "failure_budget: 2 of 2 (policy limit); it lifts when a limit is raised or the card is handed over",
        [4, 8, 9],
    ),
    "violation_budget": (
        [*runs("clean", "lost", "clean"), given.budget_blocked("violation_budget", sticky=True, limit_source="task")],
        "violation_budget: 2 of 2 (task limit); only a person lifts it", [4, 8, 9],
    ),
    "neutral_budget": (
        [*runs("lost", "interrupted"), given.budget_blocked("neutral_budget", sticky=True)],
        "neutral_budget: 2 of 2 (policy limit); only a person lifts it", [4, 6, 7],
    ),
    "run_budget": (
        [*runs("lost", "crashed"), given.budget_blocked("run_budget", sticky=True)],
        "run_budget: 2 of 2 (policy limit); only a person lifts it", [3, 5, 7],
    ),
    "attempt_budget": (
        [*runs("clean", "crashed"), given.budget_blocked("attempt_budget")],
        "attempt_budget: 2 of 2 (policy limit); it lifts when a limit is raised or the card is handed over",
        [4, 6, 7],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDS)
def test_a_hold_names_its_cause_its_count_and_the_events_it_rests_on(store, name):
    """RULES §5: each event that moved the counter in this epoch, then the one that set the hold."""
    story, text, positions = HOLDS[name]
    store.append(given.created(), *story)
    assert told(store, "hold")[0] == (text, positions)
    assert told(store)[:2] == [("a hold is in force", positions[-1:]), (text, positions)]


@pytest.mark.parametrize(
    ("hold", "remedy"),
    [
        (
            given.budget_blocked(),
            "ledger edit t_a --max-retries N, ledger assign t_a ANOTHER, or ledger unblock t_a",
        ),
        (
            given.budget_blocked("violation_budget", sticky=True),
            "ledger runs t_a, then ledger unblock t_a --reason …",
        ),
    ],
    ids=["not sticky", "sticky"],
)
def test_what_to_run_next_about_a_hold_depends_on_who_can_lift_it(store, hold, remedy):
    """RULES §5: sticky: only a person; else a raised limit or another worker too."""
    store.append(given.created(), *runs("crashed", "crashed"), hold)
    assert ask(store)["try"] == remedy


def test_how_the_last_run_ended_stands_beside_the_hold(store):
    """RULES §6: the outcome, and the code where one is known."""
    store.append(given.created(), *runs("crashed"), given.claimed(2), given.exited(2, "crashed", code=3))
    store.append(given.budget_blocked(), given.commented())
    assert told(store, "hold")[-1] == ("run 2 ended as crashed with code 3", [6])


def test_a_run_that_ended_without_a_code_says_only_how(store):
    """Unknown is not 0."""
    store.append(given.created(), *runs("crashed"), given.blocked())
    assert told(store, "hold")[-1] == ("run 1 ended as crashed", [4])


def test_budgets_at_their_limit_are_told_beside_the_hold(store):
    """RULES §5: `why` lists every budget that is at its limit now, each with the events that moved it."""
    store.append(given.policy_changed(neutral_limit=1))
    store.append(given.created(max_retries=2), *runs("clean", "crashed", "crashed"))
    store.append(given.budget_blocked(), *runs("lost", first=4))
    assert told(store, "hold")[1:3] == [
        ("neutral_budget is at its limit now: 1 of 1 (policy)", [12]),
        ("attempt_budget is at its limit now: 3 of 2 (task)", [5, 7, 9]),
    ]


def test_a_budget_at_its_limit_is_told_without_a_hold_too(store):
    """RULES §5: a lowered limit takes no card back: it acts at the next counted end."""
    store.append(given.created(), *runs("crashed"))
    assert told(store, "hold") == [("no hold is in force", [])]
    store.append(given.policy_changed(failure_limit=1))
    assert told(store, "hold") == [
        ("no hold is in force", []),
        ("failure_budget is at its limit now: 1 of 1 (policy)", [4]),
    ]


def test_a_redacted_reason_is_not_told(store):
    """RULES §10: the hold stays, its words are gone."""
    store.append(given.created(), given.blocked(reason="SECRET"), given.redacted(3))
    store.sql("DELETE FROM words WHERE position = 3")
    assert told(store, "hold") == [("operator; only a person lifts it", [3])]


# Counters


def starts_an_epoch(event, worker):
    """RULES §1, epoch."""
    handed_on = event.kind == "assigned" and event.facts["to"] not in {None, worker}
    by_operator = event.kind == "unblocked" and event.facts["cause"] == "operator"
    return event.kind in {"completed", "reopened"} or by_operator or handed_on


def moved(log):
    """The table of RULES §4, by hand: the events of this epoch that moved each counter."""
    found, worker = {counter: [] for counter in COUNTERS}, "builder"
    for event in log:
        if starts_an_epoch(event, worker):
            found = {counter: [] for counter in COUNTERS}
        worker = (event.facts["to"] or worker) if event.kind == "assigned" else worker
        if event.kind == "claimed":
            found["runs"].append(event.position)
        elif event.kind == "exited" and event.outcome in NEUTRAL:
            found["neutral"].append(event.position)
        elif event.kind == "exited":
            found["neutral"] = []
            found["spent"].append(event.position)
            found["failures"] += [event.position] if event.outcome != "clean" else []
            found["streak"] = [*found["streak"], event.position] if event.outcome == "clean" else []
    return found


def happened(draw):
    """A long life of a card: runs of every ending, and every start of an epoch."""
    number = 0
    for _ in range(draw.randint(5, 25)):
        match draw.randrange(12):
            case 0:
                yield given.unblocked(draw.choice(["operator", "limit_raised", "reassigned"]))
            case 1:
                yield given.assigned(draw.choice([None, "builder", "other"]))
            case 2:
                yield from (given.completed(None), given.reopened())
            case 3:
                yield given.commented()
            case _:
                number += 1
                outcome = draw.choice([*sorted(COUNTED), *sorted(NEUTRAL), "clean", "clean", "clean"])
                yield from (given.claimed(number), given.exited(number, outcome))


@pytest.mark.parametrize("seed", range(25))
def test_a_counter_rests_on_exactly_the_events_that_moved_it_in_this_epoch(store, seed):
    """RULES §4: as many as it counts, whatever happened between and before."""
    store.append(given.created(), *happened(random.Random(seed)))
    limits = dict.fromkeys(["failure_limit", "violation_limit", "attempt_limit", "neutral_limit", "run_limit"], 1)
    store.append(given.policy_changed(**limits))
    expected = moved(store.read())
    for counter in ("failures", "streak"):
        ((text, positions),) = told(store, counter)
        assert positions == expected[counter]
        assert text.startswith(f"{counter} {len(positions)} in this epoch; ")
    assert [each for each in told(store, "hold") if "is at its limit now" in each[0]] == [
        (f"{cause} is at its limit now: {len(expected[counter])} of 1 (policy)", expected[counter])
        for counter, cause in COUNTERS.items()
        if expected[counter]
    ]


def test_a_counter_is_told_with_its_limits(store):
    """RULES §5: the budgets that count it, each with its limit and where that comes from."""
    store.append(given.created(), *runs("crashed", "clean"))
    assert told(store, "failures") == [
        ("failures 1 in this epoch; failure_budget 1 of 2 (policy), attempt_budget 2 of 6 (policy)", [4])
    ]
    store.append(given.edited(max_retries=5))
    assert told(store, "streak") == [("streak 1 in this epoch; violation_budget 1 of 5 (task)", [6])]


def test_a_card_with_failures_tells_them_unasked(store):
    """The next one may be the last."""
    store.append(given.created(), *runs("crashed"))
    assert [text.split(" ")[0] for text, _ in told(store)] == ["it", "failures", "no"]


# Held

FULL = given.policy_changed(max_running=1)
HELD = {
    "cooldown": (
        [given.created(), given.claimed(), given.exited(1, "rate_limited", not_before=LATER), given.commented()],
        f"cooldown_until {rfc3339(LATER)}", [4], "ledger unblock t_a",
    ),
    "scheduled": (
        [given.created(), given.scheduled(LATER), given.commented()],
        f"scheduled_for {rfc3339(LATER)}", [3], "ledger schedule t_a TIME",
    ),
    "no assignee": (
        [given.created(assignee=None)], "no_assignee: no sweep starts it", [2], "ledger assign t_a NAME",
    ),
    "nothing": (
        [given.created()], "no sweep has looked at it since it became claimable", [], "ledger sweep",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_a_card_that_was_not_started_says_why(store, name):
    """RULES §7.6, and what to run next about it."""
    story, text, positions, remedy = HELD[name]
    store.append(*story)
    assert (told(store, "held"), ask(store)["try"]) == ([(text, positions)], remedy)
    assert (text, positions) in told(store)


@pytest.mark.parametrize("name", ["cooldown", "scheduled"])
def test_time_that_has_passed_holds_nobody(store, name):
    """Time is compared when the question is asked."""
    store.append(*HELD[name][0])
    assert told(store, "held", now=LATER) == [("no sweep has looked at it since it became claimable", [])]


PAUSES = {
    "board": (given.paused(), {}, "paused: the board", "ledger resume"),
    "assignee": (
        given.paused("assignee", "builder"), {}, "paused: the assignee builder", "ledger resume --assignee builder",
    ),
    "host": (
        given.paused("host", "node-9"), {"host": "node-9"}, "paused: the host node-9", "ledger resume --host node-9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("scope", PAUSES)
def test_a_pause_is_named_with_the_event_that_set_it(store, scope):
    """RULES §7.6: board, assignee, host (of a card that only that host may start)."""
    pause, fields, text, remedy = PAUSES[scope]
    store.append(given.created(**fields))
    store.append(pause)
    assert (told(store, "held"), ask(store)["try"]) == ([(text, [3])], remedy)


@pytest.mark.parametrize(("kind", "name"), [("assignee", "other"), ("host", "node-9")])
def test_a_pause_of_somebody_else_holds_nobody(store, kind, name):
    """Neither another worker's nor another host's."""
    store.append(given.created(host="node-1"))
    store.append(given.paused(kind, name))
    waits = "it is placed on node-1, and no sweep there has looked at it since it became claimable"
    assert told(store, "held") == [(waits, [])]


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("unknown_assignee", "ledger assign t_a NAME"),
        ("no_assignee", "ledger assign t_a NAME"),
        ("waiting_for_person", "ledger claim t_a"),
        ("assignee_at_capacity", "ledger list --status running"),
        ("at_capacity", "ledger list --status running"),
        ("ending", "ledger sweep"),
    ],
)
def test_a_stored_reason_is_told_with_the_time_since_when_it_holds(store, reason, remedy):
    """RULES §7.6: what a sweep saw, word for word; and what would change it."""
    store.append(given.created())
    keep(store, reason)
    assert told(store, "held") == [(f"held by the sweep since {rfc3339(NOW)}: {reason}", [])]
    assert ask(store)["try"] == remedy


def test_a_card_behind_the_last_slot_is_told_so_although_no_sweep_looked_at_it(store):
    """RULES §7.6: `at_capacity` for those behind is computed; the policy's position says who set the cap."""
    store.append(FULL)
    store.append(given.created(), given.claimed(), task="t_b")
    store.append(given.created())
    assert told(store, "held") == [("at_capacity: every slot of the board is taken", [2])]
    assert ask(store)["try"] == "ledger list --status running"
    store.append(given.policy_changed(max_running=2))
    assert told(store, "held") == [("no sweep has looked at it since it became claimable", [])]


@pytest.mark.parametrize("status", ["archived", "done", "running", "blocked", "triage"])
def test_a_card_that_nobody_could_start_is_not_held(store, status):
    """RULES §1, held: why a card that the sweep looked at was not started."""
    store.append(*STATUSES[status][0])
    keep(store, "paused")
    assert told(store, "held") == []


# Proofs: their law is tried in tests/rules/test_why_law.py


def proved(store, topic, **more):
    """The one proof: its value, rule and clause, and the positions of its events."""
    (proof,) = ask(store, topic, **more)["proof"]
    return proof["value"], proof["rule"], proof["clause"], [event["position"] for event in proof["events"]]


def test_a_proof_names_the_value_the_clause_and_the_events(store):
    """The row of the rules word for word, and of each event what it is."""
    store.append(given.created(), *runs("crashed", "lost", "crashed"), given.budget_blocked(), given.commented())
    value, rule, clause, positions = proved(store, "hold")
    assert value == {
        "cause": "failure_budget", "kind": None, "sticky": False, "count": 2, "limit": 2, "limit_source": "policy",
        "position": 9, "counted": 2,
    }  # fmt: skip
    assert (rule, clause.split(" · ")[0], positions) == ("§5", "failure", [4, 8, 9])
    assert ask(store, "failures")["proof"][0]["events"] == [
        {"position": 4, "task": "t_a", "kind": "exited", "outcome": "crashed"},
        {"position": 8, "task": "t_a", "kind": "exited", "outcome": "crashed"},
    ]
    assert proved(store, "status")[::3] == ("blocked", [9])
    assert proved(store, "held")[::3] == (None, [])


def test_what_counted_before_the_hold_still_proves_it_once_the_counters_are_gone(store):
    """RULES §4: `assigned` to somebody else starts the counters from zero; the hold stands, and so does its reason."""
    store.append(given.created(), *runs("crashed", "crashed"), given.budget_blocked(), given.assigned("other"))
    assert proved(store, "hold")[3] == [4, 6, 7]
    assert told(store, "hold")[0][1] == [4, 6, 7]
    assert proved(store, "failures")[::3] == (0, [])


def test_a_card_became_ready_by_the_event_that_let_it_go(store):
    """Not by the last that was said of it; and a card that was born with a parent, by that one's completion."""
    store.append(given.created(), *runs("crashed"), given.commented(), given.edited(priority=3))
    store.append(given.created(), given.completed(None), task="t_p")
    store.append(given.created(parents=["t_p"]), given.commented(), task="t_b")
    assert proved(store, "status")[::3] == ("ready", [4])
    assert proved(store, "status", task="t_b")[::3] == ("ready", [8, 9])


HELD_BY = {
    "paused": (
        [given.assigned("other")], [given.paused("assignee", "other")],
        {"reason": "paused", "scope": "assignee", "name": "other", "position": 4}, [3, 4],
    ),
    "at_capacity": (
        [], [given.policy_changed(max_running=1), ("t_b", given.created()), ("t_b", given.claimed())],
        {"reason": "at_capacity", "limit": 1, "position": 3}, [2, 3, 5],
    ),
    "at_capacity of two": (
        [], [given.policy_changed(max_running=2), *(("t_b", each) for each in (given.created(), given.claimed())),
             *(("t_c", each) for each in (given.created(), given.claimed(), given.progressed()))],
        {"reason": "at_capacity", "limit": 2, "position": 3}, [2, 3, 5, 7],
    ),
    "cooldown_until": (
        [given.claimed(), given.exited(1, "lost", not_before=LATER)], [],
        {"reason": "cooldown_until", "until": rfc3339(LATER)}, [4],
    ),
    "claimable": ([given.claimed(), given.exited(1, "lost")], [], {"reason": "claimable"}, [2]),
}  # fmt: skip


@pytest.mark.parametrize("reason", HELD_BY)
def test_what_keeps_a_card_is_proved_as_far_as_the_log_says_it(store, reason):
    """RULES §7.6: beside what a sweep saw, which no event tells: unknown assignees, people, processes that end."""
    mine, others, value, positions = HELD_BY[reason]
    store.append(given.created(), *mine)
    for each in others:
        task, event = each if isinstance(each, tuple) else ("", each)
        store.append(event, task=task)
    keep(store, "unknown_assignee")
    ((text, _),) = told(store, "held")
    assert text.startswith(reason if reason in {"paused", "cooldown_until"} else "held by the sweep since")
    found, _, _, places = proved(store, "held")
    assert ({name: told for name, told in found.items() if told is not None}, places) == (value, positions)


BORN = {
    "in triage": ([given.created(lane="triage"), given.edited(lane="work")], [2, 3]),
    "under a parent that was unlinked": ([given.created(parents=["t_p"]), given.unlinked("t_p", "ok")], [2, 3]),
    "under a parent that was done": ([given.created(parents=["t_p"]), ("t_p", given.completed(None))], [2, 3]),
    "under a parent that failed, which is enough now": (
        [given.created(parents=["t_p"]), given.linked("t_p", "any"), ("t_p", given.completed(None, "fail"))], [2, 3, 4],
    ),
    "under a parent that was linked again as it was": (
        [given.created(parents=["t_p"]), given.linked("t_p", "any"), ("t_p", given.completed(None))], [2, 4],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BORN)
def test_what_a_card_was_born_with_and_what_took_it_away_belong_together(store, name):
    """Its birth gave it its worker, so that it is needed; and then all that let it go."""
    story, positions = BORN[name]
    for each in (*story, given.claimed(), given.exited(1, "crashed")):
        task, event = each if isinstance(each, tuple) else ("t_a", each)
        store.append(event, task=task)
    assert proved(store, "held")[::3] == ({**NOBODY, "reason": "claimable"}, positions)


NOBODY = dict.fromkeys(("reason", "until", "scope", "name", "limit", "position"))


def test_whose_a_parked_review_is_depends_on_its_lane(store):
    """RULES §1, worker: in lane review the reviewer, and there is none."""
    store.append(given.created(), given.claimed(), given.review_requested(reviewer=None), given.scheduled(NOW))
    assert proved(store, "held")[::3] == ({**NOBODY, "reason": "no_assignee"}, [4])


def test_a_pause_of_a_host_is_proved_by_the_cards_birth(store):
    """Only `created` names the host; whoever has the card now does not matter."""
    store.append(given.created(host="node-9"), given.assigned("other"), given.claimed(), given.exited(1, "crashed"))
    store.append(given.paused("host", "node-9"))
    paused = {"reason": "paused", "scope": "host", "name": "node-9", "position": 6}
    assert proved(store, "held")[::3] == ({**NOBODY, **paused}, [2, 6])


def test_of_many_parents_the_one_that_proves_the_wait_alone_is_named(store):
    """A link that came after the card was taken out of triage needs nothing beside it."""
    store.append(given.created(lane="triage", parents=["t_p"]), given.edited(lane="work"), given.linked("t_q"))
    assert proved(store, "status")[::3] == ("todo", [4])


@pytest.mark.parametrize(
    "story", [[given.scheduled(LATER)], [given.claimed(), given.exited(1, "lost", not_before=LATER)]]
)
def test_a_time_keeps_a_card_until_that_very_instant(store, story):
    """RULES §3: claimable at *t*: the time is at or before *t*."""
    store.append(given.created(), *story)
    found = [proved(store, "held", now=now)[0]["reason"] for now in (LATER - 1, LATER)]
    assert found[0] != "claimable"
    assert found[1] == "claimable"


@pytest.mark.parametrize("seed", range(6))
def test_the_store_proves_what_a_log_in_memory_proves(store, seed):
    """Read newest first, in pages, and only as far as it is needed: the same events."""
    events, cards, now = random_log(seed)
    with writing(store.engine) as tx:
        for event in events[1:]:
            actor = Actor(kind=event.actor_kind, name=event.actor_name, host=event.actor_host)
            draft = given.draft(event.event(), task=event.task, actor=actor)
            apply(tx, "b", log.append(tx, "b", [draft], expected=event.version - 1, at=event.at))
    assert [event[1:7] for event in store.read()] == [event[1:7] for event in events]
    for card, topic in product(cards, TOPICS):
        proof = prove(topic, Remembered(events, card, now))
        assert ask(store, topic, task=card, now=now)["proof"] == json.loads(json.dumps([proof.as_json()]))


def test_of_a_long_life_no_more_is_read_than_the_answer_needs(store, monkeypatch):
    """Newest first: eight hundred events before the last epoch cost nothing."""
    numbers = count(1, step=2)
    for _ in range(40):
        life = [runs(*["crashed"] * 2, first=next(numbers)) for _ in range(5)]
        store.append(*([given.created()] if not store.read()[1:] else []), *(event for part in life for event in part))
        store.append(given.unblocked())
    store.append(*runs("crashed", "crashed", first=1_000), given.budget_blocked())
    taken = []
    recorded = Asked._recorded
    monkeypatch.setattr(Asked, "_recorded", lambda self, row: taken.append(row) or recorded(self, row))
    assert len(proved(store, "hold")[3]) == 3
    assert len(taken) < 20


def test_a_counter_that_takes_many_pages_is_proved_whole(store):
    """A limit may be large."""
    store.append(given.policy_changed(failure_limit=500, attempt_limit=500))
    store.append(given.created(), *runs(*["crashed", "lost"] * 150))
    assert proved(store, "failures")[0] == len(proved(store, "failures")[3]) == 150


@pytest.mark.parametrize(
    ("column", "value", "topic"),
    [("failures", 2, "failures"), ("archived", True, "status"), ("lane", "triage", "status")],
)
def test_what_is_stored_but_was_never_told_is_not_proved(store, column, value, topic):
    """RULES §9: stored and log differ; the answer says so and names the audit instead of proving what is not so."""
    store.append(given.created(), *runs("crashed"))
    store.sql(f"UPDATE tasks SET {column} = :value", value=value)
    answer = ask(store, topic)
    assert answer["proof"] == []
    assert answer["because"][0] == {
        "text": f"what is stored of its {topic} is not what its log gives: ledger replay --task t_a",
        "rule": "§9",
        "positions": [],
    }


def test_a_kind_that_this_program_does_not_know_is_named_where_nothing_can_be_proved(store):
    """RULES §2: never skipped in silence."""
    store.append(given.created(), given.commented())
    outside(store, "UPDATE events SET kind = 'promoted' WHERE position = 2")
    with pytest.raises(UnknownKind):
        ask(store)


def plain(text):
    """The rules without marks: cells of a row with a dot between them, one space for every gap."""
    rows = [" · ".join(cell.strip() for cell in line.strip("|").split("|")) for line in text.splitlines()]
    return " ".join(" ".join(rows).replace("`", "").replace("*", "").split())


def test_every_clause_stands_in_the_rules_word_for_word():
    """In the section that it names."""
    _, *sections = (Path(__file__).parents[2] / "docs" / "rules.md").read_text().split("\n## ")
    by_number = {f"§{section.split('.')[0]}": plain(section) for section in sections}
    tables = [value for name, value in vars(clauses).items() if isinstance(value, dict) and name.startswith("_")]
    found = [clause for table in tables for clause in table.values() if isinstance(clause, clauses.Clause)]
    assert len(found) >= 25
    assert [clause for clause in found if clause.words not in by_number[clause.rule.split(".")[0]]] == []


# Topics


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_narrows_the_answer_and_not_what_stands_around_it(store, topic):
    """Status, waits and the next step are always there."""
    store.append(given.created())
    answer = ask(store, topic)
    assert {name: answer[name] for name in answer if name not in {"because", "proof"}} == {
        "task": "t_a", "status": "ready", "waits_on": [], "chain": [], "also": [], "try": "ledger sweep",
    }  # fmt: skip
    assert len(answer["because"]) == 1
    assert [proof["about"] for proof in answer["proof"]] == [topic]


def test_an_unknown_topic_is_refused_with_those_there_are(store):
    """`InvalidInput`: correct the request."""
    store.append(given.created())
    with pytest.raises(InvalidInput, match="'weather' is no topic") as caught:
        ask(store, "weather")
    assert caught.value.remedy == "one of: status, failures, streak, hold, held"


def test_a_card_that_is_not_there_is_named(store):
    """`UnknownTask`: look again."""
    with pytest.raises(UnknownTask):
        ask(store)
