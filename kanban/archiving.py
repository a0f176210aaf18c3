"""Archiving a card, and what becomes of the open cards that wait for it (RULES §8)."""

from __future__ import annotations

from kanban.commands import NOTHING, Archive, Decision, View, known, met
from kanban.refusals import ChoiceNeeded, LiveClaim
from kanban.wishes import wish
from ledger import events as e
from ledger.events import Actor
from ledger.recorded import Draft
from projections.graph import Link, satisfied
from projections.task import Task


def archive(view: View, command: Archive, actor: Actor) -> Decision:
    """Archive the card; with open children the choice is the operator's: keep, unlink or cascade. One append."""
    task = known(view, command.task)
    if task.archived:
        return NOTHING
    waiting = _waiting(view, task)
    if waiting and command.children is None:
        raise ChoiceNeeded(task.id, [link.child for link in waiting])
    if task.run is not None:
        if not command.force:
            raise LiveClaim(task.id, task.run, "archive")
        return wish(view, task, "archive", data={"children": command.children}, words={}, actor=actor, force=True)
    drafts = [_archived(task.id, command, actor)]
    match command.children:
        case "unlink":
            drafts += [_unlinked(link, actor) for link in waiting]
        case "cascade":
            drafts += _cascade(view, task, actor)
        case _:
            pass
    return Decision(tuple(drafts))


def cascaded(view: View, root: Task) -> list[Task]:
    """The open descendants of *root* that wait only for cards that are being archived too, nearest first."""
    going: dict[str, Task] = {root.id: root}
    found: list[Task] = []
    grew = True
    while grew:
        grew = False
        for link in [link for task in list(going) for link in view.children(task)]:
            child = view.task(link.child)
            if child is None or child.closed or child.id in going:
                continue
            unsatisfied = [above for above in view.parents(child.id) if not met(view, above)]
            if unsatisfied and all(above.parent in going for above in unsatisfied):
                going[child.id] = child
                found.append(child)
                grew = True
    return found


def _cascade(view: View, root: Task, actor: Actor) -> list[Draft]:
    going = cascaded(view, root)
    ids = {task.id for task in going}
    drafts: list[Draft] = []
    for task in going:
        if task.run is None:
            drafts.append(_archived(task.id, Archive(task.id, "cascade"), actor))
        else:
            drafts += wish(
                view, task, "archive", data={"children": "cascade"}, words={}, actor=actor, force=True
            ).drafts
    for task in (root, *(task for task in going if task.run is None)):
        drafts += [_unlinked(link, actor) for link in _waiting(view, task) if link.child not in ids]
    return drafts


def _waiting(view: View, task: Task) -> list[Link]:
    """The links of open children that *task* does not satisfy."""
    links = [link for link in view.children(task.id) if not satisfied(task.outcome, link.require)]
    children = ((link, view.task(link.child)) for link in links)
    return [link for link, child in children if child is not None and not child.closed]


def _archived(task: str, command: Archive, actor: Actor) -> Draft:
    return Draft.of(task, e.Archived(children=command.children), actor)


def _unlinked(link: Link, actor: Actor) -> Draft:
    require = "any" if link.require == "any" else "ok"
    return Draft.of(link.child, e.Unlinked(parent=link.parent, require=require), actor)
