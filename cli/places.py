"""Places in a log as people write them: a position, or a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cli.wiring import Call
    from kanban.questions import Past, Questions
    from projections.places import Mark

At = Annotated[
    str | None,
    typer.Option("--at", metavar="POSITION|TIME", help="As it stood right after that, by the log.", show_default=False),
]
"""The moment of which a command tells; none: now."""


def mark(text: str) -> Mark:
    """The place that *text* means: digits alone are a position, all else is a time. Raises `InvalidInput`."""
    from cli.output import zone
    from cli.times import parse_time
    from ledger.clock import system_clock
    from projections.places import Mark

    if re.fullmatch("[0-9]{1,18}", text.strip()):
        return Mark(number=int(text))
    return Mark(instant=parse_time(text, system_clock(), zone()))


def asked(call: Call, at: str | None) -> Questions | Past:
    """The board as it stands, or as it stood *at* a place, which is told on stderr."""
    if at is None:
        return call.questions
    past = call.questions.as_of(mark(at))
    if not call.out.json:
        call.out.note("as of position {position}, {time}".format_map(past.as_json()))
    return past


def which(asked: Questions | Past) -> dict[str, Any]:
    """The moment of which an answer tells, as a part of its JSON; empty: now."""
    from kanban.questions import Past

    return {"at": asked.as_json()} if isinstance(asked, Past) else {}
