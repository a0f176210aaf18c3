"""The flow of a board for people: what was done, how long it took, how many runs, what it cost; with a picture."""

from __future__ import annotations

from typing import Any, Final

from cli.output import Out, local, zoned
from cli.picture import bar, line
from ledger.clock import show_age

_DAYS: Final = 14
_MARKS: Final = {"p50": "half within", "p85": "85 % within", "p95": "95 % within", "max": "the longest"}


def shown(out: Out, flow: dict[str, Any]) -> None:
    """The figures of one stretch of the log."""
    between = flow["between"]
    if between["from"] is None:
        out.note("\nno event in that stretch of the log")
        return
    out.line(f"\n{zoned('from')} {local(between['from'])} to {local(between['to'])}, positions {_places(between)}")
    out.line(f"  {_counts(flow)}")
    for name in ("cycle_time", "lead_time"):
        if flow[name]["count"]:
            out.line(f"  {name.replace('_', ' ')} of {flow[name]['count']} cards: {_ranks(flow[name])}")
    _days(out, flow["days"])
    _runs(out, flow["runs_per_completion"]["distribution"])
    _table(out, "assignee", "assignee", flow["assignees"])
    _table(out, "dearest cards", "task", flow["dearest"])


def _places(between: dict[str, Any]) -> str:
    return f"{between['from_position']}–{between['to_position']}"


def _counts(flow: dict[str, Any]) -> str:
    used = flow["usage"]
    parts = [f"{flow['completed']} completed", f"{flow['failed']} failed", f"{flow['created']} created"]
    parts.append(f"{flow['runs']} runs started, {used['runs']} ended")
    parts += [f"{used['tokens']} tokens"] if used["tokens"] is not None else []
    parts += [f"cost {used['cost']}"] if used["cost"] is not None else []
    parts += [f"{used['runs_without_usage']} did not say all that they used"] if used["runs_without_usage"] else []
    return "; ".join(parts)


def _ranks(ranked: dict[str, Any]) -> str:
    return ", ".join(f"{told} {show_age(ranked[name])}" for name, told in _MARKS.items())


def _days(out: Out, days: list[dict[str, Any]]) -> None:
    """The last days as rows, and all of them as one line."""
    if not days:
        return
    done = [day["completed"] for day in days]
    if len(days) > _DAYS:
        out.line(f"\ncompleted a day, {days[0]['day']} to {days[-1]['day']}: {line(done)}")
    most = max(done)
    headings = ("DAY (UTC)", "DONE", "FAILED", "CREATED", "RUNS", "TOKENS", "COST", "")
    rows = [
        (day["day"], day["completed"], day["failed"] or "", day["created"], day["claimed"], day["tokens"], day["cost"],
         bar(day["completed"], most))
        for day in days[-_DAYS:]
    ]  # fmt: skip
    out.line()
    out.table(headings, rows)


def _runs(out: Out, distribution: dict[str, int]) -> None:
    if not distribution:
        return
    most = max(distribution.values())
    out.line("\nruns until a card was completed")
    rows = [(runs, cards, bar(cards, most)) for runs, cards in distribution.items()]
    out.table(("RUNS", "CARDS", ""), rows, indent="  ")


def _table(out: Out, title: str, name: str, found: list[dict[str, Any]]) -> None:
    if not found:
        return
    out.line(f"\n{title}")
    headings = (name.upper(), "DONE", "RUNS", "RUN TIME", "TOKENS", "COST", "RUNS WITHOUT USAGE")
    rows = [
        (each[name], each.get("completed"), each["runs"], show_age(each["seconds"] or 0), each["tokens"], each["cost"],
         each["runs_without_usage"] or "")
        for each in found
    ]  # fmt: skip
    out.table(headings, rows, indent="  ")
