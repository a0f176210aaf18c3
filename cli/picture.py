"""Pictures of plain characters: bars of a table, and a line of them for a row of days."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
_LETTERS: Final = "_-=+*#"


def bar(value: float, most: float, width: int = 20) -> str:
    """A bar as long beside *width* as *value* beside *most*: to an eighth of a character; nothing is no bar."""
    if value <= 0 or most <= 0:
        return ""
    eighths = max(round(min(value / most, 1) * width * 8), 1)
    if not _draws():
        return "#" * max(eighths // 8, 1)
    return (_EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def line(values: Sequence[float]) -> str:
    """One character for each of *values*, as high as it is beside the largest; a dot for nothing."""
    most = max(values, default=0)
    nothing, heights = ("·", _HEIGHTS) if _draws() else (".", _LETTERS)
    return "".join(nothing if value <= 0 else heights[round(value / most * (len(heights) - 1))] for value in values)


def _draws() -> bool:
    """Whether stdout takes these characters."""
    return (sys.stdout.encoding or "ascii").lower().startswith("utf")
