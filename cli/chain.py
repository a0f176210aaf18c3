"""Commands on the log itself: verify, checkpoint, redact."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.errors import DIVERGENCE
from cli.output import Out, clean
from cli.wiring import Reason, call_of, text_in, verb

app = typer.Typer()

_FURTHEST = 2**62


@verb(app)
def verify(
    ctx: typer.Context,
    *,
    since: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="Older checkpoints, one a line: compare with them.", show_default=False),
    ] = None,
    no_fold: Annotated[
        bool, typer.Option("--no-fold", help="Leave out the digest of the last checkpoint: nothing is folded.")
    ] = False,
) -> None:
    """Recompute the chain of the whole log: name the first position that is not as it was once written.

    Only an older checkpoint, kept elsewhere, shows a tail that was cut off together with the board's row, or a log that
    was forged and chained anew. Whether events were legal and what is shown is right, ledger replay says.
    """
    from projections.checkpoint import checkpoints

    call = call_of(ctx)
    given = () if since is None else checkpoints(text_in(since, "--since"))
    with call.out.progress("verifying") as progress:
        found = call.questions.verify(since=given, fold=not no_fold, progress=progress)
    if call.out.json:
        call.out.answer(found.as_json())
    else:
        _verdict(call.out, found)
    if found.divergences:
        raise typer.Exit(DIVERGENCE)


@verb(app)
def checkpoint(ctx: typer.Context) -> None:
    """Print where the log stands, in one line: keep it where nobody who can write to the store can change it.

    ledger checkpoint >> /elsewhere/checkpoints, now and then; later ledger verify --since /elsewhere/checkpoints.
    """
    call = call_of(ctx)
    with call.out.progress("folding") as progress:
        made = call.questions.checkpoint(progress=progress)
    call.out.answer(made.as_json())


@verb(app)
def redact(
    ctx: typer.Context,
    position: Annotated[
        int,
        typer.Argument(
            metavar="POSITION", min=1, max=_FURTHEST, help="The event's: see ledger events.", show_default=False
        ),
    ],
    *,
    reason: Reason = None,
    no_rewrite: Annotated[
        bool, typer.Option("--no-rewrite", help="Quicker, but pages of the store may keep a trace of the words.")
    ] = False,
) -> None:
    """Delete the words of one event for good: its title, text, reason, summary or result.

    The event stays, with its facts, and the chain still holds. Backups and exports that were made before keep the
    words, and so may prompts, logs and workspaces of runs: they are named. The store is written anew, which takes as
    long as a backup.
    """
    call = call_of(ctx)
    gone = call.board.redact(position, reason=reason, thoroughly=not no_rewrite)
    if call.out.json:
        call.out.answer(gone.as_json())
        return
    what = f"position {gone.redacted} ({' '.join(part for part in (gone.kind, gone.task) if part)})"
    call.out.done(f"{what}: its words are gone{'' if gone.changed else ' already'}")
    call.tell(gone.notes)


def _verdict(out: Out, found: Any) -> None:
    compared = f"; compared with checkpoints at {', '.join(map(str, found.checkpoints))}" if found.checkpoints else ""
    wrong = "nothing is wrong" if found.first_bad is None else f"wrong from position {found.first_bad} on"
    speed = f"{found.seconds:.2f} s, {found.events_per_second} events/s"
    out.line(f"{found.events} events up to position {found.position}, hash {found.hash}: {wrong}{compared}; {speed}")
    for each in found.divergences:
        where = "the log" if each.position is None else f"position {each.position}"
        whose = "" if each.task is None else f" of {clean(each.task)}"
        out.line(f"  - {where}{whose}: {clean(each.text)}   RULES {each.rule}")
    for note in found.notes if out.verbose else ():
        out.note(f"note: {note}")
