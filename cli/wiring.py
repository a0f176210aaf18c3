"""What a command works with: who calls, how it wants its answer, and the board, opened when it is first asked for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec, TypeVar

import typer
from typer.core import TyperCommand

from cli.errors import ClickError, UsageError
from cli.garbage import resume
from cli.output import Out, clean
from cli.shown import titled
from ledger.errors import InvalidInput, InvalidText, LedgerError

if TYPE_CHECKING:
    from kanban.address import Address
    from kanban.board import Board
    from kanban.questions import Questions
    from kanban.session import Answer, Session

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Session")

EPILOG: Final = (
    "Global options, anywhere on the line: --board NAME, --database URL, --config FILE, --actor NAME, --json, --quiet, "
    "--verbose."
)
LARGEST: Final = 10**9
"""The largest number that a flag takes: what is larger is a slip of the finger, and some stores cannot keep it."""
_FREE: Final = frozenset(
    {"title", "body", "reason", "summary", "note", "text", "first", "second", "metadata", "blocked", "command"}
)
"""Parameters that hold free text: whether a blank one is allowed is the board's to say."""
_CARD = re.compile(r"t_\S*")

CardId = Annotated[str, typer.Argument(metavar="ID", help="The card.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="On a running card: ask its run to stop, and do this after it.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for the log.", show_default=False)]


@dataclass
class Call:
    """One command line: its flags, its printer, and the board that it speaks about."""

    out: Out
    board_name: str | None = None
    database: str | None = None
    config: Path | None = None
    actor: str | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @cached_property
    def address(self) -> Address:
        """Which board of which store is meant; told on stderr with --verbose."""
        from kanban.address import address_of

        at = address_of(
            self.database, self.board_name, actor=self.actor, config=self.config, environ=self.environ, cwd=None
        )
        if self.out.verbose:
            _tell(at, self.out)
        if at.loaded.skipped is not None:
            self.out.note("note: {} was not read: {}".format(*at.loaded.skipped))
        return at

    @cached_property
    def board(self) -> Board:
        """The board, open until the command ends."""
        from kanban.board import Board

        return self._opened(Board)

    @cached_property
    def questions(self) -> Questions:
        """The board as one that is only asked, open until the command ends: nothing that changes it is loaded."""
        from kanban.questions import Questions

        return self._opened(Questions)

    def _opened(self, kind: type[S]) -> S:
        opened = kind.at(self.address, environ=self.environ)
        resume()
        return opened

    def blamed(self, fault: Exception) -> Exception | None:
        """That the store is damaged, where a value in it is what made this program fail with *fault*."""
        from kanban.blame import blamed

        return blamed(self.address.url, self.address.board, fault) if "address" in self.__dict__ else None

    @property
    def in_worker(self) -> bool:
        """Whether this is the environment of a worker (RULES §8)."""
        from kanban.worker.carrier import is_worker

        return is_worker(self.environ)

    def close(self) -> None:
        """Let the store go, if it was opened."""
        for opened in {"board", "questions"} & self.__dict__.keys():
            getattr(self, opened).close()

    def strangers(self, *names: str | None) -> tuple[str, ...]:
        """What to say about assignees that the configuration does not know, where it knows any."""
        known = self.address.loaded.config.assignees
        return tuple(_stranger(name, list(known)) for name in names if known and name is not None and name not in known)

    def answer(self, answer: Answer, *, notes: Sequence[str] = (), **more: Any) -> None:
        """Print what a command came to: the card, and whether anything changed."""
        told = [*answer.notes, *notes]
        if self.out.json:
            fields = {"task": answer.task, "changed": answer.changed, "position": answer.position, **more}
            self.out.answer({**fields, "notes": told})
            return
        task = answer.task
        parts = (task["id"], task["status"], task["assignee"], titled(task))
        shown = "  ".join(clean(part) for part in parts if part)
        self.out.done(shown if answer.changed else f"{shown}  (nothing changed)")
        self.tell(told)

    def tell(self, notes: Sequence[str]) -> None:
        """Print *notes* on stderr, for people."""
        for note in notes:
            self.out.note(f"note: {clean(note)}")


def call_of(ctx: typer.Context) -> Call:
    """The call that *ctx* belongs to."""
    call = ctx.find_root().obj
    assert isinstance(call, Call)
    return call


def verb(app: typer.Typer, name: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function a command of *app*, named after it: its texts are checked, its help names the global options."""

    def register(command: Callable[P, R]) -> Callable[P, R]:
        return app.command(name or command.__name__, cls=Checked, epilog=EPILOG)(command)

    return register


def alone(ctx: typer.Context) -> None:
    """What a group of commands says where none of them is named."""
    if ctx.invoked_subcommand is None:
        if call_of(ctx).out.json:
            raise usage("which command?")
        typer.echo(ctx.get_help())


class ReaderGone(Exception):
    """Whoever read stdout has closed it."""


class Checked(TyperCommand):
    """A command whose texts are checked before it runs: no NUL, no lone surrogate, no blank name."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        for param in self.params:
            name = str(param.name)
            label = param.opts[0] if param.param_type_name == "option" else param.metavar or name.upper()
            check_texts(name, ctx.params.get(name), label)
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None
        except UsageError as fault:
            fault.ctx = fault.ctx or ctx
            raise
        except (LedgerError, ClickError, typer.Exit, typer.Abort, OSError):
            raise
        except Exception as fault:
            damage = call_of(ctx).blamed(fault)
            if damage is None:
                raise
            raise damage from fault


def usage(message: str) -> Exception:
    """The command line is wrong: to be raised."""
    fault: Exception = UsageError(message)
    return fault


def check_texts(name: str, value: Any, label: str) -> None:
    """Raise `InvalidText` for what no store can keep, `InvalidInput` for a name that is blank."""
    match value:
        case str() if "\0" in value:
            raise InvalidText(label, "a NUL character")
        case str() if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise InvalidText(label, "text that is not UTF-8")
        case str() if not value.strip() and name not in _FREE:
            raise InvalidInput(f"{label} is blank", remedy="give a text, or leave it out")
        case list() | tuple():
            for each in value:
                check_texts(name, each, label)
        case _:
            pass


def card_and_text(call: Call, first: str | None, second: str | None) -> tuple[str | None, str | None]:
    """Which card and which text are meant: inside a worker the id may be left out, and one word is then the text."""
    if not call.in_worker or first is None or _CARD.fullmatch(first):
        return first, second
    if second is not None:
        raise usage("inside a worker: one text, in quotes, or the card's id and a text")
    return None, first


def needed(text: str | None, what: str) -> str:
    """*text*, or a usage error: *what* is missing."""
    if text is None:
        raise usage(f"{what} is missing")
    return text


def text_in(name: str, label: str) -> str:
    """The text of a file that *label* names, or of stdin (`-`)."""
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as fault:
        raise InvalidInput(f"{label} {name}: {fault.strerror}", remedy="name a file that can be read") from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{label} {name}: that is not UTF-8 text") from None


def none_or(text: str | None) -> str | None:
    """*text*, where the word `none` means nobody or nothing."""
    return None if text == "none" else text


def seconds(text: str | None, *, allow_zero: bool = False) -> int | None:
    """A duration in seconds; `none` and what was not given are none. Raises `InvalidInput`."""
    from cli.times import parse_duration

    return None if none_or(text) is None else parse_duration(str(text), allow_zero=allow_zero)


def number(text: str | None, what: str) -> int | None:
    """A whole number from 1; `none` and what was not given are none."""
    if none_or(text) is None:
        return None
    digits = str(text).strip()
    if not re.fullmatch("[0-9]{1,10}", digits) or not 1 <= int(digits) <= LARGEST:
        raise InvalidInput(f"{what} is {text!r}; wanted a whole number from 1 to {LARGEST}, or none")
    return int(digits)


def _stranger(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.0)
    return f"no assignee {name!r} is configured on this host; the nearest is {near[0]!r}"


def _tell(at: Address, out: Out) -> None:
    from ledger.database import masked

    origins = at.loaded.origins
    files = ", ".join(map(str, at.loaded.files)) or "no file"
    out.note(
        f"board {at.board} ({origins['board']}); store {masked(at.url)} ({origins['database']}); settings: {files}"
    )
