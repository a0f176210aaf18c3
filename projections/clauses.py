"""The rows and sentences of the rules that an answer rests on, word for word as `docs/rules.md` has them. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from projections.kept import Kept
from projections.task import Hold


class Clause(NamedTuple):
    """Where a rule stands, and its words: of a table the cells of the row, with ` · ` between them."""

    rule: str
    words: str


def clause_of(about: str, value: Any) -> Clause:
    """The clause that makes *value* the answer to *about*."""
    match about, value:
        case "status", str(status):
            return _STATUS[status]
        case "hold", (Hold(cause=cause), _):
            return _HOLDS.get(cause, _HOLD)
        case "held", Kept(reason=reason):
            return _KEPT[reason]
        case _:
            return _WORDS[about]


_HOLD: Final = Clause(
    "§1",
    "hold · why a card is blocked: cause, reason, sticky or not, count, limit and limit source. One at a time",
)
_WORDS: Final = {
    "status": Clause("§1", "task (card) · a stream of events inside a board"),
    "failures": Clause("§4", "failures: counted failures in the epoch."),
    "streak": Clause("§4", "streak: clean exits in a row, neutral ends not counted."),
    "hold": _HOLD,
    "held": Clause("§1", "held · why a card that the sweep looked at was not started, machine-readable"),
}
_STATUS: Final = {
    row.split(" · ")[1]: Clause("§3", row)
    for row in (
        "1 · archived · last of archived / reopened is archived",
        "2 · done · last of completed / reopened is completed",
        "3 · running · a run is open",
        "4 · blocked · a hold is in force",
        "5 · triage · lane is triage",
        "6 · todo · a parent is not satisfied",
        "7 · scheduled · scheduled in force (its time has not been consumed by a claim)",
        "8 · review · lane is review",
        "9 · ready · otherwise",
    )
}
_HOLDS: Final = {
    "operator": Clause("§4", "blocked by operator, no run · = · = · = · = · – · set, sticky"),
    "worker": Clause("§4", "blocked by worker · = · 0 · = · 0 · ends · set, sticky"),
    "config": Clause("§5", "config · – · – · cause config, sticky"),
    "violation_budget": Clause(
        "§5",
        "violation · streak · task.max_retries, else policy.violation_limit (3) · cause violation_budget, sticky",
    ),
    "neutral_budget": Clause("§5", "neutral · neutral · policy.neutral_limit (25) · cause neutral_budget, sticky"),
    "run_budget": Clause(
        "§5",
        "run · runs · policy.run_limit (50); looked at when a run ends by anything but completed or a sticky blocked · "
        "cause run_budget, sticky",
    ),
    "failure_budget": Clause(
        "§5",
        "failure · failures · task.max_retries, else policy.failure_limit (2) · cause failure_budget, not sticky",
    ),
    "attempt_budget": Clause(
        "§5",
        "attempt · spent · task.max_retries, else policy.attempt_limit (failure_limit + violation_limit + 1 unless set:"
        " 6) · cause attempt_budget, not sticky",
    ),
}
_CLAIMABLE: Final = Clause(
    "§3",
    "Claimable at time t = not archived, not done, no run, no hold, lane not triage, every parent satisfied, scheduled"
    " (if in force) ≤ t, not before ≤ t.",
)
_KEPT: Final = {
    "cooldown_until": _CLAIMABLE,
    "scheduled_for": _CLAIMABLE,
    "claimable": _CLAIMABLE,
    "paused": Clause("§7.6", "Admit: pause (board, assignee, host)"),
    "at_capacity": Clause("§7.6", "caps (board, assignee, host: spawned runs over all boards) counted from live runs"),
    "no_assignee": Clause(
        "§8",
        "no_assignee, unknown_assignee, waiting_for_person, placed_elsewhere and the host's cap hold back spawning"
        " only",
    ),
}
