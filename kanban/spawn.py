"""Starting a worker: its environment, its supervisor behind the gate, and the gate's other end (RULES §7.7)."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kanban.folders import LOG, PROMPT
from kanban.processes import start_tick
from ledger.errors import LedgerError

_SUPERVISE: Final = Path(__file__).resolve().parent / "worker" / "supervise.py"
_GATE: Final = 3  # the descriptor that the supervisor reads
_ABOVE_STANDARD: Final = 10  # clear of it and of standard input and output, should one of these be closed here
_OPEN: Final = b"g"
_STOPS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_INHERITED: Final = ("HOME", "LANG", "TMPDIR", "TERM", "LEDGER_HOST_ID", "LEDGER_TURN_RECOVERY")


class SpawnFailed(LedgerError):
    """The supervisor could not be started: nothing ran (RULES §6: the claimer writes exit record 127)."""

    def __init__(self, reason: str, *, task: str) -> None:
        super().__init__(f"{task}: the supervisor could not be started: {reason}", task=task)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run to start. *folder* is the run's own and exists; *log_limit* is in bytes; secrets are not shown.

    *database_url* is whole: `PGHOST` and its like are not inherited, lest they lead the worker's own tools there.
    """

    folder: Path
    board: str
    task: str
    run: int
    lock: str = field(repr=False)
    command: tuple[str, ...] = field(repr=False)
    workspace: Path
    env: Mapping[str, str] = field(repr=False)
    log_limit: int
    database_url: str = field(repr=False)
    home: Path
    goal_max_turns: int | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """A supervisor that waits at its gate. It leads a session and group of its own, both numbered *pid*."""

    pid: int
    start_tick: int
    gate: int


class Children:
    """The supervisors that this process started and whose deaths it must take note of, lest they stay zombies."""

    def __init__(self) -> None:
        self._pids: set[int] = set()

    def add(self, pid: int) -> None:
        """Remember a child of this process."""
        self._pids.add(pid)

    def reap(self) -> tuple[int, ...]:
        """Bury the remembered children that ended, and no others; their pids. A status is no evidence (RULES §6)."""
        ended = tuple(sorted(pid for pid in self._pids if _has_ended(pid)))
        self._pids.difference_update(ended)
        return ended


def launch(order: Order) -> Launched:
    """Start the supervisor of *order*; it runs nothing before `open_gate`. Raises `SpawnFailed`."""
    read_end, gate = _pipe()
    try:
        pid = _spawn(order, read_end)
    except (OSError, ValueError, NotImplementedError) as refusal:
        os.close(gate)
        raise SpawnFailed(_reason(refusal), task=order.task) from refusal
    finally:
        os.close(read_end)
    tick = start_tick(pid)
    if tick is None:
        os.close(gate)
        _has_ended(pid)
        raise SpawnFailed("it ended before it could be bound", task=order.task)
    return Launched(pid, tick, gate)


def open_gate(launched: Launched) -> None:
    """Let the command run. A supervisor that died meanwhile is the next tick's to book."""
    with suppress(BrokenPipeError):
        os.write(launched.gate, _OPEN)
    close_gate(launched)


def close_gate(launched: Launched) -> None:
    """Close the gate; if it was never opened the supervisor runs nothing and writes exit record 143."""
    os.close(launched.gate)


def worker_environment(order: Order) -> dict[str, str]:
    """All that the command inherits (DESIGN §4). What names the claim wins over the assignee's own `env`."""
    ours = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**ours, **order.env, "PATH": _path(order.env), **_claim(order)}


def ledger_script() -> Path:
    """The `ledger` script that is running, else the one beside this interpreter; not resolved, for links move."""
    running = Path(sys.argv[0]).absolute()
    if running.name == "ledger" and running.is_file():
        return running
    return Path(sys.executable).absolute().parent / "ledger"


def _claim(order: Order) -> dict[str, str]:
    folder = order.folder.absolute()
    return {
        "LEDGER_DATABASE_URL": order.database_url,
        "LEDGER_BOARD": order.board,
        "LEDGER_TASK": order.task,
        "LEDGER_RUN": str(order.run),
        "LEDGER_LOCK": order.lock,
        "LEDGER_WORKSPACE": str(order.workspace.absolute()),
        "LEDGER_LOG": str(folder / LOG),
        "LEDGER_PROMPT": str(folder / PROMPT),
        "LEDGER_BIN": str(ledger_script()),
        "LEDGER_HOME": str(order.home.absolute()),
        **({} if order.goal_max_turns is None else {"LEDGER_GOAL_MAX_TURNS": str(order.goal_max_turns)}),
        **({} if order.traceparent is None else {"TRACEPARENT": order.traceparent}),
    }


def _path(env: Mapping[str, str]) -> str:
    return os.pathsep.join((str(ledger_script().parent), env.get("PATH") or os.environ.get("PATH") or os.defpath))


def _spawn(order: Order, read_end: int) -> int:
    """Stop signals stay blocked until the supervisor can hear them: it unblocks them itself."""
    return os.posix_spawn(
        sys.executable,
        _arguments(order),
        worker_environment(order),
        file_actions=_files(read_end),
        setsid=True,
        setsigmask=_STOPS,
        setsigdef=_STOPS,
    )


def _arguments(order: Order) -> tuple[str, ...]:
    supervisor = (sys.executable, "-I", "-S", str(_SUPERVISE))
    run = (str(order.folder.absolute()), order.task, str(order.run))
    return (*supervisor, *run, str(_GATE), str(order.log_limit), str(order.workspace.absolute()), "--", *order.command)


def _files(read_end: int) -> Sequence[tuple[int, ...] | tuple[int, int, str, int, int]]:
    return (
        *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _strays()),
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        (os.POSIX_SPAWN_DUP2, read_end, _GATE),
    )


def _strays() -> list[int]:
    """Descriptors that this process inherited, such as cron's own lock: a worker must not keep them open."""
    inherited = (int(name) for name in os.listdir("/dev/fd") if int(name) > 2)  # noqa: PLR2004, PTH208 – stderr
    return [descriptor for descriptor in inherited if _is_inheritable(descriptor)]


def _is_inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:  # the listing's own, closed by now
        return False


def _pipe() -> tuple[int, int]:
    """Both ends kept from every other child, or the gate could never close."""
    ends = os.pipe()
    try:
        read_end, write_end = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _ABOVE_STANDARD) for end in ends)
    finally:
        for end in ends:
            os.close(end)
    return read_end, write_end


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # somebody else took note
        return True


def _reason(refusal: Exception) -> str:
    return refusal.strerror or str(refusal) if isinstance(refusal, OSError) else str(refusal)
