"""The append-only store: append with an expected version, read a task, read a board, follow.

Functions over a `Connection`; whoever opened the transaction closes it. Position, version and hash are taken from
the board's row inside the transaction, which locks it until the end, so positions have no holes and are visible in
order, and nothing that is kept in memory survives a rollback. Should the lock ever fail, the log's keys refuse the
second writer.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Select, bindparam, func, insert, outerjoin, select, update

from ledger import chain
from ledger.database import reading
from ledger.errors import StoreDamaged, WrongExpectedVersion
from ledger.prepared import Prepared
from ledger.recorded import Draft, Recorded, check_text
from ledger.schema import boards, events, words
from ledger.standing import Head, ends, headless
from ledger.writes import Writes


def create_board(tx: Connection, board: str, board_id: str) -> Head:
    """Give *board* an empty log. The caller appends `board_created` in the same transaction."""
    head = Head(board_id, 0, 0, chain.first_hash(board_id))
    tx.execute(insert(boards).values(board=board, board_id=board_id, head_position=0, head_at=0, head_hash=head.hash))
    return head


def board_names(tx: Connection) -> list[str]:
    """The boards of this store, by name."""
    return list(tx.execute(select(boards.c.board).order_by(boards.c.board)).scalars())


def version(tx: Connection, board: str, task: str) -> int:
    """The last version of the stream of *task*; 0 where there is none."""
    return _VERSION.one(tx, board=board, task=task)[0] or 0


def _held(tx: Connection, board: str, task: str) -> tuple[Head, int]:
    """Where the board's log ends, now held, and the last version of the stream of *task*."""
    row = _APPENDING.one(tx, board=board, task=task)
    if row is None:
        raise headless(tx, board)
    *found, last = row
    return Head(*found), last or 0


def append(
    tx: Connection,
    board: str,
    drafts: Sequence[Draft],
    *,
    expected: int,
    at: int,
    command_id: str | None = None,
    salt: Callable[[int], bytes] = secrets.token_bytes,
) -> list[Recorded]:
    """Add *drafts*, all of one task, to the end of its stream and of the board's log: all of them or none.

    *expected* is the version the decision was based on (0: a new stream); *at* is microseconds UTC and is raised to
    the instant of the event before it; *command_id* marks the first event. Raises `WrongExpectedVersion` if another
    writer was there first, `UnknownBoard`, `InvalidText`.
    """
    end, actual = _held(tx, board, drafts[0].task)
    log = Log(tx, board, end, {drafts[0].task: actual})
    recorded = log.append(drafts, expected=expected, at=at, command_id=command_id, salt=salt)
    log.flush()
    return recorded


class Log:
    """The end of a board's log inside one transaction that holds the board: `flush` puts into it what was appended.

    So many appends take as few statements as one. Whoever reads events flushes first, and whoever rolls back to a
    savepoint goes `back` to the `mark` that was taken before it.
    """

    def __init__(self, tx: Connection, board: str, end: Head, versions: dict[str, int] | None = None) -> None:
        """*end* is where the log ends now; *versions*, of streams whose last one is known."""
        self.end = end
        self._tx, self._board = tx, board
        self._versions = versions or {}
        self._appended: list[Recorded] = []
        self._stored = 0

    def append(
        self,
        drafts: Sequence[Draft],
        *,
        expected: int,
        at: int,
        command_id: str | None = None,
        salt: Callable[[int], bytes] = secrets.token_bytes,
    ) -> list[Recorded]:
        """As the function of that name."""
        check_text("command_id", command_id or "")
        task = drafts[0].task
        actual = self._versions.get(task)
        if actual is None:
            actual = version(self._tx, self._board, task)
        if actual != expected:
            raise WrongExpectedVersion(task, expected=expected, actual=actual)
        at = max(at, self.end.at)
        recorded: list[Recorded] = []
        previous = self.end.hash
        for step, draft in enumerate(drafts, 1):
            if draft.task != task:
                raise ValueError(f"one append is one stream: {draft.task!r} after {task!r}")
            placed = draft.as_if(board=self._board, position=self.end.position + step, version=actual + step, at=at)
            if step == 1 and command_id is not None:
                placed = placed._replace(command_id=command_id)
            event = _chained(placed, previous, salt(32))
            previous = event.hash
            recorded.append(event)
        self._appended += recorded
        self._versions[task] = recorded[-1].version
        self.end = Head(self.end.board_id, recorded[-1].position, at, previous)
        return recorded

    def know(self, versions: Mapping[str, int]) -> None:
        """Take the last *versions* of some streams, read in this transaction."""
        for task, last in versions.items():
            self._versions.setdefault(task, last)

    def flush(self) -> None:
        """Put into the store what is not there yet."""
        writes = Writes(self._board)
        self.add_to(writes)
        writes.send(self._tx)

    def add_to(self, writes: Writes) -> None:
        """Put into *writes* what is not in the store yet."""
        waiting = self._appended[self._stored :]
        if waiting:
            first = self.end.position - len(waiting)
            _write(writes, self._board, first, waiting, [words_row(each) for each in waiting])
            self._stored = len(self._appended)

    @property
    def mark(self) -> tuple[int, int, Head]:
        """What to go `back` to."""
        return len(self._appended), self._stored, self.end

    def back(self, mark: tuple[int, int, Head]) -> None:
        """Forget what was appended after *mark*, which the store has rolled back."""
        length, self._stored, self.end = mark
        del self._appended[length:]
        self._versions = {event.task: event.version for event in self._appended[self._stored :]}


def write(
    tx: Connection, board: str, last: Head, recorded: Sequence[Recorded], worded: Sequence[tuple[object, ...]]
) -> Head:
    """Put *recorded*, one or more chained to *last*, with their rows of words behind it. Where the log ends then."""
    end, writes = recorded[-1], Writes(board)
    _write(writes, board, last.position, recorded, worded)
    writes.send(tx)
    return Head(last.board_id, end.position, end.at, end.hash)


def _write(
    writes: Writes, board: str, was: int, recorded: Sequence[Recorded], worded: Sequence[tuple[object, ...]]
) -> None:
    end = recorded[-1]
    writes.put(events, [event[:_STORED] for event in recorded])
    writes.put(words, worded)
    head = {"head_position": end.position, "head_at": end.at, "head_hash": end.hash}
    writes.say(_MOVE_HEAD, {"of": board, "was": was, **head})


def by_command(tx: Connection, board: str, command_id: str) -> Recorded | None:
    """The first event that the command *command_id* appended, or none: a repeat gets the first answer."""
    return _recorded(_BY_COMMAND.one(tx, board=board, command_id=command_id))


def at_position(tx: Connection, board: str, position: int) -> Recorded | None:
    """The event at *position*, with its words."""
    return _recorded(_AT_POSITION.one(tx, board=board, position=position))


def last_of_kind(tx: Connection, board: str, task: str, kind: str) -> Recorded | None:
    """The last event of *kind* in the stream of *task*, or none."""
    return _recorded(_LAST_OF_KIND.one(tx, board=board, task=task, kind=kind))


def read_task(tx: Connection, board: str, task: str, *, after: int = 0) -> list[Recorded]:
    """The stream of *task* (empty: the board's own) after version *after*, in order, with words."""
    return [Recorded(*row) for row in _STREAM.all(tx, board=board, task=task, after=after)]


def read_board(
    tx: Connection, board: str, *, after: int = 0, until: int | None = None, limit: int | None = None
) -> Iterator[Recorded]:
    """The log of *board* after position *after* (up to *until*), in order, with words, streamed."""
    log = _columns().where(events.c.board == board, events.c.position > after).order_by(events.c.position)
    if until is not None:
        log = log.where(events.c.position <= until)
    if limit is not None:
        log = log.limit(limit)
    for row in tx.execute(log, execution_options={"stream_results": True}):
        yield Recorded._make(row)


def _a_moment() -> bool:
    time.sleep(0.2)
    return True


def follow(
    engine: Engine,
    board: str,
    *,
    after: int = 0,
    page: int = 1_000,
    wait: Callable[[], bool] = _a_moment,
) -> Iterator[Recorded]:
    """The log of *board* after *after*, for ever: each event once, in order, in short transactions.

    *wait* is called when nothing is left to read; a false answer ends the iteration.
    """
    while True:
        with reading(engine) as tx:
            batch = list(read_board(tx, board, after=after, limit=page))
        yield from batch
        if batch:
            after = batch[-1].position
        elif not wait():
            return


def _chained(event: Recorded, previous: bytes, salt: bytes) -> Recorded:
    digest = chain.words_digest(salt, event.words_text or "")
    linked = chain.next_hash(previous, envelope_of(event), event.facts_text, digest)
    values = (*event[:_DIGEST], digest, linked, salt, event.words_text)
    return Recorded._make(values)  # `_replace` at a third of the price


def envelope_of(event: Recorded) -> str:
    """The canonical envelope of *event*, from its columns (RULES §10)."""
    return chain.envelope(
        board=event.board,
        position=event.position,
        task=event.task,
        version=event.version,
        kind=event.kind,
        schema=event.schema,
        at=event.at,
        actor_kind=event.actor_kind,
        actor_name=event.actor_name,
        actor_host=event.actor_host,
        run=event.run,
        outcome=event.outcome,
        command_id=event.command_id,
    )


_EVENT_COLUMNS = (
    events.c.board, events.c.position, events.c.task, events.c.version, events.c.kind, events.c.schema, events.c.at,
    events.c.actor_kind, events.c.actor_name, events.c.actor_host, events.c.run, events.c.outcome,
    events.c.command_id, events.c.facts, events.c.words_digest, events.c.hash,
)  # fmt: skip
_STORED = len(_EVENT_COLUMNS)
_DIGEST = Recorded._fields.index("words_digest")


def _columns() -> Select[tuple[object, ...]]:
    joined = outerjoin(events, words, (events.c.board == words.c.board) & (events.c.position == words.c.position))
    return select(*_EVENT_COLUMNS, words.c.salt, words.c.words).select_from(joined)


def _recorded(row: tuple[Any, ...] | None) -> Recorded | None:
    return None if row is None else Recorded(*row)


def words_row(event: Recorded) -> tuple[object, ...]:
    """The row of words that stands beside *event*."""
    if event.salt is None or event.words_text is None:
        raise StoreDamaged(f"position {event.position} would be written without its words")
    return event.board, event.position, event.salt, event.words_text


def _in_board() -> Select[tuple[object, ...]]:
    return _columns().where(events.c.board == bindparam("board"))


_VERSION = Prepared(
    select(func.max(events.c.version)).where(events.c.board == bindparam("board"), events.c.task == bindparam("task"))
)
_APPENDING = Prepared(
    ends(
        select(func.max(events.c.version))
        .where(events.c.board == bindparam("board"), events.c.task == bindparam("task"))
        .scalar_subquery()
    ).with_for_update()
)
_MOVE_HEAD = Prepared(
    update(boards)
    .where(boards.c.board == bindparam("of"), boards.c.head_position == bindparam("was"))
    .values({name: bindparam(name) for name in ("head_position", "head_at", "head_hash")})
)
_BY_COMMAND = Prepared(_in_board().where(events.c.command_id == bindparam("command_id")))
_AT_POSITION = Prepared(_in_board().where(events.c.position == bindparam("position")))
_LAST_OF_KIND = Prepared(
    _in_board()
    .where(events.c.task == bindparam("task"), events.c.kind == bindparam("kind"))
    .order_by(events.c.version.desc())
    .limit(1)
)
_STREAM = Prepared(
    _in_board()
    .where(events.c.task == bindparam("task"), events.c.version > bindparam("after"))
    .order_by(events.c.version)
)
