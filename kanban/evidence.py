"""How a worker ended, as every process of the host can read it: record, owner result, trailer or nothing (RULES §6)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from kanban.folders import EXIT_RECORD, LOG, OWNER_RESULT, RESULT, make_private, read_file, replace
from ledger.clock import SECOND, system_clock

Witness = Literal["exit_record", "owner_result", "trailer", "none"]

_SCHEMA: Final = 1
_TAIL: Final = 4_000  # bytes of the log that are read
_LAST_WORDS: Final = 400  # characters
_LAST_LINES: Final = 3
_FILE_LIMIT: Final = 64 * 1024  # bytes of a record or a result
_HIGHEST_CODE, _HIGHEST_SIGNAL = 255, 127

_TRAILER: Final = re.compile(r"\[kanban-worker-exit\] rc=([0-9]{1,9})(?: run=([0-9]{1,18}))?\r?")
_RESET: Final = re.compile(r"\[kanban-worker-exit\] reset=([0-9]{1,11})(?:\.([0-9]{1,9}))?\r?")
# Colours and titles, then what else a terminal would obey, but line ends and tabs.
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]"
)
_KEY_NAME: Final = r"(?:ledger_lock|passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)"
_PRIVATE_KEY: Final = "[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_SECRETS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"(?s)-----BEGIN {_PRIVATE_KEY}.*?(?:-----END {_PRIVATE_KEY}|\Z)", "[redacted]"),
        # Its beginning may lie before what was read of the log.
        (rf"(?m)(?:^[A-Za-z0-9+/=]{{4,}}\r?\n)*+-----END {_PRIVATE_KEY}", "[redacted]"),
        (r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/]+@", r"\1[redacted]@"),
        (r"(?i)\b(bearer|authorization:\s*basic)\s+[A-Za-z0-9._~+/-]{8,}=*", r"\1 [redacted]"),
        (rf"(?i)({_KEY_NAME}[\"']?\s*[=:]\s*)(\"[^\"\n]*\"|'[^'\n]*'|(?!\[redacted\])[^\s,;&\"']+)", r"\1[redacted]"),
        (r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}", "[redacted]"),
        (r"\b(?:gh[opusr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,})", "[redacted]"),
        (r"\bxox[abeoprs]-[A-Za-z0-9-]{8,}", "[redacted]"),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "[redacted]"),
    )
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of how a worker ended: the first witness that names this run, and its own output's end.

    *code* and *signal* exclude each other, and are both none without a witness; *reset_asked* is in µs.
    """

    witness: Witness
    code: int | None
    signal: int | None
    reset_asked: int | None
    last_words: str | None
    last_lines: tuple[str, ...]


NO_EVIDENCE: Final = Evidence("none", None, None, None, None, ())


def read_evidence(folder: Path, run: int) -> Evidence:
    """All that *folder* says of *run*; a torn, foreign or newer file is no evidence, and nothing is raised."""
    partial, lines = _tail(folder / LOG)
    witness, code, signal = _first_witness(folder, lines, run)
    own = [line for line in (*partial, *lines) if not _is_trailer(line)]
    text = _printable("\n".join(own))
    return Evidence(witness, code, signal, _reset_asked(lines), _last_words(text), _last_lines(text))


def wants_quota(evidence: Evidence, patterns: Sequence[str]) -> bool:
    """Whether a quota pattern of the claim matches one of the last three lines (RULES §6)."""
    return any(re.search(pattern, line) for pattern in patterns for line in evidence.last_lines)


def summary_of(folder: Path, evidence: Evidence, how: str) -> str | None:
    """The summary for `on_success`: *how* is the assignee's `result`, `last-lines`, `file…` or `none`."""
    match how.partition(":")[0]:
        case "last-lines":
            return evidence.last_words
        case "file":
            return _result(folder / RESULT)
        case _:
            return None


def write_exit_record(folder: Path, task: str, run: int, code: int) -> None:
    """Bear witness for a supervisor that could not be started (RULES §6: the claimer writes 127)."""
    said = {"schema": _SCHEMA, "task": task, "run": run, "code": code, "signal": None, "ended_at": system_clock()}
    replace(make_private(folder) / EXIT_RECORD, f"{json.dumps(said, separators=(',', ':'))}\n".encode())


def redact(text: str) -> str:
    """*text* with what looks like a secret replaced by `[redacted]`."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _first_witness(folder: Path, lines: Sequence[str], run: int) -> tuple[Witness, int | None, int | None]:
    if ended := _record(folder / EXIT_RECORD, run):
        return ("exit_record", *ended)
    if ended := _record(folder / OWNER_RESULT, run):
        return ("owner_result", *ended)
    code = _trailer_code(lines, run)
    return ("none" if code is None else "trailer", code, None)


def _record(path: Path, run: int) -> tuple[int | None, int | None] | None:
    """Code and signal of a record that is whole and names *run*."""
    said = _json(read_file(path, limit=_FILE_LIMIT))
    if said.get("schema") != _SCHEMA or not _within(said.get("run"), run, run):
        return None
    code, signal = said.get("code"), said.get("signal")
    if signal is None:
        return (code, None) if _within(code, 0, _HIGHEST_CODE) else None
    return (None, signal) if code is None and _within(signal, 1, _HIGHEST_SIGNAL) else None


def _json(data: bytes | None) -> dict[str, Any]:
    try:
        said = json.loads(data or b"")
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _within(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _tail(log: Path) -> tuple[list[str], list[str]]:
    """The line that the cut left a part of, if any, and the whole lines of the log's last 4,000 bytes."""
    data, cut = _last_bytes(log)
    lines = data.decode(errors="replace").split("\n")  # nothing else ends a line: \r must not forge a trailer
    return ([lines[0]], lines[1:]) if cut else ([], lines)


def _last_bytes(log: Path) -> tuple[bytes, bool]:
    """The tail and whether it was cut; then it begins one byte early, so that a line at the border counts as whole."""
    try:
        size = log.stat().st_size
    except OSError:
        return b"", False
    if size <= _TAIL:
        return read_file(log, limit=_TAIL) or b"", False
    return read_file(log, limit=_TAIL + 1, offset=size - _TAIL - 1) or b"", True


def _trailer_code(lines: Iterable[str], run: int) -> int | None:
    found = [match for line in lines if (match := _TRAILER.fullmatch(line)) and match[2] in {None, str(run)}]
    return int(found[-1][1]) if found else None


def _reset_asked(lines: Iterable[str]) -> int | None:
    found = [match for line in lines if (match := _RESET.fullmatch(line))]
    if not found:
        return None
    seconds, fraction = found[-1].groups(default="")
    return int(seconds) * SECOND + int(fraction[:6].ljust(6, "0"))


def _is_trailer(line: str) -> bool:
    return bool(_TRAILER.fullmatch(line) or _RESET.fullmatch(line))


def _printable(text: str) -> str:
    return _CONTROLS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def _last_words(text: str) -> str | None:
    return redact(text).strip()[-_LAST_WORDS:].strip() or None


def _last_lines(text: str) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in text.split("\n") if line.strip())[-_LAST_LINES:]


def _result(path: Path) -> str | None:
    data = read_file(path, limit=_FILE_LIMIT)
    return redact(_printable(data.decode(errors="replace"))).strip() or None if data else None
