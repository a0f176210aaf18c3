"""Taking words out of the log: what is allowed, what comes of it, and where else they may still be (RULES §8, §10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select

from kanban.commands import NOTHING, Decision, Redact, View
from kanban.folders import run_folder, scratch_folder, worktree_folder
from kanban.making import one
from kanban.refusals import NoWords
from ledger import events as e
from ledger.erasing import rewrite
from ledger.errors import UnknownPosition
from ledger.events import Actor
from ledger.recorded import Recorded, texts_in
from ledger.store import read_task
from projections import tables

if TYPE_CHECKING:
    from kanban.board import Board
    from kanban.desk import Desk

_FURTHEST: Final = 2**62
"""No log is as long, and every database can compare with it."""


@dataclass(frozen=True, slots=True)
class Gone:
    """An event whose words are gone: its card (empty: the board's own), and what else may still hold them."""

    redacted: int
    task: str
    kind: str
    changed: bool
    position: int
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `ledger redact --json` prints."""
        return {
            "redacted": self.redacted,
            "task": self.task or None,
            "kind": self.kind,
            "changed": self.changed,
            "position": self.position,
            "notes": list(self.notes),
        }


def redact(view: View, command: Redact, actor: Actor) -> Decision:
    """Whose words are to go; twice is no event. Raises `UnknownPosition`, and `NoWords` where nothing was said."""
    event = at(view, command.position)
    if event.words_text is None:
        if view.redacts(event):
            return NOTHING
    elif not said_in(event):
        raise NoWords(event.task, event.position, event.kind)
    return one(event.task, e.Redacted(redacts=event.position, reason=command.reason), actor)


def at(view: View, position: int) -> Recorded:
    """The event at *position*, or `UnknownPosition`."""
    event = view.event(position) if 1 <= position <= _FURTHEST else None
    if event is None:
        raise UnknownPosition(position)
    return event


def said_in(event: Recorded) -> frozenset[str]:
    """The texts that *event* says, without blank ones and without the names of its fields."""
    fields = dict(event.words)
    wished = fields.pop("wish_words", None) or {}
    values = (*fields.values(), *wished.values())
    return frozenset(text for value in values for text in texts_in(value) if text.strip())


def redact_on(board: Board, position: int, reason: str | None, *, thoroughly: bool) -> Gone:
    """Redact the words at *position* of *board*; *thoroughly*: and write the store anew, also where they were gone."""
    with board.look() as desk:
        event = at(desk, position)
        again = tuple(_said_again(desk, event))
    answer = board.do(Redact(position, reason))
    left = rewrite(board.engine) if thoroughly else "it was not asked for"
    notes = [*again, *([] if left is None else [_kept_in_pages(position, left)]), *_elsewhere(board, event)]
    return Gone(position, event.task, event.kind, answer.changed, answer.position, tuple(notes))


def _said_again(desk: Desk, event: Recorded) -> Iterator[str]:
    """Other events of the card that say the very same: a granted wish, an accepted result."""
    said = said_in(event)
    for other in read_task(desk.tx, desk.board, event.task):
        if other.position != event.position and said & said_in(other):
            yield f"position {other.position} ({other.kind}) says the same: ledger redact {other.position}"


def _kept_in_pages(position: int, why: str) -> str:
    return f"pages of the store may keep a trace, since it was not written anew ({why}): ledger redact {position}"


def _elsewhere(board: Board, event: Recorded) -> Iterator[str]:
    """What is no part of the store and may hold the words: files of runs, workspaces, copies."""
    yield "backups, exports and copies of the store that were made before keep these words"
    if event.task == "":
        return
    with board.look() as desk:
        told = [event.task, *(link.child for link in desk.children(event.task))]
        folders = [folder for task in told for folder in _folders(board, desk, task) if folder.exists()]
        others = _hosts(desk, event.task) - {board.host.id}
    for folder in folders:
        yield f"look also into {folder}"
    if others:
        yield f"files of its runs, and of cards that waited for it, are on other hosts too: {', '.join(sorted(others))}"


def _folders(board: Board, desk: Desk, task: str) -> Iterator[Path]:
    """Where prompts, logs, results and workspaces of a card lie on this host."""
    home, name, card = board.home, board.name, desk.task(task)
    yield run_folder(home, name, task, 1).parent
    yield scratch_folder(home, name, task)
    yield worktree_folder(home, name, task)
    if card is not None and card.card.workspace.startswith("dir:"):
        yield Path(card.card.workspace.removeprefix("dir:"))


def _hosts(desk: Desk, task: str) -> set[str]:
    """The hosts that ran *task*, or a card that waited for it."""
    runs, links = tables.runs.c, tables.links.c
    children = select(links.child).where(links.board == desk.board, links.parent == task)
    told = (runs.task == task) | runs.task.in_(children)
    return set(desk.tx.execute(select(runs.host).where(runs.board == desk.board, told)).scalars())
