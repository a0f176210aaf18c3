"""`decide` for workers: the verbs of a run, fenced by its lock (RULES §8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kanban.commands import (
    NOTHING,
    AddLink,
    AskChanges,
    AskReview,
    Block,
    Comment,
    Complete,
    Create,
    Credential,
    Decision,
    Progress,
    View,
    has_open_parent,
    known,
    unmet,
)
from kanban.endings import ending
from kanban.making import add_link, create, maybe_named, one, said
from kanban.operators import completed
from kanban.refusals import Forbidden, LostClaim, NotInReview, Unmet
from ledger import events as e
from ledger.errors import UnknownRun
from ledger.events import Actor, Event
from ledger.ids import lock_hash, opens
from ledger.recorded import Draft
from projections.policy import SECOND
from projections.run import Run
from projections.task import status


def decide_as_worker(view: View, command: Any, actor: Actor, own: tuple[str, Credential] | None = None) -> Decision:
    """The events that *command* of a worker comes to. *own* is the card and lock of the worker's own run."""
    match command:
        case Complete(claim=Credential()):
            return _complete(view, command, actor)
        case Block(claim=Credential()):
            return _block(view, command, actor)
        case AskReview():
            return _review(view, command, actor)
        case AskChanges(claim=Credential()):
            return _changes(view, command, actor)
        case Progress():
            return _progress(view, command, actor)
        case Create() if own is not None:
            run = open_run(view, *own)
            return create(view, replace(command, made_by=(run.task, run.run)), actor)
        case Comment() if own is not None:
            open_run(view, *own)
            known(view, command.task)
            return one(command.task, e.Commented(body=said(command.body, "a comment")), actor)
        case AddLink(claim=Credential() as claim):
            run = open_run(view, command.task, claim)
            return add_link(view, command, actor, own_run=run.open)
        case _:
            raise Forbidden(
                f"{_verb(command)} is not a worker's: it acts on its own run, creates, comments and links its own card",
                remedy="ask an operator",
            )


def proved(view: View, task: str, claim: Credential) -> Run:
    """The run that *claim* is the lock of, open or ended. `Forbidden` if the lock is not that run's (RULES §8)."""
    if claim.run is not None:
        run = view.run(task, claim.run)
        if run is None:
            known(view, task)
            raise UnknownRun(task, claim.run)
        if not opens(claim.lock, run.lock_hash):
            raise Forbidden(f"{task}: that is not the lock of run {claim.run}", task=task, remedy=f"ledger show {task}")
        return run
    found = view.run_by_lock(task, lock_hash(claim.lock))
    if found is None:
        known(view, task)
        raise Forbidden(f"{task}: that lock belongs to no run of this card", task=task, remedy=f"ledger show {task}")
    return found


def open_run(view: View, task: str, claim: Credential) -> Run:
    """The open run that *claim* holds. `LostClaim` once it has ended."""
    run = proved(view, task, claim)
    if not run.open:
        raise lost(view, run)
    return run


def lost(view: View, run: Run, *, kept: bool = False) -> LostClaim:
    """Why an ended run may do no more."""
    return LostClaim(run.task, run.run, current=known(view, run.task).run, why=f"it ended as {run.outcome}", kept=kept)


def beat(view: View, task: str, claim: Credential) -> Run:
    """The run whose lease may be renewed by its worker: open, and not asked to stop longer than the grace ago."""
    run = open_run(view, task, claim)
    grace = view.settings.policy.stop_grace * SECOND
    if run.stop_at is not None and view.now > run.stop_at + grace:
        raise LostClaim(task, run.run, current=run.run, why="a stop was requested and its grace is over")
    return run


def _complete(view: View, command: Complete, actor: Actor) -> Decision:
    assert command.claim is not None
    run = proved(view, command.task, command.claim)
    event = completed(command, run=run.run)
    if not run.open:
        return _late(view, run, event, actor)
    waiting = unmet(view, run.task)
    if waiting:
        return unmet_result(view, run, event, actor, waiting)
    return _ended(view, run, event, actor)


def unmet_result(view: View, run: Run, event: e.Completed, actor: Actor, waiting: list[str]) -> Decision:
    """A completion before its parents: the result is kept, the run ends as a `dependency` block, the worker is told."""
    late = Draft.of(run.task, _late_result(run, event, "unmet"), actor)
    drafts, idle = ending(view, run, _dependency(view, run, f"waits for {', '.join(waiting)}"), actor)
    return Decision((late, *drafts), Unmet(run.task, waiting, kept_run=run.run), tuple(idle))


def _late(view: View, run: Run, event: e.Completed, actor: Actor) -> Decision:
    """A completion by a run that has ended: a repeat says nothing new, anything else is kept once and refused."""
    if _repeats(view, run, Draft.of(run.task, event, actor)):
        return NOTHING
    if run.late_position is not None:
        raise lost(view, run, kept=True)
    late = Draft.of(run.task, _late_result(run, event, f"the run ended as {run.outcome}"), actor)
    return Decision((late,), lost(view, run, kept=True))


def _late_result(run: Run, event: e.Completed, why: str) -> e.LateResult:
    return e.LateResult(
        run=run.run,
        verdict=event.outcome,
        summary=event.summary,
        result=event.result,
        metadata=event.metadata,
        usage=event.usage,
        why=why,
    )


def _block(view: View, command: Block, actor: Actor) -> Decision:
    assert command.claim is not None
    reason = said(command.reason, "a reason")
    run = proved(view, command.task, command.claim)
    maybe_named(command.kind, "a kind of block")
    corrected = command.kind == "dependency" and not has_open_parent(view, run.task)
    event = blocked_by_worker(run, reason, command.kind, hold=corrected or command.kind != "dependency")
    if not run.open:
        return _repeated(view, run, event, actor)
    decision = _ended(view, run, event, actor)
    if corrected:
        told = f"{run.task}: no parent is open, so this is a block of kind needs_input: a person has to unblock it"
        return Decision(decision.drafts, notes=(told, *decision.notes))
    return decision


def blocked_by_worker(run: Run, reason: str, kind: str | None, *, hold: bool) -> e.Blocked:
    """A worker's own block: sticky, or nothing held while a parent is open (kind `dependency`)."""
    return e.Blocked(
        run=run.run,
        cause="worker",
        block_kind="needs_input" if kind == "dependency" and hold else kind,
        reason=reason,
        hold=hold,
        sticky=hold,
        count=None,
        limit=None,
        limit_source=None,
    )


def _dependency(view: View, run: Run, reason: str) -> e.Blocked:
    return blocked_by_worker(run, reason, "dependency", hold=not has_open_parent(view, run.task))


def _review(view: View, command: AskReview, actor: Actor) -> Decision:
    run = proved(view, command.task, command.claim)
    reviewer = maybe_named(command.reviewer, "a reviewer")
    event = e.ReviewRequested(run=run.run, summary=command.summary, reviewer=reviewer)
    return _ended(view, run, event, actor) if run.open else _repeated(view, run, event, actor)


def _changes(view: View, command: AskChanges, actor: Actor) -> Decision:
    assert command.claim is not None
    reason = said(command.reason, "a reason")
    run = proved(view, command.task, command.claim)
    event = e.ChangesRequested(run=run.run, reason=reason)
    if not run.open:
        return _repeated(view, run, event, actor)
    task = known(view, run.task)
    if task.lane != "review":
        raise NotInReview(task.id, status(task))
    return _ended(view, run, event, actor)


def _progress(view: View, command: Progress, actor: Actor) -> Decision:
    run = open_run(view, command.task, command.claim)
    usage = None if command.used is None else e.Usage(tokens=command.used.tokens, cost=command.used.cost)
    return one(run.task, e.Progressed(run=run.run, note=command.note, usage=usage), actor)


def _ended(view: View, run: Run, event: Event, actor: Actor) -> Decision:
    drafts, idle = ending(view, run, event, actor)
    return Decision(tuple(drafts), notes=tuple(idle))


def _repeated(view: View, run: Run, event: Event, actor: Actor) -> Decision:
    """A verb that the ended run already used is no event; any other act of it is a lost claim."""
    if _repeats(view, run, Draft.of(run.task, event, actor)):
        return NOTHING
    raise lost(view, run)


def _repeats(view: View, run: Run, draft: Draft) -> bool:
    ended = None if run.ended_position is None else view.event(run.ended_position)
    if ended is None or ended.kind != draft.kind or ended.words_text is None:
        return False
    said = (draft.outcome, draft.words_text)
    return said == (ended.outcome, ended.words_text) and _asked(draft) == _asked(ended)


def _asked(event: Any) -> tuple[Any, ...]:
    """What the worker asked for, without what the board decided about it."""
    facts: dict[str, Any] = (
        event.facts if not isinstance(event, Draft) else event.as_if(position=0, version=0, at=0).facts
    )
    kind = facts.get("block_kind")
    return (facts.get("usage"), facts.get("reviewer"), "dependency" if kind == "needs_input" else kind)


_VERBS: Final = {
    "AddLink": "link",
    "RemoveLink": "unlink",
    "AskReview": "review",
    "AskChanges": "changes",
    "SetPolicy": "policy",
}
"""Commands whose name on the command line is not the name of their class."""


def _verb(command: Any) -> str:
    name = type(command).__name__
    return _VERBS.get(name, name.lower())


def spoken_by_worker(command: Any) -> bool:
    """Whether *command* carries the lock of a run."""
    return getattr(command, "claim", None) is not None
