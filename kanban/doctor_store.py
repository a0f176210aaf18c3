"""What is looked at in the store itself: revision, journal, pages, write-ahead log, identity, chain, clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine

from kanban.case import Case
from kanban.findings import Finding, counted, error, ok, warning
from kanban.holders import holders
from kanban.soundness import heads_of
from ledger.chain import first_hash
from ledger.clock import SECOND, rfc3339
from ledger.copies import faults_of_file, journal_mode
from ledger.database import connect, masked, reading
from ledger.errors import StoreDamaged, StoreFault, StoreMissing
from ledger.schema import REVISION
from ledger.standing import Head
from ledger.store import at_position, board_names, read_board
from ledger.transcribe import unchained
from ledger.triggers import faults_of_triggers
from ledger.upgrade import check_revision, revision

TAIL: Final = 1_000
"""How many of the last events are chained again; all of them by `ledger replay`."""
LARGE_LOG: Final = 64 * 2**20
AHEAD: Final = 60 * SECOND
_RESTORE: Final = "stop all writers, then ledger restore FILE"
_MIB: Final = 2**20


class Opened(NamedTuple):
    """The store, if its file is a database at all, and what opening it found."""

    engine: Engine | None
    findings: list[Finding]


def opened(case: Case) -> Opened:
    """Open the store, whatever revision it is of."""
    url, engine = case.at.url, None
    try:
        engine = connect(url)
        found = revision(engine)
        if found is None:
            raise StoreMissing(masked(url), "a database without a ledger in it")
    except (StoreFault, ValueError) as fault:
        if engine is not None:
            engine.dispose()
        mend = _RESTORE if isinstance(fault, StoreDamaged) else getattr(fault, "remedy", None)
        return Opened(None, [error("store", str(fault), mend)])
    return Opened(engine, [ok("store", masked(url)), _revision(engine, url, found)])


def _revision(engine: Engine, url: str, found: str) -> Finding:
    try:
        check_revision(engine, url)
    except StoreFault as fault:
        return error("revision", fault.message, fault.remedy)
    return ok("revision", f"{found}, as this program wants it ({REVISION})")


def journal(_case: Case, engine: Engine) -> Iterator[Finding]:
    """How transactions are kept whole."""
    with reading(engine) as tx:
        mode = journal_mode(tx)
    if mode == "wal":
        yield ok("journal", "write-ahead log")
    else:
        yield warning("journal", f"{mode} instead of a write-ahead log, until the next write", "ledger sweep")


def pages(_case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether the file is whole, as SQLite sees it."""
    with reading(engine) as tx:
        faults = faults_of_file(tx, quick=True)
    for fault in faults:
        yield error("pages", fault, _RESTORE)
    if not faults:
        yield ok("pages", "SQLite's quick check finds nothing")


def wal(case: Case, _engine: Engine) -> Iterator[Finding]:
    """Whether the log is folded into the file now and then, or somebody keeps it from being."""
    log = Path(f"{case.store}-wal")
    size = log.stat().st_size if log.exists() else 0
    text = f"the write-ahead log has {size // _MIB} MiB"
    if size <= LARGE_LOG:
        yield ok("wal", text)
        return
    others = holders(case.store)
    if others:
        names = ", ".join(map(str, others))
        pids = ", ".join(str(other.pid) for other in others)
        yield warning("wal", f"{text}; a long read by one of these may pin it: {names}", f"end process {pids}")
    else:
        yield warning("wal", f"{text}, and nobody who can be seen has the store open", "ledger board folds it in")


def boards(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether the board is there, and every board is the one that its first event says."""
    with reading(engine) as tx:
        names = board_names(tx)
        if case.at.board not in names:
            mend = f"ledger init --board {case.at.board}"
            yield error("boards", f"no board {case.at.board!r} in this store; there is {', '.join(names)}", mend)
        strangers = [board for board, end in heads_of(tx).items() if _told_id(tx, board) != end.board_id]
    for board in strangers:
        text = f"board {board} has not the id that board_created gave it: it is not the board that it seems"
        yield error("boards", text, _RESTORE)
    if names and not strangers:
        yield ok("boards", f"{', '.join(names)}: each with the id of its board_created")


def _told_id(tx: Connection, board: str) -> object:
    first = at_position(tx, board, 1)
    return None if first is None else first.facts.get("board_id")


def chain(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether each head is the last event's, and the last events are chained."""
    with reading(engine) as tx:
        for board, end in heads_of(tx).items():
            fault = _broken(tx, board, end)
            if fault is not None:
                yield error("chain", f"{case.on(board)}{fault}", f"ledger replay{case.flag(board)}")
            else:
                seen = counted(min(end.position, TAIL), "event")
                yield ok("chain", f"{case.on(board)}the last {seen} up to position {end.position} are chained")


def _broken(tx: Connection, board: str, end: Head) -> str | None:
    """The first fault in the tail of the log, or none."""
    start = max(0, end.position - TAIL)
    before = at_position(tx, board, start) if start else None
    if start and before is None:
        return f"no event stands at position {start}"
    last = Head(end.board_id, start, 0, before.hash if before is not None else first_hash(end.board_id))
    for event in read_board(tx, board, after=start):
        fault = unchained(event, last)
        if fault is not None:
            return fault
        last = Head(end.board_id, event.position, event.at, event.hash)
    if last != end:
        return f"the head says position {end.position}, the last event is at {last.position}, or it is another one"
    return None


def append_only(_case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether the database itself refuses that the log is changed."""
    with reading(engine) as tx:
        faults = list(faults_of_triggers(tx))
    for fault in faults:
        text = f"{fault}: the log could be changed, and only a replay would tell"
        yield error("append_only", text, "ledger replay, then ledger backup FILE and ledger restore FILE")
    if not faults:
        yield ok("append_only", "the database refuses that the log is changed")


def clock(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether this machine's clock is behind what the log has seen."""
    with reading(engine) as tx:
        late = {board: end.at for board, end in heads_of(tx).items() if end.at - case.now > AHEAD}
    for board, at in late.items():
        ahead = counted((at - case.now) // SECOND, "second")
        text = f"{case.on(board)}the last event is {ahead} in the future ({rfc3339(at)}): every event until then is"
        yield warning("clock", f"{text} booked at that instant, and no wait ends before", "set the clock: timedatectl")
    if not late:
        yield ok("clock", f"{rfc3339(case.now)}, not behind the log")


_Check = Callable[[Case, Engine], Iterator[Finding]]
OF_THE_FILE: Final[tuple[_Check, ...]] = (journal, pages, wal)
OF_THE_LOG: Final[tuple[_Check, ...]] = (boards, chain, append_only, clock)
