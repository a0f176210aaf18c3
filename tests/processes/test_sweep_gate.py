"""A run that was never bound never ran, whatever kills its dispatcher between two steps (RULES §7.7)."""

import json
import signal

import pytest

import kanban.starting
from tests.fleets import sh, until

MARK = sh('touch "$LEDGER_HOME/marker"; exit 75')
DIE = "os.kill(os.getpid(), signal.SIGKILL)"
UNTOUCHED = (0, 0, 0, 1)
"""Failures, streak, spent, neutral: the counters after one neutral end."""


@pytest.fixture
def card(fleet):
    """A card whose worker leaves a marker as soon as it runs."""
    fleet.staff({"w": {"command": MARK}})
    return fleet.create()


def killed_at(fleet, step):
    """Tick in another process that dies by `kill -9` instead of doing *step*."""
    other = fleet.outside(f"{step} = lambda *_: {DIE}\nboard.sweep()")
    assert other.wait() == -signal.SIGKILL


def record(fleet, card):
    """The exit record, once the supervisor has written it."""
    path = fleet.folder(card) / "exit.json"
    until(path.exists)
    return json.loads(path.read_text())


def marked(fleet):
    """Whether any worker ran."""
    return (fleet.home / "marker").exists()


def assert_booked(fleet, card, *, code, evidence):
    """Booked as interrupted, and only `neutral` moved, while no worker has run."""
    fleet.sweep(most=0)
    run = fleet.runs(card)[0]
    assert (run["outcome"], run["code"], run["evidence"]) == ("interrupted", code, evidence)
    assert fleet.counters(card) == UNTOUCHED
    assert not marked(fleet)


def test_a_pause_between_claim_and_binding_keeps_the_gate_shut(fleet, card, monkeypatch):
    """§7.7: `worker_bound` is refused if the board is paused; the supervisor runs nothing and writes record 143."""
    launch, operator = kanban.starting.launch, fleet.another()

    def pausing(order):
        launched = launch(order)
        operator.pause()
        return launched

    monkeypatch.setattr(kanban.starting, "launch", pausing)
    tick = fleet.sweep()
    assert [each["pid"] for each in tick.claimed] == [None]
    assert record(fleet, card)["code"] == 143
    until(lambda: not fleet.board.sweeper.children.reap())
    assert_booked(fleet, card, code=143, evidence="exit_record")
    assert fleet.kinds(card) == ["created", "claimed", "exited"]


@pytest.mark.parametrize("scope", ["assignee", "host"])
def test_every_scope_of_a_pause_keeps_the_gate_shut(fleet, card, monkeypatch, scope):
    """§7.7: binding is refused if the board, the assignee or the host is paused."""
    launch, operator = kanban.starting.launch, fleet.another()
    name = {"assignee": "w", "host": fleet.board.host.id}[scope]

    def pausing(order):
        launched = launch(order)
        operator.pause(scope=scope, name=name)
        return launched

    monkeypatch.setattr(kanban.starting, "launch", pausing)
    fleet.sweep()
    assert record(fleet, card)["code"] == 143
    assert_booked(fleet, card, code=143, evidence="exit_record")


def test_a_sweeper_killed_before_the_launch_loses_nothing(fleet, card):
    """§6: claimed by spawn, never bound, launch grace over: interrupted, booked by any other process."""
    killed_at(fleet, "kanban.starting.launch")
    assert fleet.kinds(card) == ["created", "claimed"]
    fleet.clock.advance(20)
    assert fleet.sweep().booked == []
    fleet.clock.advance(11)
    assert_booked(fleet, card, code=None, evidence="none")
    fleet.sweep_until(lambda: marked(fleet))


def test_a_sweeper_killed_before_the_binding_leaves_a_supervisor_that_runs_nothing(fleet, card):
    """§7.7: if the gate closes unopened the supervisor writes exit record 143 and ends; booked without any grace."""
    killed_at(fleet, "kanban.starting._bind")
    assert record(fleet, card)["code"] == 143
    assert_booked(fleet, card, code=143, evidence="exit_record")
    fleet.sweep_until(lambda: marked(fleet))


def test_a_sweeper_killed_before_the_gate_opens_leaves_a_supervisor_that_runs_nothing(fleet, card):
    """§7: a kill between any two steps loses nothing: bound, but never let run."""
    killed_at(fleet, "kanban.starting.open_gate")
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound"]
    assert record(fleet, card)["code"] == 143
    until(lambda: not fleet.members(card))
    assert_booked(fleet, card, code=143, evidence="exit_record")
    fleet.sweep_until(lambda: marked(fleet))


def test_a_sweeper_killed_before_it_commits_has_changed_nothing(fleet, card):
    """§7: booking and accounting are one transaction: neither the claim nor anything else is in the log."""
    killed_at(fleet, "kanban.sweep.keep_held")
    assert fleet.kinds(card) == ["created"]
    assert len(fleet.sweep().claimed) == 1


def test_a_sweeper_killed_before_its_signals_leaves_them_to_the_next(fleet):
    """§7.2: the stop stands in the log, and the next tick of any process sends what it stands before."""
    fleet.staff({"w": {"command": sh("exec sleep 300")}})
    card = fleet.create(max_runtime=60)
    fleet.sweep()
    fleet.clock.advance(61)
    killed_at(fleet, "kanban.sweep.Sweeper._signal")
    assert fleet.kinds(card)[-1] == "stop_requested"
    assert len(fleet.members(card)) == 2
    assert fleet.sweep().stopped == [{"task": card, "run": 1, "signal": 15}]
    assert fleet.ended(card)["outcome"] == "timed_out"
