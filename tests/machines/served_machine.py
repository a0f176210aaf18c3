"""The board's machine on a PostgreSQL server that its hosts share."""

from __future__ import annotations

from contextlib import ExitStack
from unittest import mock

from kanban import sharing, starting, sweep, verbs
from tests import given, servers, strict
from tests.machines.board_machine import CONFIGS, SECOND, BoardMachine, founded


class ServedMachine(BoardMachine):
    """The same machine with its store on a server, to which nothing is said that a distributed one could not do.

    The clock is the server's, which is not set back, and machines count from their starts.
    """

    def __init__(self) -> None:
        self.booted = dict.fromkeys(CONFIGS, given.NOW - 100_000 * SECOND)
        super().__init__()

    def _store(self, until_the_end: ExitStack) -> str:
        databases = servers.shared()
        databases.template("machine", founded)
        until_the_end.enter_context(strict.watched())
        return until_the_end.enter_context(databases.lent("machine"))

    def _unhurried(self) -> None:
        """The server's own settings say so."""

    def _patch(self, stack: ExitStack) -> None:
        super()._patch(stack)
        for module in (sharing, starting, sweep, verbs):
            stack.enter_context(mock.patch.object(module, "uptime", self._uptime))

    def _uptime(self) -> int:
        return self.clock() - self.booted[self.air.here]

    def _time_passes(self, seconds: int) -> None:
        super()._time_passes(max(seconds, 1))

    def _limits_change(self, changes: dict[str, int | None]) -> None:
        if "lease" not in changes:  # a shorter one makes older renewals look like signs of life in the future
            super()._limits_change(changes)

    def _reboots(self, host: str) -> None:
        self.booted[host] = self.clock.advance(1)
        super()._reboots(host)
