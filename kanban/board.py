"""`Board`: the Python face, and the one place where store, clock, host and configuration meet.

with Board.open("sqlite:////srv/ledger.db") as board:
    card = board.create("Mend the parser", assignee="builder")
    board.sweep()
    print(board.why(card.task["id"]))
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from sqlalchemy import Engine

from kanban import commands as c
from kanban.address import Address, address_of
from kanban.claims import Granted, HandClaim, claim_by_hand, ending_cards
from kanban.config import Loaded
from kanban.decide import decide, decide_beat
from kanban.desk import Desk, again, at_desk, looking
from kanban.failpoints import reach
from kanban.hosts import Host, default_cap, this_host
from kanban.refusals import Forbidden
from kanban.snapshot import liftable
from kanban.starting import Shop
from kanban.sweep import Sweeper
from kanban.tick import Tick
from kanban.worker.carrier import operators_only, own_claim
from kanban.workspaces import check_spec
from ledger import ids
from ledger.clock import Clock, system_clock
from ledger.errors import InvalidInput, UnknownTask
from ledger.events import Actor, Children
from ledger.recorded import Recorded
from ledger.store import by_command, follow, read_board, read_task
from ledger.upgrade import open_store
from projections import leases, queries, read_models
from projections.budgets import lift
from projections.policy import SECOND, Policy
from projections.settings import Settings

if TYPE_CHECKING:
    from projections.replay import Replay


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command came to: the card (empty for the board's own), whether anything changed, and what to be told."""

    task: dict[str, Any]
    changed: bool
    position: int
    replayed: bool = False
    notes: tuple[str, ...] = ()


class Board:
    """One board of one store, as an operator, a worker or a dashboard uses it.

    Inside a worker's environment every act is that worker's (RULES §8). Refusals are raised as typed errors; see
    `ledger/errors.py` and `kanban/refusals.py`.
    """

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
        """The board at an address that is known already; raises as `open` does."""
        engine = open_store(at.url)
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

    # What was asked for ------------------------------------------------------------------------------------------

    def do(self, command: Any, *, command_id: str | None = None) -> Answer:
        """Decide and append *command* inside the board's lock. A *command_id* seen before gets its first answer."""
        answer, refusal = again(lambda: self._once(command, command_id))
        if refusal is not None:
            raise refusal
        return answer  # type: ignore[no-any-return]  # `again` is untyped on purpose

    def _once(self, command: Any, command_id: str | None) -> tuple[Answer, Exception | None]:
        with at_desk(self.engine, self.name, self.clock) as desk:
            earlier = None if command_id is None else by_command(desk.tx, self.name, command_id)
            if earlier is not None:
                return self._answer(desk, earlier.task, changed=False, replayed=True), None
            decision = self._decided(desk, command)
            recorded = desk.write(decision, command_id=command_id)
            reach("before-verb-commit")
            task = decision.replayed or str(getattr(command, "task", ""))
            answer = self._answer(
                desk, task, changed=bool(recorded), replayed=decision.replayed is not None, notes=decision.notes
            )
        reach("after-verb-commit")
        return answer, decision.refusal

    def _decided(self, desk: Desk, command: Any) -> c.Decision:
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
        shown = queries.task(desk.tx, self.name, task) if task else {}
        return Answer(shown, changed, desk.position, replayed, notes)

    def create(
        self,
        title: str,
        *,
        body: str | None = None,
        assignee: str | None = None,
        priority: int = 0,
        parents: Sequence[str | tuple[str, str]] = (),
        labels: Sequence[str] = (),
        tenant: str | None = None,
        max_retries: int | None = None,
        max_runtime: int | None = None,
        workspace: str = "scratch",
        lane: Literal["work", "triage"] = "work",
        key: str | None = None,
        blocked: str | None = None,
        command_id: str | None = None,
    ) -> Answer:
        """A new card. *parents* are ids, or (id, `ok` | `any`); *max_runtime* is seconds; *blocked* parks it at birth.

        With an idempotency *key* the same request gives the first answer again, another one `Conflict`.
        """
        check_spec(workspace)
        links = tuple((parent, "ok") if isinstance(parent, str) else parent for parent in parents)
        command = c.Create(
            ids.task_id(), title, body, assignee, priority, links, tuple(labels), tenant, max_retries, max_runtime,
            workspace, None, lane, None, key, blocked, self._made_by(),
        )  # fmt: skip
        return self.do(command, command_id=command_id)

    def edit(self, task: str, **changes: Any) -> Answer:
        """Give fields new values: title, body, priority, labels, tenant, max_retries, max_runtime, workspace, lane."""
        if "workspace" in changes:
            check_spec(changes["workspace"])
        return self.do(c.Edit(task, changes))

    def assign(self, task: str, to: str | None, *, force: bool = False) -> Answer:
        """Give the card to somebody, or nobody; in lane review it changes the reviewer."""
        return self.do(c.Assign(task, to, force))

    def link(self, child: str, parent: str, *, require: Literal["ok", "any"] = "ok") -> Answer:
        """Let *child* wait for *parent*. Inside a worker's environment the child is the worker's own card."""
        claim = self.own[1] if self.own is not None and self.own[0] == child else None
        return self.do(c.AddLink(child, parent, require, claim))

    def unlink(self, child: str, parent: str) -> Answer:
        """Let *child* wait no longer for *parent*."""
        return self.do(c.RemoveLink(child, parent))

    def comment(self, task: str, body: str) -> Answer:
        """Say something on a card, open or closed."""
        return self.do(c.Comment(task, body))

    def schedule(self, task: str, not_before: int, *, reason: str | None = None, force: bool = False) -> Answer:
        """Park the card until *not_before* (microseconds UTC)."""
        return self.do(c.Schedule(task, not_before, reason, force))

    def archive(self, task: str, *, children: Children | None = None, force: bool = False) -> Answer:
        """Put the card away. With open children say what becomes of them: `keep`, `unlink` or `cascade`."""
        return self.do(c.Archive(task, children, force))

    def reopen(self, task: str, *, reason: str | None = None) -> Answer:
        """Take a done or archived card back into work, counters from zero."""
        return self.do(c.Reopen(task, reason))

    def unblock(self, task: str, *, reason: str | None = None) -> Answer:
        """Lift the hold or the cooldown; counters from zero. Operators only."""
        return self.do(c.Unblock(task, reason))

    def unblock_many(
        self, tasks: Sequence[str] = (), *, cause: str | None = None, reason: str | None = None, dry_run: bool = False
    ) -> list[Answer]:
        """Lift the holds of *tasks*, or of every card held by *cause*: all of them, or none if one is refused."""
        operators_only(self.environ, "unblock")
        desks = self.look if dry_run else lambda: at_desk(self.engine, self.name, self.clock)

        def once() -> list[Answer]:
            with desks() as desk:
                chosen = list(tasks) if cause is None else _held_by(desk, cause)
                return [self._unblocked(desk, c.Unblock(task, reason), dry_run=dry_run) for task in chosen]

        return again(once)  # type: ignore[no-any-return]  # `again` is untyped on purpose

    def _unblocked(self, desk: Desk, command: c.Unblock, *, dry_run: bool) -> Answer:
        decision = self._decided(desk, command)
        if not dry_run:
            desk.write(decision)
        return self._answer(desk, command.task, changed=bool(decision.drafts))

    def stop(self, task: str, *, reason: str = "stopped by an operator") -> Answer:
        """End the card's run, if there is one, and block the card until a person unblocks it."""
        return self.do(c.Block(task, reason, force=True))

    def accept(self, task: str, run: int) -> Answer:
        """Complete the card with the late result of *run*."""
        return self.do(c.Accept(task, run))

    def complete(
        self,
        task: str | None = None,
        summary: str | None = None,
        *,
        outcome: Literal["ok", "fail"] = "ok",
        result: str | None = None,
        metadata: Any = None,
        used: c.Spent | None = None,
        force: bool = False,
        run: int | None = None,
        lock: str | None = None,
    ) -> Answer:
        """Finish the card: with a lock (or in a worker's environment) as its worker, else as an operator."""
        card, claim = self._speaker(task, run, lock)
        return self.do(c.Complete(card, summary, outcome, result, metadata, used, force, claim))

    def block(
        self,
        task: str | None,
        reason: str,
        *,
        kind: str | None = None,
        force: bool = False,
        run: int | None = None,
        lock: str | None = None,
    ) -> Answer:
        """Stop working on the card until a person unblocks it (kind `dependency`: until its parents are done)."""
        card, claim = self._speaker(task, run, lock)
        return self.do(c.Block(card, reason, kind, force, claim))

    def review(
        self,
        task: str | None = None,
        summary: str | None = None,
        *,
        reviewer: str | None = None,
        run: int | None = None,
        lock: str | None = None,
    ) -> Answer:
        """End the run and ask for a review."""
        card, claim = self._speaker(task, run, lock)
        return self.do(c.AskReview(card, _needed(card, claim), summary, reviewer))

    def changes(self, task: str | None, reason: str, *, run: int | None = None, lock: str | None = None) -> Answer:
        """Send the card in review back to its implementer."""
        card, claim = self._speaker(task, run, lock)
        return self.do(c.AskChanges(card, reason, claim))

    def progress(
        self,
        task: str | None = None,
        note: str | None = None,
        *,
        used: c.Spent | None = None,
        run: int | None = None,
        lock: str | None = None,
    ) -> Answer:
        """Say how the work goes, and what it used."""
        card, claim = self._speaker(task, run, lock)
        return self.do(c.Progress(card, _needed(card, claim), note, used))

    def heartbeat(self, task: str | None = None, *, run: int | None = None, lock: str | None = None) -> Answer:
        """Renew the lease of the caller's run: no event. Raises `LostClaim` once the run is over."""
        card, claim = self._speaker(task, run, lock)
        with at_desk(self.engine, self.name, self.clock) as desk:
            found = decide_beat(desk, card, _needed(card, claim))
            until = desk.now + desk.settings.policy.lease * SECOND
            leases.renew(desk.tx, self.name, card, found.run, until=until, beat=desk.now)
            reach("before-verb-commit")
            answer = self._answer(desk, card, changed=True)
        reach("after-verb-commit")
        return answer

    def claim(self, task: str | None = None, *, assignee: str | None = None, pid: int | None = None) -> Granted:
        """Take a card by hand (none: the next one), and get its run's lock: the only copy.

        Raises `Taken`, `NotClaimable`, `Paused`, `NothingToDo`.
        """
        if self.own is not None:
            raise Forbidden("a worker claims nothing: it has its card", task=self.own[0], remedy="ask an operator")
        with self.look() as desk:
            ending = ending_cards(desk, self.host)
        caps = {name: worker.max_running for name, worker in self.loaded.config.assignees.items()}
        ask = HandClaim(task, assignee, pid, caps)
        with at_desk(self.engine, self.name, self.clock) as desk:
            granted = claim_by_hand(desk, ask, self.actor, self.host, ending)
            reach("before-verb-commit")
        reach("after-verb-commit")
        return granted

    # The board's own ---------------------------------------------------------------------------------------------

    def pause(self, *, scope: str = "board", name: str = "", drain: bool = False, reason: str | None = None) -> Answer:
        """Claim nothing any more in that scope (`board`, `assignee`, `host`); *drain* also asks live runs to stop."""
        return self.do(c.Pause(scope, name, drain, reason))  # type: ignore[arg-type]  # Pydantic refuses other scopes

    def resume(self, *, scope: str = "board", name: str = "") -> Answer:
        """End the pause of that scope."""
        return self.do(c.Resume(scope, name))  # type: ignore[arg-type]  # Pydantic refuses other scopes

    def set_policy(self, **changes: int | None) -> Answer:
        """Change limits of the policy; says when a raised limit lifts no hold."""
        before = self.settings.policy
        answer = self.do(c.SetPolicy(changes))
        raised = [name for name, value in changes.items() if _is_raised(before, name, value)]
        with self.look() as desk:
            standing = liftable(desk.tx, self.name)
            lifts = [task.id for task in standing if lift(task, desk.settings.policy) is not None]
        if answer.changed and raised and standing and not lifts:
            note = f"raising {', '.join(raised)} lifts no hold: {len(standing)} cards stay at some other limit"
            return Answer(answer.task, answer.changed, answer.position, answer.replayed, (note,))
        return answer

    # The sweep and the audit -------------------------------------------------------------------------------------

    @cached_property
    def sweeper(self) -> Sweeper:
        """This host's dispatcher of the board; it lives as long as this value, to reap what it starts."""
        if self.own is not None:
            raise Forbidden("a worker does not sweep", task=self.own[0], remedy="run ledger sweep as an operator")
        config = self.loaded.config
        shop = Shop(
            engine=self.engine,
            board=self.name,
            clock=self.clock,
            home=self.home,
            host=self.host,
            url=self.url,
            environ=self.environ,
            log_limit=config.log_limit,
        )
        return Sweeper(shop, dict(config.assignees), config.max_running or default_cap())

    def sweep(self, *, dry_run: bool = False, most: int | None = None) -> Tick:
        """One tick: book what ended, stop, renew, lift, and start what may start (RULES §7)."""
        return self.sweeper.tick(dry_run=dry_run, most=most)

    def replay(
        self,
        *,
        task: str | None = None,
        until: int | None = None,
        strict: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Replay:
        """Refold the whole log and compare it with what is stored (RULES §9)."""
        from projections.replay import replay

        return replay(self.engine, self.name, task=task, until=until, strict=strict, progress=progress)

    def rebuild(self) -> int:
        """Fold the projections anew beside the old ones and swap them; the position they stand at."""
        operators_only(self.environ, "db rebuild")
        return read_models.rebuild(self.engine, self.name)

    # Questions: nothing below appends anything -------------------------------------------------------------------

    def look(self) -> Any:
        """One snapshot of the board, for `projections.queries` and for folds."""
        return looking(self.engine, self.name, self.clock)

    def why(self, task: str, topic: str | None = None) -> dict[str, Any]:
        """Why the card stands where it stands, with event positions and what to run next."""
        with self.look() as desk:
            return queries.why(desk.tx, self.name, task, now=desk.now, topic=topic)

    def show(self, task: str) -> dict[str, Any]:
        """One card whole."""
        with self.look() as desk:
            return queries.show(desk.tx, self.name, task)

    def tasks(self, **filters: Any) -> dict[str, Any]:
        """Cards in one order, filtered; see `projections.queries.list_tasks`."""
        with self.look() as desk:
            return queries.list_tasks(desk.tx, self.name, **filters)

    def columns(self) -> dict[str, Any]:
        """The board in columns."""
        with self.look() as desk:
            return queries.board(desk.tx, self.name)

    def stats(self) -> dict[str, Any]:
        """How many cards stand where."""
        with self.look() as desk:
            return queries.stats(desk.tx, self.name, desk.now)

    def runs(self, task: str) -> dict[str, Any]:
        """Every run of a card."""
        with self.look() as desk:
            return queries.runs(desk.tx, self.name, task)

    def events(self, task: str | None = None, *, after: int = 0) -> Iterator[Recorded]:
        """The log after position *after*, or one card's stream, in order."""
        with self.look() as desk:
            if task is None:
                yield from read_board(desk.tx, self.name, after=after)
                return
            if desk.task(task) is None:
                raise UnknownTask(task)
            yield from (event for event in read_task(desk.tx, self.name, task) if event.position > after)

    def follow(self, *, after: int = 0) -> Iterator[Recorded]:
        """The log after *after*, for ever."""
        return follow(self.engine, self.name, after=after)

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

    def _speaker(self, task: str | None, run: int | None, lock: str | None) -> tuple[str, c.Credential | None]:
        """The card, and the claim that speaks for it: given, or from the worker's environment; none: an operator."""
        own = self.own
        card = task if task is not None or own is None else own[0]
        if card is None:
            raise InvalidInput("no card is named, and this is no worker's environment", remedy="name the card's id")
        if lock is not None:
            return card, c.Credential(lock, run)
        if own is not None and own[0] == card:
            return card, c.Credential(own[1].lock, run or own[1].run)
        if run is not None:
            raise InvalidInput(f"{card}: run {run} is named without its lock", task=card, remedy="give --lock too")
        return card, None

    def _made_by(self) -> tuple[str, int] | None:
        return None if self.own is None else (self.own[0], self.own[1].run or 0)

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


def _held_by(desk: Desk, cause: str) -> list[str]:
    blocked = queries.list_tasks(desk.tx, desk.board, status="blocked", limit=None)["tasks"]
    return [task["id"] for task in blocked if task["hold"]["cause"] == cause]


def _needed(task: str, claim: c.Credential | None) -> c.Credential:
    if claim is None:
        raise Forbidden(f"{task}: that is for the worker of a run", task=task, remedy="give --lock, or ledger claim")
    return claim


def _is_raised(before: Policy, name: str, value: int | None) -> bool:
    was = getattr(before, name)
    return name.endswith("_limit") and value is not None and was is not None and value > was


def _user(environ: Mapping[str, str]) -> str:
    try:
        return environ.get("USER") or getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"
