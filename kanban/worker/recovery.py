"""The recovery loop: check, sleep, check, turn. A failed turn goes on in the same process, while the claim holds.

It never renews its own lease: how long a claim may be held is decided elsewhere, and the loop only obeys. Delays,
clock and sleep are looked up when they are needed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack

from kanban.worker.authority import NEVER_RETRIED, denied
from kanban.worker.carrier import Carrier
from kanban.worker.identity import Identity
from kanban.worker.nudge import recovery_nudge
from kanban.worker.proof import Lost, Proof, prove
from kanban.worker.result import TurnResult, result_of
from ledger.clock import Clock, system_clock

BUDGET: Final = "LEDGER_TURN_RECOVERY"
"""The variable that says how many times a failed turn may go on: a number, or 0, false, no, off."""
DEFAULT_BUDGET, LARGEST_BUDGET = 3, 10
DELAYS: tuple[float, ...] = (15, 45, 90)
"""Seconds before each attempt; the last one repeats."""
_OFF: Final = frozenset({"false", "no", "off"})
_log = logging.getLogger(__name__)

Turn = Callable[[str], object]
"""Runs one turn of an agent on a text, in the same conversation, and answers what `result_of` understands."""
Nudge = Callable[[Carrier | None, TurnResult, int, int], str]
"""The text of a turn that goes on: of the claim, the result before it, the attempt and the budget."""


class Means(TypedDict, total=False):
    """What the loop works with, all of it replaceable; none, or not given: the real thing, looked up when needed."""

    check: Callable[[], Proof] | None  # proves the claim anew each time
    clock: Clock | None  # read once for each proof, where *check* is not given
    sleep: Callable[[float], None] | None
    emit: Callable[[str], None] | None  # gets the lines that the log gets
    nudge: Nudge
    never: AbstractSet[str]  # reasons that are never tried again


@dataclass(frozen=True, slots=True)
class Recovered:
    """The last result, and how many attempts were counted: one is counted before its sleep, whatever becomes of it."""

    result: TurnResult
    attempts: int


def budget_of(environ: Mapping[str, str] = os.environ) -> int:
    """How many attempts `LEDGER_TURN_RECOVERY` allows, 0 to 10; what is blank or no number is 3."""
    said = environ.get(BUDGET, "").strip().lower()
    if said in _OFF:
        return 0
    try:
        return max(0, min(LARGEST_BUDGET, int(said)))
    except ValueError:
        return DEFAULT_BUDGET


def delay_before(attempt: int) -> float:
    """Seconds to wait before *attempt*, counted from 1."""
    return DELAYS[min(max(attempt, 1), len(DELAYS)) - 1]


def recover(
    turn: Turn,
    result: object,
    carrier: Carrier | None,
    *,
    environ: Mapping[str, str] = os.environ,
    **means: Unpack[Means],
) -> Recovered:
    """Let *turn* go on after *result* while it failed in a way that may be tried again and the claim holds.

    One failed proof ends it for good.
    """
    proof = means.get("check") or checking(carrier, environ, means.get("clock"))
    emit, nudge = means.get("emit"), means.get("nudge", recovery_nudge)
    never = means.get("never", NEVER_RETRIED)
    card = "no worker" if carrier is None else carrier.task
    latest, attempts = result_of(result), 0
    while True:
        budget = budget_of(environ)
        if denied(latest, is_worker=carrier is not None, made=attempts, budget=budget, never=never) is not None:
            break
        if not holds(card, proof(), emit):
            break
        attempts += 1
        delay = delay_before(attempts)
        tell(f"{card}: the turn failed; attempt {attempts}/{budget} in {delay:g} s, context kept", emit)
        (means.get("sleep") or time.sleep)(delay)
        if not holds(card, proof(), emit):
            break
        latest = result_of(turn(nudge(carrier, latest, attempts, budget)))
    return Recovered(latest, attempts)


def checking(carrier: Carrier | None, environ: Mapping[str, str], clock: Clock | None) -> Callable[[], Proof]:
    """The check of *carrier* in its own store, for this process, each with one reading of the clock."""
    return lambda: prove(carrier, (clock or system_clock)(), Identity.here(environ))


def holds(card: str, proof: Proof, emit: Callable[[str], None] | None = None) -> bool:
    """Whether *proof* lets a turn begin; where it does not, that is told and its detail logged."""
    if not isinstance(proof, Lost):
        return True
    if proof.detail:
        _log.warning("[kanban] %s: %s: %s", card, proof.reason, proof.detail)
    causes = "the run has ended, its lease ran out, or the card is another worker's"
    tell(f"{card} no longer holds a live run/claim ({proof.reason}), no turn is begun: {causes}", emit)
    return False


def tell(line: str, emit: Callable[[str], None] | None, log: logging.Logger = _log) -> None:
    """Say *line* to the log, and to *emit* where there is one."""
    log.warning("[kanban] %s", line)
    if emit is not None:
        with suppress(Exception):  # a broken sink is no reason to lose a turn
            emit(f"[kanban] {line}")
