"""What an operator can set, as frozen models: descriptions say what is wanted, validators why something is not it."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ledger.errors import InvalidInput

_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
LARGEST_CAP = 1_000_000
_LARGEST_LOG = 2**40
_LONGEST_NAME = 64
REFERENCE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class ConfigFault(InvalidInput):
    """The configuration cannot be used. `file` and `line` say where; either is None when no one place is to blame."""

    def __init__(
        self, what: str, *, file: Path | None = None, line: int | None = None, remedy: str | None = None
    ) -> None:
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + what, remedy=remedy)
        self.file = file
        self.line = line


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


# Validators raise ValueError with the rest of a sentence whose subject is the dotted key.


def _assignee_name(name: str) -> str:
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or " " in name or name == "none":
        raise ValueError(
            f"is {quoted(name)[:80]}, which cannot name an assignee: "
            "wanted 1 to 64 characters without spaces or control characters, other than none"
        )
    return name


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL, which no program can be given")
    return text


def not_blank(text: str) -> str:
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
        raise ValueError(f"is {quoted(text)}, which is no regular expression: {fault}") from None
    return text


def _words(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command or not command[0].strip():
        raise ValueError("names no program: its first text is the program to start")
    return command


def _hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("names no host: leave it out where every host may start it")
    for name in names:
        if not name or not name.isprintable() or " " in name:
            raise ValueError(f"holds {quoted(name)[:80]}, which is no host's id and no node name")
    return names


def _variables(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"holds {quoted(name)}, which cannot name an environment variable")
        if "{env:" in REFERENCE.sub("", value):
            raise ValueError(f"holds a malformed reference in {name}: wanted {{env:NAME}}")
    return env


_Name = Annotated[str, AfterValidator(_assignee_name)]
_Text = Annotated[str, AfterValidator(_no_nul)]
_Setting = Annotated[str, AfterValidator(not_blank)]
_Words = Annotated[tuple[_Text, ...], Field(strict=False), AfterValidator(_words)]  # TOML has lists, not tuples
_Patterns = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], Field(strict=False)]
_Hosts = Annotated[tuple[str, ...], Field(strict=False), AfterValidator(_hosts)]
_Variables = Annotated[dict[str, _Text], AfterValidator(_variables)]
_Cap = Annotated[int, Field(ge=1, le=LARGEST_CAP)]
_Bytes = Annotated[int, Field(ge=1, le=_LARGEST_LOG), BeforeValidator(_bytes)]

_WANTED_WORDS = 'a list of texts, as ["claude", "-p", "{prompt}"]'
WANTED_CAP = f"a whole number from 1 to {LARGEST_CAP}"


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
    resume: _Words = Field(default=(), description='a list of texts, as ["claude", "--continue", "-p", "{prompt}"]')
    retry: _Patterns = Field(default=(), description='a list of regular expressions, as ["(?i)overloaded"]')
    judge: _Words = Field(default=(), description='a list of texts, as ["python3", "/srv/agents/judge.py"]')
    env: _Variables = Field(default={}, description='a table of texts, as { TOKEN = "{env:TOKEN}" }')
    max_running: _Cap | None = Field(default=None, description=WANTED_CAP)
    hosts: _Hosts = Field(default=(), description='a list of host ids or node names, as ["gpu1", "gpu2"]')
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
        if self.resume and not any("{prompt}" in word for word in self.resume):
            raise ValueError("has a resume without {prompt}, so the agent would not be told how to go on")
        if self.retry and not self.resume:
            raise ValueError('has retry, which means something only with resume = ["program", "{prompt}"]')
        if self.judge and not self.resume:
            raise ValueError('has a judge, which means something only with resume = ["program", "{prompt}"]')
        return self


class Config(BaseModel):
    """Everything an operator can set. None means: not set here. Descriptions say what is wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    board: _Setting | None = Field(default=None, description="a text")
    database: _Setting | None = Field(
        default=None, description="a text, as sqlite:////path/to/ledger.db or postgresql+psycopg://USER@HOST/NAME"
    )
    worker_database: _Setting | None = Field(
        default=None, description="a text, as postgresql+psycopg://worker@db.example/ledger"
    )
    actor: _Setting | None = Field(default=None, description="a text")
    max_running: _Cap | None = Field(default=None, description=WANTED_CAP)
    log_limit: _Bytes = Field(default=20 * 2**20, description='bytes, 1 to 1 TiB, as 20971520 or "20MiB"')
    assignees: dict[str, Assignee] = Field(default={}, description="a table of tables, as [assignees.builder]")


ASSIGNEE_KEYS = tuple(field for field in Assignee.model_fields if field != "name")
