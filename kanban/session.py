"""A board of a store, opened: where store, clock, host, configuration and actor meet (the composition root)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqlalchemy import Engine

from kanban.address import Address, address_of
from kanban.again import again
from kanban.at_desk import at_desk, looking
from kanban.config import Loaded
from kanban.desk import Desk
from kanban.failpoints import reach
from kanban.hosts import Host, this_host
from kanban.worker.carrier import own_claim
from ledger import ids
from ledger.clock import Clock, system_clock
from ledger.database import serves_hosts, writing
from ledger.errors import LedgerError, WrongExpectedVersion
from ledger.events import Actor
from ledger.standing import instant_of
from ledger.store import by_command
from ledger.upgrade import open_store
from projections.settings import Settings

if TYPE_CHECKING:
    from kanban import commands as c

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command came to: the card (empty for the board's own), whether anything changed, and what to be told."""

    task: dict[str, Any]
    changed: bool
    position: int
    replayed: bool = False
    notes: tuple[str, ...] = ()


class Session:
    """One board, opened by somebody: what every verb and every question stands on."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        *,
        url: str,
        home: Path,
        loaded: Loaded,
        clock: Clock,
        environ: Mapping[str, str],
    ) -> None:
        self.engine = engine
        self.name = name
        self.url = url
        self.home = home
        self.loaded = loaded
        self.clock = clock
        self.environ = environ

    @classmethod
    def open(
        cls,
        url: str | None = None,
        name: str | None = None,
        *,
        actor: str | None = None,
        config: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        cwd: Path | None = None,
        clock: Clock = system_clock,
    ) -> Self:
        """The board *name* of the store at *url*; both default to flags, environment and configuration.

        Raises `StoreMissing` and its kin (it never creates anything), `UnknownBoard`, `ConfigFault`.
        """
        at = address_of(url, name, actor=actor, config=config, environ=environ, cwd=cwd)
        return cls.at(at, environ=environ, clock=clock)

    @classmethod
    def at(cls, at: Address, *, environ: Mapping[str, str] = os.environ, clock: Clock = system_clock) -> Self:
        """The board at an address that is known already; raises as `open` does.

        A worker, whose result would be lost, waits a moment for a server that is away.
        """
        working = own_claim(environ) is not None
        engine = again(lambda: open_store(at.url)) if working else open_store(at.url)
        board = cls(engine, at.board, url=at.url, home=at.home, loaded=at.loaded, clock=clock, environ=environ)
        with board._closing_on_fault(), board.look() as desk:
            desk.settings  # noqa: B018 – the board must be there
        return board

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the store go."""
        self.engine.dispose()

    def do(self, command: Any, *, command_id: str | None = None, new: bool = False) -> Answer:
        """Decide and append *command* inside the board's lock. A *command_id* seen before gets its first answer.

        *new*: the id of its card was drawn just now, so nobody looks whether there is such a card; the keys would tell.
        """
        own = None if command_id else self.own_command_id()
        tries = count()
        answer, refusal = self.retried(
            lambda: self._once(command, command_id or own, first=next(tries) == 0, own=bool(own), new=new)
        )
        if refusal is not None:
            raise refusal
        return answer

    def own_command_id(self) -> str | None:
        """The id of a command that was given none: on a server an answer can be lost after the commit.

        With it the repetition finds what it has done. None where the store is a file.
        """
        return ids.command_id() if serves_hosts(self.engine) else None

    def retried(self, attempt: Callable[[], T]) -> T:
        """What *attempt* answers, as `again` does; the other writers that were first are counted."""
        others: list[WrongExpectedVersion] = []
        try:
            return again(attempt, met=others.append)
        finally:
            if others:
                self._count_conflicts(len(others))

    def _count_conflicts(self, others: int) -> None:
        """Best effort: what was asked for is done or refused by now, and a worker's role may not be let."""
        from kanban.measures import add
        from projections.measured import CONFLICTS

        with suppress(LedgerError), writing(self.engine) as tx:
            add(tx, self.name, self.host.id, instant_of(tx, self.clock), {CONFLICTS: others})

    def _once(
        self, command: Any, command_id: str | None, *, first: bool, own: bool, new: bool
    ) -> tuple[Answer, Exception | None]:
        task = str(getattr(command, "task", ""))
        with at_desk(self.engine, self.name, self.clock, tasks=[task] if task and not new else ()) as desk:
            known = None if own and first else command_id
            earlier = None if known is None else by_command(desk.tx, self.name, known)
            if earlier is not None:
                return self._answer(desk, earlier.task, changed=own, replayed=not own), None
            if task:
                (desk.know_new if new else desk.know_one)(task)
            decision = self._decided(desk, command)
            recorded = desk.write(decision, command_id=command_id)
            reach("before-verb-commit")
            shown, replayed = decision.replayed or task, decision.replayed is not None
            answer = self._answer(desk, shown, changed=bool(recorded), replayed=replayed, notes=decision.notes)
        reach("after-verb-commit")
        return answer, decision.refusal

    def _decided(self, desk: Desk, command: Any) -> c.Decision:
        from kanban.decide import decide

        return decide(desk, command, self.actor, self.own)

    def foresee(self, command: Any) -> list[dict[str, str]]:
        """The events that *command* would append now, as `{"task", "kind"}`; nothing is written."""
        with self.look() as desk:
            decision = self._decided(desk, command)
            if decision.refusal is not None:
                raise decision.refusal
            return [{"task": draft.task, "kind": draft.kind} for draft in decision.drafts]

    def _answer(
        self, desk: Desk, task: str, *, changed: bool, replayed: bool = False, notes: tuple[str, ...] = ()
    ) -> Answer:
        shown = desk.shown(task) if task else {}
        return Answer(shown, changed, desk.position, replayed, notes)

    def look(self) -> Any:
        """One snapshot of the board, for `projections.queries` and for folds."""
        return looking(self.engine, self.name, self.clock)

    @property
    def settings(self) -> Settings:
        """The board's identity, policy and pauses."""
        with self.look() as desk:
            return desk.settings  # type: ignore[no-any-return]  # `look` yields a Desk

    # Who is asking -----------------------------------------------------------------------------------------------

    @cached_property
    def host(self) -> Host:
        """This host."""
        return this_host(self.home)

    @cached_property
    def own(self) -> tuple[str, c.Credential] | None:
        """The card and lock of the worker whose environment this is, or none."""
        return own_claim(self.environ)

    @cached_property
    def actor(self) -> Actor:
        """The operator that acts here: `--actor`, configuration, or the user's name."""
        return _operator(self.loaded, self.environ, self.host)

    def _closing_on_fault(self) -> Any:
        from contextlib import ExitStack

        stack = ExitStack()

        def close(kind: object, *_: object) -> None:
            if kind is not None:
                self.close()

        stack.push(close)
        return stack


def operator(at: Address, environ: Mapping[str, str]) -> Actor:
    """Who acts at an address whose board may not be there yet."""
    return _operator(at.loaded, environ, this_host(at.home))


def _operator(loaded: Loaded, environ: Mapping[str, str], host: Host) -> Actor:
    return Actor(kind="operator", name=loaded.config.actor or _user(environ), host=host.id)


def _user(environ: Mapping[str, str]) -> str:
    from getpass import getuser

    try:
        return environ.get("USER") or getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"
