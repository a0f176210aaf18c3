"""SQLite: one file, no server; its engine, its transactions and its errors.

Write-ahead log, `synchronous=FULL`, foreign keys on, file mode 0600, one fair gate (a file lock beside the store)
before `BEGIN IMMEDIATE`, so that writers wait their turn and are not starved by a busy handler. The newer of the
standard library's SQLite and the `pysqlite3` wheel's is taken, once, for all: before 3.51.3 a write-ahead log that
several processes write can be corrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import DatabaseError as DriverError

from ledger import driver
from ledger.errors import (
    StoreBusy,
    StoreDamaged,
    StoreExists,
    StoreFault,
    StoreFull,
    StoreMissing,
    StoreMoved,
    StoreReplaced,
    StoreUnsupported,
)
from ledger.gate import Kept, gate
from ledger.idle import connection, keep_idle
from ledger.masked import masked
from ledger.schema import SEALED

BUSY_TIMEOUT: Final = 30
"""Seconds that a writer waits for another before `StoreBusy`."""
SAFE_SQLITE: Final = (3, 51, 3)
"""The first SQLite whose write-ahead log is safe with several writing processes."""
_GATE: Final = "gate"


_REMEDY: Final = "use sqlite:////path/to/ledger.db or postgresql+psycopg://USER@HOST/NAME"


sqlite_module = driver.sqlite_module
_driver: Any = sqlite_module()


def sqlite_path(url: str) -> Path:
    """The file behind a SQLite *url*. Raises `StoreUnsupported` for any other address."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreUnsupported(f"{masked(url)!r} is no database address", remedy=_REMEDY) from None
    except ValueError:  # a port that is no number: what is secret in it cannot be told
        raise StoreUnsupported("a port that is no number", remedy=_REMEDY) from None
    if parsed.get_backend_name() != "sqlite":
        raise StoreUnsupported(f"{masked(url)}: that is neither SQLite nor PostgreSQL", remedy=_REMEDY)
    if parsed.database in {None, "", ":memory:"}:
        raise StoreUnsupported(f"{masked(url)}: a ledger needs a file", remedy="use sqlite:////path/to/ledger.db")
    return Path(str(parsed.database)).absolute()


def whole(url: str) -> str:
    """*url* with an absolute path: it means the same file in another folder. Raises `StoreUnsupported`."""
    path, address = str(sqlite_path(url)), make_url(url)
    return url if address.database == path else address.set(database=path).render_as_string(hide_password=False)


def connect(url: str, *, create: bool = False) -> Engine:
    """An engine on the store at *url*. Without *create* a file that is missing or empty is `StoreMissing`."""
    path = sqlite_path(url)
    if not create:
        _must_exist(url, path)
    else:
        _make_private(url, path)
    try:
        engine = create_engine(
            make_url(url).set(database=str(path)),
            module=_driver,
            connect_args={"timeout": BUSY_TIMEOUT},
            max_overflow=-1,  # any number of threads may read at once: `keep_idle` keeps their connections
        )
    except NoSuchModuleError as fault:
        raise StoreUnsupported(f"{masked(url)}: {fault}") from None
    event.listen(engine, "do_connect", partial(_must_be_there, url, path))
    event.listen(engine, "connect", partial(_prepare, url, path))
    event.listen(engine, "begin", _begin)
    for ended in ("close", "detach"):
        event.listen(engine, ended, _close_gate)
    keep_idle(engine)
    return engine


class transaction:  # noqa: N801 – a class: at every command a generator costs three times as much
    """A transaction that has begun, committed at the end, rolled back on any exception; writers pass the fair gate."""

    __slots__ = ("_engine", "_lent", "_turn", "_tx", "_writes")

    def __init__(self, engine: Engine, *, to_write: bool) -> None:
        self._engine, self._writes = engine, to_write
        self._turn: gate | None = None

    def __enter__(self) -> Connection:
        self._lent = connection(self._engine)
        self._tx = tx = self._lent.__enter__()
        try:
            if self._writes:
                turn = _gate_of(self._engine, tx)
                turn.__enter__()
                self._turn = turn
            _begin(_meant(tx, immediate=self._writes))
        except BaseException:
            self._let_go(*sys.exc_info())
            raise
        return tx

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        if kind is None:
            try:
                self._commit()
            except BaseException:
                self._let_go(*sys.exc_info())
                raise
        self._let_go(kind, *more)

    def _commit(self) -> None:
        raw: Any = self._tx.connection.dbapi_connection
        end: Any = self._tx if self._tx.in_transaction() else raw  # Core, where it was asked, has begun for itself
        end.commit()

    def _let_go(self, *ended: Any) -> None:
        turn = self._turn or nullcontext()
        if ended[0] is None:
            turn.__exit__(*ended)  # while the connection, with which the gate's file is kept, is still ours
            self._lent.__exit__(*ended)
            return
        try:
            self._lent.__exit__(*ended)  # which rolls back: only then it is another's turn
        finally:
            turn.__exit__(*ended)


@contextmanager
def apart(engine: Engine) -> Iterator[Connection]:
    """A transaction that is rolled back in any case: what is made in it, in the schema `temp`, goes with it."""
    with connection(engine) as tx:
        begun = _meant(tx, immediate=False).begin()
        try:
            yield tx
        finally:
            begun.rollback()


def _meant(tx: Connection, *, immediate: bool) -> Connection:
    """*tx*, about to begin as a writer or as a reader; mostly it was the same before."""
    known = tx.get_execution_options().get("immediate")
    return tx if known is immediate else tx.execution_options(immediate=immediate)


def _gate_of(engine: Engine, tx: Connection) -> gate:
    """The store's gate, whose file stays open as long as the connection, which nobody else uses meanwhile."""
    kept = tx.info.get(_GATE)
    if kept is None:
        kept = tx.info[_GATE] = Kept()
    return gate(_gate_path(str(engine.url.database)), timeout=BUSY_TIMEOUT, kept=kept)


def _close_gate(_dbapi: object, record: Any) -> None:
    if _GATE in record.info:
        record.info.pop(_GATE).close()


@lru_cache(maxsize=64)
def _gate_path(database: str) -> Path:
    return Path(f"{database}.gate")


def settle(_tx: Connection) -> None:
    """Nothing waits: a file is told at once."""


def translated(fault: BaseException) -> Exception | None:
    """What *fault*, the driver's or SQLAlchemy's, means in our words; none where it is neither's."""
    match fault:
        case DBAPIError():
            return _translate(fault, str(fault.orig))
        case UnicodeDecodeError():  # the driver's: in a text, or in what SQLite itself says of a broken schema
            return StoreDamaged(f"the store is damaged: {fault}", remedy="stop all writers and restore a copy")
        case _driver.Error():  # from the driver's own cursor: `ledger.prepared`
            return _translate(fault, str(fault))
        case _:
            return None


def of_store(fault: BaseException) -> StoreFault | None:
    """What *fault* says of the whole store, or none where it is that of one statement.

    Where a disk is full SQLite rolls the whole transaction back by itself, and what came after would stand alone.
    """
    driver = fault.orig if isinstance(fault, DBAPIError) else fault
    if "could not decode" in str(driver).lower():
        return None  # one row that holds no text
    found = _translate(driver, str(driver)) if isinstance(driver, _driver.Error) else None
    return found if isinstance(found, StoreBusy | StoreDamaged | StoreFull | StoreMoved) else None


def _translate(fault: Exception, text: str) -> Exception:
    match text.lower():
        case low if low.startswith(SEALED):
            return StoreMoved(text.removeprefix(SEALED))
        case low if "locked" in low or "busy" in low:
            return StoreBusy(f"another writer held the store: {text}", remedy="run the command again")
        case low if "disk is full" in low or "readonly" in low or "disk i/o" in low or "unable to open" in low:
            return StoreFull(
                f"the store cannot be written: {text}", remedy="free space or mend permissions, then retry"
            )
        case low if any(said in low for said in ("malformed", "not a database", "corrupt", "could not decode")):
            return StoreDamaged(f"the store is damaged: {text}", remedy="stop all writers and restore a copy")
        case low if "no such table" in low or "no such column" in low:
            return StoreDamaged(f"the store lacks a table: {text}", remedy="ledger db status")
        case _ if isinstance(fault, OperationalError | DriverError | _driver.DatabaseError):
            return StoreFault(f"the store cannot be read: {text}", remedy="ledger replay")
        case _:
            return fault


def _must_exist(url: str, path: Path) -> None:
    if not path.exists():
        raise StoreMissing(masked(url))
    if not path.is_file():
        raise StoreMissing(masked(url), "that is no file")
    if path.stat().st_size == 0:
        raise StoreMissing(masked(url), "the file is empty")
    _refuse_one_byte(url, path)


def _make_private(url: str, path: Path) -> None:
    if path.exists() and not path.is_file():
        raise StoreExists(f"{masked(url)}: that is no file", remedy="choose another --database")
    _refuse_one_byte(url, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():  # opening a live file outside SQLite would drop this process's locks on it
            with suppress(FileExistsError):  # another process founds it at this moment
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as fault:
        raise StoreFull(f"{path}: {fault.strerror}", remedy="choose a folder that you can write to") from None


def _must_be_there(url: str, path: Path, *_connection: object) -> None:
    """SQLite makes a file where none is: a store that was taken away would come back empty."""
    if not path.exists():
        raise StoreMissing(masked(url))


def _refuse_one_byte(url: str, path: Path) -> None:
    """SQLite takes a file of one byte for an empty one, and would write over it."""
    if path.exists() and path.stat().st_size == 1:
        raise StoreDamaged(f"{masked(url)}: file is not a database", remedy="choose another --database")


def _prepare(url: str, path: Path, dbapi: Any, record: Any) -> None:
    record.info["opened"] = url, str(path), _file(str(path))
    dbapi.isolation_level = None  # we say BEGIN ourselves
    cursor = dbapi.cursor()
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "cache_size=-16000", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(tx: Connection) -> None:
    """Let *tx* begin, if it has not. The driver begins by itself on a connection to a copy, which nobody writes."""
    raw: Any = tx.connection.dbapi_connection
    info = tx.info
    if raw.in_transaction or "opened" not in info:
        return
    _must_be_the_same(*info["opened"])
    immediate = tx.get_execution_options().get("immediate", False)
    if immediate and "journal" not in info:  # at the first write only: opening must not change a foreign file
        info["journal"] = raw.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    raw.execute("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _must_be_the_same(url: str, path: str, opened: tuple[int, int]) -> None:
    """A file that was removed or replaced under an open connection takes writes that nobody will ever read."""
    found = _file(path)
    if found is None:
        raise StoreMissing(masked(url), "the file was removed while it was open")
    if found != opened:
        raise StoreReplaced(masked(url))


def _file(path: str) -> tuple[int, int] | None:
    """Which file stands at *path*, or none."""
    try:
        found = os.stat(path)  # noqa: PTH116 – at every transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino
