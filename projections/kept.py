"""Why a card that no hold, run or parent keeps was not started, as far as the log says: time, pauses, slots. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from ledger.clock import rfc3339
from projections.settings import Settings
from projections.task import Task, status


class Kept(NamedTuple):
    """The first thing in the log that keeps a card; *reason* `claimable`: nothing there does.

    *until*: microseconds UTC, of a time. *scope* and *name*: of a pause. *limit*: of the board's cap. *position*: of
    the pause, or of the policy that set the cap.
    """

    reason: str
    until: int | None = None
    scope: str | None = None
    name: str | None = None
    limit: int | None = None
    position: int | None = None

    def as_json(self) -> dict[str, Any]:
        """A plain JSON object; the instant as RFC 3339."""
        return {**self._asdict(), "until": None if self.until is None else rfc3339(self.until)}


def kept(task: Task, settings: Settings, live: int, now: int) -> Kept | None:
    """What keeps *task* from being started at *now* while *live* runs of the board are open; none: it is not claimable.

    The order in which a tick asks (RULES §7.6).
    """
    if status(task) not in {"ready", "review", "scheduled"}:
        return None
    if (task.not_before or 0) > now:
        return Kept("cooldown_until", task.not_before)
    if (task.scheduled or 0) > now:
        return Kept("scheduled_for", task.scheduled)
    pause = settings.pause_of(worker=task.worker, host=task.card.host)
    if pause is not None:
        return Kept("paused", scope=pause.scope, name=pause.name, position=pause.position)
    if task.worker is None:
        return Kept("no_assignee")
    most = settings.policy.max_running
    if most is not None and live >= most:
        return Kept("at_capacity", limit=most, position=settings.policy_position)
    return Kept("claimable")
