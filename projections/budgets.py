"""The budgets of RULES §5: one function computes each limit; tripping, lifting and explaining call the same one."""

from __future__ import annotations

from typing import NamedTuple

from projections.policy import Policy
from projections.task import Task


class Budget(NamedTuple):
    """A budget as it stands: what was counted, the limit, and where the limit comes from."""

    cause: str
    count: int  # type: ignore[assignment]  # of a tuple, which nobody asks
    limit: int
    limit_source: str
    sticky: bool


def budgets(task: Task, policy: Policy) -> tuple[Budget, ...]:
    """Every budget of *task* under *policy*, in the order of the table: sticky before not sticky."""
    own = task.card.max_retries
    source = "policy" if own is None else "task"
    return (
        Budget("violation_budget", task.streak, own or policy.violation_limit, source, sticky=True),
        Budget("neutral_budget", task.neutral, policy.neutral_limit, "policy", sticky=True),
        Budget("run_budget", task.runs, policy.run_limit, "policy", sticky=True),
        Budget("failure_budget", task.failures, own or policy.failure_limit, source, sticky=False),
        Budget("attempt_budget", task.spent, own or policy.attempts, source, sticky=False),
    )


def at_limit(task: Task, policy: Policy) -> tuple[Budget, ...]:
    """The budgets of *task* that are at their limit now."""
    return tuple(budget for budget in budgets(task, policy) if budget.count >= budget.limit)


def tripped(before: Task, after: Task, policy: Policy, *, ended_by: str) -> Budget | None:
    """The budget that the end of a run trips: *before* and *after* are the card around that event.

    One trips only if its count was raised by that end; the run budget's was raised by the run's `claimed`, and it is
    looked at when the run ends by anything but `completed`. None where the end itself set a sticky hold.
    """
    if after.hold is not None and after.hold != before.hold and after.hold.sticky:
        return None
    reached = at_limit(after, policy)
    if not reached:
        return None
    counts = {budget.cause: budget.count for budget in budgets(before, policy)}
    for budget in reached:
        raised = budget.count > counts[budget.cause]
        if raised or (budget.cause == "run_budget" and ended_by != "completed"):
            return budget
    return None


def lift(task: Task, policy: Policy) -> str | None:
    """Why the hold of *task* may be lifted by the sweep now: `limit_raised`, `reassigned`, or none (it stands)."""
    if task.closed or task.hold is None or task.hold.sticky or at_limit(task, policy):
        return None
    return "reassigned" if task.spent == 0 else "limit_raised"


def most_runs(policy: Policy) -> int:
    """The most runs that one card can use between two acts of a person."""
    return policy.run_limit


def attempt_can_trip_alone(policy: Policy, max_retries: int | None) -> bool:
    """Whether mixed endings can bring the attempt budget to its limit before any other (RULES §5)."""
    set_limits = policy.attempt_limit is not None or (max_retries is not None and max_retries >= 2)  # noqa: PLR2004
    return set_limits or (policy.failure_limit - 1) * (policy.violation_limit - 1) >= 3  # noqa: PLR2004
