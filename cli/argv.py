"""The words of a command line before they are parsed: global options may stand anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cli.errors import UsageError

WITH_VALUE: Final = ("--board", "--database", "--config", "--actor")
SWITCHES: Final = ("--json", "--quiet", "--verbose")


def hoist(argv: Sequence[str]) -> list[str]:
    """*argv* with the global options in front, in their order; what follows `--` stays where it is.

    Raises a usage error for one that lacks its value.
    """
    front: list[str] = []
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, _ = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif word in SWITCHES or (equals and name in WITH_VALUE):
            front.append(word)
        elif word in WITH_VALUE:
            front += [word, _value(word, words)]
        else:
            rest.append(word)
    return front + rest


def first_word(hoisted: Iterable[str]) -> str | None:
    """The first of the *hoisted* words that is no global option: the command, where the line is right."""
    words = iter(hoisted)
    for word in words:
        if word in WITH_VALUE:
            next(words, None)
        elif word not in SWITCHES and word.partition("=")[0] not in WITH_VALUE:
            return word
    return None


def asks_for(switch: str, argv: Iterable[str]) -> bool:
    """Whether *switch* stands before any `--`: known before the line is parsed, so that usage errors heed it."""
    for word in argv:
        if word == "--":
            return False
        if word == switch:
            return True
    return False


def _value(option: str, words: Iterable[str]) -> str:
    for word in words:
        if not word.startswith("--"):
            return word
        break
    raise UsageError(f"{option} needs a value")
