"""Whether the file of a copy can be trusted: SQLite's own check, its revision, and the audit of every board in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine

from ledger.copies import BESIDE, faults_of_file, open_copy
from ledger.database import reading
from ledger.errors import LedgerError, StoreFault, StoreMoved, StoreMoving, StoreOutdated, StoreTooNew
from ledger.standing import Head, head
from ledger.store import board_names
from ledger.upgrade import check_revision, revision
from projections.divergence import OF_THE_LOG, Divergence
from projections.replay import replay

Progress = Callable[[int, int], None] | None


class CopyUnsound(StoreFault):
    """A copy is not what a store once was: it must not be put in a store's place."""

    def __init__(self, file: Path, what: str, *, remedy: str = "take another copy") -> None:
        super().__init__(f"{file} is no sound copy: {what}", remedy=remedy)
        self.file = file


@dataclass(frozen=True, slots=True)
class Sound:
    """A copy whose file and logs are whole: where each board's log ends, and what a replay still finds amiss."""

    heads: Mapping[str, Head]
    doubts: tuple[str, ...]


def part(progress: Progress, number: int, *, of: int) -> Progress:
    """What hears of the part *number* (0, 1 …) of work that goes through all events as often as *of* says."""
    return None if progress is None else lambda done, total: progress(number * total + done, of * total)


def verify(file: Path, *, name: Path | None = None, progress: Progress = None) -> Sound:
    """Check the copy *file* (told as *name*), which nobody writes. Nothing is made beside it.

    Raises `CopyUnsound`; `StoreOutdated` and `StoreTooNew` for a copy of another revision, `StoreMoved` for a store
    that was moved away.
    """
    told = name or file
    check_alone(file, told)
    engine = open_copy(file)
    try:
        return _verified(engine, told, progress)
    except (CopyUnsound, StoreMoved, StoreMoving, StoreOutdated, StoreTooNew):
        raise
    except Exception as fault:  # what is damaged shows itself in many ways: a text that is none, a number that is none
        raise CopyUnsound(told, fault.message if isinstance(fault, LedgerError) else repr(fault)) from fault
    finally:
        engine.dispose()


def check_alone(file: Path, told: Path) -> None:
    """Refuse a file that SQLite has at work, or left in the middle of it: part of it lies beside it."""
    for beside in (Path(f"{file}{suffix}") for suffix in BESIDE if suffix != "-shm"):
        if beside.exists() and beside.stat().st_size:
            remedy = f"ledger backup OTHER --database sqlite:///{told.absolute()}, then restore OTHER"
            raise CopyUnsound(told, f"{beside.name} lies beside it, so it is a store in use", remedy=remedy)


def heads_of(tx: Connection) -> dict[str, Head]:
    """Where the log of each board ends."""
    return {board: head(tx, board) for board in board_names(tx)}


def _verified(engine: Engine, told: Path, progress: Progress) -> Sound:
    _check_revision(engine, told)
    with reading(engine) as tx:
        faults = faults_of_file(tx)
        if faults:
            raise CopyUnsound(told, "; ".join(faults))
        heads = heads_of(tx)
    if not heads:
        raise CopyUnsound(told, "there is no board in it")
    found = [(board, each) for board in heads for each in replay(engine, board, progress=progress).divergences]
    broken = [in_words(board, each) for board, each in found if each.rule in OF_THE_LOG]
    if broken:
        raise CopyUnsound(told, f"{broken[0]}{_more(broken)}")
    return Sound(heads, tuple(in_words(board, each) for board, each in found))


def _check_revision(engine: Engine, told: Path) -> None:
    if revision(engine) is None:
        raise CopyUnsound(told, "it is a database without a ledger in it")
    check_revision(engine, str(told))


def in_words(board: str, divergence: Divergence) -> str:
    """*divergence* in a log of many boards, in one line."""
    where = "" if divergence.position is None else f", position {divergence.position}"
    return f"board {board}{where}: {divergence.text} (RULES {divergence.rule})"


def _more(faults: list[str]) -> str:
    return "" if len(faults) == 1 else f"; and {len(faults) - 1} more"
