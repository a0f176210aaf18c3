"""`why`: every answer names what is true, the rule, the positions that it rests on, and what to run next."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import insert

from ledger.clock import rfc3339
from ledger.database import reading, writing
from ledger.errors import InvalidInput, UnknownTask
from ledger.events import COUNTED, NEUTRAL
from projections import tables
from projections.why import TOPICS, why
from tests import given, ledgers
from tests.given import NOW, SECOND

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
        "waiting_on: t_p is ready, the link requires ok", [2], "ledger why t_p",
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
    assert told(store) == [("it waits for its reviewer (none)", [4]), ("no_assignee: no sweep starts it", [])]


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


WAITS = {
    "it is open": ([], "ready", None, None, 2),
    "it runs": ([given.claimed(), given.progressed()], "running", None, None, 4),
    "it is held": ([given.blocked(1, "worker"), given.commented()], "blocked", None, "worker", 4),
    "it was held and runs again": (
        [given.blocked(), given.unblocked(), given.claimed(), given.commented()], "running", None, None, 6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAITS)
def test_a_parent_that_may_still_come_is_waited_for(family, name):
    """RULES §7.6, waiting_on: its status, its hold, and the event that it rests on."""
    story, status, outcome, hold, position = WAITS[name]
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
    assert answer["try"] == "ledger why t_p"


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
        [given.created(assignee=None)], "no_assignee: no sweep starts it", [], "ledger assign t_a NAME",
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
    assert told(store, "held") == [("no sweep has looked at it since it became claimable", [])]


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


# Topics


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_narrows_the_answer_and_not_what_stands_around_it(store, topic):
    """Status, waits and the next step are always there."""
    store.append(given.created())
    answer = ask(store, topic)
    assert {name: answer[name] for name in answer if name != "because"} == {
        "task": "t_a", "status": "ready", "waits_on": [], "try": "ledger sweep",
    }  # fmt: skip
    assert len(answer["because"]) == 1


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
