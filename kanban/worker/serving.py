"""The turns of one frame, taken by an owner: proved, recovered and judged by what the frame says alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Unpack

from kanban.worker.exits import Credentials, exit_code
from kanban.worker.frame import Agent, Frame
from kanban.worker.identity import Identity
from kanban.worker.proof import Lost, Proof, Reason, prove
from kanban.worker.recovery import Means
from kanban.worker.result import UNSETTLED, Status, TurnResult, result_of
from kanban.worker.turns import log_broken, run_turns
from ledger.clock import Clock, system_clock

if TYPE_CHECKING:
    from kanban.worker.verdict import Judge

_log = logging.getLogger(__name__)


class AgentLeft(Exception):
    """The agent raised what would end its thread: that is the owner's, and the turn settled nothing."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the turns came to: the code to exit with, the last result, and what the agent answered, as it is.

    *said* is the answer to a frame without a claim; of a claim's turns only the result counts.
    """

    code: int
    result: TurnResult
    said: object = None


def serve(
    agent: Agent,
    frame: Frame,
    owner: Identity,
    *,
    judge: Judge | None = None,
    finalize: bool = True,
    credentials: Callable[[Exception], Credentials] | None = None,
    **means: Unpack[Means],
) -> Served:
    """Take the turns of *frame*: those of its claim, proved for the process *owner*; without a claim exactly one.

    With a *judge* a card that has a goal goes on until that is met (`pursue`, which takes *finalize*). The loop sleeps
    no longer than somebody waits, and begins no turn after that.
    """
    claim = frame.claim
    if claim is None:
        return _single(agent, frame)
    means["check"] = means.get("check") or _checking(frame, owner, means.get("clock"))
    means["sleep"] = means.get("sleep") or _sleeping(frame)

    def turn(text: str) -> object:
        return _turn(agent, text, frame)

    ended = run_turns(turn, frame.text, claim, environ=frame.environment, credentials=credentials, **means)
    if judge is not None:
        from kanban.worker.goal import pursue

        ended = pursue(
            turn, ended, claim, judge,
            environ=frame.environment, finalize=finalize, credentials=credentials, **means,
        )  # fmt: skip
    return Served(ended.code, ended.result)


def fit_for_json(said: object) -> dict[str, Any] | None:
    """An agent's answer as an object; none where it is neither a mapping nor a result."""
    if isinstance(said, TurnResult):
        return asdict(said)
    return dict(said) if isinstance(said, Mapping) else None


def _single(agent: Agent, frame: Frame) -> Served:
    try:
        said = _turn(agent, frame.text, frame)
    except KeyboardInterrupt:
        said = TurnResult(Status.INTERRUPTED)
    except Exception as fault:  # noqa: BLE001 – whatever it is, whoever asked gets an answer
        log_broken(_log, "a turn without a claim broke", fault)
        return Served(exit_code(UNSETTLED, is_worker=False), UNSETTLED)
    result = result_of(said)
    return Served(exit_code(result, is_worker=False), result, said)


def _turn(agent: Agent, text: str, frame: Frame) -> object:
    """Let *agent* take a turn. What ends a program or a task, raised in it, is an exception like others."""
    try:
        return agent(text, frame)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as fault:
        raise AgentLeft(repr(fault)) from fault


def _checking(frame: Frame, owner: Identity, clock: Clock | None) -> Callable[[], Proof]:
    def check() -> Proof:
        if frame.over.is_set():
            return Lost(Reason.RUN_ENDED, "its client is gone")
        return prove(frame.claim, (clock or system_clock)(), owner)

    return check


def _sleeping(frame: Frame) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        frame.over.wait(seconds)

    return sleep
