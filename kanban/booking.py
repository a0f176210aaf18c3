"""The events that a planned step comes to, decided again on the board as it is inside the lock (RULES §6–7)."""

from __future__ import annotations

from kanban.commands import NOTHING, Decision, View, known, system, unmet
from kanban.endings import ending
from kanban.outcome import Circumstance, Verb, outcome_of
from kanban.plan import AskStop, Book, Lift, witnessed
from kanban.workers import unmet_result
from ledger import events as e
from ledger.events import NEUTRAL, Actor, Outcome
from ledger.recorded import Draft
from projections.budgets import lift
from projections.policy import not_before_after
from projections.run import Run
from projections.task import Task


def decide_step(view: View, step: Book | AskStop | Lift, actor: Actor, observer: str) -> Decision:
    """What *step* comes to now; nothing, if the card has moved on since it was looked at."""
    match step:
        case Book():
            return _book(view, step, actor, observer)
        case AskStop():
            return _ask(view, step, actor)
        case Lift():
            return _lift(view, step, actor)


def _book(view: View, book: Book, actor: Actor, observer: str) -> Decision:
    run = view.run(book.run.task, book.run.run)
    if run is None or not run.open:
        return NOTHING
    task = known(view, run.task)
    match _outcome(book, run):
        case Verb.COMPLETE:
            return _completed(view, book, system(actor))
        case Verb.REVIEW:
            asked = e.ReviewRequested(run=run.run, summary=book.seen.summary, reviewer=run.reviewer)
            drafts, idle = ending(view, run, asked, system(actor))
        case outcome:
            drafts, idle = ending(view, run, _exited(view, task, book, outcome, observer), actor)
    return Decision(tuple(drafts), notes=tuple(idle))


def _outcome(book: Book, run: Run) -> Outcome | Verb:
    """The outcome as planned, unless a stop was asked of *run* since: by a wish that an end before this one granted."""
    if run.stops == book.run.stops:
        return book.outcome
    return outcome_of(witnessed(book.seen), Circumstance.GONE, run)  # with a stop the circumstance says nothing


def _completed(view: View, book: Book, actor: Actor) -> Decision:
    """`on_success = "complete"`: RULES §8 decides as for the worker's own verb."""
    run = book.run
    event = e.Completed(
        run=run.run, outcome=Outcome.OK, summary=book.seen.summary, result=None, metadata=None, usage=None
    )
    waiting = unmet(view, run.task)
    if waiting:
        told = unmet_result(view, run, event, actor, waiting)
        return Decision(told.drafts, notes=(*told.notes, str(told.refusal)))
    drafts, idle = ending(view, run, event, actor)
    return Decision(tuple(drafts), notes=tuple(idle))


def _exited(view: View, task: Task, book: Book, outcome: Outcome, observer: str) -> e.Exited:
    evidence, policy = book.seen.evidence, view.settings.policy
    is_lost, neutral = outcome is Outcome.LOST, outcome in NEUTRAL
    wait = None
    if neutral:
        wait = not_before_after(
            policy,
            outcome=outcome,
            neutral=task.neutral + 1,
            task=task.id,
            now=view.now,
            reset_asked=evidence.reset_asked,
        )
    return e.Exited(
        run=book.run.run,
        outcome=outcome,
        code=evidence.code,
        signal=evidence.signal,
        evidence=evidence.witness,
        observer=observer,
        last_words=evidence.last_words,
        reset_asked=evidence.reset_asked if outcome is Outcome.RATE_LIMITED else None,
        not_before=wait,
        lease_until=book.lease.until if is_lost else None,
        last_beat=book.lease.last_beat if is_lost else None,
        grace=policy.lease_grace if is_lost else None,
    )


def _ask(view: View, step: AskStop, actor: Actor) -> Decision:
    run = view.run(step.run.task, step.run.run)
    if run is None or not run.open or run.stops:
        return NOTHING
    asked = e.StopRequested.model_validate(
        {
            "run": run.run,
            "cause": step.cause,
            "since": step.since,
            "limit": step.limit,
            "wish": None,
            "wish_words": None,
        }
    )
    return Decision((Draft.of(run.task, asked, actor),))


def _lift(view: View, step: Lift, actor: Actor) -> Decision:
    cause = lift(known(view, step.task), view.settings.policy)
    if cause != step.cause:
        return NOTHING
    event = e.Unblocked.model_validate({"cause": cause, "reason": None})
    return Decision((Draft.of(step.task, event, actor),))
