"""A replay that several processes share: this one looks at the first part, one of its own at each of the others.

It answers only where nothing is wrong, with what one process would say then: its digest is over the same bytes in the
same order. Where any part is in doubt, or a process is gone, it has no answer, and one process looks at it all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import sqlalchemy
from sqlalchemy import Connection, Engine

from ledger.database import reading
from ledger.standing import head
from ledger.together import lent, undisturbed
from projections import replay_child
from projections.compared import ALL, SHAPES, heading
from projections.logged import count_words, redactions
from projections.parts import Doubt, Part, Seen, divided, look
from projections.replay_hand import BEGUN, DONE, DOUBT, OTHER, READY, SEEN, hear, order, rows_heard, seen
from projections.replay_rows import Rows
from projections.uncollected import uncollected

Progress = Callable[[int, int], None] | None

_MOST: Final = 8
"""Processes, where nobody says how many: more of them wait for the first one, which puts their rows together."""
_WORTH: Final = 60_000
"""Events from which on another process is sooner at its work than this one is done."""
_START: Final = 35_000
"""Events that are looked at while another process starts."""
_PATIENCE: Final = 5.0
"""Seconds that writers are kept out at most, until all processes have begun to read."""


def cores() -> int:
    """How many processors this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if allowed is None else len(allowed(0))


def jobs_for(length: int) -> int:
    """How many processes are worth their start for a log of so many events."""
    return min(cores(), _MOST, max(1, length // _WORTH))


class Wish(NamedTuple):
    """What a replay is asked for."""

    task: str | None
    until: int | None
    strict: bool
    chain: bool


class Sound(NamedTuple):
    """A log at which nothing is wrong."""

    events: int
    cards: int
    known: bool
    """Whether the card that was asked for is there."""
    digest: str
    position: int
    hash: str


class _Behind(Doubt):
    """Another process began to read after somebody wrote."""


def shared(engine: Engine, board: str, wish: Wish, *, jobs: int, progress: Progress = None) -> Sound | None:
    """What *jobs* processes find together, if nothing is wrong; else none, and also where they cannot be started."""
    try:
        with _hands(engine, jobs - 1) as hands, Rows() as rows, suppress(_Behind):
            return _Replay(engine, board, wish, progress, rows).by(hands)
        with _hands(engine, jobs - 1) as hands, Rows() as rows:  # writers are kept out until all have begun
            return _Replay(engine, board, wish, progress, rows).by(hands, alone=True)
    except Exception:  # noqa: BLE001 – whatever it is, one process comes upon it too, or does without others
        return None


class Hand:
    """Another process, and a thread that listens to it until it has looked at its part."""

    def __init__(self, engine: Engine) -> None:
        self.events = 0
        self._said = threading.Condition()
        self._letters = b""
        self._answer = b""
        roots = {str(Path(str(module.__file__)).absolute().parents[1]) for module in (replay_child, sqlalchemy)}
        self._started = subprocess.Popen(
            [sys.executable, "-I", str(replay_child.__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what a terminal says is said to this process, which ends the other
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._tell(json.dumps(sorted(roots)).encode() + b"\n")
        self._tell(json.dumps(engine.url.render_as_string(hide_password=False)).encode() + b"\n")

    def ask(self, part: Part, snapshot: str | None) -> None:
        """Let it look at *part*."""
        self._tell(order(part, snapshot))

    def check(self) -> None:
        """Raise `Doubt` where it is in doubt, or gone; `_Behind` where it sees another board."""
        if OTHER in self._letters:
            raise _Behind
        if DOUBT in self._letters:
            raise Doubt(self._answer.decode())

    def wait(self, letter: bytes, seconds: float | None = None) -> None:
        """Until it has said that. Raises as `check`, and after so many *seconds*."""
        with self._said:
            if not self._said.wait_for(lambda: {letter, OTHER, DOUBT} & {*_each(self._letters)}, seconds):
                raise Doubt("another process does not begin")
        self.check()

    def seen(self) -> Seen:
        """What it found, once it has."""
        self.wait(SEEN)
        return seen(self._answer)

    def rows(self) -> Iterator[bytes]:
        """What is digested of its rows of the next table."""
        return rows_heard(self._pipes[1])

    def end(self) -> None:
        """It is not needed any more."""
        self._started.kill()
        self._started.wait()
        self._listener.join()
        for pipe in self._pipes:
            with suppress(BrokenPipeError):
                pipe.close()

    @property
    def _pipes(self) -> tuple[Any, Any]:
        return self._started.stdin, self._started.stdout

    def _tell(self, line: bytes) -> None:
        with suppress(BrokenPipeError):  # it is gone, as the listener hears
            self._pipes[0].write(line)
            self._pipes[0].flush()

    def _listen(self) -> None:
        letter = b""
        while letter not in {SEEN, OTHER, DOUBT}:
            try:
                letter, data = hear(self._pipes[1])
            except (EOFError, OSError, ValueError):
                letter, data = DOUBT, b"another process is gone"
            if letter == DONE:
                self.events = int(data)
            else:
                with self._said:
                    self._letters, self._answer = self._letters + letter, data
                    self._said.notify_all()


def _each(letters: bytes) -> Iterator[bytes]:
    return (letters[place : place + 1] for place in range(len(letters)))


@contextmanager
def _hands(engine: Engine, number: int) -> Iterator[list[Hand]]:
    with ExitStack() as ending:
        hands = []
        for _ in range(number):
            hands.append(Hand(engine))
            ending.callback(hands[-1].end)
        yield hands


class _Replay:
    """One attempt of several processes."""

    def __init__(self, engine: Engine, board: str, wish: Wish, progress: Progress, rows: Rows) -> None:
        self.engine, self.board, self.wish, self.progress, self._rows = engine, board, wish, progress, rows

    def by(self, hands: Sequence[Hand], *, alone: bool = False) -> Sound:
        """What this process and *hands* find together. *alone*: nobody else writes until all have begun to read."""
        with ExitStack() as quiet:
            if alone:
                for hand in hands:
                    hand.wait(READY)
                quiet.enter_context(undisturbed(self.engine))
            with reading(self.engine) as tx, uncollected():
                whole = self._whole(tx)
                busy = self._asked(tx, whole, hands)
                if alone:
                    for hand in busy:
                        hand.wait(BEGUN, _PATIENCE)
                    quiet.close()
                worded = count_words(tx, self.board, self.wish.until) if self.wish.chain else 0
                own = self._look(tx, self._parts[0], busy)
                for hand in busy:
                    hand.wait(BEGUN)  # while the snapshot stands that it is to join
        found = [own, *(hand.seen() for hand in busy)]
        self._check(found, whole, worded)
        if self.progress is not None:
            self.progress(whole.end, whole.end)
        cards, known = sum(each.cards for each in found), any(each.known for each in found)
        return Sound(whole.end, cards, known, self._digest(busy), whole.end, found[-1].hash)

    def _whole(self, tx: Connection) -> Part:
        task, until, strict, chain = self.wish
        whole = Part(self.board, head(tx, self.board), until, strict, chain, task, ALL, 0, 0)
        return whole._replace(upto=whole.end)

    def _asked(self, tx: Connection, whole: Part, hands: Sequence[Hand]) -> Sequence[Hand]:
        """Those of *hands* that were given a part: there may be too few cards for all."""
        share = whole.end / (len(hands) + 1)
        self._parts = divided(tx, whole, [share + min(_START, share / 4), *[share] * len(hands)])
        if len(self._parts) == 1:
            raise Doubt("there is too little to share")
        busy, snapshot = hands[: len(self._parts) - 1], lent(tx)
        for hand, part in zip(busy, self._parts[1:], strict=True):
            hand.ask(part, snapshot)
        return busy

    def _look(self, tx: Connection, part: Part, busy: Sequence[Hand]) -> Seen:
        def heard(count: int) -> None:
            for hand in busy:
                hand.check()
            if self.progress is not None:
                done = count + sum(hand.events for hand in busy)  # each counts the board's own events too
                self.progress(min(done, part.end), part.end)

        return look(tx, self.engine, part, said=self._rows.add, heard=heard)

    def _check(self, found: Sequence[Seen], whole: Part, worded: int) -> None:
        """What no part can see: that each event was some part's, the head, and words without an event or a reason."""
        last, told = whole.last, found[-1]
        if sum(each.events for each in found) != whole.end:
            raise Doubt("an event is no part's")
        if not whole.cut and (told.at, told.hash or last.hash.hex()) != (last.at, last.hash.hex()):
            raise Doubt("the head is not the last event's")
        if worded != sum(each.worded for each in found):
            raise Doubt("words without an event")
        wordless = [position for each in found for position in each.wordless]
        if wordless:
            with reading(self.engine) as tx:
                named = redactions(tx, self.board, until=last.position)
            if any(named.get(position, 0) <= position for position in wordless):
                raise Doubt("words are gone without a reason")

    def _digest(self, busy: Sequence[Hand]) -> str:
        digest = sha256()
        for number, shape in enumerate(SHAPES):
            digest.update(heading(shape))
            for data in chain.from_iterable([self._rows.of(number), *(hand.rows() for hand in busy)]):
                digest.update(data)
        return digest.hexdigest()
