"""Which processes live, and which of them are a run's: seen in one pass, signalled only when verified (RULES §6)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Self

from kanban.hosts import Host
from projections.run import Binding

_PROC: Final = Path("/proc")
_HAS_PROC: Final = Path("/proc/self/stat").exists()
_DEAD: Final = frozenset({b"Z", b"X", b"x"})
_STATE, _GROUP, _SESSION, _THREADS, _START = 0, 2, 3, 17, 19  # fields of /proc/<pid>/stat after the name
_TICKS: Final = 100


class Presence(StrEnum):
    """What this machine can say of a bound process."""

    ALIVE = "alive"  # it lives, under exactly this identity
    GONE = "gone"  # dead, a zombie, or its pid belongs to a later process
    REBOOTED = "rebooted"  # this machine has been started since
    UNKNOWN = "unknown"  # another machine's or another pid namespace's: left to the lease, never signalled


class Process(NamedTuple):
    """One process as it was seen: *start_tick* counts from the start of the machine."""

    pid: int
    group: int
    session: int
    start_tick: int
    dead: bool


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """All processes of this machine, by pid, as one pass saw them."""

    processes: Mapping[int, Process]

    @classmethod
    def snapshot(cls) -> Self:
        """See every process now; one that ends meanwhile is left out."""
        seen = (_look(pid) for pid in _pids())
        return cls({process.pid: process for process in seen if process is not None})

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
        presence = self.identify(binding, host)
        if presence in {Presence.UNKNOWN, Presence.REBOOTED} or self._reused(binding):
            return ()
        if binding.group == 0:
            return (binding.pid,) if presence is Presence.ALIVE else ()
        return tuple(process.pid for process in self.processes.values() if _belongs(process, binding))

    @staticmethod
    def signal(binding: Binding, host: Host, signum: int) -> bool:
        """Send *signum* to the bound group (group 0: to the pid); False when nothing could get it. Never stale:

        the identity is taken from a snapshot of its own, not from the one that the caller decided on.
        """
        if not ProcessTable.snapshot().members(binding, host):
            return False
        try:
            _send(binding, signum)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def escaped(self, board: str, task: str, run: int, *, group: int = 0) -> tuple[int, ...]:
        """Live pids that carry the run's environment but left its *group*: for naming, never for signals (RULES §7.7).

        Best effort: a process may have cleaned its environment, and another user's cannot be read.
        """
        wanted = {f"LEDGER_{name}={value}".encode() for name, value in _names(board, task, run)}
        live = (process for process in self.processes.values() if not process.dead)
        outside = (process.pid for process in live if not process.group == process.session == group)
        return tuple(pid for pid in outside if wanted <= _environment(pid))

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


def _send(binding: Binding, signum: int) -> None:
    if binding.group == 0:
        os.kill(binding.pid, signum)
    else:
        os.killpg(binding.group, signum)


def _belongs(process: Process, binding: Binding) -> bool:
    in_group = process.group == process.session == binding.group
    return in_group and not process.dead and process.start_tick >= binding.start_tick


def _names(board: str, task: str, run: int) -> Iterable[tuple[str, str]]:
    return (("BOARD", board), ("TASK", task), ("RUN", str(run)))


def _environment(pid: int) -> set[bytes]:
    """What *pid* was started with; empty when it cannot be read."""
    if not _HAS_PROC:
        return _environment_elsewhere(pid)
    try:
        return set((_PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def _pids() -> Iterable[int]:
    if not _HAS_PROC:
        return _pids_elsewhere()
    return (int(name) for name in os.listdir(_PROC) if name.isdecimal())  # noqa: PTH208 – names only, at half the cost


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
    fields = stat[stat.rindex(b")") + 2 :].split()
    # A first thread that ended before the others looks like a zombie, but the process lives.
    dead = fields[_STATE] in _DEAD and int(fields[_THREADS]) <= 1
    return Process(pid, int(fields[_GROUP]), int(fields[_SESSION]), int(fields[_START]), dead)


def _pids_elsewhere() -> Iterable[int]:
    import psutil

    return tuple(psutil.pids())


def _look_elsewhere(pid: int) -> Process | None:
    import psutil

    try:
        process = psutil.Process(pid)
        dead, tick = process.status() == psutil.STATUS_ZOMBIE, int(process.create_time() * _TICKS)
        return Process(pid, os.getpgid(pid), os.getsid(pid), tick, dead)
    except (psutil.Error, OSError):
        return None


def _environment_elsewhere(pid: int) -> set[bytes]:
    import psutil

    try:
        return {f"{name}={value}".encode() for name, value in psutil.Process(pid).environ().items()}
    except (psutil.Error, OSError):
        return set()
