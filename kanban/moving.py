"""A whole store moved to another database, be it a server or a file: `ledger db move`.

Until it has ended the target cannot be used; from then on the source cannot. The source is sealed and the target
opened in that order, by two commits: whoever dies between them leaves no store that can be used, never two, and the
same command again goes on where it was. So it does wherever it is cut off.

The logs are copied page by page while others write. Then the source is closed to all writers, the rest is copied, and
both sides are replayed and compared before the seal is committed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Engine, inspect, select

from kanban.again import again
from kanban.findings import listed
from kanban.soundness import Progress, heads_of, in_words
from ledger import moved
from ledger.database import connected, masked, reading, serves_hosts, writing
from ledger.errors import Refusal, StoreDamaged, StoreExists, StoreFault, StoreMissing, StoreMoved
from ledger.moved import MOVED, MOVING, Move
from ledger.recorded import Recorded
from ledger.schema import metadata
from ledger.standing import Head, head
from ledger.store import at_position, board_names, create_board, read_board
from ledger.transcribe import DoesNotFollow, transcribe
from ledger.upgrade import check_revision, founding, looking, make_tables, mark_of
from projections.carried import BESIDE, carry_board, differing
from projections.divergence import OF_THE_LOG
from projections.replay import Replay, replay
from projections.tables import runs

_PAGE: Final = 2_000


class OpenRuns(Refusal):
    """Workers are at work on the store that is to be moved: they know it by its old address."""

    def __init__(self, found: list[str]) -> None:
        at_work = f"{listed(found)} {'is' if len(found) == 1 else 'are'} at work"
        super().__init__(
            f"{at_work}, and would report to the old address", remedy="ledger pause --drain, ledger sweep, then again"
        )
        self.runs = tuple(found)


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move came to, or, after a dry run, would: *heads* are where the logs end, *digests* of the replays."""

    source: str
    target: str
    heads: Mapping[str, Head]
    digests: Mapping[str, str]
    changed: bool
    dry_run: bool
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger db move --json` prints."""
        boards = {
            board: {"position": end.position, "hash": end.hash.hex(), "digest": self.digests.get(board)}
            for board, end in self.heads.items()
        }
        ends = {"source": self.source, "target": self.target, "boards": boards}
        return {**ends, "changed": self.changed, "dry_run": self.dry_run, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class _Way:
    """From one store to another, each by its address and its engine."""

    from_url: str
    source: Engine
    to_url: str
    target: Engine


def move(source: str, target: str, *, dry_run: bool = False, progress: Progress = None) -> Moved:
    """Move the store at *source* to *target*, where nothing is yet or where this move was cut off.

    Raises `OpenRuns`; `StoreExists` where something else is at *target*; `StoreMoved` where the store has gone
    elsewhere; `StoreDamaged` where its log is not whole, or did not arrive whole. Then *source* stays as it was.
    """
    with connected(source) as here:
        mark = mark_of(here)
        if mark is None or mark.state == MOVING:
            check_revision(here, source)
            _refuse_open_runs(here)
            mark = None
        if dry_run:
            return _foreseen(_Way(source, here, target, here), mark)
        with connected(target, create=mark is None) as there:
            way = _Way(source, here, target, there)
            return _moved(way, progress) if mark is None else _opened(way, mark)


def _refuse_open_runs(engine: Engine) -> None:
    with reading(engine) as tx:
        at_work = select(runs.c.board, runs.c.task, runs.c.run).where(runs.c.ended_by.is_(None))
        found = [f"{task} (run {run}, board {board})" for board, task, run in tx.execute(at_work)]
    if found:
        raise OpenRuns(found)


def _foreseen(way: _Way, mark: Move | None) -> Moved:
    """What a move would come to; nothing is made."""
    with looking(way.source) as tx:
        heads = heads_of(tx)
    note = "it is sealed: all that is left is to open the target" if mark is not None else _target_now(way)
    ends = masked(way.from_url), masked(way.to_url)
    return Moved(*ends, heads, {}, changed=True, dry_run=True, notes=(note,))


def _target_now(way: _Way) -> str:
    try:
        with connected(way.to_url) as there, looking(there) as tx:
            return "it was begun before, and goes on" if _begun_before(tx, way) else "nothing is there yet"
    except StoreMissing:
        return "nothing is there yet: it would be made"


# The way there


def _moved(way: _Way, progress: Progress) -> Moved:
    try:
        token = _begun(way)
    except StoreExists:
        mark = mark_of(way.source)
        if mark is None or mark.state != MOVED:
            raise
        return _opened(way, mark)  # another process has moved it there meanwhile
    with reading(way.source) as tx:
        bar = _Bar(progress, heads_of(tx))
    _carry_logs(way, lambda board, after: _page(way.source, board, after), bar)
    with writing(way.source) as tx:
        moved.hold_all(tx)
        mark, digests, doubts = moved.move_of(tx), dict[str, str](), tuple[str, ...]()
        if mark is None:  # else another process was first
            mark = Move(MOVED, masked(way.to_url), token)
            moved.seal(tx, mark.other, token, metadata.sorted_tables)  # seen by nobody before the commit
            _refuse_open_runs(way.source)
            _carry_logs(way, lambda board, after: list(read_board(tx, board, after=after, limit=_PAGE)), bar)
            _carry_beside(way, tx)
            digests, doubts = _compared(way, tx, bar)
    return replace(_opened(way, mark), digests=digests, notes=doubts)


def _begun(way: _Way) -> str:
    """Make the target's tables and mark it, in one transaction; or find that it was done. The token of the move."""
    return founding(way.target, lambda tx: _begin(tx, way))


def _begin(tx: Connection, way: _Way) -> str:
    before = _begun_before(tx, way)
    if before is not None:
        return before.token
    token = secrets.token_hex(8)
    make_tables(tx, new=True)
    moved.begin(tx, masked(way.from_url), token)
    return token


def _begun_before(tx: Connection, way: _Way) -> Move | None:
    """The mark that this very move has left at the target *tx*; none where nothing is there."""
    there = inspect(tx).get_table_names()
    if not there:
        return None
    mark = moved.move_of(tx) if "alembic_version" in there else None
    if mark is None or mark.state != MOVING:
        what = "a ledger" if "alembic_version" in there else "another program's database"
        raise StoreExists(f"{masked(way.to_url)} is {what} already", remedy="move to an address where nothing is")
    with reading(way.source) as source:
        _check_beginning(tx, source)
    return mark


def _check_beginning(tx: Connection, source: Connection) -> None:
    """What an earlier move brought must be the beginning of this store."""
    for board, end in heads_of(tx).items():
        found = head(source, board) if board in board_names(source) else None
        same = found is not None and end.position <= found.position
        last = at_position(source, board, end.position) if same and end.position else None
        if not same or (last is not None and last.hash != end.hash):
            text = f"what was moved there of board {board}, up to position {end.position}, is not of this store"
            raise StoreExists(text, remedy="drop that database, or name another")


def _page(source: Engine, board: str, after: int) -> list[Recorded]:
    with reading(source) as tx:
        return list(read_board(tx, board, after=after, limit=_PAGE))


def _carry_logs(way: _Way, read: Callable[[str, int], list[Recorded]], bar: _Bar) -> None:
    with reading(way.source) as tx:
        heads = heads_of(tx)
    for board, end in heads.items():
        while again(partial(_carry_page, way, board, end.board_id, read, bar)):  # another may be at the same move
            pass


def _carry_page(way: _Way, board: str, board_id: str, read: Callable[[str, int], list[Recorded]], bar: _Bar) -> bool:
    """Bring the next page of a log there, in a transaction of its own; false where there is none."""
    with writing(way.target) as tx:
        end = head(tx, board) if board in board_names(tx) else create_board(tx, board, board_id)
        page = read(board, end.position)
        try:
            bar.copied(board, transcribe(tx, board, page).position)
        except DoesNotFollow as fault:
            raise StoreDamaged(f"board {board}: {fault.message}", remedy=f"ledger replay --board {board}") from fault
    return bool(page)


def _carry_beside(way: _Way, source: Connection) -> None:
    for board in board_names(source):
        with writing(way.target) as tx:
            carry_board(source, tx, board, of=BESIDE)


# The end


def _compared(way: _Way, source: Connection, bar: _Bar) -> tuple[dict[str, str], tuple[str, ...]]:
    """Replay both sides: the digests, and what both find amiss. Raises `StoreDamaged` unless they are the same."""
    digests, doubts = {}, []
    for board in board_names(source):
        here = replay(way.source, board, progress=bar.replaying(board))
        there = replay(way.target, board, progress=bar.replaying(board, again=True))
        _check_equal(board, here, there)
        digests[board] = there.digest
        doubts += [in_words(board, each) for each in here.divergences]
    with reading(way.target) as target:
        _check_rows(source, target)
    return digests, tuple(doubts)


def _check_equal(board: str, here: Replay, there: Replay) -> None:
    broken = [each for each in here.divergences if each.rule in OF_THE_LOG]
    if broken:
        raise StoreDamaged(in_words(board, broken[0]), remedy=f"ledger replay --board {board}")
    for what in ("position", "hash", "digest", "divergences"):
        if getattr(here, what) != getattr(there, what):
            raise _not_whole(f"board {board}: its {what} is another one there")


def _check_rows(source: Connection, target: Connection) -> None:
    off = differing(source, target, of=BESIDE)
    if off is not None:
        raise _not_whole(f"a row of {off} is another one there")


def _not_whole(what: str) -> StoreFault:
    return StoreDamaged(f"the store did not arrive whole: {what}", remedy="drop that database, then move again")


def _opened(way: _Way, mark: Move) -> Moved:
    """Open the target of a store that is sealed by *mark*; harmless where that has been done."""
    there = mark_of(way.target)
    if there is not None and (there.state, there.token) == (MOVING, mark.token):
        with writing(way.target) as tx:
            if moved.move_of(tx, hold=True) == there:  # else another process was first
                if serves_hosts(way.target):
                    tx.exec_driver_sql("ANALYZE")
                moved.end(tx)
    check_revision(way.target, way.to_url)
    with reading(way.target) as tx, looking(way.source) as sealed:
        heads = heads_of(tx)
        if not _identities(heads_of(sealed)) <= _identities(heads):
            raise StoreMoved(mark.other)
    return Moved(masked(way.from_url), masked(way.to_url), heads, {}, changed=there is not None, dry_run=False)


def _identities(heads: Mapping[str, Head]) -> set[tuple[str, str]]:
    return {(board, end.board_id) for board, end in heads.items()}


class _Bar:
    """How much of a move is done: every event is copied, replayed where it came from, and replayed where it went."""

    def __init__(self, progress: Progress, heads: Mapping[str, Head]) -> None:
        self._progress = progress
        self._total = 3 * sum(end.position for end in heads.values())
        self._done: dict[tuple[str, int], int] = {}

    def copied(self, board: str, events: int) -> None:
        """So many events of *board* are there."""
        self._move(board, 0, events)

    def replaying(self, board: str, *, again: bool = False) -> Progress:
        """What hears of the first replay of *board*, or the other."""
        return lambda done, _total: self._move(board, 2 if again else 1, done)

    def _move(self, board: str, part: int, events: int) -> None:
        self._done[board, part] = events
        if self._progress is not None:
            done = sum(self._done.values())
            self._progress(done, max(done, self._total))
