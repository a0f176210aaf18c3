"""The fair gate: a file lock that writers queue for, with a limit on the wait."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.errors import StoreBusy, StoreFull


@contextmanager
def gate(path: Path, *, timeout: float) -> Iterator[None]:
    """Hold the file lock *path*; the kernel serves waiters in turn. Raises `StoreBusy` after *timeout* seconds.

    A holder that dies lets go. One that is stopped in the middle holds everybody up, so the wait has a limit.
    """
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _Turn(descriptor).wait(timeout, path)
    try:
        yield
    finally:
        os.close(descriptor)


class _Turn:
    """A place in the queue. The kernel's wait has no limit, so a thread waits; given up, it lets go by itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._settled = threading.Lock()
        self._given_up = False
        self._mine = threading.Event()
        threading.Thread(target=self._queue, daemon=True).start()

    def wait(self, timeout: float, path: Path) -> None:
        """Return once it is our turn; an interrupted wait gives its place up too."""
        try:
            if self._mine.wait(timeout) or not self._gives_up():
                return
        except BaseException:
            if not self._gives_up():
                os.close(self._descriptor)
            raise
        raise StoreBusy(
            f"another writer has held {path} for {timeout:g} seconds", remedy=f"see who: fuser {path}; then retry"
        )

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
