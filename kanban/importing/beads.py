"""`ledger import beads`: the issues that beads keeps as JSON lines, as cards of ours. The file is only read.

Only a link of type `blocks` makes an issue wait there, so only that one makes a card wait here; the others are told in
the note that the card begins with.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from kanban.findings import counted
from kanban.foreign.tables import number
from kanban.importing.origin import Done, Held, Origin, Remark, Skipped, Source, plain, text, told
from ledger.errors import StoreFault
from ledger.recorded import parsed

_CARRIED: Final = frozenset({"id", "title", "comments"})
_PARTS: Final = (("design", "Design"), ("acceptance_criteria", "Acceptance criteria"), ("notes", "Notes"))
_USUAL: Final = 2
"""The priority there of what nobody gave one; 0 is the most urgent. Ours of such a card is 0, and larger goes first."""
Issue = dict[str, Any]


class NoIssue(StoreFault):
    """A line, or the whole file, is no issue of beads; nothing was imported."""

    def __init__(self, name: str, found: str) -> None:
        super().__init__(f"{name}: {found}", remedy="name what bd export wrote, often .beads/issues.jsonl")


def read_beads_at(path: Path) -> Source:
    """The issues in the file at *path*. Raises `NoIssue`."""
    try:
        lines = path.read_bytes().split(b"\n")
    except (OSError, ValueError) as fault:
        raise NoIssue(str(path), getattr(fault, "strerror", None) or str(fault)) from None
    return read_beads(str(path), lines)


def read_beads(name: str, lines: Iterable[bytes]) -> Source:
    """The issues in *lines*, which are of the file *name*. Raises `NoIssue`, and names the line."""
    issues = [_issue(name, place, line) for place, line in enumerate(lines, start=1) if line.strip()]
    if not issues:
        raise NoIssue(name, "there is no issue in it")
    gone = [Skipped(str(each["id"]), "it is deleted there") for each in issues if each.get("status") == "tombstone"]
    cards = tuple(_card(each) for each in issues if each.get("status") != "tombstone")
    return Source("beads", name, cards, tuple(gone), tuple(_notes(issues)))


def _issue(name: str, place: int, line: bytes) -> Issue:
    try:
        found = plain(parsed(line.decode("utf-8")))
    except (ValueError, RecursionError):
        raise NoIssue(name, f"line {place} is no JSON") from None
    if not isinstance(found, dict):
        raise NoIssue(name, f"line {place} is no JSON object")
    if not isinstance(found.get("id"), str) or not isinstance(found.get("title"), str):
        has = ", ".join(map(str, list(found)[:5])) or "nothing"
        raise NoIssue(name, f"line {place} has no id or no title; it has {has}")
    return found


def _card(issue: Issue) -> Origin:
    status = text(issue.get("status")) or "open"
    return Origin(
        id=issue["id"],
        title=issue["title"],
        created_at=text(issue.get("created_at")),
        body=_body(issue),
        assignee=text(issue.get("assignee")),
        priority=_priority(issue),
        parents=tuple(_blocking(issue)),
        labels=tuple(each for each in _list(issue, "labels") if isinstance(each, str)),
        end=_end(issue, status),
        released=status in {"in_progress", "hooked"},
        remarks=tuple(_remark(each) for each in _rows(issue, "comments")),
        said=told(issue, but=_CARRIED),
    )


def _body(issue: Issue) -> str | None:
    parts = [text(issue.get("description"))]
    parts += [f"## {title}\n\n{part}" for name, title in _PARTS if (part := text(issue.get(name))) is not None]
    return "\n\n".join(part for part in parts if part is not None) or None


def _priority(issue: Issue) -> int:
    found = number(issue.get("priority"))
    return 0 if found is None else _USUAL - found


def _end(issue: Issue, status: str) -> Done | Held | None:
    match status:
        case "closed":
            return Done(text(issue.get("close_reason")))
        case "open" | "in_progress" | "hooked":
            return None
        case "blocked":
            return Held()
        case _:
            return Held(f"its status in beads is {status}", status)


def _blocking(issue: Issue) -> Iterable[str]:
    for link in _links(issue):
        if link["type"] == "blocks":
            yield link["depends_on_id"]


def _links(issue: Issue) -> Iterable[dict[str, str]]:
    """Its links to other issues, each with a type."""
    for link in _rows(issue, "dependencies"):
        to = link.get("depends_on_id")
        if isinstance(to, str) and link.get("issue_id", issue["id"]) == issue["id"]:
            yield {"depends_on_id": to, "type": text(link.get("type")) or "blocks"}


def _remark(row: dict[str, Any]) -> Remark:
    return Remark(text(row.get("author")), text(row.get("created_at")), text(row.get("text")) or "")


def _rows(issue: Issue, name: str) -> list[dict[str, Any]]:
    return [each for each in _list(issue, name) if isinstance(each, dict)]


def _list(issue: Issue, name: str) -> list[Any]:
    found = issue.get(name)
    return found if isinstance(found, list) else []


def _notes(issues: Iterable[Issue]) -> Iterable[str]:
    others = sum(link["type"] != "blocks" for issue in issues for link in _links(issue))
    if others:
        yield f"{counted(others, 'link')} of other types than blocks hold nothing back there: told in the cards' notes"
