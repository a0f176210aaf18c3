"""A connection to PostgreSQL that says in one go what can be said in one go.

A round trip wakes two processes, and where many write on a few cores that costs more than most statements. So what
needs no answer waits: a transaction's beginning, rows to write. It goes with the next question, or with the commit.
Statements are prepared by the server when they are first said; values travel as text, whose types the server knows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple, Self, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.waiting import Ready, Wait

T = TypeVar("T")
_FRESH: Final = 1.0
"""Seconds for which a connection that answered is taken to be there still."""
_PREPARED: Final = 1_000
"""Statements that a connection keeps prepared; any more are prepared each time."""


class Answer(NamedTuple):
    """What a server answered to one statement, as a cursor tells it."""

    rows: list[tuple[Any, ...]]
    rowcount: int

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Every row."""
        return self.rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or none."""
        return self.rows[0] if self.rows else None


class _Said(NamedTuple):
    """A statement on its way, and its values as the server takes them."""

    text: str
    values: Sequence[bytes | None]


class _Cursor(psycopg.Cursor[Any]):
    """psycopg's own, for all that is not said to the line itself."""

    def execute(self, *given: Any, **named: Any) -> Self:
        """As psycopg does. After some statements it lets the server forget all that was prepared, by whomever."""
        super().execute(*given, **named)
        if _FORGETS.match(self.statusmessage or ""):
            self.connection.forget()  # type: ignore[attr-defined]  # a line makes no other cursors
        return self


class Line(psycopg.Connection[Any]):
    """A psycopg connection in autocommit mode whose transactions are begun, filled and committed in few trips.

    Whatever else is done with it first sends what waits.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.cursor_factory = _Cursor
        self._waiting: list[_Said] = []
        self._ahead: list[_Said] = []
        self._foreseen: list[tuple[_Said, PGresult]] = []
        self._opening = 0
        self._names: dict[str, bytes] = {}
        self._named = 0
        self._codec = self.info.encoding
        self._loading = Transformer(self)
        self._answered = time.monotonic()

    def begin(self, statements: Sequence[str]) -> None:
        """Begin a transaction with *statements*. Nothing is sent yet, unless the connection lay idle for long.

        So one that has broken meanwhile is found while another can still be taken.
        """
        self._clear()
        self._waiting = [_Said(text, ()) for text in statements]
        self._opening = len(statements)
        if time.monotonic() - self._answered > _FRESH:
            self.settle()

    def later(self, text: str, values: Sequence[Any]) -> None:
        """A statement whose answer nobody waits for: should it be refused, so is what comes after it."""
        self._waiting.append(_Said(_numbered(text), self._spelled(values)))

    def foresee(self, text: str, values: Sequence[Any]) -> None:
        """A question that will be asked once the next one is answered: the answers come together."""
        self._ahead.append(_Said(_numbered(text), self._spelled(values)))

    def ask(self, text: str, values: Sequence[Any]) -> Answer:
        """What the server answers to a question, once it has done all that waits."""
        asked = _Said(_numbered(text), self._spelled(values))
        known = [] if self._waiting else [result for said, result in self._foreseen if said == asked]
        if not known:
            self._waiting.append(asked)
        result = known[0] if known else self._sent()
        self._loading.set_pgresult(result)
        return Answer(self._loading.load_rows(0, result.ntuples, tuple), result.command_tuples or 0)

    def settle(self) -> None:
        """Send what waits. Raises what the server has against it."""
        if self._waiting:
            self._sent()

    def commit(self) -> None:
        """End the transaction, and send with that what waits."""
        begun = self.pgconn.transaction_status != TransactionStatus.IDLE
        if begun or len(self._waiting) > self._opening:
            self._ahead = []
            self._waiting.append(_COMMIT)
            self._sent()
        self._clear()

    def rollback(self) -> None:
        """Forget what waits, and what was sent."""
        self._clear()
        super().rollback()
        self.forget()

    def forget(self) -> None:
        """Prepare every statement anew: the server may know none of them any more."""
        self._names.clear()

    def wait(self, gen: PQGen[T], *given: Any, **named: Any) -> T:
        """All that psycopg itself does comes through here."""
        self.settle()
        self._foreseen = []
        return super().wait(gen, *given, **named)

    def _sent(self) -> PGresult:
        """The answer to the last of what waits. Raises what the server has against any of it."""
        said, ahead = self._waiting, self._ahead
        self._clear()
        answers = super().wait(self._exchange([*said, *ahead]))
        self._answered = time.monotonic()
        for answer in answers:
            if answer.status == ExecStatus.FATAL_ERROR:
                raise pg.error_from_result(answer, self._codec)
        self._foreseen = list(zip(ahead, answers[len(said) :], strict=True))
        return answers[len(said) - 1]

    def _clear(self) -> None:
        """Nothing waits, and nothing is known: an answer is as old as the last thing that was said."""
        self._waiting, self._ahead, self._foreseen = [], [], []

    def _exchange(self, said: Sequence[_Said]) -> PQGen[list[PGresult]]:
        """Send *said* and take the answer to each: that to its preparation where this was refused."""
        line, prepared, sent = self.pgconn, dict[int, tuple[str, bytes]](), 0
        line.enter_pipeline_mode()
        for text, values in said:
            name = self._names.get(text)
            if name is None:
                name = self._new_name()
                line.send_prepare(name, text.encode(self._codec))
                prepared[sent] = text, name
                sent += 1
            line.send_query_prepared(name, values)
            sent += 1
        line.pipeline_sync()
        while line.flush():
            if (yield Wait.RW) & Ready.R:
                line.consume_input()
        results: list[PGresult] = []
        while True:
            while line.is_busy():
                yield Wait.R
                line.consume_input()
            result = line.get_result()
            if result is None:
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                break
            results.append(result)
        line.exit_pipeline_mode()
        done = {place for place in prepared if results[place].status == ExecStatus.COMMAND_OK}
        self._names.update(prepared[place] for place in done if prepared[place][1])
        return [result for place, result in enumerate(results) if place not in done]

    def _new_name(self) -> bytes:
        """Of a statement that the server will know; empty once it knows too many: then it forgets the next at once."""
        self._named += 1
        return b"line_%d" % self._named if self._named <= _PREPARED else b""

    def _spelled(self, values: Sequence[Any]) -> list[bytes | None]:
        try:
            return [None if value is None else _SPELLING[type(value)](value, self._codec) for value in values]
        except KeyError as unknown:
            raise pg.ProgrammingError(f"a value that PostgreSQL is not told: {unknown.args[0].__name__}") from None


_FORGETS: Final = re.compile("DROP|ALTER|ROLLBACK|DISCARD|DEALLOCATE")
_PLACE: Final = re.compile("%[s%]")


@lru_cache(maxsize=1_024)
def _numbered(text: str) -> str:
    """*text* with its places called as the server calls them."""
    places = count(1)
    return _PLACE.sub(lambda found: f"${next(places)}" if found[0] == "%s" else "%", text)


def _text(value: str, codec: str) -> bytes:
    if "\0" in value:
        raise pg.DataError("a text that PostgreSQL is told cannot hold a NUL")
    return value.encode(codec)


_SPELLING: Final[dict[type, Any]] = {
    str: _text,
    int: lambda value, _: b"%d" % value,
    bool: lambda value, _: b"t" if value else b"f",
    float: lambda value, _: repr(value).encode(),
    bytes: lambda value, _: b"\\x%s" % value.hex().encode(),
}
_COMMIT: Final = _Said("COMMIT", ())
