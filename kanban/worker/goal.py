"""Goal mode: turn after turn of one run until a judge agrees that the card's goal is met, or something ends them.

Only a turn whose result would exit with 0 is judged, and any other ends them all with its own code. A goal turn proves
the claim, and recovers from a failure, as a first turn does (`run_turns`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Unpack

from kanban.worker.carrier import Carrier
from kanban.worker.exits import DONE, FAILED, INTERRUPTED, Credentials
from kanban.worker.nudge import in_a_line
from kanban.worker.proof import Lost, Proof, Reason
from kanban.worker.recovery import Means, Turn, checking, holds, tell
from kanban.worker.result import Status, TurnResult
from kanban.worker.turns import Ended, run_turns
from kanban.worker.verdict import Asked, Judge, Ruling, Verdict, verdict_of
from projections.goals import Goal, goal_of

_OVER: Final = frozenset({Reason.NOT_RUNNING, Reason.OTHER_RUN})
"""The board shows that the run has ended, by the agent's own verb or another's: no code counts any more."""
_log = logging.getLogger(__name__)


def pursue(
    turn: Turn,
    ended: Ended,
    carrier: Carrier,
    judge: Judge,
    *,
    environ: Mapping[str, str],
    goal: Goal | None = None,
    finalize: bool = True,
    block: Callable[[str], object] | None = None,
    credentials: Callable[[Exception], Credentials] | None = None,
    **means: Unpack[Means],
) -> Ended:
    """What becomes of a run whose first turn *ended* so, if its card has a *goal* (none: the one in its store).

    Where *judge* says `done` the agent is asked once for its closing command, and the card is blocked if it gives none;
    without *finalize* whoever calls closes the card. The card is blocked too where the judge says so, and where the
    goal's turns are used up, with *block* (none: the claim's own verb). Without a verdict, a claim or a readable goal
    no turn follows, and the code is 1: the goal was not met. A run that has ended takes the last turn's code.
    """
    if ended.code != DONE:
        return ended
    try:
        found = goal or goal_of(carrier.database, carrier.board, carrier.task, carrier.run)
    except Exception:  # noqa: BLE001 – whatever it is, the card's goal could not be read
        _log.exception("[kanban] %s: its goal could not be read, no further turn is begun", carrier.task)
        return replace(ended, code=FAILED)
    if found is None:
        return ended
    means["check"] = check = means.get("check") or checking(carrier, environ, means.get("clock"))
    return _Pursuit(
        carrier=carrier,
        goal=found,
        judge=judge,
        finalize=finalize,
        block=block or _verb(carrier, environ),
        check=check,
        emit=means.get("emit"),
        again=lambda text: run_turns(turn, text, carrier, environ=environ, credentials=credentials, **means),
        ended=ended,
    ).go_on()


def goal_nudge(carrier: Carrier, verdict: Verdict, turn: int, max_turns: int) -> str:
    """What the agent is told in turn *turn*, where the goal is not met. It holds no secret."""
    return (
        f"[kanban] The goal of card {carrier.task} is not met yet{_why(carrier, verdict)}; this is turn "
        f"{turn}/{max_turns}. The card is still running and it is yours; this conversation and its context are whole. "
        "Do NOT start over: go on where you stopped, and end with one closing command: `ledger complete` when the goal "
        "is met, `ledger block` when you need something from a person."
    )


def closing_nudge(carrier: Carrier, verdict: Verdict, turn: int, max_turns: int) -> str:
    """What the agent is told once, where the goal is met and the card is still open. It holds no secret."""
    return (
        f"[kanban] The goal of card {carrier.task} is met{_why(carrier, verdict)}, but the card is still running; this "
        f"is turn {turn}/{max_turns}. Do no more work: run one closing command now, `ledger complete` with what was "
        "done, or `ledger block` with what a person must still do. Without one the card will be blocked."
    )


@dataclass(slots=True, kw_only=True)
class _Pursuit:
    """The goal's turns of one run: *turn* of them were taken, and the last one *ended* so."""

    carrier: Carrier
    goal: Goal
    judge: Judge
    finalize: bool
    block: Callable[[str], object]
    check: Callable[[], Proof]
    emit: Callable[[str], None] | None
    again: Callable[[str], Ended]
    ended: Ended
    turn: int = 1
    asked_to_close: bool = False

    def go_on(self) -> Ended:
        """Take turns until one fails, or none follows."""
        try:
            while self.ended.code == DONE and (text := self._next()) is not None:
                self.turn += 1
                self.ended = self.again(text)
        except KeyboardInterrupt:
            return Ended(INTERRUPTED, TurnResult(Status.INTERRUPTED))
        return self.ended

    def _next(self) -> str | None:
        """The text of the next turn, or none: the turns are over."""
        if not self._is_ours():
            return None
        verdict = self._verdict()
        if verdict is None:
            return None
        why = _why(self.carrier, verdict)
        self._tell(f"after turn {self.turn}/{self.goal.max_turns} the judge says {verdict.ruling}{why}")
        match verdict.ruling:
            case Ruling.BLOCKED:
                self._block(f"the judge says that the goal needs a person{why}")
            case Ruling.DONE if not self.finalize:
                pass
            case Ruling.DONE if self.asked_to_close:
                self._block(f"the judge says that the goal is met{why}, but no closing command was given")
            case _ if self.turn >= self.goal.max_turns:
                used = f"{self.turn} of {self.goal.max_turns} turns"
                self._block(f"the goal has used {used}; the judge's last word was {verdict.ruling}{why}")
            case Ruling.DONE:
                self.asked_to_close = True
                return closing_nudge(self.carrier, verdict, self.turn + 1, self.goal.max_turns)
            case _:
                return goal_nudge(self.carrier, verdict, self.turn + 1, self.goal.max_turns)
        return None

    def _is_ours(self) -> bool:
        """Whether the run still holds its claim: status is read through the proof."""
        proof = self.check()
        if isinstance(proof, Lost) and proof.reason in _OVER:
            self._tell(f"its run is over ({proof.detail or proof.reason}), no further turn is begun")
            return False
        if not holds(self.carrier.task, proof, self.emit):
            self._fail()
            return False
        return True

    def _verdict(self) -> Verdict | None:
        """What the judge says; none where it failed, which ends the turns."""
        reply, carrier = self.ended.result.output or "", self.carrier
        try:
            return verdict_of(self.judge(Asked(carrier.task, self.goal.text, reply, self.turn, self.goal.max_turns)))
        except Exception as fault:  # noqa: BLE001 – whatever it is, there is no verdict
            self._tell(f"the judge failed, no further turn is begun: {_name(carrier, fault)}")
            self._fail()
            return None

    def _block(self, reason: str) -> None:
        """Block the card in its run's name; where that is refused the code says that the goal was not met."""
        try:
            self.block(reason)
        except Exception as fault:  # noqa: BLE001 – whatever it is, the card is not blocked
            self._tell(f"it could not be blocked ({reason}): {_name(self.carrier, fault)}")
            self._fail()

    def _fail(self) -> None:
        self.ended = replace(self.ended, code=FAILED)

    def _tell(self, line: str) -> None:
        tell(f"{self.carrier.task}: {line}", self.emit, _log)


def _verb(carrier: Carrier, environ: Mapping[str, str]) -> Callable[[str], object]:
    """The block of the claim's own worker, whoever else's variables stand in *environ*."""
    from kanban.worker.face import Worker

    return Worker(carrier, environ).block


def _why(carrier: Carrier, verdict: Verdict) -> str:
    reason = in_a_line(carrier, verdict.reason)
    return f": {reason}" if reason else ""


def _name(carrier: Carrier, fault: Exception) -> str:
    return in_a_line(carrier, f"{type(fault).__name__}: {fault}")
