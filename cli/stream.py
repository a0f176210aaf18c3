"""The log as a stream: which events are wanted, once or for ever."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from ledger.errors import InvalidInput

if TYPE_CHECKING:
    from kanban.questions import Questions
    from ledger.recorded import Recorded


def chosen(kinds: Sequence[str]) -> frozenset[str]:
    """*kinds*, each of them known. Raises `InvalidInput` naming the nearest."""
    from difflib import get_close_matches

    from ledger.events import KINDS

    for kind in kinds:
        if kind not in KINDS:
            near = get_close_matches(kind, list(KINDS), n=1, cutoff=0.0)
            raise InvalidInput(f"no kind of event is called {kind!r}", remedy=f"--kind {near[0]}")
    return frozenset(kinds)


def stream(
    board: Questions, task: str | None, *, after: int, follow: bool, kinds: frozenset[str]
) -> Generator[Recorded, None, None]:
    """The events of the board or of *task* behind position *after*, in order; *follow*: for ever."""
    if follow and task is not None:
        board.runs(task)  # the card must be there
    found = board.follow(after=after) if follow else board.events(task, after=after)
    for event in found:
        if (task is None or event.task == task) and (not kinds or event.kind in kinds):
            yield event
