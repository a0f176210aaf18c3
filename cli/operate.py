"""Commands on the board as a whole: sweep, pause, resume, replay."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.errors import DIVERGENCE
from cli.output import Out, clean, local, zoned
from cli.places import At, mark
from cli.wiring import LARGEST, Call, call_of, seconds, usage, verb

app = typer.Typer()

Who = Annotated[str | None, typer.Option(help="Only for this assignee.", show_default=False)]
MOST_JOBS = 64
"""Processes that may share a replay: more than processors are of no use, and each takes memory."""
Where = Annotated[str | None, typer.Option(help="Only on this host: its name here, or its id.", show_default=False)]


@verb(app)
def sweep(
    ctx: typer.Context,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what a tick would do.")] = False,
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Go on, one tick every so often.", show_default=False)
    ] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Go on until nothing is live or starts.")] = False,
    most: Annotated[
        int | None, typer.Option("--max", min=0, max=LARGEST, help="Start at most so many a tick.", show_default=False)
    ] = None,
    fail_if_locked: Annotated[
        bool, typer.Option("--fail-if-locked", help="Exit with 9 when another sweep is at work here.")
    ] = False,
) -> None:
    """Dispatch: book what ended, stop what must, and start what may start."""
    from cli.sweeping import Loop

    if dry_run and (every is not None or until_idle):
        raise usage("--dry-run looks once: leave out --every and --until-idle")
    loop = Loop(call_of(ctx), dry_run=dry_run, every=seconds(every), until_idle=until_idle, most=most)
    raise typer.Exit(loop.run(fail_if_locked=fail_if_locked))


@verb(app)
def pause(
    ctx: typer.Context,
    reason: Annotated[str | None, typer.Argument(metavar="[REASON]", help="Why.", show_default=False)] = None,
    *,
    assignee: Who = None,
    host: Where = None,
    drain: Annotated[bool, typer.Option("--drain", help="Ask live runs to stop, too.")] = False,
) -> None:
    """Start nothing any more: on the whole board, for an assignee or on a host."""
    call = call_of(ctx)
    scope, name = _scope(call, assignee, host)
    answer = call.board.pause(scope=scope, name=name, drain=drain, reason=reason)
    _paused(call, answer.changed, call.strangers(assignee))


@verb(app)
def resume(ctx: typer.Context, assignee: Who = None, host: Where = None) -> None:
    """End a pause: of the whole board, of an assignee or of a host."""
    call = call_of(ctx)
    scope, name = _scope(call, assignee, host)
    answer = call.board.resume(scope=scope, name=name)
    _paused(call, answer.changed, ())


@verb(app)
def replay(
    ctx: typer.Context,
    *,
    task: Annotated[
        str | None, typer.Option(metavar="ID", help="Report on this card only.", show_default=False)
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Check the shape of every event, too.")] = False,
    no_chain: Annotated[bool, typer.Option("--no-chain", help="Leave out hashes and words: a third faster.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_JOBS,
            help="Share the work between so many processes; else as many as there are processors, if that is worth it.",
            show_default=False,
        ),
    ] = None,
    tried: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="LIMIT=N",
            help="Instead say what another limit would have made of the log, as failure_limit=1; may be repeated.",
            show_default=False,
        ),
    ] = None,
    at: At = None,
) -> None:
    """Audit: fold the whole log anew and say what differs from the rules or from what is stored."""
    call = call_of(ctx)
    until = None if at is None else call.board.as_of(mark(at)).position
    if tried:
        from cli.whatif import try_limits

        if strict or no_chain:
            raise usage("--what-if looks at no hash and no shape: leave out --strict and --no-chain")
        if jobs is not None:
            raise usage("--what-if is the work of one process: leave out --jobs")
        try_limits(call, tried, task, until=until)
        return
    with call.out.progress("replaying") as progress:
        found = call.board.replay(
            task=task, until=until, strict=strict, chain=not no_chain, jobs=jobs, progress=progress
        )
    if task is None and until is None:
        _keep(call, found)
    if call.out.json:
        call.out.answer(found.as_json())
    else:
        _verdict(call.out, found)
    if found.divergences:
        raise typer.Exit(DIVERGENCE)


def _keep(call: Call, found: Any) -> None:
    """Note what was found, for `ledger metrics`; where that cannot be written the verdict stands all the same."""
    from kanban.measures import keep_replay

    try:
        keep_replay(call.address.home, call.address.board, found, call.board.clock())
    except OSError as fault:
        call.out.note(f"note: that the log was replayed could not be noted: {clean(fault.filename)}: {fault.strerror}")


def _scope(call: Call, assignee: str | None, host: str | None) -> tuple[str, str]:
    if assignee is not None and host is not None:
        raise usage("--assignee and --host exclude each other")
    if host is not None:
        here = call.board.host
        return "host", here.id if host == here.name else host
    return ("board", "") if assignee is None else ("assignee", assignee)


def _paused(call: Call, changed: bool, notes: tuple[str, ...]) -> None:
    from ledger.clock import rfc3339

    pauses = call.board.settings.pauses
    if call.out.json:
        shown = [{**pause._asdict(), "at": rfc3339(pause.at)} for pause in pauses]
        call.out.answer({"paused": shown, "changed": changed, "notes": list(notes)})
        return
    if not changed:
        call.out.done("nothing changed")
    if pauses and not call.out.quiet:
        rows = [(pause.scope, pause.name, "yes" if pause.drain else "", local(pause.at)) for pause in pauses]
        call.out.table(("PAUSED", "NAME", "DRAIN", zoned("SINCE")), rows)
    elif not pauses:
        call.out.done("nothing is paused")
    call.tell(notes)


def _verdict(out: Out, found: Any) -> None:
    count = len(found.divergences)
    verdict = "no divergence" if not count else f"{count} divergence{'s' if count > 1 else ''}"
    speed = f"{found.seconds:.2f} s, {found.events_per_second} events/s"
    out.line(f"{found.events} events, {found.tasks} cards: {verdict}; digest {found.digest}; {speed}")
    for divergence in found.divergences:
        where = " ".join(
            part for part in (divergence.task, divergence.position and f"position {divergence.position}") if part
        )
        out.line(f"  - {where or 'the log'}: {clean(divergence.text)}   RULES {divergence.rule}")
        out.line(f"      stored {clean(divergence.stored)}, computed {clean(divergence.computed)}")
    for note in found.notes if out.verbose else ():
        out.note(f"note: {note}")
