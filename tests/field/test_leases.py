"""Healthy workers that were killed, dead ones that held their cards: who keeps a run, and until when (RULES §6–7)."""

import signal

import pytest

from kanban.commands import Block, Complete, Progress
from kanban.plan import AskStop, Book, Renew, Seen, Signal
from kanban.processes import Presence
from kanban.refusals import LostClaim, NotClaimable, Taken
from ledger.clock import SECOND
from projections import leases
from tests import given
from tests.field.stories import ALIVE, counters, die
from tests.fleets import sh, until
from tests.rules.world import ended

LEASE, GRACE = 900, 60


def test_a_slow_worker_keeps_its_run_however_long_a_call_takes(world):
    """B10: no beat for hours: each tick sees the process and renews; only the limit of the run itself ends it."""
    world.create()
    world.claim()
    for _ in range(23):
        world.later(LEASE)
        assert [type(step) for step in world.settle({("t_a", 1): ALIVE})] == [Renew]
    world.later(2 * LEASE)
    steps = world.settle({("t_a", 1): ALIVE})
    assert [step.cause for step in steps if isinstance(step, AskStop)] == ["max_runtime"]
    assert [step for step in steps if isinstance(step, Book)] == []


def test_a_worker_that_beats_keeps_its_run_where_no_process_is_seen(fleet):
    """B10: the beat that the worker is told to send is the one that the sweep reads: one fact."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card)
    for _ in range(8):
        fleet.clock.advance(LEASE - 100)
        fleet.board.heartbeat(card, lock=granted.lock)
        assert fleet.sweep().booked == []
    assert fleet.kinds(card) == ["created", "claimed"], "beats are no events"


def test_a_machine_that_slept_kills_nobody(world):
    """B10: ten leases at once, as after a sleep: the process is seen, so the lease is renewed and nothing signalled."""
    world.create()
    world.claim()
    world.later(10 * LEASE)
    assert [type(step) for step in world.settle({("t_a", 1): ALIVE})] == [Renew]


def test_a_worker_that_will_not_die_keeps_its_card(world):
    """B11: TERM, KILL, KILL…: ten ticks, one run; then it dies, is booked once, and another may begin."""
    world.create(max_retries=9)
    world.claim()
    world.happened(given.stop_requested(1, "operator"))
    head, sent = world.head, []
    for tick in range(10):
        since = None if tick == 0 else world.now - 11 * SECOND
        steps = world.settle({("t_a", 1): ALIVE._replace(ending_since=since)})
        sent += [step.signum for step in steps if isinstance(step, Signal)]
        assert world.admit().starts == ()
        with pytest.raises(Taken):
            world.claim(by="hand")
        world.later(30)
    assert sent == [signal.SIGTERM] + [signal.SIGKILL] * 9
    assert (world.status(), world.kinds(head)) == ("running", []), "what did not happen is no event"
    die(world, signal=9)
    assert (world.kinds(head), world.claim().run) == (["exited"], 2)


def test_an_immortal_worker_keeps_its_slot(world):
    """B11: a process that throttles its own death counts against the caps: no fleet grows by kills that miss."""
    world.policy(max_running=1)
    world.create()
    world.create("t_b")
    world.claim()
    world.happened(given.stop_requested(1, "max_runtime"))
    for _ in range(10):
        world.settle({("t_a", 1): ALIVE._replace(ending_since=world.now - 99 * SECOND)})
        assert world.admit().starts == ()
        world.later(60)


def test_a_worker_that_ignores_term_is_never_doubled(fleet):
    """B11: a real one: while it lives the card is its; KILL after the grace; then one end, and then the next run."""
    fleet.staff({"w": {"command": sh('trap "" TERM; echo $LEDGER_RUN >> "$LEDGER_HOME/ran"; '
                                     "touch ready; while :; do sleep 0.05; done")}})  # fmt: skip
    card = fleet.create(max_runtime=60)
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    fleet.clock.advance(61)
    for _ in range(4):
        assert (fleet.sweep().claimed, len(fleet.runs(card))) == ([], 1)
    fleet.clock.advance(11)
    assert fleet.ended(card)["outcome"] == "timed_out"
    assert [e.run for e in fleet.events(card, "exited")] == [1]
    until(lambda: fleet.sweep().claimed or len(fleet.runs(card)) == 2)
    until(lambda: (fleet.home / "ran").read_text().split() == ["1", "2"])


def test_a_claim_whose_worker_never_started_is_let_go(world):
    """B20: claimed and never bound: untouched within the launch grace, then ended, the slot free again."""
    world.policy(max_running=1)
    world.create()
    world.create("t_b")
    world.claim(bound=False)
    world.later(30)
    assert world.settle({("t_a", 1): Seen()}) == []
    assert world.admit().starts == ()
    world.later(1)
    world.settle({("t_a", 1): Seen()})
    assert (world.run("t_a", 1).outcome, counters(world)) == ("interrupted", (0, 0, 0, 1))
    assert len(world.admit().starts) == 1


@pytest.mark.parametrize("seen", [None, Seen(), ALIVE, Seen(Presence.UNKNOWN)])
def test_nobody_judges_a_worker_that_is_just_being_started(world, seen):
    """B20: inside the grace neither this host nor another, whatever it sees or does not see."""
    world.create()
    world.create("t_x")
    world.claim(bound=False)
    world.claim("t_x", bound=False, host="elsewhere")
    world.later(29)
    found = {} if seen is None else {("t_a", 1): seen, ("t_x", 1): seen}
    assert [step for step in world.settle(found) if isinstance(step, Book | Signal)] == []


def test_a_start_that_failed_at_once_does_not_wait_for_the_grace(world):
    """B20: the claimer bears witness (127), so that claim is booked by the next tick, and counts."""
    world.create()
    world.claim(bound=False)
    assert die(world, 127) == "spawn_failed"
    assert counters(world)[0] == 1


def test_a_fresh_run_does_not_inherit_the_last_ones_silence(world):
    """B24: progress is measured from this run's own claim, however old the card and its last sign of life are."""
    world.policy(progress_timeout=60)
    world.create()
    claim = world.claim()
    world.do(Progress("t_a", claim.proof, "here"), given.WORKER, claim.own)
    world.later(30)
    die(world, 3)
    world.later(90_000)
    world.claim()
    world.later(59)
    assert [step for step in world.settle({("t_a", 2): ALIVE}) if isinstance(step, AskStop)] == []
    world.later(2)
    assert [step.since for step in world.settle({("t_a", 2): ALIVE}) if isinstance(step, AskStop)] == [
        world.run("t_a", 2).progress_at
    ]


def test_a_fresh_run_does_not_inherit_the_last_ones_beat(fleet):
    """B24: lease and beat are the run's: none yet means none, and the time is counted from the claim."""
    card = fleet.create(assignee=None)
    first = fleet.board.claim(card)
    fleet.board.heartbeat(card, lock=first.lock)
    fleet.clock.advance(LEASE + GRACE + 1)
    fleet.sweep()
    fleet.clock.advance(50_000)
    second = fleet.board.claim(card)
    with fleet.board.look() as desk:
        assert leases.lease_of(desk.tx, "default", card, 2) == (second.lease_until, None)
        assert leases.lease_of(desk.tx, "default", card, 1) is None
    assert fleet.sweep().booked == []
    assert second.lease_until > fleet.clock() + (LEASE - 60) * SECOND


def test_a_run_has_an_end_even_where_nobody_set_one(world):
    """B42: the default of six hours stands in the claim of every run, by hand or not, whatever beats arrive."""
    for task, by in (("t_a", "spawn"), ("t_b", "hand")):
        world.create(task)
        world.claim(task, by=by, bound=True)
        assert world.last("claimed").facts["max_runtime"] == 6 * 3_600
    world.later(6 * 3_600 + 1)
    steps = world.settle({("t_a", 1): ALIVE, ("t_b", 1): ALIVE})
    assert [(step.run.task, step.cause) for step in steps if isinstance(step, AskStop)] == [
        ("t_a", "max_runtime"),
        ("t_b", "max_runtime"),
    ]


def test_a_worker_that_only_seems_busy_is_stalled(world):
    """B42: alive is not progress: beats and a live process do not count, its own words do; the end is a failure."""
    world.policy(progress_timeout=600)
    world.create()
    claim = world.claim()
    for _ in range(5):
        world.later(500)
        world.do(Progress("t_a", claim.proof, "step"), given.WORKER, claim.own)
        assert [step for step in world.settle({("t_a", 1): ALIVE}) if isinstance(step, AskStop)] == []
    for _ in range(3):
        world.later(300)
        key = ("t_a", 1)
        world.leases[key] = world.leases[key]._replace(until=world.now + LEASE * SECOND, last_beat=world.now)
        world.settle({key: ALIVE})
    assert world.last("stop_requested").facts["cause"] == "stalled"
    assert (die(world, 0), counters(world)[0]) == ("stalled", 1)


def test_a_beat_that_comes_too_late_is_told_so(fleet):
    """B55: stalled beyond lease and grace, another has the card: the beat is lost, the result kept, not taken."""
    card = fleet.create(assignee=None)
    first = fleet.board.claim(card)
    fleet.clock.advance(LEASE + GRACE + 1)
    fleet.sweep()
    second = fleet.board.claim(card)
    with pytest.raises(LostClaim) as caught:
        fleet.board.heartbeat(card, lock=first.lock)
    assert caught.value.current == second.run == 2
    with pytest.raises(LostClaim):
        fleet.board.complete(card, "mine", lock=first.lock)
    assert fleet.card(card)["status"] == "running"
    assert fleet.kinds(card)[-1] == "late_result"
    fleet.board.complete(card, "the second's", lock=second.lock)
    assert fleet.card(card)["status"] == "done"


def test_no_two_live_runs_come_of_a_beat_as_slow_as_the_lease(world):
    """B55: the sweep renews at half a lease, a late timer or two missed ticks lose nothing, and grace comes on top."""
    world.create()
    world.claim()
    for gap in (LEASE - 1, LEASE, LEASE + GRACE, 3 * LEASE):
        world.later(gap)
        world.settle({("t_a", 1): ALIVE})
        assert world.status() == "running"
        with pytest.raises(Taken):
            world.claim(by="hand")
    world.create("t_h")
    world.claim("t_h", by="hand")
    world.later(LEASE + GRACE)
    world.settle()
    assert world.status("t_h") == "running"
    world.later(1)
    world.settle()
    assert world.run("t_h", 1).outcome == "lost"


def test_work_that_takes_longer_than_any_lease_is_done_once(world):
    """B55: a night of work beside a lease of half a minute: one run, and its own completion ends it."""
    world.policy(lease=30, lease_grace=1, max_runtime=90_000)
    world.create()
    claim = world.claim()
    for _ in range(200):
        world.later(120)
        world.settle({("t_a", 1): ALIVE})
    world.do(Complete("t_a", "done at last", claim=claim.proof), given.WORKER, claim.own)
    assert (world.status(), world.card().last_run) == ("done", 1)


@pytest.mark.parametrize("cause", ["max_runtime", "operator", "drain", "stalled"])
def test_a_beat_does_not_outlive_a_stop(fleet, cause):
    """B42: a worker that beats on after it was asked to stop is refused once the grace is over."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card)
    fleet.board.heartbeat(card, lock=granted.lock)
    match cause:
        case "operator":
            fleet.board.stop(card)
        case "drain":
            fleet.board.pause(drain=True)
        case "max_runtime":
            fleet.board.edit(card, max_runtime=1)
        case _:
            fleet.board.set_policy(progress_timeout=1)
    fleet.clock.advance(2)
    fleet.sweep()
    fleet.board.heartbeat(card, lock=granted.lock)
    fleet.clock.advance(11)
    with pytest.raises(LostClaim):
        fleet.board.heartbeat(card, lock=granted.lock)


def test_what_ended_cannot_block_or_claim_its_way_back(world):
    """B55: every verb of a run whose lease was lost is refused; the card stays with the one that has it."""
    world.create()
    old = world.claim(by="hand")
    world.later(LEASE + GRACE + 1)
    world.settle()
    new = world.claim(by="hand")
    world.refuses(LostClaim, Block("t_a", "mine", claim=old.proof), given.WORKER, old.own)
    world.refuses(LostClaim, Progress("t_a", old.proof, "mine"), given.WORKER, old.own)
    with pytest.raises(Taken):
        world.claim(by="hand")
    world.settle({("t_a", 1): ended(3)})
    assert world.card().run == new.run
    world.do(Block("t_a", "mine", claim=new.proof), given.WORKER, new.own)
    with pytest.raises(NotClaimable):
        world.claim(by="hand")
