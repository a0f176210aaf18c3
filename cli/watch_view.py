"""What the person at `ledger watch` has chosen, and what each key makes of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
_NAMES: Final = {
    **dict.fromkeys(("\x1b[A", "\x1bOA"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB"), "down"),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~"), "home"),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~"), "end"),
    **dict.fromkeys(("\r", "\n"), "enter"),
    **dict.fromkeys(("\x7f", "\x08"), "back"),
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "escape",
}
_LONGEST: Final = 100  # characters of a filter
PAGE: Final = 10
"""Cards that a page key moves by."""
HELP: Final = (
    ("q", "quit"),
    ("f /", "filter by a text in title or id; Enter keeps it, Esc drops it"),
    ("s S", "only cards of the next status, of the one before"),
    ("a A", "only cards of the next assignee, of the one before"),
    ("j k ↓ ↑", "scroll by a card; PgUp PgDn by ten; Home End"),
    ("Esc", "drop all filters"),
    ("p", "pause: read nothing until it is pressed again"),
    ("?", "this help, and back"),
)


@dataclass(frozen=True, slots=True)
class View:
    """What is shown: filters (none: all), how far the list is scrolled, and which way the screen is."""

    status: str | None = None
    assignee: str | None = None
    text: str = ""
    typing: bool = False
    offset: int = 0
    paused: bool = False
    help: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be chosen at the moment: statuses and assignees that there are, and how far the list can be scrolled."""

    statuses: Sequence[str]
    assignees: Sequence[str]
    furthest: int


def keys_of(typed: str) -> Iterator[str]:
    """The keys in *typed*, by name where they have one: `up`, `enter`, `escape`…"""
    for found in _SEQUENCE.findall(typed):
        named = _NAMES.get(found, found)
        if len(named) == 1 or named in _NAMES.values():
            yield named


def pressed(view: View, key: str, there: Choices) -> View:
    """What *key* makes of *view*."""
    if view.typing:
        return _typed(view, key)
    match key:
        case "q":
            return replace(view, over=True)
        case "?":
            return replace(view, help=not view.help)
        case "p":
            return replace(view, paused=not view.paused)
        case "f" | "/":
            return replace(view, typing=True, help=False)
        case "s" | "S":
            return replace(view, status=_next(view.status, there.statuses, key), offset=0)
        case "a" | "A":
            return replace(view, assignee=_next(view.assignee, there.assignees, key), offset=0)
        case "escape":
            return View(paused=view.paused)
        case _:
            return replace(view, offset=_scrolled(view.offset, key, there.furthest))


def _typed(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "escape":
            return replace(view, typing=False, text="", offset=0)
        case "back":
            return replace(view, text=view.text[:-1], offset=0)
        case _ if len(key) == 1 and key.isprintable():
            return replace(view, text=(view.text + key)[:_LONGEST], offset=0)
        case _:
            return view


def _next(chosen: str | None, there: Sequence[str], key: str) -> str | None:
    """The next of all and each of *there*, or with a capital the one before."""
    every = [None, *there]
    place = every.index(chosen) if chosen in every else 0
    return every[(place + (1 if key.islower() else -1)) % len(every)]


def _scrolled(offset: int, key: str, furthest: int) -> int:
    steps = {"j": 1, "down": 1, "k": -1, "up": -1, "page down": PAGE, "page up": -PAGE}
    ends = {"home": 0, "end": furthest}
    return max(0, min(ends.get(key, min(offset, furthest) + steps.get(key, 0)), furthest))
