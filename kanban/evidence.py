"""How a worker ended, as every process of the host can read it: record, owner result, trailer or nothing (RULES §6)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from kanban.folders import EXIT_RECORD, LOG, OWNER_RESULT, RESULT, make_private, read_file, replace
from ledger.clock import SECOND, system_clock

Witness = Literal["exit_record", "owner_result", "trailer", "none"]

_SCHEMA: Final = 1
_TAIL: Final = 4_000  # bytes of the log that are read
_LAST_WORDS: Final = 400  # characters
_LAST_LINES: Final = 3
_NEAR: Final = 2 * _LAST_WORDS  # characters in which the last words mostly lie, once secrets are replaced
_FILE_LIMIT: Final = 64 * 1024  # bytes of a record or a result
_REPLY: Final = 2_000  # characters of an owner's last reply that its result keeps
_HIGHEST_CODE, _HIGHEST_SIGNAL = 255, 127

OURS: Final = "[kanban] "
"""How lines begin that what runs a worker's turns writes between them: they are none of its words."""
BEGINS: Final = " begins"
"""How such a line ends where another turn begins: what was said before it was said of a failure that is over."""
_MARK: Final = "[kanban-worker-exit] "
_TRAILER: Final = re.compile(r"\[kanban-worker-exit\] rc=([0-9]{1,9})(?: run=([0-9]{1,18}))?\r?")
_RESET: Final = re.compile(r"\[kanban-worker-exit\] reset=([0-9]{1,11})(?:\.([0-9]{1,9}))?\r?")
# Colours and titles, then what else a terminal would obey, but line ends and tabs.
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]"
)
_FIT: Final = bytes(range(0x20, 0x7F)) + b"\n\t"
_KEY_NAME: Final = r"(?:ledger_lock|passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)"
_KEY_BORDER: Final = "-----"
_JOINS: Final = ("=", ":")
_LEADS_ON: Final = (*_JOINS, "bearer", "c")  # or `basic`, with or without a dot
_PRIVATE_KEY: Final = "[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
# What must stand in the case-folded text for a pattern to match (an i may be dotless there), the pattern, and what
# takes the place of a match: most logs hold no secret, and a pattern takes a hundred times as long as a look for words.
_SECRETS: Final = tuple(
    (words.split(), re.compile(pattern), replacement)
    for words, pattern, replacement in (
        ("-----begin", rf"(?s)-----BEGIN {_PRIVATE_KEY}.*?(?:-----END {_PRIVATE_KEY}|\Z)", "[redacted]"),
        # Its beginning may lie before what was read of the log.
        ("-----end", rf"(?m)(?:^[A-Za-z0-9+/=]{{4,}}\r?\n)*+-----END {_PRIVATE_KEY}", "[redacted]"),
        ("://", r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/]+@", r"\1[redacted]@"),
        (
            "bearer author",
            r"(?i)\b(bearer|authorization:\s*basic)\s+[A-Za-z0-9._~+/-]{8,}=*",
            r"\1 [redacted]",
        ),
        (
            "lock pass secret token key",
            rf"(?i)({_KEY_NAME}[\"']?\s*[=:]\s*)(\"[^\"\n]*\"|'[^'\n]*'|(?!\[redacted\])[^\s,;&\"']+)",
            r"\1[redacted]",
        ),
        ("k- k_", r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}", "[redacted]"),
        (
            "gho_ ghp_ ghu_ ghs_ ghr_ _pat_ glpat-",
            r"\b(?:gh[opusr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,})",
            "[redacted]",
        ),
        ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{8,}", "[redacted]"),
        ("akia asia", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "[redacted]"),
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


class Owned(NamedTuple):
    """What an owner's result must name to bear witness: the card, its run, the hash of its lock, and the owner."""

    task: str
    run: int
    lock_hash: str
    pid: int
    start_tick: int


def read_evidence(folder: Path, run: int, owned: Owned | None = None) -> Evidence:
    """All that *folder* says of *run*; a torn, foreign or newer file is no evidence, and nothing is raised.

    A run whose turns no owner took (*owned* is none) has no owner's result, whatever lies there.
    """
    tail, cut = _tail(f"{folder}/{LOG}")
    marked: list[str] = []
    if _MARK in tail or OURS in tail:
        lines = tail.split("\n")  # nothing else ends a line: \r must not forge a trailer
        marked = [line for line in lines[cut:] if line.startswith(_MARK)]
        tail = _own_words(lines)
    witness, code, signal = _first_witness(folder, marked, run, owned)
    text = _printable(tail)
    return Evidence(witness, code, signal, _reset_asked(marked), _last_words(text), _last_lines(text))


def wants_quota(evidence: Evidence, patterns: Sequence[str]) -> bool:
    """Whether a quota pattern of the claim matches one of the last three lines (RULES §6)."""
    return any(re.search(pattern, line) for pattern in patterns for line in evidence.last_lines)


def own_words(text: str) -> str:
    """What the worker itself says in *text*, in its last turn where it had several: no line of ours, no controls."""
    return _printable(_own_words(text.split("\n")))


def closing_lines(text: str) -> tuple[str, ...]:
    """The last three lines of *text*, a worker's own words, that are not empty, as a quota pattern sees them."""
    return _last_lines(text)


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


def write_owner_result(folder: Path, owned: Owned, code: int, reply: str | None, resets_at: float | None) -> None:
    """Bear witness for the turns of a run that its owner took: whole or not at all, kept over a loss of power."""
    said = {"schema": _SCHEMA, **owned._asdict(), "code": code, "signal": None, "ended_at": system_clock()}
    last = {"reply": None if reply is None else reply[-_REPLY:], "resets_at": resets_at}
    replace(make_private(folder) / OWNER_RESULT, f"{json.dumps(said | last, separators=(',', ':'))}\n".encode())


def owner_result(folder: Path, task: str, run: int, lock_hash: str) -> Mapping[str, Any] | None:
    """What an owner wrote of exactly this run, whichever process that was; none where nothing is whole."""
    said = _json(read_file(f"{folder}/{OWNER_RESULT}", limit=_FILE_LIMIT))
    named = {"task": task, "lock_hash": lock_hash}
    return said if _ended(said, run) is not None and named.items() <= said.items() else None


def redact(text: str) -> str:
    """*text* with what looks like a secret replaced by `[redacted]`."""
    folded = text.casefold()
    for words, pattern, replacement in _SECRETS:
        if any(word in folded for word in words):
            text = pattern.sub(replacement, text)
    return text


def _first_witness(
    folder: Path, lines: Sequence[str], run: int, owned: Owned | None
) -> tuple[Witness, int | None, int | None]:
    if ended := _ended(_json(read_file(f"{folder}/{EXIT_RECORD}", limit=_FILE_LIMIT)), run):
        return ("exit_record", *ended)
    if owned is not None and (ended := _owner_ended(folder, owned)):
        return ("owner_result", *ended)
    code = _trailer_code(lines, run)
    return ("none" if code is None else "trailer", code, None)


def _owner_ended(folder: Path, owned: Owned) -> tuple[int | None, int | None] | None:
    """Code and signal of a result that the owner of the run's turns wrote, and no other process."""
    said = owner_result(folder, owned.task, owned.run, owned.lock_hash)
    if said is None or not all(_within(said.get(name), value, value) for name, value in _process(owned).items()):
        return None
    return _ended(said, owned.run)


def _process(owned: Owned) -> dict[str, int]:
    return {"pid": owned.pid, "start_tick": owned.start_tick}


def _ended(said: Mapping[str, Any], run: int) -> tuple[int | None, int | None] | None:
    """Code and signal of a record that is whole and names *run*."""
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


def _tail(log: str) -> tuple[str, bool]:
    """The log's last 4,000 bytes, and whether something was cut off: then the first line is no whole one.

    Of a log that was cut one byte more is read, so that a line at the border counts as whole.
    """
    try:
        size = os.stat(log).st_size  # noqa: PTH116 – a sweep reads fifty of them at once
    except OSError:
        return "", False
    cut = size > _TAIL
    data = read_file(log, limit=_TAIL + cut, offset=size - _TAIL - 1 if cut else 0)
    return (data or b"").decode(errors="replace"), cut


def _trailer_code(lines: Iterable[str], run: int) -> int | None:
    found = [match for line in lines if (match := _TRAILER.fullmatch(line)) and match[2] in {None, str(run)}]
    return int(found[-1][1]) if found else None


def _reset_asked(lines: Iterable[str]) -> int | None:
    found = [match for line in lines if (match := _RESET.fullmatch(line))]
    if not found:
        return None
    seconds, fraction = found[-1].groups(default="")
    return int(seconds) * SECOND + int(fraction[:6].ljust(6, "0"))


def _own_words(lines: Sequence[str]) -> str:
    """What the worker itself said, in its last turn where it had several."""
    begun = [at for at, line in enumerate(lines, 1) if line.startswith(OURS) and line.endswith(BEGINS)]
    return "\n".join(line for line in lines[begun[-1] if begun else 0 :] if not _is_ours(line))


def _is_ours(line: str) -> bool:
    if line.startswith(_MARK):
        return bool(_TRAILER.fullmatch(line) or _RESET.fullmatch(line))
    return line.startswith(OURS)


def _printable(text: str) -> str:
    if text.isascii():
        fit = not text.encode().translate(None, _FIT)  # in a fifth of the time
    else:
        fit = text.replace("\n", "").replace("\t", "").isprintable()
    if fit:
        return text
    return _CONTROLS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def _last_words(text: str) -> str | None:
    """The end of *text* without secrets; it is read from afar only where what stands near does not say it all."""
    said = redact(text[_near_end(text) :]).strip()
    if len(said) < _LAST_WORDS:
        said = redact(text).strip()
    return said[-_LAST_WORDS:].strip() or None


def _near_end(text: str) -> int:
    """Where the last lines of *text* begin that can be redacted alone: no secret reaches over that place.

    Only a private key holds line ends; what else is a secret can have them around its `=`, or before its last word.
    """
    at = text.find("\n", len(text) - _NEAR) + 1 if len(text) > _NEAR else 0
    leads_on = text[:at].rstrip()[-6:].casefold().endswith(_LEADS_ON)
    return 0 if leads_on or text[at:].lstrip().startswith(_JOINS) or _KEY_BORDER in text else at


def _last_lines(text: str) -> tuple[str, ...]:
    said: list[str] = []
    while len(said) < _LAST_LINES and (text := text.rstrip()):
        text, _, line = text.rpartition("\n")
        said.append(line)
    return tuple(reversed(said))


def _result(path: Path) -> str | None:
    data = read_file(path, limit=_FILE_LIMIT)
    return redact(_printable(data.decode(errors="replace"))).strip() or None if data else None
