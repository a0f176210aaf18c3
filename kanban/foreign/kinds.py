"""The words of the reference system: which kinds of event it writes, what each says of the version that wrote it."""

from __future__ import annotations

from typing import Final, NamedTuple

STATUSES: Final = frozenset(
    {"triage", "todo", "scheduled", "ready", "running", "blocked", "review", "done", "archived"}
)
OVER: Final = frozenset({"done", "archived"})
"""Where a parent stands in nobody's way."""
FREED: Final = frozenset(
    {"reclaimed", "reconciled", "stale", "timed_out", "crashed", "protocol_violation", "rate_limited", "spawn_failed"}
)
"""Kinds that end a run and give its card back to the lane that it came from."""
MOVING: Final = FREED | {
    "created", "claimed", "claim_rejected", "gave_up", "promoted", "promoted_manual", "blocked", "dependency_wait",
    "block_loop_detected", "unblocked", "scheduled", "completed", "review_requested", "changes_requested",
    "review_reopened", "assigned", "linked", "unlinked", "specified", "decomposed", "status", "descendant_invalidated",
    "archived",
}  # fmt: skip
"""Kinds that may move a card's status, counter, block, run, assignee or parents."""
_QUIET: Final = frozenset(
    {
        "spawned", "worker_registered", "worker_bound", "worker_result", "owner_admitted", "heartbeat",
        "claim_extended", "reclaim_deferred", "completion_blocked_hallucination", "completion_blocked_empty_result",
        "suspected_hallucinated_references", "edited", "reprioritized", "model_override_set", "reasoning_effort_set",
        "commented", "attached", "attachment_removed", "respawn_guarded", "skipped_nonspawnable",
        "terminal_worker_reaped", "existing_pr_authorized", "existing_pr_authorization_consumed", "pr_acceptance",
        "tip_scratch_workspace", "workspace_discarded_content", "archive_worker_termination",
    }
)  # fmt: skip
KNOWN: Final = MOVING | _QUIET
RENAMED: Final = {"ready": "promoted", "priority": "reprioritized", "spawn_auto_blocked": "gave_up"}
"""Old names that later versions rewrite."""

OLDEST: Final = 13
NEWER: Final = 20
"""Every version after 0.19."""
_SINCE: Final = {
    "tip_scratch_workspace": 15, "respawn_guarded": 15, "scheduled": 15, "stale": 15, "decomposed": 15,
    "promoted_manual": 15, "rate_limited": 16, "attached": 16, "attachment_removed": 16, "reclaim_deferred": 17,
    "dependency_wait": 18, "block_loop_detected": 18, "reconciled": NEWER, "review_requested": NEWER,
    "changes_requested": NEWER, "review_reopened": NEWER, "descendant_invalidated": NEWER, "worker_bound": NEWER,
}  # fmt: skip
"""The first 0.x that writes the kind; those that 0.13 writes too are left out."""
_TOLD: Final = (
    ("created", "goal_mode", 16),
    ("created", "branch_name", 15),
    ("blocked", "recurrences", 18),
    ("protocol_violation", "protocol_violation", 19),
    ("assigned", "from", NEWER),
)
"""Kind, a fact in it, and the first 0.x that writes that fact."""
_COLUMNS: Final = (("branch_name", 14), ("goal_mode", 15), ("block_kind", 17), ("worker_started_at", 19))
"""A column of the table of cards, and the last 0.x that leaves it out."""


class Era(NamedTuple):
    """Which versions (0.x) may have written an event: from *low* to *high*; 20 stands for all after 0.19."""

    low: int
    high: int

    def within(self, first: int, last: int) -> bool | None:
        """Whether the version was one from *first* to *last*; none where it may have been."""
        if first <= self.low and self.high <= last:
            return True
        return None if self.low <= last and first <= self.high else False

    def after(self, kind: str, facts: dict[str, object]) -> Era:
        """The era of an event with *facts* that follows this one, if nobody went back to an older version."""
        since = max(_SINCE.get(kind, OLDEST), NEWER if "retry_status" in facts else OLDEST)
        for one, fact, first in _TOLD:
            if kind == one and fact in facts:
                since = max(since, first)
        return self if since <= self.low else Era(since, max(since, self.high))


def era_of(columns: frozenset[str]) -> Era:
    """What the columns of the table of cards say: a file that a version has opened has all of its columns."""
    lacking = [last for column, last in _COLUMNS if column not in columns]
    return Era(OLDEST, min(lacking, default=NEWER))
