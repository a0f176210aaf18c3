"""What the operator wrote: ledger.toml and LEDGER_*, read once, merged key by key, with its origin ."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kanban.config_faults import dotted_name, found_value
from kanban.config_files import FILE, given, parsed, private_files, same, text_here
from kanban.config_models import (
    ASSIGNEE_KEYS,
    LARGEST_CAP,
    REFERENCE,
    WANTED_CAP,
    Assignee,
    Config,
    ConfigFault,
    not_blank,
)
from kanban.config_template import TEMPLATE

__all__ = [
    "ENVIRONMENT",
    "FILE",
    "TEMPLATE",
    "Assignee",
    "Config",
    "ConfigFault",
    "Loaded",
    "home_of",
    "load",
    "resolve_env",
    "values",
]

ENVIRONMENT = MappingProxyType(
    {
        "board": "LEDGER_BOARD",
        "database": "LEDGER_DATABASE_URL",
        "worker_database": "LEDGER_WORKER_DATABASE_URL",
        "actor": "LEDGER_ACTOR",
        "max_running": "LEDGER_MAX_RUNNING",
    }
)
"""The settings that the environment can give, and the variable of each; a blank one counts as unset."""

_NO_FLAGS: Mapping[str, str | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force and where each came from.

    `origins` maps a dotted name to "default", a path, a variable or a flag. `files` are the files read, the highest
    first, `assignee_files` those of them that gave an assignee in force. `skipped` is the ./ledger.toml that is there
    and was not read, with the reason.
    """

    config: Config
    origins: dict[str, str]
    files: tuple[Path, ...]
    assignee_files: tuple[Path, ...]
    skipped: tuple[Path, str] | None

    @property
    def assignee_file(self) -> Path | None:
        """The highest file that gave an assignee in force; None when nothing did."""
        return self.assignee_files[0] if self.assignee_files else None


def home_of(environ: Mapping[str, str]) -> Path:
    """Where this user's ledger lives. Absolute, and perhaps not there yet."""
    if home := given(environ, "LEDGER_HOME"):
        return Path(home).absolute()
    data = Path(given(environ, "XDG_DATA_HOME") or "")
    if not data.is_absolute():  # the XDG specification: a relative path is ignored
        data = Path(given(environ, "HOME") or _home_of_user()).absolute() / ".local" / "share"
    return data / "kanban-ledger"


def _home_of_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's made-up user
        raise ConfigFault("no home folder: HOME is not set", remedy="export LEDGER_HOME=/path/to/folder") from None


def load(
    explicit: Path | None,
    environ: Mapping[str, str],
    cwd: Path,
    home: Path,
    *,
    flags: Mapping[str, str | None] = _NO_FLAGS,
) -> Loaded:
    """The settings in force: *flags* > LEDGER_* > *explicit* or LEDGER_CONFIG > home > ./ledger.toml > defaults.

    *explicit* is the file that --config names. *flags* holds settings by name (board, database, actor); None is not
    given. Raises ConfigFault.
    """
    texts = dict(private_files(explicit, environ, cwd, home))
    here, skipped = cwd / FILE, None
    if not any(same(here, path) for path in texts):
        text, reason = text_here(here, environ)
        skipped = (here, reason) if reason is not None else None
        texts |= {here: text} if text is not None else {}
    files = {path: parsed(path, text) for path, text in texts.items()}
    return _merged(files, skipped, {**_from_environ(environ), **_from_flags(flags)})


def resolve_env(assignee: Assignee, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that *assignee* adds to a worker's environment, its `{env:NAME}` references read from *environ*."""

    def value(reference: re.Match[str]) -> str:
        if (found := environ.get(reference[1])) is None:
            raise ConfigFault(
                f"assignee {assignee.name} needs the environment variable {reference[1]}, which is not set",
                remedy=f"export {reference[1]}=… where ledger sweep runs",
            )
        return found

    return {name: REFERENCE.sub(value, text) for name, text in assignee.env.items()}


def values(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Every setting by dotted name, `{"value", "origin"}`, fit to print: secrets are masked."""
    from ledger.database import masked

    shown = {name: getattr(loaded.config, name) for name in Config.model_fields if name != "assignees"}
    for name in ("database", "worker_database"):
        shown[name] = None if shown[name] is None else masked(shown[name])
    for assignee in loaded.config.assignees.values():
        for field in ("human",) if assignee.human else ASSIGNEE_KEYS:
            shown[dotted_name(("assignees", assignee.name, field))] = _shown(field, getattr(assignee, field))
    return {name: {"value": value, "origin": loaded.origins[name]} for name, value in shown.items()}


def _shown(field: str, value: Any) -> Any:
    if field == "env":
        return {name: text if REFERENCE.fullmatch(text) else "***" for name, text in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _from_environ(environ: Mapping[str, str]) -> dict[str, tuple[object, str]]:
    found = {field: (given(environ, name), name) for field, name in ENVIRONMENT.items()}
    return {
        field: (_cap(name, value) if field == "max_running" else value, name)
        for field, (value, name) in found.items()
        if value is not None
    }


def _cap(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", value.strip()) or not 1 <= int(value) <= LARGEST_CAP:
        raise ConfigFault(f"{name} is {found_value(value)}; wanted {WANTED_CAP}")
    return int(value)


def _from_flags(flags: Mapping[str, str | None]) -> dict[str, tuple[object, str]]:
    told = {field: value for field, value in flags.items() if value is not None}
    for field, value in told.items():
        try:
            not_blank(value)
        except ValueError as fault:
            raise ConfigFault(f"--{field} {fault}") from None
    return {field: (value, f"--{field}") for field, value in told.items()}


def _merged(
    files: dict[Path, Config], skipped: tuple[Path, str] | None, overriding: dict[str, tuple[object, str]]
) -> Loaded:
    chosen: dict[str, tuple[Any, str]] = {}
    givers: dict[str, Path] = {}
    assignees: dict[str, Assignee] = {}
    for path, config in reversed(files.items()):
        chosen |= {field: (getattr(config, field), str(path)) for field in config.model_fields_set - {"assignees"}}
        assignees |= config.assignees
        givers |= dict.fromkeys(config.assignees, path)
    chosen |= overriding
    origins = {field: chosen[field][1] if field in chosen else "default" for field in Config.model_fields}
    del origins["assignees"]
    for name, assignee in assignees.items():
        for field in ASSIGNEE_KEYS:
            origin = str(givers[name]) if field in assignee.model_fields_set else "default"
            origins[dotted_name(("assignees", name, field))] = origin
    return Loaded(
        config=Config(**{field: value for field, (value, _) in chosen.items()}, assignees=assignees),
        origins=origins,
        files=tuple(files),
        assignee_files=tuple(path for path in files if path in givers.values()),
        skipped=skipped,
    )
