"""Which board of which store is meant: flags, environment and configuration come to one address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kanban.config import Loaded, home_of, load
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
    return Address(home, loaded, chosen.database or f"sqlite:///{home}/ledger.db", chosen.board or "default")


def _here() -> Path:
    """The working folder; where that was removed, a path on which nothing is found."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.devnull)
