"""Reading configuration files: which are trusted, which are not there, and what they say."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from kanban.config_faults import fault_of, syntax_fault, unknown_key
from kanban.config_models import Config, ConfigFault
from kanban.worker.carrier import is_worker

FILE = "ledger.toml"
LARGEST = 2**20
"""Bytes: a larger file would take minutes to parse."""


def given(environ: Mapping[str, str], name: str) -> str | None:
    """A variable's value; a blank one counts as unset."""
    value = environ.get(name, "")
    return value if value.strip() else None


# Files


def private_files(
    explicit: Path | None, environ: Mapping[str, str], cwd: Path, home: Path
) -> Iterator[tuple[Path, str]]:
    """The files that are the operator's own, the stronger first: the named one, then the home's."""
    named = explicit or given(environ, "LEDGER_CONFIG")
    stronger = cwd / named if named else None
    if stronger:
        text = _text(stronger)
        if text is None:
            raise ConfigFault(
                f"no such file, but {'--config' if explicit else 'LEDGER_CONFIG'} names it", file=stronger
            )
        yield stronger, text
    kept = home / FILE
    if not (stronger and same(stronger, kept)) and (text := _text(kept)) is not None:
        yield kept, text


def _text(path: Path) -> str | None:
    try:
        with open(path, "rb", opener=_without_waiting) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise ConfigFault("cannot be read: it is not a regular file", file=path)
            return _decoded(path, _bytes_of(path, opened))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise ConfigFault(f"cannot be read: {fault.strerror}", file=path) from None


def text_here(path: Path, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The text of ./ledger.toml, or why it is not read: it defines commands, and anybody may have put it there."""
    try:
        link = path.lstat()
        if is_worker(environ):
            return None, "inside a worker (LEDGER_TASK is set)"
        if link.st_uid != os.geteuid():
            return None, "another user owns it"
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as fault:
        return None, f"it cannot be looked at: {fault.strerror}"
    return _text_opened(path)


def _text_opened(path: Path) -> tuple[str | None, str | None]:
    """As text_here. What was opened is judged, not what the name stood for a moment before."""
    try:
        with open(path, "rb", opener=_without_waiting) as opened:
            reason = _distrust(os.fstat(opened.fileno()))
            return (None, reason) if reason else (_decoded(path, _bytes_of(path, opened)), None)
    except FileNotFoundError:  # a dangling link
        return None, "it is a link to nothing"
    except OSError as fault:
        raise ConfigFault(f"cannot be read: {fault.strerror}", file=path) from None


def _bytes_of(path: Path, opened: BinaryIO) -> bytes:
    raw = opened.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise ConfigFault(f"is larger than {LARGEST // 2**20} MiB: that is no settings file", file=path)
    return raw


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


def same(one: Path, other: Path) -> bool:
    """Whether both names stand for one file."""
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


def parsed(path: Path, text: str) -> Config:
    """The settings of one file. Raises `ConfigFault` with the first line that is wrong."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ConfigFault("is nested too deeply", file=path) from None
    except ValueError as fault:
        raise syntax_fault(path, text, str(fault)) from None
    try:
        return Config.model_validate(_named(path, text, document))
    except ValidationError as invalid:
        faults = [fault_of(path, text, error) for error in invalid.errors(include_url=False)]
        raise min(faults, key=lambda fault: fault.line or 0) from None


def _named(path: Path, text: str, document: dict[str, Any]) -> dict[str, Any]:
    """*document* with each assignee's key as its `name`, which is no key of the file."""
    assignees = document.get("assignees")
    if not isinstance(assignees, dict):
        return document
    for name, table in assignees.items():
        if isinstance(table, dict) and "name" in table:
            raise unknown_key(path, text, ("assignees", name, "name"))
    named = {name: {"name": name, **table} if isinstance(table, dict) else table for name, table in assignees.items()}
    return {**document, "assignees": named}
