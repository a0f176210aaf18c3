"""Founding a store and a board: what `ledger init` does, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, inspect

from kanban.address import Address
from kanban.again import again
from kanban.commands import Decision
from kanban.config_template import template
from kanban.desk import Desk
from kanban.session import operator
from kanban.worker.carrier import operators_only
from ledger import ids
from ledger.clock import Clock
from ledger.database import connect, is_postgres, masked, whole, writing
from ledger.errors import InvalidInput, StoreExists
from ledger.events import Actor, BoardCreated, PolicyChanged
from ledger.recorded import Draft
from ledger.standing import head, standing
from ledger.store import board_names, create_board
from ledger.upgrade import check_revision, looking, upgrade
from projections.policy import Policy

DEFAULT = Policy()
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Founded:
    """What `ledger init` came to: the board, whether it is new, and the settings file that was written, if one was."""

    board: str
    board_id: str
    url: str
    new: bool
    template: Path | None


def found_at(at: Address, environ: Mapping[str, str], clock: Clock) -> Founded:
    """Make store, board and a commented `ledger.toml` at *at*, whichever of them is not there. Raises as `found`.

    A new `ledger.toml` names a store that only a flag named, so that the next command finds it.
    """
    operators_only(environ, "init")
    board_id, new = found(at.url, at.board, operator(at, environ), clock)
    flagged = at.loaded.origins["database"] == "--database"
    text = template((at.url if is_postgres(at.url) else whole(at.url)) if flagged else None)
    return Founded(at.board, board_id, at.url, new, write_template(at.home, text))


def found(url: str, board: str, actor: Actor, clock: Clock, policy: Policy = DEFAULT) -> tuple[str, bool]:
    """Make the store at *url* if nothing is there, and *board* in it if it is not. (board id, whether it is new.)

    Twice is harmless. Raises `StoreExists` for a database that is no ledger, `StoreOutdated` and `StoreTooNew` for
    one of another version, `InvalidInput` for a name that cannot be a board's.
    """
    check_board_name(board)
    engine = connect(url, create=True)
    try:
        found_store(engine, url)
        return again(lambda: _found_board(engine, board, actor, clock, policy))
    finally:
        engine.dispose()


def check_board_name(board: str) -> str:
    """A board's name stands in paths and keys: lower case, digits, `-` and `_`, at most 64."""
    if not _NAME.fullmatch(board):
        raise InvalidInput(
            f"{board!r} cannot be a board's name", remedy="lower-case letters, digits, - and _, at most 64 characters"
        )
    return board


def write_template(home: Path, text: str) -> Path | None:
    """Write a commented `ledger.toml` into *home* when none is there; never touches one that is."""
    path = home / "ledger.toml"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with path.open("x", encoding="utf-8") as file:
            path.chmod(0o600)
            file.write(text)
    except FileExistsError:
        return None
    return path


def found_store(engine: Engine, url: str) -> None:
    """Give the database behind *engine* its tables, unless it has them. Raises as `found`."""
    with looking(engine) as tx:
        strangers = inspect(tx).get_table_names()  # in one look: another process may be founding at this moment
    if "alembic_version" in strangers:
        check_revision(engine, url)
        return
    if strangers:
        raise StoreExists(
            f"{masked(url)} is another program's database ({', '.join(strangers[:3])})",
            remedy="choose another --database",
        )
    upgrade(engine)


def _found_board(engine: Engine, board: str, actor: Actor, clock: Clock, policy: Policy) -> tuple[str, bool]:
    with writing(engine) as tx:
        if board in board_names(tx):
            return head(tx, board).board_id, False
        identity = ids.board_id()
        create_board(tx, board, identity)
        drafts = (
            Draft.of("", BoardCreated(board_id=identity, name=board), actor),
            Draft.of("", PolicyChanged(**policy._asdict()), actor),
        )
        desk = Desk(tx, board, *standing(tx, board, clock, hold=True))
        desk.write(Decision(drafts))
        desk.flush()
        return identity, True
