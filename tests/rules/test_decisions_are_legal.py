"""Whatever the program decides is legal to the judge: random walks of people, workers and sweeps over one board."""

from __future__ import annotations

from random import Random

import pytest

from kanban import commands as c
from kanban.admission import caps_of, claimed, live_of, refuse
from kanban.booking import decide_step
from kanban.decide import decide
from kanban.evidence import Evidence
from kanban.outcome import Circumstance, Witnessed, outcome_of
from kanban.plan import AskStop, Book, Lease, Lift, Seen
from ledger.errors import LedgerError
from ledger.ids import lock_hash
from ledger.recorded import Draft
from projections.budgets import lift
from projections.graph import Link
from projections.legality import Judge
from projections.policy import SECOND
from projections.world import World
from tests import given

CARDS = ["t_0", "t_1", "t_2"]
WORKERS = ["builder", "critic"]

ENDS = [*((code, None) for code in (75, 78, 0, 0, 1, 2, 127, 143)), (None, 9), (None, 15)]
"""(code, signal) that a witness may say."""


class Board:
    """A board in memory: the view that decisions are made on, folded and judged event by event."""

    def __init__(self, dice: Random) -> None:
        self.dice, self.now = dice, given.NOW
        self.world = World()
        self.judge = Judge(self.world)
        self.log, self.versions = [], {}
        self.locks = {}
        self.write([given.draft(given.board_created())])

    def write(self, drafts):
        for draft in drafts:
            self.versions[draft.task] = self.versions.get(draft.task, 0) + 1
            event = draft.as_if(position=len(self.log) + 1, version=self.versions[draft.task], at=self.now)
            was = self.world.tasks.get(event.task)
            self.judge.before(event, was)
            self.world.evolve(event)
            self.judge.after(event, was)
            self.log.append(event)

    settings = property(lambda self: self.world.settings)

    def task(self, task):
        return self.world.task(task)

    def run(self, task, run):
        return self.world.runs.get((task, run))

    def run_by_lock(self, task, hashed):
        found = [run for (name, _), run in self.world.runs.items() if name == task and run.lock_hash == hashed]
        return found[0] if found else None

    def parents(self, task):
        return tuple(Link(parent, task, how) for parent, how in sorted(self.world.graph.parents.get(task, {}).items()))

    def children(self, task):
        return tuple(Link(task, child, how) for child, how in sorted(self.world.graph.children.get(task, {}).items()))

    def event(self, position):
        return self.log[position - 1] if 1 <= position <= len(self.log) else None

    def completion(self, task):
        found = [event for event in self.log if event.task == task and event.kind == "completed"]
        return found[-1] if found else None

    def created_with(self, key):
        found = [event for event in self.log if event.kind == "created" and event.facts["key"] == key]
        return found[0] if found else None

    def live(self):
        return tuple(run for run in self.world.runs.values() if run.open)


def card(board):
    return board.dice.choice(sorted(board.world.tasks)[-6:])


def new(board):
    """An id that no card has: the board mints them."""
    return f"t_{len(board.world.tasks)}"


def words(board):
    return board.dice.choice(["this", "that", None])


def ask(board):
    """An operator's command."""
    dice, task = board.dice, card(board)
    force = dice.random() < 0.7
    return dice.choice(
        [
            lambda: c.Create(
                new(board), "A card", assignee=dice.choice([*WORKERS, None]), key=dice.choice([None, "k"]),
                parents=tuple((card(board), dice.choice(["ok", "any"])) for _ in range(dice.randrange(3))),
                max_retries=dice.choice([None, None, 1, 2, 4]), lane=dice.choice(["work", "work", "triage"]),
                blocked=dice.choice([None, None, "wait"]),
            ),
            lambda: c.Edit(task, dice.choice([{"lane": dice.choice(["work", "triage"])},
                                              {"max_retries": dice.choice([None, 1, 5])}, {"max_runtime": 60},
                                              {"title": "B", "priority": dice.randrange(3)}])),
            lambda: c.Assign(task, dice.choice([*WORKERS, None]), force, dice.choice([None, "assignee", "reviewer"])),
            lambda: c.AddLink(task, card(board), dice.choice(["ok", "any"])),
            lambda: c.RemoveLink(task, card(board)),
            lambda: c.Comment(task, "hm"),
            lambda: c.Schedule(task, board.now + dice.randrange(3) * 100 * SECOND, None, force),
            lambda: c.Archive(task, dice.choice([None, "keep", "unlink", "cascade"]), force),
            lambda: c.Reopen(task),
            lambda: c.Reopen(task),
            lambda: c.Block(task, words(board), dice.choice([None, "needs_input"]), force),
            lambda: c.Unblock(task),
            lambda: c.Unblock(task),
            lambda: c.Complete(task, words(board), dice.choice(["ok", "ok", "fail"]), force=force),
            lambda: c.Accept(task, dice.randrange(1, 4)),
            lambda: c.AskChanges(task, "no"),
            lambda: c.Pause(*dice.choice([("board", ""), ("assignee", "builder"), ("host", "node-1")])),
            lambda: c.Resume(*dice.choice([("board", ""), ("assignee", "builder"), ("host", "node-1")])),
            lambda: c.Resume(*dice.choice([("board", ""), ("assignee", "builder"), ("host", "node-1")])),
            lambda: c.SetPolicy(dice.choice([{"failure_limit": dice.randrange(1, 4)},
                                             {"run_limit": dice.choice([2, 3, 50])},
                                             {"max_running": dice.choice([None, 1, 3])},
                                             {"max_running_per_assignee": dice.choice([None, 1, 2])},
                                             {"violation_limit": dice.randrange(1, 3)}, {"neutral_limit": 2},
                                             {"attempt_limit": dice.choice([None, 2])}, {"cooldown": 50}])),
        ]
    )()  # fmt: skip


def operate(board):
    return decide(board, ask(board), given.OPERATOR, None).drafts


def work(board):
    """A worker's command, mostly for a run that is open."""
    dice = board.dice
    runs = [run for run in board.world.runs.values() if run.open or dice.random() < 0.2]
    if not runs:
        return ()
    run = dice.choice(runs)
    claim = c.Credential(board.locks[run.task, run.run], run.run)
    spent = dice.choice([None, c.Spent(tokens=3)])
    command = dice.choice(
        [
            lambda: c.Complete(run.task, words(board), dice.choice(["ok", "fail"]), used=spent, claim=claim),
            lambda: c.Block(run.task, "why", dice.choice([None, "dependency", "needs_input"]), claim=claim),
            lambda: c.AskReview(run.task, claim, words(board), dice.choice([None, "critic"])),
            lambda: c.AskChanges(run.task, "no", claim),
            lambda: c.Progress(run.task, claim, "on", spent),
            lambda: c.AddLink(run.task, card(board), "ok", claim),
            lambda: c.Create(new(board), "Made", made_by=(run.task, run.run), blocked=dice.choice([None, "wait"])),
            lambda: c.Comment(card(board), "so"),
        ]
    )()
    return decide(board, command, given.OPERATOR, (run.task, claim)).drafts


def claim(board):
    """A sweep's or a person's claim, perhaps bound."""
    dice = board.dice
    task = c.known(board, card(board))
    worker = task.worker or "builder"
    caps = caps_of(board.settings, worker, live_of(board.live(), 1), own_cap=dice.choice([None, 2]), host_cap=5)
    refuse(board, task, worker, "node-1", caps, ending=False)
    lock = f"{task.id} {task.last_run + 1}"
    by = dice.choice(["spawn", "hand"])
    opened = claimed(
        board, task, by=by, worker=worker, lock_hash=lock_hash(lock), host="node-1", boot="boot-1", caps=caps,
        on_success=dice.choice(["violation", "violation", "complete", "review"]), quota=dice.choice([(), ("limit",)]),
    )  # fmt: skip
    board.locks[task.id, opened.run] = lock
    drafts = [given.draft(opened, task=task.id, actor=given.SWEEP)]
    if dice.random() < 0.8:
        bound = given.worker_bound(opened.run, role=dice.choice(["group", "group", "turns"]))
        drafts.append(given.draft(bound, task=task.id, actor=given.SWEEP))
    return drafts


def book(board):
    """The sweep sees that a run has ended."""
    dice, runs = board.dice, board.live()
    if not runs:
        return ()
    run = dice.choice(runs)
    code, signal = dice.choice(ENDS if dice.random() < 0.8 else [(None, None)])
    seen = (code, signal) != (None, None)
    quota = bool(run.quota) and dice.random() < 0.5
    reset = dice.choice([None, board.now + 9 * SECOND, board.now + 10**13])
    evidence = Evidence("exit_record" if seen else "none", code, signal, reset if seen else None, "words", ())
    how = dice.choice([Circumstance.GONE, Circumstance.REBOOTED]) if run.group else Circumstance.NEVER_BOUND
    lease = Lease(run.lease_until, None, row=True)
    if not seen and dice.random() < 0.5:
        how, lease = (
            Circumstance.LEASE_OVER,
            Lease(board.now - board.settings.policy.lease_grace * SECOND, None, row=True),
        )
    outcome = outcome_of(Witnessed(code, signal, quota) if seen else None, how, run)
    step = Book(run, outcome, Seen(evidence=evidence, quota=quota, summary="sum"), lease)
    return decide_step(board, step, given.SWEEP, "node-1:1").drafts


def stop(board):
    """The sweep asks a run to stop."""
    runs = board.live()
    if not runs:
        return ()
    cause = board.dice.choice(["max_runtime", "stalled", "drain"])
    return decide_step(board, AskStop(board.dice.choice(runs), cause, board.now, 5), given.SWEEP, "").drafts


def lifts(board):
    """The sweep lifts every hold that it may."""
    drafts = []
    for task in list(board.world.tasks):
        cause = lift(board.task(task), board.settings.policy)
        if cause is not None:
            drafts += decide_step(board, Lift(task, cause), given.SWEEP, "").drafts
    return drafts


def redact(board):
    """An operator deletes words."""
    named = board.dice.randrange(1, len(board.log) + 1)
    return (Draft.of(board.log[named - 1].task, given.redacted(named), given.OPERATOR),)


MOVES = [operate] * 6 + [claim] * 8 + [work] * 5 + [book] * 5 + [stop, lifts, redact]


def walk(seed, steps=120):
    board = Board(Random(seed))
    for name in CARDS:
        board.write([given.draft(given.created(assignee="builder"), task=name)])
    for _ in range(steps):
        board.now += board.dice.choice([0, SECOND, SECOND, 60 * SECOND, 4_000 * SECOND])
        try:
            board.write(board.dice.choice(MOVES)(board))
        except LedgerError:
            continue
    return board


@pytest.mark.parametrize("seed", range(40))
def test_what_is_decided_is_legal(seed):
    """RULES §9: the judge never finds fault with what §8 allows, §5 trips and §7 applies."""
    found = [fault for number in range(5) for fault in walk(seed * 5 + number).judge.close()]
    assert found == []


def test_the_walks_meet_every_kind_and_every_hold():
    """RULES §2: what was never decided would prove nothing."""
    logs = [event for seed in range(60) for event in walk(seed).log]
    kinds = {event.kind for event in logs}
    causes = {event.facts["cause"] for event in logs if event.kind == "blocked"}
    assert kinds >= set(given.EXAMPLES)
    assert causes >= {"operator", "worker", "failure_budget", "violation_budget", "run_budget", "neutral_budget"}
