"""Who keeps a run: a process that is seen alive, else a lease; what cannot be checked is never signalled (RULES §6)."""

import os
import signal
import subprocess

import pytest

import kanban.claims
import kanban.starting
from kanban.processes import start_tick
from kanban.refusals import LostClaim
from ledger.clock import SECOND
from ledger.database import writing
from projections import leases
from tests import fleets
from tests.fleets import sh, until

WORK = "touch ready; exec sleep 300"
LEASE, GRACE = 900, 60


@pytest.fixture
def sleeper():
    """A process of somebody's own."""
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as started:
        yield started
        started.kill()


@pytest.fixture
def working(fleet):
    """A card whose worker is at work."""
    fleet.staff({"w": {"command": sh(WORK)}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    return card


def lease(fleet, card):
    """Until when the run of the card may act, and its last beat."""
    with fleet.board.look() as desk:
        return leases.lease_of(desk.tx, "default", card, 1)


def exited(fleet, card):
    """The card's one `exited`."""
    (event,) = fleet.events(card, "exited")
    return event


def test_a_live_worker_never_loses_its_run(fleet, working):
    """§6: expiry alone never ends a run whose process this host can see alive: the sweep renews its lease."""
    fleet.clock.advance(20_000)
    tick = fleet.sweep()
    assert [each["task"] for each in tick.renewed] == [working]
    assert (tick.booked, tick.live) == ([], 1)
    assert lease(fleet, working)[0] > fleet.clock() + (LEASE - 60) * SECOND
    assert fleet.sweep().renewed == []


def test_a_run_by_hand_without_beats_is_lost(fleet):
    """§6, §7.4: claimed by hand and not bound: lost once lease + grace have passed; the event says what was seen."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card)
    fleet.clock.advance(LEASE + GRACE - 30)
    fleet.sweep()
    assert fleet.card(card)["status"] == "running"
    fleet.clock.advance(31)
    assert [each["outcome"] for each in fleet.sweep().booked] == ["lost"]
    facts = exited(fleet, card).facts
    assert (facts["lease_until"], facts["last_beat"], facts["grace"]) == (granted.lease_until, None, GRACE)
    assert (facts["code"], facts["signal"], facts["evidence"]) == (None, None, "none")
    assert fleet.counters(card) == (0, 0, 0, 1)


def test_a_beat_moves_the_lease_and_is_what_a_lost_run_is_remembered_by(fleet):
    """§2: `exited` lost carries lease until and last beat; beats are no events."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card)
    fleet.clock.advance(LEASE - 10)
    fleet.board.heartbeat(card, lock=granted.lock)
    beaten = lease(fleet, card)
    fleet.clock.advance(LEASE + GRACE - 30)
    assert fleet.sweep().booked == []
    fleet.clock.advance(31)
    fleet.sweep()
    facts = exited(fleet, card).facts
    assert (facts["lease_until"], facts["last_beat"]) == beaten
    assert beaten[1] is not None
    assert fleet.kinds(card) == ["created", "claimed", "exited"]


def test_a_lost_lease_row_is_no_proof_against_the_worker(fleet):
    """DESIGN §3: a missing row is `claimed.lease until` to the sweep."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card)
    with writing(fleet.board.engine) as tx:
        leases.release(tx, "default", card, 1)
    fleet.clock.advance(LEASE + GRACE - 30)
    assert fleet.sweep().booked == []
    fleet.clock.advance(31)
    fleet.sweep()
    assert exited(fleet, card).facts["lease_until"] == granted.lease_until


def test_a_run_by_hand_whose_pid_is_gone_has_crashed(fleet, sleeper):
    """§6: a run claimed by hand with --pid has ended when that pid is gone; same boot, process gone: crashed."""
    card = fleet.create(assignee=None)
    fleet.board.claim(card, pid=sleeper.pid)
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound"]
    fleet.clock.advance(5_000)
    assert fleet.sweep().booked == []
    sleeper.kill()
    sleeper.wait()
    fleet.sweep()
    assert (exited(fleet, card).outcome, exited(fleet, card).facts["evidence"]) == ("crashed", "none")


def test_only_a_stop_signals_a_pid_by_hand_and_only_that_pid(fleet):
    """§6: its group is its user's: only a stop signals it, and only the pid."""
    script = "sleep 300 & echo $!; exec sleep 300"
    with subprocess.Popen(sh(script), start_new_session=True, stdout=subprocess.PIPE, text=True) as started:
        try:
            child = int(started.stdout.readline())
            card = fleet.create(assignee=None)
            fleet.board.claim(card, pid=started.pid)
            fleet.board.stop(card)
            assert fleets.signals([fleet.sweep()], card) == [signal.SIGTERM]
            assert started.wait() == -signal.SIGTERM
            assert fleets.is_alive(child)
            fleet.sweep()
            assert exited(fleet, card).outcome == "interrupted"
        finally:
            os.killpg(started.pid, signal.SIGKILL)


def test_a_pid_that_was_given_again_is_not_the_worker_and_is_not_signalled(fleet, sleeper, monkeypatch):
    """§6: a reused pid is not the worker: identity is host, boot, pid namespace, pid and start tick."""
    monkeypatch.setattr(kanban.claims, "start_tick", lambda pid: start_tick(pid) - 1)
    card = fleet.create(assignee=None)
    fleet.board.claim(card, pid=sleeper.pid)
    fleet.board.stop(card)
    tick = fleet.sweep()
    assert [each["outcome"] for each in tick.booked] == ["interrupted"]
    assert fleets.signals([tick], card) == []
    assert fleets.is_alive(sleeper.pid)


def test_a_group_whose_leaders_pid_was_given_again_is_not_signalled(fleet, monkeypatch):
    """§6: a group that may be another's by now is gone for us, and gets no signal."""
    bind = kanban.starting._binding

    def reused(*order):
        bound = bind(*order)
        return bound.model_copy(update={"start_tick": bound.start_tick - 1})

    monkeypatch.setattr(kanban.starting, "_binding", reused)
    fleet.staff({"w": {"command": sh(WORK)}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    fleet.board.stop(card)
    tick = fleet.sweep()
    assert [each["outcome"] for each in tick.booked] == ["interrupted"]
    assert fleets.signals([tick], card) == []
    assert len(fleet.members(card)) == 2


def test_a_run_of_before_the_last_boot_was_interrupted(fleet, working):
    """§6: none, host booted since → interrupted; nothing of this boot is signalled."""
    fleet.on_host(fleet.board, boot="another boot")
    tick = fleet.sweep(most=0)
    assert [(each["outcome"], each["evidence"]) for each in tick.booked] == [("interrupted", "none")]
    assert tick.stopped == []
    assert len(fleet.members(working)) == 2


def test_a_claim_of_before_the_last_boot_that_was_never_bound_was_interrupted(fleet):
    """§6: never bound and booted since: no launch grace is waited for."""
    fleet.staff({"w": {"command": sh(WORK)}})
    card = fleet.create()
    assert fleet.outside("kanban.starting.launch = lambda *_: os._exit(9)\nboard.sweep()").wait() == 9
    assert fleet.sweep(most=0).booked == []
    fleet.on_host(fleet.board, boot="another boot")
    fleet.sweep(most=0)
    assert exited(fleet, card).outcome == "interrupted"


def test_a_process_of_another_pid_namespace_is_left_to_the_lease(fleet, working):
    """§6: what cannot be checked is left to the lease, and is never signalled."""
    fleet.on_host(fleet.board, namespace="pid:[1]")
    fleet.clock.advance(LEASE + GRACE - 30)
    tick = fleet.sweep(most=0)
    assert (tick.booked, tick.renewed, tick.stopped) == ([], [], [])
    fleet.clock.advance(31)
    tick = fleet.sweep(most=0)
    assert [each["outcome"] for each in tick.booked] == ["lost"]
    assert tick.stopped == []
    assert len(fleet.members(working)) == 2


def test_a_process_of_another_pid_namespace_is_not_signalled_when_it_must_stop(fleet, working):
    """§6: asked to stop in the log, and still never signalled."""
    fleet.on_host(fleet.board, namespace="pid:[1]")
    fleet.board.stop(working)
    fleet.clock.advance(30)
    assert fleet.sweep().stopped == []
    assert len(fleet.members(working)) == 2


def test_a_run_of_another_host_is_left_to_its_lease(fleet, working):
    """§7.4: runs whose host cannot be asked end once lease + grace have passed, and are neither asked nor signalled."""
    there = fleet.on_host(fleet.another(), id="elsewhere")
    fleet.clock.advance(LEASE + GRACE - 30)
    tick = there.sweep(most=0)
    assert (tick.booked, tick.stopped, tick.renewed) == ([], [], [])
    fleet.clock.advance(31)
    tick = there.sweep(most=0)
    assert ([each["outcome"] for each in tick.booked], tick.stopped) == (["lost"], [])
    assert len(fleet.members(working)) == 2


def test_a_worker_that_lost_its_run_can_end_it_no_more(fleet, working):
    """§8: a completion whose run has ended is kept, once, as `late_result`, and the next run stands."""
    lock = fleet.lock(working)
    fleet.on_host(fleet.board, boot="another boot")
    fleet.sweep(most=0)
    with pytest.raises(LostClaim):
        fleet.board.complete(working, "late", run=1, lock=lock)
    assert fleet.kinds(working)[-2:] == ["exited", "late_result"]
    until(lambda: fleet.card(working)["status"] == "ready")
