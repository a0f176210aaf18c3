"""What an examination finds: which check, how bad, in words, and the command that mends it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_NAMED: Final = 5


class Level(StrEnum):
    """How bad a finding is; only an error says that something is broken now."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of one check. *try_* is what to run next; none where nothing is to be done."""

    check: str
    level: Level
    text: str
    try_: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """The object that `ledger doctor --json` prints."""
        return {"check": self.check, "level": str(self.level), "text": self.text, "try": self.try_}


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, text)


def info(check: str, text: str, try_: str | None = None) -> Finding:
    """Nothing is wrong, but somebody may want to know."""
    return Finding(check, Level.INFO, text, try_)


def warning(check: str, text: str, try_: str) -> Finding:
    """It works, and will not for ever."""
    return Finding(check, Level.WARNING, text, try_)


def error(check: str, text: str, try_: str | None) -> Finding:
    """It is broken, or may break what cannot be mended."""
    return Finding(check, Level.ERROR, text, try_)


def listed(names: Sequence[str]) -> str:
    """*names*, the first of them by name and the others by number."""
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def counted(number: int, one: str) -> str:
    """`1 card`, `2 cards`."""
    return f"{number} {one}{'' if number == 1 else 's'}"


def short(findings: Iterable[Finding], *, most: int) -> list[Finding]:
    """At most *most* findings, the worst of the left out standing for the rest."""
    found = list(findings)
    if len(found) <= most:
        return found
    rest = sorted(found[most:], key=lambda each: -list(Level).index(each.level))
    last = rest[0]
    return [*found[:most], Finding(last.check, last.level, f"and {len(rest)} more, such as: {last.text}", last.try_)]
