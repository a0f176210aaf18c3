"""Commands on cards: create, edit, assign, link, unlink, comment, schedule, archive, reopen."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from cli.wiring import LARGEST, CardId, Force, Reason, call_of, needed, none_or, number, seconds, usage, verb

app = typer.Typer()

Priority = Annotated[
    int | None, typer.Option(min=-LARGEST, max=LARGEST, help="Larger goes first.  [default: 0]", show_default=False)
]
Labels = Annotated[list[str] | None, typer.Option("--label", help="A label; may be repeated.", show_default=False)]
Body = Annotated[str | None, typer.Option(help="What is to be done, at length.", show_default=False)]
Tenant = Annotated[str | None, typer.Option(help="Whose card it is.", show_default=False)]
Workspace = Annotated[
    str | None,
    typer.Option(metavar="scratch|dir:PATH|worktree:REPO", help="Where its runs work.", show_default=False),
]
Where = Annotated[
    str | None,
    typer.Option(metavar="HOST", help="Run it there alone: a host's id or node name.", show_default=False),
]
MaxTurns = Annotated[
    int | None,
    typer.Option(
        min=-LARGEST, max=LARGEST, help="With --goal: turns of a run at most.  [default, and below 1: 20]",
        show_default=False,
    ),
]  # fmt: skip


@verb(app)
def create(
    ctx: typer.Context,
    title: Annotated[str, typer.Argument(help="What is to be done, in a line.", show_default=False)],
    *,
    body: Body = None,
    assignee: Annotated[str | None, typer.Option(help="Who is to do it.", show_default=False)] = None,
    parent: Annotated[
        list[str] | None,
        typer.Option(metavar="ID[:any]", help="A card to wait for (any: even if it fails).", show_default=False),
    ] = None,
    priority: Priority = None,
    max_retries: Annotated[
        int | None, typer.Option(min=1, max=LARGEST, help="Its own limit of failures.", show_default=False)
    ] = None,
    max_runtime: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long a run may take.", show_default=False)
    ] = None,
    workspace: Workspace = None,
    goal: Annotated[bool, typer.Option("--goal", help="Go on turn by turn until a judge says it is done.")] = False,
    goal_max_turns: MaxTurns = None,
    host: Where = None,
    label: Labels = None,
    tenant: Tenant = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same request again is one card.", show_default=False)
    ] = None,
    triage: Annotated[bool, typer.Option("--triage", help="Park it for somebody to look at first.")] = False,
    blocked: Annotated[
        str | None, typer.Option(metavar="REASON", help="Block it from the start.", show_default=False)
    ] = None,
) -> None:
    """Create a card."""
    call = call_of(ctx)
    assigned = none_or(assignee)
    answer = call.board.create(
        title,
        body=body,
        assignee=assigned,
        priority=priority or 0,
        parents=[_parent(text) for text in parent or ()],
        labels=label or (),
        tenant=tenant,
        max_retries=max_retries,
        max_runtime=seconds(max_runtime),
        workspace=workspace or "scratch",
        goal_max_turns=_turns(goal, goal_max_turns),
        lane="triage" if triage else "work",
        host=none_or(host),
        key=key,
        blocked=blocked,
    )
    if call.out.quiet and not call.out.json:
        call.out.line(answer.task["id"])
    call.answer(answer, notes=call.strangers(assigned), replayed=answer.replayed)


@verb(app)
def edit(
    ctx: typer.Context,
    task: CardId,
    *,
    title: Annotated[str | None, typer.Option(help="The new title.", show_default=False)] = None,
    body: Body = None,
    priority: Priority = None,
    label: Annotated[
        list[str] | None, typer.Option(help="All its labels from now on; none: no label.", show_default=False)
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose card it is, or none.", show_default=False)] = None,
    max_retries: Annotated[
        str | None, typer.Option(metavar="N|none", help="Its own limit of failures.", show_default=False)
    ] = None,
    max_runtime: Annotated[
        str | None, typer.Option(metavar="DURATION|none", help="How long a run may take.", show_default=False)
    ] = None,
    workspace: Workspace = None,
    goal: Annotated[
        bool | None,
        typer.Option("--goal/--no-goal", help="Go on turn by turn until a judge says it is done.", show_default=False),
    ] = None,
    goal_max_turns: MaxTurns = None,
    lane: Annotated[Literal["work", "triage"] | None, typer.Option(help="Where it goes.", show_default=False)] = None,
) -> None:
    """Change a card's fields: only those that are given."""
    call = call_of(ctx)
    given: dict[str, Any] = {"title": title, "body": body, "priority": priority, "workspace": workspace, "lane": lane}
    changes = {name: value for name, value in given.items() if value is not None}
    changes |= {"labels": [each for each in label if each != "none"]} if label else {}
    changes |= {} if tenant is None else {"tenant": none_or(tenant)}
    changes |= {} if max_retries is None else {"max_retries": number(max_retries, "--max-retries")}
    changes |= {} if max_runtime is None else {"max_runtime": seconds(max_runtime)}
    turns = _turns(goal, goal_max_turns)
    changes |= {} if goal is None else {"goal": None if turns is None else {"max_turns": turns}}
    if not changes:
        raise usage("nothing to change: give at least one option")
    call.answer(call.board.edit(task, **changes))


@verb(app)
def assign(
    ctx: typer.Context,
    task: CardId,
    to: Annotated[str, typer.Argument(metavar="NAME|none", help="Who is to do it.", show_default=False)],
    *,
    force: Force = False,
) -> None:
    """Give a card to somebody, or to nobody; in review it changes the reviewer."""
    call = call_of(ctx)
    name = none_or(to)
    call.answer(call.board.assign(task, name, force=force), notes=call.strangers(name))


@verb(app)
def link(
    ctx: typer.Context,
    child: Annotated[str, typer.Argument(help="The card that waits.", show_default=False)],
    parent: Annotated[str, typer.Argument(help="The card that it waits for.", show_default=False)],
    *,
    require: Annotated[Literal["ok", "any"], typer.Option(help="Which outcome of the parent is enough.")] = "ok",
) -> None:
    """Let a card wait for another."""
    call = call_of(ctx)
    call.answer(call.board.link(child, parent, require=require))


@verb(app)
def unlink(
    ctx: typer.Context,
    child: Annotated[str, typer.Argument(help="The card that waits.", show_default=False)],
    parent: Annotated[str, typer.Argument(help="The card that it waits for.", show_default=False)],
) -> None:
    """Let a card wait for another no longer."""
    call = call_of(ctx)
    call.answer(call.board.unlink(child, parent))


@verb(app)
def comment(
    ctx: typer.Context,
    task: CardId,
    text: Annotated[str, typer.Argument(help="What to say.", show_default=False)],
) -> None:
    """Say something on a card, open or closed."""
    call = call_of(ctx)
    call.answer(call.board.comment(task, text))


@verb(app)
def schedule(
    ctx: typer.Context,
    task: CardId,
    when: Annotated[
        list[str],
        typer.Argument(metavar="TIME", help="As 2026-12-24T09:00, tomorrow 09:00 or +2h.", show_default=False),
    ],
    *,
    reason: Reason = None,
    force: Force = False,
) -> None:
    """Park a card until a time; it comes back by itself."""
    from cli.output import zone, zoned
    from cli.times import parse_time, show_local
    from ledger.clock import rfc3339

    call = call_of(ctx)
    with call.board.look() as desk:
        now = desk.now
    at = parse_time(" ".join(when), now, zone())
    notes = [f"understood as {rfc3339(at)}, {zoned(show_local(at, zone()))}"]
    if at <= now:
        notes.append("that is in the past: it can be claimed at once")
    call.answer(call.board.schedule(task, at, reason=reason, force=force), notes=notes, understood=rfc3339(at))


@verb(app)
def archive(
    ctx: typer.Context,
    task: CardId,
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Let open children wait for ever.")] = False,
    unlink: Annotated[bool, typer.Option("--unlink", help="Let open children wait no longer.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Archive what waits only for it, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --cascade: only say what it would do.")] = False,
    force: Force = False,
) -> None:
    """Put a card away; with open children say what becomes of them."""
    call = call_of(ctx)
    chosen = [name for name, given in (("keep", keep), ("unlink", unlink), ("cascade", cascade)) if given]
    if len(chosen) > 1:
        raise usage("--keep, --unlink and --cascade exclude each other")
    if dry_run and not cascade:
        raise usage("--dry-run goes with --cascade")
    children: Any = chosen[0] if chosen else None
    if not dry_run:
        call.answer(call.board.archive(task, children=children, force=force))
        return
    from kanban.commands import Archive

    steps = call.board.foresee(Archive(task, children, force))
    if call.out.json:
        call.out.answer({"dry_run": True, "would": steps})
    else:
        call.out.table(
            ("CARD", "EVENT"), [(step["task"], step["kind"]) for step in steps], empty="nothing would change"
        )


@verb(app)
def reopen(ctx: typer.Context, task: CardId, reason: Reason = None) -> None:
    """Take a done or archived card back into work, its counters from zero."""
    call = call_of(ctx)
    call.answer(call.board.reopen(task, reason=reason))


def _turns(goal: bool | None, asked: int | None) -> int | None:
    """How many turns a goal gets; none: no goal."""
    from projections.goals import turns_of

    if asked is not None and not goal:
        raise usage("--goal-max-turns goes with --goal")
    return turns_of(asked) if goal else None


def _parent(text: str) -> tuple[str, str]:
    task, colon, require = text.partition(":")
    return needed(task or None, "the parent's id"), require if colon else "ok"
