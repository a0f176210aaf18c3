"""Where the files of a run, a workspace and a host lie under the home folder, and how they are written whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ledger.errors import InvalidInput

LOG: Final = "log"
EXIT_RECORD: Final = "exit.json"
OWNER_RESULT: Final = "owner.json"
PROMPT: Final = "prompt.md"
RESULT: Final = "result"
TURNS: Final = "turns.json"
TURN_RESULT: Final = "turn.json"
LEASE: Final = "lease"
ENDING: Final = "ending"

_PRIVATE: Final = 0o700
_ROOM: Final = 64 * 1024  # bytes: a prompt, and the first lines of a log
_LONGEST_INSTANT: Final = 20  # digits; more is no instant


def run_folder(home: Path, board: str, task: str, run: int) -> Path:
    """The folder of one run: log, exit record, prompt and the other files of DESIGN §4."""
    return home.joinpath("boards", plain(board, "board"), "runs", plain(task, "task"), str(run))


def scratch_folder(home: Path, board: str, task: str) -> Path:
    """The card's own workspace, kept over all its runs."""
    return home.joinpath("boards", plain(board, "board"), "scratch", plain(task, "task"))


def worktree_folder(home: Path, board: str, task: str) -> Path:
    """The card's own git worktree, kept over all its runs."""
    return home.joinpath("worktrees", plain(board, "board"), plain(task, "task"))


def plain(name: str, field: str) -> str:
    """*name* if it names one folder; raises `InvalidInput` for whatever could lead to another place."""
    if name in {"", ".", ".."} or any(character in name for character in "/\\\0"):
        raise InvalidInput(f"{field} {name!r} cannot name a folder", remedy="use letters, digits, - and _")
    return name


def make_private(path: Path) -> Path:
    """Make *path* and its missing parents for this user alone (0700); folders above that exist stay as they are."""
    if not path.is_dir():
        for missing in reversed([folder for folder in path.parents if not folder.exists()]):
            missing.mkdir(mode=_PRIVATE, exist_ok=True)
        path.mkdir(mode=_PRIVATE, exist_ok=True)
    if path.stat().st_mode & ~_PRIVATE & 0o777:
        path.chmod(_PRIVATE)
    return path


def check_room(folder: Path) -> None:
    """Raise `OSError` where *folder* has no room for the files of a run, or may not be written."""
    probe = folder / f".room.{os.urandom(8).hex()}"
    try:
        with open(probe, "xb", opener=_privately) as file:
            file.write(bytes(_ROOM))
    finally:
        probe.unlink(missing_ok=True)


def write_ending(folder: Path, at: int) -> None:
    """Note that the supervisor was first seen gone at *at* (µs); the first writer wins (RULES §6)."""
    made = write_once(make_private(folder) / ENDING, f"{at}\n".encode())
    if not made and read_ending(folder) is None:
        replace(folder / ENDING, f"{at}\n".encode())


def read_ending(folder: Path) -> int | None:
    """When the supervisor was first seen gone (µs); None when nobody saw it or the file is garbage."""
    text = (read_file(f"{folder}/{ENDING}", limit=_LONGEST_INSTANT + 1) or b"").strip()
    return int(text) if text.isdigit() and len(text) <= _LONGEST_INSTANT else None


def read_file(path: Path | str, *, limit: int, offset: int = 0) -> bytes | None:
    """At most *limit* bytes of a file from *offset*; None when there is none. Never waits, whatever lies there."""
    try:  # without waiting for a writer: an agent may have put a pipe where a file belongs
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.pread(descriptor, limit, offset)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def write_once(path: Path, data: bytes) -> bool:
    """Write *path* whole unless it is there; whether this call made it. Of several at once exactly one does."""
    draft = _draft(path, data)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def replace(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write *path* whole or not at all, whatever dies meanwhile, and if *lasting* keep it over a loss of power."""
    draft = _draft(path, data, lasting=lasting)
    draft.replace(path)
    if not lasting:
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _draft(path: Path, data: bytes, *, lasting: bool = True) -> Path:
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 – a descriptor, not a path
        file.write(data)
        file.flush()
        if lasting:
            os.fsync(descriptor)
    return draft


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
