"""Commands that look after a store: doctor, backup, restore, prune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.errors import ERROR, OK, STORE
from cli.output import clean
from cli.wiring import Call, call_of, verb

if TYPE_CHECKING:
    from kanban.findings import Finding

app = typer.Typer()

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")]


@verb(app)
def doctor(ctx: typer.Context) -> None:
    """Examine this machine and the store: what is or will be wrong, and the command that mends it."""
    from kanban.doctor import examine, is_broken, is_unreadable

    call = call_of(ctx)
    found = examine(call.address)
    if call.out.json:
        call.out.answer({"findings": [finding.as_json() for finding in found]})
    else:
        _told(call, found)
    raise typer.Exit(STORE if is_unreadable(found) else ERROR if is_broken(found) else OK)


@verb(app)
def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy.", show_default=False)],
    *,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Copy the whole store while others write, and verify the copy."""
    from kanban.backup import backup as copy
    from kanban.worker.carrier import operators_only

    call = call_of(ctx)
    operators_only(call.environ, "backup")
    with call.out.progress("verifying") as progress:
        made = copy(call.address.url, call.address.board, file, force=force, progress=progress)
    _placed(call, "copied to", made.as_json(call.address.board))


@verb(app)
def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy.", show_default=False)],
    *,
    dry_run: DryRun = False,
    force: Annotated[
        bool, typer.Option("--force", help="Although the copy is older, or the store is in use or unreadable.")
    ] = False,
) -> None:
    """Put a copy in the store's place, once it is verified; what stood there is kept beside it."""
    from kanban.restore import restore as put
    from kanban.worker.carrier import operators_only

    call = call_of(ctx)
    operators_only(call.environ, "restore")
    at = call.address
    with call.out.progress("verifying") as progress:
        made = put(file, at.url, board=at.board, force=force, dry_run=dry_run, progress=progress)
    _placed(call, "would be restored from" if dry_run else "restored from", made.as_json(at.board))
    if call.out.json:
        return
    if made.kept is not None:
        call.out.done(f"what stood there {'would be' if dry_run else 'is'} kept as {clean(made.kept)}")
    if made.notes:
        call.out.note("next: ledger doctor, which names what this log does not know, such as folders of later runs")


@verb(app)
def prune(
    ctx: typer.Context,
    *,
    older_than: Annotated[
        str, typer.Option(metavar="DURATION", help="How long nothing may have happened to a card.")
    ] = "30d",
    dry_run: DryRun = False,
) -> None:
    """Remove run folders and left-over workspaces of closed cards; never an event."""
    from cli.times import parse_duration
    from kanban.findings import counted
    from kanban.prune import prune as tidy_up

    call = call_of(ctx)
    pruned = tidy_up(call.board, older_than=parse_duration(older_than), dry_run=dry_run)
    if call.out.json:
        call.out.answer(pruned.as_json())
        return
    for path in pruned.removed:
        call.out.done(f"{'would remove' if dry_run else 'removed'} {clean(path)}")
    folders = counted(len(pruned.removed), "folder")
    call.out.done(f"{folders}, {pruned.bytes} bytes{' (dry run)' if dry_run else ''}")
    call.tell(pruned.notes)


def _told(call: Call, found: list[Finding]) -> None:
    for finding in found:
        if call.out.quiet and finding.level == "ok":
            continue
        call.out.line(f"{finding.level:<8}{finding.check:<12} {clean(finding.text)}")
        if finding.try_ is not None:
            call.out.line(f"{'':<20} try: {clean(finding.try_)}")


def _placed(call: Call, did: str, shown: dict[str, Any]) -> None:
    """Print where the logs in a copy end, in JSON or a line a board."""
    if call.out.json:
        call.out.answer(shown)
        return
    for board, place in shown["boards"].items():
        call.out.done(
            f"board {board} at position {place['position']}, hash {place['hash']}: {did} {clean(shown['file'])}"
        )
    call.tell(shown["notes"])
