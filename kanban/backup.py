"""A copy of the whole store, taken while others write: one snapshot, verified before it has its name.

It is one SQLite file, whatever database the store is in, and may be restored into either.
Until then it lies beside the target under a name that begins with a dot, so whatever dies in between leaves no half
copy that could be mistaken for one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine

from kanban.soundness import Progress, heads_of, part, verify
from ledger.copies import BESIDE, settled, write_copy
from ledger.database import is_postgres, reading, serves_hosts, sqlite_path
from ledger.errors import InvalidInput, LedgerError, NotFound, StoreFull, UnknownBoard
from ledger.standing import Head
from ledger.upgrade import open_store
from projections.carried import write_out

_LEFT_BEHIND: Final = 3600  # seconds without a write after which nobody is at a draft any more


class CopyThere(LedgerError):
    """Something has the name that the copy was to get."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} is there already", remedy="choose another name, or --force to write over it")
        self.file = file


@dataclass(frozen=True, slots=True)
class Copied:
    """A verified copy: where each board's log ends in it, and what a replay of it finds amiss."""

    file: Path
    heads: Mapping[str, Head]
    doubts: tuple[str, ...]

    def as_json(self, board: str) -> dict[str, Any]:
        """The object that `ledger backup --json` prints for *board*."""
        return {"file": str(self.file), **place_of(self.heads, board), "notes": list(self.doubts)}


def backup(url: str, board: str, file: Path, *, force: bool = False, progress: Progress = None) -> Copied:
    """Copy the store at *url*, which has *board* in it, to *file*; readable by its owner alone.

    Raises `CopyThere` unless *force*; `CopyUnsound` if what was copied does not verify: then *file* is as it was.
    """
    _check_target(file, None if is_postgres(url) else sqlite_path(url).resolve(), force=force)
    engine = open_store(url)
    try:
        with reading(engine) as tx:
            if board not in heads_of(tx):
                raise UnknownBoard(board)
        with drafted(file) as draft:
            rest = _write(engine, draft, progress)
            sound = verify(draft, name=file, progress=rest)
            settled(draft)
            _publish(draft, file, force=force)
    except StoreFull as fault:
        raise StoreFull(f"{file}: {fault.message}", remedy=fault.remedy) from fault
    finally:
        engine.dispose()
    return Copied(file, sound.heads, sound.doubts)


def _write(engine: Engine, draft: Path, progress: Progress) -> Progress:
    """Copy the store into *draft*; who hears of what comes after that."""
    if not serves_hosts(engine):
        write_copy(engine, draft)
        return progress
    write_out(engine, draft, progress=part(progress, 0, of=2))
    return part(progress, 1, of=2)


def place_of(heads: Mapping[str, Head], board: str) -> dict[str, Any]:
    """`position` and `hash` of *board* (null where it is not), and of every board in `boards`."""
    places = {name: {"position": end.position, "hash": end.hash.hex()} for name, end in heads.items()}
    return {**places.get(board, {"position": None, "hash": None}), "boards": places}


@contextmanager
def drafted(file: Path) -> Iterator[Path]:
    """An empty file beside *file*, its owner's alone; what is left of it in the end is removed."""
    if not file.parent.is_dir():
        raise NotFound(f"{file.parent} is no folder", remedy=f"mkdir -p {file.parent}")
    _clear_left_behind(file)
    draft = file.with_name(f".{file.name}.{os.urandom(8).hex()}.part")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        yield draft
    finally:
        for suffix in ("", *BESIDE):
            Path(f"{draft}{suffix}").unlink(missing_ok=True)


def _check_target(file: Path, store: Path | None, *, force: bool) -> None:
    if store is not None and file.resolve() in {Path(f"{store}{suffix}") for suffix in ("", ".gate", *BESIDE)}:
        raise InvalidInput(f"{file} is the store itself", remedy="choose another name for the copy")
    for beside in (Path(f"{file}{suffix}") for suffix in BESIDE):
        if os.path.lexists(beside):
            raise InvalidInput(f"{beside} is there: {file.name} is a store in use", remedy="choose another name")
    if file.is_dir():
        raise InvalidInput(f"{file} is a folder", remedy=f"name the file: {file / 'ledger.db'}")
    if os.path.lexists(file) and not force:
        raise CopyThere(file)


def _publish(draft: Path, file: Path, *, force: bool) -> None:
    """Give the copy its name; without *force* only if nobody else has taken it meanwhile."""
    if force:
        draft.replace(file)
    else:
        _take_name(draft, file)
    settled(file.parent)


def _take_name(draft: Path, file: Path) -> None:
    try:
        os.link(draft, file)
    except FileExistsError:
        raise CopyThere(file) from None
    except OSError:  # a file system without hard links, such as a memory stick's
        if os.path.lexists(file):
            raise CopyThere(file) from None
        draft.replace(file)


def _clear_left_behind(file: Path) -> None:
    """Remove what earlier copies left here when they were killed."""
    for left in file.parent.glob(f".{escape(file.name)}.*.part*"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > _LEFT_BEHIND:
                left.unlink()
