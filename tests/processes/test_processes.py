"""Which processes live and which of them are a run's, shown on real ones (RULES §6, §7.7)."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kanban import processes
from kanban.hosts import Host
from kanban.processes import Presence, ProcessTable, start_tick
from projections.run import Binding
from tests.fleets import PATIENCE, until

HERE = Host(id="h1", name="here", boot="b1", namespace="pid:[1]")
BOARD = f"b{os.getpid()}"  # no other's: the whole machine is looked at
RUN = {"LEDGER_BOARD": BOARD, "LEDGER_TASK": "t_1", "LEDGER_RUN": "3"}
THREAD_EXIT = {"x86_64": 60, "aarch64": 93}


@pytest.fixture
def start():
    """Start a command in a session and group of its own; the groups and sessions that it leaves are killed."""
    born = []

    def start(*command, **options):
        process = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.PIPE, text=True, **{"env": None, **options}
        )
        born.append(process)
        return process

    yield start
    for process in born:
        for other in ProcessTable.snapshot().processes.values():
            if process.pid in {other.group, other.session}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(other.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def bound(process, **changes):
    """The binding of a process as it lives now, on HERE."""
    pid = process.pid
    return Binding(pid, start_tick(pid) or 0, pid, HERE.id, HERE.boot, HERE.namespace)._replace(**changes)


def presence(binding, host=HERE):
    return ProcessTable.snapshot().identify(binding, host)


def members(binding, host=HERE):
    return ProcessTable.snapshot().members(binding, host)


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def is_zombie(pid):
    return until(lambda: ProcessTable.snapshot().processes[pid].dead)


def test_a_bound_process_that_lives_is_alive(start):
    """RULES §6: identity is host id, boot id, pid namespace, pid and start tick."""
    sleeper = start("sleep", "60")
    binding = bound(sleeper)
    assert presence(binding) is Presence.ALIVE
    assert members(binding) == (sleeper.pid,)


def test_a_process_that_was_buried_is_gone(start):
    """RULES §6: pid gone, process gone."""
    sleeper = start("sleep", "60")
    binding = bound(sleeper)
    sleeper.kill()
    sleeper.wait(timeout=PATIENCE)
    assert presence(binding) is Presence.GONE
    assert members(binding) == ()
    assert start_tick(sleeper.pid) is None


def test_a_zombie_is_dead(start):
    """RULES §6: zombies are dead."""
    sleeper = start("sleep", "60")
    binding = bound(sleeper)
    sleeper.kill()
    assert is_zombie(sleeper.pid)
    assert presence(binding) is Presence.GONE
    assert members(binding) == ()
    assert start_tick(sleeper.pid) is None
    assert not ProcessTable.signal(binding, HERE, signal.SIGTERM)


@pytest.mark.skipif(os.uname().machine not in THREAD_EXIT, reason="the number of a system call")
def test_a_process_whose_first_thread_ended_still_lives(start):
    """RULES §6: such a process looks like a zombie, but works on: booking it would allow two live runs."""
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        f"ctypes.CDLL(None).syscall({THREAD_EXIT[os.uname().machine]}, 0)\n"
    )
    process = start(sys.executable, "-I", "-S", "-c", script)
    binding = bound(process)
    until(lambda: b") Z " in Path(f"/proc/{process.pid}/stat").read_bytes())
    assert presence(binding) is Presence.ALIVE


def test_a_reused_pid_is_not_the_worker(start):
    """RULES §6: the same pid with another start tick is another process, and its group another's."""
    sleeper = start("sleep", "60")
    binding = bound(sleeper, start_tick=start_tick(sleeper.pid) - 1)
    assert presence(binding) is Presence.GONE
    assert members(binding) == ()
    assert not ProcessTable.signal(binding, HERE, signal.SIGKILL)
    assert sleeper.poll() is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"boot": "b0"}, Presence.REBOOTED),
        ({"boot": "b0", "namespace": "pid:[2]"}, Presence.REBOOTED),
        ({"namespace": "pid:[2]"}, Presence.UNKNOWN),
        ({"host": "h2"}, Presence.UNKNOWN),
        ({"host": "h2", "boot": "b0"}, Presence.UNKNOWN),
    ],
)
@pytest.mark.parametrize("by_hand", [False, True])
def test_what_cannot_be_checked_is_never_signalled(start, changes, said, by_hand):
    """RULES §6: another boot ended it, another host or namespace is left to the lease; neither is signalled."""
    sleeper = start("sleep", "60")
    binding = bound(sleeper, **changes, **({"group": 0} if by_hand else {}))
    assert presence(binding) is said
    assert members(binding) == ()
    assert not ProcessTable.signal(binding, HERE, signal.SIGKILL)
    assert presence(bound(sleeper)) is Presence.ALIVE


@pytest.mark.parametrize("name", ["a) R 1 1 (b", "a b", ") Z 0 0 0"])
def test_a_name_cannot_forge_the_start_tick(start, tmp_path, name):
    """RULES §6: a worker chooses its own name; parentheses and spaces in it are not fields."""
    program = shutil.copy(shutil.which("sleep"), tmp_path / name)
    plain, named = start("sleep", "60"), start(program, "60")
    until(lambda: name_of(named.pid) == name)
    assert 0 <= start_tick(named.pid) - start_tick(plain.pid) < 1000
    assert members(bound(named)) == (named.pid,)


def test_the_start_tick_counts_from_boot(start):
    """RULES §6: the start tick is monotonic: a clock that is set does not make a worker another."""
    sleeper = start("sleep", "60")
    since_boot = float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK")
    assert since_boot - 1000 < start_tick(sleeper.pid) < since_boot + 2


def test_a_group_outlives_its_leader(start):
    """RULES §6: a spawned run has ended when its group is empty, not when its supervisor is gone."""
    leader = start("sh", "-c", "sleep 60 & echo $!; read x", stdin=subprocess.PIPE)
    child = int(leader.stdout.readline())
    binding = bound(leader)
    assert set(members(binding)) == {leader.pid, child}
    leader.kill()
    assert is_zombie(leader.pid)
    assert members(binding) == (child,)
    leader.wait(timeout=PATIENCE)
    assert presence(binding) is Presence.GONE
    assert members(binding) == (child,)
    assert ProcessTable.signal(binding, HERE, signal.SIGKILL)
    until(lambda: members(binding) == ())
    assert not ProcessTable.signal(binding, HERE, signal.SIGKILL)


def test_a_group_older_than_the_binding_is_another(start):
    """RULES §6: no process of a group can be older than the leader that made it."""
    leader = start("sh", "-c", "sleep 60 & echo $!")
    child = int(leader.stdout.readline())
    leader.wait(timeout=PATIENCE)
    binding = bound(leader, start_tick=start_tick(child) + 1)
    assert members(binding) == ()
    assert members(binding._replace(start_tick=start_tick(child))) == (child,)


def test_a_group_within_another_session_is_not_the_runs(start):
    """DESIGN §4: the supervisor leads session and group; a shell's job in a foreign session is not a run's group."""
    job = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(60)"
    shell = start("sh", "-c", f"{sys.executable} -I -S -c '{job}' & wait")
    pid = int(shell.stdout.readline())
    binding = bound(shell)._replace(pid=pid, start_tick=start_tick(pid), group=pid)
    assert presence(binding) is Presence.ALIVE
    assert members(binding) == ()


def test_a_group_led_by_another_counts_only_while_the_bound_pid_lives(start):
    """RULES §6: without its leader's identity nothing shows that a group's number was not given again."""
    leader = start("sh", "-c", "sleep 60 & echo $!; sleep 60 & echo $!; read x", stdin=subprocess.PIPE)
    child, other = int(leader.stdout.readline()), int(leader.stdout.readline())
    binding = bound(leader)._replace(pid=child, start_tick=start_tick(child))
    assert {child, other} <= set(members(binding))
    os.kill(child, signal.SIGKILL)
    leader.kill()  # else it might keep the child as a zombie, which still bears its number
    until(lambda: child not in ProcessTable.snapshot().processes)
    assert start_tick(other) is not None
    assert members(binding) == ()


def test_by_hand_only_the_pid_is_the_run(start):
    """RULES §6: a run claimed by hand with --pid: only a stop signals it, and only the pid."""
    leader = start("sh", "-c", "sleep 60 & echo $!; read x; exit 0", stdin=subprocess.PIPE)
    child = int(leader.stdout.readline())
    binding = bound(leader, group=0)
    assert members(binding) == (leader.pid,)
    assert ProcessTable.signal(binding, HERE, signal.SIGKILL)
    leader.wait(timeout=PATIENCE)
    assert members(binding) == ()
    assert not ProcessTable.signal(binding, HERE, signal.SIGKILL)
    assert start_tick(child) is not None


def test_a_signal_identifies_afresh(start):
    """RULES §6: what a snapshot saw alive may be another by the time of the signal."""
    sleeper = start("sleep", "60")
    binding, seen = bound(sleeper), ProcessTable.snapshot()
    sleeper.kill()
    sleeper.wait(timeout=PATIENCE)
    assert seen.identify(binding, HERE) is Presence.ALIVE
    assert not seen.signal(binding, HERE, signal.SIGTERM)


def test_a_signal_reaches_the_whole_group(start):
    """RULES §6, §7.2: TERM goes to the group."""
    leader = start("sh", "-c", "sleep 60 & echo $!; wait")
    leader.stdout.readline()
    binding = bound(leader)
    assert ProcessTable.signal(binding, HERE, signal.SIGTERM)
    assert leader.wait(timeout=PATIENCE) == -signal.SIGTERM
    until(lambda: members(binding) == ())


@pytest.mark.parametrize("refusal", [ProcessLookupError, PermissionError])
def test_a_signal_that_is_refused_is_no_error(start, monkeypatch, refusal):
    """RULES §7: a process that ends in that moment, or is not ours to signal, is no fault of the tick."""

    def refuse(*_):
        raise refusal

    monkeypatch.setattr(processes.os, "killpg", refuse)
    assert not ProcessTable.signal(bound(start("sleep", "60")), HERE, signal.SIGTERM)


def test_a_member_that_left_the_group_is_named_and_spared(start):
    """RULES §7.7: members that left the group are named in the tick's output, never signalled."""
    script = "setsid sleep 60 & echo $!; sleep 60 & echo $!; read x"
    leader = start("sh", "-c", script, env={**os.environ, **RUN}, stdin=subprocess.PIPE)
    left, stayed = int(leader.stdout.readline()), int(leader.stdout.readline())
    binding = bound(leader)
    try:
        until(lambda: left not in members(binding) and {name_of(left), name_of(stayed)} == {"sleep"})
        seen = ProcessTable.snapshot()
        assert stayed in seen.members(binding, HERE)
        wanted = {("t_0", 3): 1, ("t_1", 3): binding.group, ("t_1", 33): 1, ("t_11", 3): 1}
        assert seen.escaped(BOARD, wanted) == {("t_1", 3): (left,)}
        assert set(seen.escaped(BOARD, {("t_1", 3): 0})["t_1", 3]) == {leader.pid, left, stayed}
        assert seen.escaped(f"{BOARD}0", wanted) == {}
        assert ProcessTable.signal(binding, HERE, signal.SIGKILL)
        leader.wait(timeout=PATIENCE)
        assert start_tick(left) is not None
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_process_that_ends_during_the_pass_is_left_out(monkeypatch):
    """RULES §7: one pass over processes that come and go raises nothing."""
    monkeypatch.setattr(processes, "_pids", lambda: [os.getpid(), 2**22 + 1])
    assert list(ProcessTable.snapshot().processes) == [os.getpid()]


def test_who_escaped_is_told_from_one_look_at_each_environment(start, monkeypatch):
    """DESIGN §8: fifty deaths in a tick read no environment fifty times."""
    leader = start("sleep", "60", env={**os.environ, **RUN})
    until(lambda: name_of(leader.pid) == "sleep")
    read, look = [], processes._environment
    monkeypatch.setattr(processes, "_environment", lambda pid: read.append(pid) or look(pid))
    wanted = {("t_1", 3): 0, **{(f"t_{number}", 1): 0 for number in range(2, 50)}}
    assert ProcessTable.snapshot().escaped(BOARD, wanted) == {("t_1", 3): (leader.pid,)}
    assert len(read) == len(set(read))


def test_no_environment_is_read_that_is_older_than_every_run(start, monkeypatch):
    """RULES §7.7: what carries a run's environment was started by it: what is older than it is passed over."""
    leader = start("sleep", "60", env={**os.environ, **RUN})
    until(lambda: name_of(leader.pid) == "sleep")
    read, look = set(), processes._environment
    monkeypatch.setattr(processes, "_environment", lambda pid: read.add(pid) or look(pid))
    seen, tick = ProcessTable.snapshot(), start_tick(leader.pid)
    assert seen.escaped(BOARD, {("t_1", 3): 0}, since=tick) == {("t_1", 3): (leader.pid,)}
    assert 1 not in read
    assert seen.escaped(BOARD, {("t_1", 3): 0}, since=tick + 1) == {}


def test_while_every_leader_lives_nobody_else_is_looked_at(start, monkeypatch):
    """DESIGN §8: a tick on which nothing happens reads what is bound, not all of `/proc`."""
    leaders = [start("sleep", "60") for _ in range(3)]
    bindings = [bound(leader) for leader in leaders]
    monkeypatch.setattr(processes, "_pids", lambda: pytest.fail("all of /proc was read"))
    table = ProcessTable.for_groups(bindings, HERE)
    assert [table.members(binding, HERE) for binding in bindings] == [(leader.pid,) for leader in leaders]


@pytest.mark.parametrize(
    "changes",
    [{"group": 0}, {"boot": "earlier"}, {"namespace": "pid:[another]"}, {"host": "another"}, {"start_tick": 1}],
    ids=str,
)
def test_what_no_other_process_can_belong_to_is_not_looked_for(start, monkeypatch, changes):
    """RULES §6: by hand the pid alone is the run; a group that cannot be verified has no members."""
    leader = start("sleep", "60")
    binding = bound(leader, **changes)
    if changes == {"group": 0}:
        leader.kill()
        leader.wait()
    everybody = members(binding)
    monkeypatch.setattr(processes, "_pids", lambda: pytest.fail("all of /proc was read"))
    assert ProcessTable.for_groups([binding], HERE).members(binding, HERE) == everybody == ()


def test_a_group_is_looked_for_once_its_leader_is_gone(start):
    """RULES §6: a spawned run has ended when its process group is empty, whoever leads it."""
    leader = start("sh", "-c", "sleep 60 & echo $!; read x", stdin=subprocess.PIPE)
    child = int(leader.stdout.readline())
    binding, other = bound(leader), bound(start("sleep", "60"))
    leader.kill()
    leader.wait()
    table = ProcessTable.for_groups([other, binding], HERE)
    assert (table.members(binding, HERE), table.members(other, HERE)) == ((child,), (other.pid,))


def test_a_group_in_which_nobody_is_left_is_not_looked_for(start, monkeypatch):
    """DESIGN §8: the machine says at once that fifty dead workers left nobody: not all of `/proc` is read for them."""
    leaders = [start("sleep", "60") for _ in range(3)]
    bindings = [bound(leader) for leader in leaders]
    for leader in leaders:
        leader.kill()
        leader.wait()
    monkeypatch.setattr(processes, "_pids", lambda: pytest.fail("all of /proc was read"))
    table = ProcessTable.for_groups(bindings, HERE)
    assert [table.sight(binding, HERE) for binding in bindings] == [(Presence.GONE, ())] * 3


def test_a_group_that_cannot_be_asked_for_is_looked_for(start, monkeypatch):
    """RULES §6: a machine that does not tell whether somebody is in a group has not said that it is empty."""
    leader = start("sh", "-c", "sleep 60 & echo $!; read x", stdin=subprocess.PIPE)
    child, binding = int(leader.stdout.readline()), bound(leader)
    leader.kill()
    leader.wait()

    def forbidden(_group, _signum):
        raise PermissionError

    monkeypatch.setattr(os, "killpg", forbidden)
    assert ProcessTable.for_groups([binding], HERE).members(binding, HERE) == (child,)


def test_what_the_machine_runs_for_itself_is_no_runs(start):
    """RULES §7.7: whoever may have escaped is in a group, as all are that a supervisor started."""
    leader = start("sleep", "60")
    seen = ProcessTable.in_groups().processes
    assert {leader.pid, os.getpid()} <= seen.keys()
    assert 0 not in {process.group for process in seen.values()}


def test_a_snapshot_is_one_cheap_pass(start):
    """DESIGN §8: a sweep costs what is live: 300 processes are seen in less than 15 ms."""
    for _ in range(40):
        start("sleep", "60")

    def once():
        began = time.thread_time()
        return len(ProcessTable.snapshot().processes), time.thread_time() - began

    assert min(seconds / count for count, seconds in (once() for _ in range(20))) * 300 < 0.015


def test_without_proc_psutil_says_the_same(start, monkeypatch):
    """DESIGN §7: macOS as far as psutil tells: groups, sessions and zombies are the same, ticks its own."""
    leader = start("sh", "-c", "sleep 60 & echo $!; read x", env={**os.environ, **RUN}, stdin=subprocess.PIPE)
    child = int(leader.stdout.readline())
    until(lambda: name_of(child) == "sleep")
    monkeypatch.setattr(processes, "_HAS_PROC", False)
    binding = bound(leader)
    assert presence(binding) is Presence.ALIVE
    assert set(members(binding)) == {leader.pid, child}
    assert set(ProcessTable.snapshot().escaped(BOARD, {("t_1", 3): 0})["t_1", 3]) == {leader.pid, child}
    leader.kill()
    assert is_zombie(leader.pid)
    assert presence(binding) is Presence.GONE
    assert start_tick(2**22 + 1) is None


def test_the_environment_of_the_dead_is_empty():
    """RULES §7.7: naming is best effort."""
    assert processes._environment(2**22 + 1) == set()
    assert processes._environment_elsewhere(2**22 + 1) == set()
