"""Faults of a configuration file in words: file, line, what was found and what is wanted."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from kanban.config_models import ASSIGNEE_KEYS, Assignee, Config, ConfigFault, quoted

_LONGEST_QUOTE = 60


# Faults in words


def syntax_fault(path: Path, text: str, said: str) -> ConfigFault:
    """What the TOML parser said, with its line in front."""
    place = re.search(r"at line ([0-9]+), (?=column)", said)
    line = int(place[1]) if place else text.rstrip().count("\n") + 1  # "at end of document"
    return ConfigFault(f"not TOML: {said.replace(place[0], '') if place else said}", file=path, line=line)


def fault_of(path: Path, text: str, error: ErrorDetails) -> ConfigFault:
    """What Pydantic found, in words, with the line that says it."""
    location = error["loc"]
    if error["type"] == "extra_forbidden":
        return unknown_key(path, text, tuple(map(str, location)))
    if location[0] == "assignees" and location[-1] == "name":
        location = location[:-1]
    if error["type"] == "value_error":
        said = str(error["ctx"]["error"])
    else:
        secret = "env" in location[2:3] or location[0] in {"database", "worker_database"}
        said = f"is {found_value(error['input'], secret=secret)}; wanted {_wanted(location)}"
    return ConfigFault(f"{dotted_name(location)} {said}", file=path, line=_line(text, location))


def unknown_key(path: Path, text: str, location: tuple[str, ...]) -> ConfigFault:
    """A key that means nothing, and the nearest one that does."""
    *table, key = location
    known = ASSIGNEE_KEYS if table else tuple(Config.model_fields)
    near = difflib.get_close_matches(key, known, n=1)
    place = f" in [{dotted_name(table)}]" if table else ""
    hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(sorted(known))}"
    return ConfigFault(f"unknown key {quoted(key)}{place}; {hint}", file=path, line=_line(text, location))


def _wanted(location: tuple[int | str, ...]) -> str:
    match location:
        case (str(field),):
            return str(Config.model_fields[field].description)
        case ("assignees", _):
            return "a table, as [assignees.builder]"
        case ("assignees", _, str(field)):
            return str(Assignee.model_fields[field].description)
        case _:
            return "a text"


def found_value(value: object, *, secret: bool = False) -> str:
    """What was found, in words; a secret by its kind alone."""
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return "a list"
        case dict():
            return "a table"
        case str() if not secret:
            text = quoted(value)
            return text if len(text) <= _LONGEST_QUOTE else f'{text[:_LONGEST_QUOTE]}…"'
        case str():
            return "a text"
        case int() | float():
            return "a number" if secret else str(value)
        case _:
            return "a date or time"


def dotted_name(location: tuple[int | str, ...] | list[str]) -> str:
    """*location* as one would write it in the file: `assignees.builder.command[1]`."""
    name = ""
    for part in location:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            name += ("." if name else "") + (part if bare else quoted(part))
    return name


def _line(text: str, location: tuple[int | str, ...]) -> int | None:
    """The line whose statement first writes *location*: each statement is parsed alone, under its table's header."""
    path = [part for part in location if isinstance(part, str)]
    header, statement, start = "", "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        statement += line + "\n"
        try:
            found = tomllib.loads(header + statement)
        except ValueError:  # it goes on: a list or a text of several lines
            continue
        if _holds(found, path):
            return start
        if statement.lstrip().startswith("["):
            header = statement
        statement, start = "", number + 1
    return None


def _holds(found: Any, path: list[str]) -> bool:
    for part in path:
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return True
