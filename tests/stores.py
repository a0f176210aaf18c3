"""Stores as released programs left them, kept for ever: `python -m tests.stores` makes those of this revision.

tests/fixtures/stores/README.md says when. Each is a lived-in board, as a SQLite file and as what a server was told.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from sqlalchemy import event, select

from ledger.database import connect, reading
from ledger.schema import REVISION
from ledger.upgrade import upgrade
from projections.folding import FOLD_VERSION
from projections.tables import metadata
from tests import audits, ledgers, servers

FOLDER: Final = Path(__file__).parent / "fixtures" / "stores"
KNOWN: Final = FOLDER / "known.json"
"""Revision → where the log ends, its hash, the fold's version and the digest that it makes of the log."""
SUFFIXES: Final = {"sqlite": "db", "postgresql": "sql"}
OPERATIONAL: Final = (
    "DELETE FROM words WHERE position = 21",  # which was redacted
    "INSERT INTO leases VALUES ('b', 't_a', 2, 7, NULL), ('b', 't_p', 1, 8, 9)",
    "INSERT INTO held VALUES ('b', 't_a', 'cooldown_until', 5, 6)",
    "INSERT INTO sweeps VALUES ('b', 'host', 5, NULL, 0)",
    "INSERT INTO measures VALUES ('b', 'host', 'sweep.observe', 0.5, 6)",
)
"""What no log tells: rows of every table that no event makes."""


def known() -> dict[str, dict[str, Any]]:
    """The revisions of which stores are kept, and what is known of each."""
    found: dict[str, dict[str, Any]] = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    return found


def kept(revision: str, engine: str) -> bytes:
    """The store of *revision*: a file, or the statements that make it."""
    return gzip.decompress((FOLDER / f"{revision}.{SUFFIXES[engine]}.gz").read_bytes())


def opened(revision: str, engine: str, folder: Path, url: str) -> ledgers.Ledger:
    """It, on *engine*: a file in *folder*, or the empty database at *url*; of that revision, so perhaps not usable."""
    if engine == "sqlite":
        path = folder / "ledger.db"
        path.write_bytes(kept(revision, engine))
        return ledgers.Ledger(f"sqlite:///{path}", connect(f"sqlite:///{path}"))
    with psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True) as tx:
        tx.execute(kept(revision, engine))
    return ledgers.Ledger(url, connect(url))


def lived(ledger: ledgers.Ledger) -> None:
    """Fill a store that was just founded, every column of every table."""
    audits.live(ledger)
    for statement in OPERATIONAL:
        ledger.sql(statement)


def make() -> None:
    """Write the stores of this program's revision. Raises `FileExistsError` for one that is kept already."""
    for suffix in SUFFIXES.values():
        if (FOLDER / f"{REVISION}.{suffix}.gz").exists():
            raise FileExistsError(f"the stores of revision {REVISION} are kept already")
    with tempfile.TemporaryDirectory() as folder:
        store = ledgers.new_ledger(Path(folder) / "ledger.db")
        lived(store)
        audit = audits.audit(store)
        assert audit.divergences == (), audit.divergences
        _keep("db", _told_to_a_server(store), Path(folder))
    told = {"position": audit.position, "hash": audit.hash, "fold": FOLD_VERSION, "digest": audit.digest}
    KNOWN.write_text(json.dumps(known() | {REVISION: told}, indent=2) + "\n")


def _keep(suffix: str, statements: str, folder: Path) -> None:
    (FOLDER / f"{REVISION}.{suffix}.gz").write_bytes(gzip.compress((folder / "ledger.db").read_bytes(), mtime=0))
    (FOLDER / f"{REVISION}.sql.gz").write_bytes(gzip.compress(statements.encode(), mtime=0))


def _told_to_a_server(store: ledgers.Ledger) -> str:
    """The statements of the revisions, as they are sent, and then all rows of *store*, which is closed."""
    statements: list[str] = []
    with servers.shared().lent() as url:
        engine = connect(url)
        event.listen(engine, "before_cursor_execute", lambda *said: statements.append(_whole(*said)))
        upgrade(engine)
        engine.dispose()
        with psycopg.connect(url.replace("+psycopg", "", 1)) as tx:
            statements += _rows(store, tx)
    store.engine.dispose()
    return "".join(f"{statement.strip()};\n" for statement in statements if not statement.lstrip().startswith("SELECT"))


def _whole(*said: Any) -> str:
    _connection, _cursor, statement, values, *_ = said
    assert not values or statement.lstrip().startswith("SELECT"), statement
    return str(statement).replace("%%", "%")


def _rows(store: ledgers.Ledger, to: psycopg.Connection) -> list[str]:
    with reading(store.engine) as tx:
        return [
            sql.SQL("INSERT INTO {} VALUES ({})")
            .format(sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Literal, row)))
            .as_string(to)
            for table in metadata.sorted_tables
            for row in tx.execute(select(table))
        ]


if __name__ == "__main__":
    make()
    sys.stdout.write(f"kept: {REVISION}\n")
