"""The peers: an environment for each, made once under .bench/, and a process in it that is asked by lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import Side

PEERS: Final = {
    "hermes-agent": ("hermes-agent==0.19.0",),
    "eventsourcing": ("eventsourcing==9.5.6",),
    "queues": ("procrastinate==3.10.0", "pgqueuer==1.6.0", "asyncpg==0.32.0", "psycopg[binary,pool]==3.3.9"),
}
"""An environment each, and what is installed there."""
_HERE: Final = Path(__file__).resolve().parent


class Peer:
    """One peer's process: `ask` makes it do something that it times itself, so that the pipe is in no figure."""

    def __init__(self, python: Path, script: str, home: Path) -> None:
        self.python = python
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        environ = {**os.environ, "HERMES_HOME": str(home), "HOME": str(home), "HERMES_KANBAN_CRASH_GRACE_SECONDS": "0"}
        self.process = subprocess.Popen(
            [python, _HERE / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )

    def ask(self, verb: str, **how: Any) -> Any:
        """What *verb* of the script answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"verb": verb, **how}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer ended at {verb}; its words are above")
        return json.loads(line)

    def side(self, verb: str) -> Side:
        """*verb* on one item as a side of a duel: seconds on the wall, and of its processor."""

        def once(item: Any) -> tuple[float, float]:
            seconds, busy = self.ask(verb, item=item)
            return seconds, busy

        return once

    def end(self) -> None:
        """Let it go."""
        self.process.communicate()


class Peers:
    """The peers that were asked for, started at the first question."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def hermes(self) -> Peer:
        """hermes-agent's kanban."""
        return Peer(environment(self.root, "hermes-agent"), "peer_hermes.py", self.root / "hermes-home")

    @cached_property
    def eventsourcing(self) -> Peer:
        """The eventsourcing library on its SQLite recorder."""
        return Peer(environment(self.root, "eventsourcing"), "peer_eventsourcing.py", self.root / "eventsourcing-home")

    @cached_property
    def queues(self) -> Peer:
        """Two job queues on PostgreSQL."""
        return Peer(environment(self.root, "queues"), "peer_queues.py", self.root / "queues-home")


@contextmanager
def peers_in(root: Path) -> Iterator[Peers]:
    """Peers whose environments lie under *root*; their processes end with the block."""
    peers = Peers(root)
    try:
        yield peers
    finally:
        for peer in vars(peers).values():
            if isinstance(peer, Peer):
                peer.end()


def environment(root: Path, name: str) -> Path:
    """The interpreter of the environment of *name*, made if it is not there, with the SQLite that the ledger uses."""
    folder, stamp = root / name, root / name / f".{PEERS[name][0]}"
    python = folder / "bin" / "python"
    if not stamp.exists():
        print(f"making {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        wanted = [*PEERS[name], f"pysqlite3=={version('pysqlite3')}"]
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], check=True, stdout=sys.stderr)
        stamp.touch()
    return python
