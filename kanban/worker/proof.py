"""The proof: does this claim still hold? Read-only, of its own store alone; whatever cannot be seen proves nothing.

Expiry is part of it: between the end of a lease and the sweep that notices, all else still matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kanban.refusals import Forbidden
from kanban.worker.carrier import Carrier, carrier_of
from kanban.worker.identity import Identity
from ledger.errors import StoreMissing, StoreUnsupported
from ledger.ids import opens
from projections.claims import Claim, claim_of


class Reason(StrEnum):
    """Why a claim is lost: the first that holds, in this order."""

    NO_CLAIM = "no_claim"  # nothing is carried: this is no worker
    HALF_CLAIM = "half_claim"  # a part of what is carried is missing
    NO_STORE = "no_store"  # nothing is at the address
    UNREADABLE = "unreadable"  # the store, or this machine, could not be read
    UNKNOWN_CARD = "unknown_card"  # the board holds no such card
    NOT_RUNNING = "not_running"  # the card went back to the board
    OTHER_RUN = "other_run"  # another run has the card
    OTHER_LOCK = "other_lock"  # the lock is not that run's
    RUN_ENDED = "run_ended"  # the run was closed
    NO_LEASE = "no_lease"  # no lease stands: that is none without end
    LEASE_EXPIRED = "lease_expired"  # it ended before now
    OTHER_WORKER = "other_worker"  # the run is bound to a process that this one does not belong to


@dataclass(frozen=True, slots=True)
class Live:
    """The claim holds until *lease_until* (microseconds UTC) unless somebody ends the run before."""

    lease_until: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The claim holds no more, or cannot be shown to hold. *detail* is for a log, and names no secret."""

    reason: Reason
    detail: str = ""


Proof = Live | Lost


def prove(carrier: Carrier | None, now: int, identity: Identity | None) -> Proof:
    """Whether the claim of *carrier* holds at *now* (microseconds UTC) for the worker *identity*. Raises nothing.

    Where the store has a server, its instant counts instead of *now*. A lease that ends now is alive. A run that was
    not bound to a process is any process's that has its lock.
    """
    if carrier is None:
        return Lost(Reason.NO_CLAIM)
    try:
        claim = claim_of(carrier.database, carrier.board, carrier.task, carrier.run)
        return _judged(carrier, claim, now if claim is None or claim.now is None else claim.now, identity)
    except (StoreMissing, StoreUnsupported) as fault:
        return Lost(Reason.NO_STORE, fault.message)
    except Exception as fault:  # noqa: BLE001 – whatever it is, nothing was proved
        return Lost(Reason.UNREADABLE, f"{type(fault).__name__}: {fault}")


def prove_here(environ: Mapping[str, str], now: int) -> tuple[Carrier | None, Proof]:
    """What *environ* carries, and whether it holds for this process: as `prove`, a part of a claim included."""
    try:
        carrier = carrier_of(environ)
    except Forbidden as fault:
        return None, Lost(Reason.HALF_CLAIM, fault.message)
    return carrier, prove(carrier, now, Identity.here(environ))


def _judged(carrier: Carrier, claim: Claim | None, now: int, identity: Identity | None) -> Proof:
    match claim:
        case None:
            return Lost(Reason.UNKNOWN_CARD)
        case Claim(status=status) if status != "running":
            return Lost(Reason.NOT_RUNNING, f"the card is {status}")
        case Claim(current=current) if current != carrier.run:
            return Lost(Reason.OTHER_RUN, f"run {current} has the card")
        case Claim(lock_hash=hashed) if hashed is None or not opens(carrier.lock, hashed):
            return Lost(Reason.OTHER_LOCK)
        case Claim(ended_by=ended) if ended is not None:
            return Lost(Reason.RUN_ENDED, f"by {ended}")
        case Claim(lease_until=None):
            return Lost(Reason.NO_LEASE)
        case Claim(lease_until=int(until)) if until < now:
            return Lost(Reason.LEASE_EXPIRED, f"{(now - until) / 1_000_000:.0f} s ago")
        case Claim(binding=binding) if binding is not None and (identity is None or not identity.is_bound(binding)):
            return Lost(Reason.OTHER_WORKER)
        case Claim(lease_until=int(until)):
            return Live(until)
        case _:
            return Lost(Reason.UNREADABLE, "its lease is no instant")
