"""`Worker`: the turns and the verbs of a run, for workers written in Python.

worker = Worker.from_environment()
ended = worker.run(lambda prompt: my_agent.turn(prompt))
exit_turn(ended.code, resets_at=ended.result.resets_at)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from kanban.worker.carrier import Carrier, carrier_of

if TYPE_CHECKING:
    from kanban.board import Board
    from kanban.worker.exits import Credentials
    from kanban.worker.proof import Proof
    from kanban.worker.recovery import Means, Turn
    from kanban.worker.turns import Ended
    from kanban.worker.verdict import Judge


class Worker:
    """The worker of one run. Nothing is loaded or opened before a verb is used."""

    def __init__(self, carrier: Carrier, environ: Mapping[str, str] = os.environ) -> None:
        self.carrier = carrier
        self._environ = environ

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The worker whose environment this is. Raises `Forbidden` outside of one, or where a part is missing."""
        carrier = carrier_of(environ)
        if carrier is None:
            from kanban.refusals import Forbidden

            raise Forbidden("this is no worker's environment: LEDGER_TASK is not set", remedy="ledger claim --next")
        return cls(carrier, environ)

    @property
    def task(self) -> str:
        """The card's id."""
        return self.carrier.task

    @property
    def workspace(self) -> Path:
        """The folder to work in. Raises `InvalidInput` where none was prepared, as after a claim by hand."""
        return self._path("LEDGER_WORKSPACE")

    @property
    def prompt(self) -> str:
        """What to do: the card, its parents' results, earlier runs, comments and the closing contract.

        What is not UTF-8 is replaced. Raises `InvalidInput` where no prompt was written, as after a claim by hand.
        """
        return self._path("LEDGER_PROMPT").read_text(encoding="utf-8", errors="replace")

    def proof(self) -> Proof:
        """Whether the claim holds now; read-only, and nothing is raised."""
        from kanban.worker.recovery import checking

        return checking(self.carrier, self._environ, None)()

    def run(
        self,
        turn: Turn,
        prompt: str | None = None,
        *,
        judge: Judge | Sequence[str] | None = None,
        finalize: bool = True,
        credentials: Callable[[Exception], Credentials] | None = None,
        **means: Unpack[Means],
    ) -> Ended:
        """Run *turn* on *prompt* (default: the card's own), and again where it failed and the claim still holds.

        No turn begins without a proof that was taken after the last sleep. A turn that raises has settled nothing;
        *credentials* says what its exception means. *means* are the loop's own. With a *judge*, a function or a command
        (`kanban.worker.verdict`), a card that has a goal goes on until that is met (`pursue`, which takes *finalize*).
        """
        from kanban.worker.turns import run_turns

        text = self.prompt if prompt is None else prompt
        ended = run_turns(turn, text, self.carrier, environ=self._environ, credentials=credentials, **means)
        if judge is None:
            return ended
        from kanban.worker.goal import pursue
        from kanban.worker.verdict import judge_of

        return pursue(
            turn, ended, self.carrier, judge_of(judge, self._own_environment),
            environ=self._environ, finalize=finalize, credentials=credentials, **means,
        )  # fmt: skip

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
        """Say how the work goes, and what it used. Raises `LostClaim` once the run is over."""
        from kanban.commands import Spent

        used = None if tokens is None and cost is None else Spent(tokens, cost)
        with self._board() as board:
            return board.progress(self.task, note, used=used).task

    def heartbeat(self) -> dict[str, Any]:
        """Renew the lease. Raises `LostClaim` once the run is over: stop working then."""
        with self._board() as board:
            return board.heartbeat(self.task).task

    def _path(self, variable: str) -> Path:
        path = self._environ.get(variable, "")
        if not path.strip():
            from ledger.errors import InvalidInput

            raise InvalidInput(f"{variable} is not set", task=self.task, remedy=f"set {variable} to a path")
        return Path(path)

    def _board(self) -> Board:
        from kanban.board import Board

        return Board.open(environ=self._own_environment)

    @property
    def _own_environment(self) -> dict[str, str]:
        """The environment, with the carrier's claim in it and no other."""
        return {**self._environ, **self.carrier.as_environment()}
