"""Commands that write a log out and bring one in: export, import jsonl | hermes | beads | vibe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from cli.errors import DIVERGENCE
from cli.output import print_json
from cli.wiring import Call, alone, call_of, verb
from ledger.errors import InvalidInput

if TYPE_CHECKING:
    from kanban.importing.jsonl import Imported
    from kanban.importing.origin import Source

_MOST = 40
"""Notes that people are shown; the last ones are about the whole import."""
app = typer.Typer()
imports = typer.Typer(help="Bring in a log of ours, or the board of another system.", rich_markup_mode=None)
imports.callback(invoke_without_command=True)(alone)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only read it, and say what it would do.")]


@verb(app)
def export(
    ctx: typer.Context,
    *,
    form: Annotated[
        Literal["jsonl", "cloudevents"],
        typer.Option("--format", help="As ledger import jsonl takes it, or CloudEvents 1.0 for other programs."),
    ] = "jsonl",
    after: Annotated[int, typer.Option(min=0, max=2**62, help="Only events behind this position.")] = 0,
    until: Annotated[
        int | None, typer.Option(min=0, max=2**62, help="Only events up to this position.", show_default=False)
    ] = None,
) -> None:
    """Write the log to stdout, one event a line, words included.

    One way: the log in the store is the only truth, and nothing reads an export by itself. From jsonl the very same log
    can be made again; from CloudEvents none can.
    """
    from kanban.export import export as write_out

    call = call_of(ctx)
    found = write_out(call.questions, form, after=after, until=until)
    for shown in found:
        print_json(shown)
    if form == "cloudevents":
        call.out.note("note: one way: no ledger can be made of CloudEvents again; --format jsonl for that")


@verb(imports)
def jsonl(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="What ledger export wrote.", show_default=False)],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check it, and say what it would do.")] = False,
) -> None:
    """Make a board of an export again, to the byte, or append what is missing of one that is here.

    The board has the name and the id that it had. What is here already is passed over, so a repeat is harmless; where
    the board here went another way, nothing is written. Afterwards the board is replayed.
    """
    from kanban.importing.jsonl import import_jsonl

    call = call_of(ctx)
    with call.out.progress("importing") as progress, _lines(file, progress) as lines:
        made = import_jsonl(call.address, lines, board=call.board_name, dry_run=dry_run)
    if call.out.json:
        call.out.answer(made.as_json())
    else:
        _told(call, made)
    if made.replay is not None and made.replay.divergences:
        raise typer.Exit(DIVERGENCE)


@verb(imports)
def hermes(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Its kanban.db.", show_default=False)],
    *,
    dry_run: DryRun = False,
) -> None:
    """Make the cards of a hermes board cards of this board, which is founded where it is not there.

    What was running there is released; its ids, times, counters and runs stand in the note that each card begins with.
    What has been brought in before is passed over, so a repeat is harmless. Nothing is written there.
    """
    from kanban.importing.hermes import read_hermes

    _brought(call_of(ctx), read_hermes(path), dry_run=dry_run)


@verb(imports)
def beads(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Its issues.jsonl.", show_default=False)],
    *,
    dry_run: DryRun = False,
) -> None:
    """Make the issues of beads cards of this board, as import hermes does. Only links of type blocks make one wait."""
    from kanban.importing.beads import read_beads, read_beads_at

    source = read_beads("stdin", sys.stdin.buffer) if file == "-" else read_beads_at(Path(file))
    _brought(call_of(ctx), source, dry_run=dry_run)


@verb(imports)
def vibe(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Its db.sqlite.", show_default=False)],
    *,
    dry_run: DryRun = False,
) -> None:
    """Make the tasks of Vibe Kanban cards of this board, as import hermes does. A project is a tenant."""
    from kanban.importing.vibe import read_vibe

    _brought(call_of(ctx), read_vibe(path), dry_run=dry_run)


def _brought(call: Call, source: Source, *, dry_run: bool) -> None:
    from kanban.findings import counted
    from kanban.importing.bringing import bring

    with call.out.progress("importing") as progress:
        made = bring(call.address, source, dry_run=dry_run, environ=call.environ, progress=progress)
    if call.out.json:
        call.out.answer(made.as_json())
        return
    found = made.found
    amounts = ((found.tasks, "card"), (found.linked, "link"), (found.comments, "comment"))
    would = "would be made" if dry_run else "made"
    call.out.done(f"board {made.board}: {', '.join(counted(number, what) for number, what in amounts)} {would}")
    told = [*(f"{each.id or 'a card'} is left out: {each.why}" for each in found.skipped), *made.notes]
    call.tell(told[-_MOST:])
    if len(told) > _MOST:
        call.out.note(f"note: and {len(told) - _MOST} more: --json names them all")


@contextmanager
def _lines(name: str, progress: Callable[[int, int], None] | None) -> Iterator[Iterator[bytes]]:
    """The lines of a file, or of stdin."""
    if name == "-":
        yield iter(sys.stdin.buffer)
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open("rb"))
        except OSError as fault:
            raise InvalidInput(f"{name}: {fault.strerror}", remedy="name a file that can be read") from None
        yield file if progress is None else _measured(file, progress)


def _measured(file: BinaryIO, progress: Callable[[int, int], None]) -> Iterator[bytes]:
    """The lines of *file*; *progress* hears how many bytes of it are read."""
    size, read = os.fstat(file.fileno()).st_size, 0
    for number, line in enumerate(file):
        read += len(line)
        if not number % 1_000:
            progress(read, max(size, read))
        yield line


def _told(call: Call, made: Imported) -> None:
    from kanban.findings import counted

    would = "would be " if made.dry_run else ""
    new = f"{would}made" if made.created else "is here"
    call.out.done(
        f"board {made.board} {new}: {made.added} of {made.lines} events {would or 'were '}new; position "
        f"{made.end.position}, hash {made.end.hash.hex()}"
    )
    if made.replay is not None:
        count = len(made.replay.divergences)
        some = f"{counted(count, 'divergence')}, see ledger replay --board {made.board}"
        verdict = some if count else "no divergence"
        call.out.done(f"replayed: {verdict}; digest {made.replay.digest}")
    call.tell(made.notes)
