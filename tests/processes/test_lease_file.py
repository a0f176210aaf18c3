"""The lease as the supervisor reads it: whoever renews it says so in a file, and the group ends when it has run out.

RULES §7.4. The store of these fleets is taken for one that several hosts share.
"""

import json
import os
import runpy
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kanban.starting
import kanban.sweep
import kanban.verbs
from kanban import Board, lease_file
from kanban.folders import LEASE
from kanban.hosts import Host
from kanban.lease_file import renew_file, uptime, write_lease
from kanban.processes import ProcessTable
from kanban.refusals import LostClaim
from kanban.worker import attend
from kanban.worker.attend import Ask, Attendant, _claimed
from kanban.worker.ears import hearing
from ledger.clock import SECOND
from ledger.database import writing
from ledger.errors import StoreUnreachable
from projections import leases
from projections.policy import Policy
from projections.run import Binding, Run
from tests import fleets
from tests.fleets import sh, until
from tests.supervisors import SUPERVISE, names, script, wait_until

FAR = 1_000
AHEAD = 2**60
WHOLE = 800
"""Seconds of which more are left of a lease that was just renewed for 900, even where the machine is slow."""
LOADED = f"""
import os, sys, time
module = {{"__name__": "supervise"}}
exec(compile(open({str(SUPERVISE)!r}).read(), "supervise", "exec"), module)
"""
RUN = "os._exit(module['main'](sys.argv[1:]))"
TOLD = b"[kanban] the lease ran out and nobody renewed it: the run was told to end, and did with "
DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"


def leased(folder, left, *, kill=5.0, last=10.0):
    """Write a lease that runs out in *left* seconds; *kill* and *last* are counted from there."""
    term = uptime() + round(left * SECOND)
    text = f"1 {term} {term + round(kill * SECOND)} {term + round(last * SECOND)}\n"
    (folder / "lease.new").write_text(text)
    (folder / "lease.new").rename(folder / "lease")


def read(folder):
    """The instant at which the lease in *folder* runs out."""
    return int((folder / LEASE).read_text().split()[1])


def others(run):
    """The processes in the group of *run*, but its supervisor."""
    seen = ProcessTable.snapshot().processes.values()
    return [one.pid for one in seen if one.group == run.process.pid != one.pid and not one.dead]


# The supervisor's side


CLOCK = """
def now():
    with open({looks!r}, "ab") as looks:
        looks.write(b".")
    return {begun} + (int(open({passed!r}).read()) if os.path.exists({passed!r}) else 0)
module['_now'] = now
"""


class Hours:
    """A supervisor's clock that stands, until the test lets time pass: so none is too late on a busy machine."""

    def __init__(self, run):
        self._run, self._passed, self._looks = run, run.folder.parent / "passed", run.folder.parent / "looks"

    def start(self, *command, planted=""):
        """Start a supervisor that has this clock, with its gate open."""
        clock = CLOCK.format(looks=str(self._looks), passed=str(self._passed), begun=uptime())
        self._run.spawn(*command, program=("-c", LOADED + clock + planted + RUN))
        self._run.open()

    def strike(self, seconds):
        """So many have passed since the start."""
        (self._passed.parent / "new").write_text(str(round(seconds * SECOND)))
        (self._passed.parent / "new").replace(self._passed)

    def seen(self):
        """Wait until the supervisor has looked at its clock, read its lease, and looked again."""
        before = self._looks.stat().st_size
        wait_until(lambda: self._looks.stat().st_size > before + 3)


@pytest.fixture
def hours(run):
    """The clock of a run's supervisor."""
    return Hours(run)


def test_a_lease_that_runs_out_ends_the_command(run, hours):
    """§7.4: the supervisor ends its group when it runs out; the record says how that ended, the log says why."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    hours.start("sh", "-c", "echo up; exec sleep 60")
    wait_until(run.says(b"up\n"))
    hours.strike(1.5 * FAR)
    assert run.wait() == 128 + signal.SIGTERM
    assert run.end == (None, signal.SIGTERM)
    assert run.output == b"up\n" + TOLD + b"signal 15\n"


def test_a_lease_runs_out_by_the_real_clock(make):
    """As above, with no clock but this machine's; where the machine is slow, with more of it."""
    for seconds in (0.5, 4, 32):
        run = make()
        leased(run.folder, seconds, kill=FAR, last=2 * FAR)
        run.start("sh", "-c", "echo up; exec sleep 600")
        run.wait()
        if run.output.startswith(b"up\n"):  # and was not over at the gate
            break
    assert run.end == (None, signal.SIGTERM)
    assert run.output == b"up\n" + TOLD + b"signal 15\n"


def test_a_lease_that_is_renewed_keeps_the_command(run, hours):
    """§7.4: the file is read again when it seems to have run out."""
    leased(run.folder, FAR)
    hours.start("sh", "-c", "echo up; while [ ! -e end ]; do sleep 0.02; done; echo done")
    wait_until(run.says(b"up\n"))
    leased(run.folder, 9 * FAR)
    hours.strike(2 * FAR)
    hours.seen()
    (run.workspace / "end").touch()
    assert run.wait() == 0
    assert run.output == b"up\ndone\n"


@pytest.mark.parametrize(("lease", "threads"), [(False, 2), (True, 3)])
def test_without_a_lease_nothing_is_watched(run, lease, threads):
    """On a store of one host alone there is no file, and no thread for it."""
    if lease:
        leased(run.folder, FAR)
    run.start("sh", "-c", "echo up; while [ ! -e end ]; do sleep 0.02; done")
    wait_until(run.says(b"up\n"))
    wait_until(lambda: len(names(Path(f"/proc/{run.process.pid}/task"))) == threads)  # the gate's own ends by itself
    (run.workspace / "end").touch()
    assert run.wait() == 0


def test_a_command_that_does_not_mind_term_is_killed_at_the_second_instant(run, hours):
    """§7.4: before lease and grace are over, at whose end another host may start the card again."""
    leased(run.folder, FAR, kill=FAR, last=9 * FAR)
    hours.start("sh", "-c", DEAF)
    wait_until(run.says(b"up\n"))
    hours.strike(1.5 * FAR)
    hours.seen()
    assert run.process.poll() is None
    hours.strike(2.5 * FAR)
    run.wait()
    assert run.end == (143, None)
    assert run.output.endswith(TOLD + b"signal 9\n")


@pytest.mark.parametrize(("code", "booked"), [(0, 143), (1, 143), (9, 143), (75, 75), (78, 78), (130, 130)])
def test_a_command_that_was_told_was_interrupted_whatever_it_made_of_that(run, hours, code, booked):
    """§6: as a stop that was requested: only 75 and 78 say more."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    trap = f"import os, signal, time; signal.signal(signal.SIGTERM, lambda *_: os._exit({code})); os.write(1, b'up\\n')"
    hours.start(*script(f"{trap}; time.sleep(600)"))
    wait_until(run.says(b"up\n"))
    hours.strike(1.5 * FAR)
    assert run.wait() == booked
    assert run.end == (booked, None)
    assert run.output == b"up\n" + TOLD + b"code %d\n" % code
    assert run.trailer == b"[kanban-worker-exit] rc=%d run=3" % booked


def test_the_whole_group_ends_not_the_command_alone(run, hours):
    """§7.4: never two live runs: what the command left does not outlive the lease either."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    hours.start("sh", "-c", f"({DEAF}) & exec sleep 60")
    wait_until(run.says(b"up\n"))
    assert len(others(run)) > 1
    hours.strike(1.5 * FAR)
    wait_until((run.folder / "exit.json").exists)
    hours.strike(2.5 * FAR)
    run.wait()
    assert run.end == (None, signal.SIGTERM)
    wait_until(lambda: others(run) == [])


def test_a_record_that_cannot_be_written_keeps_nobody_alive(run, hours):
    """A disk that hangs: at the third instant the group is killed, the supervisor with it."""
    leased(run.folder, FAR, kill=FAR, last=9 * FAR)
    hangs = "module['_write_record'] = lambda *_: time.sleep(600)\n"
    hours.start("sh", "-c", f"({DEAF}) & exec sleep 60", planted=hangs)
    wait_until(run.says(b"up\n"))
    hours.strike(2.5 * FAR)
    hours.seen()
    assert run.process.poll() is None
    hours.strike(20 * FAR)
    assert run.wait() == -signal.SIGKILL
    wait_until(lambda: others(run) == [])


def test_a_lease_that_is_over_at_the_gate_lets_nothing_run(run):
    """§7.7: a claimer that slept between its claim and the gate comes too late."""
    leased(run.folder, -1)
    run.start("touch", "ran")
    assert run.wait() == 143
    assert (run.end, names(run.workspace)) == ((143, None), [])


@pytest.mark.parametrize(
    "text",
    ["", "1", f"1 {AHEAD} {AHEAD}\n", f"2 {AHEAD} {AHEAD} {AHEAD}\n", f"1 {AHEAD} {AHEAD} {AHEAD}", "1 x y z\n",
     f"1 {AHEAD} {AHEAD} 5\n", f"1 {AHEAD} {AHEAD} {AHEAD} {AHEAD}\n", "\0" * 64],
)  # fmt: skip
def test_a_torn_lease_at_the_gate_lets_nothing_run(run, text):
    """Nobody could tell until when: neither for ever nor for a guess."""
    (run.folder / "lease").write_text(text)
    run.start("touch", "ran")
    assert run.wait() == 143
    assert (run.end, names(run.workspace)) == ((143, None), [])


@pytest.mark.parametrize("spoil", ["torn", "gone", "a folder", "a pipe"])
def test_a_lease_that_is_spoilt_later_counts_as_it_was_last_read(run, hours, spoil):
    """It neither ends the command at once nor lets it live for ever."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    hours.start("sh", "-c", "echo up; exec sleep 600")
    wait_until(run.says(b"up\n"))
    (run.folder / "lease").unlink()
    match spoil:
        case "torn":
            (run.folder / "lease").write_text(f"1 {2**62} {2**62}")
        case "a folder":
            (run.folder / "lease").mkdir()
        case "a pipe":
            os.mkfifo(run.folder / "lease")
    hours.seen()
    assert run.process.poll() is None
    hours.strike(1.5 * FAR)
    assert run.wait() == 143
    assert run.end == (None, signal.SIGTERM)


def test_a_machine_that_slept_over_the_lease_ends_the_command_when_it_wakes(run, hours):
    """No timer counts the time that a machine sleeps, but the clock since its start does: one would wait for FAR."""
    leased(run.folder, FAR, kill=10, last=45)
    hours.start("sh", "-c", f"({DEAF}) & echo up; exec sleep 600")
    wait_until(run.says(b"up\nup\n"))
    hours.strike(2 * FAR)
    run.wait()
    assert run.end == (143, None)
    wait_until(lambda: others(run) == [])


def test_a_group_that_was_stopped_over_its_lease_ends_when_it_goes_on(run, hours):
    """A laptop's lid, a debugger: whoever has the card by then is alone at once."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    hours.start("sh", "-c", "echo up; exec sleep 600")
    wait_until(run.says(b"up\n"))
    run.signal(signal.SIGSTOP)
    hours.strike(1.5 * FAR)
    run.signal(signal.SIGCONT)
    assert run.wait() == 143
    assert run.end == (None, signal.SIGTERM)


def test_what_a_command_left_in_its_group_is_told_to_end_after_the_record(run):
    """A sweep that is cut off from the store cannot tell it. The command's own code counts."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    run.start("sh", "-c", "(trap 'touch told; exit' TERM; touch up; while :; do sleep 0.02; done) &"
                          "until [ -e up ]; do sleep 0.02; done; exit 5")  # fmt: skip
    assert run.wait() == 5
    assert (run.end, names(run.workspace), others(run)) == ((5, None), ["told", "up"], [])


def test_what_a_command_left_in_its_group_is_killed_after_the_grace(run):
    """TERM, the grace of stops, KILL."""
    leased(run.folder, FAR, kill=0.3)
    run.start("sh", "-c", "(trap '' TERM; touch up; while :; do sleep 0.02; done) &"
                          "until [ -e up ]; do sleep 0.02; done; exit 5")  # fmt: skip
    assert run.wait() == -signal.SIGKILL
    assert run.end == (5, None)
    wait_until(lambda: others(run) == [])


def test_a_zombie_is_nobody(run):
    """§6: zombies are dead, also one that whoever left the group does not bury."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    leaves = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.fork() or os._exit(0)\n"
        "    os.setsid()\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(300)\n"
        "while not open(os.environ['LOG']).read(): time.sleep(0.02)\n"
    )
    run.start("env", f"LOG={run.folder}/log", *script(leaves))
    wait_until(run.says(b"\n"))
    try:
        assert run.wait() == 0
    finally:
        os.kill(int(run.log.split()[0]), signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may set a clock, if in a namespace alone")
@pytest.mark.parametrize("now", ["kanban.lease_file.uptime()", f"runpy.run_path({str(SUPERVISE)!r})['_now']()"])
def test_the_clock_counts_the_time_that_the_machine_slept(now):
    """A machine that slept for a day since its start, as far as this namespace knows."""
    says = f"import kanban.lease_file, runpy, time; print({now} / 1e6 - time.monotonic())"
    slept = ["unshare", "--time", "--boottime", "86400", sys.executable, "-c", says]
    done = subprocess.run(slept, cwd=SUPERVISE.parents[2], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 86_000


def test_who_left_the_group_is_not_signalled(run, hours):
    """§7.7: never."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    hours.start("sh", "-c", "setsid sh -c 'echo $$; exec sleep 600' & exec sleep 600")
    wait_until(run.says(b"\n"))
    pid = int(run.log.split()[0])
    hours.strike(1.5 * FAR)
    try:
        run.wait()
        assert run.end == (None, signal.SIGTERM)
        assert fleets.is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_an_ordinary_end_is_not_delayed_by_a_lease(run):
    """Nobody is left: no TERM, no grace."""
    leased(run.folder, FAR, kill=FAR, last=2 * FAR)
    assert run.complete("sh", "-c", "exit 7") == 7  # a grace would last longer than `complete` waits
    assert run.output == b""


# What is written


@given(
    lease_grace=st.integers(1, 10**6), stop_grace=st.integers(1, 10**6),
    left=st.integers(-(10**9), 10**12),
)  # fmt: skip
def test_all_is_over_before_another_host_may_take_the_card(tmp_path_factory, lease_grace, stop_grace, left):
    """§7.4: TERM, KILL and the end of it all lie between the end of the lease and that of its grace, in this order."""
    folder = tmp_path_factory.getbasetemp()
    term = uptime() + left
    write_lease(folder, term, Policy(lease_grace=lease_grace, stop_grace=stop_grace))
    _, *ends = map(int, (folder / LEASE).read_text().split())
    assert ends[0] == term
    assert ends[0] <= ends[1] <= ends[2] < term + lease_grace * SECOND
    assert ends[1] <= term + stop_grace * SECOND


def test_the_supervisor_reads_what_is_written(tmp_path):
    """Two programs, one shape; private, and nothing temporary is left beside it."""
    write_lease(tmp_path, 12_345_678, Policy(lease_grace=60, stop_grace=10))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        read_by_supervisor = runpy.run_path(str(SUPERVISE))["_lease_in"](descriptor)
    finally:
        os.close(descriptor)
    assert read_by_supervisor == (12_345_678, 22_345_678, 57_345_678)
    assert [(each.name, stat.S_IMODE(each.stat().st_mode)) for each in tmp_path.iterdir()] == [(LEASE, 0o600)]


HERE = Host("h", "name", "boot", "ns")
BOUND = Binding(7, 70, 7, "h", "boot", "ns")


@pytest.mark.parametrize(
    ("run", "written"),
    [
        (Run("t", 1, by="spawn", group=BOUND), True),
        (Run("t", 1, by="spawn", group=BOUND._replace(host="other")), False),
        (Run("t", 1, by="spawn", group=BOUND._replace(boot="earlier")), False),
        (Run("t", 1, by="spawn"), False),
        (Run("t", 1, by="hand", group=BOUND._replace(group=0)), False),
    ],
)
def test_a_lease_is_told_to_a_supervisor_of_this_machine_alone(tmp_path, run, written):
    """Another machine counts from another start, and reads another file."""
    renew_file(tmp_path, run, HERE, 5, Policy())
    assert (tmp_path / LEASE).exists() is written


def test_a_folder_that_is_not_here_is_not_made(tmp_path):
    """A worker that beats from elsewhere leaves no run folder in a home that has no such run."""
    renew_file(tmp_path / "none", Run("t", 1, by="spawn", group=BOUND), HERE, 5, Policy())
    assert names(tmp_path) == []


# Who writes it


@pytest.fixture
def shared(fleet, monkeypatch):
    """A fleet whose store other hosts share, as far as this one believes."""
    for module in (kanban.starting, kanban.verbs):
        monkeypatch.setattr(module, "serves_hosts", lambda _: True)
    fleet.staff({"w": {"command": sh("echo up > up; exec sleep 300")}})
    return fleet


@pytest.fixture
def working(shared):
    """A card whose worker is at work."""
    card = shared.create()
    shared.sweep()
    shared.in_scratch(card, "up")
    return card


def left(fleet, card):
    """Seconds until the card's supervisor ends it, as far as the clock of this machine has come in this test."""
    return (read(fleet.folder(card)) - kanban.sweep.uptime()) / SECOND


@pytest.fixture
def later(shared, monkeypatch):
    """Let time pass, for the store and for the dispatchers of this machine, or for *one* of them alone."""
    passed = {"machine": 0}
    for module in (kanban.starting, kanban.sweep, kanban.verbs, attend):
        monkeypatch.setattr(module, "uptime", lambda: uptime() + passed["machine"] * SECOND)

    def pass_(seconds, *, one="both"):
        if one != "machine":
            shared.clock.advance(seconds)
        if one != "store":
            passed["machine"] += seconds

    return pass_


def test_a_store_of_one_host_has_no_lease_file(fleet):
    """Nobody else could take the run."""
    fleet.staff({"w": {"command": sh("echo up > up; exec sleep 300")}})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "up")
    fleet.clock.advance(600)
    fleet.sweep()
    assert not (fleet.folder(card) / LEASE).exists()


def test_the_lease_is_there_before_the_gate_opens(shared, monkeypatch):
    """§7.4, §7.7: nothing runs of which nobody said until when."""
    seen = []
    gate = kanban.starting.open_gate

    def open_gate(launched):
        seen.append(left(shared, card))
        gate(launched)

    monkeypatch.setattr(kanban.starting, "open_gate", open_gate)
    card = shared.create()
    shared.sweep()
    assert [WHOLE < each <= 900 for each in seen] == [True]


def test_a_lease_that_cannot_be_written_lets_nothing_run(shared, monkeypatch):
    """The gate stays shut; the run is booked as interrupted, which costs the card nothing."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kanban.starting, "write_lease", full)
    card = shared.create()
    tick = shared.sweep()
    assert any("not let run: its lease could not be written: No space left" in note for note in tick.notes)
    booked = until(lambda: shared.sweep(most=0).booked)
    assert [(each["task"], each["outcome"]) for each in booked] == [(card, "interrupted")]
    assert not (shared.scratch(card) / "up").exists()


def test_a_renewal_by_the_sweep_is_told(shared, working, later):
    """§7.3: half a lease has passed: renewed, and the supervisor knows."""
    later(480)
    assert left(shared, working) < 420
    tick = shared.sweep()
    assert [each["task"] for each in tick.renewed] == [working]
    assert WHOLE < left(shared, working) <= 900


def test_the_clock_of_the_store_need_not_agree_with_this_machines(shared, working, later):
    """It is set by eight minutes: the lease is renewed, and the supervisor has a whole one by its own clock."""
    later(480, one="store")
    assert [each["task"] for each in shared.sweep().renewed] == [working]
    assert WHOLE < left(shared, working) <= 900


def test_a_renewal_that_was_not_told_is_told_by_the_next_tick(shared, working, later, monkeypatch):
    """Whoever renewed it ended before it could tell, or found the disk full; the tick itself has nothing to renew."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    later(480)
    with monkeypatch.context() as broken:
        broken.setattr(lease_file, "replace", full)
        assert [each["task"] for each in shared.board.sweep().errors] == [working]
    assert left(shared, working) < 420
    assert shared.sweep().renewed == []
    assert WHOLE < left(shared, working) <= 900


def test_a_beat_from_elsewhere_is_told_by_the_next_tick(shared, working, later, tmp_path):
    """Whoever holds the lock may beat on another machine, whose home has no such run."""
    lock = shared.lock(working)
    environ = shared.environ | {"LEDGER_HOME": str(tmp_path / "elsewhere"), "LEDGER_DATABASE_URL": shared.url}
    later(480)
    with Board.open(environ=environ, cwd=tmp_path, clock=shared.clock) as elsewhere:
        elsewhere.heartbeat(working, lock=lock)
    assert left(shared, working) < 420
    assert shared.sweep().renewed == []
    assert WHOLE < left(shared, working) <= 900


def test_a_grace_that_was_changed_is_told_by_the_next_tick(shared, working):
    """§7.4: another host counts by the policy in force: KILL must come before the end of its grace."""
    shared.board.set_policy(lease_grace=2)
    shared.sweep()
    _, term, kill, last = map(int, (shared.folder(working) / LEASE).read_text().split())
    assert (kill - term, last - term) == (1 * SECOND, 1.5 * SECOND)


def test_a_supervisor_that_knows_is_not_told_again(shared, working):
    """A tick that changes nothing writes nothing, to this file neither."""
    before = (shared.folder(working) / LEASE).stat()
    for _ in range(3):
        shared.sweep()
    after = (shared.folder(working) / LEASE).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("spoilt", [b"", b"1", b"2 0 0 0\n", b"1 a b c\n", b"\xff" * 300])
def test_a_lease_that_was_spoilt_is_written_anew(shared, working, spoilt):
    """The supervisor reads it when what it knows has run out."""
    (shared.folder(working) / LEASE).write_bytes(spoilt)
    shared.sweep()
    assert WHOLE < left(shared, working) <= 900


def slowly(monkeypatch, module):
    """Transactions of *module* that take a while once they have begun."""
    begin = module.at_desk

    @contextmanager
    def at_desk(*where, **what):
        with begin(*where, **what) as desk:
            time.sleep(0.3)
            yield desk

    monkeypatch.setattr(module, "at_desk", at_desk)


def given_until(fleet, card):
    """When the lease that the store holds is over, on this machine's clock, which here is the store's too."""
    with fleet.board.look() as desk:
        until, _ = leases.lease_of(desk.tx, "default", card, 1)
    return kanban.sweep.uptime() + until - fleet.clock()


@pytest.mark.parametrize("slow", [kanban.starting, kanban.sweep, kanban.verbs])
def test_a_file_never_says_more_than_the_store_gave(shared, later, monkeypatch, slow):
    """§7.4: this clock is read before the transaction whose clock it is compared with, however long that takes."""
    slowly(monkeypatch, slow)
    card = shared.create()
    shared.sweep()
    shared.in_scratch(card, "up")
    later(480)
    if slow is kanban.verbs:
        shared.board.heartbeat(card, lock=shared.lock(card))
    elif slow is kanban.sweep:
        assert shared.sweep().renewed
    assert read(shared.folder(card)) <= given_until(shared, card)


def test_the_file_follows_the_commit(shared, working, later, monkeypatch):
    """§7.4: a renewal that was not committed is told to nobody."""
    before = read(shared.folder(working))

    def fails(*_, **__):
        raise RuntimeError("no")

    later(480)
    monkeypatch.setattr(kanban.sweep, "keep_held", fails)
    with pytest.raises(RuntimeError):
        shared.board.sweep()
    assert read(shared.folder(working)) == before


def test_a_dry_run_tells_no_supervisor(shared, working, later):
    """§7: it changes nothing, not even a lease."""
    before = read(shared.folder(working))
    later(480)
    assert shared.sweep(dry_run=True).renewed
    assert read(shared.folder(working)) == before


def test_what_cannot_be_told_is_an_error_of_the_card(shared, working, later, monkeypatch):
    """The others go on; the exit code says so."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    later(480)
    monkeypatch.setattr(lease_file, "replace", full)
    (error,) = shared.board.sweep().errors
    assert error["task"] == working
    assert "its supervisor does not hear that its lease was renewed" in error["error"]


def test_a_beat_by_the_worker_is_told(shared, working, later):
    """§7.4: by sweep or beat."""
    later(100)
    answer = shared.board.heartbeat(working, lock=shared.lock(working))
    assert WHOLE < left(shared, working) <= 900
    assert answer.notes == ()


def test_a_beat_that_nobody_could_be_told_of_says_so(shared, working, later, monkeypatch):
    """The store has it; the supervisor ends the run all the same when what it knows is over."""

    def full(*_, **__):
        raise OSError(28, "No space left on device", "lease")

    later(100)
    monkeypatch.setattr(lease_file, "replace", full)
    answer = shared.board.heartbeat(working, lock=shared.lock(working))
    assert answer.notes == ("its supervisor does not hear of it: No space left on device: lease",)


def test_a_beat_that_is_refused_is_told_to_nobody(shared, working):
    """§8: the run has ended elsewhere; its supervisor ends what is left of it when the lease runs out."""
    lock = shared.lock(working)
    there = shared.on_host(shared.another(), id="elsewhere")
    shared.clock.advance(961)
    assert [each["outcome"] for each in there.sweep(most=0).booked] == ["lost"]
    before = read(shared.folder(working))
    with pytest.raises(LostClaim):
        shared.board.heartbeat(working, lock=lock)
    assert read(shared.folder(working)) == before


def test_a_run_that_another_host_booked_is_not_renewed(shared, working):
    """§7.3: the run has ended: its own host sees its processes and gives them no more time."""
    there = shared.on_host(shared.another(), id="elsewhere")
    shared.clock.advance(961)
    there.sweep(most=0)
    before = read(shared.folder(working))
    tick = shared.sweep(most=0)
    assert (tick.renewed, tick.booked) == ([], [])
    assert read(shared.folder(working)) == before


def test_nobody_renews_and_the_worker_ends_before_it_is_lost(shared):
    """Its host is cut off; by the time that another may start the card nothing of it is left."""
    shared.board.set_policy(lease=2, lease_grace=4)
    card = shared.create()
    shared.sweep()
    until((shared.folder(card) / "exit.json").exists)
    ended, (claimed,) = json.loads((shared.folder(card) / "exit.json").read_text()), shared.events(card, "claimed")
    assert ended["ended_at"] < claimed.facts["lease_until"] + 4 * SECOND
    tick = shared.sweep(most=0)
    assert [(each["outcome"], each["evidence"]) for each in tick.booked] == [("interrupted", "exit_record")]
    assert shared.counters(card) == (0, 0, 0, 1)


@pytest.fixture
def attended(shared, later):
    """A run that somebody waits for, and how to look after it once; its card."""
    card = shared.create()
    sweeper = shared.board.sweeper
    with hearing() as ears:
        claim = _claimed(sweeper, Ask(card), shared.board.actor, ears)
        attendant = Attendant.of(sweeper, claim, shared.board.actor)
        kanban.starting.start(sweeper.shop, [claim], attendant.children, shared.board.actor)
        shared.in_scratch(card, "up")
        yield card, lambda: attendant._is_over(ears)


def test_worker_run_tells_the_supervisor_too(shared, attended, later):
    """§7.4: whoever renews on this host."""
    card, is_over = attended
    later(310)
    assert is_over() is False
    assert WHOLE < left(shared, card) <= 900


def test_worker_run_tells_of_a_beat_from_elsewhere_too(shared, attended, later):
    """What it did not renew itself."""
    card, is_over = attended
    later(200)
    with writing(shared.board.engine) as tx:
        leases.renew(tx, "default", card, 1, until=shared.clock() + 900 * SECOND)
    assert is_over() is False
    assert WHOLE < left(shared, card) <= 900


def test_worker_run_counts_the_lease_on_its_own_clock_while_the_store_is_away(shared, attended, later, monkeypatch):
    """A wall clock that is set meanwhile ends nobody; the time that passes does."""
    card, is_over = attended
    assert is_over() is False

    def away(*_):
        raise StoreUnreachable("no answer")

    monkeypatch.setattr(attend, "looking", away)
    later(10_000, one="store")
    assert is_over() is False
    assert len(shared.members(card)) == 2
    later(901, one="machine")
    until(is_over)
    assert shared.members(card) == []
