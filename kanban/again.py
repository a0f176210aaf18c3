"""Trying again: where another writer was first, and while a server is away for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from ledger.errors import StoreUnreachable, WrongExpectedVersion

PATIENCE: Final = 15.0
"""Seconds for which a command that has been let in waits for a server that has gone."""
_TRIES: Final = 3
_LONGEST_NAP: Final = 1.0
T = TypeVar("T")


def again(attempt: Callable[[], T], *, met: Callable[[WrongExpectedVersion], None] | None = None) -> T:
    """What *attempt* answers, tried again when another writer was first, and while a server is away for a moment.

    What was cut off may have been done: *attempt* must be able to tell, or be harmless twice. *met* hears of every
    other writer. Raises `WrongExpectedVersion` after three times, `StoreUnreachable` once `PATIENCE` is over.
    """
    deadline, nap, tries = time.monotonic() + PATIENCE, 0.05, _TRIES
    while True:
        try:
            return attempt()
        except WrongExpectedVersion as fault:
            tries -= 1
            if tries == 0:
                raise
            if met is not None:
                met(fault)
        except StoreUnreachable:
            if time.monotonic() + nap > deadline:
                raise
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
