"""Was each event legal where it stands? Decided by the rules at that moment, from the log alone (RULES §9). Pure.

A `Judge` walks beside the fold: `before` looks at the event as it arrives, `after` at what it made of its card, and
remembers what must follow it in the same append: an `exited` that was clean is followed by its `violation`, an end
that trips a budget by its `blocked`. Only the first bad event of a card is reported; its fold goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from ledger.events import ENDINGS, Outcome
from ledger.recorded import Recorded
from projections import legal_cards as cards
from projections import legal_runs as runs
from projections.budgets import Budget, budgets, tripped
from projections.divergence import Divergence, Wrong
from projections.moment import Moment
from projections.policy import Policy
from projections.task import Task
from projections.world import World

Check = Callable[[Moment, Recorded, Task], Wrong | None]


def _violation(_moment: Moment, event: Recorded, _task: Task) -> Wrong:
    return Wrong("§2", f"violation: it does not follow the clean exit of run {event.run}", event.run, None)


CHECKS: Final[dict[str, Check]] = {
    "created": cards.created,
    "edited": cards.edited,
    "assigned": cards.assigned,
    "linked": cards.linked,
    "unlinked": cards.unlinked,
    "commented": cards.commented,
    "scheduled": cards.scheduled,
    "unblocked": cards.unblocked,
    "reopened": cards.reopened,
    "archived": cards.archived,
    "redacted": cards.redacted,
    "claimed": runs.claimed,
    "worker_bound": runs.worker_bound,
    "progressed": runs.of_open_run,
    "stop_requested": runs.stop_requested,
    "exited": runs.exited,
    "violation": _violation,
    "completed": runs.completed,
    "review_requested": runs.of_open_run,
    "changes_requested": runs.changes_requested,
    "blocked": runs.blocked,
    "late_result": runs.late_result,
}


REMEMBERED: Final = ENDINGS | {"created", "claimed", "late_result"}
"""Kinds after which the judge knows more than before."""


class Due(NamedTuple):
    """What must follow an event in the same append: the next event of the same card."""

    task: str
    position: int
    rule: str
    kind: str
    run: int | None
    facts: dict[str, Any]
    whole: bool
    """Whether nothing else is to be said about that event."""

    def met_by(self, event: Recorded) -> bool:
        """Whether *event* is the one that had to follow, whatever it says."""
        if (event.task, event.kind, event.run) != (self.task, self.kind, self.run):
            return False
        return "cause" not in self.facts or event.facts["cause"].endswith("_budget")

    def wrong(self, event: Recorded | None) -> Divergence | None:
        """What is wrong where *event* (none: the end of the log) comes next."""
        if event is None or not self.met_by(event):
            what = self.facts.get("cause", self.kind)
            text = f"no {self.kind} follows in the same append" + (f": {what}" if what != self.kind else "")
            came = None if event is None else event.kind
            return Divergence(self.task, self.position, self.rule, came, self.facts or self.kind, text)
        found = {name: event.facts[name] for name in self.facts}
        if found == self.facts:
            return None
        text = f"{self.kind}: not what the policy then in force makes of it"
        return Divergence(self.task, event.position, "§5", found, self.facts, text)


class Judge:
    """The legality of a log, event by event, beside the fold of *world*."""

    def __init__(self, world: World, moment: Moment | None = None) -> None:
        self.moment = moment or Moment(world)
        self.found: list[Divergence] = []
        self.blind = False
        """Whether the board's own stream could not be read: without policy and pauses nothing can be judged."""
        self.dues: list[Due] = []
        """What the next events of the log must be."""
        self._guilty: set[str] = set()
        self._begun = False
        self._limits: dict[int | None, tuple[Budget, ...]] = {}
        self._policy: Policy | None = None

    def before(self, event: Recorded, task: Task | None) -> None:
        """Judge *event* before it is folded; *task* is its card as it is then."""
        if self.blind:
            return
        if not (self.dues and self._came_due(event)) and event.task not in self._guilty:
            wrong = self._wrong(event, task)
            if wrong is not None:
                self._report(wrong.at(event.task, event.position))
        self._begun = True

    def after(self, event: Recorded, was: Task | None) -> None:
        """Go on to the next moment: *event* has been folded, the card *was* before it."""
        if event.kind not in REMEMBERED:
            return
        self.moment.take(event)
        if event.run is None or was is None or self.blind or event.task in self._guilty:
            return
        if event.kind in ENDINGS:
            self._ended(event, was)
        elif event.kind == "late_result" and event.run == was.run:
            self.dues = [Due(event.task, event.position, "§8", "blocked", event.run, {}, whole=False)]

    def stop(self, task: str) -> None:
        """The stream of *task* cannot be read any further (empty: the board's own, and then nothing is judged)."""
        self.moment.unread.add(task)
        self._guilty.add(task)
        self.blind = self.blind or task == ""
        self.dues = [due for due in self.dues if due.task != task and not self.blind]

    def close(self, *, cut: bool = False) -> list[Divergence]:
        """The log is over: nothing follows any more. *cut*: it goes on, but was not read any further."""
        wrong = None if cut or not self.dues else self.dues[0].wrong(None)
        if wrong is not None:
            self._report(wrong)
        return self.found

    def _wrong(self, event: Recorded, task: Task | None) -> Wrong | None:
        if not self._begun and event.kind != "board_created":
            return Wrong("§2", "the first event of a board is board_created", event.kind, "board_created")
        if event.actor_kind == "worker":
            wrong = cards.by_worker(event, task)
            if wrong is not None:
                return wrong
        if task is None:
            return self._without_card(event)
        check = CHECKS.get(event.kind)  # none: the fold says that it cannot read it
        return None if check is None else check(self.moment, event, task)

    def _without_card(self, event: Recorded) -> Wrong | None:
        if event.task == "":
            return cards.of_board(self.moment, event)
        if event.kind == "created":
            return cards.created(self.moment, event, None)
        return Wrong("§2", f"{event.kind}: the card had not been created", event.kind, "created")

    def _came_due(self, event: Recorded) -> bool:
        """Whether *event* is what had to come, and wholly judged by that."""
        due = self.dues.pop(0)
        wrong = due.wrong(event)
        if wrong is None:
            return due.whole
        self.dues = []
        self._report(wrong)
        return wrong.task == event.task

    def _ended(self, event: Recorded, was: Task) -> None:
        """What must follow the end of a run: its violation, then the budget that it trips (RULES §4–5)."""
        now = self.moment.world.tasks[event.task]
        policy = self.moment.world.settings.policy
        limits = self._limits_of(now, policy)
        if event.outcome == Outcome.CLEAN:
            limit = limits[0]
            facts = {"streak": now.streak, "limit": limit.limit, "limit_source": limit.limit_source}
            self.dues.append(Due(event.task, event.position, "§2", "violation", event.run, facts, whole=True))
        if not _full(now, limits):
            return
        budget = tripped(was, now, policy, ended_by=event.kind)
        if budget is not None:
            held = {
                "cause": budget.cause, "hold": True, "sticky": budget.sticky, "count": budget.count,
                "limit": budget.limit, "limit_source": budget.limit_source,
            }  # fmt: skip
            self.dues.append(Due(event.task, event.position, "§5", "blocked", None, held, whole=True))

    def _limits_of(self, task: Task, policy: Policy) -> tuple[Budget, ...]:
        """The limits in force for *task*, in the order of the table; their counts mean nothing."""
        if policy is not self._policy:
            self._policy, self._limits = policy, {}
        own = task.card.max_retries
        found = self._limits.get(own)
        if found is None:
            found = self._limits[own] = budgets(task, policy)
        return found

    def _report(self, wrong: Divergence) -> None:
        self.found.append(wrong)
        self._guilty.add(wrong.task or "")


def _full(task: Task, limits: tuple[Budget, ...]) -> bool:
    """Whether any budget is at its limit: asked at every end, so that `tripped` is asked at few."""
    streak, neutral, run, failures, spent = limits
    return (
        task.streak >= streak.limit
        or task.neutral >= neutral.limit
        or task.runs >= run.limit
        or task.failures >= failures.limit
        or task.spent >= spent.limit
    )


def judge(events: Iterable[Recorded]) -> list[Divergence]:
    """The first illegal event of every card in *events*, which are a board's whole log and can all be read."""
    world = World()
    judging = Judge(world)
    for event in events:
        was = world.tasks.get(event.task)
        judging.before(event, was)
        world.evolve(event)
        judging.after(event, was)
    return judging.close()
