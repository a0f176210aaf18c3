"""`ledger worker`: a card's worker in the foreground, and the two clients of a warm agent's owner."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.errors import tell
from cli.output import print_error
from cli.wiring import Call, CardId, call_of, seconds, usage, verb

if TYPE_CHECKING:
    from kanban.worker.attend import Attended

app = typer.Typer(help="Run a card's worker, or ask a warm agent.", rich_markup_mode=None)


Command = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- COMMAND...]",
        help="What to start; without it, what the card's assignee starts.",
        show_default=False,
    ),
]


@verb(app)
def run(
    ctx: typer.Context,
    task: CardId,
    command: Command = None,
    *,
    assignee: Annotated[
        str | None,
        typer.Option(help="Only a card of this assignee; nobody's card is claimed for it.", show_default=False),
    ] = None,
) -> None:
    """Claim a card, run its worker here, and wait until its run is booked."""
    from kanban.worker.attend import Ask, attend

    call = call_of(ctx)
    if command and not command[0].strip():
        raise usage("the command after -- names no program")

    def begun(card: str, number: int, log: Path) -> None:
        with _unheard():
            call.out.note(f"{card} run {number}: its log is {log}")

    attended = attend(call.board, Ask(task, assignee, tuple(command or ())), begun)
    _tell(call, attended)
    raise typer.Exit(attended.exit_code)


Owned = Annotated[str, typer.Option("--assignee", help="Whose owner takes the turns.", show_default=False)]
Patience = Annotated[
    str | None, typer.Option("--wait", metavar="DURATION", help="For an owner.  [default: 3m]", show_default=False)
]


@verb(app)
def client(ctx: typer.Context, *, assignee: Owned, wait: Patience = None) -> None:
    """In a worker's environment: have the turns of its run taken by the owner of an assignee."""
    from kanban.refusals import Forbidden
    from kanban.worker.carrier import carrier_of, is_worker
    from kanban.worker.client import OwnerAbsent, work
    from kanban.worker.exits import COME_BACK, FAILED, INTERRUPTED, exit_turn
    from kanban.worker.place import home_here

    call = call_of(ctx)
    worker = dict(call.environ)
    if not is_worker(worker):
        raise Forbidden("this is no worker's environment: LEDGER_TASK is not set", remedy="ledger worker ask TEXT")
    code, resets_at = FAILED, None
    try:
        claim = carrier_of(worker)
        assert claim is not None
        reply = work(claim, assignee, home_here(worker), os.environ, _patience(wait))
        code, resets_at = reply.code, reply.resets_at
        call.out.line(reply.text or "")
        if reply.error is not None:
            call.out.note(reply.error)
    except OwnerAbsent as fault:
        code = COME_BACK
        tell(fault, call.out)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as fault:  # noqa: BLE001 – told in one line, and the trailer stands on every path
        tell(fault, call.out)
    exit_turn(code, resets_at=resets_at, environ=worker)


@verb(app)
def ask(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to ask.", show_default=False)],
    *,
    assignee: Owned,
    wait: Patience = None,
) -> None:
    """Let a warm agent take one turn that is no card's."""
    from kanban.worker import client as clients
    from kanban.worker.place import home_here

    call = call_of(ctx)
    reply = clients.ask(text, assignee, home_here(call.environ), _patience(wait))
    if call.out.json:
        call.out.answer({"text": reply.text, "session_id": reply.session, "code": reply.code, "result": reply.result})
    else:
        call.out.line(reply.text or "")
        if reply.error is not None:
            print_error(reply.error)
        call.out.note(f"session_id: {reply.session}")
    raise typer.Exit(reply.code)


def _patience(wait: str | None) -> float:
    from kanban.worker.client import PATIENCE

    return PATIENCE if wait is None else float(seconds(wait, allow_zero=True) or 0)


def _tell(call: Call, ended: Attended) -> None:
    """What became of the run: one object, or a line and what is to be noted."""
    if call.out.json:
        evidence = ended.evidence
        call.out.answer(
            {
                "task": ended.run.task,
                "run": ended.run.run,
                "outcome": ended.run.outcome,
                "code": evidence.code,
                "signal": evidence.signal,
                "lost": ended.lost,
                "log": str(ended.log),
                "notes": list(ended.notes),
            }
        )
        return
    shown = f"{ended.run.task} run {ended.run.run}"
    if ended.lost:
        with _unheard():
            print_error(f"{shown} no longer held the claim: its processes were ended", f"ledger show {ended.run.task}")
    else:
        call.out.done(f"{shown}: {_booked(ended)}")
    with _unheard():
        call.tell(ended.notes)


@contextmanager
def _unheard() -> Iterator[None]:
    """For words on stderr: where that does not take them, nobody hears this or what follows, and no code changes."""
    try:
        yield
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # the interpreter flushes what is left, too
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _booked(ended: Attended) -> str:
    by = ended.run.ended_by or ""
    return f"booked as {ended.run.outcome}" if by == "exited" else by.replace("_", " ")
