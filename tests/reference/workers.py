"""What the worker's cases share: a claim that is held for real, and turns that answer from a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kanban.worker.carrier import Carrier, carrier_of
from kanban.worker.identity import Identity
from kanban.worker.proof import Lost, Proof, Reason, prove
from ledger.clock import SECOND
from ledger.driver import sqlite_module
from tests.fleets import Fleet

SUCCESS = {"failed": False, "completed": True, "final_response": "all of it is done"}
TIMEOUT = {
    "failed": True,
    "failure_retryable": True,
    "failure_reason": "timeout",
    "error": "the provider answered 504",
}
BILLING = TIMEOUT | {"failure_reason": "billing"}
QUOTA = TIMEOUT | {"failure_reason": "rate_limit"}
UPSTREAM_QUOTA = TIMEOUT | {"failure_reason": "upstream_rate_limit"}
INTERRUPT = TIMEOUT | {"interrupted": True}
SETTLED = TIMEOUT | {"turn_exit_reason": "max_iterations_reached(60/60)"}
PARTIAL = {"failed": False, "partial": True, "completed": False}
CARRIER = Carrier("sqlite:////nowhere/ledger.db", "default", "t_bound", 1, "its-lock")


@dataclass
class Turns:
    """An agent that answers each turn with the next of *answers*, the last one again and again, and keeps its texts."""

    answers: list[Any]
    texts: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> Any:
        """One turn on *text*."""
        self.texts.append(text)
        return self.answers[min(len(self.texts), len(self.answers)) - 1]


@dataclass
class Held:
    """A card that was claimed by hand, and its carrier."""

    fleet: Fleet
    carrier: Carrier
    lease_until: int

    def prove(self, *, now: int | None = None, identity: Identity | None = None) -> Proof:
        """The proof at *now* (default: 600 s before the lease ends) for this process, or for *identity*."""
        at = self.lease_until - 600 * SECOND if now is None else now
        return prove(self.carrier, at, identity or self.identity)

    @property
    def identity(self) -> Identity:
        """This process."""
        here = Identity.here(self.fleet.environ)
        assert here is not None
        return here

    def outsider(self, statement: str, *values: Any) -> None:
        """Change stored rows behind everybody's back."""
        self.fleet.spoilt = True
        with sqlite_module().connect(self.fleet.home / "ledger.db") as other:
            assert other.execute(statement, values).rowcount == 1
        other.close()

    def environment(self, **changes: str | None) -> dict[str, str]:
        """The worker's environment, some variables changed or (none) taken away."""
        whole: dict[str, str | None] = {**self.fleet.environ, **self.carrier.as_environment(), **changes}
        return {name: value for name, value in whole.items() if value is not None}


def hold(fleet: Fleet, *, pid: int | None = None, **fields: Any) -> Held:
    """Claim a new card with such *fields* by hand; *pid* binds a process to it."""
    card = fleet.create(assignee=None, **fields)
    granted = fleet.board.claim(card, assignee="w", pid=pid)
    carrier = carrier_of(database=fleet.url, board="default", task=card, run=granted.run, lock=granted.lock)
    assert carrier is not None
    return Held(fleet, carrier, granted.lease_until)


def lost(proof: Proof) -> Reason:
    """Why the claim is lost."""
    assert isinstance(proof, Lost), proof
    return proof.reason


def ticking(*instants: int) -> Any:
    """A clock that can be read once for each of *instants*, and no more."""
    left = iter(instants)
    return lambda: next(left)


def proofs(said: Iterable[Proof], seen: list[str]) -> Any:
    """A check that answers from *said* and notes each use in *seen*."""
    left = iter(said)

    def check() -> Proof:
        seen.append("check")
        return next(left)

    return check
