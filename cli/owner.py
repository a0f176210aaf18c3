"""`ledger owner`: keeps an agent warm, and takes the turns of an assignee's runs, one after another."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from cli.wiring import call_of, usage, verb

app = typer.Typer()
MOST_AT_ONCE: Final = 256
"""Agents that one owner keeps: more is a slip of the finger."""


@verb(app)
def owner(
    ctx: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The agent: one JSON line in and out for each turn.")
    ],
    *,
    assignee: Annotated[str, typer.Option(help="Whose turns it takes.", show_default=False)],
    at_once: Annotated[
        int,
        typer.Option("--at-once", min=1, max=MOST_AT_ONCE, help="Turns at the same time, each by an agent of its own."),
    ] = 1,
    judge: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Says whether a card's goal is met, as `judge` does.", show_default=False),
    ] = None,
) -> None:
    """Keep an agent warm, and let it take the turns of an assignee's runs until it is told to stop."""
    import logging
    import shlex

    from kanban.worker.carrier import operators_only
    from kanban.worker.owner import Owner
    from kanban.worker.verdict import judge_of
    from kanban.worker.warm import own_environment

    call = call_of(ctx)
    operators_only(call.environ, "owner")
    call.tell(call.strangers(assignee))
    logging.basicConfig(format="%(message)s")
    try:
        words = None if judge is None else shlex.split(judge)
    except ValueError as fault:
        raise usage(f"--judge: {fault}") from None
    judging = None if words is None else judge_of(words, own_environment(call.environ))
    Owner(command, assignee=assignee, home=call.address.home, at_once=at_once, judge=judging).serve()
