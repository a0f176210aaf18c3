"""`make bench` and `make bench-peers`: measure the rows that are asked for, print the table, exit 1 on a missed target.

python -m benchmarks.run [--peers] [ROWS]        ROWS: names from GROUPS with commas; default: all
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from benchmarks.measure import HEADER, SCALE, Row
from ledger.database import sqlite_module

GROUPS: Final = (
    "commands",
    "growth",
    "bulk",
    "replay",
    "sweep",
    "writers",
    "queries",
    "startup",
    "disk",
    "looking",
    "dashboard",
    "postgres",
)
ALSO: Final = {"append": "commands", "start-up": "startup"}
"""Other names that people type."""
ROOT: Final = Path(__file__).resolve().parent.parent / ".bench"
"""Beside the project and not in /tmp, which may be memory: a sync there would cost nothing."""


def main(argv: list[str]) -> int:
    """Measure and print; 0, or 1 where a target was missed."""
    beside_peers = "--peers" in argv
    chosen = [name for argument in argv if argument != "--peers" for name in argument.split(",") if name]
    groups = [ALSO.get(name, name) for name in chosen] or list(GROUPS)
    unknown = set(groups) - set(GROUPS)
    if unknown:
        print(f"no such rows: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    load = " ".join(f"{part:.2f}" for part in os.getloadavg())
    print(f"SQLite {sqlite_module().sqlite_version}, scale {SCALE:g}, {os.cpu_count()} CPUs, load {load}\n\n{HEADER}")
    missed = [row for group in groups for row in _shown(group, beside_peers=beside_peers) if not row.kept]
    print(f"\n{len(missed)} missed" if missed else "\nall kept")
    return 1 if missed else 0


def _shown(group: str, *, beside_peers: bool) -> Iterator[Row]:
    """The rows of *group*, each printed as soon as it is known; its files are gone afterwards."""
    module = import_module(f"benchmarks.{group}")
    ROOT.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{group}-", dir=ROOT))
    try:
        for row in _measured(module, scratch, beside_peers=beside_peers):
            print(row.line(), flush=True)
            yield row
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        gc.collect()


def _measured(module: object, scratch: Path, *, beside_peers: bool) -> Iterator[Row]:
    if not beside_peers:
        yield from getattr(module, "rows", lambda _: ())(scratch)
    elif hasattr(module, "beside_peers"):
        from benchmarks.peers import peers_in

        with peers_in(ROOT) as peers:
            yield from module.beside_peers(scratch, peers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
