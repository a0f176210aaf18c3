"""Machines made of air: hosts whose processes, gates and signals are values, under the real tables and evidence files.

Only what touches the kernel is replaced: reading `/proc`, `kill`, spawning and the gate's pipe. What a supervisor would
leave on disk is written where it would write it, so observing, booking and signalling are the program's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, Final
from unittest import mock

from kanban import processes, spawn, starting
from kanban.evidence import Owned
from kanban.folders import EXIT_RECORD, LOG, OWNER_RESULT
from kanban.hosts import Host
from kanban.processes import Process
from kanban.spawn import Launched, Order, SpawnFailed
from kanban.worker.admitting import binding_of
from projections.run import Binding

Key = tuple[str, int]
"""A run: its card and its number."""
FIRST_PID: Final = 5_000_000  # above what Linux hands out, so no slip can hit a process that is there


@dataclass
class Proc:
    """A process. *role*: `supervisor`, `worker`, `hand` (somebody's own, bound by `--pid`) or `stranger`."""

    pid: int
    group: int
    tick: int
    role: str
    run: Key | None = None
    folder: Path | None = None
    stubborn: bool = False
    dead: bool = False


@dataclass(frozen=True)
class Death:
    """What the first witness of a run's end says; *witness* false: nobody bears any."""

    code: int | None = None
    signal: int | None = None
    witness: bool = True
    quota: bool = False


@dataclass
class Signalled:
    """A signal as it was sent: whether a supervisor lived then, and whose processes got it."""

    binding: Key
    signum: int
    supervised: bool
    hit: set[Key | None]


@dataclass
class Air:
    """Every machine of a test. *here* is the one that the program runs on at the moment."""

    here: str = "h1"
    procs: dict[str, dict[int, Proc]] = field(default_factory=lambda: {"h1": {}, "h2": {}})
    boots: dict[str, int] = field(default_factory=lambda: {"h1": 1, "h2": 1})
    gates: dict[int, Proc] = field(default_factory=dict)
    closing: list[Proc] = field(default_factory=list)
    deaths: dict[Key, Death] = field(default_factory=dict)
    signals: list[Signalled] = field(default_factory=list)
    locks: dict[Key, str] = field(default_factory=dict)
    ran: set[Key] = field(default_factory=set)
    counted: int = 0
    failing: int = 0
    """How many of the next launches fail."""
    slow: bool = False
    """Whether supervisors take their time to notice that their gate closed."""
    stubborn: bool = False
    """Whether new workers ignore TERM."""

    def host(self, name: str) -> Host:
        """That machine since its last start."""
        return Host(name, name, f"{name}-boot-{self.boots[name]}", f"pid:{name}")

    def patched(self) -> ExitStack:
        """The kernel replaced, until the stack is closed."""
        stack = ExitStack()
        fakes = {
            processes: {"_HAS_PROC": True, "_pids": self._pids, "_look": self._look, "_environment": self._environment,
                        "_has_any": self._has_any, "_has_group": bool, "_send": self._send},
            spawn: {"_has_ended": self._has_ended},
            starting: {"launch": self._launch, "open_gate": self._open_gate, "close_gate": self._close_gate},
        }  # fmt: skip
        for module, names in fakes.items():
            for name, fake in names.items():
                stack.enter_context(mock.patch.object(module, name, fake))
        return stack

    # What a test does and sees

    def live(self, key: Key, host: str | None = None) -> list[Proc]:
        """The run's live processes, in its group or out of it."""
        hosts = self.procs if host is None else [host]
        return [p for name in hosts for p in self.procs[name].values() if p.run == key and not p.dead]

    def group(self, key: Key, host: str | None = None) -> list[Proc]:
        """The live processes that have not left the run's group."""
        return [p for p in self.live(key, host) if p.role != "stranger" and p.group == self._leader(p)]

    def working(self) -> Iterator[tuple[str, Key]]:
        """(host, run) of every group in which a command is at work."""
        for host, table in self.procs.items():
            for run in {p.run for p in table.values() if p.role == "worker" and not p.dead and p.run is not None}:
                if any(p.role == "worker" for p in self.group(run, host)):
                    yield host, run

    def hand(self, host: str) -> Proc:
        """A process of somebody's own on *host*."""
        return self._born(host, "hand")

    def ends(self, key: Key, death: Death, how: str = "record", owned: Owned | None = None) -> None:
        """The command ends, and with it the group. *how* the world learns of it: record, owner, trailer, none, …

        *owned*: the owner that took the run's turns; where none did, an owner's result is somebody's fancy.
        """
        group = self.group(key)
        folders = [p.folder for p in group if p.folder is not None]
        if not any(p.role == "supervisor" for p in group):
            how = "none"
        for proc in group:
            proc.dead = True
        if folders:
            self.deaths[key] = self._written(folders[0], key, death, how, owned)

    def owner(self, host: str) -> Binding:
        """A process on *host* that takes turns: it leads no run's group, and no signal is for it."""
        proc, here = self._born(host, "stranger"), self.host(host)
        return binding_of(here, proc.pid, proc.tick)

    def supervisor_killed(self, key: Key) -> None:
        """Somebody kills the supervisor; its command works on, and nobody will write a record."""
        for proc in self.group(key):
            proc.dead = proc.dead or proc.role == "supervisor"

    def escapes(self, key: Key) -> None:
        """A child of the command leaves the group."""
        for proc in [p for p in self.group(key) if p.role == "worker"][:1]:
            host = next(name for name, table in self.procs.items() if proc in table.values())
            child = self._born(host, "escaped", run=key)
            child.group = child.pid

    def gates_close(self) -> None:
        """The sweep that held them is dead: every gate closes unopened."""
        for gate in list(self.gates):
            self._close_gate(Launched(0, 0, gate))

    def notices(self) -> None:
        """Slow supervisors notice their closed gate."""
        for proc in self.closing:
            self._runs_nothing(proc)
        self.closing.clear()

    def reboots(self, host: str) -> None:
        """The machine starts again: its processes are gone, its pids are given anew."""
        gone = set(map(id, self.procs[host].values()))
        self.gates = {gate: proc for gate, proc in self.gates.items() if id(proc) not in gone}
        self.closing = [proc for proc in self.closing if id(proc) not in gone]
        self.procs[host].clear()
        self.boots[host] += 1

    def reuses_a_pid(self, host: str) -> bool:
        """The kernel gives the pid of a dead process whose group is empty to a stranger; whether there was one."""
        taken = {p.group for p in self.procs[host].values() if not p.dead}
        for proc in self.procs[host].values():
            if proc.dead and proc.pid not in taken:
                self.counted += 1
                self.procs[host][proc.pid] = Proc(proc.pid, proc.pid, self.counted, "stranger")
                return True
        return False

    # The kernel

    def _born(self, host: str, role: str, **fields: Any) -> Proc:
        self.counted += 1
        pid = FIRST_PID + self.counted
        proc = Proc(pid, fields.pop("group", pid), self.counted, role, **fields)
        self.procs[host][pid] = proc
        return proc

    def _leader(self, proc: Proc) -> int:
        if proc.role in {"supervisor", "hand"}:
            return proc.pid
        return proc.group if proc.role == "worker" else 0

    def _pids(self) -> list[int]:
        return list(self.procs[self.here])

    def _look(self, pid: int) -> Process | None:
        proc = self.procs[self.here].get(pid)
        return None if proc is None else Process(pid, proc.group, proc.group, proc.tick, proc.dead)

    def _has_any(self, group: int) -> bool:
        return any(proc.group == group for proc in self.procs[self.here].values())

    def _environment(self, pid: int) -> set[bytes]:
        run = self.procs[self.here][pid].run
        if run is None:
            return set()
        return {b"LEDGER_BOARD=default", f"LEDGER_TASK={run[0]}".encode(), f"LEDGER_RUN={run[1]}".encode()}

    def _has_ended(self, pid: int) -> bool:
        """A wait for a child: a zombie is gone after it."""
        proc = self.procs[self.here].get(pid)
        if proc is not None and proc.dead:
            del self.procs[self.here][pid]
        return proc is None or proc.dead

    def _send(self, binding: Any, signum: int) -> None:
        table = self.procs[self.here].values()
        hit = [p for p in table if not p.dead and (p.group if binding.group else p.pid) == binding.pid]
        if not hit:
            raise ProcessLookupError
        bosses = [p for p in hit if p.role == "supervisor"]
        told = Signalled((binding.pid, binding.start_tick), signum, bool(bosses), {p.run for p in hit})
        self.signals.append(told)
        for proc in hit:
            if proc.role != "supervisor" or signum == SIGKILL:
                proc.dead = signum == SIGKILL or not proc.stubborn
        if signum == SIGTERM and bosses and not any(p.role == "worker" and not p.dead for p in hit):
            boss = bosses[0]
            boss.dead = True
            self.deaths[boss.run] = self._written(boss.folder, boss.run, Death(signal=15), "record")

    # Spawning

    def _launch(self, order: Order) -> Launched:
        key = (order.task, order.run)
        if self.failing:
            self.failing -= 1
            self.deaths[key] = Death(127)
            raise SpawnFailed("no memory", task=order.task)
        proc = self._born(self.here, "supervisor", run=key, folder=order.folder)
        self.locks[key] = order.lock
        self.gates[proc.pid] = proc
        return Launched(proc.pid, proc.tick, proc.pid)

    def _open_gate(self, launched: Launched) -> None:
        boss = self.gates.pop(launched.gate)
        if not boss.dead:
            host = next(name for name, table in self.procs.items() if table.get(boss.pid) is boss)
            self._born(host, "worker", group=boss.pid, run=boss.run, folder=boss.folder, stubborn=self.stubborn)
            self.ran.add(boss.run)

    def _close_gate(self, launched: Launched) -> None:
        boss = self.gates.pop(launched.gate, None)
        if boss is None:
            return
        if self.slow:
            self.closing.append(boss)
        else:
            self._runs_nothing(boss)

    def _runs_nothing(self, boss: Proc) -> None:
        if not boss.dead:
            boss.dead = True
            self.deaths[boss.run] = self._written(boss.folder, boss.run, Death(143), "record")

    def _written(self, folder: Path, key: Key, death: Death, how: str, owned: Owned | None = None) -> Death:
        """Write what *how* says; the death as every process of the host can read it."""
        task, run = key
        said = {"schema": 1, "task": task, "run": run, "code": death.code, "signal": death.signal, "ended_at": 1}
        log = "the limit was reached\n" if death.quota else "bye\n"
        match how:
            case "record":
                (folder / EXIT_RECORD).write_text(json.dumps(said))
            case "owner":
                (folder / OWNER_RESULT).write_text(json.dumps(said | ({} if owned is None else owned._asdict())))
            case "trailer" if death.code is not None:
                log += f"[kanban-worker-exit] rc={death.code} run={run}\n"
            case "foreign":
                (folder / EXIT_RECORD).write_text(json.dumps(said | {"run": run + 1, "code": 0, "signal": None}))
                log += f"[kanban-worker-exit] rc=78 run={run + 1}\n"
            case "torn":
                (folder / EXIT_RECORD).write_text(json.dumps(said)[:-3])
        (folder / LOG).write_text(log)
        known = {"record": True, "owner": owned is not None, "trailer": death.code is not None}.get(how, False)
        return death if known else Death(witness=False)
