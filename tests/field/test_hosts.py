"""Many hosts, one board: who runs what, and whose clock says that a lease is over (RULES §6–7). On PostgreSQL."""

import time

import pytest

from kanban.lease_file import uptime
from ledger.clock import SECOND
from tests import fleets
from tests.fleets import sh, until
from tests.hosts import sharing

WORK = {"command": sh("echo up; exec sleep 300")}
TEN_MINUTES = 600


@pytest.fixture
def machine(tmp_path):
    """What makes a machine on a store that nobody else has."""
    with sharing(tmp_path) as make:
        yield make


@pytest.fixture
def laptop(machine):
    """Where somebody plans: it knows who may be started where, and starts nobody itself."""
    made = machine("laptop")
    made.staff({"w": {**WORK, "hosts": ["gpu1", "gpu2"]}})
    return made


@pytest.fixture
def gpus(machine):
    """Two hosts that run w."""
    made = machine("gpu1"), machine("gpu2")
    for each in made:
        each.staff({"w": WORK})
    return made


def claimed(tick):
    return [each["task"] for each in tick.claimed]


def test_a_laptop_plans_and_the_hosts_with_the_hardware_run(laptop, gpus):
    """B54: one store, no gateway: every host sweeps, and a card goes where it is placed, or its assignee is."""
    anywhere, second = laptop.create(), laptop.create(host="gpu2")
    assert laptop.sweep().held == {"placed_elsewhere": [anywhere]}
    assert [claimed(host.sweep()) for host in (gpus[0], gpus[1])] == [[anywhere], [second]]
    assert [laptop.runs(card)[0]["host"] for card in (anywhere, second)] == ["gpu1", "gpu2"]
    gpus[0].hears(anywhere, "up")
    assert len(gpus[0].members(anywhere)) == 2


def test_no_lock_of_one_host_keeps_another_from_dispatching(laptop, gpus):
    """B54: each host's own lock is for its own ticks; the board decides card by card."""
    from kanban.sweep import _only_one

    card = laptop.create()
    with _only_one(laptop.home) as alone:
        assert alone
        assert claimed(gpus[1].sweep()) == [card]


def test_each_host_ends_what_is_its_own(laptop, gpus):
    """B54: stopped from the laptop, signalled on the host that runs it, and by nobody else."""
    card = laptop.create(host="gpu2")
    gpus[1].sweep()
    gpus[1].hears(card, "up")
    laptop.board.stop(card)
    assert [host.sweep().stopped for host in (laptop, gpus[0])] == [[], []]
    assert len(fleets.signals([gpus[1].sweep()], card)) == 1
    until(lambda: not gpus[1].members(card))
    gpus[1].sweep()
    assert laptop.runs(card)[0]["outcome"] == "interrupted"


@pytest.fixture
def wrong(monkeypatch):
    """Put this machine's wall clock wrong by so many seconds; 0: right again."""
    right = time.time_ns

    def by(seconds):
        monkeypatch.setattr(time, "time_ns", lambda: right() + seconds * 10**9)

    return by


def at_work(host, card):
    """The card's worker is at work on *host*."""
    assert claimed(host.sweep()) == [card]
    host.hears(card, "up")
    return card


@pytest.mark.parametrize("seconds", [TEN_MINUTES, -TEN_MINUTES])
def test_a_host_with_a_wrong_clock_takes_no_live_run(gpus, wrong, seconds):
    """B57: an hour of leases by its own clock, a moment by the server's: nothing is booked, renewed or claimed."""
    one, other = gpus
    one.board.set_policy(lease=60)
    card = at_work(one, one.create())
    wrong(seconds)
    for _ in range(3):
        tick = other.sweep()
        assert (tick.booked, tick.renewed, tick.claimed) == ([], [], [])
    wrong(0)
    assert (one.sweep().booked, len(one.members(card))) == ([], 2)


@pytest.mark.parametrize("seconds", [TEN_MINUTES, -TEN_MINUTES])
def test_a_host_with_a_wrong_clock_keeps_its_own_runs(gpus, wrong, seconds):
    """B57: what its supervisor minds is what the server said was left, on the clock that nobody sets."""
    one, other = gpus
    one.board.set_policy(lease=60)
    wrong(seconds)
    card = at_work(one, one.create())
    left = int((one.folder(card) / "lease").read_text().split()[1]) - uptime()
    assert 50 * SECOND < left <= 60 * SECOND
    assert one.sweep().booked == []
    wrong(0)
    assert (other.sweep().booked, len(one.members(card))) == ([], 2)


@pytest.mark.parametrize("seconds", [TEN_MINUTES, -TEN_MINUTES])
def test_a_host_with_a_wrong_clock_finds_a_lost_run_in_time(gpus, wrong, seconds):
    """B57: neither too early nor too late: lease and grace by the server's clock."""
    one, other = gpus
    one.board.set_policy(lease=5, lease_grace=2, stop_grace=1)
    at_work(one, one.create())
    wrong(seconds)
    began = time.monotonic()
    booked = until(lambda: other.sweep(most=0).booked)
    assert [each["outcome"] for each in booked] == ["lost"]
    assert time.monotonic() - began > 2


def test_events_carry_the_servers_time(gpus, wrong):
    """B57: whichever host writes; the order of the log is that of its instants."""
    one, other = gpus
    wrong(TEN_MINUTES)
    card = one.create()
    wrong(-TEN_MINUTES)
    other.board.comment(card, "from the past?")
    wrong(0)
    other.board.comment(card, "now")
    instants = [event.at for event in one.board.events(card)]
    assert instants == sorted(instants)
    assert abs(instants[-1] - time.time_ns() // 1_000) < 60 * SECOND
    assert abs(instants[0] - time.time_ns() // 1_000) < 60 * SECOND
