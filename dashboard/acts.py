"""What can be done from the page, with a write token: seven verbs of cards and the board's pause. Never a dispatch.

Each act is what the command line's verb of that name is: the same decision, the same refusals. It is the operator's
who owns the token's name, or the server's user. A form carries a fresh id, so that a click that is repeated is done
once.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse

from dashboard.faults import NoSuchPage
from dashboard.source import Source
from dashboard.tokens import Grant
from kanban import commands as c
from kanban.session import Answer
from ledger.errors import InvalidInput
from ledger.events import Children
from ledger.recorded import check_text

LARGEST_RUN: Final = 10**9
MOST_FIELDS: Final = 50
router = APIRouter(include_in_schema=False)
Name = Annotated[str, Field(max_length=500)]


class Ask(BaseModel, ABC):
    """What every act may say: *command*, an id of the asker's own; the same one again gets the first answer."""

    model_config = ConfigDict(extra="forbid")
    command: Annotated[str, Field(max_length=100)] | None = None

    @abstractmethod
    def as_command(self, task: str) -> Any:
        """What is decided."""


class Unblock(Ask):
    """Lift the hold or the cooldown; counters from zero."""

    reason: str | None = None

    def as_command(self, task: str) -> c.Unblock:
        return c.Unblock(task, self.reason)


class Block(Ask):
    """Keep the card back until a person unblocks it; *force*: also one that runs, once its run has ended."""

    reason: str
    force: bool = False

    def as_command(self, task: str) -> c.Block:
        return c.Block(task, self.reason, force=self.force)


class Stop(Ask):
    """End the card's run (*run*: only that one), and keep the card back."""

    reason: str = "stopped by an operator"
    run: Annotated[int, Field(ge=1, le=LARGEST_RUN)] | None = None

    def as_command(self, task: str) -> c.Block:
        return c.Block(task, self.reason, force=True, only_run=self.run)


class Assign(Ask):
    """Give the card to somebody; none: to nobody."""

    assignee: Name | None
    force: bool = False

    def as_command(self, task: str) -> c.Assign:
        return c.Assign(task, None if self.assignee in {None, "", "none"} else self.assignee, self.force)


class Comment(Ask):
    """Say something on the card."""

    body: str

    def as_command(self, task: str) -> c.Comment:
        return c.Comment(task, self.body)


class Archive(Ask):
    """Put the card away; *children*: what becomes of those that wait for it."""

    children: Children | None = None
    force: bool = False

    def as_command(self, task: str) -> c.Archive:
        return c.Archive(task, self.children, self.force)


class Scoped(Ask):
    """An act upon the board, an assignee or a host; the last two have a *name*."""

    scope: Literal["board", "assignee", "host"] = "board"
    name: Name = ""

    def checked_name(self) -> str:
        """The name of the scope. Raises `InvalidInput` where a board has one, or another scope has none."""
        if (self.scope == "board") == bool(self.name.strip()):
            wanted = "a board has no name here" if self.scope == "board" else f"which {self.scope}?"
            raise InvalidInput(wanted, remedy="give scope and name")
        return self.name


class Pause(Scoped):
    """Claim nothing any more; *drain*: and ask what runs to stop."""

    drain: bool = False
    reason: str | None = None

    def as_command(self, task: str) -> c.Pause:  # noqa: ARG002 – the board's
        return c.Pause(self.scope, self.checked_name(), self.drain, self.reason)


class Resume(Scoped):
    """End a pause."""

    def as_command(self, task: str) -> c.Resume:  # noqa: ARG002 – the board's
        return c.Resume(self.scope, self.checked_name())


ASKS: Final[Mapping[str, type[Ask]]] = MappingProxyType(
    {
        "unblock": Unblock,
        "block": Block,
        "stop": Stop,
        "assign": Assign,
        "comment": Comment,
        "archive": Archive,
        "pause": Pause,
        "resume": Resume,
    }
)
"""Verb → what it takes."""


def fresh_command() -> str:
    """An id for one form: whoever sends it twice has acted once."""
    return secrets.token_urlsafe(12)


def perform(source: Source, grant: Grant, verb: str, task: str, ask: Ask) -> Answer:
    """Do it, in the name of *grant*. Raises what the command line's verb raises."""
    check_text("task", task)
    command = ask.as_command(task)
    own = None if ask.command is None else f"page:{verb}:{task}:{ask.command}"
    check_text("command", own or "")
    return source.acting(grant.name).do(command, command_id=own)


# Forms


async def form(request: Request) -> dict[str, str]:
    """The fields of a form, the last of each name; the guard has read its body, and seen that it is not too long."""
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise InvalidInput("that is no form") from None
    return dict(pairs)


@router.post("/act/{verb}")
def act(request: Request, verb: str, fields: Annotated[dict[str, str], Depends(form)]) -> RedirectResponse:
    """Do what a form says, and go back to where it stood."""
    if verb not in ASKS:
        raise NoSuchPage
    task, following = fields.pop("task", ""), fields.pop("next", "")
    fields.pop("csrf", None)
    answer = perform(request.app.state.source, request.state.grant, verb, task, _asked(verb, fields))
    said = "replayed" if answer.replayed else "changed" if answer.changed else "same"
    return RedirectResponse(_with_word(_local(following) or _home_of(task), said), 303)


def _asked(verb: str, fields: Mapping[str, str]) -> Ask:
    """A field that was left blank was not given."""
    given = {name: value for name, value in fields.items() if value.strip()}
    if verb == "assign" and "assignee" in fields:
        given.setdefault("assignee", "none")
    try:
        return ASKS[verb].model_validate(given)
    except ValidationError as fault:
        first = fault.errors()[0]
        raise InvalidInput(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}", remedy=f"fill in the form of {verb}"
        ) from None


def _home_of(task: str) -> str:
    return f"/card/{quote(task, safe='')}" if task else "/"


def _local(path: str) -> str | None:
    """*path*, if it is one of this server's: a browser takes //host and /\\host for other servers."""
    plain = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if plain and not urlsplit(path).netloc else None


def _with_word(path: str, said: str) -> str:
    path, hash_, fragment = path.partition("#")
    return f"{path}{'&' if '?' in path else '?'}said={said}{hash_}{fragment}"
