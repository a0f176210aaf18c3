"""What an examination looks at: one store as one host sees it, at one instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection

from kanban.address import Address
from kanban.desk import Desk
from kanban.hosts import Host, this_host
from ledger.database import sqlite_path
from ledger.store import board_names


@dataclass(frozen=True)
class Case:
    """The address of a board, and the instant (µs) of the examination."""

    at: Address
    now: int

    @cached_property
    def store(self) -> Path:
        """The store's file, links followed: what SQLite keeps lies beside that one."""
        return sqlite_path(self.at.url).resolve()

    @property
    def gate(self) -> Path:
        """The file that writers queue at."""
        return Path(f"{sqlite_path(self.at.url)}.gate")

    @cached_property
    def host(self) -> Host:
        """This machine."""
        return this_host(self.at.home)

    def desks(self, tx: Connection) -> Iterator[Desk]:
        """Every board of the store."""
        for board in board_names(tx):
            yield Desk(tx, board, self.now)

    def on(self, board: str) -> str:
        """How a text about *board* begins: with its name, unless it is the board in question."""
        return "" if board == self.at.board else f"board {board}: "

    def flag(self, board: str) -> str:
        """What a command about *board* needs at its end."""
        return "" if board == self.at.board else f" --board {board}"
