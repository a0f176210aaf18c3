"""What an examination looks at: one store as one host sees it, at one instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection, make_url

from kanban.address import Address
from kanban.desk import Desk
from kanban.hosts import Host, this_host
from ledger.database import is_postgres, sqlite_path, whole
from ledger.errors import StoreUnsupported
from ledger.standing import head
from ledger.store import board_names


@dataclass(frozen=True)
class Case:
    """The address of a board, and the instant (µs) of the examination."""

    at: Address
    now: int

    @property
    def served(self) -> bool:
        """Whether the store has a server, and is no file of this machine."""
        return is_postgres(self.at.url)

    @cached_property
    def store(self) -> Path:
        """The store's file, links followed: what SQLite keeps lies beside that one. Raises where it has a server."""
        return sqlite_path(self.at.url).resolve()

    @property
    def gate(self) -> Path:
        """The file that writers queue at."""
        return Path(f"{sqlite_path(self.at.url)}.gate")

    def is_ours(self, url: str) -> bool:
        """Whether *url*, as a process here carries it, is of this store."""
        try:
            if self.served:
                return is_postgres(url) and _place(url) == _place(self.at.url)
            return sqlite_path(url).resolve() == self.store
        except StoreUnsupported:
            return False

    @cached_property
    def host(self) -> Host:
        """This machine."""
        return this_host(self.at.home)

    def desks(self, tx: Connection) -> Iterator[Desk]:
        """Every board of the store."""
        for board in board_names(tx):
            yield Desk(tx, board, head(tx, board), self.now)

    def on(self, board: str) -> str:
        """How a text about *board* begins: with its name, unless it is the board in question."""
        return "" if board == self.at.board else f"board {board}: "

    def flag(self, board: str) -> str:
        """What a command about *board* needs at its end."""
        return "" if board == self.at.board else f" --board {board}"


def _place(url: str) -> tuple[object, ...]:
    """Server and database that an address stands for, whoever it lets in."""
    address = make_url(whole(url))
    return address.host or address.query.get("host"), address.port, address.database or address.query.get("dbname")
