"""Times and durations as people write and read them. Pure: the present and the zone are arguments."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from ledger.clock import SECOND, instant, moment
from ledger.errors import InvalidInput

DURATIONS = "90 (seconds), 45s, 5m, 1h30m, 2d or 1w"
TIMES = (
    "2026-12-24T09:00:00Z, 2026-12-24T09:00 (local), 2026-12-24 (local midnight), 09:00 (the next one), "
    "today 18:00, tomorrow 09:00, +1h30m or now"
)
LONGEST = 3650 * 86_400
"""Ten years in seconds: longer durations are slips of the finger."""

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile("".join(f"(?:([0-9]{{1,999}}){unit})?" for unit in _UNITS))
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OF_A_DAY = re.compile(r"(?:(today|tomorrow) +)?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?", re.IGNORECASE)


def parse_duration(text: str, *, allow_zero: bool = False) -> int:
    """*text*, as `90`, `5m` or `1h30m`, in seconds. Raises InvalidInput; for zero too, unless it is allowed."""
    seconds = _seconds(text)
    if isinstance(seconds, str) or (seconds == 0 and not allow_zero):
        why = seconds if isinstance(seconds, str) else "zero makes no sense here"
        raise InvalidInput(f"{_quoted(text)} is no duration: {why}; wanted {DURATIONS}")
    return seconds


def _seconds(text: str) -> int | str:
    """The seconds that *text* means, or why it means none."""
    written = text.strip()
    if not written:
        return "it is empty"
    if re.match("-[0-9]", written):
        return "it is negative"
    parts = _DURATION.fullmatch(f"{written}s" if written.isdigit() else written)
    if parts is None:
        return "it cannot be read"
    seconds = sum(int(count) * unit for count, unit in zip(parts.groups(), _UNITS.values(), strict=True) if count)
    return seconds if seconds <= LONGEST else "it is longer than 10 years"


def parse_time(text: str, now: int, zone: tzinfo) -> int:
    """*text* as microseconds UTC; without an offset it is local time in *zone*. Raises InvalidInput.

    A local time that occurs twice is the first of them; one that a change of the clocks leaves out is as much later
    as the clocks jumped.
    """
    try:
        at = _time(" ".join(text.split()), now, zone)
    except (ValueError, OverflowError):
        at = "there is no such day or hour"
    if isinstance(at, str):
        raise InvalidInput(f"{_quoted(text)} is no time: {at}; wanted {TIMES}")
    return at


def _time(written: str, now: int, zone: tzinfo) -> int | str:
    """The instant that *written* means, or why it means none."""
    if written.lower() == "now":
        return now
    if written.startswith("+"):
        seconds = _seconds(written[1:])
        return now + seconds * SECOND if isinstance(seconds, int) else seconds
    if _DATE.fullmatch(written) or _RFC3339.fullmatch(written):
        return _instant(datetime.fromisoformat(written.upper()), zone)
    if of_a_day := _OF_A_DAY.fullmatch(written):
        day, hour, minute, second = of_a_day.groups()
        return _of_a_day(day, time(int(hour), int(minute), int(second or 0)), now, zone)
    return "it cannot be read"


def _of_a_day(day: str | None, at: time, now: int, zone: tzinfo) -> int:
    today = moment(now).astimezone(zone).date()
    tomorrow = today + timedelta(days=1)
    if day is not None:
        return _instant(datetime.combine(tomorrow if day.lower() == "tomorrow" else today, at), zone)
    soon = _instant(datetime.combine(today, at), zone)
    return soon if soon > now else _instant(datetime.combine(tomorrow, at), zone)


def _instant(written: datetime, zone: tzinfo) -> int:
    return instant(written if written.tzinfo else written.replace(tzinfo=zone))


def show_local(at: int, zone: tzinfo) -> str:
    """*at* (microseconds UTC) as a table shows it, to the second; the zone stands in the table's heading.

    Where the year 10000 has begun in *zone*, which nobody can write, it is shown in UTC.
    """
    try:
        return moment(at).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return moment(at).strftime("%Y-%m-%d %H:%M:%SZ")


def zone_name(at: int, zone: tzinfo) -> str:
    """What a heading calls *zone*: its name in the tz database, else its abbreviation at *at* (microseconds UTC)."""
    key = getattr(zone, "key", None)
    return str(key or moment(at).astimezone(zone).tzname() or UTC)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())
