"""A dry run changes nothing, and a real tick at the same moment does exactly what it printed (RULES §7)."""

import os
import signal
import threading

import pytest

import kanban.starting
import kanban.sweep
from kanban.observe import observe
from kanban.sweep import Sweeper
from projections.tables import held, leases, sweeps
from tests import fleets
from tests.fleets import PATIENCE, sh, until

DOES = ("booked", "renewed", "lifted", "held", "errors")
WORK = "touch ready; exec sleep 300"
STUBBORN = 'trap "" TERM; touch ready; while :; do sleep 0.1; done'
STAFF = {
    "ok": {"command": sh("echo made"), "on_success": "complete"},
    "asks": {"command": sh("echo made"), "on_success": "review", "reviewer": "dana"},
    "fails": {"command": sh("echo no; exit 1")},
    "clean": {"command": sh("echo hm")},
    "limited": {"command": sh("exit 75")},
    "works": {"command": sh(WORK)},
    "stays": {"command": sh(STUBBORN)},
    "one": {"command": sh(WORK), "max_running": 1},
    "dana": {"human": True},
}
WAITS = {
    "unknown_assignee": "who",
    "no_assignee": None,
    "assignee_at_capacity": "one",
    "waiting_for_person": "dana",
}


def foreseen(fleet):
    """What a dry run prints, and that it changed nothing on disk and signalled nobody."""
    before = trace(fleet)
    tick = fleet.board.sweep(dry_run=True)
    after = trace(fleet)
    changed = {path for path in before[1] | after[1] if before[1].get(path) != after[1].get(path)}
    assert not changed
    assert after == before
    assert tick.dry_run
    return tick


def trace(fleet):
    """Every byte under the home but SQLite's own index of the write-ahead log, and the rows that no event moves."""
    files = [path for path in fleet.home.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    with fleet.board.look() as desk:
        rows = [desk.tx.execute(table.select()).all() for table in (leases, held, sweeps)]
        return desk.position, {path: path.read_bytes() for path in files}, rows


def assert_kept(fleet, told):
    """A real tick at the same instant does what the dry run told."""
    done = fleet.board.sweep()
    for name in DOES:
        assert getattr(done, name) == getattr(told, name), name
    assert _by_card(done.stopped) == _by_card(told.stopped)
    assert [{**each, "pid": None} for each in done.claimed] == told.claimed


def _by_card(stopped):
    """Cards in one order; what is done to each card in the order in which it is."""
    return sorted(stopped, key=lambda each: each["task"])


def dead(fleet, *cards):
    """Wait until the processes of *cards* are gone, unbooked."""
    until(lambda: not any(fleet.members(card) for card in cards))


def test_a_dry_run_of_everything_at_once_is_what_the_tick_then_does(fleet):
    """§7: ends of every sort, budgets, wishes, stops, leases, lifts and claims: printed, then done."""
    fleet.staff(STAFF, max_running=9)
    lifts = fleet.create("lifts", "fails", max_retries=1)
    fleet.sweep()
    fleet.ended(lifts)
    assert fleet.card(lifts)["status"] == "blocked"
    parent = fleet.create("parent", "ok")
    ends = [parent, *(fleet.create(name, name) for name in ("asks", "fails", "clean", "limited"))]
    tripped = fleet.create("trips", "fails", max_retries=1)
    live = {name: fleet.create(name, name) for name in ("works", "stays", "one")}
    fleet.sweep()
    child = fleet.create("child", "works", parents=[parent], priority=9)
    for card in live.values():
        fleet.in_scratch(card, "ready")
    dead(fleet, *ends, tripped)
    waits = {reason: fleet.create(assignee=who, priority=5) for reason, who in WAITS.items()}
    for number in range(5):
        fleet.create(str(number), "works")
    fleet.board.edit(live["stays"], max_runtime=60)
    fleet.board.edit(lifts, max_retries=2)
    fleet.board.assign(live["works"], "one", force=True)
    fleet.clock.advance(600)
    fleet.clock.freeze()
    told = foreseen(fleet)
    assert {each["outcome"] for each in told.booked} == {"complete", "review", "crashed", "clean", "rate_limited"}
    assert told.lifted == [{"task": lifts, "cause": "limit_raised"}]
    assert {"task": live["stays"], "run": 1, "cause": "max_runtime"} in told.stopped
    assert fleets.signals([told], live["stays"]) == fleets.signals([told], live["works"]) == [signal.SIGTERM]
    assert {each["task"] for each in told.renewed} == set(live.values())
    assert told.claimed[0]["task"] == child
    assert {reason: cards[0] for reason, cards in told.held.items() if reason in waits} == waits
    assert fleets.is_alive(fleet.supervisor(live["works"]))
    assert_kept(fleet, told)
    assert fleet.card(tripped)["hold"]["cause"] == "failure_budget"


def test_a_dry_run_foresees_the_child_that_a_booked_completion_releases(fleet):
    """§7, §6: a parent's `completed` by on_success releases its child within the same tick, printed and done."""
    fleet.staff(STAFF)
    parent = fleet.create("parent", "ok")
    child = fleet.create("child", "works", parents=[parent])
    other = fleet.create("other parent", "works")
    waits = fleet.create("waits for two", "works", parents=[parent, other])
    fleet.sweep()
    fleet.in_scratch(other, "ready")
    dead(fleet, parent)
    fleet.clock.freeze()
    told = foreseen(fleet)
    assert [each["events"] for each in told.booked] == [["completed"]]
    assert [each["task"] for each in told.claimed] == [child]
    assert_kept(fleet, told)
    assert fleet.card(waits)["status"] == "todo"


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_a_dry_run_counts_slots_as_the_tick_does(fleet, cap):
    """§7.6: what ends in the tick frees its slot in the same tick."""
    fleet.staff(STAFF, max_running=cap)
    cards = [fleet.create(str(n), "fails") for n in range(4)]
    fleet.sweep()
    dead(fleet, *cards[:cap])
    fleet.clock.freeze()
    told = foreseen(fleet)
    assert len(told.booked) == len(told.claimed) == cap
    assert_kept(fleet, told)


def test_a_run_that_another_host_lost_frees_no_slot_here(fleet):
    """§7.6: the host's cap counts runs spawned on this host; a dry run counts them as the tick does."""
    fleet.staff(STAFF, max_running=1)
    here = fleet.create("here", "works", priority=2)
    fleet.sweep()
    lost, waits = fleet.create("there", "works", priority=1), fleet.create("waits", "works")
    there = fleet.on_host(fleet.another(), id="elsewhere")
    assert [each["task"] for each in there.sweep(most=1).claimed] == [lost]
    for card in (here, lost):
        fleet.in_scratch(card, "ready")
    fleet.clock.advance(961)
    fleet.clock.freeze()
    told = foreseen(fleet)
    assert [each["outcome"] for each in told.booked] == ["lost"]
    assert told.claimed == []
    assert_kept(fleet, told)
    assert fleet.card(waits)["status"] == "ready"


def test_a_dry_run_takes_no_lock_and_is_told_nothing_of_one(fleet, monkeypatch):
    """§7: a dry run beside a tick at work: it only looks."""
    fleet.staff(STAFF)
    card = fleet.create(assignee="works")
    start, looks = Sweeper._start, []

    def look(sweeper, tick, claims):
        looks.append(fleet.another().sweep(dry_run=True))
        start(sweeper, tick, claims)

    monkeypatch.setattr(Sweeper, "_start", look)
    fleet.sweep()
    assert [(tick.skipped, tick.claimed) for tick in looks] == [(None, [])]
    assert fleet.card(card)["status"] == "running"


def test_a_run_that_is_bound_while_a_dry_run_looks_is_not_taken_for_dead(fleet, monkeypatch):
    """§7: what was not observed is not judged: the run was seen before it had a process."""
    fleet.staff(STAFF)
    card = fleet.create(assignee="works")
    looked, told, launch = threading.Event(), [], kanban.starting.launch

    def slowly(*what):
        seen = observe(*what)
        looked.set()
        until(lambda: fleet.events(card, "worker_bound"))
        return seen

    def meanwhile(order):
        monkeypatch.setattr(kanban.sweep, "observe", slowly)
        thread.start()
        assert looked.wait(timeout=PATIENCE)
        return launch(order)

    thread = threading.Thread(target=lambda: told.append(fleet.another().sweep(dry_run=True)))
    monkeypatch.setattr(kanban.starting, "launch", meanwhile)
    fleet.sweep()
    thread.join()
    assert [(tick.booked, tick.live) for tick in told] == [([], 1)]


def test_a_dry_run_of_an_ending_group_sends_nothing(fleet):
    """§7.7: the TERM that is due is printed, and its time is not written down."""
    fleet.staff({"w": {"command": sh("sleep 300 & touch ready; while [ ! -e go ]; do sleep 0.02; done")}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    fleet.board.review(card, "look", reviewer="w", lock=fleet.lock(card))
    (fleet.scratch(card) / "go").touch()
    until(lambda: not fleets.is_alive(fleet.supervisor(card)))
    fleet.clock.advance(11)
    fleet.clock.freeze()
    told = foreseen(fleet)
    assert (told.held, fleets.signals([told], card)) == ({"ending": [card]}, [signal.SIGTERM])
    assert not told.idle
    assert len(fleet.members(card)) == 1
    assert_kept(fleet, told)
    until(lambda: not fleet.members(card))


def test_a_dry_run_sees_what_the_steps_before_it_write(fleet):
    """§7: a cascade that the parent's end grants asks the child's run to stop, and that decides the child's outcome."""
    fleet.staff({"works": {"command": sh(WORK)}})
    parent, child = sorted((fleet.create(assignee="works"), fleet.create(assignee="works")))  # booked in that order
    fleet.board.link(child, parent)
    fleet.board.complete(parent)
    fleet.sweep()
    fleet.board.reopen(parent)
    fleet.sweep()
    fleet.board.archive(parent, children="cascade", force=True)
    for card in (parent, child):
        fleet.in_scratch(card, "ready")
        os.killpg(fleet.supervisor(card), signal.SIGKILL)
    dead(fleet, parent, child)
    fleet.clock.freeze()
    told = foreseen(fleet)
    assert [each["outcome"] for each in told.booked] == ["interrupted", "interrupted"]
    assert [each["events"] for each in told.booked] == [
        ["exited", "archived", "stop_requested"],
        ["exited", "archived"],
    ]
    assert_kept(fleet, told)
