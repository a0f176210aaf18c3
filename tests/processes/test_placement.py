"""Which host starts a card, and which of them says why it was not started (RULES §7.6)."""

import pytest

from kanban.refusals import NotClaimable
from kanban.worker.attend import Ask, attend
from projections import queries
from tests.fleets import sh, until

REWRITE = 600
"""Seconds after which a host that did not come counts no more."""


@pytest.fixture
def gpu(fleet):
    """The host gpu1, on which w may be started, and there alone."""
    fleet.staff({"w": {"command": sh("exit 0"), "on_success": "complete", "hosts": ["gpu1"]}})
    return fleet.on_host(fleet.another(), id="a1b2c3", name="gpu1")


@pytest.fixture
def laptop(fleet, gpu):
    """Another host with the same ledger.toml."""
    return fleet.on_host(fleet.another(), id="d4e5f6", name="laptop")


def held(fleet):
    """The reasons that are stored."""
    with fleet.board.look() as desk:
        return queries.held(desk.tx, "default")


def claimed(tick):
    return [each["task"] for each in tick.claimed]


def test_a_card_is_started_where_its_assignee_may_be_and_nowhere_else(fleet, gpu, laptop):
    """A laptop plans, a host with a GPU runs."""
    card = fleet.create()
    tick = laptop.sweep()
    assert (claimed(tick), tick.held) == ([], {"placed_elsewhere": [card]})
    assert held(fleet) == {"placed_elsewhere": [card]}
    assert claimed(gpu.sweep()) == [card]
    assert held(fleet) == {}


@pytest.fixture
def anywhere(fleet):
    """The same two hosts, with w on both: its card alone is placed."""
    fleet.staff({"w": {"command": sh("exit 3")}})
    names = (("a1b2c3", "gpu1"), ("d4e5f6", "laptop"))
    return [fleet.on_host(fleet.another(), id=id_, name=name) for id_, name in names]


@pytest.mark.parametrize("host", ["gpu1", "a1b2c3"])
def test_a_card_is_started_on_the_host_that_it_is_placed_on(fleet, anywhere, host):
    """By node name or id; no other host even looks at it."""
    gpu, laptop = anywhere
    card = fleet.create(host=host)
    tick = laptop.sweep()
    assert (claimed(tick), tick.held) == ([], {})
    assert claimed(gpu.sweep(dry_run=True)) == [card]
    assert claimed(gpu.sweep()) == [card]


@pytest.mark.parametrize("host", ["gpu1", "a1b2c3"])
def test_a_card_that_a_tick_itself_sets_free_is_started_by_its_placement_too(fleet, anywhere, host):
    """§7: the dry run foresees it, and a real tick does exactly the plan."""
    gpu, _ = anywhere
    card = fleet.create(host=host, max_retries=9)
    gpu.sweep()
    until(lambda: not fleet.members(card))
    foreseen = gpu.sweep(dry_run=True)
    assert [each["outcome"] for each in foreseen.booked] == ["crashed"]
    assert claimed(foreseen) == claimed(gpu.sweep()) == [card]


def test_what_the_right_host_says_is_not_overwritten(fleet, gpu, laptop):
    """§7.6: one row a card: a host that may not start it writes nothing over the reason of one that may."""
    fleet.board.set_policy(max_running_per_assignee=1)
    fleet.board.claim(fleet.create())
    card = fleet.create()
    gpu.sweep()
    assert held(fleet) == {"assignee_at_capacity": [card]}
    tick = laptop.sweep()
    assert tick.held == {"placed_elsewhere": [card]}
    assert held(fleet) == {"assignee_at_capacity": [card]}
    assert laptop.sweep().position == tick.position


def test_the_right_host_writes_over_what_another_said(fleet, gpu, laptop):
    """§7.6: it knows why the card was not started; the other only why it was not the one."""
    fleet.board.set_policy(max_running_per_assignee=1)
    fleet.board.claim(fleet.create())
    card = fleet.create()
    laptop.sweep()
    assert held(fleet) == {"placed_elsewhere": [card]}
    gpu.sweep()
    assert held(fleet) == {"assignee_at_capacity": [card]}


def test_an_assignee_that_one_host_does_not_know_is_no_news_where_another_does(fleet, gpu):
    """§7.6: a host with other assignees is no authority on this one."""
    fleet.board.set_policy(max_running_per_assignee=1)
    fleet.board.claim(fleet.create())
    card = fleet.create()
    gpu.sweep()
    fleet.staff({"x": {"command": sh("exit 0")}})
    laptop = fleet.on_host(fleet.another(), id="d4e5f6", name="laptop")
    assert laptop.sweep().held == {"unknown_assignee": [card]}
    assert held(fleet) == {"assignee_at_capacity": [card]}


def test_a_host_that_came_no_more_is_no_authority(fleet, gpu, laptop):
    """§7.6: what it said last is over when it has not come for ten minutes."""
    fleet.board.set_policy(max_running_per_assignee=1)
    running = fleet.create()
    granted = fleet.board.claim(running)
    card = fleet.create()
    gpu.sweep()
    fleet.clock.advance(REWRITE - 1)
    fleet.board.heartbeat(running, lock=granted.lock)
    laptop.sweep()
    assert held(fleet) == {"assignee_at_capacity": [card]}
    fleet.clock.advance(2)
    laptop.sweep()
    assert held(fleet) == {"placed_elsewhere": [card]}


def test_a_host_alone_says_what_it_finds(fleet, gpu):
    """§7.6: with one host there is nobody else to know better."""
    fleet.board.set_policy(max_running_per_assignee=1)
    fleet.board.claim(fleet.create())
    card = fleet.create()
    gpu.sweep()
    fleet.staff({"x": {"command": sh("exit 0")}})
    alone = fleet.on_host(fleet.another(), id="a1b2c3", name="gpu1")
    alone.sweep()
    assert held(fleet) == {"unknown_assignee": [card]}


def test_why_names_the_host_that_a_card_waits_for(fleet, anywhere):
    """The sweep that somebody runs here would change nothing."""
    gpu, laptop = anywhere
    card = fleet.create(host="gpu1")
    laptop.sweep()
    told = fleet.board.why(card, "held")
    assert [ground["text"] for ground in told["because"]] == [
        "it is placed on gpu1, and no sweep there has looked at it since it became claimable"
    ]
    assert told["try"] == f"ledger sweep on gpu1, or ledger claim {card} on any"
    fleet.board.set_policy(max_running_per_assignee=1)
    fleet.board.claim(fleet.create(priority=1))
    gpu.sweep()
    assert "assignee_at_capacity" in fleet.board.why(card, "held")["because"][0]["text"]


def test_why_says_that_an_assignee_is_placed_elsewhere(fleet, laptop):
    """§7.6: it is not unknown here."""
    card = fleet.create()
    laptop.sweep()
    told = fleet.board.why(card, "held")
    assert told["because"][0]["text"].endswith(": placed_elsewhere")
    assert told["try"].startswith("ledger sweep on a host that its assignee is placed on")


def test_worker_run_starts_nobody_who_is_placed_elsewhere(fleet, gpu, laptop):
    """§8: as a sweep: spawned where it may be; a command of the caller's own is nobody's who was placed."""
    card = fleet.create()
    with pytest.raises(NotClaimable, match=r"placed_elsewhere \(w is started on gpu1 alone\)"):
        attend(laptop, Ask(card), lambda *_: None)
    assert fleet.kinds(card) == ["created"]
    assert attend(laptop, Ask(card, command=("true",)), lambda *_: None).exit_code == 0


def test_worker_run_runs_no_card_that_is_placed_elsewhere(fleet, gpu, laptop):
    """§8: the card asked for that host, whoever works on it."""
    card = fleet.create(host="gpu1")
    with pytest.raises(NotClaimable, match=r"placed_elsewhere \(it is placed on gpu1, and this is laptop, id d4e5f6\)"):
        attend(laptop, Ask(card, command=("true",)), lambda *_: None)
    assert fleet.kinds(card) == ["created"]
    assert attend(gpu, Ask(card), lambda *_: None).exit_code == 0


def test_a_person_may_claim_a_card_wherever_it_is_placed(fleet, gpu, laptop):
    """§8: placement holds back spawning only; the next card of a host is one that it could run."""
    elsewhere = fleet.create(host="another-host")
    here = fleet.create()
    assert fleet.board.claim().task == here
    assert fleet.board.claim(elsewhere).task == elsewhere
