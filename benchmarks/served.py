"""A PostgreSQL for benchmarks, as durable as in earnest: every commit is on the disk before it is answered."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks.boards import ADA
from benchmarks.measure import wall
from kanban import Board
from kanban.founding import found
from ledger.clock import system_clock
from tests import servers

DURABLE: Final = {
    "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "512MB",
    "max_wal_size": "4GB", "min_wal_size": "1GB",
}  # fmt: skip


_BEGIN: Final = """
import sys
from kanban import Board
board, argv = Board.open(name=sys.argv[1]), sys.argv[2:]
def go():
    print("ready", flush=True)
    sys.stdin.readline()
"""


class Fleet:
    """One server and the boards of one database on it."""

    def __init__(self, server: servers.Server, home: Path) -> None:
        self.server, self.home = server, home
        home.mkdir(parents=True)
        self.url = server.url("bench")

    @property
    def environ(self) -> dict[str, str]:
        """What an operator's shell would say."""
        return {"LEDGER_HOME": str(self.home), "LEDGER_DATABASE_URL": self.url, "PATH": os.environ["PATH"]}

    def board(self, name: str = "default") -> Board:
        """The board *name*, made if it is not there, open."""
        found(self.url, name, ADA, system_clock)
        return Board.open(name=name, environ=self.environ, cwd=self.home)

    def raw(self) -> psycopg.Connection[Any]:
        """The driver alone, on the same database."""
        return psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True)

    def together(self, script: str, arguments: Sequence[Sequence[str]]) -> tuple[float, list[str]]:
        """A process each for *arguments* (a board, and more): seconds from the word on, and what each said.

        *script* has `board` and `argv`, makes ready, calls `go()`, works and prints a line; how long a process takes to
        end is in no figure.
        """
        begin, pipe = _BEGIN, subprocess.PIPE
        started = [
            subprocess.Popen([sys.executable, "-c", begin + script, *words], stdin=pipe, stdout=pipe, text=True,
                             env={**os.environ, **self.environ})
            for words in arguments
        ]  # fmt: skip
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        begun = wall()
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [process.stdout.readline() for process in started if process.stdout is not None]
        seconds = wall() - begun
        for process in started:
            process.communicate()
        assert not [process for process in started if process.returncode], "a client met an error"
        return seconds, told


@contextmanager
def served(scratch: Path) -> Iterator[Fleet]:
    """A server with its data under *scratch*, gone with the block."""
    scratch.chmod(0o711)  # as root the server is another user's
    with servers.own(under=scratch, **DURABLE) as server:
        yield Fleet(server, scratch / "home")
