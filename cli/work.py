"""Commands on runs and holds: claim and the worker's verbs, and what operators do about them."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

import typer

from cli.errors import CONFLICT
from cli.output import clean, local, zoned
from cli.wiring import LARGEST, Call, CardId, Force, Reason, call_of, card_and_text, needed, text_in, usage, verb
from ledger.errors import InvalidInput

app = typer.Typer()

First = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="The card; a worker may leave it out.", show_default=False)
]
Run = Annotated[
    int | None, typer.Option(min=1, max=LARGEST, help="The run that --lock belongs to.", show_default=False)
]
Lock = Annotated[str | None, typer.Option(help="The run's lock: you are its worker.", show_default=False)]


@verb(app)
def claim(
    ctx: typer.Context,
    task: Annotated[str | None, typer.Argument(metavar="[ID]", help="The card.", show_default=False)] = None,
    *,
    following: Annotated[bool, typer.Option("--next", help="Whichever card comes next.")] = False,
    assignee: Annotated[str | None, typer.Option(help="Only a card of this assignee.", show_default=False)] = None,
    pid: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="The process that does the work.", show_default=False)
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Inside a worker: only say whether its claim still holds (exit 0 or 3).")
    ] = False,
) -> None:
    """Take a card by hand and get its run's lock, the only copy."""
    from ledger.clock import rfc3339

    call = call_of(ctx)
    if check:
        if following or (task, assignee, pid, call.board_name, call.database) != (None,) * 5:
            raise usage("--check goes alone: the worker's environment says which claim")
        _check(call)
        return
    if (task is None) is not following:
        raise usage("name a card, or say --next")
    got = call.board.claim(task, assignee=assignee, pid=pid)
    if call.out.json:
        until = rfc3339(got.lease_until)
        call.out.answer({"task": got.task, "run": got.run, "lock": got.lock, "lease_until": until})
        return
    call.out.table(
        ("CARD", "RUN", zoned("LEASE UNTIL"), "LOCK"), [(got.task, got.run, local(got.lease_until), got.lock)]
    )


@verb(app)
def heartbeat(
    ctx: typer.Context,
    task: First = None,
    *,
    run: Run = None,
    lock: Lock = None,
) -> None:
    """Say that the worker lives: its lease is renewed."""
    call = call_of(ctx)
    call.answer(call.board.heartbeat(task, run=run, lock=lock))


@verb(app)
def progress(
    ctx: typer.Context,
    first: First = None,
    second: Annotated[str | None, typer.Argument(metavar="[NOTE]", help="How it goes.", show_default=False)] = None,
    *,
    tokens: Annotated[
        int | None, typer.Option(min=0, max=10**15, help="Tokens used since it was last said.", show_default=False)
    ] = None,
    cost: Annotated[
        str | None, typer.Option(metavar="X", help="Money used since it was last said.", show_default=False)
    ] = None,
    run: Run = None,
    lock: Lock = None,
) -> None:
    """Say how the work goes, and what it has used."""
    call = call_of(ctx)
    card, note = card_and_text(call, first, second)
    call.answer(call.board.progress(card, note, used=_spent(tokens, cost), run=run, lock=lock))


@verb(app)
def complete(
    ctx: typer.Context,
    first: First = None,
    second: Annotated[
        str | None, typer.Argument(metavar="[SUMMARY]", help="What was done.", show_default=False)
    ] = None,
    *,
    outcome: Annotated[Literal["ok", "fail"], typer.Option(help="How it went.")] = "ok",
    result: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="A file that holds the result; - is stdin.", show_default=False)
    ] = None,
    metadata: Annotated[str | None, typer.Option(metavar="JSON", help="Data for programs.", show_default=False)] = None,
    force: Force = False,
    run: Run = None,
    lock: Lock = None,
) -> None:
    """Finish a card."""
    call = call_of(ctx)
    card, summary = card_and_text(call, first, second)
    answer = call.board.complete(
        card,
        summary,
        outcome=outcome,
        result=None if result is None else text_in(result, "--result"),
        metadata=None if metadata is None else _parsed(metadata),
        force=force,
        run=run,
        lock=lock,
    )
    call.answer(answer)


@verb(app)
def block(
    ctx: typer.Context,
    first: First = None,
    second: Annotated[str | None, typer.Argument(metavar="REASON", help="What is needed.", show_default=False)] = None,
    *,
    kind: Annotated[
        str | None, typer.Option(help="needs_input, dependency, or a word of your own.", show_default=False)
    ] = None,
    force: Force = False,
    run: Run = None,
    lock: Lock = None,
) -> None:
    """Stop a card until a person unblocks it (kind dependency: until its parents are done)."""
    call = call_of(ctx)
    card, reason = card_and_text(call, first, second)
    said = needed(reason, "the reason")
    call.answer(call.board.block(card, said, kind=kind, force=force, run=run, lock=lock))


@verb(app)
def review(
    ctx: typer.Context,
    first: First = None,
    second: Annotated[
        str | None, typer.Argument(metavar="[SUMMARY]", help="What was done.", show_default=False)
    ] = None,
    *,
    reviewer: Annotated[str | None, typer.Option(help="Who is to look at it.", show_default=False)] = None,
    run: Run = None,
    lock: Lock = None,
) -> None:
    """End the run and ask for a review."""
    call = call_of(ctx)
    card, summary = card_and_text(call, first, second)
    answer = call.board.review(card, summary, reviewer=reviewer, run=run, lock=lock)
    call.answer(answer, notes=call.strangers(reviewer))


@verb(app)
def changes(
    ctx: typer.Context,
    first: First = None,
    second: Annotated[str | None, typer.Argument(metavar="REASON", help="What to change.", show_default=False)] = None,
    *,
    run: Run = None,
    lock: Lock = None,
) -> None:
    """Send a card in review back to whoever did it."""
    call = call_of(ctx)
    card, reason = card_and_text(call, first, second)
    call.answer(call.board.changes(card, needed(reason, "the reason"), run=run, lock=lock))


@verb(app)
def unblock(
    ctx: typer.Context,
    tasks: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The cards.", show_default=False)] = None,
    *,
    reason: Reason = None,
    everything: Annotated[bool, typer.Option("--all", help="Every card that --cause holds.")] = False,
    cause: Annotated[
        str | None, typer.Option(help="With --all: what holds them, as violation_budget.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which cards it would unblock.")] = False,
) -> None:
    """Lift the hold or the cooldown of cards, their counters from zero."""
    call = call_of(ctx)
    if everything is (cause is None) or everything is bool(tasks):
        raise usage("name cards, or say --all --cause CAUSE")
    answers = call.board.unblock_many(tasks or (), cause=cause, reason=reason, dry_run=dry_run)
    if len(answers) == 1 and tasks and not dry_run:
        call.answer(answers[0])
    elif call.out.json:
        changed = any(answer.changed for answer in answers)
        cards = [answer.task for answer in answers]
        call.out.answer({"tasks": cards, "changed": changed and not dry_run, "dry_run": dry_run})
    else:
        for answer in answers:
            did = "nothing to lift" if not answer.changed else "would be unblocked" if dry_run else "unblocked"
            call.out.done(f"{answer.task['id']}  {did}  {clean(answer.task['title'])}")
        if not answers:
            call.out.note(f"no card is held by {cause}")


@verb(app)
def stop(
    ctx: typer.Context,
    task: CardId,
    *,
    run: Annotated[
        int | None, typer.Option("--run", min=1, max=LARGEST, help="Only if this run is live.", show_default=False)
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "stopped by an operator",
) -> None:
    """End a card's run, and block the card until a person unblocks it."""
    call = call_of(ctx)
    answer = call.board.stop(task, run=run, reason=reason)
    asked = f"run {answer.task['run']} was asked to stop: the sweep ends it and blocks the card"
    call.answer(answer, notes=() if answer.task["run"] is None else [asked])


@verb(app)
def accept(
    ctx: typer.Context,
    task: CardId,
    run: Annotated[int, typer.Argument(min=1, max=LARGEST, help="The run whose result came late.", show_default=False)],
) -> None:
    """Finish a card with the late result of one of its runs."""
    call = call_of(ctx)
    call.answer(call.board.accept(task, run))


def _check(call: Call) -> None:
    """Say whether the claim of the caller's environment holds; exit 3 where it does not."""
    from kanban.worker.proof import Live, prove_here
    from ledger.clock import rfc3339, system_clock

    carrier, proof = prove_here(call.environ, system_clock())
    if isinstance(proof, Live):
        live, reason, until = True, None, rfc3339(proof.lease_until)
        shown = f"live until {local(proof.lease_until)}"
    else:
        live, reason, until = False, proof.reason, None
        shown = f"lost: {reason}"
        if call.out.verbose and proof.detail:
            call.out.note(f"note: {clean(proof.detail)}")
    task, run = (None, None) if carrier is None else (carrier.task, carrier.run)
    if call.out.json:
        call.out.answer({"live": live, "reason": reason, "task": task, "run": run, "lease_until": until})
    else:
        call.out.line(shown if carrier is None else f"{task}  run {run}  {shown}")
    if not live:
        raise typer.Exit(CONFLICT)


def _spent(tokens: int | None, cost: str | None) -> Any:
    from kanban.commands import Spent

    return None if tokens is None and cost is None else Spent(tokens, None if cost is None else _money(cost))


def _money(text: str) -> Decimal:
    try:
        amount = Decimal(text.strip())
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or not 0 <= amount <= LARGEST or len(text) > 40:  # noqa: PLR2004 – longer is no price
        raise InvalidInput(f"--cost {text!r} is no amount", remedy="give a number, as 0.25")
    return amount


def _parsed(text: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if value - value == 0 else refuse(digits)

    try:
        return json.loads(text, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"--metadata is no JSON: {fault}", remedy="give JSON, as '{\"tests\": 12}'") from None
