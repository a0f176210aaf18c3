"""Runs that must stop: asked in the log, then TERM, then KILL, and booked when seen dead (RULES §7.2)."""

import signal

import pytest

from kanban.refusals import LostClaim
from tests import fleets
from tests.fleets import sh, until

WORK = "touch ready; exec sleep 300"
STUBBORN = 'trap "" TERM; touch ready; while :; do sleep 0.1; done'


def working(fleet, script=WORK, **fields):
    """A card whose worker is at work."""
    fleet.staff({"w": {"command": sh(script)}})
    card = fleet.create(**fields)
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    return card


def stops(fleet, card):
    """Cause and limit of each `stop_requested` of the card."""
    return [(event.facts["cause"], event.facts["limit"]) for event in fleet.events(card, "stop_requested")]


def assert_stopped(fleet, card, cause):
    """One tick asks and sends TERM to the group; the run stays open until it is seen dead."""
    tick = fleet.sweep()
    assert tick.stopped == [
        {"task": card, "run": 1, "cause": cause},
        {"task": card, "run": 1, "signal": signal.SIGTERM},
    ]
    assert (tick.booked, tick.live) == ([], 1)


def test_a_run_over_its_max_runtime_is_timed_out(fleet):
    """§7.2, §6: max_runtime → timed_out, whatever the code; the limit stands in the event; it counts as a failure."""
    card = working(fleet, max_runtime=60)
    fleet.clock.advance(45)
    assert fleet.sweep().stopped == []
    fleet.clock.advance(16)
    assert_stopped(fleet, card, "max_runtime")
    assert fleet.ended(card)["outcome"] == "timed_out"
    assert stops(fleet, card) == [("max_runtime", 60)]
    assert fleet.counters(card) == (1, 0, 1, 0)


def test_an_edit_of_max_runtime_holds_for_the_open_run(fleet):
    """§2: a new max_runtime holds for the open run too."""
    card = working(fleet)
    fleet.clock.advance(61)
    assert fleet.sweep().stopped == []
    fleet.board.edit(card, max_runtime=60)
    assert_stopped(fleet, card, "max_runtime")


def test_a_run_that_says_nothing_is_stalled(fleet):
    """§7.2: no `progressed` for progress_timeout; beats do not count, progress does."""
    fleet.board.set_policy(progress_timeout=60)
    card = working(fleet)
    lock = fleet.lock(card)
    fleet.clock.advance(45)
    fleet.board.progress(card, "half way", lock=lock)
    fleet.clock.advance(45)
    fleet.board.heartbeat(card, lock=lock)
    assert fleet.sweep().stopped == []
    fleet.clock.advance(16)
    assert_stopped(fleet, card, "stalled")
    assert fleet.ended(card)["outcome"] == "stalled"
    assert fleet.counters(card) == (1, 0, 1, 0)


def test_an_operators_stop_interrupts_and_blocks_by_wish(fleet):
    """§7.1, §8: `stop` is block with force: the wish is applied, by its own actor, in the append that ends the run."""
    card = working(fleet)
    fleet.board.stop(card, reason="wrong branch")
    tick = fleet.sweep()
    assert tick.stopped == [{"task": card, "run": 1, "signal": signal.SIGTERM}]
    assert fleet.ended(card)["outcome"] == "interrupted"
    assert fleet.kinds(card)[-2:] == ["exited", "blocked"]
    exited, blocked = fleet.events(card)[-2:]
    assert (exited.actor_kind, blocked.actor_kind, blocked.actor_name) == ("sweep", "operator", "ada")
    assert blocked.at == exited.at
    hold = fleet.card(card)["hold"]
    assert (hold["cause"], hold["sticky"], hold["reason"]) == ("operator", True, "wrong branch")
    assert fleet.counters(card) == (0, 0, 0, 1)
    assert fleet.sweep().claimed == []


def test_wishes_queue_and_the_worker_may_still_end_its_run(fleet):
    """§7.1: wishes are applied by whatever event ends the run, oldest first; on a done card only `archive` is."""
    card = working(fleet)
    fleet.board.assign(card, "other", force=True)
    fleet.board.archive(card, force=True)
    fleet.board.complete(card, "made it", lock=fleet.lock(card))
    assert fleet.kinds(card)[-2:] == ["completed", "archived"]
    assert fleet.card(card)["assignee"] == "w"


def test_a_drain_interrupts_and_nothing_starts_until_somebody_resumes(fleet):
    """§7.2: `pause --drain` asks the runs in its scope to stop; the pause holds their cards afterwards."""
    card = working(fleet)
    fleet.board.pause(drain=True)
    assert_stopped(fleet, card, "drain")
    assert fleet.ended(card)["outcome"] == "interrupted"
    assert fleet.counters(card) == (0, 0, 0, 1)
    assert fleet.sweep().held == {"paused": [card]}
    fleet.board.resume()
    assert [each["run"] for each in fleet.sweep().claimed] == [2]


def test_a_drain_of_an_assignee_leaves_the_others_at_work(fleet):
    """§7.2: only the runs in the scope of the drain."""
    fleet.staff({"a": {"command": sh(WORK)}, "b": {"command": sh(WORK)}})
    drained, spared = fleet.create(assignee="a"), fleet.create(assignee="b")
    fleet.sweep()
    fleet.board.pause(scope="assignee", name="a", drain=True)
    fleet.sweep()
    assert fleet.ended(drained)["outcome"] == "interrupted"
    assert stops(fleet, spared) == []
    assert fleet.card(spared)["status"] == "running"


def test_a_worker_that_ignores_term_keeps_its_claim_until_it_is_killed(fleet):
    """§7.2: KILL after the grace; a process that will not die keeps the claim: never two live runs."""
    card = working(fleet, STUBBORN, max_runtime=60)
    fleet.clock.advance(61)
    ticks = [fleet.sweep()]
    worker = fleet.workers(card)[0]
    fleet.clock.advance(5)
    ticks.append(fleet.sweep())
    assert fleets.is_alive(worker)
    assert [(tick.booked, tick.claimed, tick.live) for tick in ticks] == [([], [], 1)] * 2
    fleet.clock.advance(6)
    ticks.append(fleet.sweep())
    assert ticks[-1].booked == []
    assert fleets.signals(ticks, card) == [signal.SIGTERM, signal.SIGKILL]
    until(lambda: not fleet.members(card))
    booked = fleet.sweep()
    assert [each["outcome"] for each in booked.booked] == ["timed_out"]
    assert [each["run"] for each in booked.claimed] == [2]
    assert fleet.runs(card)[0]["evidence"] == "none"


def test_a_stop_is_asked_for_once(fleet):
    """§2: at most one `stop_requested` by the sweep for a run and cause; the first cause names the outcome (§6)."""
    fleet.board.set_policy(progress_timeout=90)
    card = working(fleet, STUBBORN, max_runtime=60)
    fleet.clock.advance(61)
    fleet.sweep()
    fleet.clock.advance(40)
    fleet.board.pause(drain=True)
    fleet.sweep()
    fleet.sweep()
    assert stops(fleet, card) == [("max_runtime", 60)]
    assert fleet.ended(card)["outcome"] == "timed_out"


def test_a_beat_after_the_stops_grace_is_refused(fleet):
    """§7.2: after `stop_requested` + stop_grace a beat is refused; a lease without a process to be seen runs out."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card)
    fleet.board.stop(card)
    fleet.clock.advance(4)
    fleet.board.heartbeat(card, lock=granted.lock)
    fleet.clock.advance(7)
    with pytest.raises(LostClaim, match="stop"):
        fleet.board.heartbeat(card, lock=granted.lock)
    fleet.clock.advance(900 + 60)
    fleet.sweep()
    assert fleet.runs(card)[0]["outcome"] == "interrupted"
    assert fleet.card(card)["hold"]["cause"] == "operator"
