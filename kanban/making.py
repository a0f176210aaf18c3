"""What a card is: creating, editing and linking it, and what its texts and names may be (RULES §8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from kanban.commands import (
    NOTHING,
    AddLink,
    Create,
    Decision,
    Edit,
    View,
    known,
)
from kanban.refusals import (
    Closed,
    Conflict,
    DeadParent,
    Forbidden,
    LiveClaim,
    Ring,
)
from ledger import events as e
from ledger.errors import InvalidInput
from ledger.events import Actor, Event
from ledger.recorded import Draft, Recorded
from projections.goals import turns_of
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
        parked = held(said(command.blocked, "--blocked"), kind=None)
        drafts.append(Draft.of(command.task, parked, actor))
    return Decision(tuple(drafts))


def add_link(view: View, command: AddLink, actor: Actor, *, own_run: bool = False) -> Decision:
    """The child waits for the parent; dead parents and rings are refused, and live children unless they ask."""
    child = known(view, command.task)
    if any((link.parent, link.require) == (command.parent, command.require) for link in view.parents(child.id)):
        return NOTHING
    refuse_closed(child)
    if child.run is not None and not own_run:
        raise LiveClaim(child.id, child.run, "link")
    _refuse_dead(view, child.id, command.parent, command.require)
    closed = ring(child.id, command.parent, lambda task: [link.parent for link in view.parents(task)])
    if closed is not None:
        raise Ring(closed)
    return one(child.id, e.Linked(parent=command.parent, require=command.require), actor)


def edit(view: View, command: Edit, actor: Actor) -> Decision:
    """Fields → new values, those that differ; the lane only between triage and work, and with no run open."""
    task = known(view, command.task)
    changes = {name: value for name, value in command.changes.items() if value != _current(view, task, name)}
    if "lane" in changes:
        refuse_closed(task)
        if task.run is not None:
            raise LiveClaim(task.id, task.run, "edit")
        if task.lane == "review":
            raise Forbidden(f"{task.id} is in review", task=task.id, remedy=f"ledger changes {task.id} REASON")
    if not changes:
        return NOTHING
    if "title" in changes:
        said(changes["title"], "a title")
    if "labels" in changes:
        changes["labels"] = _labels(changes["labels"])
    maybe_named(changes.get("tenant"), "a tenant")
    values = {name: value for name, value in changes.items() if name not in {"title", "body"}}
    edited = e.Edited(
        fields=tuple(sorted(changes)), values=values, title=changes.get("title"), body=changes.get("body")
    )
    return one(task.id, edited, actor)


def _created(command: Create) -> e.Created:
    return e.Created(
        title=said(command.title, "a title"),
        body=command.body,
        assignee=maybe_named(command.assignee, "an assignee"),
        priority=command.priority,
        parents=_parents(command.parents),
        labels=tuple(_labels(command.labels)),
        tenant=maybe_named(command.tenant, "a tenant"),
        max_retries=command.max_retries,
        max_runtime=command.max_runtime,
        workspace=command.workspace,
        goal=None if command.goal_max_turns is None else e.Goal(max_turns=turns_of(command.goal_max_turns)),
        lane=command.lane,
        host=maybe_named(command.host, "a host"),
        key=maybe_named(command.key, "a key"),
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


def _labels(wanted: Iterable[str]) -> list[str]:
    """Each label once."""
    return list(dict.fromkeys(named(label, "a label") for label in wanted))


def _parents(wanted: tuple[tuple[str, str], ...]) -> tuple[e.Parent, ...]:
    """Each parent once; the last requirement said of it counts."""
    return tuple(e.Parent(task=task, require=requirement(require)) for task, require in dict(wanted).items())


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


def named(name: str, what: str) -> str:
    """A name that people and tables can hold: not blank, printable, at most 200 characters."""
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise InvalidInput(f"{name[:60]!r} cannot be {what}", remedy="1 to 200 printable characters")
    return name


def maybe_named(name: str | None, what: str) -> str | None:
    """As `named`; none stays none."""
    return None if name is None else named(name, what)


def said(text: str | None, what: str) -> str:
    if text is None or not text.strip():
        raise InvalidInput(f"{what} must say something", remedy="give a text that is not blank")
    return text


def held(reason: str | None, *, kind: str | None) -> e.Blocked:
    """An operator's block: sticky, with no run."""
    return e.Blocked(
        run=None, cause="operator", block_kind=kind, reason=reason, hold=True, sticky=True,
        count=None, limit=None, limit_source=None,
    )  # fmt: skip


def requirement(require: str) -> Literal["ok", "any"]:
    """What a link requires of its parent, or `InvalidInput`."""
    match require:
        case "ok" | "any":
            return require
        case _:
            raise InvalidInput(f"--require {require!r} is neither ok nor any", remedy="--require ok | any")


def refuse_closed(task: Task) -> None:
    """Raise `Closed` for a card that is done or archived."""
    if task.closed:
        raise Closed(task.id, status(task))


def _refuse_dead(view: View, child: str, parent_id: str, require: str) -> None:
    parent = known(view, parent_id)
    if dead(parent.outcome, require, archived=parent.archived, known=True):
        ended = "is archived undone" if parent.outcome is None else f"is done: {parent.outcome}"
        raise DeadParent(child, parent_id, ended)
