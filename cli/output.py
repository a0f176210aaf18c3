"""What is printed: one JSON object for programs, plain lines and tables for people; words about it go to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache
from shutil import get_terminal_size
from typing import Any, Final, TextIO

from cli.times import show_local, zone_name
from ledger.clock import instant, system_clock

SCHEMA: Final = 1
_BOLD, _RED = "1", "31"
_BAR = 30
_ODD: Final = re.compile(r"[\x7f-\x9f\u2028\u2029]")
_PATIENCE = 1.0  # seconds before work is long enough for a progress bar


@dataclass(slots=True)
class Out:
    """How this caller wants its answers. Data goes to stdout, words about it to stderr."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False

    def answer(self, fields: dict[str, Any]) -> None:
        """One JSON object on one line; `schema` comes first."""
        print_json({"schema": SCHEMA, **fields})

    def line(self, text: str = "") -> None:
        """A line of data for people."""
        _write(sys.stdout, f"{text}\n")

    def done(self, text: str) -> None:
        """A line that says what was done: not with --quiet."""
        if not self.quiet:
            self.line(text)

    def note(self, text: str) -> None:
        """A line about the answer, on stderr: not with --quiet."""
        if not self.quiet:
            _write(sys.stderr, f"{text}\n")

    def table(
        self, headings: Sequence[str], rows: Sequence[Sequence[Any]], *, indent: str = "", empty: str = "nothing"
    ) -> None:
        """Columns without borders, cut to the width of a terminal; without rows only the word *empty*, as a note."""
        if not rows:
            self.note(empty)
            return
        heading, *lines = aligned([headings, *rows], headings=1)
        self.line(paint(fit(indent + heading), _BOLD, sys.stdout))
        for line in lines:
            self.line(fit(indent + line))

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None] | None]:
        """A progress bar on stderr: on a terminal only, and once the work has taken a second."""
        if self.quiet or self.json or not sys.stderr.isatty():
            yield None
            return
        bar = _Bar(what, time.monotonic() + _PATIENCE)
        try:
            yield bar.show
        finally:
            bar.clear()


def print_json(value: dict[str, Any]) -> None:
    """*value* on one line; what stdout cannot encode, a terminal obeys or a reader takes for an end is escaped."""
    encoding = (sys.stdout.encoding or "ascii").lower()
    text = json.dumps(value, ensure_ascii=not encoding.startswith("utf"), default=str, allow_nan=False)
    _write(sys.stdout, f"{_ODD.sub(_escaped, text)}\n")


def _escaped(odd: re.Match[str]) -> str:
    return f"\\u{ord(odd[0]):04x}"


def print_error(text: str, remedy: str | None = None) -> None:
    """A fault in words, and what to run next, on stderr."""
    _write(sys.stderr, f"{paint('error:', _RED, sys.stderr)} {text}\n")
    if remedy is not None:
        _write(sys.stderr, f"try: {remedy}\n")


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


class _Bar:
    def __init__(self, what: str, begins: float) -> None:
        self._what, self._begins, self._drawn = what, begins, False

    def show(self, done: int, total: int) -> None:
        if time.monotonic() < self._begins or total < 1:
            return
        full = _BAR * done // total
        _write(sys.stderr, f"\r{self._what} [{'#' * full:<{_BAR}}] {done}/{total}")
        self._drawn = True

    def clear(self) -> None:
        if self._drawn:
            _write(sys.stderr, "\r\x1b[K")


# Text that is safe and fits


def clean(text: object) -> str:
    """*text* on one line and harmless to a terminal: control characters of other people's titles are escaped."""
    line = "" if text is None else " ".join(str(text).split())
    return line if line.isprintable() else "".join(map(_printable, line))


def clean_lines(text: str) -> list[str]:
    """*text* line by line, each harmless to a terminal."""
    return ["".join(map(_printable, line.replace("\t", "    "))) for line in text.splitlines()]


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


def aligned(rows: Sequence[Sequence[Any]], *, headings: int = 0) -> list[str]:
    """*rows* as aligned lines, two spaces between cells; columns that are empty below the headings are left out."""
    cells = [[clean(cell) for cell in row] for row in rows]
    used = [
        number for number, _ in enumerate(cells[0] if cells else ()) if any(row[number] for row in cells[headings:])
    ]
    widths = {number: max(width_of(row[number]) for row in cells) for number in used or [0]}
    return ["  ".join(_padded(row[number], width) for number, width in widths.items()).rstrip() for row in cells]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - width_of(cell))


def width_of(text: str) -> int:
    """How many cells of a terminal *text* takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def fit(line: str) -> str:
    """*line* cut to the width of the terminal; whole where stdout is none."""
    if not sys.stdout.isatty():
        return line
    room = get_terminal_size().columns
    if width_of(line) <= room:
        return line
    taken, cut = 0, 0
    while taken < room - 1 and cut < len(line):
        taken += width_of(line[cut])
        cut += 1
    return line[: cut - (taken > room - 1)] + "…"


def paint(text: str, code: str, stream: TextIO) -> str:
    """*text* in a colour or bold, on a terminal that wants it (NO_COLOR, TERM=dumb)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain else f"\x1b[{code}m{text}\x1b[0m"


# Times


@cache
def zone() -> tzinfo:
    """The caller's time zone: TZ, else the system's, else the offset that is in force now."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    named = os.environ.get("TZ", "").lstrip(":") or os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    try:
        return ZoneInfo(named)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        here = datetime.now().astimezone().tzinfo
        assert here is not None
        return here


def zoned(heading: str) -> str:
    """*heading* of a column of local times, naming the zone."""
    return f"{heading} ({zone_name(system_clock(), zone())})"


def local(at: str | int | None) -> str:
    """An instant (microseconds UTC, or RFC 3339) as a table shows it; blank for none."""
    if at is None:
        return ""
    return show_local(instant(datetime.fromisoformat(at)) if isinstance(at, str) else at, zone())
