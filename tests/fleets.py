"""A fleet for one test: a home, a founded store, assignees that are real commands, and a clock that can run ahead."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kanban import Board
from kanban.folders import run_folder, scratch_folder
from kanban.founding import found
from kanban.processes import ProcessTable
from kanban.tick import Tick
from ledger.clock import SECOND, system_clock
from ledger.events import Actor
from ledger.recorded import Recorded

FOUNDER = Actor(kind="operator", name="ada", host="desk")
PATIENCE = 120
"""Seconds after which a wait is the test's failure: what is waited for comes, however late on a busy machine."""
OUTSIDE = """
import json, os, signal, sys, time
import kanban.spawn, kanban.starting, kanban.sweep
from kanban import Board
from ledger.clock import system_clock
ahead = int(os.environ["FLEET_AHEAD"])
board = Board.open(clock=lambda: system_clock() + ahead)
"""
"""What a script in another process begins with: `board`, on the fleet's store and at the fleet's time."""
WRITER = """
board.close()
board, made = Board.open(sys.argv[1]), 0
while not os.path.exists('enough'):
    board.create(f'card {made}', blocked='parked')
    made += 1
    if made == 1:
        print('at it', flush=True)
    time.sleep(0.02)
print(made, flush=True)
"""


def sh(script: str) -> list[str]:
    """A worker that is a shell script."""
    return ["sh", "-c", script]


def until(true: Callable[[], Any], *, pause: float = 0.02) -> Any:
    """Poll *true* and return what it says; a deadline that passes is the test's failure.

    What takes its time is asked for less and less often: to look costs more of the machine than to wait.
    """
    deadline = time.monotonic() + PATIENCE
    while not (said := true()):
        assert time.monotonic() < deadline, "deadline passed"
        time.sleep(pause)
        pause = min(pause * 1.2, 0.1)
    return said


@contextmanager
def at_once(seconds: float = 5) -> Iterator[None]:
    """What is done here costs this thread less than so many *seconds* of a processor, and waits for nothing that long.

    On a busy machine it takes longer by the clock on the wall, and is no slower for that.
    """
    began, at = time.thread_time(), time.monotonic()
    yield
    assert time.thread_time() - began < seconds
    assert time.monotonic() - at < seconds * busy()


def busy() -> float:
    """How many times as long as on an idle machine things may take on this one now."""
    return max(1.0, 4 * os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass
class Ahead:
    """The machine's clock, which can be put forward: so no grace and no lease has to be waited for."""

    ahead: int = 0
    frozen: int | None = None

    def __call__(self) -> int:
        """The instant in microseconds UTC."""
        return (system_clock() if self.frozen is None else self.frozen) + self.ahead

    def advance(self, seconds: float) -> None:
        """Move on by *seconds*."""
        self.ahead += round(seconds * SECOND)

    def freeze(self) -> None:
        """Stand still from now on."""
        self.frozen = system_clock()


@dataclass
class Fleet:
    """One home and its store, and the short ways to put workers to work and to see what became of them."""

    home: Path
    path: str = os.environ["PATH"]
    clock: Ahead = field(default_factory=Ahead)
    boards: list[Board] = field(default_factory=list)
    others: list[subprocess.Popen[str]] = field(default_factory=list)
    spoilt: bool = False
    """Whether the test damaged stored rows, so that an audit must find something."""

    @property
    def url(self) -> str:
        """The store's address."""
        return f"sqlite:///{self.home}/ledger.db"

    @property
    def environ(self) -> dict[str, str]:
        """The operator's environment."""
        return {"LEDGER_HOME": str(self.home), "HOME": str(self.home), "PATH": self.path, "USER": "ada"}

    @property
    def board(self) -> Board:
        """The board, opened once."""
        return self.boards[0] if self.boards else self.another()

    def another(self, name: str | None = None) -> Board:
        """The same board (or the one called *name*) as another dispatcher opens it: it has started no process."""
        self.boards.append(Board.open(name=name, environ=self.environ, cwd=self.home, clock=self.clock))
        return self.boards[-1]

    def staff(self, assignees: Mapping[str, Mapping[str, Any]], **settings: Any) -> None:
        """Write ledger.toml and read it from now on."""
        (self.home / "ledger.toml").write_text(toml_of(assignees, **settings))
        self._close_boards()

    def create(self, title: str = "a card", assignee: str | None = "w", **fields: Any) -> str:
        """A new card's id."""
        return str(self.board.create(title, assignee=assignee, **fields).task["id"])

    def sweep(self, **how: Any) -> Tick:
        """One tick that meets no fault."""
        tick = self.board.sweep(**how)
        assert tick.errors == []
        return tick

    def sweep_until(self, true: Callable[[], Any]) -> list[Tick]:
        """Tick until *true*."""
        ticks: list[Tick] = []

        def ticked() -> bool:
            ticks.append(self.sweep())
            return bool(true())

        until(ticked)
        return ticks

    def ended(self, task: str, run: int = 1) -> dict[str, Any]:
        """Tick until *run* of the card has ended; the run."""
        self.sweep_until(lambda: len(self.runs(task)) >= run and self.runs(task)[run - 1]["outcome"])
        return self.runs(task)[run - 1]

    def finish(self, task: str, status: str = "done") -> dict[str, Any]:
        """Tick until the card is *status*; the card."""
        self.sweep_until(lambda: self.card(task)["status"] == status)
        return self.card(task)

    def card(self, task: str) -> dict[str, Any]:
        """The card as queries show it."""
        shown: dict[str, Any] = self.board.show(task)["task"]
        return shown

    def counters(self, task: str) -> tuple[int, int, int, int]:
        """Failures, streak, spent and neutral of the card."""
        card = self.card(task)
        return card["failures"], card["streak"], card["spent"], card["neutral"]

    def runs(self, task: str) -> list[dict[str, Any]]:
        """The card's runs."""
        shown: list[dict[str, Any]] = self.board.runs(task)["runs"]
        return shown

    def events(self, task: str, kind: str | None = None) -> list[Recorded]:
        """The card's events, perhaps of one kind."""
        return [event for event in self.board.events(task) if kind in {None, event.kind}]

    def kinds(self, task: str) -> list[str]:
        """The kinds of the card's events."""
        return [event.kind for event in self.board.events(task)]

    def folder(self, task: str, run: int = 1) -> Path:
        """The run's folder."""
        return run_folder(self.home, self.board.name, task, run)

    def scratch(self, task: str) -> Path:
        """The card's scratch workspace."""
        return scratch_folder(self.home, self.board.name, task)

    def in_scratch(self, task: str, name: str) -> Path:
        """The file *name* in the card's workspace, once a worker has made it."""
        path = self.scratch(task) / name
        until(path.exists)
        return path

    def line_in(self, task: str, name: str) -> str:
        """What the file *name* in the card's workspace says, once a worker has written a whole line."""
        path = self.scratch(task) / name
        until(lambda: path.exists() and path.read_text().endswith("\n"))
        return path.read_text()

    def supervisor(self, task: str) -> int:
        """The pid of the supervisor of the card's last bound run, which is its group's number too."""
        bound = [event.facts for event in self.events(task, "worker_bound") if event.facts["role"] == "group"]
        return int(bound[-1]["pid"])

    def members(self, task: str) -> list[int]:
        """The live processes in the group of the card's last bound run."""
        group = self.supervisor(task)
        return [p.pid for p in ProcessTable.snapshot().processes.values() if p.group == group and not p.dead]

    def workers(self, task: str) -> list[int]:
        """The members but the supervisor, once there are any."""
        pids: list[int] = until(lambda: [pid for pid in self.members(task) if pid != self.supervisor(task)])
        return pids

    def lock(self, task: str) -> str:
        """The lock that the card's last bound run was given, read off its supervisor."""
        given = Path(f"/proc/{self.supervisor(task)}/environ").read_bytes().decode().split("\0")
        return next(line.partition("=")[2] for line in given if line.startswith("LEDGER_LOCK="))

    def outside(self, script: str, *arguments: str, board: str = "default") -> subprocess.Popen[str]:
        """Another process at the fleet's time, with `board` open, that runs *script*."""
        environ = self.environ | {"FLEET_AHEAD": str(self.clock.ahead), "LEDGER_BOARD": board}
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", OUTSIDE + script, *arguments]
        started = subprocess.Popen(command, env=environ, cwd=self.home, stdin=pipe, stdout=pipe, text=True)
        self.others.append(started)
        return started

    def writers(self, url: str, count: int = 2) -> list[subprocess.Popen[str]]:
        """Processes that make parked cards, two events each, at *url*, until `written`; each has made one."""
        writers = [self.outside(WRITER, url) for _ in range(count)]
        assert [writer.stdout and writer.stdout.readline() for writer in writers] == ["at it\n"] * count
        return writers

    def written(self, writers: list[subprocess.Popen[str]]) -> int:
        """Let *writers* end; how many cards they have made."""
        (self.home / "enough").touch()
        return sum(int(writer.communicate(timeout=PATIENCE)[0]) for writer in writers)

    def on_host(self, board: Board, **identity: str) -> Board:
        """*board* as a sweep elsewhere sees it: another host id, boot or pid namespace."""
        shop = board.sweeper.shop
        board.sweeper.shop = replace(shop, host=replace(shop.host, **identity))
        return board

    def found(self, name: str) -> None:
        """Another board in the same store."""
        found(self.url, name, FOUNDER, system_clock)

    def audit(self) -> None:
        """Refold the whole log: whatever processes died of, each event was legal where it stands (RULES §9)."""
        if self.boards and not self.spoilt:
            assert self.board.replay().divergences == ()

    def end(self) -> None:
        """Kill every process that the test started, and let the store go."""
        for other in self.others:
            other.kill()
            other.communicate()
        until(self.all_dead)
        self._close_boards()

    def all_dead(self) -> bool:
        """Whether none is left of the processes that carry this home in their environment; kills those that are."""
        left = self.left()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for board in self.boards:
            if "sweeper" in vars(board):
                board.sweeper.children.reap()
        return not left

    def left(self) -> list[int]:
        """The processes that carry this home in their environment, this one aside."""
        mark = f"LEDGER_HOME={self.home}".encode()
        return [pid for pid in ProcessTable.snapshot().processes if pid != os.getpid() and mark in _environment(pid)]

    def _close_boards(self) -> None:
        for board in self.boards:
            board.close()
        self.boards.clear()


def new_fleet(template: Path, home: Path) -> Fleet:
    """A fleet in the fresh folder *home*, its store copied from *template*."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(template, home / "ledger.db")
    (home / "ledger.db").chmod(0o600)
    return Fleet(home)


def new_template(folder: Path) -> Path:
    """A closed store with the board `default` in it."""
    path = folder / "ledger.db"
    found(f"sqlite:///{path}", "default", FOUNDER, system_clock)
    return path


def is_alive(pid: int) -> bool:
    """Whether *pid* lives and is no zombie."""
    process = ProcessTable.snapshot().processes.get(pid)
    return process is not None and not process.dead


def signals(ticks: list[Tick], task: str) -> list[int]:
    """The signals that *ticks* sent to the card's processes, in order."""
    return [stop["signal"] for tick in ticks for stop in tick.stopped if stop["task"] == task and "signal" in stop]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def toml_of(assignees: Mapping[str, Mapping[str, Any]], **settings: Any) -> str:
    """A ledger.toml with these *settings* and *assignees*."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    for name, keys in assignees.items():
        lines.append(f"[assignees.{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {json.dumps(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
