"""`ledger watch`: the screen as it is drawn, what each key makes of it, and the command itself in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from cli import watch
from cli.watch_frame import Frame, chosen
from cli.watch_view import HELP, Choices, View, keys_of, pressed
from ledger.database import reading
from ledger.errors import StoreBusy, StoreDamaged
from projections.watched import Watched
from tests import audits, given, ledgers
from tests.engines import on, once
from tests.given import SECOND

SCRIPT = Path(sys.executable).with_name("ledger")
PATIENCE = 60
HOSTILE = "[bold red]alert[/] :smile: \x1b[31mred\x1b[0m \x07\r\n\x9b2J 漢字"


# What is drawn


def frame(found, view, *, now, width, height, **more):
    """The lines of that screen."""
    return Frame(found, view, now, width, height, **more).lines()


@pytest.fixture
def store(tmp_path):
    """A store with the board `b`."""
    made = ledgers.new_ledger(tmp_path / "ledger.db")
    yield made
    made.engine.dispose()


def seen(store):
    """The board as it is read."""
    found = Watched(ledgers.BOARD)
    with reading(store.engine) as tx:
        found.look(tx)
    return found


def drawn(store, view=View(), *, width=100, height=30, later=0, **more):  # noqa: B008 – frozen
    """The lines of the screen, as a terminal of that size shows them."""
    console = Console(width=width, height=height, record=True, file=StringIO(), force_terminal=True)
    for line in frame(seen(store), view, now=store.clock() + later * SECOND, width=width, height=height, **more):
        console.print(line)
    return console.export_text().splitlines()


def busy(store):
    """A board with live runs, held cards, a sweep and reasons."""
    for number, title in enumerate(("Mend the parser", "Paint it", "Sell it", HOSTILE)):
        store.append(given.created(title, priority=4 - number, assignee="ann"), task=f"t_{number}")
    store.append(given.claimed(3, worker="ann", lease_until=store.clock() + 600 * SECOND), task="t_0")
    store.append(given.claimed(), given.exited(last_words=HOSTILE), given.budget_blocked(), task="t_1")
    store.append(given.created("Wait", assignee=None), task="t_4")
    store.append(given.created("Done"), given.blocked(reason=HOSTILE), given.completed(None), task="t_5")
    store.append(given.created("Ask", assignee="bob"), given.blocked(reason="needs a key"), task="t_6")
    store.sql(f"INSERT INTO sweeps VALUES ('b', 'node-1', {store.clock()}, NULL, 0)")
    store.sql("INSERT INTO held VALUES ('b', 't_4', 'no_assignee', NULL, 0)")


def test_one_screen_tells_what_happens(store):
    """Counts, live runs with age and lease, held cards with count and limit, the cards, the last events in words."""
    busy(store)
    screen = drawn(store, later=65)
    text = "\n".join(screen)
    assert screen[0] == f"b  last sweep 1m ago on node-1  last event 1m ago  position {store.head().position}"
    assert screen[1].split() == ["ready", "3", "running", "1", "blocked", "2", "done", "1"]
    assert screen[2] == "not started: no_assignee 1"
    assert re.search(r"^live runs: 1\nt_0 +run 3 +1m +lease 8m +ann +Mend the parser$", text, re.MULTILINE)
    assert re.search(r"^held: 2\nt_1 +failure_budget +2/2 +ann +Paint it$", text, re.MULTILINE)
    assert re.search(r"^t_6 +operator +bob +needs a key$", text, re.MULTILINE)
    assert re.search(r"^cards: 6\nt_0 +running +ann +4 +Mend the parser$", text, re.MULTILINE)
    assert re.search(r"^t_4 +ready +nobody +no_assignee +Wait$", text, re.MULTILINE)
    assert re.search(r"^\d\d:\d\d:\d\d +t_6 +blocked: an operator wants it: needs a key$", text, re.MULTILINE)
    assert screen[-1].startswith("q quit")
    assert "Done" not in text.partition("events")[0]


def test_ages_grow_although_nothing_is_read(store):
    """And a lease that ran out, or a sweep that does not come, is red."""
    busy(store)
    now = seen(store)
    frames = [frame(now, View(), now=store.clock() + n * SECOND, width=100, height=30) for n in (1, 59, 700)]
    heads = [lines[0] for lines in frames]
    assert ["1s ago" in heads[0].plain, "59s ago" in heads[1].plain, "11m ago" in heads[2].plain] == [True] * 3
    assert ["bold red" in str(head.spans) for head in heads] == [False, False, True]
    (late,) = [line for line in frames[2] if "lease over 1m ago" in line.plain]
    assert late.style == "bold red"


def test_a_board_that_nobody_sweeps_says_so(store):
    """Nothing is started there."""
    assert "no sweep ever" in drawn(store)[0]
    assert drawn(store)[1] == "no card yet"


def test_no_text_of_a_card_is_markup_or_obeyed_by_a_terminal(store):
    """It is shown as it is written: brackets, colons, and what controls a terminal in letters."""
    busy(store)
    console = Console(width=200, height=60, file=StringIO(), force_terminal=True, color_system="truecolor")
    for line in frame(seen(store), View(), now=store.clock(), width=200, height=60):
        console.print(line)
    written = console.file.getvalue()
    assert r"[bold red]alert[/] :smile: \x1b[31mred\x1b[0m \x07 \x9b2J 漢字" in written
    assert not [
        odd for odd in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x09\x0b-\x1f\x7f-\x9f]", written) if odd[-1] != "m"
    ]


@pytest.mark.parametrize("width", [1, 20, 60, 79, 200])
@pytest.mark.parametrize("height", [1, 3, 8, 12, 24, 60])
@pytest.mark.parametrize("view", [View(), View(help=True), View(status="ready", typing=True, text="x")], ids=str)
def test_no_line_is_wider_and_no_screen_higher_than_the_terminal(store, width, height, view):
    """Whatever its size; wide letters take two cells."""
    busy(store)
    lines = frame(seen(store), view, now=store.clock(), width=width, height=height, trouble="away")
    assert len(lines) == height
    assert max(line.cell_len for line in lines) <= width


def test_filters_choose_cards_and_are_named(store):
    """By status, by assignee and by a text in title or id, together."""
    busy(store)
    for view, wanted in (
        (View(), ["t_0", "t_1", "t_2", "t_3", "t_4", "t_6"]), (View(status="ready"), ["t_2", "t_3", "t_4"]),
        (View(assignee="nobody"), ["t_4"]), (View(text="MEND"), ["t_0"]), (View(text="t_3"), ["t_3"]),
        (View(status="ready", assignee="ann", text="it"), ["t_2"]), (View(text="[bold"), ["t_3"]),
        (View(text="no"), []),
    ):  # fmt: skip
        assert [card.id for card in chosen(seen(store), view)] == wanted
    assert "only: status ready  assignee ann  text it" in drawn(store, View("ready", "ann", "it"))
    assert "only: text it_ (Enter keeps, Esc drops)" in drawn(store, View(text="it", typing=True))


def test_a_card_in_review_is_its_reviewers(store):
    """As caps and pauses count it."""
    store.append(given.created(), given.claimed(), given.review_requested(reviewer="eve"), task="t_a")
    assert [card.id for card in chosen(seen(store), View(assignee="eve"))] == ["t_a"]


def test_a_long_list_scrolls(store):
    """The heading says which part is shown, and the last screen is full."""
    for number in range(40):
        store.append(given.created(f"card {number}"), task=f"t_{number:02}")
    for offset, first, last in ((0, 1, 21), (5, 6, 26), (19, 20, 40), (1_000, 20, 40)):
        screen = drawn(store, View(offset=offset))
        assert f"cards: 40 ({first}–{last})" in screen
        assert any(line.startswith(f"t_{first - 1:02}") for line in screen)
        assert any(line.startswith(f"t_{last - 1:02}") for line in screen)


def test_trouble_and_pause_are_told(store):
    """In a line of their own, and beside the board's name."""
    assert "the server is away \\x1b" in drawn(store, trouble="the server is away \x1b")
    assert drawn(store, View(paused=True))[0].startswith("b  PAUSED")


def test_help_names_every_key(store):
    """On the same screen."""
    screen = "\n".join(drawn(store, View(help=True)))
    assert all(meaning in screen for _, meaning in HELP)


def test_an_event_that_this_program_cannot_read_does_not_end_it(store):
    """Its kind is shown."""
    audits.outside(store, "UPDATE events SET kind = 'dreamt', schema = 9 WHERE position = 1")
    assert any("dreamt" in line for line in drawn(store))


# Keys

THERE = Choices(("ready", "running"), ("ann", "bob"), 24)


@pytest.mark.parametrize(
    ("view", "key", "then"),
    [
        (View(), "q", View(over=True)),
        (View(), "?", View(help=True)),
        (View(help=True), "?", View()),
        (View(), "p", View(paused=True)),
        (View(paused=True), "p", View()),
        (View(offset=3), "s", View("ready")),
        (View("ready"), "s", View("running")),
        (View("running"), "s", View()),
        (View(), "S", View("running")),
        (View("blocked"), "s", View("ready")),
        (View(), "a", View(assignee="ann")),
        (View(assignee="ann"), "A", View()),
        (View(help=True), "/", View(typing=True)),
        (View(), "f", View(typing=True)),
        (View(typing=True), "q", View(typing=True, text="q")),
        (View(typing=True, text="ä", offset=3), "漢", View(typing=True, text="ä漢")),
        (View(typing=True, text="ab"), "back", View(typing=True, text="a")),
        (View(typing=True), "back", View(typing=True)),
        (View(typing=True, text="ab"), "enter", View(text="ab")),
        (View(typing=True, text="ab"), "escape", View()),
        (View(typing=True, text="ab"), "up", View(typing=True, text="ab")),
        (View(typing=True, text="ab"), "\x01", View(typing=True, text="ab")),
        (View("ready", "ann", "x", offset=2, paused=True), "escape", View(paused=True)),
        (View(), "j", View(offset=1)),
        (View(offset=1), "up", View()),
        (View(), "k", View()),
        (View(), "page down", View(offset=10)),
        (View(offset=20), "page down", View(offset=24)),
        (View(offset=20), "page up", View(offset=10)),
        (View(offset=5), "home", View()),
        (View(), "end", View(offset=24)),
        (View(offset=99), "k", View(offset=23)),
        (View(offset=2), "x", View(offset=2)),
    ],
    ids=str,
)
def test_what_a_key_makes_of_the_view(view, key, then):
    """A pure function of the view, the key and what can be chosen."""
    assert pressed(view, key, THERE) == then


def test_a_list_that_is_empty_cannot_be_scrolled():
    """And without a status or an assignee there is none to choose."""
    none = Choices((), (), 0)
    for key in ("j", "end", "page down", "s", "A"):
        assert pressed(View(), key, none) == View()


def test_a_filter_has_an_end():
    """Somebody may fall asleep on the keyboard."""
    view = View(typing=True)
    for _ in range(500):
        view = pressed(view, "z", THERE)
    assert len(view.text) == 100


def test_keys_come_as_a_terminal_sends_them():
    """Arrows in both ways, several at once, letters of any alphabet; sequences that mean nothing here are dropped."""
    assert list(keys_of("q\x1b[A\x1bOB\x1b[5~\x1b[6~ä\r\x7f")) == [
        "q", "up", "down", "page up", "page down", "ä", "enter", "back",
    ]  # fmt: skip
    assert list(keys_of("\x1b")) == ["escape"]
    assert list(keys_of("\x1b[200~x\x1b[15~\x1b[1;5C")) == ["x"]


# The command


@once
def test_one_screen_can_be_printed(ledger):
    """Where stdout is no terminal: no colour, no cursor, no blank lines, and nothing below it."""
    card = ledger.create("Mend it", "--assignee", "ann")
    said = ledger.ok("watch", "--once")
    assert "\x1b" not in said.out
    assert said.out.splitlines()[1] == "ready 1"
    assert f"{card}  ready  ann" in said.out
    assert "q quit" not in said.out
    assert "" not in said.out.splitlines()


@on("sqlite", "postgresql")
def test_without_a_terminal_it_says_what_to_run(ledger):
    """A usage error that names the list, and the screen that can be printed."""
    said = ledger("watch")
    assert said.code == 2
    assert "ledger list, or ledger watch --once" in said.err
    assert ledger("watch", "--json").code == 2
    assert ledger("watch", "--once", "--interval", "0s").code == 2


@once
def test_a_store_that_is_busy_or_away_is_asked_again(ledger, monkeypatch):
    """Its trouble is told on the screen, and gone with it; what cannot be mended by waiting ends the command."""
    with ledger_screen(ledger) as screen:
        faults = [StoreBusy("held by another"), None, StoreDamaged("broken")]

        def look():
            fault = faults.pop(0)
            if fault is not None:
                raise fault

        monkeypatch.setattr(screen, "look", look)
        screen._look_again()
        assert screen.trouble == "held by another"
        screen._look_again()
        assert screen.trouble is None
        with pytest.raises(StoreDamaged):
            screen._look_again()


class Plain(watch._Screen):
    """A screen that a test may reach into."""


def ledger_screen(ledger):
    """The screen of the ledger's board, and the board let go at the end."""
    from contextlib import contextmanager

    from kanban.questions import Questions

    @contextmanager
    def opened():
        with Questions.open() as board:
            yield Plain(board, Console(file=StringIO()))

    return opened()


IN_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """`ledger watch` in a terminal of its own."""

    def __init__(self, *argv, size=(24, 80), **environ):
        self.fd, theirs = pty.openpty()
        self.resize(*size)
        command = [sys.executable, "-c", IN_A_TERMINAL, str(SCRIPT), "watch", *argv]
        environ = {**os.environ, "TERM": "xterm", **environ}
        self.program = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
        os.close(theirs)
        self.text, self.code = "", None

    def resize(self, lines, columns):
        """Make it another size: the kernel tells the program."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, wanted):
        """Read until *wanted* is there, and forget what was read."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text:
            assert time.monotonic() < deadline, f"{wanted!r} did not come: {self.text[-2000:]!r}"
            assert self._more(0.5), f"it ended before {wanted!r} came: {self.text[-2000:]!r}"
        found, self.text = self.text, ""
        return found

    def press(self, keys):
        """Type *keys*."""
        os.write(self.fd, keys.encode())

    def end(self):
        """What it wrote until it ended; its exit code is *code*."""
        while self._more(PATIENCE):
            pass
        self.code = self.program.wait(PATIENCE)
        return self.text

    def _more(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            read = os.read(self.fd, 65_536)
        except OSError:  # it has gone
            return False
        self.text += read.decode("utf-8", "replace")
        return bool(read)


@pytest.fixture
def terminal(ledger):
    """Starts the command in terminals, and leaves none of them behind."""
    started = []

    def start(*argv, **more):
        started.append(Terminal(*argv, **more))
        return started[-1]

    yield start
    for each in started:
        each.program.kill()
        each.program.wait()
        os.close(each.fd)


LEFT = "\x1b[?1049l\x1b[?25h"
"""The other screen is left, and the cursor is there again."""


def test_it_lives_in_a_terminal(ledger, terminal):
    """What is appended shows by itself; keys filter; a new size is drawn; q restores the terminal and ends with 0."""
    card = ledger.create("Mend the parser", "--assignee", "ann")
    there = terminal("--interval", "1s", size=(20, 80), COLUMNS="80", LINES="20")
    assert "\x1b[?1049h" in there.until("Mend the parser")
    ledger.ok("comment", card, "a word of news")
    there.until("a word of news")
    there.press("s")
    there.until("only: status ready")
    there.press("\x1b")
    there.press("/zzz\r")
    there.until("cards: 0")
    there.resize(12, 60)
    there.until("j/k scroll  p pause…")
    there.press("q")
    assert there.end().endswith(LEFT)
    assert there.code == 0


@once
def test_while_it_is_paused_nothing_is_read(ledger, terminal):
    """It says so; at the next press of the key it reads on."""
    card = ledger.create("Mend the parser")
    there = terminal()
    there.until("Mend the parser")
    there.press("p")
    there.until("PAUSED")
    ledger.ok("comment", card, "a word of news")
    there.press("s")
    there.until("only: status ready")
    assert "a word of news" not in there.until("q quit")
    there.press("p")
    there.until("a word of news")


@once
@pytest.mark.parametrize(("signum", "code"), [(None, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_terminal_as_it_was(ledger, terminal, signum, code):
    """Ctrl-C as everywhere in the program, and TERM."""
    there = terminal("--interval", "1h")
    there.until("q quit")
    before = termios.tcgetattr(there.fd)
    assert not before[3] & termios.ICANON
    there.press("\x03") if signum is None else there.program.send_signal(signum)
    assert LEFT in there.end()
    assert there.code == code


@once
def test_it_has_no_colour_where_none_is_wanted(ledger, terminal):
    """NO_COLOR, and a terminal that cannot do anything is none."""
    ledger.create("Mend it")
    there = terminal(NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", there.until("q quit"))
    there.press("q")
    there.end()
    dumb = terminal(TERM="dumb")
    assert "needs a terminal" in dumb.end()
    assert dumb.code == 2


@once
def test_a_store_that_is_removed_ends_it_with_its_error(ledger, terminal):
    """The terminal is restored first."""
    there = terminal("--interval", "1s")
    there.until("q quit")
    for file in ledger.home.glob("ledger.db*"):
        file.unlink()
    said = there.end()
    assert LEFT in said
    assert "ledger.db" in said.partition(LEFT)[2]
    assert there.code == 8


def test_a_view_is_never_changed_in_place():
    """Keys make a new one."""
    with pytest.raises(AttributeError):
        View().over = True
    assert replace(View(), over=True) != View()
