"""Commands on the store and the settings: init, config show, db status, db upgrade, db rebuild."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.wiring import Call, alone, call_of, verb

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from kanban.address import Address
    from kanban.moving import Moved

top = typer.Typer()
config = typer.Typer(help="Look at the settings.", rich_markup_mode=None)
db = typer.Typer(help="Look after the store's tables.", rich_markup_mode=None)


for group in (config, db):
    group.callback(invoke_without_command=True)(alone)


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
        _tell_if_forgotten(call)
        return
    did = "made" if made.new else "is there already; nothing was changed"
    call.out.done(f"board {made.board} {did}: id {made.board_id}, in {masked(made.url)}")
    if made.template is not None:
        call.out.done(f"settings: {made.template} ({_told_in(call.address)}: say there who works)")
    _tell_if_forgotten(call)
    call.out.note("next: ledger create TITLE --assignee NAME, then ledger sweep --every 5s")


def _told_in(at: Address) -> str:
    flagged = at.loaded.origins["database"] == "--database"
    return "it names the store; all else in it is commented out" if flagged else "everything in it is commented out"


def _tell_if_forgotten(call: Call) -> None:
    """Say so where a command that does not name the store would look elsewhere."""
    from kanban.address import address_of
    from ledger.database import whole

    found = address_of(None, None, actor=None, config=call.config, environ=call.environ)
    if whole(found.url) != whole(call.address.url):
        call.out.note(
            f"note: only --database finds this store: name it in {call.address.home}/ledger.toml (database = …), "
            "or in LEDGER_DATABASE_URL"
        )


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
    """Bring the store's tables to this program's revision, in one step; have a copy of the store first."""
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
def move(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The store's address.", show_default=False)],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An address where nothing is yet.", show_default=False)
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
) -> None:
    """Move the whole store to another database and seal the old one; cut off, the same command goes on."""
    from kanban.moving import move as carry
    from kanban.worker.carrier import operators_only

    call = call_of(ctx)
    operators_only(call.environ, "db move")
    with call.out.progress("moving") as progress:
        made = carry(source, target, dry_run=dry_run, progress=progress)
    if call.out.json:
        call.out.answer(made.as_json())
    else:
        _told(call, made)


def _told(call: Call, made: Moved) -> None:
    for board, end in made.heads.items():
        call.out.done(f"board {board}, up to position {end.position}, hash {end.hash.hex()}")
    did = "would be moved" if made.dry_run else "moved" if made.changed else "had been moved already"
    call.out.done(f"{did} from {made.source} to {made.target}")
    call.tell(made.notes)
    if not made.dry_run:
        call.out.note(f"next: LEDGER_DATABASE_URL, or database in ledger.toml: {made.target}; then ledger resume")


@verb(db)
def grant(
    ctx: typer.Context,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A role of the server.", show_default=False)],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the statements.")] = False,
) -> None:
    """Let a role of a PostgreSQL server do what a worker needs: append, and change nothing that is in the log."""
    from kanban.roles import grant as give
    from kanban.worker.carrier import operators_only

    call = call_of(ctx)
    operators_only(call.environ, "db grant")
    with _engine(call) as engine:
        _found(call, engine)
        statements = give(engine, role, dry_run=dry_run)
    if call.out.json:
        call.out.answer({"role": role, "statements": statements, "dry_run": dry_run})
        return
    for statement in statements if dry_run else ():
        call.out.line(f"{statement};")
    call.out.done(f"the role {role} {'would be' if dry_run else 'is'} a worker's: it may append, and change nothing")
    call.out.note("next: worker_database in ledger.toml, then ledger doctor")


@verb(db)
def rebuild(ctx: typer.Context) -> None:
    """Fold everything that is shown anew from the log."""
    call = call_of(ctx)
    position = call.board.rebuild()
    if call.out.json:
        call.out.answer({"board": call.board.name, "position": position})
    else:
        call.out.done(f"board {call.board.name}: folded anew up to position {position}")


@verb(db)
def snapshot(ctx: typer.Context) -> None:
    """Take all snapshots of the past that are missing, which a sweep does bit by bit: then --at is quick everywhere."""
    from kanban.findings import counted

    call = call_of(ctx)
    taken = call.board.snapshot()
    if call.out.json:
        call.out.answer({"board": call.board.name, "taken": taken})
    else:
        call.out.done(f"board {call.board.name}: {counted(taken, 'snapshot')} taken")


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
    from ledger.upgrade import check_revision, revision

    found = revision(engine)
    if found is None:
        raise StoreMissing(masked(call.address.url), "a database without a ledger in it")
    if not found.isdecimal():  # it is being moved, or was
        check_revision(engine, call.address.url)
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
