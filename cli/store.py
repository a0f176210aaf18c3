"""Commands on the store and the settings: init, config show, db status, db upgrade, db rebuild."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.wiring import Call, call_of, usage, verb

if TYPE_CHECKING:
    from sqlalchemy import Engine

top = typer.Typer()
config = typer.Typer(help="Look at the settings.", rich_markup_mode=None)
db = typer.Typer(help="Look after the store's tables.", rich_markup_mode=None)


@config.callback(invoke_without_command=True)
@db.callback(invoke_without_command=True)
def _group(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        if call_of(ctx).out.json:
            raise usage("which command?")
        typer.echo(ctx.get_help())


@verb(top)
def init(ctx: typer.Context) -> None:
    """Make the store and the board, and a commented ledger.toml; a second time is harmless."""
    from kanban.founding import found_at
    from ledger.clock import system_clock
    from ledger.database import masked

    call = call_of(ctx)
    made = found_at(call.address, os.environ, system_clock)
    if call.out.json:
        template = None if made.template is None else str(made.template)
        shown = {"board": made.board, "board_id": made.board_id, "database": masked(made.url)}
        call.out.answer({**shown, "created": made.new, "config": template})
        return
    did = "made" if made.new else "is there already; nothing was changed"
    call.out.done(f"board {made.board} {did}: id {made.board_id}, in {masked(made.url)}")
    if made.template is not None:
        call.out.done(f"settings: {made.template} (everything in it is commented out: say there who works)")
    call.out.note("next: ledger create TITLE --assignee NAME, then ledger sweep --every 5s")


@verb(config, "show")
def show_config(
    ctx: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each came from.")] = False,
) -> None:
    """Show the settings in force."""
    from kanban.config import values

    call = call_of(ctx)
    found = values(call.address.loaded)
    if call.out.json:
        call.out.answer({"values": found, "home": str(call.address.home)})
        return
    headings = ("SETTING", "VALUE", "FROM") if origin else ("SETTING", "VALUE")
    rows = [(name, _setting(each["value"]), each["origin"])[: len(headings)] for name, each in found.items()]
    call.out.table(headings, rows)
    files = (
        ", ".join(map(str, call.address.loaded.files)) or f"none; ledger init writes {call.address.home}/ledger.toml"
    )
    call.out.note(f"files: {files}; home: {call.address.home}")


@verb(db)
def status(ctx: typer.Context) -> None:
    """Say which revision the store's tables have, and which this program wants."""
    call = call_of(ctx)
    with _engine(call) as engine:
        _revisions(call, _found(call, engine))


@verb(db)
def upgrade(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
) -> None:
    """Bring the store's tables to this program's revision, in one step; copy the file first."""
    from kanban.worker.carrier import operators_only
    from ledger.errors import StoreOutdated
    from ledger.upgrade import check_revision
    from ledger.upgrade import upgrade as bring_up

    call = call_of(ctx)
    operators_only(call.environ, "db upgrade")
    with _engine(call) as engine:
        found, after = _found(call, engine), None
        try:
            check_revision(engine, call.address.url)
        except StoreOutdated:
            after = None if dry_run else bring_up(engine)
        _revisions(call, after or found, before=found, dry_run=dry_run)


@verb(db)
def rebuild(ctx: typer.Context) -> None:
    """Fold everything that is shown anew from the log."""
    call = call_of(ctx)
    position = call.board.rebuild()
    if call.out.json:
        call.out.answer({"board": call.board.name, "position": position})
    else:
        call.out.done(f"board {call.board.name}: folded anew up to position {position}")


@contextmanager
def _engine(call: Call) -> Iterator[Engine]:
    """An engine on the store, whatever its revision, let go at the end."""
    from ledger.database import connect

    engine = connect(call.address.url)
    try:
        yield engine
    finally:
        engine.dispose()


def _found(call: Call, engine: Engine) -> str:
    """The revision of the store's tables. Raises `StoreMissing` where there is no ledger in the database."""
    from ledger.database import masked
    from ledger.errors import StoreMissing
    from ledger.upgrade import revision

    found = revision(engine)
    if found is None:
        raise StoreMissing(masked(call.address.url), "a database without a ledger in it")
    return found


def _revisions(call: Call, found: str, **more: Any) -> None:
    from ledger.schema import REVISION

    if call.out.json:
        call.out.answer({"revision": found, "wanted": REVISION, **more})
        return
    same = (
        "nothing to do" if found == REVISION else "ledger db upgrade" if found < REVISION else "upgrade kanban-ledger"
    )
    call.out.line(f"the store is at revision {found}, this program wants {REVISION}: {same}")


def _setting(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
