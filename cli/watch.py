"""`ledger watch`: the board live in the terminal, on one screen, with keys to filter."""

from __future__ import annotations

import codecs
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cli.watch_view import Choices, View, keys_of, pressed
from cli.wiring import call_of, seconds, usage, verb
from ledger.errors import StoreBusy, StoreUnreachable

if TYPE_CHECKING:
    from rich.console import Console

    from cli.watch_frame import Frame
    from kanban.questions import Questions
    from projections.watched import Watched

app = typer.Typer()
_CHUNK: Final = 1_024  # bytes of keys at a time
_BY_SIGNAL: Final = 128
_LINES: Final = 40
"""Lines of a single frame where stdout is no terminal."""


@verb(app)
def watch(
    ctx: typer.Context,
    *,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="How often to look.")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Print one screen, and end.")] = False,
) -> None:
    """Watch the board live in the terminal: counts, live runs, held cards, the last events; ? says which keys."""
    from rich.console import Console

    call = call_of(ctx)
    if call.out.json:
        raise usage("watch draws a screen: leave out --json (ledger stats, or ledger events --follow --jsonl)")
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if not once and not (sys.stdin.isatty() and console.is_terminal and not console.is_dumb_terminal):
        raise usage("watch needs a terminal: ledger list, or ledger watch --once")
    every = seconds(interval)
    assert every is not None, "a duration that is given is some"
    screen = _Screen(call.questions, console)
    screen.look()
    if once:
        screen.print()
    else:
        screen.run(every)


@dataclass(slots=True)
class _Screen:
    """The screen of one board: what is known of it, and what is chosen."""

    board: Questions
    console: Console
    view: View = field(default_factory=View)
    trouble: str | None = None
    _seen: Watched = field(init=False)
    _ahead: int = 0

    def __post_init__(self) -> None:
        from projections.watched import Watched

        self._seen = Watched(self.board.name)

    def look(self) -> None:
        """Read what has changed, and what time it is for the store."""
        with self.board.look() as desk:
            self._seen.look(desk.rows)
            self._ahead = desk.now - self.board.clock()

    def print(self) -> None:
        """One frame, below what is on the terminal."""
        height = self.console.height if self.console.is_terminal else _LINES
        for line in self._frame(height, foot=False).lines():
            self.console.print(line)

    def run(self, every: int) -> None:
        """Look and draw *every* so many seconds, and at each key, until somebody quits."""
        from rich.control import Control

        with _keyboard() as keys, self.console.screen(hide_cursor=True) as screen:
            while not self.view.over:
                if not self.view.paused:
                    self._look_again()
                self._fit()
                self.console.control(Control.home())
                frame = self._frame(self.console.height)
                screen.update(*frame.lines())
                for key in keys.within(every):
                    self.view = pressed(self.view, key, self._choices(frame))

    def _fit(self) -> None:
        """Take the terminal's size, whatever COLUMNS and LINES said of it when the shell began."""
        from rich.console import ConsoleDimensions

        size = os.get_terminal_size(sys.stdout.fileno())
        if size.columns and size.lines:
            self.console.size = ConsoleDimensions(size.columns, size.lines)

    def _look_again(self) -> None:
        """A store that is busy or away is told on the screen, and asked again."""
        try:
            self.look()
        except (StoreBusy, StoreUnreachable) as fault:
            self.trouble = fault.message
        else:
            self.trouble = None

    def _frame(self, height: int, *, foot: bool = True) -> Frame:
        from cli.watch_frame import Frame

        now = self.board.clock() + self._ahead
        return Frame(self._seen, self.view, now, self.console.width, height, self.trouble, foot)

    def _choices(self, frame: Frame) -> Choices:
        from cli.watch_frame import worker
        from projections.listed import STATUSES

        cards = self._seen.cards.values()
        there = {card.status for card in cards}
        statuses = [status for status in STATUSES if status in there]
        return Choices(statuses, sorted({worker(card) for card in cards}), frame.furthest)


class _Keyboard:
    """The keys that are pressed on stdin; *woken* is a pipe that ends a wait as well."""

    def __init__(self, woken: int) -> None:
        self._woken = woken
        self._decode = codecs.getincrementaldecoder("utf-8")("ignore")

    def within(self, wait: float) -> Iterator[str]:
        """The keys that come within *wait* seconds: those that come together."""
        ready, _, _ = select.select([sys.stdin.fileno(), self._woken], [], [], wait)
        if self._woken in ready:
            os.read(self._woken, _CHUNK)
        if sys.stdin.fileno() in ready:
            typed = os.read(sys.stdin.fileno(), _CHUNK)
            yield from keys_of(self._decode.decode(typed)) if typed else "q"  # the terminal has gone


@contextmanager
def _keyboard() -> Iterator[_Keyboard]:
    """Keys come one by one and unseen; a new size ends a wait, TERM the command. All is as before at the end."""
    import termios

    here = sys.stdin.fileno()
    before = termios.tcgetattr(here)
    heard, told = os.pipe()
    os.set_blocking(told, False)

    def wake(_signum: int, _frame: FrameType | None) -> None:
        with suppress(BlockingIOError):
            os.write(told, b"!")

    handlers = {number: signal.signal(number, how) for number, how in ((signal.SIGWINCH, wake), (signal.SIGTERM, _end))}
    try:
        termios.tcsetattr(here, termios.TCSADRAIN, _unechoed(before))
        yield _Keyboard(heard)
    finally:
        termios.tcsetattr(here, termios.TCSAFLUSH, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(heard)
        os.close(told)


def _unechoed(before: list[Any]) -> list[Any]:
    """The terminal's settings without lines, echo and stopping: a stopped screen would leave the terminal as it is."""
    import termios

    changed: list[Any] = [*before[:6], list(before[6])]
    changed[3] &= ~(termios.ICANON | termios.ECHO)
    changed[6][termios.VSUSP] = b"\0"
    return changed


def _end(signum: int, _frame: FrameType | None) -> None:
    raise typer.Exit(_BY_SIGNAL + signum)
