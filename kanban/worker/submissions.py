"""What an owner was asked to do: each submission from its admission to its receipt, and who waits for it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from kanban.processes import start_tick
from kanban.worker.carrier import Carrier
from kanban.worker.frame import Frame

KEPT: Final = 256
"""How many receipts an owner still knows after they were made."""
State = Literal["queued", "running", "terminal"]


class Client(NamedTuple):
    """The process that waits for a submission."""

    pid: int
    start_tick: int

    @property
    def lives(self) -> bool:
        """Whether it is still there, and no later process of that number."""
        return start_tick(self.pid) == self.start_tick


@dataclass(slots=True, eq=False)
class Submission:
    """One frame and its way: `queued` → `running` → `terminal`. *made* holds the receipt once that is made."""

    id: str
    frame: Frame
    client: Client
    finalize: bool = True
    """Whether the agent must close the card itself once its goal is met; else exit 0 does."""
    state: State = "queued"
    made: Future[dict[str, Any]] = field(default_factory=Future)

    def end(self, **receipt: Any) -> None:
        """Make the receipt: it is terminal."""
        self.made.set_result(receipt)
        self.state = "terminal"


class Submissions:
    """All that an owner knows of. Whoever adds one holds the owner's lock; anybody may look."""

    def __init__(self) -> None:
        self._by_id: dict[str, Submission] = {}

    def get(self, receipt: str) -> Submission | None:
        """The submission of that name, or none: it is unknown."""
        return self._by_id.get(receipt)

    def add(self, submission: Submission) -> None:
        """Know one more, and forget the oldest of those that are terminal once there are too many."""
        self._by_id[submission.id] = submission
        over = [each.id for each in self.all() if each.state == "terminal"][:-KEPT]
        for receipt in over:
            del self._by_id[receipt]

    def of_claim(self, claim: Carrier) -> Submission | None:
        """The one that has the turns of exactly this claim already."""
        return next((each for each in self.all() if each.frame.claim == claim), None)

    def next(self) -> Submission | None:
        """The oldest whose turns can begin: no two turns of a card at once, whoever left the earlier run's."""
        live = self.live()
        return next((each for each in live if each.state == "queued" and not _waits(each, live)), None)

    def live(self) -> list[Submission]:
        """Those that are not terminal, oldest first."""
        return [each for each in self.all() if each.state != "terminal"]

    def all(self) -> list[Submission]:
        """Every one that is known, oldest first."""
        return list(self._by_id.values())


def _waits(submission: Submission, live: list[Submission]) -> bool:
    claim = submission.frame.claim
    return claim is not None and any(_same_card(each, claim) for each in live)


def _same_card(earlier: Submission, claim: Carrier) -> bool:
    """Whether *earlier* has the turns of an earlier run of the card that *claim* is of."""
    found = earlier.frame.claim
    if found is None:
        return False
    return (found.database, found.board, found.task) == (claim.database, claim.board, claim.task) and (
        found.run < claim.run
    )
