"""Which board of which store is meant: flags, environment and configuration come to one address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kanban.config import ConfigFault, Loaded, home_of, load
from ledger.recorded import check_text


@dataclass(frozen=True, slots=True)
class Address:
    """A board's name, its store's URL (a secret: mask it before it is printed), and the settings that say so."""

    home: Path
    loaded: Loaded
    url: str
    board: str


def address_of(
    url: str | None,
    name: str | None,
    *,
    actor: str | None,
    config: Path | None,
    environ: Mapping[str, str],
    cwd: Path | None = None,
) -> Address:
    """What flags (none: not given), `LEDGER_*` and files mean. Opens nothing. Raises `ConfigFault`, `InvalidText`."""
    home = home_of(environ)
    loaded = load(config, environ, cwd or _here(), home, flags={"board": name, "database": url, "actor": actor})
    chosen = loaded.config
    for field in ("board", "database", "actor"):
        check_text(field, getattr(chosen, field) or "")
    return Address(home, loaded, chosen.database or _file_in(home), chosen.board or "default")


def _file_in(home: Path) -> str:
    """The address of a home's own store; what ends a path in an address, or is decoded there, is escaped."""
    return f"sqlite:///{str(home).replace('%', '%25').replace('?', '%3F')}/ledger.db"


def address_for_workers(url: str, own: str | None) -> str:
    """The address, whole, that workers of the store at *url* are given: *own* is `worker_database`, or none.

    No password of the operator's environment goes into theirs. Raises `ConfigFault` where it is of another store.
    """
    from sqlalchemy import make_url

    from ledger.database import is_postgres, whole

    ours = whole(url)
    if own is None:
        return ours
    if not (is_postgres(url) and is_postgres(own)):
        raise ConfigFault("worker_database is for a store on a server, and names one", remedy=_MEND)
    theirs, given_alone = make_url(whole(own)), make_url(own)
    here, there = (address.database or address.query.get("dbname") for address in (make_url(ours), theirs))
    if here != there:
        raise ConfigFault(f"worker_database is of database {there}, and the store is {here}", remedy=_MEND)
    if "password" not in given_alone.query:
        theirs = theirs.difference_update_query(["password"])
    return theirs.render_as_string(hide_password=False)


_MEND: Final = "mend worker_database in ledger.toml, or LEDGER_WORKER_DATABASE_URL"


def _here() -> Path:
    """The working folder; where that was removed, a path on which nothing is found."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.devnull)
