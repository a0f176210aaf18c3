"""A run that somebody waits for: claimed for them, started, stopped and booked by the sweep's own steps (RULES §6–8).

Nothing depends on the process that waits. A sweep that is at work at the same time, or comes after this process was
killed, sees the same log and the same evidence, and does the same; whichever is first does it, once.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanban.admission import caps_of, live_of, refuse
from kanban.again import PATIENCE
from kanban.at_desk import at_desk, looking
from kanban.booking import decide_step
from kanban.claims import claimant
from kanban.commands import known
from kanban.config import Assignee
from kanban.desk import Desk
from kanban.evidence import Evidence, read_evidence
from kanban.folders import LOG, check_room, run_folder
from kanban.hosts import Host
from kanban.lease_file import uptime
from kanban.observe import observe, owned_of
from kanban.plan import UNSEEN, AskStop, Lease, Renew, Seen, Signal, Step, end_group, settle
from kanban.processes import Presence
from kanban.refusals import NotClaimable
from kanban.sharing import keep_told
from kanban.snapshot import Watched, spawned_here, watch
from kanban.starting import Claim, open_run, start
from kanban.sweep import Sweeper, remaining_of
from kanban.tick import Tick
from kanban.tidy import tidy
from kanban.worker.carrier import operators_only
from kanban.worker.ears import Ears, hearing
from kanban.worker.exits import COME_BACK, CONFIGURATION, DONE, FAILED, INTERRUPTED
from ledger.clock import SECOND
from ledger.errors import StoreBusy, StoreFault, StoreUnreachable
from ledger.events import Actor, Outcome
from ledger.ids import opens
from projections import leases
from projections.run import Run
from projections.settings import Settings
from projections.task import Task

if TYPE_CHECKING:
    from kanban.board import Board

LOOK: Final = 0.5
"""Seconds between two looks at the board; a signal and the end of the run are noticed at once."""
_FORWARDED: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM})
_CODES: Final[dict[str | None, int]] = {
    Outcome.CLEAN: DONE,
    Outcome.RATE_LIMITED: COME_BACK,
    Outcome.CONFIG: CONFIGURATION,
    Outcome.SPAWN_FAILED: CONFIGURATION,
    Outcome.INTERRUPTED: INTERRUPTED,
}
_UNJUDGED: Final = "the card has a goal and no judge looks at this command: exit 0 alone does not close it"


@dataclass(frozen=True, slots=True)
class Ask:
    """Which card to run, for whom where it is nobody's, and what; an empty command is its assignee's own."""

    task: str
    assignee: str | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attended:
    """What became of a run. *lost*: it was another's to end, or nobody's, before its processes were gone."""

    run: Run
    log: Path
    evidence: Evidence
    lost: bool
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """The code for whoever waited: 0, 1, 75, 78 or 130. A lost run that said 75 may be asked for again."""
        if self.lost:
            return COME_BACK if self.evidence.code == COME_BACK else FAILED
        if self.run.ended_by != "exited":
            return DONE
        return _CODES.get(self.run.outcome, FAILED)


def attend(board: Board, ask: Ask, begun: Callable[[str, int, Path], None]) -> Attended:
    """Claim the card, start its worker and wait for its end; *begun* is told the card, the run and its log first.

    Raises `Forbidden` inside a worker, what a claim by hand raises, and `NotClaimable` also where the host's cap is
    reached or no command is known; then nothing was started. A fault of the store ends the wait, not the run.
    """
    operators_only(board.environ, "worker run")
    sweeper = board.sweeper
    with hearing(*_FORWARDED, signal.SIGCHLD) as ears:
        claim = _claimed(sweeper, ask, board.actor, ears)
        attendant = Attendant.of(sweeper, claim, board.actor)
        fault = start(sweeper.shop, [claim], attendant.children, board.actor)[0].fault
        with suppress(OSError, ValueError):  # a caller that cannot say it waits all the same
            begun(claim.task.id, claim.run, attendant.folder / LOG)
        if fault is not None:
            attendant.told.notes.append(fault)
        if ask.command and _closes_unjudged(sweeper.workers.get(claim.worker.name, claim.worker), claim.task):
            attendant.told.notes.append(_UNJUDGED)
        return attendant.wait(ears)


def _claimed(sweeper: Sweeper, ask: Ask, actor: Actor, ears: Ears) -> Claim:
    """Open the run as a sweep would, the host's cap included: it is spawned. What was heard before begins nothing."""
    shop = sweeper.shop
    check_room(shop.home)
    with looking(shop.engine, shop.board, shop.clock) as desk:
        ending = watch(desk.tx, desk.board).ending
    seen = observe(ending, shop.host, shop.home, shop.shared)
    with at_desk(shop.engine, shop.board, shop.clock) as desk:
        if _FORWARDED & set(ears.heard):
            raise KeyboardInterrupt
        task = known(desk, ask.task)
        _refuse_elsewhere(shop.host, task)
        worker = _hired(sweeper, ask, task, claimant(task, ask.assignee, actor))
        remain = remaining_of(watch(desk.tx, desk.board), seen, shop.host.id)
        live = live_of(desk.live(), spawned_here(desk.tx, shop.host.id) + len(remain))
        caps = caps_of(desk.settings, worker.name, live, own_cap=worker.max_running, host_cap=sweeper.cap)
        still = any((left.board, left.run.task) == (desk.board, task.id) for left in remain)
        refuse(desk, task, worker.name, shop.host.id, caps, ending=still)
        return open_run(desk, task, worker, caps=caps, host=shop.host, actor=actor)


def _refuse_elsewhere(host: Host, task: Task) -> None:
    """Raise `NotClaimable` for a card that is placed on another host: whatever runs it here is spawned here."""
    if task.card.host is not None and task.card.host not in host.names:
        there = f"it is placed on {task.card.host}, and this is {host.name}, id {host.id}"
        raise NotClaimable(task.id, "placed_elsewhere", there)


def _hired(sweeper: Sweeper, ask: Ask, task: Task, name: str) -> Assignee:
    """Who works: the assignee as configured; a command of the caller's takes the place of theirs, and goes on never."""
    configured: Assignee | None = sweeper.workers.get(name)
    if configured is None or configured.human:
        if not ask.command:
            reason = "unknown_assignee" if configured is None else "waiting_for_person"
            raise NotClaimable(task.id, reason, f"{name} has no command; write one after --")
        return Assignee.model_construct(name=name, command=ask.command)
    if not ask.command:
        if not sweeper.shop.host.is_among(configured.hosts):
            raise NotClaimable(task.id, "placed_elsewhere", f"{name} is started on {', '.join(configured.hosts)} alone")
        return configured
    own: dict[str, object] = {"command": ask.command, "resume": (), "retry": (), "judge": ()}
    if _closes_unjudged(configured, task):
        own["on_success"] = "violation"
    return configured.model_copy(update=own)


def _closes_unjudged(worker: Assignee, task: Task) -> bool:
    """Whether exit 0 of another command, which no judge looks at, would close a goal."""
    return worker.on_success == "complete" and task.card.goal_max_turns is not None and task.lane == "work"


@dataclass(slots=True, kw_only=True)
class Attendant(Sweeper):
    """The dispatcher of one run. *run*, *lease*, *settings* and *now* are as the board was last seen.

    *read_at* is this machine's `uptime`, read before that.
    """

    lock: str = field(repr=False)
    by: Actor
    run: Run
    lease: Lease
    settings: Settings
    now: int
    read_at: int
    told: Tick
    lost: bool = False

    @classmethod
    def of(cls, sweeper: Sweeper, claim: Claim, by: Actor) -> Attendant:
        """The attendant of the run that *by* has just claimed."""
        shop, run, read_at = sweeper.shop, Run(claim.task.id, claim.run), uptime()
        with looking(shop.engine, shop.board, shop.clock) as desk:
            made = cls(
                shop=shop, workers=sweeper.workers, cap=sweeper.cap, children=sweeper.children,
                lock=claim.lock, by=by, run=run, lease=Lease(desk.now, None, row=False),
                settings=desk.settings, now=desk.now, read_at=read_at, told=Tick(desk.now),
            )  # fmt: skip
            made._know(desk, read_at)
        return made

    @property
    def folder(self) -> Path:
        """The run's own."""
        return run_folder(self.shop.home, self.shop.board, self.run.task, self.run.run)

    def wait(self, ears: Ears) -> Attended:
        """Look after the run until it has ended and none of its processes is left."""
        while not self._is_over(ears):
            ears.wait(LOOK)
        if not self.lost:
            with looking(self.shop.engine, self.shop.board, self.shop.clock) as desk:
                self.told.notes += tidy(desk, self.shop.home)
        notes = tuple(dict.fromkeys((*self.told.notes, *(str(each["error"]) for each in self.told.errors))))
        return Attended(
            self.run, self.folder / LOG, read_evidence(self.folder, self.run.run, owned_of(self.run)), self.lost, notes
        )

    def _is_over(self, ears: Ears) -> bool:
        """One look and what follows from it. While the store cannot be asked a run goes on until its lease is over.

        The end of one that has ended is kept for a server that is away for a moment.
        """
        self.children.reap()
        read_at = uptime()
        try:
            with looking(self.shop.engine, self.shop.board, self.shop.clock) as desk:
                self._know(desk, read_at)
            self._forward(ears)
            seen = self._see()
            self.lost = self.lost or (self.run.ended_by == "exited" and bool(seen.members))
            return self._ended(seen) if self.lost else self._settled(seen)
        except StoreBusy:
            self._send(ears)
            return False
        except StoreFault as fault:
            seen = self._see()
            if not seen.members and not self.lost:
                if isinstance(fault, StoreUnreachable) and uptime() - self.read_at < PATIENCE * SECOND:
                    return False
                raise self._unbooked(fault) from fault
            self._note(f"the store could not be asked whether the run goes on: {fault}")
            self._send(ears)
            self.lost = self.lost or self._store_now() > self.lease.until
            return self._ended(seen) if self.lost else False

    def _unbooked(self, fault: StoreFault) -> StoreFault:
        """The fault of a store that hears of the run's end no more; nobody is to found another one."""
        ended = f"{self.run.task} run {self.run.run} has ended{' and is not booked' if self.run.open else ''}"
        remedy = "bring the store back, then ledger sweep"
        return StoreFault(f"{ended}: {fault.message}", task=self.run.task, remedy=remedy)

    def _note(self, what: str) -> None:
        """Tell it at the end, once however often it is met."""
        if what not in self.told.notes:
            self.told.notes.append(what)

    def _store_now(self) -> int:
        """The store's instant, without asking it: what has passed here since it was asked, where the clock is its own.

        The lease is over by then, if the reading of this clock came first.
        """
        return self.now + uptime() - self.read_at if self.shop.shared else self.shop.clock()

    def _know(self, desk: Desk, read_at: int) -> None:
        """Take note of what the board says now; a run with another lock, or none, is not this one."""
        self.settings, self.now, self.read_at = desk.settings, desk.now, read_at
        found = desk.run(self.run.task, self.run.run)
        if found is None or not opens(self.lock, found.lock_hash):
            self.lost = True
            return
        leased = leases.lease_of(desk.tx, desk.board, found.task, found.run)
        self.run, self.lease = found, Lease(*(leased or (found.lease_until, None)), row=leased is not None)
        self.lost = found.outcome == Outcome.LOST or (self.lost and not found.open)

    def _see(self) -> Seen:
        """What this host sees of the run's processes and files."""
        watched = Watched(self.shop.board, self.run, self.lease)
        seen = observe((watched,), self.shop.host, self.shop.home, self.shop.shared)
        return next(iter(seen.values()), UNSEEN)

    def _settled(self, seen: Seen) -> bool:
        """Do what a sweep would now do about this run; whether it has ended and nobody of it is left."""
        if not self._steps(seen):
            self._keep_told()
            return not self.run.open and not seen.members
        read_at = uptime()
        with at_desk(self.shop.engine, self.shop.board, self.shop.clock) as desk:
            self._know(desk, read_at)
            steps = [] if self.lost else self._steps(seen)
            done = [told for step in steps for told in self.booker.do(self.told, desk, step)]
            self._know(desk, read_at)
        self._keep_told()
        self._signal(self.told, [step for step in done if isinstance(step, Signal)], self.now)
        self._name_escaped(self.told, steps)
        return not self.run.open and not seen.members

    def _keep_told(self) -> None:
        """Let the supervisor know of the lease, as the board was last seen."""
        held, shift = ((self.run, self.lease),) if self.run.open else (), self.read_at - self.now
        keep_told(self.told, self.shop, held, shift=shift, policy=self.settings.policy)

    def _steps(self, seen: Seen) -> list[Step]:
        """The plan of this run alone; its lease is renewed whenever a third of it has passed."""
        run, lease, key, here = self.run, self.lease, (self.run.task, self.run.run), self._here_at(self.now)
        if not run.open:
            left = [run] if lease.row else []
            return settle(self.now, self.settings, here, open_runs=(), ending=left, liftable=(), seen={key: seen})
        steps = settle(
            self.now, self.settings, here, open_runs=((run, lease),), ending=(), liftable=(), seen={key: seen}
        )
        length = self.settings.policy.lease * SECOND
        due = seen.presence is Presence.ALIVE and bool(seen.members) and lease.until - self.now <= length * 2 // 3
        if due and not any(isinstance(step, Renew) for step in steps):
            steps.append(Renew(run, self.now + length))
        return steps

    def _ended(self, seen: Seen) -> bool:
        """End the processes of a run that is not ours any more, with no word to the board; whether none is left."""
        now = self._store_now()
        steps = end_group(now, self.settings.policy, self.run, seen) if seen.members else []
        self._signal(self.told, steps, now)
        self._name_escaped(self.told, steps)
        return not seen.members

    def _forward(self, ears: Ears) -> None:
        """Hand on what this process was told. To an open run that is a stop, which stands before any signal (§7.2)."""
        if self.run.open and not self.lost and not self.run.stops and _FORWARDED & set(ears.heard):
            read_at = uptime()
            with at_desk(self.shop.engine, self.shop.board, self.shop.clock) as desk:
                asked = AskStop(self.run, "operator", desk.now, None)
                desk.write(decide_step(desk, asked, self.by, self.booker.observer))
                self._know(desk, read_at)
        self._send(ears)

    def _send(self, ears: Ears) -> None:
        """Signal the group with all that was heard and is for it."""
        heard = [Signal(self.run, number) for number in ears.take() if number in _FORWARDED]
        self._signal(self.told, heard, self._store_now())
