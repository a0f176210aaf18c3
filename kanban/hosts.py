"""Which machine this is, as every binding names it: host id, boot id and pid namespace (RULES §6)."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kanban.folders import make_private, read_file, write_once
from ledger.errors import LedgerError

_MACHINE_ID: Final = Path("/etc/machine-id")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
_KEPT: Final = "host-id"
_ID_DIGITS: Final = 12
_GIB: Final = 1024**3
_LEAST_CAP, _MOST_CAP = 2, 8


class HostUnknown(LedgerError):
    """The id that this machine was given cannot be read, so no process could be told from another's."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine since its last start, seen from one pid namespace ("" where the system has none)."""

    id: str
    name: str
    boot: str
    namespace: str

    @property
    def names(self) -> tuple[str, str]:
        """What people call it where they place cards and assignees: its id or its node name."""
        return self.id, self.name

    def is_among(self, hosts: Collection[str]) -> bool:
        """Whether *hosts* name it; none at all name every host."""
        return not hosts or not set(self.names).isdisjoint(hosts)


def this_host(home: Path) -> Host:
    """This machine now. Its id: `LEDGER_HOST_ID`, else made of the machine id, else random and kept in *home*."""
    return Host(id=_host_id(home), name=os.uname().nodename, boot=_boot(), namespace=_namespace())


def known_host(home: Path | None) -> Host | None:
    """This machine, as it has been named before; none where it never was. Nothing is made."""
    named = os.environ.get("LEDGER_HOST_ID", "").strip() or _machine_id()
    if not named and home is not None:
        named = _text(home / _KEPT)
    return Host(id=named, name=os.uname().nodename, boot=_boot(), namespace=_namespace()) if named else None


def default_cap() -> int:
    """How many spawned runs this machine bears unless configured: one a GiB of memory, 2 to 8 (RULES §5)."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(_LEAST_CAP, min(_MOST_CAP, memory // _GIB))


def _host_id(home: Path) -> str:
    return os.environ.get("LEDGER_HOST_ID", "").strip() or _machine_id() or _kept_id(home)


def _machine_id() -> str | None:
    machine = _text(_MACHINE_ID)
    if machine in {"", "uninitialized"}:  # what systemd leaves in an image that has not been started
        return None
    return hashlib.sha256(f"kanban-ledger:{machine}".encode()).hexdigest()[:_ID_DIGITS]


def _kept_id(home: Path) -> str:
    path = home / _KEPT
    if not home.exists():
        make_private(home)
    if not path.exists():
        write_once(path, f"{secrets.token_hex(_ID_DIGITS // 2)}\n".encode())
    kept = _text(path)
    if not kept:
        raise HostUnknown(f"{path} is empty or cannot be read", remedy=f"rm {path}, once no run of this host is open")
    return kept


def _boot() -> str:
    return _text(_BOOT_ID) or _boot_time()


def _boot_time() -> str:
    import psutil

    return str(int(psutil.boot_time()))


def _namespace() -> str:
    try:
        return str(_PID_NAMESPACE.readlink())
    except OSError:
        return ""


def _text(path: Path) -> str:
    return (read_file(path, limit=256) or b"").decode("ascii", "replace").strip()
