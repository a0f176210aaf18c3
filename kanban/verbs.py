"""The verbs of cards: what operators and workers do with a card, as methods (RULES §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from kanban import commands as c
from kanban.at_desk import at_desk
from kanban.decide import decide_beat
from kanban.desk import Desk
from kanban.failpoints import reach
from kanban.folders import run_folder
from kanban.lease_file import renew_file, uptime
from kanban.questions import Questions
from kanban.refusals import Forbidden, NothingToDo
from kanban.session import Answer
from kanban.worker.carrier import operators_only
from kanban.workspaces import check_spec
from ledger import ids
from ledger.database import reading, serves_hosts
from ledger.errors import InvalidInput
from ledger.events import Children
from projections import leases, queries
from projections.policy import SECOND

if TYPE_CHECKING:
    from kanban.claims import Granted
    from kanban.plan import Key


class Verbs(Questions):
    """One method a verb; each decides and appends inside the board's lock."""

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
        goal_max_turns: int | None = None,
        lane: Literal["work", "triage"] = "work",
        host: str | None = None,
        key: str | None = None,
        blocked: str | None = None,
        command_id: str | None = None,
    ) -> Answer:
        """A new card. *parents* are ids, or (id, `ok` | `any`); *max_runtime* is seconds; *blocked* parks it at birth.
        *goal_max_turns* gives it a goal: a run goes on until its judge agrees, so many turns at most (0 or less: 20).
        *host*, an id or a node name, is the only one whose sweep starts it; none: any.

        With an idempotency *key* the same request gives the first answer again, another one `Conflict`.
        """
        check_spec(workspace)
        links = tuple((parent, "ok") if isinstance(parent, str) else parent for parent in parents)
        command = c.Create(
            ids.task_id(), title, body, assignee, priority, links, tuple(labels), tenant, max_retries, max_runtime,
            workspace, goal_max_turns, lane, host, key, blocked, self._made_by(),
        )  # fmt: skip
        return self.do(command, command_id=command_id, new=True)

    def edit(self, task: str, **changes: Any) -> Answer:
        """Give fields new values: title, body, priority, labels, tenant, max_retries, max_runtime, workspace, lane.

        And goal: none, or {"max_turns": N}.
        """
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

        return self.retried(once)

    def _unblocked(self, desk: Desk, command: c.Unblock, *, dry_run: bool) -> Answer:
        decision = self._decided(desk, command)
        if not dry_run:
            desk.write(decision)
        return self._answer(desk, command.task, changed=bool(decision.drafts))

    def stop(self, task: str, *, run: int | None = None, reason: str = "stopped by an operator") -> Answer:
        """End the card's run, if there is one, and block the card until a person unblocks it.

        With *run* it is meant for that run alone: `LostClaim` once another, or none, is open.
        """
        return self.do(c.Block(task, reason, force=True, only_run=run))

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
        card, speaker = self._speaker(task, run, lock)
        claim = _needed(card, speaker)
        return self.retried(lambda: self._beaten(card, claim))

    def _beaten(self, card: str, claim: c.Credential) -> Answer:
        served = serves_hosts(self.engine)
        read_at = uptime() if served else 0
        known = [card] if served else []  # a file is asked at next to no price, and only for what a beat needs
        with at_desk(self.engine, self.name, self.clock, tasks=known) as desk:
            for each in known:
                desk.know_one(each)
            found, policy = decide_beat(desk, card, claim), desk.settings.policy
            lease = policy.lease * SECOND
            leases.renew(desk.rows, self.name, card, found.run, until=desk.now + lease, beat=desk.now)
            reach("before-verb-commit")
            answer = self._answer(desk, card, changed=True)
        reach("after-verb-commit")
        if not served:
            return answer
        try:
            renew_file(run_folder(self.home, self.name, card, found.run), found, self.host, read_at + lease, policy)
        except OSError as fault:
            return replace(answer, notes=(f"its supervisor does not hear of it: {fault.strerror}: {fault.filename}",))
        return answer

    def claim(self, task: str | None = None, *, assignee: str | None = None, pid: int | None = None) -> Granted:
        """Take a card by hand (none: the next one), and get its run's lock: the only copy.

        Raises `Taken`, `NotClaimable`, `Paused`, `NothingToDo`.
        """
        return self._granted(1, task, assignee, pid)[0]

    def claim_many(self, most: int, *, assignee: str | None = None) -> list[Granted]:
        """Take the next cards by hand, at most *most*, all in one transaction; none where nothing can be claimed.

        Raises `Paused`.
        """
        try:
            return self._granted(most, None, assignee, None)
        except NothingToDo:
            return []

    @cached_property
    def _own_caps(self) -> dict[str, int | None]:
        return {name: worker.max_running for name, worker in self.loaded.config.assignees.items()}

    def _granted(self, most: int, task: str | None, assignee: str | None, pid: int | None) -> list[Granted]:
        from kanban import claims

        if self.own is not None:
            raise Forbidden("a worker claims nothing: it has its card", task=self.own[0], remedy="ask an operator")
        caps, new_id = self._own_caps, self.own_command_id
        asks = [claims.HandClaim(task, assignee, pid, caps, ids.lock(), new_id()) for _ in range(most)]

        def once(gone: frozenset[Key] | None, *, known: bool) -> list[Granted]:
            """The claims; *known*: it was tried before, so they may have been granted. Raises `Unseen`."""
            with at_desk(self.engine, self.name, self.clock, tasks=() if task is None else [task]) as desk:
                earlier = claims.granted_before(desk, asks) if known else []
                granted = earlier or claims.claim_all(desk, asks, self.actor, self.host, gone)
                reach("before-verb-commit")
                return granted

        tries = count()
        try:
            granted = self.retried(lambda: once(None, known=next(tries) > 0))
        except claims.Unseen:  # nobody looks at processes while others wait for the board
            with reading(self.engine) as tx:
                gone = claims.seen_gone(tx, self.name, task, self.host)
            granted = self.retried(lambda: once(gone, known=True))
        reach("after-verb-commit")
        return granted

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


def _held_by(desk: Desk, cause: str) -> list[str]:
    blocked = queries.cards(desk.tx, desk.board, status="blocked", limit=None).cards
    return [card.id for card in blocked if card.hold == cause]


def _needed(task: str, claim: c.Credential | None) -> c.Credential:
    if claim is None:
        raise Forbidden(f"{task}: that is for the worker of a run", task=task, remedy="give --lock, or ledger claim")
    return claim
