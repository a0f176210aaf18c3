"""What the stored projections say of one claim, in one row, by the driver alone: a worker's proof loads no more."""

from __future__ import annotations

from typing import Final, NamedTuple

from ledger.glance import glance

_CLAIM: Final = """
SELECT card.status, card.run, run.lock_hash, run.ended_by, lease.lease_until, coalesce(run.turns, run."group"), {now}
FROM cards AS card
LEFT JOIN runs AS run ON run.board = card.board AND run.task = card.task AND run.run = ?
LEFT JOIN leases AS lease ON lease.board = card.board AND lease.task = card.task AND lease.run = ?
WHERE card.board = ? AND card.task = ?
"""


class Claim(NamedTuple):
    """A card's status and open run; of the run that was asked for: lock, end, lease and worker (none: no such row).

    *binding* is the process that runs its turns, else the one that was started for it: a `Binding` as stored text.
    *now* is the server's instant (µs UTC), none where the store has no server.
    """

    status: str
    current: int | None
    lock_hash: str | None
    ended_by: str | None
    lease_until: int | None
    binding: str | None
    now: int | None


def claim_of(url: str, board: str, task: str, run: int) -> Claim | None:
    """The claim of *run* on a card; none where there is no such card. One snapshot; raises as `glance`."""
    row = glance(url, _CLAIM, (run, run, board, task))
    return None if row is None else Claim(*row)
