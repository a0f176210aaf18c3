"""What a card with a goal is to reach, and in how many turns, by the driver alone: a worker's turns load no more."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from ledger.glance import glance

DEFAULT_TURNS: Final = 20
"""Turns of a run for a goal that was given no number of its own."""
_GOAL: Final = """
SELECT card.goal_max_turns, title.words, body.words
FROM runs AS run
JOIN tasks AS card ON card.board = run.board AND card.task = run.task
LEFT JOIN words AS title ON title.board = card.board AND title.position = card.title_position
LEFT JOIN words AS body ON body.board = card.board AND body.position = card.body_position
WHERE run.board = ? AND run.task = ? AND run.run = ? AND run.lane = 'work' AND card.goal_max_turns IS NOT NULL
"""


class Goal(NamedTuple):
    """Title and body of a card that goes on until they are met, and the turns of a run, the first one counted."""

    text: str
    max_turns: int = DEFAULT_TURNS


def turns_of(asked: int | None) -> int:
    """How many turns a goal gets where *asked* was said of it: none, 0 and less are `DEFAULT_TURNS`."""
    return asked if asked is not None and asked > 0 else DEFAULT_TURNS


def goal_of(url: str, board: str, task: str, run: int) -> Goal | None:
    """The goal of a card's *run*; none where the card has none, or the run is a review. Raises as `glance`.

    Redacted words are left out.
    """
    row = glance(url, _GOAL, (board, task, run))
    if row is None:
        return None
    max_turns, title, body = row
    words = (json.loads(title or "{}").get("title"), json.loads(body or "{}").get("body"))
    return Goal("\n\n".join(text for text in words if text), turns_of(max_turns))
