"""Does the claim still hold: the reference system's table of proofs, against a claim that is held for real.

The reference keeps lease and worker twice, on the task and on the run, and proves both. Here each stands once, so two
of its cases become two cases of the one coordinate.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from kanban import address
from kanban.worker import proof as proofs
from kanban.worker.carrier import carrier_of
from kanban.worker.identity import Identity
from kanban.worker.proof import Live, Reason, prove, prove_here
from ledger.clock import SECOND, system_clock
from ledger.driver import sqlite_module
from ledger.ids import lock_hash
from projections.run import Binding
from projections.tables import metadata
from tests.fleets import PATIENCE, sh, until
from tests.reference.workers import hold, lost


@pytest.fixture
def unbound(fleet):
    """A claim by hand that no process is bound to."""
    return hold(fleet)


@pytest.fixture
def bound(fleet):
    """A claim by hand, bound to this process."""
    return hold(fleet, pid=os.getpid())


def test_owned_and_live(bound):
    """All of it matches: it holds until its lease ends."""
    assert bound.prove() == Live(bound.lease_until)


def test_a_run_without_a_process_is_whoever_has_its_lock(unbound):
    """Claimed by hand without --pid: there is no worker to compare."""
    assert unbound.prove() == Live(unbound.lease_until)
    assert unbound.prove(identity=replace(unbound.identity, host="elsewhere", processes=frozenset())).__class__ is Live


def test_released_to_the_board(unbound):
    """The lease and its grace are over, and a sweep has booked the run as lost."""
    unbound.fleet.clock.advance(2000)
    unbound.fleet.sweep(most=0)
    assert unbound.fleet.card(unbound.carrier.task)["status"] == "ready"
    assert lost(unbound.prove()) == Reason.NOT_RUNNING


def test_another_process_owns_the_claim(bound):
    """The identity's first case: other pids, all past our own: a parent's next pid may be ours, at the same tick."""
    processes = bound.identity.processes
    others = frozenset((pid + max(processes)[0], tick) for pid, tick in processes)
    assert lost(bound.prove(identity=replace(bound.identity, processes=others))) == Reason.OTHER_WORKER


def test_the_run_is_bound_to_an_earlier_process_of_that_pid(bound):
    """The identity's second case: the same pids, started at another time."""
    later = frozenset((pid, tick + 1) for pid, tick in bound.identity.processes)
    assert lost(bound.prove(identity=replace(bound.identity, processes=later))) == Reason.OTHER_WORKER


@pytest.mark.parametrize("name", ["host", "boot", "namespace"])
def test_a_process_is_one_of_its_machine(bound, name):
    """A pid says nothing on another host, after a reboot, or in another pid namespace."""
    assert lost(bound.prove(identity=replace(bound.identity, **{name: "another"}))) == Reason.OTHER_WORKER


def test_who_cannot_say_who_it_is_holds_no_bound_run(bound):
    """A machine without a name bound nothing."""
    carrier, at = bound.carrier, bound.lease_until
    assert lost(prove(carrier, at, None)) == Reason.OTHER_WORKER


def test_the_run_is_closed(bound):
    """Rows that disagree: a status is computed from the open run, so only damage makes this."""
    bound.outsider("UPDATE runs SET ended_by = 'exited', outcome = 'crashed'")
    assert lost(bound.prove()) == Reason.RUN_ENDED


def test_a_closed_run_gives_its_card_back(bound):
    """As it comes to pass: the worker's own verb ends the run."""
    carrier = bound.carrier
    bound.fleet.board.block(carrier.task, "a question", run=carrier.run, lock=carrier.lock)
    assert lost(bound.prove()) == Reason.NOT_RUNNING


def test_no_run_is_open(bound):
    """The card's pointer to its run is gone."""
    bound.outsider("UPDATE tasks SET run = NULL")
    assert lost(bound.prove()) == Reason.NOT_RUNNING


def test_the_board_has_moved_to_another_run(unbound):
    """Lost, and claimed again."""
    fleet, card = unbound.fleet, unbound.carrier.task
    fleet.clock.advance(2000)
    fleet.sweep(most=0)
    fleet.board.claim(card)
    assert lost(unbound.prove(now=fleet.clock())) == Reason.OTHER_RUN


@pytest.mark.parametrize("run", [2, 999_999_999, 0])
def test_the_carrier_names_another_run(unbound, run):
    """One that never was."""
    assert lost(prove(replace(unbound.carrier, run=run), unbound.lease_until, unbound.identity)) == Reason.OTHER_RUN


@pytest.mark.parametrize("lock", ["another", "", "\ud800", "x" * 10_000])
def test_the_lock_is_not_ours(unbound, lock):
    """Whole and exactly; what the store holds is its hash."""
    assert lost(prove(replace(unbound.carrier, lock=lock), 0, unbound.identity)) == Reason.OTHER_LOCK


def test_the_hash_of_a_lock_is_no_lock(unbound):
    """Who can read the store cannot act for a run."""
    stolen = replace(unbound.carrier, lock=lock_hash(unbound.carrier.lock))
    assert lost(prove(stolen, 0, unbound.identity)) == Reason.OTHER_LOCK


@pytest.mark.parametrize("after", [1, SECOND, 10**15])
def test_the_lease_has_expired(bound, after):
    """The lease's first case, at the same instant from which a sweep may take the card."""
    assert lost(bound.prove(now=bound.lease_until + after)) == Reason.LEASE_EXPIRED


def test_a_lease_that_ends_now_is_alive(bound):
    """Strictly before now is over."""
    assert bound.prove(now=bound.lease_until) == Live(bound.lease_until)


def test_a_missing_lease_is_none_without_end(bound):
    """The lease's second case: no row, no proof."""
    bound.outsider("DELETE FROM leases")
    assert lost(bound.prove()) == Reason.NO_LEASE


def test_a_lease_that_is_no_instant_proves_nothing(bound):
    """Whatever stands there."""
    bound.outsider("UPDATE leases SET lease_until = 'for ever'")
    assert lost(bound.prove()) == Reason.UNREADABLE


def test_a_renewed_lease_counts_and_the_one_of_the_claim_does_not(unbound):
    """`runs.lease_until` is what was granted, for the log: a beat moves the lease alone."""
    fleet, carrier = unbound.fleet, unbound.carrier
    fleet.clock.advance(800)
    fleet.board.heartbeat(carrier.task, run=carrier.run, lock=carrier.lock)
    assert isinstance(unbound.prove(now=unbound.lease_until + 100 * SECOND), Live)
    unbound.outsider("UPDATE runs SET lease_until = 1")
    assert isinstance(unbound.prove(now=unbound.lease_until + 100 * SECOND), Live)


def test_there_is_no_second_copy_to_compare():
    """One lease that moves and one worker: what the reference proves twice stands in one place."""
    columns = {f"{table.name}.{column.name}" for table in metadata.tables.values() for column in table.columns}
    assert {name for name in columns if "lease_" in name or "expires" in name} == {
        "leases.lease_until",
        "runs.lease_until",  # as granted, a fact of `claimed`
    }
    parts = {part for name in columns for part in name.split(".")[1].split("_")}
    assert not parts & {"pid", "tick", "namespace"}
    assert {"runs.group", "runs.turns"} <= columns
    assert Binding._fields == ("pid", "start_tick", "group", "host", "boot", "namespace")


def test_an_owner_of_the_turns_is_the_worker(bound):
    """Where a process was bound to run the turns, it is that one, and not what was started for it."""
    bound.outsider("""UPDATE runs SET turns = '[1, 1, 0, "h", "b", "n"]'""")
    assert lost(bound.prove()) == Reason.OTHER_WORKER
    assert isinstance(bound.prove(identity=Identity("h", "b", "n", frozenset({(1, 1)}))), Live)


# What cannot be seen


def test_without_a_store_nothing_is_proved_and_none_is_made(unbound, tmp_path):
    """Neither the file nor what SQLite keeps beside one."""
    folder = tmp_path / "empty"
    folder.mkdir()
    for url in (f"sqlite:///{folder}/none.db", f"sqlite:///{folder}/no/such.db", "mysql://h/d", "nonsense", ""):
        proof = prove(replace(unbound.carrier, database=url), unbound.lease_until, unbound.identity)
        assert lost(proof) == Reason.NO_STORE
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"x", b"not a database at all" * 200])
def test_what_is_no_store_proves_nothing(unbound, tmp_path, content):
    """An empty file, another file."""
    path = tmp_path / "other.db"
    path.write_bytes(content)
    proof = prove(replace(unbound.carrier, database=f"sqlite:///{path}"), unbound.lease_until, unbound.identity)
    assert lost(proof) == Reason.UNREADABLE
    assert (path.read_bytes(), sorted(tmp_path.glob("other*"))) == (content, [path])


@pytest.mark.parametrize(("name", "value"), [("task", "t_none"), ("board", "none"), ("task", "a\0b")])
def test_an_unknown_card_proves_nothing(unbound, name, value):
    """On a board that is there, or on none."""
    proof = prove(replace(unbound.carrier, **{name: value}), unbound.lease_until, unbound.identity)
    assert lost(proof) == Reason.UNKNOWN_CARD


def test_nothing_is_raised(bound):
    """Not even at what is no instant."""
    assert lost(prove(bound.carrier, "now", bound.identity)) == Reason.UNREADABLE


@pytest.mark.parametrize("binding", ["", "[]", "{}", "null", "[1,2]"])
def test_a_worker_that_cannot_be_read_is_nobody(bound, binding):
    """Fails closed."""
    bound.outsider('UPDATE runs SET "group" = ?', binding)
    assert lost(bound.prove()) == Reason.UNREADABLE


def test_a_missing_part_of_the_carrier_fails_closed(unbound):
    """The whole one is live; without its store, board, run or lock it is no carrier, and nothing is proved."""
    now = unbound.lease_until
    assert isinstance(prove_here(unbound.environment(), now)[1], Live)
    for name in ("LEDGER_DATABASE_URL", "LEDGER_BOARD", "LEDGER_RUN", "LEDGER_LOCK"):
        for value in (None, " "):
            assert lost(prove_here(unbound.environment(**{name: value}), now)[1]) == Reason.HALF_CLAIM
    assert lost(prove_here(unbound.environment(LEDGER_TASK=" "), now)[1]) == Reason.NO_CLAIM


def test_a_missing_address_never_resolves_an_ambient_board(unbound, monkeypatch):
    """The home names a store with that very row, live; nobody asks for it, and no store is opened."""
    asked = []
    monkeypatch.setattr(address, "address_of", lambda *_, **__: asked.append("address"))
    monkeypatch.setattr(proofs, "claim_of", lambda *_, **__: asked.append("store"))
    environ = unbound.environment(LEDGER_DATABASE_URL=None)
    assert environ["LEDGER_HOME"] == str(unbound.fleet.home)
    assert lost(prove_here(environ, unbound.lease_until)[1]) == Reason.HALF_CLAIM
    assert asked == []


def test_a_proof_writes_nothing(bound):
    """Neither while others have the store open nor when nobody has: no byte and no file changes."""
    home = bound.fleet.home

    def files():
        return {path.name: path.read_bytes() for path in home.glob("ledger.db*") if not path.name.endswith("-shm")}

    before = files()
    assert "ledger.db-wal" in before
    assert isinstance(bound.prove(), Live)
    assert files() == before
    bound.fleet._close_boards()
    before, names = files(), sorted(home.iterdir())
    assert "ledger.db-wal" not in before
    assert isinstance(bound.prove(), Live)
    assert (files(), sorted(home.iterdir())) == (before, names)


def test_a_store_that_cannot_be_written_can_still_be_proved_from(bound):
    """A read-only file system."""
    bound.fleet._close_boards()
    path = bound.fleet.home / "ledger.db"
    path.chmod(0o400)
    bound.fleet.home.chmod(0o500)
    try:
        assert isinstance(bound.prove(), Live)
    finally:
        bound.fleet.home.chmod(0o700)
        path.chmod(0o600)


def test_a_store_that_somebody_has_to_himself_proves_nothing(bound, monkeypatch):
    """As while a copy is put back: the proof waits a while, and then fails closed."""
    monkeypatch.setattr("ledger.driver._PATIENCE", 0.05)
    bound.fleet._close_boards()
    other = sqlite_module().connect(bound.fleet.home / "ledger.db", isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    try:
        assert lost(bound.prove()) == Reason.UNREADABLE
    finally:
        other.close()


def test_what_is_told_of_a_lost_claim_names_no_secret(bound):
    """Whatever the reason."""
    secret = bound.carrier.lock
    bound.outsider('UPDATE runs SET "group" = ?', secret)
    found = [bound.prove(), prove(replace(bound.carrier, task="\ud800"), 0, bound.identity)]
    assert [lost(proof) for proof in found] == [Reason.UNREADABLE] * 2
    assert secret not in repr(found)


# Real workers

CHECK = "ledger claim --check --json >> said; echo $? >> said"


def test_a_spawned_worker_and_what_it_starts_hold_the_claim(fleet):
    """The command itself, a child, and one in a session of its own; not this test, which knows the lock as well."""
    fleet.staff({"w": {"command": sh(f"{CHECK}; setsid sh -c '{CHECK}'; touch ready; exec sleep 300")}})
    card = fleet.create()
    fleet.sweep()
    scratch = fleet.in_scratch(card, "ready").parent
    said = (scratch / "said").read_text().splitlines()
    assert [json.loads(line)["live"] for line in said[::2]] == [True, True]
    assert said[1::2] == ["0", "0"]
    carrier = carrier_of(database=fleet.url, board="default", task=card, run=1, lock=fleet.lock(card))
    here = Identity.here(fleet.environ)
    assert lost(prove(carrier, system_clock(), here)) == Reason.OTHER_WORKER


def test_an_orphan_of_the_group_holds_the_claim(fleet):
    """What started it has ended, but its group is the run's."""
    orphan = f"( (sleep 0.3; {CHECK}; touch over) & )"
    fleet.staff({"w": {"command": sh(f"{orphan}; exec sleep 300")}})
    card = fleet.create()
    fleet.sweep()
    said = fleet.in_scratch(card, "over").parent / "said"
    assert said.read_text().splitlines()[1] == "0"


def test_a_worker_that_outlives_its_supervisor_has_no_proof(fleet):
    """The sweep is about to end its group (RULES §6)."""
    script = f"{CHECK}; touch ready; while [ ! -e go ]; do sleep 0.02; done; {CHECK}; touch over; exec sleep 300"
    fleet.staff({"w": {"command": sh(script)}})
    card = fleet.create()
    fleet.sweep()
    scratch = fleet.in_scratch(card, "ready").parent
    os.kill(fleet.supervisor(card), 9)
    (scratch / "go").touch()
    until((scratch / "over").exists)
    codes = (scratch / "said").read_text().splitlines()[1::2]
    assert codes == ["0", "3"]


def test_a_claim_by_hand_is_held_by_the_children_of_its_process(bound):
    """`ledger claim ID --pid $$`, and then `ledger claim --check`."""
    script = (
        "import os; from kanban.worker.proof import prove_here; from ledger.clock import system_clock;"
        "print(prove_here(os.environ, system_clock())[1])"
    )
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, env=bound.environment(), capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert ran.stdout.startswith("Live(")
