"""The owner of a warm agent: it serves the turns of one claim after another, and bears witness for each (RULES §6).

What is authoritative is the board: an owner admits a run by a binding in its log, proves it before every turn, and its
result is one witness among others. Its memory of submissions dies with it (docs/worker.md).

    Owner(lambda text, frame: my_agent.turn(text), assignee="builder").serve()
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Protocol

from kanban.hosts import this_host
from kanban.processes import start_tick
from kanban.worker.ears import Ears, hearing
from kanban.worker.exits import DONE
from kanban.worker.frame import Agent, Frame
from kanban.worker.identity import Identity
from kanban.worker.place import folder_of, home_here, only_owner, untied
from kanban.worker.serving import Served, fit_for_json, serve
from kanban.worker.submissions import Client, Submission, Submissions
from kanban.worker.warm import WarmAgent
from ledger.clock import Clock, system_clock
from ledger.errors import InvalidInput, LedgerError

if TYPE_CHECKING:
    from kanban.worker.exits import Credentials
    from kanban.worker.verdict import Judge

LOOK: Final = 0.25
"""Seconds between two looks at the clients: turns whose client is gone end then."""
_LINE: Final = 5.0  # seconds that a submission waits for the admission of others
_TERM: Final = 7.0  # seconds in which the agents of an owner that was killed have ended: their leash kills after 5
_log = logging.getLogger(__name__)


class OwnerUnsupported(LedgerError):
    """This system cannot say whose process is at the other end of a socket, so no door can be opened on it."""

    def __init__(self) -> None:
        super().__init__("an owner needs Linux: nothing here says who knocks", remedy="use resume in ledger.toml")


class ExtraMissing(LedgerError):
    """An owner needs libraries that are installed on demand."""

    def __init__(self, name: str) -> None:
        super().__init__(f"an owner needs {name}, which is not installed", remedy="pip install 'kanban-ledger[owner]'")


class Seat(Protocol):
    """Where one turn at a time is taken."""

    def start(self) -> None:
        """Get ready. Raises OSError."""

    def __call__(self, text: str, frame: Frame) -> object:
        """Take a turn."""

    def end(self) -> None:
        """End the turn that is being taken, if that can be done from outside."""

    def close(self) -> None:
        """Go away."""


class _Called:
    """An agent that is a function: it is told that nobody waits (`Frame.over`), and cannot be ended from outside."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def start(self) -> None:
        """It is there already."""

    def __call__(self, text: str, frame: Frame) -> object:
        """Call it."""
        return self._agent(text, frame)

    def end(self) -> None:
        """`Frame.over` is set by now."""

    def close(self) -> None:
        """It ends with this process."""


class Owner:
    """The one process of this host that takes the turns of *assignee*, up to *at_once* at the same time.

    *agent* is a function, or the words of a command: then one process of it for each seat, started once and kept warm.
    *judge* says whether a card's goal is met; *credentials* what an exception of the agent means.
    """

    def __init__(
        self,
        agent: Agent | Sequence[str],
        *,
        assignee: str,
        home: Path | None = None,
        at_once: int = 1,
        judge: Judge | None = None,
        credentials: Callable[[Exception], Credentials] | None = None,
        clock: Clock = system_clock,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if at_once < 1:
            raise InvalidInput(f"an owner takes at least one turn at once, not {at_once}")
        self.assignee, self.home, self.clock = assignee, home or home_here(environ), clock
        self.host = this_host(self.home)
        self.folder = folder_of(self.home, self.host.id, assignee)
        self._seats = [_seat(agent, self.folder) for _ in range(at_once)]
        self._judge, self._credentials = judge, credentials
        self._admitting, self._seating = Lock(), Condition()
        self._submissions = Submissions()
        self._at_work: dict[Submission, Seat] = {}
        self._draining = False
        self._pid = os.getpid()
        self._start_tick = start_tick(self._pid) or 0

    def serve(self) -> None:
        """Open the door and take turns until HUP, INT or TERM; then end what was admitted, or at a second one nothing.

        In the main thread alone. Raises `OwnerUnsupported`, `ExtraMissing`, `OwnerRunning` where the assignee has an
        owner here, OSError where the agent cannot be started, and KeyboardInterrupt at the second signal.
        """
        open_door = _door()
        with ExitStack() as stack:
            stack.enter_context(only_owner(self.folder, self.assignee))
            ears = stack.enter_context(hearing(signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
            if not untied(self.folder, _TERM):
                _log.warning("[kanban] an agent of an earlier owner of %s is still there", self.assignee)
            stack.callback(self._close)
            for seat in self._seats:
                seat.start()
                Thread(target=self._work, args=(seat,), daemon=True, name=f"seat of {self.assignee}").start()
            stack.enter_context(open_door(self, self.folder))
            _log.warning("[kanban] the owner of %s takes %d turns at once", self.assignee, len(self._seats))
            while not self._is_over(ears):
                ears.wait(LOOK)

    def submit(self, receipt: str, frame: Frame, client: Client) -> Submission:
        """Take *frame* in, under the name *receipt*. A claim that has its turns already joins them.

        Raises `NotNow` where nothing was taken, `Forbidden` where *client* is gone, and what `admit` raises.
        """
        from kanban.worker.admitting import NotNow, admit, binding_of

        submission = Submission(receipt, frame, client)
        claim = frame.claim
        if claim is None:
            return self._queued(submission)
        if not self._admitting.acquire(timeout=_LINE):
            raise NotNow("busy")
        try:
            known = self._submissions.get(receipt) or self._submissions.of_claim(claim)
            if known is not None:
                return known
            self._look_at(client)
            run = admit(claim, binding_of(self.host, self._pid, self._start_tick), self.assignee, self.clock)
            submission.finalize = run.on_success == "violation"
            return self._queued(submission)
        finally:
            self._admitting.release()

    def _queued(self, submission: Submission) -> Submission:
        """Put *submission* among those whose turns are to be taken, or what has its name already."""
        with self._seating:
            known = self._submissions.get(submission.id)
            if known is not None:
                return known
            self._look_at(submission.client)
            self._submissions.add(submission)
            self._seating.notify_all()
            return submission

    def _look_at(self, client: Client) -> None:
        """Raise `NotNow` where nothing is taken any more, and `Forbidden` where nobody would wait for it."""
        from kanban.refusals import Forbidden
        from kanban.worker.admitting import NotNow

        if self._draining:
            raise NotNow("draining")
        if not client.lives:
            raise Forbidden(f"process {client.pid} is gone already")

    def known(self, receipt: str) -> Submission | None:
        """The submission of that name; none where this process knows nothing of it."""
        return self._submissions.get(receipt)

    @property
    def identity(self) -> Identity:
        """This process alone, as its bindings name it."""
        here = self.host
        return Identity(here.id, here.boot, here.namespace, frozenset({(self._pid, self._start_tick)}))

    def _is_over(self, ears: Ears) -> bool:
        """Look after the clients; whether all that was admitted has ended after a signal."""
        for submission in self._submissions.live():
            if not submission.client.lives:
                self._leave(submission)
        heard = len(ears.take()) + self._draining
        if heard > 1:
            _log.warning("[kanban] the owner of %s ends at once", self.assignee)
            raise KeyboardInterrupt
        if heard and not self._draining:
            _log.warning("[kanban] the owner of %s takes no more turns, and ends those it has", self.assignee)
            with self._admitting, self._seating:
                self._draining = True
        return self._draining and not self._submissions.live()

    def _leave(self, submission: Submission) -> None:
        """Nobody waits for it any more: end its turns. The seat may be another's by now."""
        with self._seating:
            submission.frame.over.set()
            seat = self._at_work.get(submission)
            if seat is not None:
                seat.end()
            elif submission.state == "queued":
                submission.end()
                self._seating.notify_all()

    def _work(self, seat: Seat) -> None:
        while True:
            with self._seating:
                while (submission := self._submissions.next()) is None:
                    self._seating.wait()
                self._at_work[submission] = seat
                submission.state = "running"
            try:
                receipt = self._served(seat, submission)
            except BaseException:  # noqa: BLE001 – a seat outlives whatever happens in it
                _log.exception("[kanban] a submission could not be served")
                receipt = {}
            with self._seating:
                del self._at_work[submission]
                submission.end(**receipt)
                self._seating.notify_all()

    def _served(self, seat: Seat, submission: Submission) -> dict[str, Any]:
        """Take the turns, bear witness, and answer the receipt; empty where nobody waits for one."""
        frame = submission.frame
        if frame.over.is_set():
            return {}
        served = serve(
            seat, frame, self.identity, judge=self._judge, finalize=submission.finalize,
            credentials=self._credentials, clock=self.clock,
        )  # fmt: skip
        if frame.over.is_set() or not submission.client.lives:
            return {}
        if frame.claim is not None:
            self._bear_witness(frame, served)
        said = fit_for_json(served.said)
        receipt = {"code": served.code, "reply": served.result.output, "result": said}
        return receipt | ({"error": served.result.error} if _only_error(served) else {})

    def _bear_witness(self, frame: Frame, served: Served) -> None:
        from kanban.evidence import Owned, write_owner_result
        from kanban.folders import run_folder
        from ledger.ids import lock_hash

        assert frame.claim is not None
        claim, result = frame.claim, served.result
        owned = Owned(claim.task, claim.run, lock_hash(claim.lock), self._pid, self._start_tick)
        folder = run_folder(self.home, claim.board, claim.task, claim.run)
        reply = result.error if _only_error(served) else result.output
        write_owner_result(folder, owned, served.code, reply, result.resets_at)

    def _close(self) -> None:
        for seat in self._seats:
            seat.end()
        for seat in self._seats:
            seat.close()


def _door() -> Callable[[Owner, Path], AbstractContextManager[None]]:
    """What opens the door; it is the only part that needs more than every other command does."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise OwnerUnsupported
    try:
        from kanban.worker.door import open_door
    except ModuleNotFoundError as missing:
        raise ExtraMissing(missing.name or "a library") from None
    return open_door


def _only_error(served: Served) -> bool:
    """Whether the agent said why its turn failed, and nothing else."""
    return served.code != DONE and served.result.output is None and served.result.error is not None


def _seat(agent: Agent | Sequence[str], folder: Path) -> Seat:
    return _Called(agent) if callable(agent) else WarmAgent(tuple(agent), folder)
