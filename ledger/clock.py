"""Instants are integers: microseconds since 1970 UTC, read from one clock that is passed in."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], int]
"""Answers the present instant in microseconds UTC."""

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE = _EPOCH.replace(tzinfo=None)  # prints in half the time


def system_clock() -> int:
    """The machine's wall clock in microseconds UTC."""
    return time.time_ns() // 1_000


def rfc3339(at: int) -> str:
    """*at* (microseconds UTC) as RFC 3339 with microseconds and `Z`, as every JSON answer prints it."""
    return (_NAIVE + timedelta(0, 0, at)).isoformat("T", "microseconds") + "Z"


def instant(moment: datetime) -> int:
    """An aware *moment* in microseconds UTC."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def moment(at: int) -> datetime:
    """*at* (microseconds UTC) as an aware UTC datetime."""
    return _EPOCH + timedelta(microseconds=at)


def show_age(seconds: int) -> str:
    """*seconds* rounded down, in at most two units: `45s`, `3m`, `2h05m`, `4d`. Clocks that disagree make it `0s`."""
    minutes, hours = seconds // 60, seconds // 3_600
    if seconds < 60:  # noqa: PLR2004
        return f"{max(seconds, 0)}s"
    if hours == 0:
        return f"{minutes}m"
    return f"{hours}h{minutes % 60:02}m" if hours < 24 else f"{hours // 24}d"  # noqa: PLR2004
