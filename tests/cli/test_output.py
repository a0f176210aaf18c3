"""Printing: text that is safe, tables that line up, colours that can be turned off."""

import io
import json
import os
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli import output
from cli.output import Out, aligned, clean, fit, paint, print_json, width_of
from tests.engines import once

pytestmark = once


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


@given(st.text())
def test_clean_text_is_one_printable_line(text):
    """Nothing of it can move a cursor."""
    assert clean(text).isprintable()


@given(st.lists(st.tuples(st.text("ab日ü ", max_size=5), st.text("ab日ü ", max_size=5)), min_size=1))
def test_columns_line_up(rows):
    """The second column begins at the same cell in every line, whatever the width of the letters."""
    rows = [(f"x{a}", f"|{b}") for a, b in rows]
    assert len({width_of(line[: line.index("|")]) for line in aligned(rows)}) == 1


def test_empty_columns_are_left_out():
    """But never the first."""
    assert aligned([("A", "B", "C"), ("1", None, "3")], headings=1) == ["A  C", "1  3"]
    assert aligned([("A", "B")], headings=1) == ["A"]


def test_a_terminal_cuts_long_lines(monkeypatch):
    """By cells, not letters; a pipe gets the whole line."""
    assert fit("x" * 500) == "x" * 500
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "10")
    for line in ("x" * 500, "日" * 500, "x" * 10, "é" * 11):
        assert width_of(fit(line)) <= 10
    assert fit("x" * 10) == "x" * 10
    assert fit("x" * 11) == "x" * 9 + "…"


def test_colours_are_for_terminals(monkeypatch):
    """And NO_COLOR and TERM=dumb turn them off."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("x", "1", io.StringIO()) == "x"
    assert paint("x", "1", Terminal()) == "\x1b[1mx\x1b[0m"
    monkeypatch.setenv("TERM", "dumb")
    assert paint("x", "1", Terminal()) == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "1", Terminal()) == "x"


def test_json_survives_a_stream_that_knows_only_ascii(monkeypatch):
    """Letters are escaped then."""
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    print_json({"title": "größer"})
    assert json.loads(raw.getvalue()) == {"title": "größer"}


def test_a_progress_bar_needs_a_terminal_and_time(monkeypatch):
    """None in a pipe, none with --json or --quiet; nothing is drawn in the first second."""
    for out in (Out(), Out(json=True), Out(quiet=True)):
        with out.progress("replaying") as progress:
            assert progress is None
    monkeypatch.setattr("sys.stderr", Terminal())
    with Out().progress("replaying") as progress:
        progress(1, 10)
    assert output.sys.stderr.getvalue() == ""
    monkeypatch.setattr(output, "_PATIENCE", -1.0)
    with Out().progress("replaying") as progress:
        progress(5, 10)
    assert "replaying [###############               ] 5/10" in output.sys.stderr.getvalue()
    assert output.sys.stderr.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(("named", "key"), [("Europe/Berlin", "Europe/Berlin"), (":UTC", "UTC")])
def test_the_zone_is_the_callers(monkeypatch, named, key):
    """TZ, with or without its colon."""
    monkeypatch.setenv("TZ", named)
    output.zone.cache_clear()
    assert output.zone() == ZoneInfo(key)


@pytest.mark.parametrize("named", ["CET-1CEST", "/no/such", "../etc/passwd", "x\x01"])
def test_a_zone_without_a_name_is_an_offset(monkeypatch, named):
    """What Python says is in force."""
    monkeypatch.setenv("TZ", named)
    output.zone.cache_clear()
    assert output.zone().utcoffset(None) is not None
    output.zone.cache_clear()


def test_quiet_keeps_data_and_errors(ledger):
    """Confirmations and notes go."""
    card = ledger.create("a")
    assert ledger.ok("assign", card, "ann", "--quiet").out == ""
    assert ledger.ok("list", "--quiet").out != ""
    assert ledger("show", "t_nowhere", "--quiet").err.startswith("error: ")


def test_dates_are_in_the_zone_of_the_heading(ledger):
    """12 hours UTC is 13 or 14 in Berlin."""
    ledger.create("a")
    heading, row = ledger.ok("events", "--kind", "created").out.splitlines()
    assert "AT (Europe/Berlin)" in heading
    at = ledger.json("events", "--kind", "created")["events"][0]["at"]
    local = output.local(at)
    assert local in row
    assert local[:13] != at[:13].replace("T", " ")
    assert output.local(None) == ""
    assert os.environ["TZ"] == "Europe/Berlin"
