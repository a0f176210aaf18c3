"""A log written as it stands in another store: the same positions, instants, words and hashes, each checked on the way.

Nothing is folded here: whoever transcribes brings the projections after it, or folds them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Connection

from ledger.chain import next_hash, words_digest
from ledger.clock import system_clock
from ledger.erasing import erase
from ledger.errors import InvalidInput
from ledger.recorded import Recorded
from ledger.standing import Head, standing
from ledger.store import envelope_of, version, words_row, write

SALT: Final = 32  # bytes


class DoesNotFollow(InvalidInput):
    """An event that is not the next one of the log that it was to continue."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what, remedy="ledger verify, where it came from")
        self.position = position


class Tip:
    """Where a log ends, moving on event by event. *version_of* knows a task's last version; none: any may come."""

    def __init__(self, board: str, end: Head, version_of: Callable[[str], int | None]) -> None:
        self.end = end
        self._board = board
        self._version_of = version_of
        self._versions: dict[str, int | None] = {}

    def take(self, event: Recorded) -> None:
        """Go on to *event*. Raises `DoesNotFollow` if it is not the next one."""
        what = self._of_another(event) or unchained(event, self.end) or self._out_of_turn(event)
        if what is not None:
            raise DoesNotFollow(event.position, what)
        self._versions[event.task] = event.version
        self.end = Head(self.end.board_id, event.position, event.at, event.hash)

    def _of_another(self, event: Recorded) -> str | None:
        if event.board == self._board:
            return None
        return f"position {event.position} is of board {event.board}, not of {self._board}"

    def _out_of_turn(self, event: Recorded) -> str | None:
        if event.task not in self._versions:
            self._versions[event.task] = self._version_of(event.task)
        last = self._versions[event.task]
        if last is not None and event.version != last + 1:
            return f"position {event.position}: version {event.version} of {event.task or 'the board'} after {last}"
        return None


def unchained(event: Recorded, last: Head) -> str | None:
    """What speaks against *event* standing right behind *last*, or none (RULES §2, §10)."""
    if event.position != last.position + 1:
        return f"position {event.position} follows {last.position}"
    here = f"position {event.position}: its"
    if event.at < last.at:
        return f"{here} instant is before that of the event before it"
    if event.words_text is not None and not _words_fit(event):
        return f"{here} words are not those that were hashed"
    if next_hash(last.hash, envelope_of(event), event.facts_text, event.words_digest) != event.hash:
        return f"{here} hash is not that of its columns after the event before it"
    return None


def transcribe(tx: Connection, board: str, recorded: Sequence[Recorded]) -> Head:
    """Write *recorded*, a page of another store's log of *board*, at the end of the log here. Where it ends then.

    The board must be there, with that log's identity (`create_board`); words that a `redacted` of the page names go.
    Raises `DoesNotFollow`, and then nothing may be committed; `UnknownBoard`.
    """
    last, _ = standing(tx, board, system_clock, hold=True)
    tip = Tip(board, last, lambda task: version(tx, board, task))
    for event in recorded:
        tip.take(event)
    if recorded:
        write(tx, board, last, recorded, [words_row(event) for event in recorded if event.words_text is not None])
        erase(tx, board, recorded)
    return tip.end


def _words_fit(event: Recorded) -> bool:
    salt = event.salt or b""
    return len(salt) == SALT and words_digest(salt, event.words_text or "") == event.words_digest
