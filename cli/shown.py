"""Answers for people: cards, boards, reasons, runs and events in words and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from cli.output import Out, aligned, clean, clean_lines, fit, local, zoned
from ledger.clock import show_age

if TYPE_CHECKING:
    from ledger.recorded import Recorded


REDACTED: Final = "(redacted)"


def tasks(out: Out, found: Sequence[dict[str, Any]]) -> None:
    """Cards, one a line."""
    headings = ("CARD", "STATUS", "ASSIGNEE", "PRI", "NOTE", "TITLE")
    rows = [(t["id"], t["status"], _worker(t), t["priority"] or "", _short(t), titled(t)) for t in found]
    out.table(headings, rows, empty="no such card")


def columns(out: Out, found: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """The board: one section a status that has cards."""
    for status, cards in found.items():
        if not cards:
            continue
        out.line(status)
        rows = [(card["id"], titled(card), _worker(card), card["priority"] or "", _short(card)) for card in cards]
        for line in aligned(rows):
            out.line(fit(f"  {line}"))
    if not any(found.values()):
        out.note("no open card: ledger create TITLE")


def card(out: Out, found: dict[str, Any]) -> None:
    """One card whole."""
    task = found["task"]
    out.line(f"{task['id']}  {clean(titled(task))}")
    _fields(out, task)
    for line in clean_lines(task["body"] or ""):
        out.line(f"  {line}")
    _section(out, "waits for", ("CARD", "STATUS", "OUTCOME", "REQUIRES"), _relatives(found["parents"]))
    _section(out, "waited for by", ("CARD", "STATUS", "OUTCOME", "REQUIRES"), _relatives(found["children"]))
    if found["runs"]:
        out.line("\nruns")
        runs(out, found["runs"], indent="  ")
    for comment in found["comments"]:
        out.line(f"\n{clean(comment['actor']['name'])} said, {local(comment['at'])}:")
        for line in clean_lines(comment["body"] or REDACTED):
            out.line(f"  {line}")
    rows = [
        (e["position"], local(e["at"]), e["kind"], e["run"], e["outcome"], e["actor"]["name"]) for e in found["events"]
    ]
    _section(out, "events", ("POSITION", zoned("AT"), "KIND", "RUN", "OUTCOME", "BY"), rows)


def why(out: Out, found: dict[str, Any]) -> None:
    """The reasons and their rules, the events that prove them, the way to what must happen first, what to run next."""
    out.line(f"{found['task']} is {found['status']}")
    for ground in found["because"]:
        out.line(f"  - {_ground(ground)}")
    for proof in found["proof"]:
        if proof["events"]:
            rests = ", ".join(map(_placed, proof["events"]))
            out.line(fit(f"  - proof of {proof['about']}: {rests}   RULES {proof['rule']}: {proof['clause']}"))
    for step in found["chain"][1:]:
        out.line(f"  → {step['task']} is {step['status']}: {_ground(step)}")
    if found["also"]:
        others = ", ".join(f"{other['task']} ({other['status']})" for other in found["also"][:_OTHERS])
        more = len(found["also"]) - _OTHERS
        out.line(f"  it also waits for {others}{f' and {more} more' if more > 0 else ''}")
    if found["try"]:
        out.line(f"  try: {found['try']}")


_OTHERS = 5


def _ground(ground: dict[str, Any]) -> str:
    places = ", ".join(map(str, ground["positions"]))
    rests = f"   positions {places}" if places else ""
    return f"{clean(ground['text'])}   RULES {ground['rule']}{rests}"


def _placed(event: dict[str, Any]) -> str:
    outcome = f" {event['outcome']}" if event["outcome"] else ""
    return f"{event['position']} {event['kind']}{outcome}"


def runs(out: Out, found: Sequence[dict[str, Any]], *, indent: str = "") -> None:
    """Runs, one a line, and below each what it said last."""
    headings = ("RUN", "WORKER", zoned("CLAIMED"), "ENDED", "OUTCOME", "CODE", "EVIDENCE", "USED", "SAID")
    rows = [
        (
            run["run"],
            run["assignee"],
            local(run["claimed_at"]),
            local(run["ended_at"]),
            run["outcome"] or ("ended" if run["ended_at"] else "running"),
            _code(run),
            run["evidence"],
            _used(run["usage"]),
            run["summary"] or run["last_words"],
        )
        for run in found
    ]
    out.table(headings, rows, indent=indent, empty="no run yet")


def stats(out: Out, found: dict[str, Any]) -> None:
    """The board in numbers."""
    counted = [(status, count) for status, count in found["by_status"].items() if count]
    out.table(("STATUS", "CARDS"), counted, empty="no card yet")
    since = f", the oldest since {local(found['oldest_ready_at'])}" if found["oldest_ready_at"] else ""
    out.line(f"\nlive runs: {found['live']}; claimable now: {found['claimable']}{since}; position {found['position']}")
    rows = [(sweep["host"], local(sweep["ticked_at"]), sweep["errors"]) for sweep in found["sweeps"]]
    _section(out, "sweeps", ("HOST", zoned("LAST TICK"), "ERRORS"), rows)


def events(out: Out, found: Iterable[Recorded]) -> None:
    """The log, one event a line, printed as it comes."""
    headings = ("POSITION", zoned("AT"), "CARD", "KIND", "RUN", "OUTCOME", "BY", "WORDS")
    widths = (8, max(19, len(headings[1])), 14, 17, 3, 12, 12, 0)
    out.line(_row(headings, widths))
    for event in found:
        place = (event.position, local(event.at), event.task, event.kind)
        out.line(fit(_row((*place, event.run, event.outcome, event.actor_name, _said(event)), widths)))


def titled(task: Mapping[str, Any]) -> str:
    """The title of a card, which every card has; once its words are gone, that they are."""
    return REDACTED if task["title"] is None else str(task["title"])


def _row(cells: Sequence[Any], widths: Sequence[int]) -> str:
    return "  ".join(clean(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _fields(out: Out, task: dict[str, Any]) -> None:
    hold = task["hold"]
    shown = {
        "status": task["status"] + (f" ({_hold(hold)})" if hold else ""),
        "reason": hold["reason"] if hold else None,
        "assignee": task["assignee"],
        "reviewer": task["reviewer"],
        "lane": task["lane"],
        "priority": task["priority"] or None,
        "labels": ", ".join(task["labels"]),
        "tenant": task["tenant"],
        "outcome": task["outcome"],
        "counters": _counters(task) or None,
        "own limits": _limits(task),
        "goal": f"goes on until a judge agrees, {task['goal_max_turns']} turns a run at most" if task["goal"] else None,
        "host": task["host"],
        "workspace": task["workspace"],
        zoned("parked until"): local(task["scheduled"]),
        zoned("not before"): local(task["not_before"]),
        zoned("created"): local(task["created_at"]),
        zoned("updated"): local(task["updated_at"]),
    }
    for line in aligned([pair for pair in shown.items() if pair[1]]):
        out.line(fit(f"  {line}"))


def _section(out: Out, title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        out.line(f"\n{title}")
        out.table(headings, rows, indent="  ")


def _relatives(found: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["task"], each["status"] or "unknown", each["outcome"], each["require"]) for each in found]


def _worker(task: dict[str, Any]) -> Any:
    return task["reviewer"] or task["assignee"] if task["lane"] == "review" else task["assignee"]


def _short(task: dict[str, Any]) -> str:
    """Run, counters and hold of a card in a few words."""
    parts = [f"run {task['run']}" if task["run"] else "", _counters(task)]
    if task["hold"]:
        parts.append(f"[{task['hold']['cause']}]")
    elif task["outcome"] == "fail":
        parts.append("[fail]")
    return "  ".join(part for part in parts if part)


def _counters(task: dict[str, Any]) -> str:
    return "  ".join(f"{name} {task[name]}" for name in ("failures", "streak", "neutral") if task[name])


def _hold(hold: dict[str, Any]) -> str:
    counted = f" {hold['count']} of {hold['limit']} ({hold['limit_source']} limit)" if hold["count"] is not None else ""
    kind = f" {hold['kind']}" if hold["kind"] else ""
    lifts = "until a person unblocks it" if hold["sticky"] else "until a limit is raised or somebody else has it"
    return f"{hold['cause']}{kind}{counted}, {lifts}"


def _limits(task: dict[str, Any]) -> str:
    retries = f"max_retries {task['max_retries']}" if task["max_retries"] is not None else ""
    runtime = f"max_runtime {show_age(task['max_runtime'])}" if task["max_runtime"] is not None else ""
    return ", ".join(part for part in (retries, runtime) if part)


def _code(run: dict[str, Any]) -> str:
    return f"signal {run['signal']}" if run["signal"] else "" if run["code"] is None else str(run["code"])


def _used(usage: dict[str, Any] | None) -> str:
    if usage is None:
        return ""
    tokens = f"{usage['tokens']} tokens" if usage["tokens"] is not None else ""
    cost = f"cost {usage['cost']}" if usage["cost"] is not None else ""
    return ", ".join(part for part in (tokens, cost) if part)


def _said(event: Recorded) -> str:
    if event.words_text is None:
        return REDACTED
    return " · ".join(str(value) for value in event.words.values() if value not in (None, "", {}))
