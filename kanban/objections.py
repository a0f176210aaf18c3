"""What speaks against putting a copy in a store's place, whatever database that is in: rules of every restore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from kanban.soundness import Sound, heads_of
from ledger.copies import open_copy
from ledger.database import connect, reading
from ledger.errors import LedgerError, StoreExists, StoreFault
from ledger.moved import MOVED, move_of
from ledger.standing import Head
from ledger.store import at_position
from ledger.upgrade import revision


class RestoreRefused(LedgerError):
    """Something would be lost, or left behind, by putting the copy there: `--force` does it all the same."""

    def __init__(self, store: Path | str, objections: tuple[str, ...]) -> None:
        super().__init__(
            f"{store} was not replaced: {'; '.join(objections)}",
            remedy="look again, then --force: what stands there is kept beside it",
        )
        self.objections = objections


@dataclass(frozen=True, slots=True)
class Standing:
    """What is at the store's address, called *name*: where its logs end, or why they cannot be read; or nothing.

    *mark* says that it is being moved, or was.
    """

    url: str
    name: Path | str
    there: bool
    heads: Mapping[str, Head]
    fault: str | None = None
    mark: str | None = None

    def furthest(self, board: str) -> Head | None:
        """Where the log of *board* ends, or where that is not there the longest; none where nothing can be read."""
        return self.heads.get(board, max(self.heads.values(), key=lambda end: end.position, default=None))


def looked_at(url: str, name: Path | str, engine: Engine) -> Standing:
    """What stands behind *engine*, which is something. Raises `StoreExists` for another program's database."""
    try:
        return Standing(url, name, there=True, heads=_heads(engine, name), mark=_marked(engine))
    except StoreExists:
        raise
    except (StoreFault, ValueError) as fault:  # the latter for a text that is none
        return Standing(url, name, there=True, heads={}, fault=str(fault))


def allowed(standing: Standing, sound: Sound, copy: Path, others: Sequence[object], *, force: bool) -> tuple[str, ...]:
    """All that speaks against putting *copy* there: raised as `RestoreRefused`, or told where it is forced.

    *others* have the store open. Raises `StoreExists` where it is another ledger's.
    """
    found = [f"what stands there cannot be read: {standing.fault}"] if standing.fault is not None else []
    found += [standing.mark] if standing.mark is not None else []
    for board, there in standing.heads.items():
        found += _compared(standing, board, there, sound.heads.get(board), copy)
    if sound.doubts:
        found.append(f"a replay of the copy finds {len(sound.doubts)} divergences, first: {sound.doubts[0]}")
    if others:
        found.append(f"it is open in process {', '.join(map(str, others))}")
    return forced(standing, tuple(found), force=force)


def forced(standing: Standing, objections: tuple[str, ...], *, force: bool) -> tuple[str, ...]:
    """*objections*, if there are none or all is *force*d; else `RestoreRefused`."""
    if objections and not force:
        raise RestoreRefused(standing.name, objections)
    return objections


def _heads(engine: Engine, name: Path | str) -> Mapping[str, Head]:
    if revision(engine) is None:
        raise StoreExists(f"{name} is another program's database", remedy="choose another --database")
    with reading(engine) as tx:
        return heads_of(tx)


def _marked(engine: Engine) -> str | None:
    with reading(engine) as tx:
        move = move_of(tx)
    if move is None:
        return None
    return f"it has moved to {move.other}" if move.state == MOVED else f"a move from {move.other} has not ended"


def _compared(standing: Standing, board: str, there: Head, brought: Head | None, copy: Path) -> Iterator[str]:
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
