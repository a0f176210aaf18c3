"""A verified copy put where a store stands: in one step, and what stood there is kept beside it.

Refused, unless forced: a copy that is behind what stands there or has another history, a store that others have open,
one that cannot be read. Refused always: a copy that does not verify, and one of another ledger.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine

from kanban.backup import drafted, place_of
from kanban.config_files import same
from kanban.holders import holders
from kanban.soundness import Progress, Sound, check_alone, heads_of, verify
from ledger.copies import BESIDE, alone, keep_write_ahead_log, open_copy, settled
from ledger.database import BUSY_TIMEOUT, connect, reading, sqlite_path
from ledger.errors import InvalidInput, LedgerError, NotFound, StoreBusy, StoreExists, StoreFault, StoreFull
from ledger.gate import gate
from ledger.store import Head, at_position
from ledger.upgrade import revision

_OF_THE_STORE: Final = ("-wal", "-journal")
"""What beside a store holds a part of it, and must be kept with it."""
_MOST_KEPT: Final = 1_000


class RestoreRefused(LedgerError):
    """Something would be lost, or left behind, by putting the copy there: `--force` does it all the same."""

    def __init__(self, store: Path, objections: tuple[str, ...]) -> None:
        super().__init__(
            f"{store} was not replaced: {'; '.join(objections)}",
            remedy="look again, then --force: what stands there is kept beside it",
        )
        self.objections = objections


@dataclass(frozen=True, slots=True)
class Restored:
    """What stands there now (or, after a dry run, would), where what stood there is kept, and what to be told."""

    file: Path
    heads: Mapping[str, Head]
    kept: Path | None
    notes: tuple[str, ...]
    dry_run: bool

    def as_json(self, board: str) -> dict[str, Any]:
        """The object that `ledger restore --json` prints for *board*."""
        kept = None if self.kept is None else str(self.kept)
        shown = {"file": str(self.file), **place_of(self.heads, board), "kept": kept}
        return {**shown, "dry_run": self.dry_run, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is at the store's address: where its logs end, or why they cannot be read; or nothing at all."""

    url: str
    store: Path
    there: bool
    heads: Mapping[str, Head]
    fault: str | None = None

    def kept(self, board: str) -> Path | None:
        """A free name beside the store for what stands there; or the one that a restore gave it and was cut short."""
        if not self.there:
            return None
        furthest = max(self.heads.values(), key=lambda end: end.position, default=None)
        end = self.heads.get(board, furthest)
        first = Path(f"{self.store}.before-{'unreadable' if end is None else end.position}")
        names = (first, *(Path(f"{first}.{number}") for number in range(2, _MOST_KEPT)))
        return next(name for name in names if not os.path.lexists(name) or same(name, self.store))


def restore(
    file: Path, url: str, *, board: str, force: bool = False, dry_run: bool = False, progress: Progress = None
) -> Restored:
    """Put a copy of *file* where the store at *url* stands; *board* gives what stood there its name.

    Raises `CopyUnsound`, `StoreTooNew`, `StoreOutdated`, `StoreExists` (another ledger) and, unless *force*,
    `RestoreRefused`; then nothing was changed.
    """
    address = sqlite_path(url)
    store = address.resolve()
    _check_source(file, store)
    if dry_run:
        sound = verify(file, progress=progress)
        standing = _look(url, store)
        notes = _allowed(standing, sound, file, force=force)
        return Restored(file, sound.heads, standing.kept(board), notes, dry_run=True)
    store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with drafted(store) as draft:
        sound = _brought(file, draft, progress)
        with gate(Path(f"{address}.gate"), timeout=BUSY_TIMEOUT):
            standing = _look(url, store)
            notes = _allowed(standing, sound, draft, force=force)
            with _closed(standing, force=force) as more:
                kept = _switched(draft, standing, board)
    return Restored(file, sound.heads, kept, (*notes, *more), dry_run=False)


def _check_source(file: Path, store: Path) -> None:
    if not file.is_file():
        raise NotFound(f"no copy is at {file}", remedy="name the file that ledger backup wrote")
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


def _look(url: str, store: Path) -> _Standing:
    if not store.exists() or store.stat().st_size == 0:
        return _Standing(url, store, there=False, heads={})
    engine = connect(url)
    try:
        return _Standing(url, store, there=True, heads=_heads_there(engine, store))
    except StoreExists:
        raise
    except (StoreFault, ValueError) as fault:  # the latter for a text that is none
        return _Standing(url, store, there=True, heads={}, fault=str(fault))
    finally:
        engine.dispose()


def _heads_there(engine: Engine, store: Path) -> Mapping[str, Head]:
    if revision(engine) is None:
        raise StoreExists(f"{store} is another program's database", remedy="choose another --database")
    with reading(engine) as tx:
        return heads_of(tx)


def _allowed(standing: _Standing, sound: Sound, copy: Path, *, force: bool) -> tuple[str, ...]:
    """All that speaks against putting *copy* there: raised as `RestoreRefused`, or told where it is forced."""
    found = [f"what stands there cannot be read: {standing.fault}"] if standing.fault is not None else []
    for board, there in standing.heads.items():
        found += _compared(standing, board, there, sound.heads.get(board), copy)
    if sound.doubts:
        found.append(f"a replay of the copy finds {len(sound.doubts)} divergences, first: {sound.doubts[0]}")
    others = holders(standing.store)
    if others:
        found.append(f"it is open in process {', '.join(map(str, others))}")
    return _forced(standing, tuple(found), force=force)


def _compared(standing: _Standing, board: str, there: Head, brought: Head | None, copy: Path) -> Iterator[str]:
    """What the copy would take away from *board*. Raises `StoreExists` where it is another ledger's."""
    if brought is None:
        yield f"board {board}, at position {there.position}, is not in the copy"
        return
    if brought.board_id != there.board_id:
        ids = f"its board {board} has id {brought.board_id}, the one here has {there.board_id}"
        raise StoreExists(f"the copy is of another ledger: {ids}", remedy="choose another --database")
    gone = there.position - brought.position
    if gone > 0:
        lost = f"{gone} event{'s' if gone > 1 else ''} would be gone"
        yield f"board {board} would go back from position {there.position} to {brought.position}: {lost}"
    here = there.hash if gone <= 0 else _hash_at(connect(standing.url), board, brought.position)
    came = brought.hash if gone >= 0 else _hash_at(open_copy(copy), board, there.position)
    if here != came:
        at = min(there.position, brought.position)
        yield f"board {board} has another history here than in the copy: they differ at position {at}"


def _hash_at(engine: Engine, board: str, position: int) -> bytes | None:
    try:
        with reading(engine) as tx:
            event = at_position(tx, board, position)
    except StoreFault:  # what cannot be read is not the same
        return None
    finally:
        engine.dispose()
    return None if event is None else event.hash


def _forced(standing: _Standing, objections: tuple[str, ...], *, force: bool) -> tuple[str, ...]:
    if objections and not force:
        raise RestoreRefused(standing.store, objections)
    return objections


@contextmanager
def _closed(standing: _Standing, *, force: bool) -> Iterator[tuple[str, ...]]:
    """What stands there, as it was looked at, closed to everybody else; where that is forced, open as it may be."""
    with ExitStack() as stack:
        told: tuple[str, ...] = ()
        if standing.heads:
            engine = connect(standing.url)
            stack.callback(engine.dispose)
            try:
                moved = heads_of(stack.enter_context(alone(engine))) != standing.heads
            except StoreFault as fault:
                told = _forced(standing, (f"somebody has it open: {fault.message}",), force=force)
            else:
                if moved:
                    raise StoreBusy(f"{standing.store} was written to meanwhile", remedy="run the command again")
        yield told


def _switched(draft: Path, standing: _Standing, board: str) -> Path | None:
    """Keep what stands there under its second name, and give the first to *draft*. There is a store at every moment.

    A log left beside the new store would be taken for its own, so that goes before.
    """
    store, kept = standing.store, standing.kept(board)
    try:
        if kept is not None and not kept.exists():
            os.link(store, kept)
        for suffix in _OF_THE_STORE:
            part = Path(f"{store}{suffix}")
            if part.exists() and part.stat().st_size:
                part.replace(f"{kept or f'{store}.before-missing'}{suffix}")
    except OSError as fault:
        raise StoreFull(f"{store} cannot be kept as {kept}: {fault.strerror}", remedy="restore elsewhere") from fault
    for suffix in BESIDE:
        Path(f"{store}{suffix}").unlink(missing_ok=True)
    draft.replace(store)
    settled(store.parent)
    return kept
