"""Places in a log as people write them: a position, or a time."""

from __future__ import annotations

import re

from cli.output import zone
from cli.times import parse_time
from ledger.clock import system_clock
from projections.places import Mark


def mark(text: str) -> Mark:
    """The place that *text* means: digits alone are a position, all else is a time. Raises `InvalidInput`."""
    if re.fullmatch("[0-9]{1,18}", text.strip()):
        return Mark(number=int(text))
    return Mark(instant=parse_time(text, system_clock(), zone()))
