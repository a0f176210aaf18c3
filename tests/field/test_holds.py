"""Blocks that were undone, cards that sat in silence, pauses that were none (RULES §5, §7.6, §8)."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

import kanban.starting
from kanban.commands import Assign, Block, Complete, Create, Edit, Reopen, Schedule, SetPolicy, Unblock
from kanban.plan import Worker
from kanban.refusals import Forbidden, NotClaimable, NothingToDo, Paused
from ledger.clock import SECOND
from ledger.errors import LedgerError
from tests import given
from tests.field.stories import hold, night
from tests.fleets import sh, until

LOOKS = [
    ("list",), ("list", "--status", "blocked"), ("show", "CARD"), ("board",), ("why", "CARD"), ("why", "CARD", "held"),
    ("runs", "CARD"), ("stats",), ("events",), ("events", "CARD"), ("policy",), ("replay",), ("sweep", "--dry-run"),
    ("config", "show"), ("db", "status"), ("unblock", "CARD", "--dry-run"),
    ("unblock", "--all", "--cause", "operator", "--dry-run"),
]  # fmt: skip


@pytest.fixture
def blocked(world):
    """A card that its worker has blocked, above and below others."""
    world.create("t_p")
    world.create(parents=["t_p"])
    world.create("t_c", parents=["t_a"])
    world.do(Complete("t_p"))
    claim = world.claim()
    world.do(Block("t_a", "needs a person", claim=claim.proof), given.WORKER, claim.own)
    return world


@pytest.mark.parametrize(
    "meanwhile",
    [
        [],
        [Reopen("t_p"), Complete("t_p", "again")],
        [SetPolicy({"failure_limit": 9, "violation_limit": 9, "run_limit": 90})],
        [Edit("t_a", {"max_retries": 9, "priority": 9})],
        [Assign("t_a", "other")],
        [Schedule("t_a", given.NOW + SECOND)],
        [Block("t_a", "another reason")],
        [Edit("t_a", {"lane": "triage"}), Edit("t_a", {"lane": "work"})],
    ],
    ids=lambda steps: "+".join(type(step).__name__ for step in steps) or "nothing",
)
def test_a_deliberate_block_stays_until_a_person_lifts_it(blocked, meanwhile):
    """B02: no tick, parent, limit, edit, hand-over or schedule makes it claimable; a claim by hand is refused too."""
    for step in meanwhile:
        blocked.do(step)
    assert night(blocked, 0) == 0
    assert blocked.status() == "blocked"
    with pytest.raises(NotClaimable):
        blocked.claim(by="hand")
    assert [event.facts["cause"] for event in blocked.of("t_a") if event.kind == "unblocked"] == []
    blocked.do(Unblock("t_a", "go on"))
    assert (blocked.last("unblocked").actor_kind, blocked.last("unblocked").actor_name) == ("operator", "ada")
    assert night(blocked, 3, ticks=1) == 1


def test_no_worker_lifts_a_block(blocked):
    """B02: an unblock needs a person: a worker's is refused, its own card's or another's."""
    blocked.create("t_w")
    claim = blocked.claim("t_w")
    for task in ("t_w", "t_a"):
        blocked.refuses(Forbidden, Unblock(task), given.WORKER, claim.own)


def test_a_reviewers_block_and_an_operators_are_as_sticky(world):
    """B02: whoever blocks and in whichever lane; and a worker that blocks its card can end it no more."""
    world.create()
    world.claim()
    world.happened(given.review_requested(1), actor=given.WORKER)
    claim = world.claim()
    world.do(Block("t_a", "not mine to say", claim=claim.proof), given.WORKER, claim.own)
    world.create("t_b")
    world.do(Block("t_b", "wait"))
    assert night(world, 0) == 0
    assert hold(world, "t_a") == ("worker", True)
    assert hold(world, "t_b") == ("operator", True)


def test_a_card_that_is_born_blocked_stays_blocked(ledger, fleet):
    """B09: `created` and `blocked` are one append; no sweep and no look frees it, and looks write nothing at all."""
    fleet.staff({"w": {"command": sh("exit 0")}})
    card = ledger.create("decide", "--assignee", "w", "--blocked", "for a person")
    assert fleet.kinds(card) == ["created", "blocked"]
    for _ in range(3):
        assert fleet.sweep().claimed == []
    assert ledger("claim", card).code == 4
    assert ledger("claim", "--next").code == 6
    ledger.ok("list")
    position, before = ledger.position(), ledger.bytes()
    for look in LOOKS:
        ledger.ok(*(card if word == "CARD" else word for word in look))
        assert ledger.bytes() == before, look
    assert ledger.position() == position
    assert ledger.json("show", card)["task"]["status"] == "blocked"


def test_a_key_that_is_repeated_does_not_park_a_card_again(world):
    """B09: the same request again is the first answer: it blocks no unblocked card and frees no parked one."""
    request = Create("t_a", "x", assignee="builder", key="k", blocked="wait")
    world.do(request)
    assert world.do(request).replayed == "t_a"
    assert world.status() == "blocked"
    world.do(Unblock("t_a"))
    assert world.do(request).replayed == "t_a"
    assert world.status() == "ready"


def test_a_card_parked_at_birth_waits_under_every_other_condition(world):
    """B09: done parents, triage left, a time that has come: blocked comes first."""
    world.create("t_p")
    world.do(Complete("t_p"))
    world.create(parents=["t_p"], blocked="wait", lane="triage")
    world.do(Edit("t_a", {"lane": "work"}))
    world.do(Schedule("t_a", world.now))
    assert night(world, 0) == 0
    assert world.status() == "blocked"


def test_a_card_that_nobody_can_run_says_so(world):
    """B12: nobody, somebody mistyped, a person, a review without a reviewer: each has its reason, and takes no slot."""
    world.workers["dana"] = Worker(human=True, max_running=None)
    world.policy(max_running=1)
    reasons = {"no_assignee": None, "unknown_assignee": "bulder", "waiting_for_person": "dana"}
    for step, (reason, assignee) in enumerate(reasons.items()):
        world.create(f"t_{reason}", assignee=assignee, priority=9 - step)
    world.create("t_r", priority=8)
    world.claim("t_r")
    world.happened(given.review_requested(1, reviewer=None), "t_r", given.WORKER)
    world.create("t_fine")
    admission = world.admit()
    assert {task: reason for task, (reason, _) in admission.held.items()} == {
        **{f"t_{reason}": reason for reason in reasons},
        "t_r": "no_assignee",
    }
    assert [start.task.id for start in admission.starts] == ["t_fine"]


def test_a_silent_card_can_be_asked_why(fleet, ledger):
    """B12: `why` and `stats` show it; reasons that do not change write nothing; a mistyped name is told at creation."""
    fleet.staff({"builder": {"command": sh("exit 0")}, "dana": {"human": True}})
    said = ledger.ok("create", "typo", "--assignee", "bulder")
    assert "builder" in said.err
    typo = ledger.json("list")["tasks"][0]["id"]
    nobody, person = ledger.create("nobody"), ledger.create("person", "--assignee", "dana")
    tick = fleet.sweep()
    assert tick.held == {"unknown_assignee": [typo], "no_assignee": [nobody], "waiting_for_person": [person]}
    position = tick.position
    for _ in range(3):
        assert fleet.sweep().position == position
    for card, reason in ((typo, "unknown_assignee"), (nobody, "no_assignee"), (person, "waiting_for_person")):
        assert reason in ledger.ok("why", card).out
        assert ledger.json("why", card)["try"]
    assert ledger.json("stats")["claimable"] == 3


def test_a_card_behind_a_full_board_or_a_pause_says_so(fleet):
    """B12: not looked at is no silence either: the query names the cap, the pause, the cooldown or the parent."""
    fleet.board.set_policy(max_running=1)
    first, second = fleet.create(assignee=None), fleet.create(assignee="w")
    child = fleet.create(parents=[first])
    fleet.board.claim(first)
    told = {card: fleet.board.why(card)["because"][-1]["text"] for card in (second, child)}
    assert told[second].startswith("at_capacity")
    assert told[child].startswith("waiting_on")
    fleet.board.pause(reason="deploy")
    assert fleet.board.why(second)["because"][-1]["text"].startswith("paused")


def test_a_pause_is_in_the_log_and_stops_every_entry(fleet):
    """B47: by sweep, by hand, by `--next`, for the board, the assignee or the host: nothing is claimed."""
    fleet.staff({"w": {"command": sh("exit 0")}})
    card = fleet.create()
    for scope, name in (("board", ""), ("assignee", "w"), ("host", fleet.board.host.id)):
        fleet.board.pause(scope=scope, name=name)
        assert fleet.sweep().claimed == []
        for ask in ({"task": card}, {"task": None}):
            with pytest.raises(Paused):
                fleet.board.claim(**ask)
        fleet.board.resume(scope=scope, name=name)
    assert fleet.kinds(card) == ["created"]


def test_no_claim_stands_behind_a_pause(fleet):
    """B47: a pause that races twenty claimers: no `claimed` has a larger position than the pause."""
    boards = [fleet.another() for _ in range(5)]
    for _ in range(20):
        fleet.create(assignee=None)

    def claim(board):
        for _ in range(4):
            try:
                board.claim()
            except (Paused, NothingToDo):
                return

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(claim, board) for board in boards[1:]]
        until(lambda: any(event.kind == "claimed" for event in boards[0].events()))
        jobs.append(pool.submit(boards[0].pause))
        for job in jobs:
            job.result()
    places = {kind: [e.position for e in boards[0].events() if e.kind == kind] for kind in ("claimed", "paused")}
    (paused,) = places["paused"]
    assert max(places["claimed"]) < paused


def test_a_pause_between_claim_and_start_costs_the_card_nothing(fleet, monkeypatch):
    """B47: the binding asks again: nothing has run, the end is neutral, and the card waits for the resume."""
    fleet.staff({"w": {"command": sh('touch "$LEDGER_HOME/ran"')}})
    card, operator, launch = fleet.create(), fleet.another(), kanban.starting.launch

    def pausing(order):
        launched = launch(order)
        operator.pause()
        return launched

    monkeypatch.setattr(kanban.starting, "launch", pausing)
    fleet.sweep()
    assert fleet.ended(card)["outcome"] == "interrupted"
    assert fleet.counters(card) == (0, 0, 0, 1)
    assert not (fleet.home / "ran").exists()
    assert fleet.sweep().claimed == []


def test_a_stopped_card_stays_stopped(fleet):
    """B47: one running card is ended with its tree and held for a person; no further run begins."""
    fleet.staff({"w": {"command": sh("sleep 300 & touch ready; exec sleep 300")}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    fleet.board.stop(card, reason="enough")
    fleet.finish(card, "blocked")
    assert fleet.members(card) == []
    for _ in range(5):
        fleet.clock.advance(4_000)
        assert fleet.sweep().claimed == []
    assert (len(fleet.runs(card)), fleet.card(card)["hold"]["reason"]) == (1, "enough")


def test_a_paused_board_is_still_kept_house_on(fleet):
    """B47: what ended is booked, leases run on, limits act: only claims wait."""
    card = fleet.create(assignee=None)
    fleet.board.claim(card)
    fleet.board.pause()
    fleet.clock.advance(961)
    assert [booked["outcome"] for booked in fleet.sweep().booked] == ["lost"]


def test_hands_off_the_file_would_not_help(fleet):
    """B02: the log refuses to be talked into a lift: no event can be changed or deleted by another program."""
    card = fleet.create(blocked="wait")
    raw = sqlite3.connect(fleet.home / "ledger.db")
    try:
        for statement in ("DELETE FROM events WHERE kind = 'blocked'", "UPDATE events SET kind = 'commented'"):
            with pytest.raises(sqlite3.DatabaseError):
                raw.execute(statement)
    finally:
        raw.close()
    with pytest.raises(LedgerError):
        fleet.board.claim(card)
