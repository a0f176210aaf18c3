"""Homes for the command line, made once and copied for each test; on PostgreSQL with a database of their own each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from cli import output
from cli.app import run
from tests import databases, servers

_NOWHERE: Final = Path("/nonexistent")
_MADE: Final[dict[str, Path]] = {}
"""The folders of the homes whose databases are templates, by name."""


@dataclass(frozen=True)
class Home:
    """A home that is made: its folder, and on PostgreSQL the template that its database is a copy of."""

    folder: Path
    template: str | None

    def then(self, name: str, make: Callable[[Path], None], folder: Path) -> Home:
        """A copy of it in *folder*, called *name*, with what *make* does in it, its environment being the caller's."""
        copied_folder(self.folder, folder)
        if self.template is None:
            with environment(folder):
                make(folder)
            return Home(folder, None)
        if name in _MADE:  # a template is made once a process, a fixture of the session perhaps more often
            copied_folder(_MADE[name], folder)
        else:
            servers.shared().template(name, _made(make, folder), of=self.template)
            _MADE[name] = folder
        return Home(folder, name)

    @contextmanager
    def lent(self, folder: Path) -> Iterator[str | None]:
        """A copy in *folder* for as long as the block lasts; the address of its database, where it has a server."""
        copied_folder(self.folder, folder)
        if self.template is None:
            yield None
            return
        with servers.shared().lent(self.template) as url:
            yield url


def nothing(engine: str) -> Home:
    """No home, and on PostgreSQL an empty database."""
    if engine == "postgresql":
        servers.shared()  # now, while the environment may still name another server
    return Home(_NOWHERE, None if engine == "sqlite" else databases.EMPTY)


def founded(engine: str, folder: Path) -> Home:
    """A home on *engine* after `ledger init`, in *folder*."""
    return nothing(engine).then("founded by the command line", _init, folder)


@contextmanager
def environment(home: Path, url: str | None = None) -> Iterator[None]:
    """The environment of ada in Berlin, whose home is *home*, with her store at *url*."""
    kept = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("LEDGER_")]:
        del os.environ[name]
    os.environ.update(variables(home, url))
    output.zone.cache_clear()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def variables(home: Path, url: str | None = None) -> dict[str, str]:
    """What `environment` sets."""
    named = {} if url is None else {"LEDGER_DATABASE_URL": url}
    return {"LEDGER_HOME": str(home), "USER": "ada", "TZ": "Europe/Berlin", **named}


def copied_folder(source: Path, target: Path) -> None:
    """Copy *source*, if it is there."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)


def rows(url: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the database at *url* by table, each with the transaction that wrote it."""
    with psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True) as raw:
        tables = raw.execute("SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND oid >= 16384").fetchall()
        return {name: raw.execute(f"SELECT xmin::text, * FROM {name} ORDER BY 2").fetchall() for (name,) in tables}


def _init(_home: Path) -> None:
    assert run(["init", "--quiet"]) == 0


def _made(make: Callable[[Path], None], folder: Path) -> Callable[[str], None]:
    def filled(url: str) -> None:
        with environment(folder, url):
            make(folder)

    return filled
