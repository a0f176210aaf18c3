"""A home with a board in it, and the command line run in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli import output
from cli.app import run
from ledger.database import connect
from tests import audits, doors, ledgers
from tests.cli import homes
from tests.cli.homes import Home
from tests.servers import Server

PROBES = """\
[assignees.builder]
command = ["sh", "-c", "echo working; sleep 60"]
[assignees.crasher]
command = ["sh", "-c", "echo boom; exit 3"]
[assignees.dana]
human = true
"""


PASSWORD = "hunter2"
"""The one of `ann` at the guarded server, and of nobody else."""


@dataclass
class Said:
    """What one command line came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its one JSON object."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def error(self) -> dict[str, Any]:
        """Its error in JSON."""
        return self.json["error"]


class Ledger:
    """`ledger`, as somebody types it: `ledger("create", "Mend it", "--json")`."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    @property
    def url(self) -> str:
        """The store's address."""
        return os.environ.get("LEDGER_DATABASE_URL") or f"sqlite:///{self.home}/ledger.db"

    def __call__(self, *argv: str) -> Said:
        self._capsys.readouterr()
        code = run(argv)
        return Said(code, *self._capsys.readouterr())

    def ok(self, *argv: str) -> Said:
        """Run what must not fail."""
        said = self(*argv)
        assert said.code == 0, said
        return said

    def json(self, *argv: str) -> dict[str, Any]:
        """The JSON answer of what must not fail."""
        return self.ok(*argv, "--json").json

    def create(self, title: str = "a card", *flags: str) -> str:
        """The id of a new card."""
        return self.json("create", title, *flags)["task"]["id"]

    def claim(self, card: str) -> tuple[str, ...]:
        """Claim *card* by hand; the flags that speak for its run."""
        got = self.json("claim", card)
        return "--run", str(got["run"]), "--lock", got["lock"]

    def position(self) -> int:
        """Where the board's log ends."""
        return self.json("stats")["position"]

    def bytes(self) -> list[tuple[str, Any]]:
        """The store's files; on a server its rows, and by which transactions they were written."""
        if self.url.startswith("postgresql"):
            return sorted(homes.rows(self.url).items())
        return [
            (path.name, path.read_bytes()) for path in sorted(self.home.glob("ledger.db*")) if "shm" not in path.name
        ]

    def outside(self, *statements: str) -> None:
        """What another program does to the store, and keeps to no rule."""
        store = ledgers.Ledger(self.url, connect(self.url))
        audits.outside(store, *statements)
        store.engine.dispose()


@pytest.fixture(scope="session")
def founded(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home after `ledger init`, to be copied."""
    return homes.founded(engine_name, tmp_path_factory.mktemp("founded") / engine_name)


@pytest.fixture
def lend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[Home], Ledger]]:
    """Copies a home for the test, whose caller is ada, in Berlin, in an empty folder."""
    for name in [name for name in os.environ if name.startswith("LEDGER_")]:
        monkeypatch.delenv(name)
    here, folder = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    monkeypatch.chdir(here)
    with ExitStack() as until_the_end:

        def lent(home: Home) -> Ledger:
            for name, value in homes.variables(folder, until_the_end.enter_context(home.lent(folder))).items():
                monkeypatch.setenv(name, value)
            return Ledger(folder, capsys)

        output.zone.cache_clear()
        yield lent


@pytest.fixture(scope="session")
def guarded() -> Iterator[Server]:
    """A server that is no other test's: it asks `ann` for her password, who may make databases."""
    with doors.guarded() as server:
        server.ask("CREATE ROLE reader LOGIN; ALTER ROLE ann CREATEDB")
        yield server


@pytest.fixture
def bare(engine_name: str, lend: Callable[[Home], Ledger]) -> Ledger:
    """No store yet; on PostgreSQL a database with nothing in it."""
    return lend(homes.nothing(engine_name))


@pytest.fixture
def ledger(founded: Home, lend: Callable[[Home], Ledger]) -> Ledger:
    """A board without cards, and without assignees."""
    return lend(founded)


@pytest.fixture
def fleet(ledger: Ledger) -> Ledger:
    """A board with assignees: builder (sleeps), crasher (exits 3) and dana (a person)."""
    (ledger.home / "ledger.toml").write_text(PROBES)
    return ledger


@pytest.fixture
def worker(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> tuple[Ledger, str]:
    """Inside the environment of the worker of a claimed card, whose id comes along."""
    card = ledger.create("mine", "--assignee", "builder")
    got = ledger.json("claim", card)
    for name, value in {"TASK": card, "RUN": str(got["run"]), "LOCK": got["lock"]}.items():
        monkeypatch.setenv(f"LEDGER_{name}", value)
    return ledger, card
