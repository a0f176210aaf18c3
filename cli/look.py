"""Commands that look and change nothing: list, show, board, why, runs, log, stats, events."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Literal

import typer

from cli import shown
from cli.output import print_json
from cli.places import At, asked, which
from cli.wiring import LARGEST, CardId, call_of, usage, verb

app = typer.Typer()

STATUSES = Literal["triage", "todo", "scheduled", "ready", "running", "review", "blocked", "done", "archived"]


@verb(app, "list")
def list_cards(
    ctx: typer.Context,
    *,
    status: Annotated[STATUSES | None, typer.Option(help="Only where they stand so.", show_default=False)] = None,
    assignee: Annotated[str | None, typer.Option(help="Only this one's; none: nobody's.", show_default=False)] = None,
    label: Annotated[str | None, typer.Option(help="Only with this label.", show_default=False)] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")] = 100,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Only those behind this card: the next page.", show_default=False)
    ] = None,
    sort: Annotated[Literal["priority", "created", "updated"], typer.Option(help="In which order.")] = "priority",
    at: At = None,
) -> None:
    """List cards."""
    call = call_of(ctx)
    board = asked(call, at)
    found = board.tasks(
        status=status, assignee=assignee, label=label, tenant=tenant, limit=limit, after=after, sort=sort
    )
    if call.out.json:
        call.out.answer({**found, **which(board)})
        return
    shown.tasks(call.out, found["tasks"])
    if found["next"] is not None:
        call.out.note(f"there are more: --after {found['next']}")


@verb(app)
def show(ctx: typer.Context, task: CardId, *, at: At = None) -> None:
    """Show a card whole: its fields, body, runs, relatives, comments and events."""
    call = call_of(ctx)
    board = asked(call, at)
    found = board.show(task)
    if call.out.json:
        call.out.answer({**found, **which(board)})
    else:
        shown.card(call.out, found)


@verb(app)
def board(ctx: typer.Context, *, at: At = None) -> None:
    """Show the board in columns, archived cards left out."""
    call = call_of(ctx)
    board = asked(call, at)
    found = board.columns()
    if call.out.json:
        call.out.answer({**found, **which(board)})
    else:
        shown.columns(call.out, found["columns"])


@verb(app)
def why(
    ctx: typer.Context,
    task: CardId,
    topic: Annotated[
        Literal["status", "failures", "streak", "hold", "held"] | None,
        typer.Argument(metavar="[status|failures|streak|hold|held]", help="About what.", show_default=False),
    ] = None,
    *,
    at: At = None,
) -> None:
    """Say why a card stands where it stands, with the events that say so and what to run next."""
    call = call_of(ctx)
    board = asked(call, at)
    found = board.why(task, topic)
    if call.out.json:
        call.out.answer({**found, **which(board)})
    else:
        shown.why(call.out, found)


@verb(app)
def runs(ctx: typer.Context, task: CardId, *, at: At = None) -> None:
    """List the runs of a card: who, when, how it ended, what it left behind."""
    call = call_of(ctx)
    board = asked(call, at)
    found = board.runs(task)
    if call.out.json:
        call.out.answer({**found, **which(board)})
    else:
        shown.runs(call.out, found["runs"])


@verb(app)
def log(
    ctx: typer.Context,
    task: CardId,
    *,
    run: Annotated[
        int | None, typer.Option(min=1, max=LARGEST, help="Which run.  [default: the last]", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run is over.")] = False,
) -> None:
    """Print what a run has written."""
    from cli.logs import find, follow_log, text_of

    call = call_of(ctx)
    if follow and call.out.json:
        raise usage("--follow streams text: leave out --json")
    found = find(call.questions, task, run)
    if follow:
        follow_log(call.questions, found)
        return
    text = text_of(found)
    if call.out.json:
        call.out.answer({"task": task, "run": found.run, "path": str(found.path), "text": text})
    else:
        call.out.line(text.removesuffix("\n"))


@verb(app)
def stats(
    ctx: typer.Context,
    *,
    between: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="FROM TO",
            help="The flow from one position or time of the log to another.  [default: the last 30 days]",
            show_default=False,
        ),
    ] = None,
    at: At = None,
) -> None:
    """Count the board: cards by status, live runs, each host's last sweep; what was done, how fast and at what cost."""
    from cli import flow
    from cli.places import mark

    call = call_of(ctx)
    board = asked(call, at)
    marks = None if between is None else (mark(between[0]), mark(between[1]))
    found = {**board.stats(), "flow": board.flow(marks), **which(board)}
    if call.out.json:
        call.out.answer(found)
    else:
        shown.stats(call.out, found)
        flow.shown(call.out, found["flow"])


@verb(app)
def events(
    ctx: typer.Context,
    task: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this card's.", show_default=False)] = None,
    *,
    after: Annotated[int, typer.Option(min=0, max=2**62, help="Only those behind this position.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on for ever.")] = False,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only this kind, as claimed; may be repeated.", show_default=False)
    ] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="One JSON object a line.")] = False,
) -> None:
    """Print the log."""
    from cli.stream import chosen, stream
    from projections.shown import event_json

    call = call_of(ctx)
    if follow and call.out.json and not jsonl:
        raise usage("--follow never ends: with it say --jsonl, not --json")
    with closing(stream(call.questions, task, after=after, follow=follow, kinds=chosen(kind or ()))) as found:
        if jsonl:
            for event in found:
                print_json(event_json(event))
        elif call.out.json:
            call.out.answer({"events": [event_json(event) for event in found]})
        else:
            shown.events(call.out, found)
