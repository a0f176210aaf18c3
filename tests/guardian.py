"""Stops the PostgreSQL of a test run and removes its folder when the run is gone: also when it was killed by force.

A process of its own: `python guardian.py PARENT FOLDER`. A run that ends in the ordinary way stops its server itself,
and then this process.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

PROGRAMS = ("postgres", "initdb")


def main(parent: int, folder: Path) -> None:
    """Wait for the end of *parent*, then leave nothing behind that lives in *folder*."""
    while os.getppid() == parent:
        time.sleep(0.2)
    found = living(folder)
    for process in found:
        process.send_signal(signal.SIGQUIT)  # a server takes it as: now, and without ceremony
    for process in await_end(found, seconds=30):
        process.kill()
    while folder.exists():  # what `initdb` had started may still write
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.02)


def living(folder: Path) -> list[psutil.Process]:
    """The programs of PostgreSQL that were told to work in *folder*; what they started ends with them."""
    seen = psutil.process_iter(["name", "cmdline"])
    return [it for it in seen if it.info["name"] in PROGRAMS and str(folder / "data") in (it.info["cmdline"] or ())]


def await_end(processes: Iterable[psutil.Process], *, seconds: float) -> list[psutil.Process]:
    """Wait until *processes* have ended, and name those that have not; who is only not reaped yet has ended."""
    until = time.monotonic() + seconds
    left = list(processes)
    while left and time.monotonic() < until:
        time.sleep(0.005)
        left = [each for each in left if _runs(each)]
    return left


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
