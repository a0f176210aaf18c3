"""The lease of a run as its supervisor reads it, on this machine's own clock (RULES §7.4).

Where several hosts share a store, the clocks of host and server need not agree. Whoever grants or renews a lease reads
this machine's uptime first and adds to it what the store says is left: so the file never claims more than the store
gave. The supervisor ends its group by it, before another host may book the run as lost.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

from kanban.folders import LEASE, read_file, replace
from kanban.hosts import Host
from ledger.clock import SECOND
from projections.policy import Policy
from projections.run import Run

_SHAPE: Final = re.compile(rb"1 ([0-9]{1,20}) ([0-9]{1,20}) ([0-9]{1,20})\n")
_LONGEST: Final = 256  # bytes; what is longer is no lease
_SINCE_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime() -> int:
    """Microseconds since this machine was started, its sleep included: no step of the wall clock moves it."""
    return time.clock_gettime_ns(_SINCE_BOOT) // 1_000


def write_lease(folder: Path, until: int, policy: Policy) -> None:
    """Let the run of *folder* go on until the *uptime* `until`; whole or not at all. Raises OSError."""
    said = f"1 {' '.join(map(str, _ends(until, policy)))}\n"
    replace(folder / LEASE, said.encode(), lasting=False)  # no process outlives the power


def renew_file(folder: Path, run: Run, host: Host, until: int, policy: Policy) -> None:
    """As `write_lease`, if the supervisor of *run* reads it there: it is one of this machine since its last start.

    One of another machine, or of a dispatcher with another home, reads another file. One that knows it already is not
    told again. Raises OSError.
    """
    group = run.group
    is_here = run.by == "spawn" and group is not None and (group.host, group.boot) == (host.id, host.boot)
    if is_here and folder.is_dir() and not _says(folder, until, policy):
        write_lease(folder, until, policy)


def _ends(until: int, policy: Policy) -> tuple[int, int, int]:
    """TERM to the group; KILL to the command, after the grace for stops but at most half of that for leases; KILL to

    whatever is left, at three quarters of it: at its end another host may start the card again.
    """
    grace = policy.lease_grace * SECOND
    return until, until + min(policy.stop_grace * SECOND, grace // 2), until + grace * 3 // 4


def _says(folder: Path, until: int, policy: Policy) -> bool:
    """Whether the lease in *folder* says about that: two readings of the clocks differ by the time between them."""
    said = _SHAPE.fullmatch(read_file(folder / LEASE, limit=_LONGEST) or b"")
    if said is None:
        return False
    off = [abs(int(known) - wanted) for known, wanted in zip(said.groups(), _ends(until, policy), strict=True)]
    return max(off) < min(SECOND, policy.lease_grace * SECOND // 8)
