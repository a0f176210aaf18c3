"""`decide` for people: what an operator's command comes to, given the board (RULES §8)."""

from __future__ import annotations

from typing import Any, Final, Literal

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
from kanban.refusals import (
    AlreadyDone,
    Closed,
    Conflict,
    DeadParent,
    Forbidden,
    LiveClaim,
    NoLateResult,
    NotDone,
    NotInReview,
    Ring,
    Unmet,
)
from kanban.wishes import wish
from ledger import events as e
from ledger.errors import InvalidInput, UnknownRun
from ledger.events import Actor, Event
from ledger.recorded import Draft, Recorded
from projections.graph import dead, ring
from projections.task import Task, status

EDITABLE: Final = (
    "title",
    "body",
    "priority",
    "labels",
    "tenant",
    "max_retries",
    "max_runtime",
    "workspace",
    "goal",
    "lane",
)

LONGEST_NAME: Final = 200


def one(task: str, event: Event, actor: Actor) -> Decision:
    """The decision that appends exactly *event*."""
    return Decision((Draft.of(task, event, actor),))


def decide_as_operator(view: View, command: Any, actor: Actor) -> Decision:
    """The events that *command* of an operator comes to: none if it is true already; a forbidden one raises."""
    match command:
        case Create():
            return create(view, command, actor)
        case Comment(task, body):
            known(view, task)
            return one(task, e.Commented(body=said(body, "a comment")), actor)
        case Edit():
            return _edit(view, command, actor)
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
        case _:
            raise Forbidden(f"{type(command).__name__} is for the worker of a run", remedy="ledger claim")


def create(view: View, command: Create, actor: Actor) -> Decision:
    """A new card; with a key seen before, the first answer or `Conflict`."""
    event = _created(command)
    earlier = view.created_with(command.key) if command.key is not None else None
    if earlier is not None:
        draft = Draft.of(earlier.task, event, actor)
        if not _same_request(draft, earlier) or not _born_as_asked(view, command, earlier):
            raise Conflict(str(command.key), earlier.task)
        return Decision(replayed=earlier.task)
    for parent, require in command.parents:
        _refuse_dead(view, command.task, parent, require)
    drafts = [Draft.of(command.task, event, actor)]
    if command.blocked is not None:
        held = _held(said(command.blocked, "--blocked"), kind=None)
        drafts.append(Draft.of(command.task, held, actor))
    return Decision(tuple(drafts))


def add_link(view: View, command: AddLink, actor: Actor, *, own_run: bool = False) -> Decision:
    """The child waits for the parent; dead parents and rings are refused, and live children unless they ask."""
    child = known(view, command.task)
    if any((link.parent, link.require) == (command.parent, command.require) for link in view.parents(child.id)):
        return NOTHING
    _refuse_closed(child)
    if child.run is not None and not own_run:
        raise LiveClaim(child.id, child.run, "link")
    _refuse_dead(view, child.id, command.parent, command.require)
    closed = ring(child.id, command.parent, lambda task: [link.parent for link in view.parents(task)])
    if closed is not None:
        raise Ring(closed)
    return one(child.id, e.Linked(parent=command.parent, require=command.require), actor)


def _created(command: Create) -> e.Created:
    return e.Created(
        title=said(command.title, "a title"),
        body=command.body,
        assignee=_maybe_named(command.assignee, "an assignee"),
        priority=command.priority,
        parents=_parents(command.parents),
        labels=tuple(dict.fromkeys(named(label, "a label") for label in command.labels)),
        tenant=_maybe_named(command.tenant, "a tenant"),
        max_retries=command.max_retries,
        max_runtime=command.max_runtime,
        workspace=command.workspace,
        goal=None if command.goal_max_turns is None else e.Goal(max_turns=command.goal_max_turns),
        lane=command.lane,
        host=command.host,
        key=_maybe_named(command.key, "a key"),
        made_by=None if command.made_by is None else e.RunRef(task=command.made_by[0], run=command.made_by[1]),
    )


def _same_request(draft: Draft, earlier: Recorded) -> bool:
    """Whether a key says its first request again, whichever run of a worker asks; redacted words equal nothing."""
    facts, known_facts = draft.as_if(position=0, version=0, at=0).facts, earlier.facts
    facts.pop("made_by"), known_facts.pop("made_by")
    return (facts, draft.words_text) == (known_facts, earlier.words_text)


def _born_as_asked(view: View, command: Create, earlier: Recorded) -> bool:
    """Whether a card that is to be born blocked was: its `blocked` stands right behind its `created`."""
    if command.blocked is None:
        return True
    event = view.event(earlier.position + 1)
    if event is None or (event.task, event.kind) != (earlier.task, "blocked"):
        return False
    return bool(event.words.get("reason") == command.blocked)


def _parents(wanted: tuple[tuple[str, str], ...]) -> tuple[e.Parent, ...]:
    """Each parent once; the last requirement said of it counts."""
    return tuple(e.Parent(task=task, require=_require(require)) for task, require in dict(wanted).items())


def named(name: str, what: str) -> str:
    """A name that people and tables can hold: not blank, printable, at most 200 characters."""
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise InvalidInput(f"{name[:60]!r} cannot be {what}", remedy="1 to 200 printable characters")
    return name


def _maybe_named(name: str | None, what: str) -> str | None:
    return None if name is None else named(name, what)


def _edit(view: View, command: Edit, actor: Actor) -> Decision:
    task = known(view, command.task)
    changes = {name: value for name, value in command.changes.items() if value != _current(view, task, name)}
    if "lane" in changes:
        _refuse_closed(task)
        if task.run is not None:
            raise LiveClaim(task.id, task.run, "edit")
        if task.lane == "review":
            raise Forbidden(f"{task.id} is in review", task=task.id, remedy=f"ledger changes {task.id} REASON")
    if not changes:
        return NOTHING
    if "title" in changes:
        said(changes["title"], "a title")
    values = {name: value for name, value in changes.items() if name not in {"title", "body"}}
    edited = e.Edited(
        fields=tuple(sorted(changes)), values=values, title=changes.get("title"), body=changes.get("body")
    )
    return one(task.id, edited, actor)


def _current(view: View, task: Task, name: str) -> Any:
    match name:
        case "title" | "body":
            event = view.event(getattr(task.card, f"{name}_position"))
            return ... if event is None or not event.words else event.words[name]
        case "labels":
            return list(task.card.labels)
        case "goal":
            turns = task.card.goal_max_turns
            return None if turns is None else {"max_turns": turns}
        case "lane":
            return task.lane
        case name if name in EDITABLE:
            return getattr(task.card, name)
        case _:
            raise InvalidInput(f"{name} cannot be edited", task=task.id, remedy=f"one of: {', '.join(EDITABLE)}")


def _assign(view: View, command: Assign, actor: Actor) -> Decision:
    task = known(view, command.task)
    _refuse_closed(task)
    role: Literal["assignee", "reviewer"] = command.role or ("reviewer" if task.lane == "review" else "assignee")
    _maybe_named(command.to, f"a {role}")
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
    _refuse_closed(child)
    return one(child.id, e.Unlinked(parent=command.parent, require=_require(found[0].require)), actor)


def _schedule(view: View, command: Schedule, actor: Actor) -> Decision:
    task = known(view, command.task)
    _refuse_closed(task)
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
    _refuse_closed(task)
    if command.reason is not None:
        said(command.reason, "a reason")
    if task.run is not None:
        data, words = {"kind": command.kind}, {"reason": command.reason}
        return wish(view, task, "block", data=data, words=words, actor=actor, force=command.force)
    hold = task.hold
    if hold is not None and hold.sticky and hold.kind == command.kind and command.reason is not None:
        event = view.event(hold.position)
        if event is not None and event.words.get("reason") == command.reason:
            return NOTHING
    return one(task.id, _held(command.reason, kind=command.kind), actor)


def _unblock(view: View, command: Unblock, actor: Actor) -> Decision:
    task = known(view, command.task)
    _refuse_closed(task)
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
    _refuse_closed(task)
    if status(task) != "review":
        raise NotInReview(task.id, status(task))
    return one(task.id, e.ChangesRequested(run=None, reason=said(command.reason, "a reason")), actor)


def _board(view: View, command: Pause | Resume | SetPolicy, actor: Actor) -> Decision:
    settings = view.settings
    match command:
        case Pause(scope, name, drain, reason):
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


def _held(reason: str | None, *, kind: str | None) -> e.Blocked:
    return e.Blocked(
        run=None, cause="operator", block_kind=kind, reason=reason, hold=True, sticky=True,
        count=None, limit=None, limit_source=None,
    )  # fmt: skip


def _same(draft: Draft, earlier: Recorded | None) -> bool:
    """Whether *draft* says what *earlier* said; redacted words equal nothing."""
    return earlier is not None and (draft.outcome, draft.words_text) == (earlier.outcome, earlier.words_text)


def said(text: str | None, what: str) -> str:
    if text is None or not text.strip():
        raise InvalidInput(f"{what} must say something", remedy="give a text that is not blank")
    return text


def _require(require: str) -> Literal["ok", "any"]:
    match require:
        case "ok" | "any":
            return require
        case _:
            raise InvalidInput(f"--require {require!r} is neither ok nor any", remedy="--require ok | any")


def _refuse_closed(task: Task) -> None:
    if task.closed:
        raise Closed(task.id, status(task))


def _refuse_dead(view: View, child: str, parent_id: str, require: str) -> None:
    parent = known(view, parent_id)
    if dead(parent.outcome, require, archived=parent.archived, known=True):
        ended = "is archived undone" if parent.outcome is None else f"is done: {parent.outcome}"
        raise DeadParent(child, parent_id, ended)
