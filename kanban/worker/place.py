"""Where the owner of an assignee is found on this host: one private folder, in it two locks (the owner's,
and its agents') and a door (a socket)."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from kanban.folders import make_private, plain
from kanban.refusals import Contended

DOOR: Final = "door"
_LOCK: Final = "lock"
_TIES: Final = "agents"
_STEP: Final = 0.05
_LONGEST_PID: Final = 20
_PRIVATE: Final = 0o177  # what is masked of a new file's mode


_own: set[int] = set()  # descriptors of locks: a child of an owner, which may outlive it, is none


def _disown() -> None:
    while _own:
        os.close(_own.pop())


os.register_at_fork(after_in_child=_disown)


class OwnerRunning(Contended):
    """The assignee has an owner on this host already."""

    def __init__(self, assignee: str, pid: str) -> None:
        super().__init__(
            f"{assignee} has an owner on this host already: process {pid}",
            remedy=f"kill {pid}, which lets it end its turns first",
        )


def home_here(environ: Mapping[str, str]) -> Path:
    """The home of whoever has *environ*; where that names it, no settings are loaded to find it."""
    named = environ.get("LEDGER_HOME", "").strip()
    if named:
        return Path(named).absolute()
    from kanban.config import home_of

    return home_of(environ)


def folder_of(home: Path, host: str, assignee: str) -> Path:
    """The folder of the owner of *assignee* on *host*. Raises `InvalidInput` for a name that names no folder."""
    return home / "owners" / plain(host, "host") / plain(assignee, "assignee")


@contextmanager
def only_owner(folder: Path, assignee: str) -> Iterator[None]:
    """Be the one owner of *assignee* meanwhile. Raises `OwnerRunning` where there is one; death lets go of it too."""
    descriptor = os.open(make_private(folder) / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _own.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(descriptor, _LONGEST_PID, 0).decode("ascii", "replace").strip()
            raise OwnerRunning(assignee, pid) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        if descriptor in _own:
            _own.remove(descriptor)
            os.close(descriptor)


def tie(folder: Path) -> int:
    """A descriptor that says, as long as anybody has it open, that an agent of the owner in *folder* is there."""
    descriptor = _ties(folder)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def untied(folder: Path, patience: float) -> bool:
    """Wait at most *patience* seconds until no agent of an earlier owner in *folder* is there; whether none is."""
    descriptor = _ties(folder)
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_STEP)
            else:
                return True
    finally:
        os.close(descriptor)


def _ties(folder: Path) -> int:
    return os.open(folder / _TIES, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def listening(folder: Path) -> Iterator[socket.socket]:
    """The door, open for this user alone (0600); one that a dead owner left is taken away first."""
    path = folder / DOOR
    path.unlink(missing_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as door:
        before = os.umask(_PRIVATE)
        try:
            with _address(folder) as address:
                door.bind(address)
        finally:
            os.umask(before)
        door.listen()
        try:
            yield door
        finally:
            path.unlink(missing_ok=True)


def knock(folder: Path, timeout: float) -> socket.socket:
    """A connection to the door in *folder*. Raises OSError: where nobody opens, nothing was said to anybody."""
    caller = socket.socket(socket.AF_UNIX)
    try:
        caller.settimeout(timeout)
        with _address(folder) as address:
            caller.connect(address)
    except BaseException:
        caller.close()
        raise
    return caller


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The door's address through an open folder: a socket's own may have no more than 107 bytes."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}/{DOOR}"
    finally:
        os.close(opened)
