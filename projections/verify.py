"""Whether a log is what was once appended: its chain, its columns, its words, and what older checkpoints saw of it.

Nothing is judged and nothing compared with the projections: that is a replay's. Only the digest of a checkpoint needs
a fold, up to its position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Engine, select

from ledger.chain import first_hash
from ledger.database import reading
from ledger.recorded import Recorded, parsed
from ledger.schema import words
from ledger.standing import Head, head
from projections.chained import Chain
from projections.checkpoint import Checkpoint, check_board, check_fold
from projections.compared import Comparison
from projections.divergence import Divergence
from projections.logged import log_of, stray_words
from projections.raw import pages
from projections.world import World

_RULE: Final = "§10 checkpoint"
_KIND, _FACTS = Recorded._fields.index("kind"), Recorded._fields.index("facts_text")
_PAGE: Final = 500
_NO_CHECKPOINT: Final = (
    "without an older checkpoint neither a tail that was cut off together with the board's row nor a log that was "
    "forged and chained anew can be seen"
)


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification found. *divergences* stand in the order of the log; *checkpoints*: the positions compared."""

    events: int
    position: int
    hash: str
    seconds: float
    events_per_second: int
    checkpoints: tuple[int, ...]
    divergences: tuple[Divergence, ...]
    notes: tuple[str, ...]

    @property
    def first_bad(self) -> int | None:
        """The first position at which something is wrong; none where nothing is."""
        return self.divergences[0].position if self.divergences else None

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger verify --json` prints."""
        return {
            "events": self.events,
            "position": self.position,
            "hash": self.hash,
            "seconds": round(self.seconds, 3),
            "events_per_second": self.events_per_second,
            "checkpoints": list(self.checkpoints),
            "first_bad": self.first_bad,
            "divergences": [divergence.as_json() for divergence in self.divergences],
            "notes": list(self.notes),
        }


def verify(
    engine: Engine,
    board: str,
    *,
    since: Sequence[Checkpoint] = (),
    fold: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """Recompute the chain of *board* in one read transaction, and compare it with the checkpoints *since*, by position.

    *fold*: the digest of the last of them is compared too, for which the log is folded up to there.
    Raises `UnknownBoard`, and `OtherCheckpoint` for one of another board, or of other folds.
    """
    started = time.perf_counter()
    with reading(engine) as tx:
        last = head(tx, board)
        check_board(since, board, last.board_id)
        if since and fold:
            check_fold(since[-1])
        pass_ = _Pass(tx, board, last, since, fold=fold)
        pass_.read(progress)
        found = pass_.end()
    seconds = time.perf_counter() - started
    return Verified(
        events=pass_.count,
        position=pass_.chain.position,
        hash=pass_.chain.hash.hex(),
        seconds=seconds,
        events_per_second=round(pass_.count / max(seconds, 1e-6)),
        checkpoints=tuple(each.position for each in since),
        divergences=found,
        notes=() if since else (_NO_CHECKPOINT,),
    )


class _Pass:
    """One pass over a log: its chain, and on the way the hash at each checkpoint and the fold up to the last."""

    def __init__(self, tx: Connection, board: str, last: Head, since: Sequence[Checkpoint], *, fold: bool) -> None:
        self.tx, self.board, self.last, self.since = tx, board, last, since
        self.chain = Chain(first_hash(last.board_id))
        self.count = 0
        self._redacted: dict[int, int] = {}
        self._wanted = {each.position for each in since}
        self._hashes: dict[int, str] = {}
        self._folded_to = since[-1].position if since and fold else 0
        self._world = World()
        self._unfolded: list[Divergence] = []

    def read(self, progress: Callable[[int, int], None] | None) -> None:
        """Take every event of the log, in order."""
        for page in pages(self.tx, log_of(self.board)):
            for row in page:
                self._take(row)
            self.count += len(page)
            if progress is not None:
                progress(self.count, max(self.last.position, self.count))

    def end(self) -> tuple[Divergence, ...]:
        """All that was found, in the order of the log."""
        self.chain.end(self.last, self._redacted)
        found = [*self.chain.found, *stray_words(self.tx, self.board, self.chain.worded), *self._came_back()]
        found += self._compared()
        found.sort(key=lambda each: self.last.position + 1 if each.position is None else each.position)
        return tuple(each._replace(task=each.task or None) for each in found)

    def _take(self, row: tuple[Any, ...]) -> None:
        try:
            self.chain.take(row)
        except (TypeError, AttributeError, ValueError) as fault:
            event = Recorded._make(row)
            self.chain.damaged(fault, position=event.position, task=event.task, stored=event.hash)
            return
        position = self.chain.position
        if position in self._wanted:
            self._hashes[position] = self.chain.hash.hex()
        if row[_KIND] == "redacted":
            self._redacts(row)
        if position <= self._folded_to and not self.chain.found:
            self._fold(row)

    def _redacts(self, row: tuple[Any, ...]) -> None:
        try:
            named = parsed(row[_FACTS])["redacts"]
        except (TypeError, KeyError, ValueError):  # no event of ours: what is wrong with it a replay says
            return
        if type(named) is int and 0 < named < self.chain.position:
            self._redacted[named] = self.chain.position

    def _fold(self, row: tuple[Any, ...]) -> None:
        try:
            self._world.evolve(Recorded._make(row))
        except Exception as fault:  # noqa: BLE001 – whatever it is, there is no digest to compare
            self._folded_to = 0
            text = f"it cannot be folded, though a checkpoint saw it folded: {type(fault).__name__}: {fault}"
            self._unfolded.append(Divergence(None, self.chain.position, _RULE, None, None, text))

    def _came_back(self) -> Iterator[Divergence]:
        """Words that a `redacted` names, and that are there."""
        named = sorted(self._redacted)
        for start in range(0, len(named), _PAGE):
            page = named[start : start + _PAGE]
            there = select(words.c.position).where(words.c.board == self.board, words.c.position.in_(page))
            for (position,) in self.tx.execute(there.order_by(words.c.position)):
                text = f"its words are there, though position {self._redacted[position]} says that they are gone"
                yield Divergence(None, position, "§10 words", "words", None, text)

    def _compared(self) -> Iterator[Divergence]:
        """What the checkpoints saw otherwise: the first that disagrees names where; those behind it say no more."""
        agreed = 0
        for each in self.since:
            wrong = self._missing(each) or self._otherwise(each, agreed)
            if wrong is not None:
                yield wrong
                return
            agreed = each.position
        yield from self._unfolded
        if self._folded_to and not self.chain.found:
            yield from self._digested(self.since[-1])

    def _missing(self, seen: Checkpoint) -> Divergence | None:
        if seen.position <= self.chain.position:
            return None
        at, text = self.chain.position, f"a checkpoint saw position {seen.position}: the tail behind this was cut off"
        return Divergence(None, at + 1, _RULE, at, seen.position, f"the log ends at position {at}; {text}")

    def _otherwise(self, seen: Checkpoint, agreed: int) -> Divergence | None:
        stored = self._hashes.get(seen.position)
        if stored == seen.hash:
            return None
        anew = "" if self.chain.found else ", and the chain made anew"
        where = f"from position {agreed + 1} to {seen.position} something was changed{anew}"
        return Divergence(None, seen.position, _RULE, stored, seen.hash, f"a checkpoint saw another log: {where}")

    def _digested(self, seen: Checkpoint) -> Iterator[Divergence]:
        computed = Comparison(self._world, task=None, unread=frozenset()).run(None, self.board)
        if computed != seen.digest:
            text = f"the log up to position {seen.position} is the same, its fold is not: this program folds otherwise"
            yield Divergence(None, seen.position, _RULE, computed, seen.digest, text)
