"""One tick of the dispatcher: observe, plan, apply (RULES §7).

Observe looks at processes and files with no transaction open. Plan is pure. Apply is one transaction, in which the
board is read again and the plan made again, so nothing that was read before the lock takes part in a decision, and
from which what fails on one card can be taken back alone; then signals are sent and workers started. A kill between
any two steps loses nothing: the next tick, by whichever process, finds the same log and the same evidence.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanban import snapshot
from kanban.admission import Live, caps_of, live_of
from kanban.applying import Booker, card_of, guarded, renewed
from kanban.at_desk import at_desk, looking
from kanban.commands import Foresight
from kanban.desk import Desk
from kanban.failpoints import reach
from kanban.folders import check_room, make_private, run_folder, write_ending
from kanban.lease_file import uptime
from kanban.lookback import Lookback
from kanban.measures import Measures
from kanban.observe import Place, observe, of_board
from kanban.plan import Admission, Book, Forget, Here, Signal, Start, Step, Worker, admit, settle
from kanban.processes import ProcessTable
from kanban.sharing import keep_told, leases_of, name_doubles, started_at
from kanban.spawn import Children
from kanban.standing import by_reason, held_changes, keep_held, stamp, stamp_is_due
from kanban.starting import Claim, Shop, open_run, start
from kanban.tick import Tick, note_error
from kanban.tidy import tidy
from kanban.tracing import recent_runs, tracing_of
from ledger.events import Actor
from ledger.memory import Memory
from ledger.recorded import Draft
from projections.queries import next_at
from projections.run import Run
from projections.task import Task
from projections.uncollected import uncollected

if TYPE_CHECKING:
    from kanban.spans import Tracing


@dataclass(slots=True)
class Sweeper:
    """The dispatcher of one board on this host. It holds the children that it started, to reap them."""

    shop: Shop
    workers: dict[str, Any]
    cap: int
    children: Children = field(default_factory=Children)
    memory: Memory = field(default_factory=Memory)
    measures: Measures = field(init=False)
    tracing: Tracing | None = field(init=False)
    lookback: Lookback = field(init=False)

    def __post_init__(self) -> None:
        self.lookback = Lookback(self.shop.engine, self.shop.board)
        self.tracing = tracing_of(self.shop.environ)
        self.measures = Measures.of(self.shop.home, self.shop.board)

    @property
    def here(self) -> Here:
        """This host, as a plan sees it."""
        return self._here_at(None)

    def _here_at(self, now: int | None) -> Here:
        """This host at the store's instant *now*: where hosts share the store, its own start is one too."""
        host = self.shop.host
        staff = {
            name: Worker(worker.human, worker.max_running, host.is_among(worker.hosts))
            for name, worker in self.workers.items()
        }
        return Here(host.id, host.boot, self.cap, staff, None if now is None else started_at(self.shop, now))

    @property
    def actor(self) -> Actor:
        """A sweep has one name on every host, so the same death is booked alike by any of them."""
        return Actor(kind="sweep", name="sweep", host=self.shop.host.id)

    def tick(self, *, dry_run: bool = False, most: int | None = None) -> Tick:
        """Look, plan and act once. *most* bounds the claims of this tick. Reports `lock held` if another is at it."""
        self.children.reap()
        tick = Tick(self.shop.clock(), dry_run)
        if dry_run:
            self._foresee(tick, most)
            return tick
        tracing = self.tracing
        with _only_one(self.shop.home) as alone:
            if not alone:
                tick.skipped = "lock held"
                return tick
            told = nullcontext() if tracing is None else tracing.ticking(self.shop.board, self.shop.host.id, tick)
            with told, uncollected():  # writers wait for a tick, and none is to wait for a search for garbage
                self._act(tick, most)
            untaken = self.lookback.take(tick.position)
            if untaken is not None:
                tick.errors.append({"task": None, "error": untaken})
        self.children.reap()
        return tick

    def _act(self, tick: Tick, most: int | None) -> None:
        reach("before-observe")
        seen = self._observe(tick)
        tick.laps.end("observe")
        reach("after-observe")
        most = self._as_far_as_there_is_room(tick, most)
        claims: list[Claim] = []
        nothing = self._changes_nothing(tick, seen, most)
        tick.laps.end("plan")
        self.measures.take(tick.laps.told)
        if nothing:
            return
        read_at = uptime()
        with at_desk(self.shop.engine, self.shop.board, self.shop.clock) as desk:
            watch = self._watch(desk)
            desk.know(watched.run for watched in watch.open)
            steps = self._settle(tick, desk, watch, seen)
            done = self.booker.apply(tick, desk, steps)
            admission = self._admit(desk, self._candidates(tick, desk), watch, seen, most)
            remaining = len(remaining_of(watch, seen, self.here.host))
            for card in admission.starts:
                claim = guarded(tick, desk, card.task.id, partial(self._claim, desk, card, remaining))
                claims += [] if claim is None else [claim]
            keep_held(desk, self.shop.host.id, admission, tick)
            changed = bool(steps or claims)
            stamp(desk, self.shop.host.id, tick, changed=changed)
            self._next_at(desk)  # asked again at the end, and whoever meets damage there has started workers
            trace = self._measure(desk)
            at, policy = desk.now, desk.settings.policy
            reach("before-apply-commit")
        reach("after-claim-commit")
        trace()
        keep_told(tick, self.shop, leases_of(watch, renewed(done)), shift=read_at - at, policy=policy)
        self._signal(tick, [step for step in done if isinstance(step, Signal)], at)
        reach("after-signal")
        self._name_escaped(tick, steps)
        tick.laps.end("apply")
        self._start(tick, claims)
        tick.laps.end("start")
        self.measures.keep(tick.laps.told[2:])
        with looking(self.shop.engine, self.shop.board, self.shop.clock) as desk:
            tick.notes += tidy(desk, self.shop.home)
            self._sum_up(tick, desk)

    def _measure(self, desk: Desk) -> Callable[[], None]:
        """Write down what was measured and counted; what tells of the runs that ended, once that is committed."""
        ended = self.measures.write(desk.tx, self.shop.host.id, desk.position, desk.now)
        if self.tracing is None:
            return _nothing
        return partial(self.tracing.runs, self.shop.board, desk.settings.board_id, recent_runs(desk, ended))

    def _as_far_as_there_is_room(self, tick: Tick, most: int | None) -> int | None:
        """*most*, but none where a worker's files could not be written: what cannot be started is not claimed."""
        try:
            check_room(self.shop.home)
        except OSError as fault:
            said = f"nothing is started: {self.shop.home} cannot be written: {fault.strerror}"
            tick.errors.append({"task": None, "error": said})
            return 0
        return most

    def _foresee(self, tick: Tick, most: int | None) -> None:
        """Fill *tick* with what a real one would do: reads only."""
        seen = self._observe(tick)
        with looking(self.shop.engine, self.shop.board, self.shop.clock) as desk:
            watch = self._watch(desk)
            drafts: list[Draft] = []
            steps = self._settle(tick, desk, watch, seen)
            sight, booker = Foresight(desk, desk.position), self.booker
            for step in steps:
                told = guarded(tick, desk, card_of(step), partial(booker.foretell, tick, sight.view, step)) or []
                sight.take(told)
                drafts += told
            moved = snapshot.foreseen(desk, drafts)
            standing = self._candidates(tick, desk)
            cards = snapshot.merged(standing, moved, desk.now, self.shop.host.names) if moved else standing
            booked = sum(isinstance(step, Book) for step in steps)
            admission = self._admit(desk, cards, watch, seen, most, booked=booked, steps=steps)
            tick.claimed = [
                {"task": card.task.id, "run": card.task.last_run + 1, "pid": None} for card in admission.starts
            ]
            tick.held = by_reason(admission)
            self._sum_up(tick, desk)

    def _observe(self, tick: Tick) -> dict[Place, Any]:
        with looking(self.shop.engine, self.shop.board, self.shop.clock) as desk:
            watch = self._watch(desk)
            tick.at = desk.now
        seen = observe(watch.everyone(), self.shop.host, self.shop.home, self.shop.shared)
        tick.present = sum(bool(found.members) for found in of_board(seen, self.shop.board).values())
        return seen

    def _watch(self, desk: Desk) -> snapshot.Watch:
        return self.memory.of(desk.rows, "watch", lambda: snapshot.watch(desk.rows, desk.board))

    def _open(self, desk: Desk) -> tuple[Run, ...]:
        return self.memory.of(desk.rows, "open", desk.live)

    def _live(self, desk: Desk, *, ending: int) -> Live:
        """The live counts of the board, with *ending* groups of ended runs that still use this host."""
        host = self.shop.host.id
        spawned = self.memory.of(desk.rows, f"spawned on {host}", lambda: snapshot.spawned_here(desk.rows, host))
        return live_of(self._open(desk), spawned + ending)

    def _settle(self, tick: Tick, desk: Desk, watch: snapshot.Watch, seen: dict[Place, Any]) -> list[Step]:
        for task, error in watch.errors:
            note_error(tick, task, error)
        here, open_runs = self._here_at(desk.now), [(watched.run, watched.lease) for watched in watch.open]
        name_doubles(tick, here, desk.settings.policy, open_runs)
        return settle(
            desk.now,
            desk.settings,
            here,
            open_runs=open_runs,
            ending=[watched.run for watched in watch.ending if watched.board == desk.board],
            liftable=snapshot.liftable(desk.rows, desk.board, partial(note_error, tick)),
            seen=of_board(seen, desk.board),
        )

    def _candidates(self, tick: Tick, desk: Desk) -> Iterator[Task]:
        return snapshot.candidates(desk.rows, desk.board, desk.now, self.shop.host.names, partial(note_error, tick))

    def _admit(
        self,
        desk: Desk,
        cards: Iterable[Task],
        watch: snapshot.Watch,
        seen: dict[Place, Any],
        most: int | None,
        *,
        booked: int = 0,
        steps: Iterable[Step] = (),
    ) -> Admission:
        remain = remaining_of(watch, seen, self.here.host)
        ended = {step.run.task for step in steps if isinstance(step, Book)}
        live = self._live(desk, ending=len(remain))
        if booked:
            left = [run for run in self._open(desk) if run.task not in ended]
            gone = [run for run in self._open(desk) if run.task in ended and _holds_slot(run, self.here.host)]
            live = live_of(left, live.host - len(gone))
        ending = frozenset(w.run.task for w in remain if w.board == desk.board)
        return admit(desk.now, desk.settings, self.here, cards, live, ending=ending, most=most)

    def _changes_nothing(self, tick: Tick, seen: dict[Place, Any], most: int | None) -> bool:
        """Whether a tick on this snapshot would write nothing: then no write transaction is opened, and all is told."""
        read_at = uptime()
        with looking(self.shop.engine, self.shop.board, self.shop.clock) as desk:
            watch = self._watch(desk)
            if self._settle(tick, desk, watch, seen):
                return False
            admission = self._admit(desk, self._candidates(tick, desk), watch, seen, most)
            if (
                tick.errors
                or admission.starts
                or held_changes(desk, self.shop.host.id, admission)
                or stamp_is_due(desk, self.shop.host.id)
            ):
                return False
            tick.held = by_reason(admission)
            self._sum_up(tick, desk)
            at, policy = desk.now, desk.settings.policy
        keep_told(tick, self.shop, leases_of(watch, {}), shift=read_at - at, policy=policy)
        return True

    def _claim(self, desk: Desk, card: Start, remaining: int) -> Claim:
        """Open the run. The caps are counted again: a claim before this one may have failed alone."""
        worker = self.workers[card.worker]
        live = self._live(desk, ending=remaining)
        caps = caps_of(desk.settings, card.worker, live, own_cap=worker.max_running, host_cap=self.cap)
        claim = open_run(desk, card.task, worker, caps=caps, host=self.shop.host, actor=self.actor)
        if self.tracing is None:
            return claim
        return replace(claim, traceparent=self.tracing.traceparent(desk.settings.board_id, card.task.id, claim.run))

    def _signal(self, tick: Tick, signals: Iterable[Signal], at: int) -> None:
        """TERM or KILL, to a verified group only; the first time, *at*, is written down for every later tick."""
        for step in signals:
            run = step.run
            if run.group is None or not ProcessTable.signal(run.group, self.shop.host, step.signum):
                continue
            tick.stopped.append({"task": run.task, "run": run.run, "signal": int(step.signum)})
            reach("after-first-signal")
            folder = run_folder(self.shop.home, self.shop.board, run.task, run.run)
            try:
                write_ending(make_private(folder), at)
            except OSError as fault:
                note_error(tick, run.task, f"when it was told to end could not be written: {fault}")

    def _name_escaped(self, tick: Tick, steps: Iterable[Step]) -> None:
        """Name what left the group of a run that is signalled or over: it is never signalled itself."""
        runs = (step.run for step in steps if isinstance(step, Book | Forget | Signal) and step.run.by == "spawn")
        bound = {(run.task, run.run): run.group for run in runs if run.group is not None}
        groups = {key: binding.group for key, binding in bound.items()}
        first = min((binding.start_tick for binding in bound.values()), default=0)
        escaped = ProcessTable.in_groups().escaped(self.shop.board, groups, since=first) if groups else {}
        for (task, _), pids in sorted(escaped.items()):
            tick.notes.append(f"{task}: left its group, not signalled: {', '.join(map(str, pids))}")

    def _start(self, tick: Tick, claims: list[Claim]) -> None:
        if not claims:
            return
        for started in start(self.shop, claims, self.children, self.actor):
            tick.claimed.append({"task": started.task, "run": started.run, "pid": started.pid})
            if started.fault is not None:
                tick.notes.append(f"{started.task}: run {started.run} was not started: {started.fault}")

    def _sum_up(self, tick: Tick, desk: Desk) -> None:
        tick.live = len(self._open(desk))
        tick.position = desk.position
        tick.next_at = self._next_at(desk)

    def _next_at(self, desk: Desk) -> int | None:
        """When time alone frees the next card; asked anew once that has come."""
        asked, found = self.memory.of(
            desk.rows, "next_at", lambda: (desk.now, next_at(desk.rows, desk.board, desk.now))
        )
        if asked <= desk.now and (found is None or desk.now < found):
            return found
        return next_at(desk.rows, desk.board, desk.now)

    @property
    def booker(self) -> Booker:
        """Who does the steps of a plan: this process, in the name of all sweeps."""
        return Booker(self.actor, f"{self.shop.host.id}:{os.getpid()}")


@contextmanager
def _only_one(home: Path) -> Iterator[bool]:
    """The host's lock, held for a tick and not for a loop, so that two loops take turns."""
    descriptor = os.open(make_private(home) / "sweep.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        yield False
        return
    try:
        yield True
    finally:
        os.close(descriptor)


def remaining_of(watch: snapshot.Watch, seen: dict[Place, Any], host: str) -> list[snapshot.Watched]:
    """The ended runs of this host that nobody saw gone: they keep their cards and their slots."""
    ours = (w for w in watch.ending if w.run.group is not None and w.run.group.host == host)
    return [w for w in ours if not _is_gone(seen.get((w.board, w.run.task, w.run.run)))]


def _is_gone(seen: Any) -> bool:
    """Whether the bound group was looked at, and was empty. Looked at before it was bound says nothing."""
    return seen is not None and seen.presence is not None and not seen.members


def _holds_slot(run: Run, host: str) -> bool:
    """Whether the open *run* counts against the cap of *host*."""
    return run.by == "spawn" and run.host == host


def _nothing() -> None:
    pass
