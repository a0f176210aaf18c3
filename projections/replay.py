"""The audit: refold a whole log, recompute its chain, judge each event, compare with what is stored (RULES §9).

What it cannot say: whether a process or a lease was seen truly, and whether a tail was cut off together with the
board's row (a checkpoint kept elsewhere can).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, null

from ledger.chain import first_hash
from ledger.database import reading
from ledger.errors import NewerSchema, UnknownKind, UnknownTask
from ledger.events import ENDINGS, SCHEMAS
from ledger.recorded import Recorded, valid
from ledger.schema import events, words
from ledger.standing import Head, head
from projections.chained import Chain
from projections.compared import Comparison
from projections.divergence import Divergence, Wrong
from projections.legality import Judge
from projections.logged import log_of, redactions, stray_words
from projections.past import past
from projections.raw import pages
from projections.replay_event import FOLDED, event_of
from projections.replay_jobs import Wish, shared
from projections.uncollected import uncollected
from projections.world import World

__all__ = ["Divergence", "Replay", "replay"]

_HASH: Final = Recorded._fields.index("hash")
_folded: Final = itemgetter(*(Recorded._fields.index(name) for name in FOLDED))
_CANNOT_SAY: Final = (
    "processes, leases and quota patterns are taken as they were written; a tail cut off together with the board's row "
    "shows only against a checkpoint kept elsewhere"
)


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found. *digest* is of the refolded rows alone: equal logs have equal digests, wherever stored."""

    events: int
    tasks: int
    seconds: float
    events_per_second: int
    digest: str
    position: int
    hash: str
    divergences: tuple[Divergence, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger replay --json` prints."""
        shown = {name: getattr(self, name) for name in self.__slots__}
        return {
            **shown,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "divergences": [divergence.as_json() for divergence in self.divergences],
        }


def replay(
    engine: Engine,
    board: str,
    *,
    task: str | None = None,
    until: int | None = None,
    strict: bool = False,
    chain: bool = True,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Refold the log of *board* in one read transaction and say all that differs from the rules or from the store.

    The whole log is always folded: a card's legality rests on other cards. *task*: only its divergences, and those
    that are no card's, are reported. *until*: up to that position, compared with what a look at that past is answered.
    *strict*: every event goes through Pydantic. *chain* false: hashes and words are not looked
    at. *jobs*: so many processes share a log at which nothing is wrong; else this one looks at all of it, and the
    answer is the same. *progress* hears (events done, events in all).
    Raises `UnknownBoard`, `UnknownTask`.
    """
    started = time.perf_counter()
    wish = Wish(task, until, strict, chain)
    sound = shared(engine, board, wish, jobs=jobs, progress=progress) if jobs > 1 else None
    if sound is None:
        return _by_one(engine, board, wish, progress, started)
    if task is not None and not sound.known:
        raise UnknownTask(task)
    cards = sound.cards if task is None else 1
    return _told(started, sound.events, cards, sound.digest, sound.position, sound.hash, (), _notes(chain=chain))


def _by_one(
    engine: Engine, board: str, wish: Wish, progress: Callable[[int, int], None] | None, started: float
) -> Replay:
    task, until, strict, chain = wish
    with reading(engine) as tx, uncollected():
        last = head(tx, board)
        auditor = _Auditor(tx, board, last, until=until, strict=strict, chain=chain)
        auditor.read(progress)
        with auditor.stored(engine) as stored:
            found, digest = auditor.end(task, stored)
    if task is not None and task not in auditor.streams and not found:
        raise UnknownTask(task)
    count, cards = auditor.count, len(auditor.streams) if task is None else 1
    position, digest_of_log = auditor.chain.position, auditor.chain.hash.hex()  # empty: not looked at
    return _told(started, count, cards, digest, position, digest_of_log, found, auditor.notes)


def _told(started: float, events: int, cards: int, *found: Any) -> Replay:
    seconds = time.perf_counter() - started
    return Replay(events, cards, seconds, round(events / max(seconds, 1e-6)), *found)


def _notes(*, chain: bool) -> tuple[str, ...]:
    """What no replay can say, and what this one was told to leave out."""
    return (_CANNOT_SAY,) if chain else (_CANNOT_SAY, "hashes and words were not looked at")


class _Auditor:
    """One pass over a log: chain, judgement and fold side by side."""

    def __init__(self, tx: Connection, board: str, last: Head, *, until: int | None, strict: bool, chain: bool) -> None:
        self.tx, self.board, self.last, self.strict = tx, board, last, strict
        self.until, self.chained = until, chain
        self.chain = Chain(first_hash(last.board_id) if chain else None)
        self.world = World(in_place=True)
        self.judge = Judge(self.world)
        self.count = 0
        self._found: list[Divergence] = []
        self._redacted: dict[int, int] = {}
        self._cut = until is not None and until < last.position

    @property
    def streams(self) -> set[str]:
        """The cards that the log tells of."""
        return self.world.tasks.keys() | (self.judge.moment.unread - {""})

    @property
    def notes(self) -> tuple[str, ...]:
        """What this replay did not look at."""
        told = [*_notes(chain=self.chained)]
        if self._cut and self.judge.moment.unread:
            told.append(f"what is stored was not compared with the fold at {self.chain.position}: not all can be read")
        if self.judge.blind:
            told.append("the board's own stream could not be read: no event after that was judged")
        return tuple(told)

    def read(self, progress: Callable[[int, int], None] | None) -> None:
        """Take every event of the log, in order."""
        total = self.last.position if self.until is None else min(self.until, self.last.position)
        take = self._take_chained if self.chained else self._take
        for page in pages(self.tx, self._query()):
            for row in page:
                take(row)
            self.count += len(page)
            if progress is not None:
                progress(self.count, max(total, self.count))

    @contextmanager
    def stored(self, engine: Engine) -> Iterator[Connection | None]:
        """Where the rows stand that the fold must be like: none for a past of which not all can be read."""
        if not self._cut:
            yield self.tx
        elif self.judge.moment.unread:
            yield None
        else:
            with past(engine, self.board, self.chain.position) as tx:
                yield tx

    def end(self, task: str | None, stored: Connection | None) -> tuple[tuple[Divergence, ...], str]:
        """All that was found, in the order of the log, and the digest of the refold."""
        if self.chained:
            self._found += stray_words(self.tx, self.board, self.chain.worded, until=self.until)
        if self._cut:
            self._redactions_to_come()
        self.chain.end(None if self._cut else self.last, self._redacted)
        self._identity()
        comparison = Comparison(self.world, task=task, unread=frozenset(self.judge.moment.unread))
        digest = comparison.run(None if stored is None else partial(pages, stored), self.board)
        found = [*self.chain.found, *self._found, *self.judge.close(cut=self._cut), *comparison.found]
        if task is not None:
            found = [each for each in found if each.task in {None, "", task}]
        found.sort(key=lambda each: self.last.position + 1 if each.position is None else each.position)
        return tuple(each._replace(task=each.task or None) for each in found), digest

    def _query(self) -> Select[Any]:
        if self.chained:
            return log_of(self.board, until=self.until)
        wanted = frozenset({"words"}) if self.strict else frozenset()
        columns = [events.c[name] for name in (*FOLDED[:-2], "facts")]
        return log_of(self.board, until=self.until, wanted=wanted).with_only_columns(
            *columns, words.c.words if self.strict else null()
        )

    def _take_chained(self, row: tuple[Any, ...]) -> None:
        event = event_of(_folded(row))
        try:
            self.chain.take(row)
        except (TypeError, AttributeError, ValueError) as fault:
            self._damaged(event, fault, stored=row[_HASH])
        else:
            self._judge(event)

    def _take(self, row: tuple[Any, ...]) -> None:
        event = event_of(row)
        try:
            self.chain.place(event.position, event.task, event.version, schema=event.schema, at=event.at, run=event.run)
        except (TypeError, AttributeError, ValueError) as fault:
            self._damaged(event, fault)
        else:
            self._judge(event)

    def _damaged(self, event: Recorded, fault: Exception, *, stored: Any = None) -> None:
        self.chain.damaged(fault, position=event.position, task=event.task, stored=stored)
        self.judge.stop(event.task)

    def _judge(self, event: Recorded) -> None:
        name = event.task
        if name in self.judge.moment.unread:
            self._pass(event)
            return
        card = self.world.tasks.get(name)
        was = card.frozen() if card is not None and event.kind in ENDINGS else card
        try:
            if event.kind == "redacted":
                self._redacted[event.facts["redacts"]] = event.position
            self.judge.before(event, card)
            self.world.evolve_known(event, card)
            self.judge.after(event, was)
            if self.strict:
                self._validate(event)
        except Exception as fault:  # noqa: BLE001 – whatever it is, it is this card's, and the others go on
            self._unreadable(event, fault)

    def _pass(self, event: Recorded) -> None:
        """An event of a card that is not folded any more: its children, the caps and the words go on without it."""
        try:
            if event.kind == "redacted":
                self._redacted[event.facts["redacts"]] = event.position
            self.world.graph.evolve(event)
            self.judge.moment.take(event)
        except Exception:  # noqa: BLE001, S110 – its stream has been reported
            pass

    def _unreadable(self, event: Recorded, fault: Exception) -> None:
        match fault:
            case UnknownKind():
                wrong = Wrong("§2 kind", str(fault), event.kind)
            case NewerSchema():
                wrong = Wrong("§2 schema", str(fault), event.schema, SCHEMAS[event.kind])
            case _:
                wrong = Wrong("§2 shape", f"{event.kind}: {type(fault).__name__}: {fault}", event.facts_text)
        self.judge.stop(event.task)
        whose = "this card" if event.task else "the board's own stream"
        told = wrong._replace(text=f"{wrong.text}; the fold of {whose} stops here")
        self._found.append(told.at(event.task, event.position))

    def _validate(self, event: Recorded) -> None:
        wrong = valid(event)
        if wrong is not None:
            self._found.append(Divergence(event.task, event.position, "§2 shape", event.facts_text, None, wrong))

    def _identity(self) -> None:
        """The board's row carries the identity that its first event gave it."""
        told = self.world.settings.board_id
        if self.count == 0 and self.until is None:
            text = "the log is empty: a board begins with board_created"
            self._found.append(Divergence(None, None, "§9 head", None, "board_created", text))
        elif self.count and told != self.last.board_id and "" not in self.judge.moment.unread:
            text = "the board's id is not the one that board_created gave it"
            self._found.append(Divergence(None, 1, "§9 head", self.last.board_id, told, text))

    def _redactions_to_come(self) -> None:
        """The `redacted` that stand after *until*: words are gone from the day that they were redacted."""
        if not self.chain.wordless:
            return
        self._redacted |= redactions(self.tx, self.board, after=self.chain.position)
