"""A home with a board in it, and the command line run in this process."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli import output
from cli.app import run

PROBES = """\
[assignees.builder]
command = ["sh", "-c", "echo working; sleep 60"]
[assignees.crasher]
command = ["sh", "-c", "echo boom; exit 3"]
[assignees.dana]
human = true
"""


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

    def bytes(self) -> list[tuple[str, bytes]]:
        """The store's files."""
        return [
            (path.name, path.read_bytes()) for path in sorted(self.home.glob("ledger.db*")) if "shm" not in path.name
        ]


@pytest.fixture(scope="session")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home after `ledger init`, to be copied."""
    home = tmp_path_factory.mktemp("founded")
    kept = dict(os.environ)
    os.environ["LEDGER_HOME"] = str(home)
    try:
        assert run(["init", "--quiet"]) == 0
    finally:
        os.environ.clear()
        os.environ.update(kept)
    return home


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ledger:
    """No store yet; the caller is ada, in Berlin, in an empty folder."""
    for name in [name for name in os.environ if name.startswith("LEDGER_")]:
        monkeypatch.delenv(name)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for name, value in {"LEDGER_HOME": str(tmp_path / "home"), "USER": "ada", "TZ": "Europe/Berlin"}.items():
        monkeypatch.setenv(name, value)
    output.zone.cache_clear()
    return Ledger(tmp_path / "home", capsys)


@pytest.fixture
def ledger(bare: Ledger, founded: Path) -> Ledger:
    """A board without cards, and without assignees."""
    shutil.copytree(founded, bare.home)
    return bare


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
