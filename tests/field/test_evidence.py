"""Deaths that were booked as something else, by whoever looked: what bears witness, and of whom (RULES §6)."""

import json
import os
import signal
import subprocess
from dataclasses import replace

import pytest

import kanban.spawn
from kanban.evidence import NO_EVIDENCE
from kanban.hosts import Host
from kanban.outcome import Circumstance, Verb, Witnessed, outcome_of
from kanban.plan import Book, Seen, Signal
from kanban.processes import Presence, Process, ProcessTable
from projections.run import Binding
from tests import fleets, given
from tests.field.stories import counters, die, go, hold
from tests.fleets import sh, until

HOST = Host(id="h1", name="desk", boot="b1", namespace="pid:1")
BOUND = Binding(pid=4242, start_tick=777, group=4242, host="h1", boot="b1", namespace="pid:1")
LIVES = ProcessTable({4242: Process(4242, 4242, 4242, 777, dead=False)})
READY = "touch ready; exec sleep 300"


def test_a_deploy_is_no_crash_of_every_card(world):
    """B17: TERM, HUP, INT or their codes, and a host that was booted: neutral, whatever the run had done."""
    for step, seen in enumerate(({"signal": 15}, {"signal": 1}, {"signal": 2}, {"code": 143}, {"code": 130})):
        task = f"t_{step}"
        world.create(task)
        world.claim(task)
        die(world, seen.get("code"), task, **({"signal": seen["signal"]} if "signal" in seen else {}))
        assert (world.run(task, 1).outcome, counters(world, task)) == ("interrupted", (0, 0, 0, 1))
    world.create("t_boot")
    world.claim("t_boot")
    world.settle({("t_boot", 1): Seen(Presence.REBOOTED)})
    assert (world.run("t_boot", 1).outcome, counters(world, "t_boot")) == ("interrupted", (0, 0, 0, 1))


def test_a_drain_is_written_before_it_kills(world):
    """B17: `pause --drain` asks each run in the log first; even an end by KILL is `interrupted` then."""
    world.create()
    world.claim()
    world.happened(given.paused(drain=True, reason="deploy"))
    world.settle({("t_a", 1): Seen(Presence.ALIVE, (4242,))})
    assert world.last("stop_requested").facts["cause"] == "drain"
    assert die(world, signal=9) == "interrupted"
    assert counters(world) == (0, 0, 0, 1)


def test_a_record_still_counts_when_the_claimer_is_gone(world):
    """B17: an exit record with code 1 is a crash, whoever was restarted meanwhile; deploys for ever end in a hold."""
    world.create()
    assert go(world, 1) == "crashed"
    world.create("t_b")
    world.policy(neutral_limit=5)
    for _ in range(5):
        go(world, 143, "t_b")
    assert hold(world, "t_b") == ("neutral_budget", True)
    assert world.last("blocked").words["reason"]


def test_a_vanished_process_on_the_same_boot_is_a_crash(world):
    """B17: RULES §6, where the report says neutral: a supervisor outlives its claimer, so its silence counts."""
    world.create()
    world.claim()
    assert die(world) == "crashed"
    assert world.last("exited").facts["evidence"] == "none"


def test_a_dispatcher_that_goes_takes_no_worker_with_it(fleet):
    """B17: real ones: the starter is killed, another adopts its worker; a deploy's TERM to it is neutral."""
    fleet.staff({"w": {"command": sh(READY)}})
    card = fleet.create()
    killed = fleet.outside("board.sweep(); os.kill(os.getpid(), signal.SIGKILL)")
    assert killed.wait() == -signal.SIGKILL
    fleet.in_scratch(card, "ready")
    fleet.clock.advance(800)
    tick = fleet.sweep()
    assert ([each["task"] for each in tick.renewed], tick.live) == ([card], 1)
    os.killpg(fleet.supervisor(card), signal.SIGTERM)
    assert fleet.ended(card)["outcome"] == "interrupted"
    assert fleet.counters(card) == (0, 0, 0, 1)


def test_the_same_death_is_booked_alike_by_a_timer_and_by_a_loop(fleet):
    """B18: started by a process that is gone: 0, 75, 78 and 3 are what they are to any other, by the record."""
    wanted = {"0": "clean", "75": "rate_limited", "78": "config", "3": "crashed"}
    fleet.staff({f"w{code}": {"command": sh(f"exit {code}")} for code in wanted})
    cards = {code: fleet.create(assignee=f"w{code}") for code in wanted}
    assert fleet.outside("board.sweep()").wait() == 0
    for code, card in cards.items():
        until((fleet.folder(card) / "exit.json").exists)
        run = fleet.ended(card)
        assert (run["outcome"], run["code"], run["evidence"]) == (wanted[code], int(code), "exit_record")


@pytest.mark.parametrize("circumstance", Circumstance)
def test_a_witness_says_the_same_on_every_path(world, circumstance):
    """B18: dead worker, expired lease, reboot, never bound: a code is that code; only silence depends on the path."""
    world.create()
    world.claim()
    run = world.run("t_a", 1)
    said = [outcome_of(Witnessed(code, None, quota=False), circumstance, run) for code in (0, 1, 75, 78, 127, 143)]
    assert said == ["clean", "crashed", "rate_limited", "config", "spawn_failed", "interrupted"]
    done = run._replace(on_success="complete")
    assert outcome_of(Witnessed(0, None, quota=False), circumstance, done) is Verb.COMPLETE


def test_two_observers_book_one_death_in_equal_words(world):
    """B18: equal kinds, outcomes and facts but for the observer; and the second of them books nothing more."""
    world.create()
    world.claim()
    first, second = (world.book("t_a", "crashed", observer=name) for name in ("node-1:7", "node-1:8"))
    facts = [[draft.as_if(position=1, version=1, at=0).facts for draft in each.drafts] for each in (first, second)]
    for each in facts:
        each[0].pop("observer")
    assert facts[0] == facts[1]
    world.write(first.drafts)
    head = world.head
    world.settle({("t_a", 1): Seen(Presence.GONE)})
    assert world.head == head


def test_a_zombie_is_dead(fleet):
    """B22: an ended child that nobody reaped holds neither card nor slot, by hand or spawned."""
    dead = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        card = fleet.create(assignee=None)
        fleet.board.claim(card, pid=dead.pid)
        dead.kill()
        until(lambda: not fleets.is_alive(dead.pid))
        assert (os.getpgid(dead.pid), dead.returncode) == (dead.pid, None)
        assert [each["outcome"] for each in fleet.sweep().booked] == ["crashed"]
    finally:
        dead.wait()


def test_a_supervisor_that_nobody_reaps_is_dead_too(fleet, monkeypatch):
    """B22: the dispatcher's own child, ended and not waited for, is booked by what its record says."""
    monkeypatch.setattr(kanban.spawn.Children, "reap", lambda _self: [])
    fleet.staff({"w": {"command": sh("exit 3")}})
    card = fleet.create()
    fleet.sweep()
    until(lambda: not fleets.is_alive(fleet.supervisor(card)))
    assert ProcessTable.snapshot().processes[fleet.supervisor(card)].dead
    assert fleet.ended(card)["outcome"] == "crashed"
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("host", "table", "presence", "members"),
    [
        (replace(HOST, name="renamed"), LIVES, Presence.ALIVE, (4242,)),
        (replace(HOST, boot="b2"), LIVES, Presence.REBOOTED, ()),
        (replace(HOST, namespace="pid:2"), LIVES, Presence.UNKNOWN, ()),
        (replace(HOST, id="h2"), LIVES, Presence.UNKNOWN, ()),
        (replace(HOST, id="h2", boot="b2"), LIVES, Presence.UNKNOWN, ()),
        (HOST, ProcessTable({4242: Process(4242, 1, 1, 999, dead=False)}), Presence.GONE, ()),
        (HOST, ProcessTable({4242: Process(4242, 4242, 4242, 999, dead=False)}), Presence.GONE, ()),
        (HOST, ProcessTable({4242: Process(4242, 4242, 4242, 777, dead=True)}), Presence.GONE, ()),
        (HOST, ProcessTable({}), Presence.GONE, ()),
    ],
    ids=["renamed", "rebooted", "namespace", "host", "clone", "reused", "reused group", "zombie", "gone"],
)
def test_a_process_is_known_by_all_of_its_identity(host, table, presence, members):
    """B23: host id, boot, pid namespace, pid, start tick; what does not match exactly is never signalled."""
    assert table.identify(BOUND, host) is presence
    assert table.members(BOUND, host) == members


def test_what_cannot_be_checked_waits_for_the_lease_and_gets_no_signal(world):
    """B23: another namespace or host: no step before lease and grace are over, and then an end without a signal."""
    world.create()
    world.claim()
    unknown = {("t_a", 1): Seen(Presence.UNKNOWN, ())}
    assert world.settle(unknown) == []
    world.later(961)
    steps = world.settle(unknown)
    assert [type(step) for step in steps] == [Book]
    assert world.run("t_a", 1).outcome == "lost"


def test_a_wall_clock_that_jumps_proves_nothing(fleet):
    """B23: half an hour ahead, and back: the start tick counts from boot, the worker is the worker."""
    fleet.staff({"w": {"command": sh(READY)}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    for jump in (1_800, -1_800, -86_400, 86_400 + 1_800):
        fleet.clock.advance(jump)
        tick = fleet.sweep()
        assert (tick.booked, tick.stopped, tick.live) == ([], [], 1)
    assert len(fleet.members(card)) == 2


def test_a_failure_tells_its_own_runs_words(fleet):
    """B39: run 1 said something and was done; run 2 dies before its first word: its last words are none."""
    fleet.staff({"w": {"command": sh('if [ "$LEDGER_RUN" = 1 ]; then echo OK-1; exit 75; fi; exit 1')}})
    card = fleet.create()
    first = fleet.ended(card)
    fleet.board.complete(card, "fine")
    fleet.board.reopen(card)
    second = fleet.ended(card, 2)
    assert (first["last_words"], second["last_words"], second["code"]) == ("OK-1", None, 1)
    assert "OK-1" not in (fleet.folder(card, 2) / "log").read_text()


def test_the_evidence_of_another_run_is_none(fleet):
    """B39: a record or a trailer that names another run, copied or inherited, says nothing of this one."""
    fleet.staff({"w": {"command": sh('echo "[kanban-worker-exit] rc=0 run=7"; exec sleep 300')}})
    card = fleet.create()
    fleet.sweep()
    log = fleet.folder(card) / "log"
    until(lambda: log.exists() and "run=7" in log.read_text())
    (fleet.folder(card) / "owner.json").write_text(json.dumps({"schema": 1, "task": card, "run": 7, "code": 0}))
    os.killpg(fleet.supervisor(card), signal.SIGKILL)
    run = fleet.ended(card)
    assert (run["outcome"], run["evidence"], run["code"]) == ("crashed", "none", None)


def test_a_block_needs_a_reason_and_a_notice_names_the_cause(fleet, ledger):
    """B39: no blank reason; given up by timeouts, it says so: in the card, in `why`, in the events."""
    fleet.staff({"w": {"command": sh("exec sleep 300")}})
    card = fleet.create(max_runtime=60)
    assert ledger("block", card).code == 2
    assert ledger("block", card, "  ").code == 2
    for run in (1, 2):
        fleet.sweep()
        fleet.clock.advance(61)
        assert fleet.ended(card, run)["outcome"] == "timed_out"
    told = " ".join(ground["text"] for ground in fleet.board.why(card)["because"])
    assert "failure_budget: 2 of 2" in told
    assert "timed_out" in told
    assert fleet.card(card)["hold"]["reason"] == "failure budget: 2 of 2 (policy limit)"


def test_every_hold_has_its_event_and_one_reason(world):
    """B39: no path holds a card without a `blocked` or `exited` that says why: followers see each of them."""
    world.policy(failure_limit=1, violation_limit=1, neutral_limit=1, run_limit=9)
    for code in (0, 3, 75, 78):
        world.create(f"t_{code}")
        before = world.head
        go(world, code, f"t_{code}")
        held = world.card(f"t_{code}").hold
        assert held.position > before
        event = world.event(held.position)
        assert event.words.get("reason") or event.words.get("last_words")


def test_no_signal_is_sent_on_a_guess(world):
    """B23: whatever is seen of a run that cannot be checked, asked to stop or over time, nothing is signalled."""
    world.create(max_runtime=1)
    world.claim()
    world.later(5)
    steps = world.settle({("t_a", 1): Seen(Presence.UNKNOWN, (), 0, NO_EVIDENCE)})
    assert [step for step in steps if isinstance(step, Signal)] == []
