"""The board's machine: people, workers, sweeps on two hosts, clocks, crashes and reboots, on a real store.

Each rule is one thing that may happen to a fleet; most end in a tick, so that the interesting thing is one step. What
must hold after each of them stands in `checks`. Cards are chosen by number, modulo how many there are.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import event as events
from sqlalchemy import select

from kanban import failpoints
from kanban.board import Board
from kanban.commands import Redact
from kanban.config import Assignee, Config
from kanban.desk import Desk
from kanban.evidence import Owned
from kanban.founding import found
from kanban.refusals import Forbidden, LostClaim, Refusal, Unmet
from kanban.worker.admitting import admit
from kanban.worker.carrier import Carrier
from ledger import ids
from ledger.database import connect, reading
from ledger.errors import InvalidInput, UnknownRun
from ledger.events import Actor
from projections import tables
from projections.run import Run
from tests import given
from tests.machines.air import Air, Death, Key
from tests.machines.checks import Watch, told_by

SECOND: Final = given.SECOND
WORKERS: Final = ("ann", "bob", "cec", "dot", "fay")
LIMITS: Final = {"failure_limit": 2, "violation_limit": 2, "neutral_limit": 3, "run_limit": 6, "lease": 100,
                 "lease_grace": 20, "launch_grace": 30, "stop_grace": 10, "max_runtime": 1_000, "cooldown": 40,
                 "cooldown_cap": 90, "max_running": 3, "max_running_per_assignee": 2}  # fmt: skip
ASSIGNEES: Final = {
    "ann": Assignee(name="ann", command=("work",), quota=("limit was reached",)),
    "bob": Assignee(name="bob", command=("work",), on_success="complete"),
    "cec": Assignee(name="cec", command=("work",), on_success="review", reviewer="ann"),
    "dot": Assignee(name="dot", human=True),
    "fay": Assignee(name="fay", command=("work",), max_running=1),
}
CONFIGS: Final = {
    "h1": Config(assignees=ASSIGNEES, max_running=2),
    "h2": Config(assignees={name: ASSIGNEES[name] for name in ("ann", "bob", "fay")}, max_running=1),
}
SLOTS: Final = {"a": "h1", "b": "h1", "c": "h2"}
"""The dispatchers: two on one host, which share its home, and one on another."""
QUIET: Final = ("before-observe", "after-observe", "after-claim-commit", "after-first-signal", "after-signal",
                "before-launch", "after-launch", "after-bind-commit", "after-first-gate")  # fmt: skip
"""The points of a tick at which no transaction is open: anybody may act there."""
DEADLY: Final = (*QUIET, "before-apply-commit", "before-bind-commit", "within-a-write")
POLICIES: Final = (
    {"failure_limit": 1}, {"failure_limit": 3}, {"violation_limit": 1}, {"violation_limit": 3}, {"attempt_limit": 2},
    {"attempt_limit": None}, {"neutral_limit": 1}, {"neutral_limit": 4}, {"run_limit": 2}, {"run_limit": 9},
    {"max_running": 1}, {"max_running": None}, {"max_running_per_assignee": 1}, {"max_running_per_assignee": None},
    {"progress_timeout": 50}, {"progress_timeout": None}, {"stop_grace": 1}, {"lease": 40}, {"max_runtime": 60},
)  # fmt: skip

MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where the stores lie: nothing here is about what a disk keeps."""

CARD = st.integers(0, 5)
DEATHS = st.sampled_from(
    [(Death(code), "record") for code in (0, 0, 1, 5, 75, 78, 126, 130, 143)]
    + [(Death(0, quota=True), "record"), (Death(signal=9), "record"), (Death(signal=15), "record")]
    + [(Death(0), "owner"), (Death(5), "trailer"), (Death(75), "trailer")]
    + [(Death(), "none"), (Death(), "foreign"), (Death(), "foreign"), (Death(5), "torn")]
)
SLOT = st.sampled_from([*SLOTS, None])


class Crash(BaseException):
    """A process dies here, as by `kill -9`."""


@cache
def template() -> bytes:
    """A founded store, whose board began before the fake clock."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        founded(f"sqlite:///{path}")
        return path.read_bytes()


def founded(url: str) -> None:
    """Make that store at *url*."""
    found(url, "default", given.OPERATOR, lambda: given.NOW - 10 * SECOND)


class BoardMachine(RuleBasedStateMachine):
    """One board, three dispatchers, two hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="ledger-machine-", dir=MEMORY))
        (self.root / "work").mkdir()
        self.patches = ExitStack()
        self.url = self._store(self.patches)
        self.engine = connect(self.url)
        self._unhurried()
        self.clock = given.FakeClock()
        self.air = Air()
        self.cards: list[str] = []
        self.hands: dict[Key, str] = {}
        self.writes: list[list[int]] = []
        self.notes: list[str] | None = []
        self.acted = self.minted = 0
        self.disturbed = False
        self.unfounded: Exception | None = None
        self.armed: tuple[str, Callable[[], None]] | None = None
        self.patches.enter_context(self.air.patched())
        self._patch(self.patches)
        own_caps = {name: worker.max_running for name, worker in ASSIGNEES.items() if worker.max_running}
        host_caps = {host: config.max_running or 0 for host, config in CONFIGS.items()}
        self.watch = Watch(self.engine, self.air, "default", own_caps, host_caps)
        self.sweepers = {slot: self._board(host) for slot, host in SLOTS.items()}
        self.office = self._board("h1")
        self.office.set_policy(**LIMITS)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # else a step has failed: that is what must be told
                self._comes_to_rest()
                assert self.office.replay(strict=True).divergences == ()
        finally:
            self.engine.dispose()
            self.patches.close()
            shutil.rmtree(self.root)

    def _store(self, _until_the_end: ExitStack) -> str:
        """The address of a founded store of one's own."""
        (self.root / "ledger.db").write_bytes(template())
        return f"sqlite:///{self.root}/ledger.db"

    def _unhurried(self) -> None:
        """Nothing here is about what a disk keeps."""
        events.listen(self.engine, "connect", lambda dbapi, _: dbapi.execute("PRAGMA synchronous=OFF"))

    def _patch(self, stack: ExitStack) -> None:
        write, append = Desk.write, Desk._append

        def written(desk: Desk, decision: Any, **how: Any) -> Any:
            recorded = write(desk, decision, **how)
            self.writes.append([event.position for event in recorded])
            return recorded

        def appended(desk: Desk, *what: Any) -> Any:
            recorded = append(desk, *what)
            self._reached("within-a-write")
            return recorded

        stack.enter_context(mock.patch.object(Desk, "write", written))
        stack.enter_context(mock.patch.object(Desk, "_append", appended))
        reach = failpoints.reach
        passing = [module for name, module in sys.modules.items() if name.startswith("kanban.")]
        for module in [module for module in passing if getattr(module, "reach", None) is reach]:
            stack.enter_context(mock.patch.object(module, "reach", self._reached))
        stack.enter_context(mock.patch.object(ids, "task_id", self._minted))
        stack.enter_context(mock.patch("os.fsync"))

    def _minted(self) -> str:
        self.minted += 1
        return f"t_{self.minted:02}"

    def _board(self, host: str) -> Board:
        """The board as a process that starts on *host* now opens it."""
        opened = Board(
            self.engine, "default", url=self.url, home=self.root / host, clock=self.clock, environ={"USER": "ada"},
            loaded=SimpleNamespace(config=CONFIGS[host]),  # type: ignore[arg-type]
        )  # fmt: skip
        opened.__dict__["host"] = self.air.host(host)
        return opened

    def _reached(self, point: str) -> None:
        if self.armed is not None and self.armed[0] == point:
            act, self.armed = self.armed[1], None
            act()

    def _dies(self) -> None:
        raise Crash

    # Acts ---------------------------------------------------------------------------------------------------------

    def _act(self, act: Callable[[Board], Any]) -> Any:
        """Somebody with a name of their own acts on host 1. A refusal is an answer; it leaves nothing in the log."""
        self.acted += 1
        before, here, self.air.here = self._position(), self.air.here, "h1"
        self.office.__dict__["actor"] = Actor(kind="operator", name=f"op-{self.acted}", host="h1")
        self.office.__dict__["host"] = self.air.host("h1")
        try:
            answer = act(self.office)
        except (Refusal, InvalidInput, UnknownRun) as refusal:
            if self._position() != before:
                self.unfounded = None if isinstance(refusal, LostClaim | Unmet) else refusal
            return refusal
        except Crash:
            self.notes = None
            return None
        finally:
            self.air.here = here
        if self.notes is not None:
            self.notes += getattr(answer, "notes", ())
        return answer

    def _tick(
        self, slot: str, *, most: int | None = None, at: str | None = None, act: Callable[[], None] | None = None
    ) -> None:
        """The dispatcher *slot* ticks. At the point *at* somebody acts; else it does what its dry run foretold."""
        board, host, here = self.sweepers[slot], SLOTS[slot], self.air.here
        self.air.here = host
        self._abandoned_end_themselves(host)
        self._ids_are_fresh(board, host)
        foretold, dead = None, {key for key in self.watch.open if not self.air.group(key)}
        if at is None:
            before = self._operational()
            foretold = told_by(board.sweep(dry_run=True, most=most))
            assert self._operational() == before, "a dry run wrote something"
        elif act is not None:
            self.armed = (at, act)
        try:
            tick = board.sweep(most=most)
        except Crash:
            self.air.gates_close()
            self.sweepers[slot] = self._board(host)
            self.notes = None
            return
        finally:
            self.armed, self.air.here = None, here
        assert tick.errors == [], tick.errors
        if self.notes is not None:
            self.notes += tick.notes
        if foretold is not None and tick.skipped is None:
            assert told_by(tick) == foretold, f"{told_by(tick)} was foretold as {foretold}"
            self._look()
            self.watch.tick_owes(host, self.clock(), dead)

    def _look(self) -> None:
        """Judge what came, and begin anew."""
        assert self.unfounded is None, f"refused, and yet written: {self.unfounded}"
        self.watch.look(self.writes, self.notes, undisturbed=not self.disturbed)
        self.writes, self.notes, self.disturbed = [], [], False

    @invariant()
    def everything_holds(self) -> None:
        """All of `checks`, after each step."""
        self._look()

    def _position(self) -> int:
        with self.office.look() as desk:
            return int(desk.position)

    def _operational(self) -> tuple[Any, ...]:
        """What a dry run could have changed."""
        with reading(self.engine) as tx:
            rows = [tx.execute(select(table)).all() for table in (tables.leases, tables.held, tables.sweeps)]
        return (self._position(), *rows)

    def _ids_are_fresh(self, board: Board, host: str) -> None:
        assert board.host == self.air.host(host), "a dispatcher outlived its machine"

    def _abandoned_end_themselves(self, host: str) -> None:
        """RULES §7.4: where several hosts share a store, a supervisor ends its group once its lease has run out."""
        now = max(self.clock(), self.watch.now)
        for key in list(self.watch.open):
            over = self.watch.leases.get(key, 0) + self.watch.policy["lease_grace"] * SECOND
            if self.watch.hosts[key] != host and now > over:
                self.air.ends(key, Death(), "none")

    def _card(self, number: int) -> str:
        return self.cards[number % len(self.cards)]

    def _run(self, number: int, *, live: bool = True) -> Key | None:
        """A run of some card whose processes live (or any that was ever given a lock)."""
        found = sorted(set(self.air.locks) | set(self.hands))
        if live:
            found = [key for key in found if self.air.group(key)]
        return found[number % len(found)] if found else None

    def _then(self, slot: str | None) -> None:
        if slot is not None:
            self._tick(slot)

    # Cards --------------------------------------------------------------------------------------------------------

    @initialize(kinds=st.lists(st.sampled_from(WORKERS[:3]), min_size=2, max_size=3))
    def a_board_begins(self, kinds: list[str]) -> None:
        """Some cards, one that waits for the first, and a first tick."""
        for worker in kinds:
            self.a_card(worker, [], 0, None, "work", None)  # type: ignore[call-arg]
        self.a_card("ann", [0], 0, None, "work", None)  # type: ignore[call-arg]
        self._tick("a")

    @precondition(lambda self: len(self.cards) < 6)
    @rule(
        worker=st.sampled_from([*WORKERS, "nobody", None]), parents=st.lists(CARD, max_size=2),
        priority=st.integers(0, 2), own=st.sampled_from([None, None, 1, 2]),
        lane=st.sampled_from(["work", "work", "work", "triage"]), slot=SLOT,
    )  # fmt: skip
    def a_card(  # noqa: PLR0917
        self, worker: str | None, parents: list[int], priority: int, own: int | None, lane: Any, slot: str | None
    ) -> None:
        """A card is created."""
        links = [self._card(number) for number in parents if self.cards]
        told = self._act(
            lambda board: board.create(
                "A card", assignee=worker, parents=links, priority=priority, max_retries=own, lane=lane,
                workspace=f"dir:{self.root}/work",
            )
        )  # fmt: skip
        if not isinstance(told, Refusal | None):
            self.cards.append(told.task["id"])
        self._then(slot)

    @rule(child=CARD, parent=CARD, require=st.sampled_from(["ok", "any"]), gone=st.booleans())
    def a_link(self, child: int, parent: int, require: Any, gone: bool) -> None:
        """A card waits for another, or no longer."""
        one, two = self._card(child), self._card(parent)
        self._act(lambda board: board.unlink(one, two) if gone else board.link(one, two, require=require))

    @rule(
        card=CARD,
        acts=st.lists(st.sampled_from(["block", "block", "unblock", "else", "back", "none", "park", "complete", "fail",
                                       "complete", "unpark", "changes", "reopen", "archive", "keep", "unlink",
                                       "cascade", "accept", "retries 1", "retries 3", "retries", "runtime 30", "triage",
                                       "work"]),
                      min_size=1, max_size=4),
        slot=SLOT, dies=st.sampled_from([None, None, None, "before-verb-commit", "after-verb-commit"]),
    )  # fmt: skip
    def an_operator(self, card: int, acts: list[str], slot: str | None, dies: str | None) -> None:
        """A person acts on a card that may or may not run; perhaps the first act dies in the middle."""
        self.armed = None if dies is None else (dies, self._dies)
        before = self._position()
        self._act(lambda board: self._ordered(board, self._card(card), acts[0]))
        if dies == "before-verb-commit" and self.armed is None:
            assert self._position() == before, "half a command was committed"
        self.armed = None
        for what in acts[1:]:
            self._act(lambda board, what=what: self._ordered(board, self._card(card), what))
        self._then(slot)

    @rule(number=st.integers(0, 200), dies=st.sampled_from([None, None, "before-verb-commit"]), slot=SLOT)
    def words_are_redacted(self, number: int, dies: str | None, slot: str | None) -> None:
        """Somebody takes the words of an event out of the log, perhaps of a wish that has not been granted yet."""
        position = 1 + number % self._position()
        self.armed = None if dies is None else (dies, self._dies)
        self._act(lambda board: board.do(Redact(position)))
        self.armed = None
        self._then(slot)

    def _ordered(self, board: Board, card: str, what: str, *, force: bool = False) -> Any:
        match what.split():
            case ["block"]:
                return board.block(card, "not now", force=force)
            case ["unblock"]:
                return board.unblock(card)
            case ["else" | "back" | "none"]:
                return board.assign(card, {"else": "bob", "back": "ann", "none": None}[what], force=force)
            case ["park" | "unpark"]:
                return board.schedule(card, self.clock() + (50 if what == "park" else -50) * SECOND, force=force)
            case ["complete" | "fail"]:
                return board.complete(card, outcome="ok" if what == "complete" else "fail", force=force)
            case ["changes"]:
                return board.changes(card, "not yet")
            case ["reopen"]:
                return board.reopen(card)
            case ["archive" | "keep" | "unlink" | "cascade"]:
                return board.archive(card, children=None if what == "archive" else what, force=force)  # type: ignore[arg-type]
            case ["accept"]:
                return board.accept(card, 1)
            case ["retries" | "runtime" as name, *limit]:
                return board.edit(card, **{f"max_{name}": int(limit[0]) if limit else None})
            case ["triage" | "work"]:
                return board.edit(card, lane=what)
            case _:
                return board.edit(card, priority=3)

    @rule(
        card=CARD,
        verbs=st.lists(st.sampled_from(["block", "else", "else", "back", "none", "park", "unpark", "complete", "fail",
                                        "archive", "unlink", "cascade"]), min_size=1, max_size=3),
        death=st.none() | DEATHS, slot=SLOT,
    )  # fmt: skip
    def wishes(self, card: int, verbs: list[str], death: Any, slot: str | None) -> None:
        """Persons with --force act on a card, one after another; then perhaps its worker ends."""
        running = sorted(self.watch.open)
        name = running[card % len(running)][0] if running else self._card(card)
        for verb in verbs:
            self._act(lambda board, verb=verb: self._ordered(board, name, verb, force=True))
        if death is not None:
            self._end_of(next((key for key in running if key[0] == name), None), *death)
        self._then(slot)

    # Workers ------------------------------------------------------------------------------------------------------

    @rule(card=st.none() | CARD, worker=st.sampled_from([None, "ann", "dot"]), bound=st.booleans())
    def a_claim_by_hand(self, card: int | None, worker: str | None, bound: bool) -> None:
        """Somebody takes a card, perhaps with a process."""
        pid = self.air.hand("h1").pid if bound else None
        name = None if card is None else self._card(card)
        told = self._act(lambda board: board.claim(name, assignee=worker, pid=pid))
        if hasattr(told, "lock"):
            self.hands[told.task, told.run] = told.lock
            if pid is not None:
                self.air.procs["h1"][pid].run = (told.task, told.run)

    @rule(number=st.integers(0, 9), death=DEATHS, slot=SLOT)
    def a_worker_ends(self, number: int, death: tuple[Death, str], slot: str | None) -> None:
        """A command ends, with or without a witness."""
        self._end_of(self._run(number), *death)
        self._then(slot)

    def _end_of(self, key: Key | None, death: Death, how: str) -> None:
        if key is not None and key not in {proc.run for proc in self.air.closing}:
            self.air.ends(key, death, how, self._owned(key) if how == "owner" else None)

    def _owned(self, key: Key) -> Owned | None:
        """An owner takes the turns of the run; none where it may not."""
        lock = self.air.locks.get(key)
        with self.office.look() as desk:
            run = desk.run(*key)
        if lock is None or run is None:
            return None
        owner, claim = self.air.owner(run.host), Carrier(self.url, "default", *key, lock)
        told = self._act(lambda _: admit(claim, owner, run.worker, self.clock))
        return Owned(*key, run.lock_hash, owner.pid, owner.start_tick) if isinstance(told, Run) else None

    @rule(number=st.integers(0, 9), how=st.sampled_from(["orphaned", "escape", "stubborn"]), slot=SLOT)
    def a_group_falls_apart(self, number: int, how: str, slot: str | None) -> None:
        """A supervisor is killed with members left; a child leaves the group; a command learns to ignore TERM."""
        key = self._run(number)
        if key is None:
            return
        match how:
            case "orphaned":
                self.air.supervisor_killed(key)
            case "escape":
                self.air.escapes(key)
            case _:
                for proc in self.air.group(key):
                    proc.stubborn = True
        self._then(slot)

    @rule(
        number=st.integers(0, 9), lock=st.sampled_from(["its own", "its own", "its own", "another's", "none's"]),
        verb=st.sampled_from(["complete", "complete", "fail", "block", "needs", "review", "changes", "progress",
                              "beat"]),
        death=st.none() | DEATHS, slot=SLOT, dies=st.sampled_from([None, None, None, "before-verb-commit"]),
    )  # fmt: skip
    def a_verb(  # noqa: PLR0917
        self, number: int, lock: str, verb: str, death: Any, slot: str | None, dies: str | None
    ) -> None:
        """A run, live or long over, uses its verb; a lock that is not its own gets it nowhere."""
        key = self._run(number, live=number < 7)
        if key is None:
            return
        known = self.hands | self.air.locks
        others = [token for other, token in sorted(known.items()) if other != key]
        token = {"its own": known[key], "another's": (others or ["x"])[0], "none's": "x"}[lock]
        before, was_open = self._position(), key in self.watch.open
        self.armed = None if dies is None else (dies, self._dies)
        answer = self._act(lambda board: self._said(board, key, token, verb))
        self.armed = None
        told = [event.kind for event in self.office.events(key[0], after=before)]
        if token != known[key]:
            assert isinstance(answer, Forbidden), f"{answer} for a lock that is not the run's"
            assert told == []
        elif not was_open:
            assert told in ([], ["late_result"]), f"a run that was over wrote {told}"
        elif dies is not None and answer is None:
            assert told == []
        if death is not None:
            self._end_of(key, *death)
        self._then(slot)

    def _said(self, board: Board, key: Key, token: str, verb: str) -> Any:
        card, run = key
        match verb:
            case "complete" | "fail":
                return board.complete(card, "made", outcome="ok" if verb == "complete" else "fail", run=run, lock=token)
            case "block" | "needs":
                kind = None if verb == "block" else "dependency"
                return board.block(card, "stuck", kind=kind, run=run, lock=token)
            case "review":
                return board.review(card, "look", reviewer="ann" if run % 2 else None, run=run, lock=token)
            case "changes":
                return board.changes(card, "no", run=run, lock=token)
            case "progress":
                return board.progress(card, "on it", run=run, lock=token)
            case _:
                return board.heartbeat(card, run=run, lock=token)

    # Dispatchers --------------------------------------------------------------------------------------------------

    @rule(slot=st.sampled_from([*SLOTS]), most=st.sampled_from([None, None, 1]))
    def a_tick(self, slot: str, most: int | None) -> None:
        """A dispatcher ticks, as its dry run says."""
        self._tick(slot, most=most)

    @rule(deaths=st.lists(DEATHS, max_size=3), seconds=st.sampled_from([1, 11, 60, 130]))
    def a_round(self, deaths: list[tuple[Death, str]], seconds: int) -> None:
        """Workers end, somebody clears the way, time passes, and every host ticks: the board moves on."""
        for death in deaths:
            self._end_of(self._run(0), *death)
        self._everybody_may_start()
        self.clock.advance(seconds)
        for slot in ("a", "c"):
            self._tick(slot)

    @rule(card=CARD, deaths=st.lists(DEATHS, min_size=1, max_size=3), slot=st.sampled_from([*SLOTS]))
    def a_card_is_tried(self, card: int, deaths: list[tuple[Death, str]], slot: str) -> None:
        """One end after the other, with time enough between them for any cooldown."""
        self._everybody_may_start()
        running = sorted({task for task, _ in self.watch.open}) or self.cards
        name = running[card % len(running)]
        for death in deaths:
            for key in [key for key in self.watch.open if key[0] == name]:
                self._end_of(key, *death)
            self.clock.advance(100)
            self._tick(slot)

    @rule(
        number=st.integers(0, 9), verb=st.sampled_from(["review", "review", "changes", "block", "complete"]),
        hand=st.booleans(), orphaned=st.booleans(),
    )  # fmt: skip
    def a_worker_lingers(self, number: int, verb: str, hand: bool, orphaned: bool) -> None:
        """A worker uses its verb and does not end; its card is made free again, and everybody wants it."""
        self._everybody_may_start()
        key = self._run(number)
        if key is None or key not in self.air.locks:
            return
        self._act(lambda board: self._said(board, key, self.air.locks[key], verb))
        if orphaned:
            self.air.supervisor_killed(key)
        self._act(lambda board: self._ordered(board, key[0], "reopen" if verb == "complete" else "unblock"))
        if hand:
            self.a_claim_by_hand(self.cards.index(key[0]), None, False)  # type: ignore[call-arg]
        for slot in ("a", "c"):
            self._tick(slot)

    def _everybody_may_start(self) -> None:
        for scope, name in list(self.watch.pauses):
            self._act(lambda board, scope=scope, name=name: board.resume(scope=scope, name=name))

    def _something_to_start(self, number: int) -> None:
        """Nothing is paused, and a card waits for a tick."""
        self._everybody_may_start()
        if len(self.cards) < 8:
            self.a_card("ann", [], 2, None, "work", None)  # type: ignore[call-arg]
        else:
            for verb in ("reopen", "unblock", "back"):
                self._act(lambda board, verb=verb: self._ordered(board, self._card(number), verb))
        self._look()

    @rule(slot=st.sampled_from([*SLOTS]), at=st.sampled_from(DEADLY), number=CARD)
    def a_sweep_dies(self, slot: str, at: str, number: int) -> None:
        """A dispatcher is killed in the middle of its tick; what was not committed is not there."""
        self._something_to_start(number)
        before = self._position()
        self._tick(slot, at=at, act=self._dies)
        if self.notes is None and at == "before-apply-commit":
            assert self._position() == before, "half a tick was committed"

    @rule(
        slot=st.sampled_from([*SLOTS]), at=st.sampled_from(["after-claim-commit", "before-launch", "after-launch"]),
        scope=st.sampled_from(["pause", "pause worker", "pause host"]), number=CARD,
    )  # fmt: skip
    def a_pause_comes_between(self, slot: str, at: str, scope: str, number: int) -> None:
        """A card is claimed and not yet bound when somebody pauses."""
        self.a_tick_is_disturbed(slot, at, number, scope)  # type: ignore[call-arg]

    @rule(
        slot=st.sampled_from([*SLOTS]), at=st.sampled_from(QUIET), number=CARD,
        what=st.sampled_from(["stop", "done", "complete", "death", "orphaned",
                              "same host", "other host", "hand", "archive", "cap"]),
    )  # fmt: skip
    def a_tick_is_disturbed(self, slot: str, at: str, number: int, what: str) -> None:
        """Somebody acts between two steps of a tick."""
        self._something_to_start(number)
        self.disturbed = True
        self._tick(slot, at=at, act=lambda: self._meddle(slot, number, what))

    def _meddle(self, slot: str, number: int, what: str) -> None:
        keys = self._open_now() or [(self._card(number), 1)]
        key = keys[number % len(keys)]
        match what:
            case "pause":
                self._act(lambda board: board.pause())
            case "pause worker":
                self._act(lambda board: board.pause(scope="assignee", name=WORKERS[number % 3]))
            case "pause host":
                self._act(lambda board: board.pause(scope="host", name=SLOTS[slot]))
            case "stop" | "done" | "archive":
                verb = {"stop": "block", "done": "complete", "archive": "keep"}[what]
                self._act(lambda board: self._ordered(board, key[0], verb, force=True))
            case "complete" if key in self.air.locks:
                self._act(lambda board: self._said(board, key, self.air.locks[key], "complete"))
            case "death":
                self._end_of(self._run(number), Death(5), "record")
            case "orphaned" if key in self.air.locks:
                self.air.supervisor_killed(key)
            case "same host":
                told = self.sweepers["b" if slot == "a" else "a"].sweep() if SLOTS[slot] == "h1" else None
                assert told is None or told.skipped == "lock held"
            case "other host":
                self._tick_between("c" if SLOTS[slot] == "h1" else "a")
            case "hand":
                self.a_claim_by_hand(number, None, False)  # type: ignore[call-arg]
            case _:
                self._act(lambda board: board.set_policy(max_running=1))

    def _open_now(self) -> list[Key]:
        with self.office.look() as desk:
            return sorted((run.task, run.run) for run in desk.live())

    def _tick_between(self, slot: str) -> None:
        here, self.air.here = self.air.here, SLOTS[slot]
        if all(now <= self.watch.leases.get(key, now) for key, now in ((k, self.clock()) for k in self.watch.open)):
            told = self.sweepers[slot].sweep()
            assert told.errors == []
            self.notes = None if self.notes is None else self.notes + told.notes
        self.air.here = here

    # The board and the world -------------------------------------------------------------------------------------

    @rule(
        what=st.sampled_from(["pause", "resume"]), drain=st.booleans(),
        scope=st.sampled_from([("board", ""), ("assignee", "ann"), ("assignee", "bob"), ("host", "h1")]), slot=SLOT,
    )  # fmt: skip
    def a_pause(self, what: str, drain: bool, scope: tuple[str, str], slot: str | None) -> None:
        """Nothing is claimed any more in some scope, or again."""
        kind, name = scope
        for each in self.watch.pauses if what == "resume" else ():
            self._act(lambda board, each=each: board.resume(scope=each[0], name=each[1]))
        if what == "pause":
            self._act(lambda board: board.pause(scope=kind, name=name, drain=drain))
        self._then(slot)

    @rule(changes=st.sampled_from(POLICIES), slot=SLOT)
    def a_policy(self, changes: dict[str, int | None], slot: str | None) -> None:
        """A limit changes."""
        self._limits_change(changes)
        self._then(slot)

    def _limits_change(self, changes: dict[str, int | None]) -> None:
        self._act(lambda board: board.set_policy(**changes))

    @rule(seconds=st.sampled_from([1, 11, 31, 60, 60, 130, 130, 1_100, -40, -500]), slot=SLOT)
    def time_passes(self, seconds: int, slot: str | None) -> None:
        """The clock moves on, or is set back."""
        self._time_passes(seconds)
        self._then(slot)

    def _time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(what=st.sampled_from(["h1 reboots", "h2 reboots", "no memory", "slow", "prompt", "deaf", "polite", "reuse"]),
          slot=SLOT)  # fmt: skip
    def the_weather(self, what: str, slot: str | None) -> None:
        """A machine starts again, launches fail, supervisors are slow, workers deaf, pids given anew."""
        match what:
            case "h1 reboots" | "h2 reboots":
                self._reboots(what[:2])
            case "no memory":
                self.air.failing = 1
            case "slow" | "prompt":
                self.air.slow = what == "slow"
                if not self.air.slow:
                    self.air.notices()
            case "deaf" | "polite":
                self.air.stubborn = what == "deaf"
            case _:
                self.air.reuses_a_pid("h1")
        self._then(slot)

    def _reboots(self, host: str) -> None:
        self.air.reboots(host)
        self.sweepers |= {each: self._board(host) for each, at in SLOTS.items() if at == host}

    def _comes_to_rest(self) -> None:
        """Whatever happened: with nobody at work and time enough every run ends, and nothing is left to keep a card."""
        self._act(lambda board: board.pause())
        self.air.notices()
        for key in set(self.air.locks) | set(self.hands):
            self._end_of(key, Death(5), "record")
        for seconds in (1, 5_000, 5_000):
            self.clock.advance(seconds)
            for slot in ("a", "c"):
                self._tick(slot)
        assert not self.watch.open, f"runs that nobody ends: {sorted(self.watch.open)}"
