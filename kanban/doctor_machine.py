"""What is looked at from outside: SQLite's library, file system, permissions, packages, free space."""

from __future__ import annotations

import platform
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kanban.case import Case
from kanban.findings import Finding, error, info, listed, ok, warning
from ledger.copies import BESIDE
from ledger.database import SAFE_SQLITE, sqlite_module

MOUNTS: Final = Path("/proc/self/mounts")
ROOMS: Final = ("ledger", "projections", "kanban", "cli", "migrations")
OURS: Final = "kanban-ledger"
NETWORK: Final = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "beegfs",
        "gpfs", "gfs2", "ocfs2", "fuse.sshfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.ceph",
    }
)  # fmt: skip
"""File systems of several machines: the write-ahead log's index is shared memory, which they do not share."""
DOUBTFUL: Final = ("fuse.", "virtiofs", "vboxsf", "vmhgfs")
_MIB, _GIB = 2**20, 2**30
LITTLE, TOO_LITTLE = _GIB, 64 * _MIB
_WHEELS: Final = frozenset({("linux", "x86_64"), ("darwin", "arm64")})


def sqlite(_case: Case) -> Iterator[Finding]:
    """Which SQLite is in use."""
    module = sqlite_module()
    wheel = (sys.platform, platform.machine()) in _WHEELS
    yield of_sqlite(module.__name__.partition(".")[0], module.sqlite_version_info, wheel=wheel)


def of_sqlite(library: str, version: tuple[int, ...], *, wheel: bool) -> Finding:
    """Whether *version* has the fault of the write-ahead log; an error where a *wheel* would mend it."""
    known = f"SQLite {'.'.join(map(str, version))} by {library}"
    if version >= SAFE_SQLITE:
        return ok("sqlite", known)
    fault = f"{known}: before {'.'.join(map(str, SAFE_SQLITE))} a store that several processes write can be corrupted"
    if wheel:
        return error("sqlite", fault, "pip install 'pysqlite3>=0.6.1' in the environment of ledger")
    return warning("sqlite", fault, "use a Python whose sqlite3 is newer; until then take a ledger backup often")


def host(case: Case) -> Iterator[Finding]:
    """By which names cards and assignees are placed here."""
    yield ok("host", f"this is {case.host.name}, its id is {case.host.id}: --host and hosts = […] take either")


def file_system(case: Case) -> Iterator[Finding]:
    """Whether the store lies on a disk of this machine."""
    try:
        mounts = MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        yield info("file_system", "which file system the store is on cannot be told on this system")
        return
    yield of_mounts(case.store, mounts)


def of_mounts(store: Path, mounts: str) -> Finding:
    """Whether a write-ahead log works where *store* lies, by the table *mounts* of /proc."""
    point, kind = _mounted(store, mounts)
    where = f"{store} is on {point} ({kind})"
    move = "ledger backup /a/local/disk/ledger.db, then --database sqlite:////a/local/disk/ledger.db"
    if kind in NETWORK:
        return error("file_system", f"{where}, which machines share: a write-ahead log cannot work there", move)
    if kind.startswith(DOUBTFUL):
        return warning("file_system", f"{where}: a write-ahead log may not work there", move)
    return ok("file_system", where)


def _mounted(store: Path, mounts: str) -> tuple[Path, str]:
    """The mount point that *store* is under and its kind; of two at one place the later covers the earlier."""
    found = (Path("/"), "unknown")
    for line in mounts.splitlines():
        _, point, kind, *_ = (_unescaped(field) for field in line.split(" "))
        if store.is_relative_to(point) and len(Path(point).parts) >= len(found[0].parts):
            found = (Path(point), kind)
    return found


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)


def permissions(case: Case) -> Iterator[Finding]:
    """Whether the store, the home and the settings are this user's alone."""
    own = [] if case.served else [case.store, *(Path(f"{case.store}{suffix}") for suffix in BESIDE), case.gate]
    found = [*_private(own, 0o600), *_private([case.at.home], 0o700), *_settings(case.at.loaded.files)]
    what = "the home" if case.served else "the store, the home"
    yield from found or [ok("permissions", f"{what} and the settings are this user's alone")]


def _private(paths: Sequence[Path], wanted: int) -> Iterator[Finding]:
    for path, mode in _modes(paths):
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            yield error("permissions", f"others can write {path} (mode {mode:04o})", f"chmod {wanted:o} {path}")
        elif mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield warning("permissions", f"others can read {path} (mode {mode:04o})", f"chmod {wanted:o} {path}")


def _settings(files: Sequence[Path]) -> Iterator[Finding]:
    for path, mode in _modes(files):
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            text = f"others can write {path} (mode {mode:04o}), which says what the sweep starts"
            yield error("permissions", text, f"chmod go-w {path}")


def _modes(paths: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    for path in paths:
        if path.exists():
            yield path, stat.S_IMODE(path.stat().st_mode)


def packages(_case: Case) -> Iterator[Finding]:
    """Whether another distribution claims the names of our packages."""
    from importlib.metadata import packages_distributions

    yield from of_packages(packages_distributions())


def of_packages(claimed: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """*claimed*: package → the distributions that bring it."""
    others = {room: sorted({*claimed.get(room, ())} - {OURS, OURS.replace("-", "_")}) for room in ROOMS}
    for room, names in others.items():
        if names:
            text = f"the package {room} is brought by {listed(names)} too: one of them overwrites the other"
            yield error("packages", text, f"pipx install {OURS}, or uv tool install {OURS}: an environment of its own")
    if not any(others.values()):
        yield ok("packages", f"{', '.join(ROOMS)} are ours alone")


def disk(case: Case) -> Iterator[Finding]:
    """Whether there is room left."""
    for folder in dict.fromkeys(map(_there, [case.at.home] if case.served else [case.store.parent, case.at.home])):
        yield of_space(folder, shutil.disk_usage(folder).free)


def of_space(folder: Path, free: int) -> Finding:
    """*free* bytes are left where *folder* is."""
    text = f"{free // _MIB} MiB free in {folder}"
    if free < TOO_LITTLE:
        return error("disk", text, "ledger prune --older-than 1d, or free space otherwise")
    if free < LITTLE:
        return warning("disk", text, "ledger prune --older-than 7d")
    return ok("disk", text)


def _there(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


_Check = Callable[[Case], Iterator[Finding]]
OF_A_FILE: Final[tuple[_Check, ...]] = (sqlite, file_system)
"""What is looked at only where the store is a file of this machine."""
CHECKS: Final[tuple[_Check, ...]] = (sqlite, packages, host, file_system, disk, permissions)
