"""`Worker`: the five verbs of a run for workers written in Python.

worker = Worker.from_environment()
worker.progress("half way", tokens=1_200)
worker.complete("parser mended")
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from kanban.board import Board


class Worker:
    """The worker of one run. Nothing is loaded or opened before a verb is used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.task = environ["LEDGER_TASK"].strip()
        self.run = int(environ["LEDGER_RUN"])

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The worker whose environment this is. Raises `Forbidden` outside of one, or where half of it is missing."""
        from kanban.refusals import Forbidden
        from kanban.worker.carrier import own_claim

        if own_claim(environ) is None:
            raise Forbidden("this is no worker's environment: LEDGER_TASK is not set", remedy="ledger claim --next")
        return cls(environ)

    @property
    def workspace(self) -> Path:
        """The folder to work in."""
        return Path(self._environ["LEDGER_WORKSPACE"])

    @property
    def prompt(self) -> str:
        """What to do: the card, its parents' results, earlier runs, comments and the closing contract."""
        return Path(self._environ["LEDGER_PROMPT"]).read_text(encoding="utf-8")

    def complete(
        self, summary: str | None = None, *, outcome: Literal["ok", "fail"] = "ok", result: str | None = None
    ) -> dict[str, Any]:
        """Finish the card; the card as it is then. Raises `LostClaim`, `Unmet`."""
        with self._board() as board:
            return board.complete(self.task, summary, outcome=outcome, result=result).task

    def block(self, reason: str, *, kind: str | None = None) -> dict[str, Any]:
        """Stop until a person unblocks the card (kind `dependency`: until its parents are done)."""
        with self._board() as board:
            return board.block(self.task, reason, kind=kind).task

    def review(self, summary: str | None = None, *, reviewer: str | None = None) -> dict[str, Any]:
        """End the run and ask for a review."""
        with self._board() as board:
            return board.review(self.task, summary, reviewer=reviewer).task

    def progress(
        self, note: str | None = None, *, tokens: int | None = None, cost: Decimal | None = None
    ) -> dict[str, Any]:
        """Say how the work goes, and what it used."""
        from kanban.commands import Spent

        used = None if tokens is None and cost is None else Spent(tokens, cost)
        with self._board() as board:
            return board.progress(self.task, note, used=used).task

    def heartbeat(self) -> dict[str, Any]:
        """Renew the lease. Raises `LostClaim` once the run is over: stop working then."""
        with self._board() as board:
            return board.heartbeat(self.task).task

    def _board(self) -> Board:
        from kanban.board import Board

        return Board.open(environ=self._environ)
