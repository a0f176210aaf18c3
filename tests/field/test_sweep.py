"""Ticks that failed in silence, lied about what they did, or did what they only should have told (RULES §7)."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

import kanban.claims
from kanban.desk import Desk
from kanban.processes import start_tick
from kanban.refusals import NotClaimable
from ledger.database import writing
from tests import fleets
from tests.fleets import sh, until

LEASE_OVER = 961


def corrupt(fleet, statement, **values):
    """Spoil a stored row as an outsider would."""
    fleet.spoilt = True
    with writing(fleet.board.engine) as tx:
        tx.execute(text(statement), values)


def claimed_by_hand(fleet, number):
    """So many cards with a run that nobody keeps alive."""
    cards = [fleet.create(f"card {place}", assignee=None) for place in range(number)]
    for card in cards:
        fleet.board.claim(card)
    return cards


def test_one_bad_card_does_not_keep_the_dead_alive(ledger, fleet):
    """B19: three dead runs, the second unreadable: 1 and 3 are booked, 2 is told with its remedy; again: no growth."""
    one, two, three = claimed_by_hand(fleet, 3)
    corrupt(fleet, "UPDATE runs SET stops = '[' WHERE task = :task", task=two)
    fleet.clock.advance(LEASE_OVER)
    tick = fleet.board.sweep()
    assert sorted(each["task"] for each in tick.booked) == sorted([one, three])
    assert [error["task"] for error in tick.errors] == [two]
    position = tick.position
    for _ in range(3):
        again = fleet.board.sweep()
        assert ([error["task"] for error in again.errors], again.booked, again.position) == ([two], [], position)
    said = ledger("sweep", "--json")
    assert (said.code, said.json["errors"][0]["task"]) == (1, two)
    fleet.board.rebuild()
    assert [each["task"] for each in fleet.board.sweep().booked] == [two]


def test_a_fault_that_passes_is_made_good_by_the_next_tick(fleet, monkeypatch):
    """B56: recovery has no memory: what failed on one card is tried again, and nothing else was held up by it."""
    cards = claimed_by_hand(fleet, 3)
    write = Desk.write

    def failing(self, decision, **how):
        if decision.drafts and decision.drafts[0].task == cards[1]:
            raise ValueError("a blip")
        return write(self, decision, **how)

    fleet.clock.advance(LEASE_OVER)
    with monkeypatch.context() as blip:
        blip.setattr(Desk, "write", failing)
        first = fleet.board.sweep()
    assert (len(first.booked), [error["task"] for error in first.errors]) == (2, [cards[1]])
    second = fleet.board.sweep()
    assert ([each["task"] for each in second.booked], second.errors) == ([cards[1]], [])


def test_a_large_backlog_is_gone_in_one_tick(fleet):
    """B56: forty lost runs, ten of them of cards that are held meanwhile: each is looked at, none skipped."""
    cards = claimed_by_hand(fleet, 40)
    for card in cards[:10]:
        fleet.board.stop(card)
    fleet.clock.advance(LEASE_OVER)
    assert len(fleet.board.sweep().booked) == 40
    assert fleet.board.stats()["live"] == 0


@pytest.mark.parametrize("table", ["leases", "held", "sweeps"])
def test_recovery_needs_no_row_that_it_removes(fleet, table):
    """B56: everything that is operational may be gone: the log and its fold alone find what must be ended."""
    (card,) = claimed_by_hand(fleet, 1)
    fleet.board.sweep()
    corrupt(fleet, f"DELETE FROM {table}")
    fleet.clock.advance(LEASE_OVER)
    assert [each["task"] for each in fleet.board.sweep().booked] == [card]


def test_a_host_ends_nothing_that_it_cannot_judge(fleet):
    """B56: another host's live run is left to its lease; an assignee that is unknown here is held, not discarded."""
    fleet.staff({"w": {"command": sh("exec sleep 300")}})
    card = fleet.create()
    fleet.sweep()
    there = fleet.on_host(fleet.another(), id="elsewhere")
    there.sweeper.workers = {}
    stranger = fleet.create()
    for _ in range(3):
        tick = there.sweep()
        assert (tick.booked, tick.stopped, tick.claimed) == ([], [], [])
    assert tick.held == {"unknown_assignee": [stranger]}
    assert fleet.card(card)["status"] == "running"


def test_a_dispatcher_with_an_old_name_keeps_no_old_run_alive(fleet, monkeypatch):
    """B56: identity is that of the process: a pid that came again renews nothing for the one before."""
    mine = subprocess.Popen(["sleep", "300"])
    try:
        monkeypatch.setattr(kanban.claims, "start_tick", lambda pid: start_tick(pid) - 1)
        card = fleet.create(assignee=None)
        fleet.board.claim(card, pid=mine.pid)
        tick = fleet.board.sweep()
        assert ([each["outcome"] for each in tick.booked], tick.stopped) == (["crashed"], [])
        assert fleets.is_alive(mine.pid)
    finally:
        mine.kill()
        mine.wait()


LEAVES = (
    "sleep 300 & sleep 300 & setsid sh -c 'touch ready; exec sleep 300' & echo $! > away;"
    "while [ ! -e go ]; do sleep 0.02; done"
)


@pytest.mark.parametrize("end", ["complete", "block", "archive"])
def test_no_tree_outlives_its_card(fleet, end):
    """B29: two children in the group, one outside it: the group is ended after its grace, the other is named."""
    fleet.staff({"w": {"command": sh(LEAVES)}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    away = int(fleet.line_in(card, "away"))
    if end == "block":
        fleet.board.block(card, "stop", lock=fleet.lock(card))
    else:
        fleet.board.complete(card, lock=fleet.lock(card))
    if end == "archive":
        fleet.board.archive(card)
    else:
        (fleet.scratch(card) / "go").touch()
    notes = []

    def over() -> bool:
        fleet.clock.advance(6)
        notes.extend(fleet.sweep().notes)
        return not fleet.members(card)

    until(over)
    assert fleets.is_alive(away)
    assert any(str(away) in note for note in notes)
    os.kill(away, signal.SIGKILL)


def test_the_next_run_waits_for_the_last_ones_tree(fleet):
    """B29: done and reopened at once: neither a sweep nor a hand claims it while processes of run 1 are there."""
    fleet.staff({"w": {"command": sh(LEAVES)}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    fleet.board.complete(card, lock=fleet.lock(card))
    fleet.board.reopen(card)
    tick = fleet.sweep()
    assert (tick.claimed, tick.held) == ([], {"ending": [card]})
    with pytest.raises(NotClaimable, match="ending"):
        fleet.board.claim(card)
    fleet.clock.advance(11)
    fleet.sweep()
    until(lambda: not fleet.members(card))
    assert [each["task"] for each in fleet.sweep().claimed] == [card]


def test_an_idle_tick_a_full_one_and_a_locked_one_look_different(ledger, fleet):
    """B40: nothing to do, no room, paused, another at work: each is said, with an exit code where one is wanted."""
    fleet.staff({"w": {"command": sh("exec sleep 300")}})
    idle = ledger.json("sweep")
    assert (idle["claimed"], idle["held"], idle["errors"], "skipped" in idle) == ([], {}, [], False)
    fleet.board.set_policy(max_running_per_assignee=1)
    first, second = fleet.create(), fleet.create()
    full = fleet.sweep()
    assert ([each["task"] for each in full.claimed], full.held) == ([first], {"assignee_at_capacity": [second]})
    fleet.board.pause(reason="deploy")
    assert fleet.sweep().held == {"paused": [second]}
    fleet.board.resume()
    holder = fleet.outside(
        "from kanban.sweep import _only_one\n"
        "with _only_one(board.home) as alone:\n    print(alone, flush=True); sys.stdin.read()"
    )
    assert holder.stdout.readline() == "True\n"
    locked = ledger.json("sweep")
    assert (locked["skipped"], "claimed" in locked) == ("lock held", False)
    assert ledger("sweep", "--fail-if-locked").code == 9
    holder.kill()


def test_a_queue_is_no_alarm_and_a_missing_sweep_is_seen(fleet):
    """B40: behind a full board a card is `at_capacity`; when each host last ticked, with what errors, is stored."""
    fleet.board.set_policy(max_running=1)
    cards = [fleet.create() for _ in range(3)]
    fleet.board.claim(cards[0])
    fleet.sweep()
    assert fleet.board.why(cards[1])["because"][-1]["text"].startswith("at_capacity")
    (swept,) = fleet.board.stats()["sweeps"]
    assert (swept["host"], swept["errors"]) == (fleet.board.host.id, 0)
    stopped_at = swept["ticked_at"]
    fleet.clock.advance(7_200)
    assert fleet.board.stats()["sweeps"][0]["ticked_at"] == stopped_at


def test_each_sweep_records_its_faults(fleet):
    """B19: how many errors the last tick met is stored with it, for whoever looks later."""
    one, two = claimed_by_hand(fleet, 2)
    corrupt(fleet, "UPDATE runs SET stops = '[' WHERE task = :task", task=two)
    fleet.clock.advance(LEASE_OVER)
    fleet.board.sweep()
    assert fleet.board.stats()["sweeps"][0]["errors"] == 1
    assert fleet.card(one)["status"] == "ready"


def files(home):
    """Every file below *home* with its bytes; but for what any reader of the store touches."""
    return {p: p.read_bytes() for p in home.rglob("*") if p.is_file() and p.suffix not in {".db-shm", ".gate", ".lock"}}


def test_a_preview_changes_nothing_and_comes_true(fleet):
    """B41: one live at a cap of nine, nine ready: eight are told, no byte moves; then those eight start."""
    fleet.staff({"w": {"command": sh("touch ready; exec sleep 300")}}, max_running=9)
    running = fleet.create()
    fleet.sweep()
    fleet.in_scratch(running, "ready")
    cards = [fleet.create(f"card {number}", priority=number % 3) for number in range(9)]
    fleet.clock.freeze()
    before, position = files(fleet.home), fleet.board.stats()["position"]
    told = fleet.board.sweep(dry_run=True)
    assert len(told.claimed) == 8
    assert (files(fleet.home), fleet.board.stats()["position"]) == (before, position)
    did = fleet.sweep()
    assert [(each["task"], each["run"]) for each in did.claimed] == [
        (each["task"], each["run"]) for each in told.claimed
    ]
    assert did.held == told.held
    assert {each["task"] for each in did.claimed} < set(cards)


def test_a_preview_of_ends_and_stops_sends_nothing(fleet):
    """B41: overdue, lost, and from where no worker can be seen: told, not done; the processes live on."""
    fleet.staff({"w": {"command": sh("touch ready; exec sleep 300")}})
    card, lost = fleet.create(max_runtime=60), fleet.create(assignee=None)
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    fleet.board.claim(lost)
    fleet.clock.advance(LEASE_OVER)
    before = files(fleet.home)
    for identity in ({}, {"namespace": "pid:[1]"}, {"boot": "another"}, {"id": "elsewhere"}):
        told = fleet.on_host(fleet.another(), **identity).sweep(dry_run=True)
        assert told.dry_run
        assert lost in [each["task"] for each in told.booked]
    assert files(fleet.home) == before
    assert len(fleet.members(card)) == 2


def test_a_preview_and_the_real_tick_race_nobody(fleet):
    """B41: a preview takes no lock: twenty of them beside ticks, and the log holds what the ticks did."""
    fleet.staff({"w": {"command": sh("exit 75")}})
    for _ in range(3):
        fleet.create()
    boards = [fleet.another() for _ in range(4)]
    with ThreadPoolExecutor(5) as pool:
        previews = [pool.submit(board.sweep, dry_run=True) for board in boards for _ in range(5)]
        fleet.sweep()
        assert all(preview.result().skipped is None for preview in previews)
    assert sum(event.kind == "claimed" for event in fleet.board.events()) == 3


def test_urgent_cards_come_first(world):
    """B43: the larger number first, then the older card, then the id; in reviews as in work; negative ones last."""
    for name, priority in (("t_low", -1), ("t_old", 0), ("t_p1", 1), ("t_p9", 9)):
        world.create(name, priority=priority)
        world.later(1)
    world.create("t_young")
    world.host_cap = 9
    assert [start.task.id for start in world.admit().starts] == ["t_p9", "t_p1", "t_old", "t_young", "t_low"]


def test_what_cannot_start_uses_no_slot(world):
    """B43: an unknown assignee at the head of the queue, one slot: the second card starts in the same tick."""
    world.create("t_head", assignee="nobody-knows", priority=9)
    world.create("t_second")
    world.host_cap = 1
    admission = world.admit()
    assert [start.task.id for start in admission.starts] == ["t_second"]
    assert admission.held == {"t_head": ("unknown_assignee", None)}


def test_a_card_that_cooled_down_is_not_put_behind_the_queue(world):
    """B43: what waited keeps its place: by the age of the card, not by its last change."""
    world.create("t_old")
    world.attempt("t_old", "rate_limited")
    world.later(4_000)
    world.create("t_new")
    world.create("t_later")
    world.host_cap = 1
    assert [start.task.id for start in world.admit().starts] == ["t_old"]


def test_boards_of_one_host_share_its_cap(fleet):
    """B43: RULES know one order a board and one cap a host: a full host starts nothing on any board."""
    fleet.staff({"w": {"command": sh("exec sleep 300")}}, max_running=1)
    fleet.found("z")
    busy, urgent = fleet.board, fleet.another("z")
    card = fleet.create()
    urgent.create("urgent", assignee="w", priority=9)
    assert len(fleet.sweep().claimed) == 1
    assert urgent.sweep().claimed == []
    busy.stop(card)
    fleet.finish(card, "blocked")
    fleet.create("behind")
    assert len(urgent.sweep().claimed) == 1
