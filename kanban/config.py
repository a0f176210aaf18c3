"""What the operator wrote: ledger.toml and LEDGER_*, read once, merged key by key, with its origin (DESIGN §5)."""

from __future__ import annotations

import difflib
import json
import os
import pwd
import re
import stat
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from ledger.errors import InvalidInput

FILE = "ledger.toml"
ENVIRONMENT = MappingProxyType(
    {
        "board": "LEDGER_BOARD",
        "database": "LEDGER_DATABASE_URL",
        "actor": "LEDGER_ACTOR",
        "max_running": "LEDGER_MAX_RUNNING",
    }
)
"""The settings that the environment can give, and the variable of each; a blank one counts as unset."""

_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_LARGEST_CAP = 1_000_000
_LARGEST_LOG = 2**40
_LONGEST_NAME = 64
_LONGEST_QUOTE = 60
_REFERENCE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_NO_FLAGS: Mapping[str, str | None] = MappingProxyType({})


class ConfigFault(InvalidInput):
    """The configuration cannot be used. `file` and `line` say where; either is None when no one place is to blame."""

    def __init__(
        self, what: str, *, file: Path | None = None, line: int | None = None, remedy: str | None = None
    ) -> None:
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + what, remedy=remedy)
        self.file = file
        self.line = line


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


# Validators raise ValueError with the rest of a sentence whose subject is the dotted key.


def _assignee_name(name: str) -> str:
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or " " in name or name == "none":
        raise ValueError(
            f"is {_quoted(name)[:80]}, which cannot name an assignee: "
            "wanted 1 to 64 characters without spaces or control characters, other than none"
        )
    return name


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL, which no program can be given")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; wanted a text")
    return _no_nul(text)


def _bytes(value: object) -> object:
    size = re.fullmatch(r"([0-9]{1,12}) ?(B|KiB|MiB|GiB)", value) if isinstance(value, str) else None
    return int(size[1]) * _UNITS[size[2]] if size else value


def _pattern(text: str) -> str:
    try:
        with warnings.catch_warnings(action="ignore"):  # of what Python may read otherwise one day
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as fault:
        raise ValueError(f"is {_quoted(text)}, which is no regular expression: {fault}") from None
    return text


def _words(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command or not command[0].strip():
        raise ValueError("names no program: its first text is the program to start")
    return command


def _variables(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"holds {_quoted(name)}, which cannot name an environment variable")
        if "{env:" in _REFERENCE.sub("", value):
            raise ValueError(f"holds a malformed reference in {name}: wanted {{env:NAME}}")
    return env


_Name = Annotated[str, AfterValidator(_assignee_name)]
_Text = Annotated[str, AfterValidator(_no_nul)]
_Setting = Annotated[str, AfterValidator(_not_blank)]
_Words = Annotated[tuple[_Text, ...], Field(strict=False), AfterValidator(_words)]  # TOML has lists, not tuples
_Patterns = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], Field(strict=False)]
_Variables = Annotated[dict[str, _Text], AfterValidator(_variables)]
_Cap = Annotated[int, Field(ge=1, le=_LARGEST_CAP)]
_Bytes = Annotated[int, Field(ge=1, le=_LARGEST_LOG), BeforeValidator(_bytes)]

_WANTED_WORDS = 'a list of texts, as ["claude", "-p", "{prompt}"]'
_WANTED_CAP = f"a whole number from 1 to {_LARGEST_CAP}"


class Assignee(BaseModel):
    """Who works on a card: a command to start, or a person who is never started. Descriptions say what is wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: _Name = Field(description="a name")
    command: _Words = Field(default=(), description=_WANTED_WORDS)
    on_success: Literal["complete", "review", "violation"] = Field(
        default="violation", description='"complete", "review" or "violation"'
    )
    reviewer: _Name | None = Field(default=None, description="the name of an assignee")
    result: Literal["last-lines", "file:{result_file}", "none"] = Field(
        default="last-lines", description='"last-lines", "file:{result_file}" or "none"'
    )
    quota: _Patterns = Field(default=(), description='a list of regular expressions, as ["(?i)usage limit"]')
    env: _Variables = Field(default={}, description='a table of texts, as { TOKEN = "{env:TOKEN}" }')
    max_running: _Cap | None = Field(default=None, description=_WANTED_CAP)
    resume: _Words | None = Field(default=None, description=_WANTED_WORDS)
    human: bool = Field(default=False, description="true or false")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        given = [field for field in type(self).model_fields if field in self.model_fields_set - {"name", "human"}]
        if self.human and given:
            raise ValueError(f"is human, and a person has no {', '.join(given)}")
        if not self.human and not self.command:
            raise ValueError('has no command: write command = ["program", "{prompt}"], or human = true')
        if self.reviewer is not None and self.on_success != "review":
            raise ValueError('has a reviewer, which means something only with on_success = "review"')
        return self


class Config(BaseModel):
    """Everything an operator can set. None means: not set here. Descriptions say what is wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    board: _Setting | None = Field(default=None, description="a text")
    database: _Setting | None = Field(default=None, description="a text, as sqlite:////path/to/ledger.db")
    actor: _Setting | None = Field(default=None, description="a text")
    max_running: _Cap | None = Field(default=None, description=_WANTED_CAP)
    log_limit: _Bytes = Field(default=20 * 2**20, description='bytes, 1 to 1 TiB, as 20971520 or "20MiB"')
    assignees: dict[str, Assignee] = Field(default={}, description="a table of tables, as [assignees.builder]")


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
    if home := _given(environ, "LEDGER_HOME"):
        return Path(home).absolute()
    data = Path(_given(environ, "XDG_DATA_HOME") or "")
    if not data.is_absolute():  # the XDG specification: a relative path is ignored
        data = Path(_given(environ, "HOME") or _home_of_user()).absolute() / ".local" / "share"
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
    texts = dict(_private_files(explicit, environ, cwd, home))
    here, skipped = cwd / FILE, None
    if not any(_same(here, path) for path in texts):
        text, reason = _text_here(here, environ)
        skipped = (here, reason) if reason is not None else None
        texts |= {here: text} if text is not None else {}
    files = {path: _parsed(path, text) for path, text in texts.items()}
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

    return {name: _REFERENCE.sub(value, text) for name, text in assignee.env.items()}


def values(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Every setting by dotted name, `{"value", "origin"}`, fit to print: secrets are masked."""
    shown = {name: getattr(loaded.config, name) for name in Config.model_fields if name != "assignees"}
    shown["database"] = _masked(loaded.config.database)
    for assignee in loaded.config.assignees.values():
        for field in ("human",) if assignee.human else _ASSIGNEE_KEYS:
            shown[_dotted(("assignees", assignee.name, field))] = _shown(field, getattr(assignee, field))
    return {name: {"value": value, "origin": loaded.origins[name]} for name, value in shown.items()}


_ASSIGNEE_KEYS = tuple(field for field in Assignee.model_fields if field != "name")


def _shown(field: str, value: Any) -> Any:
    if field == "env":
        return {name: text if _REFERENCE.fullmatch(text) else "***" for name, text in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _masked(database: str | None) -> str | None:
    if database is None:
        return None
    from ledger.database import masked

    try:
        return masked(database)
    except ValueError:  # a port that is no number: no URL, and what is secret in it cannot be told
        return "***"


# Where settings come from


def _given(environ: Mapping[str, str], name: str) -> str | None:
    value = environ.get(name, "")
    return value if value.strip() else None


def _from_environ(environ: Mapping[str, str]) -> dict[str, tuple[object, str]]:
    given = {field: (_given(environ, name), name) for field, name in ENVIRONMENT.items()}
    return {
        field: (_cap(name, value) if field == "max_running" else value, name)
        for field, (value, name) in given.items()
        if value is not None
    }


def _cap(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", value.strip()) or not 1 <= int(value) <= _LARGEST_CAP:
        raise ConfigFault(f"{name} is {_found(value)}; wanted {_WANTED_CAP}")
    return int(value)


def _from_flags(flags: Mapping[str, str | None]) -> dict[str, tuple[object, str]]:
    given = {field: value for field, value in flags.items() if value is not None}
    for field, value in given.items():
        try:
            _not_blank(value)
        except ValueError as fault:
            raise ConfigFault(f"--{field} {fault}") from None
    return {field: (value, f"--{field}") for field, value in given.items()}


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
        for field in _ASSIGNEE_KEYS:
            origin = str(givers[name]) if field in assignee.model_fields_set else "default"
            origins[_dotted(("assignees", name, field))] = origin
    return Loaded(
        config=Config(**{field: value for field, (value, _) in chosen.items()}, assignees=assignees),
        origins=origins,
        files=tuple(files),
        assignee_files=tuple(path for path in files if path in givers.values()),
        skipped=skipped,
    )


# Files


def _private_files(
    explicit: Path | None, environ: Mapping[str, str], cwd: Path, home: Path
) -> Iterator[tuple[Path, str]]:
    named = explicit or _given(environ, "LEDGER_CONFIG")
    stronger = cwd / named if named else None
    if stronger:
        text = _text(stronger)
        if text is None:
            raise ConfigFault(
                f"no such file, but {'--config' if explicit else 'LEDGER_CONFIG'} names it", file=stronger
            )
        yield stronger, text
    kept = home / FILE
    if not (stronger and _same(stronger, kept)) and (text := _text(kept)) is not None:
        yield kept, text


def _text(path: Path) -> str | None:
    try:
        return _decoded(path, path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise ConfigFault(f"cannot be read: {fault.strerror}", file=path) from None


def _text_here(path: Path, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The text of ./ledger.toml, or why it is not read: it defines commands, and anybody may have put it there."""
    try:
        link = path.lstat()
        if _given(environ, "LEDGER_TASK"):
            return None, "inside a worker (LEDGER_TASK is set)"
        if link.st_uid != os.geteuid():
            return None, "another user owns it"
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as fault:
        return None, f"it cannot be looked at: {fault.strerror}"
    return _text_opened(path)


def _text_opened(path: Path) -> tuple[str | None, str | None]:
    """As _text_here. What was opened is judged, not what the name stood for a moment before."""
    try:
        with open(path, "rb", opener=_without_waiting) as opened:
            reason = _distrust(os.fstat(opened.fileno()))
            return (None, reason) if reason else (_decoded(path, opened.read()), None)
    except FileNotFoundError:  # a dangling link
        return None, "it is a link to nothing"
    except OSError as fault:
        raise ConfigFault(f"cannot be read: {fault.strerror}", file=path) from None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe would wait for its writer


def _distrust(found: os.stat_result) -> str | None:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid != os.geteuid():
        return "another user owns it"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "it is group- or world-writable"
    return None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _decoded(path: Path, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise ConfigFault("is not UTF-8 text", file=path, line=line) from None


def _parsed(path: Path, text: str) -> Config:
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ConfigFault("is nested too deeply", file=path) from None
    except ValueError as fault:
        raise _syntax_fault(path, text, str(fault)) from None
    try:
        return Config.model_validate(_named(path, text, document))
    except ValidationError as invalid:
        faults = [_fault(path, text, error) for error in invalid.errors(include_url=False)]
        raise min(faults, key=lambda fault: fault.line or 0) from None


def _named(path: Path, text: str, document: dict[str, Any]) -> dict[str, Any]:
    """*document* with each assignee's key as its `name`, which is no key of the file."""
    assignees = document.get("assignees")
    if not isinstance(assignees, dict):
        return document
    for name, table in assignees.items():
        if isinstance(table, dict) and "name" in table:
            raise _unknown(path, text, ("assignees", name, "name"))
    named = {name: {"name": name, **table} if isinstance(table, dict) else table for name, table in assignees.items()}
    return {**document, "assignees": named}


# Faults in words


def _syntax_fault(path: Path, text: str, said: str) -> ConfigFault:
    place = re.search(r"at line ([0-9]+), (?=column)", said)
    line = int(place[1]) if place else text.rstrip().count("\n") + 1  # "at end of document"
    return ConfigFault(f"not TOML: {said.replace(place[0], '') if place else said}", file=path, line=line)


def _fault(path: Path, text: str, error: ErrorDetails) -> ConfigFault:
    location = error["loc"]
    if error["type"] == "extra_forbidden":
        return _unknown(path, text, tuple(map(str, location)))
    if location[0] == "assignees" and location[-1] == "name":
        location = location[:-1]
    if error["type"] == "value_error":
        said = str(error["ctx"]["error"])
    else:
        secret = "env" in location[2:3] or location[0] == "database"
        said = f"is {_found(error['input'], secret=secret)}; wanted {_wanted(location)}"
    return ConfigFault(f"{_dotted(location)} {said}", file=path, line=_line(text, location))


def _unknown(path: Path, text: str, location: tuple[str, ...]) -> ConfigFault:
    *table, key = location
    known = _ASSIGNEE_KEYS if table else tuple(Config.model_fields)
    near = difflib.get_close_matches(key, known, n=1)
    place = f" in [{_dotted(table)}]" if table else ""
    hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(sorted(known))}"
    return ConfigFault(f"unknown key {_quoted(key)}{place}; {hint}", file=path, line=_line(text, location))


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


def _found(value: object, *, secret: bool = False) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return "a list"
        case dict():
            return "a table"
        case str() if not secret:
            text = _quoted(value)
            return text if len(text) <= _LONGEST_QUOTE else f'{text[:_LONGEST_QUOTE]}…"'
        case str():
            return "a text"
        case int() | float():
            return "a number" if secret else str(value)
        case _:
            return "a date or time"


def _dotted(location: tuple[int | str, ...] | list[str]) -> str:
    """*location* as one would write it in the file: `assignees.builder.command[1]`."""
    dotted = ""
    for part in location:
        if isinstance(part, int):
            dotted += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            dotted += ("." if dotted else "") + (part if bare else _quoted(part))
    return dotted


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


TEMPLATE = """\
# Settings of kanban-ledger. Everything here is commented out: remove the # in front of a setting to use it.
# Stronger than this file are flags, LEDGER_* variables and a file named by --config or LEDGER_CONFIG.
# What is in force, and where it came from: ledger config show --origin

# The board that commands speak about.
#board = "default"

# The store. Without this line it is ledger.db beside this file.
#database = "sqlite:////path/to/ledger.db"

# Whose name stands on what you do.
#actor = "dana"

# How many workers this host runs at once, over all its boards. Without this line there is no cap.
#max_running = 4

# How much of a run's output is kept, beside its first MiB.
#log_limit = "20MiB"

# An assignee is a command. {prompt} {prompt_file} {task} {title} {run} {workspace} {result_file} are filled in.
# on_success: what exit 0 means when the worker did not say: complete, review or violation (the default).
# quota: patterns on the last lines of the log that mean that a usage limit was reached.
# result: what becomes the summary: last-lines (the default), file:{result_file} or none.
# env: what the worker's environment holds beside PATH, HOME, LANG, TMPDIR and TERM; {env:NAME} is read when it starts.
#[assignees.claude]
#command = ["claude", "-p", "{prompt}"]
#on_success = "complete"
#result = "last-lines"
#quota = ["^You.ve hit your .*limit", "(?i)usage limit reached"]
#env = { ANTHROPIC_API_KEY = "{env:ANTHROPIC_API_KEY}" }
#max_running = 2

#[assignees.codex]
#command = ["codex", "exec", "--skip-git-repo-check", "{prompt}"]
#on_success = "review"
#reviewer = "dana"
#result = "last-lines"
#quota = ["(?i)you.ve hit your usage limit"]

# A person: never started; cards wait for them.
#[assignees.dana]
#human = true
"""
"""The ledger.toml of a new home. `#` and a space open prose, `#` alone a setting that can be un-commented."""
