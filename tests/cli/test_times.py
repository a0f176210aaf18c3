"""Times and durations: what is accepted, what it means in UTC, what a refusal names."""

import contextlib
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.times import DURATIONS, LONGEST, TIMES, parse_duration, parse_time, show_local, zone_name
from ledger.clock import SECOND, instant, rfc3339, show_age
from ledger.errors import InvalidInput

BERLIN = ZoneInfo("Europe/Berlin")
NOW = instant(datetime(2026, 7, 1, 12, 0, tzinfo=BERLIN))
HOUR = 3_600 * SECOND


def berlin(*parts: int, fold: int = 0) -> int:
    return instant(datetime(*parts, tzinfo=BERLIN, fold=fold))


def understood(text: str, *, now: int = NOW) -> str:
    """What *text* means in Berlin, as UTC."""
    return rfc3339(parse_time(text, now, BERLIN))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("45s", 45),
        ("5m", 300),
        ("1h30m", 5_400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1w2d3h4m5s", 788_645),
        (" 5m ", 300),
        ("3650d", LONGEST),
    ],
)
def test_a_duration_is_a_count_of_seconds(text, seconds):
    """Every accepted form, in seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("-5m", "it is negative"),
        ("-1", "it is negative"),
        ("0", "zero makes no sense here"),
        ("0h0m", "zero makes no sense here"),
        ("3651d", "it is longer than 10 years"),
        ("9" * 400, "it is longer than 10 years"),
        ("9" * 5_000, "it cannot be read"),
        ("soon", "it cannot be read"),
        ("5 m", "it cannot be read"),
        ("30m1h", "it cannot be read"),
        ("1h1h", "it cannot be read"),
        ("1h30", "it cannot be read"),
        ("1.5h", "it cannot be read"),
        ("5M", "it cannot be read"),
        ("٣", "it cannot be read"),
        ("m", "it cannot be read"),
        ("-", "it cannot be read"),
    ],
)
def test_a_text_that_is_no_duration_is_refused_with_the_reason_and_the_accepted_forms(text, why):
    """The refusal quotes the text, says what is wrong and lists what is accepted."""
    with pytest.raises(InvalidInput) as refused:
        parse_duration(text)
    assert refused.value.message == f'"{text}" is no duration: {why}; wanted {DURATIONS}'


def test_zero_is_a_duration_where_it_is_allowed():
    """`--older-than 0` may mean something; nothing else that is refused becomes allowed with it."""
    assert parse_duration("0", allow_zero=True) == 0
    assert parse_duration("0m", allow_zero=True) == 0
    with pytest.raises(InvalidInput, match="it is empty"):
        parse_duration("", allow_zero=True)


def test_a_refusal_escapes_what_would_move_the_cursor():
    """A control character of the input is not sent to the terminal."""
    with pytest.raises(InvalidInput, match=r'"\\u001b\[2J" is no duration'):
        parse_duration("\x1b[2J")
    with pytest.raises(InvalidInput, match=r'"\\u001b\[2J" is no time'):
        parse_time("\x1b[2J", NOW, UTC)


@given(st.integers(1, LONGEST))
def test_a_duration_written_in_units_is_read_back_whole(seconds):
    """Round trip over every number of seconds, with and without the units that are zero."""
    minutes, s = divmod(seconds, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    w, d = divmod(days, 7)
    parts = {"w": w, "d": d, "h": h, "m": m, "s": s}
    assert parse_duration("".join(f"{count}{unit}" for unit, count in parts.items())) == seconds
    assert parse_duration("".join(f"{count}{unit}" for unit, count in parts.items() if count)) == seconds
    assert parse_duration(str(seconds)) == seconds


@given(st.text() | st.text("0123456789+-:.TZ wdhmstoday"))
def test_any_text_is_a_duration_or_refused(text):
    """No other exception leaves the parser, and nothing outside the bounds comes back."""
    with contextlib.suppress(InvalidInput):
        assert 1 <= parse_duration(text) <= LONGEST


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("now", "2026-07-01T10:00:00.000000Z"),
        ("2026-12-24T09:00:00Z", "2026-12-24T09:00:00.000000Z"),
        ("2026-12-24t09:00:00z", "2026-12-24T09:00:00.000000Z"),
        ("2026-12-24T09:00:00.123456789Z", "2026-12-24T09:00:00.123456Z"),
        ("2026-12-24T09:00:00.5+05:30", "2026-12-24T03:30:00.500000Z"),
        ("2026-12-24 09:00:00-08:00", "2026-12-24T17:00:00.000000Z"),
        ("2026-12-24T09:00:00", "2026-12-24T08:00:00.000000Z"),
        ("2026-12-24T09:00", "2026-12-24T08:00:00.000000Z"),
        ("2026-08-24T09:00", "2026-08-24T07:00:00.000000Z"),
        ("2026-12-24", "2026-12-23T23:00:00.000000Z"),
        ("+2h", "2026-07-01T12:00:00.000000Z"),
        ("+1h30m", "2026-07-01T11:30:00.000000Z"),
        ("+90", "2026-07-01T10:01:30.000000Z"),
        ("tomorrow 09:00", "2026-07-02T07:00:00.000000Z"),
        ("Tomorrow  9:00", "2026-07-02T07:00:00.000000Z"),
        ("today 18:00", "2026-07-01T16:00:00.000000Z"),
        ("today 09:00", "2026-07-01T07:00:00.000000Z"),
        ("18:00", "2026-07-01T16:00:00.000000Z"),
        ("18:00:30", "2026-07-01T16:00:30.000000Z"),
        ("09:00", "2026-07-02T07:00:00.000000Z"),
        ("12:00", "2026-07-02T10:00:00.000000Z"),
        (" 18:00 ", "2026-07-01T16:00:00.000000Z"),
    ],
)
def test_a_time_is_understood_in_the_zone_of_the_reader(text, utc):
    """Every accepted form, at noon of a summer's day in Berlin."""
    assert understood(text) == utc


def test_today_is_the_day_of_the_zone_and_not_of_utc():
    """At 00:30 in Berlin it is still yesterday in UTC."""
    assert understood("today 18:00", now=berlin(2026, 7, 2, 0, 30)) == "2026-07-02T16:00:00.000000Z"


def test_a_local_time_that_the_clocks_leave_out_is_moved_forward():
    """02:30 does not exist on 29 March 2026 in Berlin: 03:30 summer time."""
    assert parse_time("2026-03-29T02:30", NOW, BERLIN) == berlin(2026, 3, 29, 3, 30)


def test_a_local_time_that_occurs_twice_is_the_first_of_them():
    """02:30 occurs twice on 25 October 2026 in Berlin: the first is still summer time."""
    first = parse_time("2026-10-25T02:30", NOW, BERLIN)
    assert first == berlin(2026, 10, 25, 2, 30, fold=0)
    assert first == berlin(2026, 10, 25, 2, 30, fold=1) - HOUR


def test_tomorrow_is_a_day_of_the_calendar_and_two_hours_are_two_hours():
    """Over a change of the clocks `tomorrow 09:00` is 23 hours later, `+24h` is 24."""
    eve = berlin(2026, 3, 28, 9, 0)
    assert parse_time("tomorrow 09:00", eve, BERLIN) == eve + 23 * HOUR
    assert parse_time("09:00", eve, BERLIN) == eve + 23 * HOUR
    assert parse_time("+24h", eve, BERLIN) == eve + 24 * HOUR


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it cannot be read"),
        ("soon", "it cannot be read"),
        ("tomorrow", "it cannot be read"),
        ("yesterday 09:00", "it cannot be read"),
        ("20261224", "it cannot be read"),
        ("2026-W52-4", "it cannot be read"),
        ("2026-12-24T09", "it cannot be read"),
        ("2026-12-24T09:00:00+0100", "it cannot be read"),
        ("1767225600", "it cannot be read"),
        ("+", "it is empty"),
        ("+soon", "it cannot be read"),
        ("+-2h", "it is negative"),
        ("+3651d", "it is longer than 10 years"),
        ("2026-02-29", "there is no such day or hour"),
        ("2026-13-01T00:00:00Z", "there is no such day or hour"),
        ("2026-12-24T09:00:00+24:00", "there is no such day or hour"),
        ("0001-01-01", "there is no such day or hour"),
        ("9999-12-31T23:59:59-01:00", "there is no such day or hour"),
        ("24:00", "there is no such day or hour"),
        ("tomorrow 09:60", "there is no such day or hour"),
    ],
)
def test_a_text_that_is_no_time_is_refused_with_the_reason_and_the_accepted_forms(text, why):
    """The refusal quotes the text, says what is wrong and lists what is accepted."""
    with pytest.raises(InvalidInput) as refused:
        parse_time(text, NOW, BERLIN)
    assert refused.value.message == f'"{text}" is no time: {why}; wanted {TIMES}'


@given(st.integers(0, 4 * 10**15), st.sampled_from([UTC, BERLIN, timezone(timedelta(hours=-9, minutes=-30))]))
def test_a_time_as_json_prints_it_is_read_back_to_the_microsecond(at, zone):
    """What RFC 3339 with an offset says does not depend on the reader's zone."""
    assert parse_time(rfc3339(at), NOW, zone) == at


@given(st.integers(0, 4 * 10**9))
def test_a_time_copied_from_a_table_is_the_same_second(seconds):
    """What a table shows can be typed back, but for the second round of an hour that occurs twice."""
    at = seconds * SECOND
    again = parse_time(show_local(at, BERLIN), NOW, BERLIN)
    twice = datetime.fromtimestamp(seconds, BERLIN).fold * HOUR
    assert again == at - twice


@given(st.text() | st.text("0123456789+-:.TZ wdhmstoday"))
def test_any_text_is_a_time_or_refused(text):
    """No other exception leaves the parser."""
    with contextlib.suppress(InvalidInput):
        assert isinstance(parse_time(text, NOW, BERLIN), int)


def test_a_table_shows_local_time_and_its_heading_the_zone():
    """The zone's own name where it has one, else its abbreviation at that instant."""
    assert show_local(NOW, BERLIN) == "2026-07-01 12:00:00"
    assert zone_name(NOW, BERLIN) == "Europe/Berlin"
    assert zone_name(NOW, UTC) == "UTC"
    assert zone_name(NOW, timezone(timedelta(hours=2), "CEST")) == "CEST"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3_599, "59m"),
        (3_600, "1h00m"),
        (7_500, "2h05m"),
        (86_399, "23h59m"),
        (86_400, "1d"),
        (4 * 86_400 + 80_000, "4d"),
    ],
)
def test_an_age_is_rounded_down_to_what_a_reader_needs(seconds, shown):
    """Both sides of each change of units."""
    assert show_age(seconds) == shown


@given(st.integers(1, LONGEST))
def test_an_age_never_says_more_than_there_was(seconds):
    """Read back as a duration an age is at most what it showed, and less than a day short of it."""
    assert 0 <= seconds - parse_duration(show_age(seconds)) < 86_400
