"""Whole processes: from `exec` to exit, beside `python -c pass` of the same interpreter.

Processor time of the child, user and system: an idle command waits for nothing, and on two shared cores the wall
tells of the neighbours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.boards import Store, bindings_of, constant, mixed, workers
from benchmarks.measure import Row, faster, growth, medians, rounds, scaled

if TYPE_CHECKING:
    from benchmarks.peers import Peers

LEDGER: Final = str(Path(sys.executable).with_name("ledger"))
CARDS: Final = scaled(50_000, least=1_000)


def child(*command: str, environ: Mapping[str, str]) -> float:
    """Processor seconds of one process that must succeed."""
    null = subprocess.DEVNULL
    started = subprocess.Popen(command, env=dict(environ), stdout=null, stderr=null, cwd="/")
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0, command
    return used.ru_utime + used.ru_stime


def rows(scratch: Path) -> Iterator[Row]:
    """Beside an interpreter that does nothing."""
    with workers(20) as pids:
        store = idle_store(scratch, pids)
        cases = {
            "pass": lambda: child(sys.executable, "-c", "pass", environ=store.environ),
            "--version": lambda: child(LEDGER, "--version", environ=store.environ),
            "list": lambda: child(LEDGER, "list", environ=store.environ),
            "sweep": lambda: child(LEDGER, "sweep", environ=store.environ),
        }
        times = rounds(cases, times=15)
    for name, target in {"--version": 3, "list": 36, "sweep": 42}.items():
        said = f"whole process: {'idle ' if name == 'sweep' else ''}ledger {name}"
        yield Row(said, "python -c pass", growth(times, name, "pass"), target, False, note=medians(times, name, "pass"))


def idle_store(scratch: Path, pids: list[int]) -> Store:
    """A board of 50,000 cards with twenty live workers and every slot taken; it has been swept once."""
    store = mixed(scratch / "store", constant(CARDS), bindings_of(scratch, pids))
    store.staff(max_running=20)
    child(LEDGER, "sweep", environ=store.environ)
    return store


def beside_peers(scratch: Path, peers: Peers) -> Iterator[Row]:
    """Beside `hermes kanban dispatch --dry-run` on a board of as many cards."""
    with workers(20) as pids:
        store = idle_store(scratch, pids)
        home = scratch / "hermes"
        home.mkdir()
        kinds = constant(CARDS)._asdict()
        peers.hermes.ask("build", path=str(home / "kanban.db"), kinds=kinds, pids=pids)
        hermes = str(peers.hermes.python.with_name("hermes"))
        environ = {**os.environ, "HERMES_HOME": str(home), "HOME": str(home)}
        cases = {
            "ledger": lambda: child(LEDGER, "sweep", environ=store.environ),
            "hermes": lambda: child(hermes, "kanban", "dispatch", "--dry-run", environ=environ),
        }
        times = rounds(cases)
    figures, note = [1 / ratio for ratio in faster(times, "ledger", "hermes")], medians(times, "ledger", "hermes")
    yield Row(f"whole process: idle ledger sweep, {CARDS:,} cards", "hermes dispatch --dry-run", figures, 0.5, False,
              note=note)  # fmt: skip
