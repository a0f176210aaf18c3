"""How a board flows: counted here by walking the log, and nothing else."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from decimal import Decimal

import pytest

from ledger.database import reading
from ledger.events import ENDINGS
from projections.places import Stretch
from projections.statistics import DEAREST, flow
from projections.usage import Used, summed
from tests import given, ledgers
from tests.given import SECOND

DAY = 86_400
NOTHING = {"count": 0, "p50": None, "p85": None, "p95": None, "max": None}


def ask(store, after=0, until=None):
    """The flow of that stretch, of the whole log by default."""
    with reading(store.engine) as tx:
        return flow(tx, ledgers.BOARD, Stretch(after, until or store.head().position))


def step(store, task, *events, later=0):
    """*events* of a card, so many seconds *later*."""
    store.clock.advance(later)
    store.append(*events, task=task)


# By hand


def test_a_board_without_cards_has_no_flow(store):
    """Counts are 0; what nobody knows is none."""
    found = ask(store)
    assert [found[name] for name in ("created", "completed", "failed", "runs")] == [0, 0, 0, 0]
    assert found["cycle_time"] == found["lead_time"] == found["cost_per_card"] == NOTHING
    assert found["usage"] == {"runs": 0, "seconds": None, "tokens": None, "cost": None, "runs_without_usage": 0}
    assert found["days"] == found["assignees"] == found["dearest"] == []
    born = "2025-06-15T15:06:40.000000Z"
    assert found["between"] == {"from_position": 1, "to_position": 1, "from": born, "to": born}


def test_an_empty_stretch_says_so(store):
    """It has no first event and no last."""
    found = ask(store, after=1, until=1)
    assert found["between"] == {"from_position": 2, "to_position": 1, "from": None, "to": None}
    assert found["days"] == []


@pytest.fixture
def story(store):
    """Two cards: one with three runs over two days, reopened and done again; one that a person completed."""
    step(store, "t_a", given.created())
    step(store, "t_a", given.claimed(1, worker="ann"), later=10)
    step(store, "t_a", given.progressed(1, tokens=5, cost="0.10"), given.exited(1, "crashed"), later=30)
    step(store, "t_a", given.claimed(2, worker="bob"), later=5)
    step(store, "t_a", given.exited(2, "lost"), later=15)
    step(store, "t_a", given.claimed(3, worker="ann"), later=DAY)
    step(store, "t_a", given.completed(3, usage=given.usage(7, None)), later=40)
    step(store, "t_b", given.created(), later=1)
    step(store, "t_b", given.completed(None, "fail"), later=20)
    step(store, "t_a", given.reopened(), later=1)
    step(store, "t_a", given.claimed(4, worker="bob"), later=2)
    step(store, "t_a", given.completed(4), later=6)
    return store


def test_how_long_a_card_took_and_how_many_runs(story):
    """From its birth or its reopening; from its first run. A card that nobody ran has no cycle time."""
    found = ask(story)
    assert [found[name] for name in ("created", "completed", "failed", "runs")] == [2, 2, 1, 4]
    assert found["lead_time"] == {"count": 3, "p50": 20, "p85": DAY + 100, "p95": DAY + 100, "max": DAY + 100}
    assert found["cycle_time"] == {"count": 2, "p50": 6, "p85": DAY + 90, "p95": DAY + 90, "max": DAY + 90}
    assert found["runs_per_completion"] == {
        "count": 3, "p50": 1, "p85": 3, "p95": 3, "max": 3, "distribution": {"0": 1, "1": 1, "3": 1},
    }  # fmt: skip


def test_what_the_runs_used(story):
    """By the board, the card, the worker and the day on which the run ended; unknown is none, and is counted."""
    found = ask(story)
    whole = {"runs": 4, "seconds": 91, "tokens": 12, "cost": "0.10", "runs_without_usage": 3}
    assert found["usage"] == whole
    assert found["dearest"] == [{"task": "t_a", **whole}]
    assert found["cost_per_card"] == {"count": 1, "p50": "0.10", "p85": "0.10", "p95": "0.10", "max": "0.10"}
    assert found["tokens_per_card"]["p50"] == 12
    assert found["assignees"] == [
        {"assignee": "ann", "completed": 1, "runs": 2, "seconds": 70, "tokens": 12, "cost": "0.10",
         "runs_without_usage": 1},
        {"assignee": "bob", "completed": 1, "runs": 2, "seconds": 21, "tokens": None, "cost": None,
         "runs_without_usage": 2},
    ]  # fmt: skip
    first, second = found["days"]
    assert (first["day"], first["claimed"], first["completed"], first["tokens"]) == ("2025-06-15", 2, 0, 5)
    assert (second["day"], second["completed"], second["failed"], second["tokens"]) == ("2025-06-16", 2, 1, 7)


def test_a_run_that_failed_its_card_is_nobodys_success(store):
    """`completed` counts what was done with outcome ok; the run was used all the same."""
    step(store, "t_a", given.created(), given.claimed(1, worker="ann"), given.completed(1, "fail"))
    (ann,) = ask(store)["assignees"]
    assert (ann["completed"], ann["runs"]) == (0, 1)


def test_days_on_which_nothing_happened_are_told(store):
    """A count of nothing is 0; what it used is unknown."""
    step(store, "t_a", given.created())
    step(store, "t_a", given.completed(None), later=3 * DAY)
    days = ask(store)["days"]
    assert [day["completed"] for day in days] == [0, 0, 0, 1]
    assert days[1] == {
        "day": "2025-06-16", "created": 0, "claimed": 0, "completed": 0, "failed": 0, "runs": 0, "seconds": None,
        "tokens": None, "cost": None, "runs_without_usage": 0,
    }  # fmt: skip


def test_only_the_dearest_cards_are_named(store):
    """By cost, then by tokens; the rest stands in the sums and in the ranks."""
    for number in range(DEAREST + 3):
        usage = given.usage(number, f"{number % 7}.5" if number % 3 else None)
        step(store, f"t_{number:02}", given.created(), given.claimed(1), given.completed(1, usage=usage))
    named = [(Decimal(each["cost"] or 0), each["tokens"]) for each in ask(store)["dearest"]]
    assert len(named) == DEAREST
    assert named == sorted(named, reverse=True)


def test_an_open_run_is_in_no_sum_yet(store):
    """Usage belongs to runs that ended."""
    step(store, "t_a", given.created(), given.claimed(1), given.progressed(1, tokens=5))
    found = ask(store)
    assert (found["runs"], found["usage"]["runs"], found["usage"]["tokens"]) == (1, 0, None)


# By walking the log


def lived(store, seed):
    """A board of a few cards, over many days."""
    dice = random.Random(seed)
    runs = Counter()
    for number in range(6):
        step(store, f"t_{number}", given.created())
    for _ in range(80):
        task = f"t_{dice.randrange(6)}"
        runs[task] += 1
        usage = given.usage(dice.choice([None, 3, 9]), dice.choice([None, "0.20", "1.05"]))
        worker = dice.choice(["ann", "bob"])
        step(store, task, given.claimed(runs[task], worker=worker), later=dice.choice([1, 900, 50_000]))
        match dice.randrange(5):
            case 0:
                step(store, task, given.completed(runs[task], dice.choice(["ok", "fail"]), usage=usage), later=5)
                step(store, task, given.reopened(), later=7)
            case 1:
                step(store, task, given.review_requested(runs[task]), later=3)
            case _:
                step(store, task, given.progressed(runs[task], tokens=3), given.exited(runs[task], "crashed"), later=9)
        if dice.randrange(8) == 0:
            step(store, task, given.completed(None), given.reopened(), later=2)


class Walked:
    """The stretch counted event by event."""

    def __init__(self, log, after, until):
        self.lead, self.cycle, self.per, self.counts = [], [], [], Counter()
        self.days, self.used = Counter(), defaultdict(list)
        self.begun, self.first, self.runs, self.open = {}, {}, Counter(), {}
        for event in log[:until]:
            if event.task:
                self.take(event, event.position > after)

    def take(self, event, inside):
        card, facts = event.task, event.facts
        if inside:
            self.counts[event.kind] += 1
            self.days[event.at // (DAY * SECOND), event.outcome if event.kind == "completed" else event.kind] += 1
        match event.kind:
            case "created" | "reopened":
                self.begun[card], self.runs[card] = event.at, 0
                self.first.pop(card, None)
            case "claimed":
                self.runs[card] += 1
                self.first.setdefault(card, event.at)
                self.open[card] = [event.at, facts["worker"], None, None]
            case "progressed":
                self.add(card, facts["usage"])
            case "completed" if inside:
                self.lead.append(event.at - self.begun[card])
                self.cycle += [event.at - self.first[card]] if card in self.first else []
                self.per.append(self.runs[card])
        if event.kind in ENDINGS and event.run is not None:
            self.add(card, facts.get("usage"))
            at, worker, tokens, cost = self.open.pop(card)
            if inside:
                unsaid = int(tokens is None or cost is None)
                used = Used(1, (event.at - at) // SECOND, tokens, None if cost is None else str(cost), unsaid)
                for key in (None, card, worker, event.at // (DAY * SECOND)):
                    self.used[key].append(used)

    def add(self, card, usage):
        run = self.open[card]
        if usage and usage["tokens"] is not None:
            run[2] = (run[2] or 0) + usage["tokens"]
        if usage and usage["cost"] is not None:
            run[3] = (run[3] or 0) + Decimal(usage["cost"])


def ranked(values):
    """The value that so many per cent of all do not exceed: the smallest such value there is."""
    of = {
        name: next((v for v in sorted(values) if sum(w <= v for w in values) * 100 >= share * len(values)), None)
        for name, share in {"p50": 50, "p85": 85, "p95": 95, "max": 100}.items()
    }
    return {"count": len(values), **of}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("part", [(0, 1), (1, 1), (0, 2), (1, 3)], ids=str)
def test_a_stretch_is_what_walking_the_log_counts(store, seed, part):
    """What began before the stretch is known in it; what ended outside of it does not count."""
    lived(store, seed)
    log = store.read()
    after, until = len(log) * part[0] // 4, len(log) * (part[0] + part[1]) // 4
    found, walked = ask(store, after, until), Walked(log, after, until)
    assert found["lead_time"] == ranked([time // SECOND for time in walked.lead])
    assert found["cycle_time"] == ranked([time // SECOND for time in walked.cycle])
    assert {name: found["runs_per_completion"][name] for name in NOTHING} == ranked(walked.per)
    assert found["completed"] + found["failed"] == walked.counts["completed"]
    assert found["usage"] == summed(walked.used[None]).as_json()
    for each in found["assignees"]:
        assert {name: each[name] for name in found["usage"]} == summed(walked.used[each["assignee"]]).as_json()
    for number, day in enumerate(found["days"], min(day for day, _ in walked.days)):
        counted = [walked.days[number, what] for what in ("created", "claimed", "ok", "fail")]
        assert [day[name] for name in ("created", "claimed", "completed", "failed")] == counted
        assert {name: day[name] for name in found["usage"]} == summed(walked.used[number]).as_json()
    costs = [Decimal(used.cost) for card in range(6) if (used := summed(walked.used[f"t_{card}"])).cost is not None]
    assert found["cost_per_card"]["max"] == (str(max(costs)) if costs else None)
    assert json.loads(json.dumps(found)) == found
