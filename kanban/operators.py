"""`decide` for people: what an operator's command comes to, given the board (RULES §8)."""

from __future__ import annotations

from typing import Any, Literal

from kanban.archiving import archive
from kanban.commands import (
    NOTHING,
    Accept,
    AddLink,
    Archive,
    AskChanges,
    Assign,
    Block,
    Comment,
    Complete,
    Create,
    Decision,
    Edit,
    Pause,
    Redact,
    RemoveLink,
    Reopen,
    Resume,
    Schedule,
    SetPolicy,
    Unblock,
    View,
    known,
    unmet,
)
from kanban.making import add_link, create, edit, held, maybe_named, one, refuse_closed, requirement, said
from kanban.redacting import redact
from kanban.refusals import (
    AlreadyDone,
    Forbidden,
    LiveClaim,
    LostClaim,
    NoLateResult,
    NotDone,
    NotInReview,
    Unmet,
)
from kanban.wishes import wish
from ledger import events as e
from ledger.errors import UnknownRun
from ledger.events import Actor
from ledger.recorded import Draft, Recorded
from projections.task import status


def decide_as_operator(view: View, command: Any, actor: Actor) -> Decision:
    """The events that *command* of an operator comes to: none if it is true already; a forbidden one raises."""
    match command:
        case Create():
            return create(view, command, actor)
        case Comment(task, body):
            known(view, task)
            return one(task, e.Commented(body=said(body, "a comment")), actor)
        case Edit():
            return edit(view, command, actor)
        case Assign():
            return _assign(view, command, actor)
        case AddLink():
            return add_link(view, command, actor)
        case RemoveLink():
            return _remove_link(view, command, actor)
        case Schedule():
            return _schedule(view, command, actor)
        case Archive():
            return archive(view, command, actor)
        case Reopen():
            return _reopen(view, command, actor)
        case Block():
            return _block(view, command, actor)
        case Unblock():
            return _unblock(view, command, actor)
        case Complete():
            return _complete(view, command, actor)
        case Accept():
            return _accept(view, command, actor)
        case AskChanges():
            return _changes(view, command, actor)
        case Pause() | Resume() | SetPolicy():
            return _board(view, command, actor)
        case Redact():
            return redact(view, command, actor)
        case _:
            raise Forbidden(f"{type(command).__name__} is for the worker of a run", remedy="ledger claim")


def _assign(view: View, command: Assign, actor: Actor) -> Decision:
    task = known(view, command.task)
    refuse_closed(task)
    role: Literal["assignee", "reviewer"] = command.role or ("reviewer" if task.lane == "review" else "assignee")
    maybe_named(command.to, f"a {role}")
    previous = getattr(task.card, role)
    if previous == command.to:
        return NOTHING
    if task.run is not None:
        data = {"to": command.to, "role": role}
        return wish(view, task, "assign", data=data, words={}, actor=actor, force=command.force)
    return one(task.id, e.Assigned(role=role, to=command.to, previous=previous), actor)


def _remove_link(view: View, command: RemoveLink, actor: Actor) -> Decision:
    child = known(view, command.task)
    found = [link for link in view.parents(child.id) if link.parent == command.parent]
    if not found:
        return NOTHING
    refuse_closed(child)
    return one(child.id, e.Unlinked(parent=command.parent, require=requirement(found[0].require)), actor)


def _schedule(view: View, command: Schedule, actor: Actor) -> Decision:
    task = known(view, command.task)
    refuse_closed(task)
    if task.run is not None:
        data = {"not_before": command.not_before}
        return wish(
            view, task, "schedule", data=data, words={"reason": command.reason}, actor=actor, force=command.force
        )
    if task.scheduled == command.not_before:
        return NOTHING
    return one(task.id, e.Scheduled(not_before=command.not_before, reason=command.reason), actor)


def _reopen(view: View, command: Reopen, actor: Actor) -> Decision:
    task = known(view, command.task)
    if task.run is not None:
        raise LiveClaim(task.id, task.run, "reopen")
    if not task.closed:
        raise NotDone(task.id, status(task))
    return one(task.id, e.Reopened(reason=command.reason), actor)


def _block(view: View, command: Block, actor: Actor) -> Decision:
    task = known(view, command.task)
    refuse_closed(task)
    if command.reason is not None:
        said(command.reason, "a reason")
    maybe_named(command.kind, "a kind of block")
    if command.only_run is not None and command.only_run != task.run:
        raise LostClaim(task.id, command.only_run, current=task.run)
    if task.run is not None:
        data, words = {"kind": command.kind}, {"reason": command.reason}
        return wish(view, task, "block", data=data, words=words, actor=actor, force=command.force)
    hold = task.hold
    if hold is not None and hold.sticky and hold.kind == command.kind and command.reason is not None:
        event = view.event(hold.position)
        if event is not None and event.words.get("reason") == command.reason:
            return NOTHING
    return one(task.id, held(command.reason, kind=command.kind), actor)


def _unblock(view: View, command: Unblock, actor: Actor) -> Decision:
    task = known(view, command.task)
    refuse_closed(task)
    if task.hold is None and (task.not_before or 0) <= view.now:
        return NOTHING
    return one(task.id, e.Unblocked(cause="operator", reason=command.reason), actor)


def _complete(view: View, command: Complete, actor: Actor) -> Decision:
    task = known(view, command.task)
    if task.run is not None:
        data = {"outcome": command.outcome}
        words = {"summary": command.summary, "result": command.result, "metadata": command.metadata}
        return wish(view, task, "complete", data=data, words=words, actor=actor, force=command.force)
    draft = Draft.of(task.id, completed(command, run=None), actor)
    if task.outcome is not None:
        if _same(draft, view.completion(task.id)):
            return NOTHING
        raise AlreadyDone(task.id, task.outcome)
    waiting = unmet(view, task.id)
    if waiting:
        raise Unmet(task.id, waiting)
    return Decision((draft,))


def completed(command: Complete, *, run: int | None) -> e.Completed:
    """The event of a completion."""
    return e.Completed(
        run=run,
        outcome=e.Outcome(command.outcome),
        summary=command.summary,
        result=command.result,
        metadata=command.metadata,
        usage=None if command.used is None else e.Usage(tokens=command.used.tokens, cost=command.used.cost),
    )


def _accept(view: View, command: Accept, actor: Actor) -> Decision:
    task = known(view, command.task)
    run = view.run(task.id, command.run)
    if run is None:
        raise UnknownRun(task.id, command.run)
    if task.run is not None:
        raise LiveClaim(task.id, task.run, "accept")
    late = None if run.late_position is None else view.event(run.late_position)
    if late is None:
        raise NoLateResult(task.id, command.run)
    words = late.words
    return _complete(
        view,
        Complete(
            task.id,
            summary=words.get("summary"),
            outcome=late.facts["verdict"],
            result=words.get("result"),
            metadata=words.get("metadata"),
        ),
        actor,
    )


def _changes(view: View, command: AskChanges, actor: Actor) -> Decision:
    task = known(view, command.task)
    if task.run is not None:
        raise LiveClaim(task.id, task.run, "changes")
    refuse_closed(task)
    if status(task) != "review":
        raise NotInReview(task.id, status(task))
    return one(task.id, e.ChangesRequested(run=None, reason=said(command.reason, "a reason")), actor)


def _board(view: View, command: Pause | Resume | SetPolicy, actor: Actor) -> Decision:
    settings = view.settings
    match command:
        case Pause(scope, name, drain, reason):
            maybe_named(name if scope != "board" else None, f"the name of a paused {scope}")
            if any((pause.scope, pause.name, pause.drain) == (scope, name, drain) for pause in settings.pauses):
                return NOTHING
            return one("", e.Paused(scope=e.Scope(kind=scope, name=name), drain=drain, reason=reason), actor)
        case Resume(scope, name):
            if not any((pause.scope, pause.name) == (scope, name) for pause in settings.pauses):
                return NOTHING
            return one("", e.Resumed(scope=e.Scope(kind=scope, name=name)), actor)
        case SetPolicy(changes):
            wanted = settings.policy._replace(**dict[str, Any](changes))
            return NOTHING if wanted == settings.policy else one("", e.PolicyChanged(**wanted._asdict()), actor)


def _same(draft: Draft, earlier: Recorded | None) -> bool:
    """Whether *draft* says what *earlier* said; redacted words equal nothing."""
    return earlier is not None and (draft.outcome, draft.words_text) == (earlier.outcome, earlier.words_text)
