"""A verified copy put into a database of a server: in one transaction, beside what stands there, and then exchanged.

What stood there is kept in a schema of its own, `before_<position>`. Whoever dies in the middle has changed nothing.
"""

from __future__ import annotations

import secrets
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect

from kanban.objections import Standing, allowed, looked_at
from kanban.restore import Restored
from kanban.soundness import CopyUnsound, Progress, Sound, heads_of, part, verify
from ledger import schemas
from ledger.copies import open_copy
from ledger.database import connected, masked, reading, writing
from ledger.errors import StoreBusy, StoreMissing
from ledger.moved import hold_all
from ledger.sessions import others
from ledger.upgrade import make_tables
from projections.carried import carry, differing


def restore_to_server(file: Path, url: str, *, board: str, force: bool, dry_run: bool, progress: Progress) -> Restored:
    """As `restore`, into the database at *url*, which is made where it may be."""
    sound = verify(file, progress=part(progress, 0, of=2))
    with connected(url, create=not dry_run) as engine:
        standing = _look(engine, url)
        notes = allowed(standing, sound, file, _at_work(engine, standing), force=force)
        kept = _kept(engine, standing, board)
        if not dry_run:
            _put(engine, file, sound, standing, kept=kept, progress=part(progress, 1, of=2))
    return Restored(file, sound.heads, kept and f"schema {kept}", notes, dry_run)


def _look(engine: Engine, url: str) -> Standing:
    try:
        with reading(engine) as tx:
            there = bool(inspect(tx).get_table_names())
    except StoreMissing:
        there = False
    name = masked(url)
    return looked_at(url, name, engine) if there else Standing(url, name, there=False, heads={})


def _at_work(engine: Engine, standing: Standing) -> list[str]:
    """Those of this program's processes that have the store open; others wait for the exchange, or it for them."""
    if not standing.there:
        return []
    with reading(engine) as tx:
        return [str(session) for session in others(tx) if session.ours]


def _kept(engine: Engine, standing: Standing, board: str) -> str | None:
    """A free name for the schema that keeps what stands there."""
    if not standing.there:
        return None
    end = standing.furthest(board)
    first = f"before_{'unreadable' if end is None else end.position}"
    with reading(engine) as tx:
        return next(
            name
            for name in (first if number == 1 else f"{first}_{number}" for number in count(1))
            if not schemas.exist(tx, name)
        )


def _put(engine: Engine, file: Path, sound: Sound, standing: Standing, *, kept: str | None, progress: Progress) -> None:
    copy = open_copy(file)
    with reading(copy) as source, writing(engine) as tx:
        tx.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        current, new = schemas.here(tx), f"ledger_{secrets.token_hex(4)}"
        schemas.make(tx, new)
        schemas.look_into(tx, new)
        _fill(tx, source, file, sound, progress)
        schemas.look_into(tx, current)
        _check_still(tx, standing)
        schemas.exchange(tx, new, current, kept)
        tx.exec_driver_sql("ANALYZE")


def _fill(tx: Connection, source: Connection, file: Path, sound: Sound, progress: Progress) -> None:
    make_tables(tx)
    carry(source, tx, progress=progress)
    off = differing(source, tx)
    if off is not None or heads_of(tx) != sound.heads:
        raise CopyUnsound(file, f"it changed while it was read: {off or 'boards'}")


def _check_still(tx: Connection, standing: Standing) -> None:
    """Nobody writes to what stands there any more, and it is as it was looked at."""
    if not standing.heads:
        return
    hold_all(tx)
    if heads_of(tx) != standing.heads:
        raise StoreBusy(f"{standing.name} was written to meanwhile", remedy="run the command again")
