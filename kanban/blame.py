"""Whether the store is to blame for a fault of this program: looked for only after one."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Connection, Engine, Integer, Table, select

from ledger.database import reading
from ledger.errors import LedgerError, StoreDamaged
from ledger.upgrade import open_store
from projections import tables
from projections.replay import replay

_LAST: Final = 253_402_300_799_999_999  # the year 9999 in microseconds
_REMEDY: Final = "ledger replay says what was changed; restore a copy, or ledger db rebuild where the log is whole"


def blamed(url: str, board: str, fault: Exception) -> StoreDamaged | None:
    """That a value in the store is not what this program wrote, so that *fault* came of it; none where all is well."""
    try:
        engine = open_store(url)
        try:
            found = _changed(engine, board)
        finally:
            engine.dispose()
    except Exception as worse:  # noqa: BLE001 – a replay goes on to the end of whatever this program wrote
        found = worse.message if isinstance(worse, LedgerError) else repr(worse)
    if found is None:
        return None
    said = f"a stored value cannot be read ({type(fault).__name__}): {found}"
    return StoreDamaged(said, remedy=_REMEDY)


def _changed(engine: Engine, board: str) -> str | None:
    """The first value that is not what this program wrote, in words."""
    divergences = replay(engine, board, strict=True).divergences
    if divergences:
        first = divergences[0]
        return first.text if first.position is None else f"position {first.position}: {first.text}"
    with reading(engine) as tx:
        return next((text for table in (tables.leases, tables.held, tables.sweeps) for text in _odd(tx, table)), None)


def _odd(tx: Connection, table: Table) -> list[str]:
    """Numbers of *table*, which no replay compares, that are none."""
    numbers = [column for column in table.columns if isinstance(column.type, BigInteger | Integer)]
    return [
        f"{table.name}.{column.name} is {value!r}"
        for column in numbers
        for value in tx.execute(select(column)).scalars()
        if not (isinstance(value, int) and 0 <= value <= _LAST) and not (value is None and column.nullable)
    ]
