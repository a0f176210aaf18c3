"""How a store gets its tables: Alembic, in one locked transaction, by `ledger init` and `ledger db upgrade` only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection, Engine, MetaData, inspect, text
from sqlalchemy.exc import IntegrityError, ProgrammingError

from ledger.database import connect, masked, reading, serves_hosts, writing
from ledger.errors import StoreDamaged, StoreMissing, StoreMoved, StoreMoving, StoreOutdated, StoreTooNew
from ledger.schema import REVISION

if TYPE_CHECKING:
    from alembic.config import Config

    from ledger.moved import Move


T = TypeVar("T")
_TRIES: Final = 3
_VERSIONS: Final = (
    "CREATE TABLE alembic_version"
    " (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
"""As Alembic makes it where it is missing."""
_SECTOR: Final = 512  # bytes: no page of SQLite's is smaller


def open_store(url: str) -> Engine:
    """An engine on an existing store of exactly this program's revision.

    Raises `StoreMissing`, `StoreOutdated`, `StoreTooNew`, `StoreMoving`, `StoreMoved`, `StoreDamaged`; it never
    creates or changes anything.
    """
    engine = connect(url)
    try:
        check_revision(engine, url)
    except BaseException:
        engine.dispose()
        raise
    return engine


def check_revision(engine: Engine, url: str) -> None:
    """Refuse a store of another revision, naming what was found."""
    found = revision(engine)
    if found is None:
        raise StoreMissing(masked(url), "a database without a ledger in it")
    if not found.isdecimal():
        _check_moved(engine, url)
        found = revision(engine) or found  # unless that move has ended meanwhile
    if found < REVISION:
        raise StoreOutdated(masked(url), found, REVISION)
    if found > REVISION:
        raise StoreTooNew(masked(url), found, REVISION)


def _check_moved(engine: Engine, url: str) -> None:
    """Refuse a store that is being moved, or was: its revision is a word."""
    from ledger.moved import MOVED

    move = mark_of(engine)
    if move is not None:
        raise StoreMoved(move.other) if move.state == MOVED else StoreMoving(masked(url), move.other)


def mark_of(engine: Engine) -> Move | None:
    """The mark of a move that the store carries; none also where there is no store."""
    from ledger.moved import move_of

    for _ in range(_TRIES):
        with looking(engine) as tx, suppress(ProgrammingError):  # a move that ends meanwhile takes its table along
            return move_of(tx) if _is_versioned(tx) else None
    return None


def revision(engine: Engine) -> str | None:
    """The revision that the store's tables have, or none where there are none. Raises `StoreDamaged`."""
    _check_size(engine, _SECTOR)
    with looking(engine) as tx:
        if not serves_hosts(engine):
            _check_size(engine, tx.exec_driver_sql("PRAGMA page_size").scalar_one())
        if not _is_versioned(tx):
            return None
        found = tx.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found is not None and not isinstance(found, str):
        raise StoreDamaged(f"the store is damaged: its revision is {found!r}", remedy="restore a copy")
    return found


def _is_versioned(tx: Connection) -> bool:
    """Whether the table of revisions is there. Asked as SQLAlchemy does it takes a server longer than most commands."""
    if tx.dialect.name == "sqlite":
        return inspect(tx).has_table("alembic_version")
    return tx.exec_driver_sql("SELECT to_regclass('alembic_version')").scalar() is not None


def _check_size(engine: Engine, page: int) -> None:
    """SQLite reads what is missing of a last page as zeros, and says nothing; a write-ahead log may have it whole."""
    path = _file(engine)
    if path is not None and not _has(path, "-wal", "-journal") and path.stat().st_size % page:
        said = "the store is damaged: file is not a database, or its last page was cut short"
        raise StoreDamaged(said, remedy="restore a copy")


@contextmanager
def looking(engine: Engine) -> Iterator[Connection]:
    """One snapshot of what may be another program's: a write-ahead log beside it stays where it is."""
    path = _file(engine)
    if path is None or not _has(path, "-wal"):
        with reading(engine) as tx:
            yield tx
        return
    from ledger.copies import open_to_look

    with reading(open_to_look(path)) as tx:
        yield tx


def _file(engine: Engine) -> Path | None:
    """The store's file, or none where it has a server or is no file of its own."""
    return None if serves_hosts(engine) or engine.url.database is None else Path(engine.url.database)


def _has(path: Path, *suffixes: str) -> bool:
    """Whether SQLite is at work on the file, or was when it died: a log lies beside it."""
    logs = [Path(f"{path}{suffix}") for suffix in suffixes]
    return any(log.exists() and log.stat().st_size for log in logs)


def upgrade(engine: Engine, metadata: MetaData | None = None) -> str:
    """Bring the store's tables to this program's revision, all steps in one locked transaction; twice is harmless."""
    founding(engine, lambda tx: make_tables(tx, metadata))
    return REVISION


def founding(engine: Engine, act: Callable[[Connection], T]) -> T:
    """What *act*, which makes tables, comes to in a transaction; again where another process made them meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return _committed(engine, act)
        except (ProgrammingError, IntegrityError):
            continue
    return _committed(engine, act)


def _committed(engine: Engine, act: Callable[[Connection], T]) -> T:
    with writing(engine) as tx:
        return act(tx)


def make_tables(tx: Connection, metadata: MetaData | None = None, *, new: bool = False) -> None:
    """Bring the tables that *tx* sees to this program's revision; they are locked meanwhile, and till it ends.

    *new*: there are none, and where another has made some by now the database refuses it.
    """
    from alembic import command

    if new:
        tx.exec_driver_sql(_VERSIONS)
    elif tx.dialect.name != "sqlite" and inspect(tx).has_table("alembic_version"):  # SQLite's writer is alone already
        tx.execute(text("SELECT version_num FROM alembic_version FOR UPDATE"))
    if not tx.in_transaction():
        tx.begin()  # where Alembic finds no transaction of Core's, it commits each step for itself
    with as_file(files("migrations")) as folder:
        command.upgrade(_config(str(folder), tx, metadata), "head")


def differences(engine: Engine, metadata: MetaData) -> None:
    """Raise Alembic's `AutogenerateDiffsDetected` if revisions and declared tables disagree."""
    from alembic import command

    with as_file(files("migrations")) as folder, writing(engine) as tx:
        command.check(_config(str(folder), tx, metadata))


def _config(folder: str, tx: Connection, metadata: MetaData | None) -> Config:
    from alembic.config import Config

    config = Config(stdout=StringIO())  # what Alembic would say is not ours to print
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = tx
    config.attributes["metadata"] = metadata
    return config
