"""The limits in force on a board. They stand in the log, so that every decision can be checked later (RULES §5)."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

SECOND = 1_000_000


class Policy(NamedTuple):
    """One per board. Durations in seconds; none = unset."""

    failure_limit: int = 2
    violation_limit: int = 3
    attempt_limit: int | None = None
    neutral_limit: int = 25
    run_limit: int = 50
    lease: int = 900
    lease_grace: int = 60
    launch_grace: int = 30
    stop_grace: int = 10
    max_runtime: int = 21_600
    progress_timeout: int | None = None
    cooldown: int = 300
    cooldown_cap: int = 3_600
    reset_cap: int = 691_200
    max_running: int | None = None
    max_running_per_assignee: int | None = None

    @property
    def attempts(self) -> int:
        """The attempt limit in force: failure_limit + violation_limit + 1 unless set."""
        return self.attempt_limit or self.failure_limit + self.violation_limit + 1


def policy_from(facts: dict[str, Any]) -> Policy:
    """The policy that a `policy_changed` event set."""
    return Policy(**{name: facts[name] for name in Policy._fields})


def cooldown(policy: Policy, neutral: int, task: str) -> int:
    """Microseconds to wait after the *neutral*-th neutral end in a row.

    Doubles from `cooldown` up to `cooldown_cap`, plus up to 10 % that depend on the card's id alone, so that the
    cards of one outage do not come back together.
    """
    seconds = min(policy.cooldown << min(max(neutral, 1) - 1, 32), policy.cooldown_cap)
    part = int.from_bytes(hashlib.sha256(task.encode()).digest()[:4], "big") % 1_000
    return seconds * SECOND + seconds * SECOND * part // 10_000


def not_before_after(  # the row of RULES §4 for neutral ends
    policy: Policy, *, outcome: str, neutral: int, task: str, now: int, reset_asked: int | None
) -> int | None:
    """When the card may be claimed again after its *neutral*-th neutral end in a row; none: at once."""
    wait = now + cooldown(policy, neutral, task)
    if outcome == "rate_limited":
        return min(max(reset_asked or wait, wait), max(now + policy.reset_cap * SECOND, wait))
    return None if neutral <= 1 else wait
