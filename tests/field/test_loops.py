"""Cards that went round and round: waits for nothing, and blocks that fed the work they should end (RULES §5)."""

from kanban.commands import Block, Complete, Reopen, Unblock
from tests import given
from tests.field.stories import counters, go, hold, night


def test_waiting_for_a_parent_that_is_not_there_does_not_spin(world):
    """B32: without an open parent it is a person's block, and the worker is told; no tick starts it again."""
    world.create("t_p")
    world.do(Complete("t_p"))
    for step, parents in enumerate(((), ("t_p",))):
        task = f"t_{step}"
        world.create(task, parents=parents)
        claim = world.claim(task)
        told = world.do(Block(task, "waits", kind="dependency", claim=claim.proof), given.WORKER, claim.own)
        assert "no parent is open" in told.notes[0]
        assert world.last("blocked").facts["block_kind"] == "needs_input"
    assert night(world, 0) == 0


def test_waiting_for_a_parent_that_is_open_waits_without_a_run(world):
    """B32: with an open parent the card is `todo`: no run until the parent is done, then one."""
    world.create("t_p", assignee=None)
    world.create(parents=["t_p"], lane="work")
    world.do(Complete("t_p"))
    claim = world.claim()
    world.do(Reopen("t_p"))
    world.do(Block("t_a", "waits", kind="dependency", claim=claim.proof), given.WORKER, claim.own)
    assert (world.status(), hold(world)) == ("todo", None)
    assert night(world, 0, ticks=5) == 0
    world.do(Complete("t_p"))
    assert night(world, 0, ticks=1) == 1


def test_refusing_again_and_again_is_bounded(world):
    """B32: a parent that is closed and reopened each time cannot make a card run for ever: the run budget holds it."""
    world.policy(run_limit=5)
    world.create("t_p", assignee=None)
    world.create(parents=["t_p"])
    for _ in range(5):
        world.do(Complete("t_p"))
        claim = world.claim()
        world.do(Reopen("t_p"))
        world.do(Block("t_a", "waits", kind="dependency", claim=claim.proof), given.WORKER, claim.own)
    assert hold(world) == ("run_budget", True)


def test_a_loop_of_blocks_costs_a_person_each_time_and_never_feeds_itself(world):
    """B36: RULES count no cycles: each needs an act of a person; a held card is in no automation's input."""
    world.create()
    for kind in ("needs_input", "access", "needs_input", None, "scope"):
        claim = world.claim()
        world.do(Block("t_a", "what now?", kind=kind, claim=claim.proof), given.WORKER, claim.own)
        assert hold(world) == ("worker", True)
        assert night(world, 0, ticks=20) == 0, "no trip sends it back into work"
        world.do(Unblock("t_a"))
    assert (counters(world), world.status()) == ((0, 0, 0, 0), "ready")


def test_no_hold_of_any_cause_is_a_source_of_work(world):
    """B36: whatever tripped, no tick claims the card, and the notice tells the cause that is in the event."""
    world.policy(failure_limit=1, violation_limit=1, neutral_limit=1)
    for code, cause in ((3, "failure_budget"), (0, "violation_budget"), (75, "neutral_budget"), (78, "config")):
        task = f"t_{cause}"
        world.create(task)
        go(world, code, task)
        assert hold(world, task)[0] == cause
        said = world.of(task)[-1].words
        assert cause.removesuffix("_budget") in said["reason"] if cause != "config" else said["last_words"] == "bye"
    assert night(world, 0) == 0
