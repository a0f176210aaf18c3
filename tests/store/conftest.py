"""One fresh store for each test, on each database, empty or with a lived-in log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests import audits, doors, hands, ledgers, servers
from tests.databases import Databases
from tests.servers import Server


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed SQLite store with the board `b` in it: migrating takes 70 ms, copying does not."""
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    ledgers.new_ledger(path).engine.dispose()
    return path


@pytest.fixture(scope="session")
def lived(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed SQLite store whose rows fill every column of the projections that a legal log can fill."""
    path = tmp_path_factory.mktemp("lived") / "ledger.db"
    store = ledgers.copied(template, path)
    audits.live(store)
    store.engine.dispose()
    return path


Lend = Callable[[str], AbstractContextManager[ledgers.Ledger]]


@pytest.fixture(scope="session")
def lend(engine_name: str, request: pytest.FixtureRequest) -> Lend:
    """Lends stores, as many as a test wants: `with lend("founded") as store`, or `"lived"`."""
    return partial(_served if engine_name == "postgresql" else _copied, request=request)


@pytest.fixture
def store(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ledgers.Ledger]:
    """A fresh store with the board `b` and its first event; a file is `ledger.db` in `tmp_path`."""
    with _lent(engine_name, "founded", request, tmp_path) as ledger:
        yield ledger


@pytest.fixture
def board(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ledgers.Ledger]:
    """A store of its own with the lived-in log."""
    with _lent(engine_name, "lived", request, tmp_path) as ledger:
        yield ledger


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Replays with jobs need no other process; who gave each answer: see `tests.hands`."""
    with hands.here(monkeypatch) as found:
        yield found


@pytest.fixture(scope="session")
def guarded(engine_name: str) -> Iterator[Server]:
    """A server with doors, which is no other test's: see `tests.doors`."""
    with doors.guarded() as server:
        yield server


@pytest.fixture(scope="session")
def rooms(guarded: Server) -> Iterator[Databases]:
    """Its databases."""
    with doors.rooms(guarded) as databases:
        yield databases


@pytest.fixture
def url(rooms: Databases) -> Iterator[str]:
    """The address of a store in it, with the board `b`."""
    with rooms.lent("founded") as url:
        yield url


def _lent(
    engine: str, name: str, request: pytest.FixtureRequest, folder: Path
) -> AbstractContextManager[ledgers.Ledger]:
    return _served(name, request) if engine == "postgresql" else _in(folder, name, request)


@pytest.fixture
def nothing(engine_name: str, tmp_path: Path) -> Iterator[str]:
    """The address of a store that is not there."""
    if engine_name == "sqlite":
        yield f"sqlite:///{tmp_path}/elsewhere/ledger.db"
    else:
        with servers.shared().lent() as url:
            yield url


@contextmanager
def _served(name: str, request: pytest.FixtureRequest) -> Iterator[ledgers.Ledger]:
    databases = servers.shared()
    databases.template(name, {"founded": _found, "lived": _live}[name])
    with databases.lent(name) as url, _opened(url) as ledger:
        yield ledger


@contextmanager
def _copied(name: str, request: pytest.FixtureRequest) -> Iterator[ledgers.Ledger]:
    with TemporaryDirectory() as folder, _in(Path(folder), name, request) as ledger:
        yield ledger


@contextmanager
def _in(folder: Path, name: str, request: pytest.FixtureRequest) -> Iterator[ledgers.Ledger]:
    file = request.getfixturevalue({"founded": "template", "lived": "lived"}[name])
    with _opened(ledgers.copy_of(file, folder / "ledger.db")) as ledger:
        yield ledger


@contextmanager
def _opened(url: str) -> Iterator[ledgers.Ledger]:
    ledger = ledgers.opened(url)
    yield ledger
    ledger.engine.dispose()


def _found(url: str) -> None:
    ledgers.founded(url).engine.dispose()


def _live(url: str) -> None:
    store = ledgers.founded(url)
    audits.live(store)
    store.engine.dispose()
