"""What follows the event that ends a run, in the same append: the violation, a budget's block, then the wishes.

Whoever books the end, worker or sweep, comes through `ending`: so the same end always has the same consequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kanban.commands import Ahead, View, ahead, foretell, known, system
from kanban.operators import decide_as_operator
from kanban.wishes import command_of
from ledger import events as e
from ledger.errors import Refusal
from ledger.events import Actor, Event, Outcome
from ledger.recorded import Draft
from projections.budgets import Budget, budgets, tripped
from projections.run import Run
from projections.task import Task


def ending(view: View, run: Run, first: Event, actor: Actor) -> tuple[list[Draft], list[str]]:
    """*first*, which ends *run*, and all that follows it (RULES §4, §5, §7.1).

    The second value names the wishes that came to nothing because the card was done by then.
    """
    before = known(view, run.task)
    drafts = [Draft.of(run.task, first, actor)]
    if drafts[0].kind != "completed":  # which raises no count
        drafts += _charged(view, run, before, drafts[0], actor)
    return _grant(view, run, before, drafts)


def _charged(view: View, run: Run, before: Task, end: Draft, actor: Actor) -> Iterator[Draft]:
    """The violation that a clean exit is, and the block of the budget that is at its limit by this end."""
    after = ahead(before, [end], view.now)
    if end.kind == "exited" and end.outcome == Outcome.CLEAN:
        yield Draft.of(run.task, _violation(view, run, after), system(actor))
    budget = tripped(before, after, view.settings.policy, ended_by=end.kind)
    if budget is not None:
        yield Draft.of(run.task, blocked_by(budget), system(actor))


def blocked_by(budget: Budget) -> e.Blocked:
    """The hold of a *budget* at its limit: it carries its own arithmetic (RULES §5)."""
    name = budget.cause.removesuffix("_budget")
    return e.Blocked(
        run=None,
        cause=budget.cause,
        block_kind=None,
        reason=f"{name} budget: {budget.count} of {budget.limit} ({budget.limit_source} limit)",
        hold=True,
        sticky=budget.sticky,
        count=budget.count,
        limit=budget.limit,
        limit_source=budget.limit_source,
    )


def _violation(view: View, run: Run, after: Task) -> e.Violation:
    budget = budgets(after, view.settings.policy)[0]
    return e.Violation(
        run=run.run,
        streak=after.streak,
        limit=budget.limit,
        limit_source=budget.limit_source,
    )


def _grant(view: View, run: Run, before: Task, drafts: list[Draft]) -> tuple[list[Draft], list[str]]:
    """Apply the run's wishes, oldest first, each by its own actor, on top of *drafts*."""
    idle: list[str] = []
    for position in _wishes(run):
        event = view.event(position)
        asked = None if event is None else command_of(event)
        if asked is None:
            continue
        command, actor = asked
        task = ahead(before, drafts, view.now)
        verb = type(command).__name__.lower()
        if task.done and verb != "archive":
            idle.append(f"{task.id}: the wish to {verb} (position {position}) came to nothing: the card is done")
            continue
        moved = {task.id: task} | {other: _moved(view, other, drafts) for other in _others(drafts, task.id)}
        foretold = {event.position: event for event in foretell(before, drafts, view.now)}
        try:
            drafts.extend(decide_as_operator(Ahead(view, moved, foretold), command, actor).drafts)
        except Refusal as refusal:
            drafts.append(Draft.of(task.id, _refused(refusal), actor))
    return drafts, idle


def _wishes(run: Run) -> Iterable[int]:
    return sorted(stop.position for stop in run.stops if stop.wish)


def _others(drafts: list[Draft], task: str) -> set[str]:
    return {draft.task for draft in drafts} - {task}


def _moved(view: View, task: str, drafts: list[Draft]) -> Task:
    return ahead(known(view, task), drafts, view.now)


def _refused(refusal: Refusal) -> e.Blocked:
    return e.Blocked(
        run=None, cause="operator", block_kind="wish_refused", reason=str(refusal), hold=True, sticky=True,
        count=None, limit=None, limit_source=None,
    )  # fmt: skip
