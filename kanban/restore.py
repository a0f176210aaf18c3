"""A verified copy put where a store stands: in one step, and what stood there is kept beside it.

Refused, unless forced: a copy that is behind what stands there or has another history, a store that others have open,
one that cannot be read. Refused always: a copy that does not verify, and one of another ledger.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kanban.backup import drafted, place_of
from kanban.config_files import same
from kanban.holders import holders
from kanban.objections import RestoreRefused, Standing, allowed, forced, looked_at
from kanban.soundness import Progress, Sound, check_alone, heads_of, verify
from ledger.copies import BESIDE, alone, keep_write_ahead_log, settled
from ledger.database import BUSY_TIMEOUT, connect, is_postgres, sqlite_path
from ledger.errors import InvalidInput, NotFound, StoreBusy, StoreFault, StoreFull
from ledger.gate import gate
from ledger.standing import Head

__all__ = ["RestoreRefused", "Restored", "restore"]

_OF_THE_STORE: Final = ("-wal", "-journal")
"""What beside a store holds a part of it, and must be kept with it."""
_MOST_KEPT: Final = 1_000


@dataclass(frozen=True, slots=True)
class Restored:
    """What stands there now (or, after a dry run, would), where what stood there is kept, and what to be told."""

    file: Path | str
    heads: Mapping[str, Head]
    kept: Path | str | None
    notes: tuple[str, ...]
    dry_run: bool

    def as_json(self, board: str) -> dict[str, Any]:
        """The object that `ledger restore --json` prints for *board*."""
        kept = None if self.kept is None else str(self.kept)
        shown = {"file": str(self.file), **place_of(self.heads, board), "kept": kept}
        return {**shown, "dry_run": self.dry_run, "notes": list(self.notes)}


def restore(
    file: Path, url: str, *, board: str, force: bool = False, dry_run: bool = False, progress: Progress = None
) -> Restored:
    """Put a copy of *file* where the store at *url* stands; *board* gives what stood there its name.

    Raises `CopyUnsound`, `StoreTooNew`, `StoreOutdated`, `StoreExists` (another ledger) and, unless *force*,
    `RestoreRefused`; then nothing was changed.
    """
    if not file.is_file():
        raise NotFound(f"no copy is at {file}", remedy="name the file that ledger backup wrote")
    if is_postgres(url):
        from kanban.restore_server import restore_to_server

        return restore_to_server(file, url, board=board, force=force, dry_run=dry_run, progress=progress)
    return _to_file(file, url, board=board, force=force, dry_run=dry_run, progress=progress)


def _to_file(file: Path, url: str, *, board: str, force: bool, dry_run: bool, progress: Progress) -> Restored:
    address = sqlite_path(url)
    store = address.resolve()
    _check_source(file, store)
    if dry_run:
        sound = verify(file, progress=progress)
        standing = _look(url, store)
        notes = allowed(standing, sound, file, holders(store), force=force)
        return Restored(file, sound.heads, _kept(standing, store, board), notes, dry_run=True)
    store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with drafted(store) as draft:
        sound = _brought(file, draft, progress)
        with gate(Path(f"{address}.gate"), timeout=BUSY_TIMEOUT):
            standing = _look(url, store)
            notes = allowed(standing, sound, draft, holders(store), force=force)
            with _closed(standing, force=force) as more:
                kept = _switched(draft, store, _kept(standing, store, board))
    return Restored(file, sound.heads, kept, (*notes, *more), dry_run=False)


def _check_source(file: Path, store: Path) -> None:
    if store.exists() and file.samefile(store):
        raise InvalidInput(f"{file} is the store itself", remedy="name the file that ledger backup wrote")
    if store.is_dir():
        raise InvalidInput(f"{store} is a folder", remedy="--database sqlite:////path/to/ledger.db")
    check_alone(file, file)


def _brought(file: Path, draft: Path, progress: Progress) -> Sound:
    """Copy *file* to *draft*, verify what came, and make it ready to be written to."""
    shutil.copyfile(file, draft)
    sound = verify(draft, name=file, progress=progress)
    keep_write_ahead_log(draft)
    settled(draft)
    return sound


def _look(url: str, store: Path) -> Standing:
    if not store.exists() or store.stat().st_size == 0:
        return Standing(url, store, there=False, heads={})
    engine = connect(url)
    try:
        return looked_at(url, store, engine)
    finally:
        engine.dispose()


def _kept(standing: Standing, store: Path, board: str) -> Path | None:
    """A free name beside the store for what stands there; or the one that a restore gave it and was cut short."""
    if not standing.there:
        return None
    end = standing.furthest(board)
    first = Path(f"{store}.before-{'unreadable' if end is None else end.position}")
    names = (first, *(Path(f"{first}.{number}") for number in range(2, _MOST_KEPT)))
    return next(name for name in names if not os.path.lexists(name) or same(name, store))


@contextmanager
def _closed(standing: Standing, *, force: bool) -> Iterator[tuple[str, ...]]:
    """What stands there, as it was looked at, closed to everybody else; where that is forced, open as it may be."""
    with ExitStack() as stack:
        told: tuple[str, ...] = ()
        if standing.heads:
            engine = connect(standing.url)
            stack.callback(engine.dispose)
            try:
                changed = heads_of(stack.enter_context(alone(engine))) != standing.heads
            except StoreFault as fault:
                told = forced(standing, (f"somebody has it open: {fault.message}",), force=force)
            else:
                if changed:
                    raise StoreBusy(f"{standing.name} was written to meanwhile", remedy="run the command again")
        yield told


def _switched(draft: Path, store: Path, kept: Path | None) -> Path | None:
    """Keep what stands there as *kept*, and give its first name to *draft*. There is a store at every moment.

    A log left beside the new store would be taken for its own, so that goes before.
    """
    try:
        if kept is not None and not kept.exists():
            os.link(store, kept)
        for suffix in _OF_THE_STORE:
            part = Path(f"{store}{suffix}")
            with suppress(FileNotFoundError):  # there is none, or whoever had the store open has just folded it in
                if part.stat().st_size:
                    part.replace(f"{kept or f'{store}.before-missing'}{suffix}")
    except OSError as fault:
        raise StoreFull(f"{store} cannot be kept as {kept}: {fault.strerror}", remedy="restore elsewhere") from fault
    for suffix in BESIDE:
        Path(f"{store}{suffix}").unlink(missing_ok=True)
    draft.replace(store)
    settled(store.parent)
    return kept
