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
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.boards import Store, bindings_of, constant, mixed, workers
from benchmarks.measure import ROUNDS, Row, faster, growth, medians, rounds, scaled, wall
from kanban.worker.carrier import Carrier
from kanban.worker.proof import Live, prove_here
from ledger.clock import system_clock

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
        worker = worker_environ(store)
        cases = {
            "pass": lambda: child(sys.executable, "-c", "pass", environ=store.environ),
            "--version": lambda: child(LEDGER, "--version", environ=store.environ),
            "list": lambda: child(LEDGER, "list", environ=store.environ),
            "sweep": lambda: child(LEDGER, "sweep", environ=store.environ),
            "claim --check": lambda: child(LEDGER, "claim", "--check", environ=worker),
        }
        times = rounds(cases, times=15)
    yield Row("a proof that a claim holds, warm, in process", "–", list(proofs(worker)), 0.5, False, "ms")
    for name, target in {"--version": 3, "list": 36, "sweep": 42, "claim --check": 36}.items():
        said = f"whole process: {'idle ' if name == 'sweep' else ''}ledger {name}"
        yield Row(said, "python -c pass", growth(times, name, "pass"), target, False, note=medians(times, name, "pass"))


def worker_environ(store: Store) -> dict[str, str]:
    """The environment of the worker of a card that was just claimed by hand."""
    board = store.open()
    granted = board.claim(board.create("Held", assignee="builder").task["id"])
    carrier = Carrier(store.url, board.name, granted.task, granted.run, granted.lock)
    store.close()
    return store.environ | carrier.as_environment()


def proofs(environ: dict[str, str]) -> Iterator[float]:
    """Milliseconds on the wall of one proof, the caller's identity read anew each time: the median of each round."""
    for turn in range(-1, ROUNDS):
        taken = []
        for _ in range(100):
            begun = wall()
            _, proof = prove_here(environ, system_clock())
            taken.append(wall() - begun)
            assert isinstance(proof, Live), proof
        if turn >= 0:
            yield median(taken) * 1e3


def idle_store(scratch: Path, pids: list[int]) -> Store:
    """A board of 50,000 cards with twenty live workers and every slot taken; it has been swept once.

    And all snapshots of its past are taken, which a sweep would else do, four a tick.
    """
    store = mixed(scratch / "store", constant(CARDS), bindings_of(scratch, pids))
    store.staff(max_running=20)
    child(LEDGER, "sweep", environ=store.environ)
    child(LEDGER, "db", "snapshot", environ=store.environ)
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
