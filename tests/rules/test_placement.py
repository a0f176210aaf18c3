"""Where runs go, and whose they are, where several hosts share the store (RULES §6, §7.4, §7.6). Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kanban.commands import Create
from kanban.hosts import Host
from kanban.plan import Book, Forget, Here, Lease, Seen, Worker, is_double, settle
from kanban.processes import Presence
from ledger.errors import InvalidInput
from ledger.events import Outcome
from projections.run import Binding, Run
from tests import given
from tests.rules.world import BOOT, GONE, HOST, NOW, SECOND, WorldView

GPU = Host("0123456789ab", "gpu1", "boot-1", "pid:[1]")
REBOOTED = Seen(Presence.REBOOTED)
LEASE, GRACE = 900, 60


class Shared(WorldView):
    """A board that this host sees on a store that others share; the machine was started at *since*."""

    since = NOW

    @property
    def here(self) -> Here:
        """The host that plans, and when it was started."""
        return replace(super().here, since=self.since)


def board(since, *, boot="an earlier boot", **claim):
    """A board whose card has run 1 open since `NOW`, claimed under *boot*, on a machine started at *since*."""
    world = Shared()
    world.since = since
    world.create()
    world.claim(boot=boot, **claim)
    return world


def booked(world, seen, *, after=0.0):
    """The outcomes that a tick books so many seconds later."""
    world.later(after)
    return [step.outcome for step in world.planned({("t_a", 1): seen}) if isinstance(step, Book)]


# Placement


@pytest.mark.parametrize("hosts", [(), ("gpu1",), ("0123456789ab",), ("other", "gpu1")])
def test_a_host_is_named_by_its_id_or_its_node_name(hosts):
    """Names as people type them; none at all: every host."""
    assert GPU.is_among(hosts)


@pytest.mark.parametrize("hosts", [("gpu2",), ("gpu",), ("boot-1",), ("pid:[1]",)])
def test_a_host_is_named_by_nothing_else(hosts):
    """An assignee is started there alone."""
    assert not GPU.is_among(hosts)


def test_a_worker_that_is_placed_elsewhere_is_held_and_takes_no_slot():
    """§7.6: it is not unknown; a skipped card takes no slot."""
    world = WorldView(max_running=1)
    world.workers["builder"] = Worker(human=False, max_running=None, here=False)
    world.create()
    world.create("t_b", assignee="other")
    admission = world.admit()
    assert [start.task.id for start in admission.starts] == ["t_b"]
    assert admission.held == {"t_a": ("placed_elsewhere", None)}


def test_a_card_keeps_the_host_that_it_was_created_for():
    """§2: host (or none: anywhere)."""
    world = WorldView()
    world.create(host="gpu1")
    assert world.card().card.host == "gpu1"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201])
def test_a_host_has_a_name_that_people_can_read(name):
    """A blank host would hold the card for ever."""
    world = WorldView()
    world.refuses(InvalidInput, Create("t_a", "A card", host=name))


# Whose a run is


def test_a_boot_whose_last_sign_is_older_than_this_one_is_over():
    """Same host id, other boot: dead at once."""
    assert booked(board(NOW + 10 * SECOND), REBOOTED, after=20) == [Outcome.INTERRUPTED]


@pytest.mark.parametrize("since", [NOW - 10 * SECOND, NOW])
def test_a_boot_that_claimed_after_this_one_began_is_another_machines(since):
    """Two machines of one image have one id: neither books the other's run before lease and grace are over."""
    world = board(since)
    assert booked(world, REBOOTED, after=LEASE + GRACE) == []
    assert booked(world, REBOOTED, after=1) == [Outcome.LOST]


@pytest.mark.parametrize(
    "sign",
    [
        lambda world: world.happened(given.progressed(1)),
        lambda world: world.leases.update({("t_a", 1): Lease(world.now + LEASE * SECOND, world.now, row=True)}),
        lambda world: world.leases.update({("t_a", 1): Lease(world.now + LEASE * SECOND, None, row=True)}),
        lambda world: world.leases.update({("t_a", 1): Lease(NOW + LEASE * SECOND + 1, world.now, row=True)}),
    ],
    ids=["progress", "beat", "renewal", "a beat for a shorter lease"],
)
def test_any_sign_of_life_after_this_machine_began_is_another_machines(sign):
    """What renews a lease lives; a machine that has been started since could not have done so."""
    world = board(NOW + 100 * SECOND)
    world.later(99)
    assert booked(world, REBOOTED, after=2) == [Outcome.INTERRUPTED]
    sign(world)
    assert booked(world, REBOOTED) == []


def test_a_lease_that_was_made_longer_since_hides_no_sign_of_life():
    """A renewal for 900 s, looked at under a policy of 9,000 s, is a sign of today and not of two hours ago."""
    world = board(NOW + 100 * SECOND)
    world.later(101)
    world.leases[("t_a", 1)] = Lease(world.now + LEASE * SECOND, None, row=True)
    world.policy(lease=10 * LEASE)
    assert booked(world, REBOOTED) == []


def test_where_nobody_shares_the_store_a_boot_is_an_earlier_one():
    """§6: none, host booted since → interrupted: there is one machine with that id."""
    world = WorldView()
    world.create()
    world.claim(boot="another")
    assert booked(world, REBOOTED) == [Outcome.INTERRUPTED]


def test_a_claim_that_was_never_bound_has_its_grace_whatever_boot_it_names():
    """§7.7: it may be another machine's, between its claim and its binding; the grace is 30 s."""
    world = board(NOW + 10 * SECOND, bound=False)
    assert booked(world, Seen(), after=30) == []
    assert booked(world, Seen(), after=1) == [Outcome.INTERRUPTED]


@pytest.mark.parametrize(("since", "forgotten"), [(NOW + 10 * SECOND, True), (NOW - 10 * SECOND, False)])
def test_processes_of_a_boot_that_is_not_over_are_not_forgotten(since, forgotten):
    """§7.7: an ended run keeps its process identity until its group is seen gone, and by its own machine alone."""
    run = Run(
        "t_a", 1, by="spawn", host=HOST, boot="b", claimed_at=NOW, ended_by="blocked", ended_at=NOW,
        group=Binding(7, 70, 7, HOST, "b", "n"),
    )  # fmt: skip
    here = Here(HOST, BOOT, 8, {}, since)
    steps = settle(
        NOW + 20 * SECOND, WorldView().settings, here, open_runs=(), ending=[run], liftable=(),
        seen={("t_a", 1): REBOOTED},
    )  # fmt: skip
    assert steps == ([Forget(run)] if forgotten else [])


@pytest.mark.parametrize(
    ("boot", "host", "since", "double"),
    [
        ("another", HOST, NOW - 61 * SECOND, True),
        ("another", HOST, NOW - 60 * SECOND, False),  # the clock of the store may have been set
        ("another", HOST, NOW + 10 * SECOND, False),
        (BOOT, HOST, NOW - 1_000 * SECOND, False),
        ("another", "node-2", NOW - 1_000 * SECOND, False),
        ("another", HOST, None, False),
    ],
)
@pytest.mark.parametrize("bound", [True, False])
def test_a_machine_with_the_same_id_is_noticed(boot, host, since, double, bound):
    """A boot that is not this one, and that acted long after this one had begun."""
    world = board(since, boot=boot, host=host, bound=bound)
    assert is_double(world.here, world.settings.policy, (world.run("t_a", 1), world.leases["t_a", 1])) is double


def test_a_death_on_this_boot_is_booked_at_once():
    """§6: none, same boot, process gone: shared or not."""
    assert booked(board(NOW - 10 * SECOND, boot=BOOT), GONE) == [Outcome.CRASHED]
