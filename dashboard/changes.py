"""What changed between two positions, in the words of a page: fields from and to, and the events that made them so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ledger.recorded import Recorded
from projections.differences import Change, Difference

MOST_CARDS: Final = 200
"""Cards that one page names; those that moved last come first."""
_FIRST: Final = (
    "status", "outcome", "hold", "assignee", "reviewer", "lane", "run", "failures", "streak", "neutral", "title",
    "priority", "labels", "tenant", "parents", "scheduled", "not_before",
)  # fmt: skip
_OF_NEW: Final = ("status", "assignee", "outcome", "hold", "failures", "streak", "parents")
"""What is told of a card that was not there before."""
_SILENT: Final = frozenset({"spent", "runs_used", "goal", "created_at"})
"""What follows from the rest, and is not told."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field that is another; *before* is none where nothing is to be compared."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A card that changed (*task* empty: the board itself)."""

    task: str
    title: str | None
    is_new: bool
    fields: tuple[Field, ...]
    events: tuple[Recorded, ...]


def changed(found: list[Difference]) -> tuple[list[Changed], int]:
    """The cards that changed, those that moved last first, and how many more there are."""
    latest = sorted(found, key=lambda each: -(each.events[-1].position if each.events else 0))
    return [_changed(each) for each in latest[:MOST_CARDS]], max(len(latest) - MOST_CARDS, 0)


def _changed(found: Difference) -> Changed:
    fields = _new(found.changes) if found.is_new else _moved(found.changes)
    return Changed(found.task, found.title, found.is_new, tuple(fields), tuple(found.events))


def _new(changes: Mapping[str, Change]) -> Iterator[Field]:
    for name in _OF_NEW:
        if name in changes:
            yield Field(_name(name), None, _text(changes[name].after))


def _moved(changes: Mapping[str, Change]) -> Iterator[Field]:
    names = [*(name for name in _FIRST if name in changes), *sorted(changes.keys() - set(_FIRST) - _SILENT)]
    for name in names:
        yield Field(_name(name), _text(changes[name].before), _text(changes[name].after))


def _name(name: str) -> str:
    return name.replace("_", " ")


def _text(value: Any) -> str:
    match value:
        case None | "" | []:
            return "none"
        case bool():
            return "yes" if value else "no"
        case {"cause": str(cause)}:
            counted = "" if value["count"] is None else f" {value['count']} of {value['limit']}"
            return f"{_name(cause)}{counted}"
        case {"scope": str(scope)}:
            return f"{scope} {value['name']}".rstrip()
        case dict():
            return ", ".join(f"{_name(str(key))} {_text(each)}" for key, each in value.items())
        case list():
            return ", ".join(map(_text, value))
        case str() if _is_time(value):
            return f"{moment_of(value)} UTC"
        case _:
            return str(value)


def moment_of(value: str) -> str:
    """An instant as RFC 3339, to the minute."""
    return value[:16].replace("T", " ")


def _is_time(value: str) -> bool:
    return len(value) == len("2026-01-01T00:00:00.000000Z") and value.endswith("Z") and value[10] == "T"
