"""A board in a database of its own on a server, and what others than the program read and do there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from kanban import Board
from ledger.clock import system_clock
from tests import fleets, servers

BOARD: Final = "default"


@contextmanager
def lent(cards: int = 0) -> Iterator[str]:
    """The address of a store with the board `default` and so many cards; its log ends at position 2 + *cards*."""

    def make(url: str) -> None:
        fleets.found(url, BOARD, fleets.FOUNDER, system_clock)
        with opened(url) as board:
            for number in range(cards):
                board.create(f"card {number}")

    databases = servers.shared()
    databases.template(f"{BOARD} with {cards} cards", make)
    with databases.lent(f"{BOARD} with {cards} cards") as url:
        yield url


def opened(url: str) -> Board:
    """The board there, as somebody elsewhere has it open."""
    return Board.open(url, environ={"LEDGER_HOME": "/nonexistent", "USER": "eve"})


def asked(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Say *statements* with the rights of the role in *url*; the rows that the last of them finds."""
    with psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True) as tx:
        found = [tx.execute(statement) for statement in statements][-1]
        return found.fetchall() if found.description else []


def forged(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """The same, unheard by the triggers that would refuse it."""
    return asked(url, "SET session_replication_role = replica", *statements)
