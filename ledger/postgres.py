"""PostgreSQL: one store for many hosts; its engine, its transactions and its errors.

Readers see one snapshot (`REPEATABLE READ`), writers lock the boards that they write to (`ledger.standing`),
so positions have no holes and are visible in order. The server's clock is the store's. What libpq reads from its
environment (`PGHOST`, `PGPASSFILE`, `PGSSLMODE` …) it reads here too.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ledger.errors import (
    LedgerError,
    StoreBusy,
    StoreDamaged,
    StoreDenied,
    StoreFault,
    StoreFull,
    StoreMissing,
    StoreMoved,
    StoreUnreachable,
    StoreUnsupported,
    WrongExpectedVersion,
)
from ledger.idle import Idle, drop, idle_of, keep_idle
from ledger.libpq import is_torn, of_connection, torn
from ledger.masked import masked
from ledger.prepared import LINE
from ledger.schema import SEALED
from ledger.sqlite import BUSY_TIMEOUT

try:
    import psycopg
    from psycopg import errors as pg

    from ledger.line import Line
    from ledger.whole import answered
except ImportError:
    raise StoreUnsupported(
        "psycopg, which speaks to PostgreSQL, is not installed", remedy="pip install 'kanban-ledger[postgres]'"
    ) from None

APPLICATION: Final = "kanban-ledger"
"""What connections of this program are called, unless their address says otherwise."""
CONNECT_TIMEOUT: Final = 10
"""Seconds for a new connection, unless the address or `PGCONNECT_TIMEOUT` says otherwise."""
IDLE_TIMEOUT: Final = 60
"""Seconds after which the server ends a transaction whose client has stopped in the middle, and frees its boards."""
_READING: Final = ("BEGIN ISOLATION LEVEL REPEATABLE READ",)
_BEGIN: Final = {True: ("BEGIN",), False: (f"{_READING[0]} READ ONLY",)}
_CHOSEN: Final = {
    "plan_cache_mode": ("auto", "force_generic_plan"),
    "enable_seqscan": ("on", "off"),
    "enable_sort": ("on", "off"),
}
"""A writer's plans, and what is usual: all that it says looks up keys, which no value could make a better plan for, and
which are no worse while a table is small; it may be large before the server looks at it again."""
_BY_KEYS: Final = "SELECT " + ", ".join(f"set_config('{name}', '{ours}', true)" for name, (_, ours) in _CHOSEN.items())
_IS_USUAL: Final = " AND ".join(f"current_setting('{name}', true) = '{usual}'" for name, (usual, _) in _CHOSEN.items())
_PREPARE: Final = f"""
SELECT current_setting('server_encoding'),
  {_IS_USUAL},
  CASE current_setting('lock_timeout') WHEN '0'
    THEN set_config('lock_timeout', '{BUSY_TIMEOUT}s', false) END,
  CASE current_setting('idle_in_transaction_session_timeout') WHEN '0'
    THEN set_config('idle_in_transaction_session_timeout', '{IDLE_TIMEOUT}s', false) END
"""


def connect(url: str, *, create: bool = False) -> Engine:
    """An engine on the database at *url*; nothing is asked of the server before it is used.

    With *create* a database that is not there is made. Raises `StoreUnsupported`, and then also `StoreUnreachable`.
    """
    address = _address(url)
    if create:
        _make_database(address)
    return _engine(address)


def whole(url: str) -> str:
    """*url* with all that it leaves to libpq's variables. Raises `StoreUnsupported`."""
    return answered(_address(url)).render_as_string(hide_password=False)


def _engine(address: URL) -> Engine:
    given: dict[str, Any] = {"application_name": "kanban-ledger", "client_encoding": "utf8", "prepare_threshold": 1}
    if "connect_timeout" not in address.query and "PGCONNECT_TIMEOUT" not in os.environ:
        given["connect_timeout"] = CONNECT_TIMEOUT
    named = {name: value for name, value in given.items() if name not in address.query}
    engine = create_engine(
        address,
        paramstyle="format",
        connect_args=named,
        use_native_hstore=False,
        pool_timeout=BUSY_TIMEOUT,
        pool_reset_on_return=None,
    )
    event.listen(engine, "do_connect", _line)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begins)
    keep_idle(engine, sound=_sound)
    return engine


@contextmanager
def transaction(engine: Engine, *, to_write: bool) -> Iterator[Connection]:
    """A transaction that has begun, committed at the end, rolled back on any exception.

    Where the server ended a connection that lay idle another one is taken: nothing was said on it yet.
    """
    idle = idle_of(engine)
    tx = _begun(idle, engine, to_write=to_write)
    try:
        yield tx
        tx.commit()
    except BaseException:
        drop(tx)  # what the server knows of it is rolled back there
        raise
    idle.give_back(tx)


@contextmanager
def apart(engine: Engine) -> Iterator[Connection]:
    """A transaction on a connection of its own, which is dropped in any case: temporary tables go with it.

    No statement was prepared on it before, so none means a table that a temporary one has hidden since.
    """
    tx = engine.connect()
    try:
        tx.execution_options(begin=_READING).begin()
        yield tx
    except DBAPIError as fault:
        if isinstance(fault.orig, pg.ReadOnlySqlTransaction):
            said = "this server is a standby: it makes no temporary tables, which a look back needs"
            raise StoreUnsupported(said, remedy="connect to the primary: target_session_attrs=read-write") from fault
        raise
    finally:
        drop(tx)


def _begun(idle: Idle, engine: Engine, *, to_write: bool) -> Connection:
    while (tx := idle.kept(engine)) is not None:
        try:
            return _begin(tx, to_write=to_write)
        except psycopg.OperationalError:
            drop(tx)
    tx = engine.connect()
    try:
        return _begin(tx, to_write=to_write)
    except BaseException:
        drop(tx)
        raise


def _begin(tx: Connection, *, to_write: bool) -> Connection:
    tx.execution_options(writes=to_write)
    tx.begin()
    return tx


def translated(fault: BaseException) -> Exception | None:
    """What *fault*, the driver's or SQLAlchemy's, means in our words; none where it is neither's."""
    match fault:
        case DBAPIError(orig=psycopg.Error() as told):
            return _translate(told) or fault
        case psycopg.Error():
            return _translate(fault) or fault
        case PoolTimeout():
            return StoreBusy(f"no connection came free: {fault}", remedy="run the command again")
        case _:
            return None


def of_store(fault: BaseException) -> StoreFault | None:
    """What *fault* says of the whole store, or none where it is that of one statement."""
    said = translated(fault)
    return said if isinstance(said, StoreBusy | StoreDamaged | StoreFull | StoreMoved | StoreUnreachable) else None


def _translate(fault: psycopg.Error) -> LedgerError | None:
    said = " ".join(str(fault).split())
    match fault:
        case pg.RaiseException() if said.startswith(SEALED):
            return StoreMoved(str(fault.diag.message_primary).removeprefix(SEALED))
        case pg.UniqueViolation() if fault.diag.table_name in {"events", "words", "boards", "tasks"}:
            return WrongExpectedVersion("", expected=None, actual=None)
        case pg.LockNotAvailable() | pg.DeadlockDetected() | pg.SerializationFailure() | pg.QueryCanceled():
            return StoreBusy(f"another writer held the board: {said}", remedy="run the command again")
        case pg.DiskFull() | pg.OutOfMemory() | pg.ReadOnlySqlTransaction():
            return StoreFull(f"the store cannot be written: {said}", remedy="free space, or connect to the primary")
        case pg.InsufficientPrivilege():
            return StoreDenied(said)
        case pg.DataCorrupted() | pg.IndexCorrupted():
            return StoreDamaged(f"the store is damaged: {said}", remedy="stop all writers and restore a copy")
        case pg.UndefinedTable() | pg.UndefinedColumn() | pg.UndefinedFunction():
            return StoreDamaged(f"the store lacks a table: {said}", remedy="ledger db status")
        case psycopg.OperationalError() | psycopg.InterfaceError() | pg.IdleInTransactionSessionTimeout():
            return of_connection(fault)
        case psycopg.DatabaseError() if not _found_twice(fault):
            return StoreFault(f"the store cannot be read: {said}", remedy="ledger replay")
        case _:
            return None


def _found_twice(fault: psycopg.Error) -> bool:
    """Whether another process made the same table at this moment: `ledger.upgrade` looks again."""
    return isinstance(fault, pg.DuplicateTable) or fault.diag.schema_name == "pg_catalog"


def _address(url: str) -> URL:
    try:
        parsed = make_url(url)
        address = parsed.set(drivername=_DRIVER)
        address.get_dialect()().create_connect_args(address)  # are there as many ports as hosts?
    except (ArgumentError, ValueError):
        raise StoreUnsupported(f"{masked(url)!r} is no database address", remedy=_REMEDY) from None
    if parsed.drivername not in {"postgres", "postgresql", _DRIVER}:
        raise StoreUnsupported(f"{masked(url)}: PostgreSQL is spoken to by psycopg", remedy=_REMEDY)
    if is_torn(url):
        raise torn(masked(url))
    return address


_DRIVER: Final = "postgresql+psycopg"
_REMEDY: Final = "use postgresql+psycopg://USER@HOST/NAME"


def _make_database(address: URL) -> None:
    """Make the database that *address* names, unless it is there or its server's own rules forbid it."""
    engine = _engine(address)
    try:
        with engine.connect():
            return
    except DBAPIError as fault:
        said, name = translated(fault), _asked_for(fault)
        if not isinstance(said, StoreMissing) or name is None:
            raise said or fault from fault
    finally:
        engine.dispose()
    elsewhere = address.difference_update_query(["dbname"]).set(database="postgres")
    _make_in(_engine(elsewhere), address, name)


def _asked_for(fault: DBAPIError) -> str | None:
    """The name of the database that was asked for: it may be the environment's, or a service's."""
    connection: Any = getattr(fault.orig, "pgconn", None)
    return None if connection is None else connection.db.decode()


def _make_in(maintenance: Engine, address: URL, name: str) -> None:
    quoted = maintenance.dialect.identifier_preparer.quote_identifier(name)
    try:
        with maintenance.connect() as tx:
            driver: Any = tx.connection.driver_connection
            driver.execute(f"CREATE DATABASE {quoted} ENCODING 'UTF8' TEMPLATE template0")
    except (pg.DuplicateDatabase, pg.UniqueViolation):  # another process made it at this moment
        pass
    except (psycopg.Error, DBAPIError) as fault:
        said = f"no database {name!r}, and it could not be made: {fault}"
        raise StoreMissing(masked(address.render_as_string()), said) from fault
    finally:
        maintenance.dispose()


def _line(_dialect: Any, _record: Any, given: Any, named: Any) -> Line:
    return Line.connect(*given, **named)


def _prepare(dbapi: Any, record: Any) -> None:
    dbapi.autocommit = True  # we say BEGIN ourselves
    record.info[LINE] = dbapi
    encoding, is_usual, *_ = dbapi.execute(_PREPARE).fetchone()
    if is_usual:  # not where somebody chose otherwise, nor where the server knows of neither
        record.info["begin"] = (*_BEGIN[True], _BY_KEYS)
    if encoding != "UTF8":
        raise StoreUnsupported(f"the database is encoded in {encoding}", remedy="create it with ENCODING 'UTF8'")


def _begins(tx: Connection) -> None:
    line: Any = tx.connection.dbapi_connection
    options = tx.get_execution_options()
    writes = options.get("writes", False)
    line.begin(options.get("begin") or (writes and tx.info.get("begin")) or _BEGIN[writes])


def say_later(tx: Connection, statement: str, values: Sequence[Any]) -> None:
    """Run a *statement* with what is asked next, or with the commit: see `ledger.line`."""
    line: Any = tx.connection.dbapi_connection
    line.later(statement, values)


def settle(tx: Connection) -> None:
    """Run what was said to be run later. Raises what the server has against it."""
    line: Any = tx.connection.dbapi_connection
    line.settle()


def _sound(tx: Connection) -> bool:
    """Whether nothing has come from the server since the last answer: else it has ended the connection."""
    driver: Any = None if tx.invalidated else tx.connection.dbapi_connection
    return driver is not None and not driver.closed and not select.select([driver.fileno()], [], [], 0)[0]
