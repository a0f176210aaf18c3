"""`ledger diff`: what changed between two moments of a board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.output import Out, clean
from cli.places import mark
from cli.wiring import call_of, verb

if TYPE_CHECKING:
    from ledger.recorded import Recorded
    from projections.differences import Difference

app = typer.Typer()
_OF_NEW = ("status", "assignee", "priority", "labels", "parents", "hold", "outcome", "failures", "streak")
"""What people are told of a card that was not there before."""


@verb(app)
def diff(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="FROM", help="A position or a time.", show_default=False)],
    last: Annotated[
        str | None, typer.Argument(metavar="[TO]", help="A later one.  [default: now]", show_default=False)
    ] = None,
) -> None:
    """Say which cards changed between two moments, how, and by which events."""
    call = call_of(ctx)
    since, until, found = call.questions.differences(mark(first), None if last is None else mark(last))
    if call.out.json:
        told = [each.as_json() for each in found]
        call.out.answer({"from": since.as_json(), "to": until.as_json(), "changed": told, "position": until.position})
        return
    call.out.note("from position {position}, {time}".format_map(since.as_json()))
    call.out.note("to position {position}, {time}".format_map(until.as_json()))
    for each in found:
        _show(call.out, each)
    if not found:
        call.out.note("nothing changed")


def _show(out: Out, each: Difference) -> None:
    out.line("  ".join(clean(part) for part in (each.task or "the board", each.title) if part))
    if each.is_new:
        said = ", ".join(f"{name} {_said(name, each.changes[name].after)}" for name in _OF_NEW if name in each.changes)
        out.line(f"    new: {said}")
    for name, change in () if each.is_new else each.changes.items():
        out.line(f"    {name}: {_said(name, change.before)} → {_said(name, change.after)}")
    out.line(f"    by {', '.join(_event(event, each.task) for event in each.events)}")


def _said(name: str, value: Any) -> str:
    match value:
        case None | []:
            return "none"
        case {"cause": cause, "position": position} if name == "hold":
            return f"{cause} (position {position})"
        case list():
            return ", ".join(_said("", each) for each in value)
        case dict():
            return clean(" ".join(str(each) for each in value.values() if each))
        case _:
            return clean(value)


def _event(event: Recorded, task: str) -> str:
    whose = f" of {event.task}" if event.task != task else ""
    run = f" {event.run}" if event.run is not None else ""
    return f"{event.position} {event.kind}{run}{f' {event.outcome}' if event.outcome else ''}{whose}"
