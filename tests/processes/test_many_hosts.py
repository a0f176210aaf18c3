"""Several hosts on one store, on a real PostgreSQL: whose a run is, and who may end it (RULES §6–7)."""

import os
import signal
import time
from dataclasses import replace

import pytest

from kanban.sweep import Sweeper
from tests import fleets
from tests.fleets import sh, until
from tests.hosts import IN_A_CONTAINER, other_boot, sharing, started

WORK = {"command": sh("echo up; exec sleep 300")}
LASTS, GRACE = 5, 4
"""Seconds of a lease and its grace with which a lost host is noticed soon."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make these namespaces everywhere")


@pytest.fixture
def machine(tmp_path):
    """What makes a machine on a store that nobody else has."""
    with sharing(tmp_path) as make:
        yield make


@pytest.fixture
def one(machine):
    """A machine that knows how to do the work."""
    made = machine("one")
    made.staff({"w": WORK})
    return made


@pytest.fixture
def other(machine):
    """Another one."""
    made = machine("two")
    made.staff({"w": WORK})
    return made


def at_work(host, **fields):
    """A card whose worker is at work on *host*."""
    card = host.create(**fields)
    assert [each["task"] for each in host.sweep().claimed] == [card]
    host.hears(card, "up")
    return card


def outcomes(tick):
    booked = tick.booked if not isinstance(tick, dict) else tick["booked"]
    return [(each["outcome"], each["evidence"]) for each in booked]


def double(card):
    """What a sweep says of another machine with its id."""
    return f"another machine goes by the host id one too, and runs {card}: set LEDGER_HOST_ID on each"


# Whose a run is


def test_a_host_leaves_the_runs_of_another_alone(one, other):
    """§7: no booking, no signal, no renewal, though here it could see the very processes."""
    card = at_work(one)
    one.board.set_policy(lease=100_000, max_runtime=1)
    time.sleep(1.1)
    tick = other.sweep()
    assert (tick.booked, tick.renewed, tick.claimed) == ([], [], [])
    assert len(one.members(card)) == 2
    assert one.runs(card)[0]["host"] == "one"


def test_what_an_operator_asks_for_anywhere_is_done_where_the_process_is(one, other):
    """§7.2: a host signals nothing that it does not own."""
    card = at_work(one)
    other.board.stop(card)
    assert other.sweep().stopped == []
    assert fleets.signals([one.sweep()], card) == [signal.SIGTERM]
    until(lambda: not one.members(card))
    assert outcomes(one.sweep()) == [("interrupted", "exit_record")]


def test_a_death_is_booked_by_its_own_host_with_what_that_alone_can_read(one, other):
    """§6: the exit record lies in the home of the host that ran it."""
    one.staff({"w": {"command": sh("exit 75")}})
    card = one.create()
    one.sweep()
    one.hears(card, "rc=75")
    assert outcomes(other.sweep(most=0)) == []
    until(lambda: outcomes(one.sweep(most=0)) == [("rate_limited", "exit_record")])


def test_another_dispatcher_of_the_same_machine_books_nothing_of_which_it_has_no_file(one, machine):
    """§6: only what every process of the host can read counts: two users' homes hold each its own runs."""
    one.staff({"w": {"command": sh("exit 75")}})
    bob = machine("one")
    card = one.create()
    one.sweep()
    one.hears(card, "rc=75")
    until(lambda: not one.members(card))
    assert outcomes(bob.sweep(most=0)) == []
    assert outcomes(one.sweep(most=0)) == [("rate_limited", "exit_record")]


def test_another_dispatcher_of_the_same_machine_renews_nothing_that_it_cannot_tell_of(one, machine):
    """§7.4: a lease that is renewed without its supervisor hearing of it would end the worker all the same."""
    one.board.set_policy(lease=12)
    card = at_work(one)
    time.sleep(6.1)
    assert machine("one").sweep().renewed == []
    assert [each["task"] for each in one.sweep().renewed] == [card]


def test_dispatchers_with_one_id_share_its_cap(machine):
    """§7.6: the host's cap counts the runs spawned under its id, whichever dispatcher did."""
    ada, bob = machine("host"), machine("host")
    for each in (ada, bob):
        each.staff({"w": WORK}, max_running=1)
    ada.create()
    ada.create()
    assert [len(each.sweep().claimed) for each in (ada, bob)] == [1, 0]


# A host that is gone


def test_a_host_that_is_cut_off_has_ended_its_run_before_another_starts_it(one, other):
    """Never two live runs: nobody renews, the supervisor ends its group, and only then is the run lost."""
    one.board.set_policy(lease=LASTS, lease_grace=GRACE, stop_grace=1, cooldown=1)
    card = at_work(one)
    group = one.members(card)
    ticks = []

    def taken() -> bool:
        living = any(map(fleets.is_alive, group))
        ticks.append(other.sweep())
        assert not (ticks[-1].claimed and living), "two live runs"
        return bool(ticks[-1].claimed)

    until(taken)
    assert [outcome for tick in ticks for outcome in outcomes(tick)] == [("lost", "none")]
    other.hears(card, "up", run=2)
    assert [run["host"] for run in other.runs(card)] == ["one", "two"]
    assert outcomes(one.sweep(most=0)) == []
    assert "the lease ran out and nobody renewed it" in one.hears(card, "rc=")


def test_a_host_whose_worker_stood_still_over_its_lease_ends_it_as_soon_as_it_goes_on(one, other):
    """A lid, a debugger: another run is at work by then, and the first one does nothing any more."""
    one.board.set_policy(lease=LASTS, lease_grace=GRACE, stop_grace=1, cooldown=1)
    card = at_work(one)
    group = one.runs(card)[0]["pid"]
    os.killpg(group, signal.SIGSTOP)
    until(lambda: other.sweep().claimed)
    os.killpg(group, signal.SIGCONT)
    until(lambda: not one.members(card))
    assert outcomes(one.sweep(most=0)) == []
    assert [run["outcome"] for run in other.runs(card)] == ["lost", None]


def test_a_host_that_comes_back_in_time_books_its_run_itself(one, other):
    """§6: by the exit record, before lease and grace are over: interrupted, which costs the card nothing."""
    one.board.set_policy(lease=LASTS, lease_grace=3_600, stop_grace=1)
    card = at_work(one)
    until(lambda: not one.members(card))
    assert outcomes(other.sweep(most=0)) == []
    assert outcomes(one.sweep(most=0)) == [("interrupted", "exit_record")]
    assert one.board.show(card)["task"]["failures"] == 0


def test_a_dispatcher_at_work_keeps_its_run_beyond_any_lease(one, other):
    """The sweep renews in time, and each renewal reaches the supervisor."""
    for seconds in (3, 15):  # where the machine is so busy that a dispatcher is late for the short one, a longer one
        one.board.set_policy(lease=seconds, lease_grace=GRACE)
        card = at_work(one)
        last, late = time.monotonic(), False
        ends = last + 2.5 * seconds
        while last < ends and not late:
            ended = [outcomes(host.sweep()) for host in (one, other)]
            late, last = time.monotonic() - last > seconds / 3, time.monotonic()
            assert late or ended == [[], []]
            time.sleep(0.2)
        if not late:
            break
        one.board.archive(card, force=True)
        until(lambda: one.sweep() and other.sweep() and not one.board.stats()["live"])
    assert [run["outcome"] for run in one.runs(card)] == [None]
    assert len(one.members(card)) == 2


# Identity


@as_root
@pytest.mark.parametrize("home", ["its own", "the same"])
def test_a_machine_of_the_same_image_does_not_judge_the_others_runs(one, machine, tmp_path, home):
    """One id, two boots, both at work: left to the lease, told as an error; nothing is signalled or forgotten.

    Where there is no machine id, and machines share a home, the id that is kept there is one too.
    """
    card = at_work(one)
    shared = {"home": one.home} if home == "the same" else {}
    clone = machine("one", *other_boot(tmp_path / "boot-of-the-clone"), **shared)
    told = clone.ledger("sweep", "--max", "0", code=1)
    assert (told["booked"], told["stopped"], told["renewed"]) == ([], [], [])
    assert [each["error"] for each in told["errors"]] == [double(card)]
    assert len(one.members(card)) == 2


@as_root
def test_a_machine_that_was_started_again_books_its_runs_at_once(one, machine, tmp_path):
    """Same host id, other boot: dead; the run's folder is here, and nothing happened since the start."""
    card = at_work(one)
    os.killpg(one.runs(card)[0]["pid"], signal.SIGKILL)
    time.sleep(1)
    again = machine("one", *started(0.5), *other_boot(tmp_path / "next-boot"), home=one.home)
    assert outcomes(again.ledger("sweep", "--max", "0")) == [("interrupted", "none")]


@as_root
def test_a_new_machine_of_the_same_image_is_not_taken_for_a_restart(one, machine, tmp_path):
    """It was started after the run was claimed, but the run's folder is not on its disk."""
    card = at_work(one)
    time.sleep(1)
    clone = machine("one", *started(0.5), *other_boot(tmp_path / "clone-boot"))
    assert outcomes(clone.ledger("sweep", "--max", "0")) == []
    assert len(one.members(card)) == 2


@as_root
@pytest.mark.parametrize("home", ["its own", "the same"])
def test_two_containers_of_one_kernel_leave_each_other_alone(one, machine, home):
    """One id, one boot, another pid namespace: untouched until its lease ends, and no signal."""
    card = at_work(one)
    one.board.set_policy(max_runtime=1)
    time.sleep(1)
    inside = machine("one", *IN_A_CONTAINER, **({"home": one.home} if home == "the same" else {}))
    tick = inside.ledger("sweep", "--max", "0")
    assert (tick["booked"], tick["renewed"], [each for each in tick["stopped"] if "signal" in each]) == ([], [], [])
    assert len(one.members(card)) == 2


@as_root
def test_a_container_that_died_leaves_its_run_to_the_lease(one, machine):
    """§6: its processes are gone with it, and nobody outside can tell: lost once lease and grace are over."""
    one.board.set_policy(lease=LASTS, lease_grace=GRACE)
    card = one.create()
    container = machine("one", *IN_A_CONTAINER, home=one.home)
    dispatcher = container.loop()
    one.hears(card, "up")
    os.killpg(dispatcher.pid, signal.SIGKILL)
    assert outcomes(one.sweep(most=0)) == []
    until(lambda: outcomes(one.sweep(most=0)) == [("lost", "none")])


@as_root
def test_a_host_that_was_renamed_is_the_same_host(one, machine):
    """A name is no identity: its worker is seen, kept and stopped as before."""
    card = at_work(one)
    renamed = machine("one", "unshare", "--uts", "sh", "-c", 'hostname renamed && exec "$@"', "sh", home=one.home)
    one.board.stop(card)
    stopped = renamed.ledger("sweep")["stopped"]
    assert [each["signal"] for each in stopped if "signal" in each] == [signal.SIGTERM]
    until(lambda: not one.members(card))
    assert outcomes(one.sweep(most=0)) == [("interrupted", "exit_record")]


def test_a_claim_of_a_machine_with_the_same_id_is_not_booked_before_it_is_bound(one, machine, monkeypatch):
    """Between claim and binding there is no process to look at, and the boot proves nothing: the grace decides."""
    clone = machine("one")
    shop = clone.board.sweeper.shop
    clone.board.sweeper.shop = replace(shop, host=replace(shop.host, boot="another boot"))
    start = Sweeper._start

    def meanwhile(sweeper, tick, claims):
        if claims:
            tick = clone.board.sweep(most=0)
            assert (outcomes(tick), [each["error"] for each in tick.errors]) == ([], [double(card)])
        start(sweeper, tick, claims)

    monkeypatch.setattr(Sweeper, "_start", meanwhile)
    card = one.create()
    one.sweep()
    one.hears(card, "up")
