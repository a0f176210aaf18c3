"""Machines that share one store on a real PostgreSQL: each a home, an id and a command line of its own.

What makes two machines of one kernel differ is what the kernel itself can make differ: a boot id of its own (a file
mounted over it), a clock since the start of its own (a time namespace), processes of its own (a pid namespace).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from kanban import Board
from kanban.folders import run_folder
from kanban.founding import found
from kanban.processes import ProcessTable
from kanban.tick import Tick
from ledger.clock import system_clock
from tests import servers
from tests.fleets import FOUNDER, toml_of, until

FOUNDED: Final = "founded for hosts"
_OTHER_BOOT: Final = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


@dataclass
class Machine:
    """A host. What it does here is done by this process under its id; `ledger` is a process of its own, started through
    the command *before*, such as `unshare`.
    """

    home: Path
    url: str
    id: str
    before: tuple[str, ...] = ()
    loops: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        """The operator's environment there."""
        named = {"LEDGER_HOME": str(self.home), "LEDGER_DATABASE_URL": self.url, "LEDGER_HOST_ID": self.id}
        return {**named, "HOME": str(self.home), "PATH": os.environ["PATH"], "USER": "ada", "TZ": "UTC"}

    @cached_property
    def board(self) -> Board:
        """The board, as a dispatcher of this machine has it open."""
        with self._being():
            opened = Board.open(environ=self.environ, cwd=self.home)
            opened.host  # noqa: B018 – named now, while the environment says how
        return opened

    def staff(self, assignees: Mapping[str, Mapping[str, Any]], **settings: Any) -> None:
        """Write this machine's ledger.toml, before its board is opened."""
        (self.home / "ledger.toml").write_text(toml_of(assignees, **settings))

    def sweep(self, *, most: int | None = None) -> Tick:
        """One tick that meets no fault."""
        with self._being():
            tick = self.board.sweep(most=most)
        assert tick.errors == []
        return tick

    def ledger(self, *argv: str, code: int = 0) -> Any:
        """What a command of a process there answers, which ends with *code*."""
        done = subprocess.run(self._command(*argv, "--json"), **self._how(), capture_output=True, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def loop(self) -> subprocess.Popen[str]:
        """A dispatcher in a process of its own that goes on until `end` or a signal."""
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        self.loops.append(subprocess.Popen(self._command("sweep", "--every", "1s"), **self._how(), **quiet))
        return self.loops[-1]

    def create(self, **fields: Any) -> str:
        """A new card of w's."""
        return str(self.board.create("a card", assignee="w", **fields).task["id"])

    def runs(self, card: str) -> list[dict[str, Any]]:
        """The runs of a card."""
        shown: list[dict[str, Any]] = self.board.runs(card)["runs"]
        return shown

    def members(self, card: str, run: int = 1) -> list[int]:
        """The live processes in the group of a run."""
        group = self.runs(card)[run - 1]["pid"]
        return [one.pid for one in ProcessTable.snapshot().processes.values() if one.group == group and not one.dead]

    def folder(self, card: str, run: int = 1) -> Path:
        """A run's folder there."""
        return run_folder(self.home, "default", card, run)

    def hears(self, card: str, words: str, run: int = 1) -> str:
        """Wait until the log of a run has these *words*; all of it."""
        log = self.folder(card, run) / "log"
        until(lambda: log.exists() and words in log.read_text())
        return log.read_text()

    def end(self) -> None:
        """Kill whatever was started there."""
        if "board" in vars(self):
            self.board.close()
        for loop in self.loops:
            with suppress(ProcessLookupError):
                os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()
        until(self._all_dead)

    def _all_dead(self) -> bool:
        mark, left = f"LEDGER_HOME={self.home}".encode(), []
        for pid in ProcessTable.snapshot().processes:
            with suppress(OSError):
                if pid != os.getpid() and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    left.append(pid)
                    os.kill(pid, signal.SIGKILL)
        if "board" in vars(self) and "sweeper" in vars(self.board):
            self.board.sweeper.children.reap()
        return not left

    @contextmanager
    def _being(self) -> Iterator[None]:
        """This process is a machine of that id meanwhile."""
        before = os.environ.get("LEDGER_HOST_ID")
        os.environ["LEDGER_HOST_ID"] = self.id
        try:
            yield
        finally:
            del os.environ["LEDGER_HOST_ID"]
            os.environ.update({} if before is None else {"LEDGER_HOST_ID": before})

    def _command(self, *argv: str) -> list[str]:
        return [*self.before, str(Path(sys.executable).parent / "ledger"), *argv]

    def _how(self) -> dict[str, Any]:
        return {"env": self.environ, "cwd": self.home, "text": True, "stdin": subprocess.DEVNULL}


def other_boot(name: Path) -> tuple[str, ...]:
    """Before a command: the kernel's boot id is what the file *name* says."""
    name.write_text(f"{name.name}\n")
    return ("unshare", "--mount", "sh", "-c", _OTHER_BOOT, str(name))


def started(seconds: float) -> tuple[str, ...]:
    """Before a command: the machine was started so many seconds ago, as far as its clock since then tells."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return ("unshare", "--time", "--boottime", str(-round(uptime - seconds)))


IN_A_CONTAINER: Final = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Before a command: it is the first process of a pid namespace, and with it all end that it started."""


def _found(url: str) -> None:
    found(url, "default", FOUNDER, system_clock)


@contextmanager
def sharing(folder: Path) -> Iterator[Callable[..., Machine]]:
    """One store for as long as the block lasts, and what makes another machine on it: by its name, which is its id.

    Two of one id have two homes in *folder* all the same, unless *home* is given.
    """
    databases = servers.shared()
    databases.template(FOUNDED, _found)
    made: list[Machine] = []

    def machine(name: str, *before: str, home: Path | None = None) -> Machine:
        at = home or folder / f"{len(made)}-{name}"
        at.mkdir(mode=0o700, exist_ok=True)
        made.append(Machine(at, url, name, before))
        return made[-1]

    with databases.lent(FOUNDED) as url:
        try:
            yield machine
        finally:
            for each in made:
                each.end()
