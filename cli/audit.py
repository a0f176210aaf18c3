"""`ledger audit`: boards of other systems under our light. It needs no store, and writes nothing anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.errors import DIVERGENCE, OK
from cli.output import Out, clean
from cli.wiring import call_of, usage, verb
from kanban.findings import counted

if TYPE_CHECKING:
    from kanban.foreign.audit import Audit
    from kanban.foreign.findings import Finding
    from kanban.foreign.ours import Difference

_NAMED = 4
app = typer.Typer(help="Audit the board of another system.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _group(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        if call_of(ctx).out.json:
            raise usage("which system?")
        typer.echo(ctx.get_help())


@verb(app)
def hermes(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Its kanban.db.", show_default=False)],
) -> None:
    """Fold a hermes board by its own rules and by ours: where it does not say what happened, and what that cost."""
    from kanban.foreign.audit import audit

    call = call_of(ctx)
    with call.out.progress("auditing") as progress:
        found = audit(path, progress=progress)
    if call.out.json:
        call.out.answer(found.as_json())
    else:
        _show(call.out, found)
        call.tell(found.notes)
    raise typer.Exit(DIVERGENCE if found.findings else OK)


def _show(out: Out, found: Audit) -> None:
    for same in _alike(found.findings):
        _section(out, same)
    if found.ours:
        out.line("what our rules would have done")
        headings = ("CARD", "SURE", "HELD AT", "BY", "NOT STARTED", "KNOWN UP TO", "THEN")
        out.table(headings, _rows(found.ours), indent="  ")
        out.line()
    out.line(_summary(found))


def _summary(found: Audit) -> str:
    totals = found.totals
    size = ", ".join(
        counted(number, what) for number, what in ((found.tasks, "card"), (found.runs, "run"), (found.events, "event"))
    )
    if not found.findings:
        return f"{clean(found.board)}: {size}; no finding"
    where = f"{counted(len(found.findings), 'finding')} on {counted(totals['tasks'], 'card')}"
    cost = f"they cost {counted(totals['runs_cost'], 'run')}"
    ours = f"ours would not have started {totals['runs_not_started_by_ours']}"
    return f"{clean(found.board)}: {size}; {where}; {cost}; {ours}"


def _section(out: Out, same: Sequence[Finding]) -> None:
    law = same[0].law
    out.line(f"{same[0].kind}: {len(same)}")
    out.line(f"  rule ({law.of}): {law.text}")
    out.line(f"  ours: {law.ours}")
    rows = [
        (
            each.task,
            str(each.sure),
            len(each.runs) or "",
            _places(each.events),
            each.text,
            each.ours or each.because,
        )
        for each in same
    ]
    out.table(("CARD", "SURE", "RUNS", "EVENTS", "WHAT", "OURS, OR WHY NOT SURE"), rows, indent="  ")
    out.line()


def _places(events: Sequence[int]) -> str:
    """The events that are named, the middle of many left out."""
    if len(events) <= _NAMED:
        return ", ".join(map(str, events))
    return f"{events[0]}, {events[1]}, … {events[-1]} ({len(events)})"


def _rows(ours: Sequence[Difference]) -> list[tuple[object, ...]]:
    return [
        (
            each.task,
            str(each.sure),
            each.at,
            each.cause if each.limit is None else f"{each.cause} {each.count} of {each.limit}",
            counted(len(each.runs), "run"),
            each.known_until,
            "done all the same" if each.finished else "",
        )
        for each in ours
    ]


def _alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """*findings* by kind and rule, the kinds in the order in which they are explained."""
    from kanban.foreign.findings import RULES

    groups: dict[tuple[int, str], list[Finding]] = {}
    for each in findings:
        groups.setdefault((list(RULES).index(each.kind), each.law.text), []).append(each)
    return [groups[key] for key in sorted(groups)]
