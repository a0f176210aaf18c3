"""The fair gate: a file lock that writers wait for, with a limit on the wait.

Handing a lock to a process that sleeps costs more than a commit. So a writer that finds the gate shut first looks
again at short intervals, while those that are awake go through one after the other, and only then queues in the
kernel, which serves in turn: nobody waits long, and many writers get through nearly as fast as one.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import Final
from weakref import WeakSet

from ledger.errors import StoreBusy, StoreFull

_LOOKING: Final = 0.025
"""Seconds that a writer looks for the gate to be open before it queues."""
_FIRST_NAP: Final = 0.002
_LONGEST_NAP: Final = 0.005


_ALL: Final[WeakSet[Kept]] = WeakSet()


class Kept:
    """The open file of a gate between two turns of one user: to open it again costs more than to lock it.

    A process that is forked lets go of it: it would hold the lock of a parent that was killed in its turn.
    """

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self) -> None:
        self._descriptor: int | None = None
        _ALL.add(self)

    def taken(self) -> int | None:
        """The descriptor, now the caller's; none where there is none, or the file has gone and others use a new one."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None or os.fstat(descriptor).st_nlink > 0:
            return descriptor
        os.close(descriptor)
        return None

    def given_back(self, descriptor: int) -> None:
        """Unlock it, and keep it for the next turn."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        self._descriptor = descriptor

    def close(self) -> None:
        """Let it go."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    __del__ = close


def _let_go_of_all() -> None:
    for kept in list(_ALL):
        kept.close()


os.register_at_fork(after_in_child=_let_go_of_all)


class gate:  # noqa: N801 – a generator costs more
    """Hold the file lock *path*. Raises `StoreBusy` after *timeout* seconds.

    A holder that dies lets go. One that is stopped in the middle holds everybody up, so the wait has a limit. *kept* is
    for one user at a time, never for two threads or processes: what they share they would hold together.
    """

    __slots__ = ("_descriptor", "_kept", "_path", "_timeout")

    def __init__(self, path: Path, *, timeout: float, kept: Kept | None = None) -> None:
        self._path, self._timeout, self._kept = path, timeout, kept

    def __enter__(self) -> None:
        found = None if self._kept is None else self._kept.taken()
        self._descriptor = _opened(self._path) if found is None else found
        begun = time.monotonic()
        if _found_open(self._descriptor, begun + min(self._timeout, _LOOKING)):
            return
        left = max(0.0, begun + self._timeout - time.monotonic())
        if not _Turn(self._descriptor).comes(left):
            raise StoreBusy(
                f"another writer has held {self._path} for {self._timeout:g} seconds",
                remedy=f"see who: lslocks | grep {self._path}; then retry",
            )

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._kept is not None:
            self._kept.given_back(self._descriptor)
        else:
            os.close(self._descriptor)


def _found_open(descriptor: int, until: float) -> bool:
    """Whether the gate was found open by *until*, and is ours."""
    nap = _FIRST_NAP
    try:
        while not _locked(descriptor):
            if time.monotonic() >= until:
                return False
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
    except BaseException:
        os.close(descriptor)
        raise
    return True


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Turn:
    """A place in the queue. The kernel's wait has no limit, so a thread waits; given up, it lets go by itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._settled = threading.Lock()
        self._given_up = False
        self._mine = threading.Event()
        threading.Thread(target=self._queue, daemon=True).start()

    def comes(self, seconds: float) -> bool:
        """Whether it is our turn within *seconds*; else the place is given up, as by an interrupted wait."""
        try:
            return self._mine.wait(seconds) or not self._gives_up()
        except BaseException:
            if not self._gives_up():
                os.close(self._descriptor)
            raise

    def _gives_up(self) -> bool:
        """Whether the place could be given up before the turn came."""
        with self._settled:
            self._given_up = not self._mine.is_set()
            return self._given_up

    def _queue(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._settled:
            if self._given_up:
                os.close(self._descriptor)
            self._mine.set()


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as fault:
        raise StoreFull(f"{path}: {fault.strerror}", remedy="free space or mend permissions, then retry") from None
