"""The Typer app: every command in its group, the global options, and `run`, which maps a line to an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from errno import ENOSPC
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import (
    __version__,
    audit,
    cards,
    care,
    chain,
    copying,
    demo,
    diff,
    look,
    metrics,
    operate,
    owner,
    policies,
    serve,
    store,
    watch,
    work,
    worker,
)
from cli.argv import asks_for, first_word, hoist
from cli.errors import ERROR, INTERRUPTED, OK, PIPE_CLOSED, tell
from cli.output import Out, print_error
from cli.wiring import Call, ReaderGone, check_texts, usage

app = typer.Typer(
    name="ledger",
    help="A kanban board for fleets of AI agents: every change is in a log, and every card says why it stands there.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 120},
)
for group in (
    store.top, demo.app, care.app, cards.app, work.app, look.app, diff.app, operate.app, chain.app, copying.app,
    owner.app, policies.app, serve.app, metrics.app, watch.app,
):  # fmt: skip
    app.add_typer(group)
app.add_typer(store.config, name="config")
app.add_typer(store.db, name="db")
app.add_typer(copying.imports, name="import")
app.add_typer(worker.app, name="worker")
app.add_typer(audit.app, name="audit")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ledger {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    ctx: typer.Context,
    *,
    board: Annotated[str | None, typer.Option(help="The board.  [default: default]", show_default=False)] = None,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The store: sqlite:////path/to/ledger.db or postgresql+psycopg://USER@HOST/NAME.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of settings that beats the others.", show_default=False)
    ] = None,
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose name stands on what you do.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, on errors too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No confirmations and no notes.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say where the settings came from, and more.")] = False,
    version: Annotated[  # noqa: ARG001 – its callback answers
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    call = Call(Out(json, quiet, verbose), board, database, config, actor)
    ctx.obj = call
    ctx.call_on_close(call.close)
    given = {"--board": board, "--database": database, "--config": None if config is None else str(config)}
    for label, value in (given | {"--actor": actor}).items():
        check_texts(label, value, label)
    if ctx.invoked_subcommand is None:
        if json:
            raise usage("which command?")
        typer.echo(ctx.get_help())


@cache
def app_command() -> Any:
    """The whole command line as one value, built once."""
    return typer.main.get_command(app)


@cache
def _command_line(name: str | None) -> Any:
    """As much of the command line as *name* needs: that command alone, or where there is none of that name, all of it.

    To build all commands takes longer than most of them take.
    """
    groups = [group.typer_instance for group in app.registered_groups if group.typer_instance and not group.name]
    named = [info for group in groups for info in group.registered_commands if info.name == name]
    if not named:
        return app_command()
    alone = copy(app)
    alone.registered_groups, alone.registered_commands = [], named
    return typer.main.get_command(alone)


def run(argv: Sequence[str]) -> int:
    """Do what *argv* says and answer the exit code."""
    out = Out(asks_for("--json", argv), asks_for("--quiet", argv), asks_for("--verbose", argv))
    try:
        words = hoist(argv)
        command = _command_line(first_word(words))
        with command.make_context("ledger", words) as ctx:
            command.invoke(ctx)
    except typer.Exit as end:
        return end.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        return PIPE_CLOSED
    except Exception as fault:  # noqa: BLE001 – told in one line, whatever it is
        return _told(fault, out)
    return OK


def unwritten(fault: OSError) -> int:
    """The exit code where stdout does not take an answer; stderr hears why, if anybody listens there."""
    if isinstance(fault, BrokenPipeError):
        return PIPE_CLOSED
    with suppress(OSError):
        print_error(f"not all could be written: {fault.strerror}")
    return ERROR


def _told(fault: Exception, out: Out) -> int:
    if isinstance(fault, OSError) and fault.errno == ENOSPC and fault.filename is None:
        return unwritten(fault)
    try:
        return tell(fault, out)
    except OSError as unheard:
        return unwritten(unheard)
