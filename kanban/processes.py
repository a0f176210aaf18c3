"""Which processes live, and which of them are a run's: seen in one pass, signalled only when verified (RULES §6)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kanban.hosts import Host

if TYPE_CHECKING:  # a worker that looks at itself loads no fold
    from projections.run import Binding

_HAS_PROC: Final = Path("/proc/self/stat").exists()
_DEAD: Final = frozenset({b"Z", b"X", b"x"})
_STATE, _PARENT, _GROUP, _SESSION, _THREADS, _START = 0, 1, 2, 3, 17, 19  # fields of /proc/<pid>/stat after the name
_TICKS: Final = 100
_OURS: Final = b"LEDGER_"


class Presence(StrEnum):
    """What this machine can say of a bound process."""

    ALIVE = "alive"  # it lives, under exactly this identity
    GONE = "gone"  # dead, a zombie, or its pid belongs to a later process
    REBOOTED = "rebooted"  # this machine has been started since
    UNKNOWN = "unknown"  # another machine's or another pid namespace's: left to the lease, never signalled


_UNVERIFIED: Final = frozenset({Presence.UNKNOWN, Presence.REBOOTED})


class Process(NamedTuple):
    """One process as it was seen: *start_tick* counts from the start of the machine."""

    pid: int
    group: int
    session: int
    start_tick: int
    dead: bool
    parent: int = 0


@dataclass(frozen=True)
class ProcessTable:
    """Processes of this machine, by pid, as one pass saw them."""

    processes: Mapping[int, Process]

    @classmethod
    def snapshot(cls, pids: Iterable[int] | None = None) -> Self:
        """See every process now, or *pids* alone; one that ends meanwhile is left out."""
        seen = (_look(pid) for pid in (_pids() if pids is None else pids))
        return cls({process.pid: process for process in seen if process is not None})

    @classmethod
    def in_groups(cls) -> Self:
        """See every process that can have been started for a run: supervisors begin groups."""
        return cls.snapshot(filter(_has_group, _pids()))

    @classmethod
    def for_groups(cls, bindings: Iterable[Binding], host: Host) -> Self:
        """See as much as `members` needs to tell whether anybody of each of these groups lives.

        The bound processes, and every other one only where some of these are gone: a group may outlive its leader.
        """
        bound = list(bindings)
        table = cls.snapshot(binding.pid for binding in bound)
        return cls.snapshot() if any(table.must_look_further(binding, host) for binding in bound) else table

    def identify(self, binding: Binding, host: Host) -> Presence:
        """Whether the bound process lives on *host*, which must be this machine (RULES §6)."""
        if binding.host != host.id:
            return Presence.UNKNOWN
        if binding.boot != host.boot:
            return Presence.REBOOTED
        if binding.namespace != host.namespace:
            return Presence.UNKNOWN
        return Presence.ALIVE if self._lives(binding) else Presence.GONE

    def members(self, binding: Binding, host: Host) -> tuple[int, ...]:
        """The live pids of the bound group, its dead leader not needed; of group 0 the bound pid alone.

        Empty whenever the group cannot be verified: another machine, another boot, a reused leader's pid.
        """
        return self.sight(binding, host)[1]

    def sight(self, binding: Binding, host: Host) -> tuple[Presence, tuple[int, ...]]:
        """`identify` and `members` at once."""
        presence = self.identify(binding, host)
        if presence in _UNVERIFIED or self._reused(binding):
            return presence, ()
        if binding.group == 0:
            return presence, (binding.pid,) if presence is Presence.ALIVE else ()
        led = self._groups.get(binding.group, ())
        return presence, tuple(process.pid for process in led if process.start_tick >= binding.start_tick)

    def must_look_further(self, binding: Binding, host: Host) -> bool:
        """Whether the group may live on in processes that are not in this table."""
        presence, members = self.sight(binding, host)
        if members or presence in _UNVERIFIED:
            return False
        return binding.group != 0 and not self._reused(binding) and _has_any(binding.group)

    @staticmethod
    def signal(binding: Binding, host: Host, signum: int) -> bool:
        """Send *signum* to the bound group (group 0: to the pid); False when nothing could get it. Never stale:

        the identity is taken from a snapshot of its own, not from the one that the caller decided on.
        """
        if not ProcessTable.for_groups((binding,), host).members(binding, host):
            return False
        try:
            _send(binding, signum)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def escaped(
        self, board: str, groups: Mapping[tuple[str, int], int], *, since: int = 0
    ) -> dict[tuple[str, int], tuple[int, ...]]:
        """Live pids that carry a run's environment but left its group: for naming, never for signals (RULES §7.7).

        *groups*: card and number of each run of *board* to look for, and its group. *since*: the start tick of the
        first of them, for what is older than all of them is of none. Every other environment is read once.
        Best effort: a process may have cleaned its environment, and another user's cannot be read.
        """
        wanted = {(board.encode(), task.encode(), str(run).encode()): (task, run) for task, run in groups}
        found: dict[tuple[str, int], tuple[int, ...]] = {}
        for process in self.processes.values():
            if process.dead or process.start_tick < since:
                continue
            run = wanted.get(_claim(_environment(process.pid)))
            if run is not None and not process.group == process.session == groups[run]:
                found[run] = (*found.get(run, ()), process.pid)
        return found

    @cached_property
    def _groups(self) -> Mapping[int, tuple[Process, ...]]:
        """The live processes of each group that is a session of its own, as those of runs are."""
        found: dict[int, tuple[Process, ...]] = {}
        for process in self.processes.values():
            if process.group == process.session and not process.dead:
                found[process.group] = (*found.get(process.group, ()), process)
        return found

    def _lives(self, binding: Binding) -> bool:
        process = self.processes.get(binding.pid)
        return process is not None and not process.dead and process.start_tick == binding.start_tick

    def _reused(self, binding: Binding) -> bool:
        """Whether the group's number may be another's now: a pid is not given again while a group bears its number."""
        process = self.processes.get(binding.pid)
        if process is None:
            return binding.group not in {0, binding.pid}
        return process.start_tick != binding.start_tick


def start_tick(pid: int) -> int | None:
    """When *pid* started, in clock ticks since the machine did; None when it is gone or a zombie."""
    process = _look(pid)
    return None if process is None or process.dead else process.start_tick


def lineage(pid: int) -> dict[int, Process]:
    """*pid* and what it descends from, the nearest first, as far as these live."""
    found: dict[int, Process] = {}
    while pid not in found and (process := _look(pid)) is not None:
        found[pid] = process
        pid = process.parent
    return found


def _has_any(group: int) -> bool:
    """Whether anybody, be it a zombie, is in *group*: one question instead of a look at every process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody who is not ours, or nothing that can be asked
        return True
    return True


def _send(binding: Binding, signum: int) -> None:
    if binding.group == 0:
        os.kill(binding.pid, signum)
    else:
        os.killpg(binding.group, signum)


def _claim(environment: Iterable[bytes]) -> tuple[bytes, bytes, bytes]:
    """Board, card and run that an environment names; empty where it does not."""
    named = dict(entry.partition(b"=")[::2] for entry in environment if entry.startswith(_OURS))
    return named.get(b"LEDGER_BOARD", b""), named.get(b"LEDGER_TASK", b""), named.get(b"LEDGER_RUN", b"")


def _environment(pid: int) -> set[bytes]:
    """What *pid* was started with; empty when it cannot be read, and where none of it is of a board."""
    if not _HAS_PROC:
        return _environment_elsewhere(pid)
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 – a path costs more than the read
            said = file.read()
    except OSError:
        return set()
    return set(said.split(b"\0")) if _OURS in said else set()


def _pids() -> Iterable[int]:
    if not _HAS_PROC:
        return _pids_elsewhere()
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 – names only, at half the cost


def _has_group(pid: int) -> bool:
    """Whether *pid* is in a group of this namespace: what the kernel runs for itself, often half of all, is in none."""
    try:
        return os.getpgid(pid) != 0
    except OSError:
        return False


def _look(pid: int) -> Process | None:
    if not _HAS_PROC:
        return _look_elsewhere(pid)
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _parsed(pid, os.read(descriptor, 4096))
    except OSError:  # it ended between open and read
        return None
    finally:
        os.close(descriptor)


def _parsed(pid: int, stat: bytes) -> Process:
    """The name may hold spaces and parentheses: what counts comes after the last of them."""
    fields = stat[stat.rindex(b")") + 2 :].split(None, _START + 1)
    # A first thread that ended before the others looks like a zombie, but the process lives.
    dead = fields[_STATE] in _DEAD and int(fields[_THREADS]) <= 1
    group, session, start, parent = (int(fields[place]) for place in (_GROUP, _SESSION, _START, _PARENT))
    return Process(pid, group, session, start, dead, parent)


def _pids_elsewhere() -> Iterable[int]:
    import psutil

    return tuple(psutil.pids())


def _look_elsewhere(pid: int) -> Process | None:
    import psutil

    try:
        process = psutil.Process(pid)
        dead, tick = process.status() == psutil.STATUS_ZOMBIE, int(process.create_time() * _TICKS)
        return Process(pid, os.getpgid(pid), os.getsid(pid), tick, dead, process.ppid())
    except (psutil.Error, OSError):
        return None


def _environment_elsewhere(pid: int) -> set[bytes]:
    import psutil

    try:
        return {f"{name}={value}".encode() for name, value in psutil.Process(pid).environ().items()}
    except (psutil.Error, OSError):
        return set()
