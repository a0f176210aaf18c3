"""Admission: an owner takes the turns of a run, once, as a second binding beside that of the run's group (RULES §2)."""

from __future__ import annotations

from kanban.again import again
from kanban.at_desk import at_desk
from kanban.commands import Credential, Decision, known
from kanban.desk import Desk
from kanban.hosts import Host
from kanban.refusals import Forbidden, LostClaim
from kanban.starting import may_bind
from kanban.worker.carrier import Carrier
from kanban.workers import open_run
from ledger.clock import Clock
from ledger.errors import Refusal
from ledger.events import Actor, WorkerBound
from ledger.recorded import Draft
from ledger.upgrade import open_store
from projections import leases
from projections.run import Binding, Run


class NotNow(Refusal):
    """Nothing was taken: the same may be asked for again later. *state* says what stands in the way."""

    def __init__(self, state: str) -> None:
        super().__init__(f"no turn is taken now: {state}", remedy="ask again later")
        self.state = state


def binding_of(host: Host, pid: int, start_tick: int) -> Binding:
    """A process of *host* as the owner of turns: of no group, for it is never signalled."""
    return Binding(pid, start_tick, 0, host.id, host.boot, host.namespace)


def admit(claim: Carrier, owner: Binding, assignee: str, clock: Clock) -> Run:
    """Bind the turns of the run that *claim* holds to *owner*; the run. One transaction, decided inside the lock.

    The store is opened for that alone: an owner outlives many of them.

    Raises `LostClaim` once the run has ended or its lease is over, `Forbidden` for another assignee's, another host's
    or a wrong lock, `NotNow` while the board, the assignee or the host is paused, and what the store raises.
    """

    def once() -> Run:
        with at_desk(engine, claim.board, clock) as desk:
            run = _held(desk, claim, owner, assignee)
            if run.turns != owner:
                actor = Actor(kind="worker", name=run.worker, host=owner.host)
                bound = WorkerBound(run=run.run, role="turns", **owner._asdict())
                desk.write(Decision((Draft.of(run.task, bound, actor),)))
            return run

    engine = open_store(claim.database)
    try:
        return again(once)
    finally:
        engine.dispose()


def _held(desk: Desk, claim: Carrier, owner: Binding, assignee: str) -> Run:
    """The run, where its turns may begin now."""
    run = open_run(desk, claim.task, Credential(claim.lock, claim.run))
    if run.worker != assignee:
        raise Forbidden(f"{run.task} is {run.worker}'s, not {assignee}'s", task=run.task)
    if (run.host if run.group is None else run.group.host) != owner.host:
        raise Forbidden(f"{run.task}: run {run.run} is another host's", task=run.task)
    leased = leases.lease_of(desk.tx, desk.board, run.task, run.run)
    if leased is None or leased[0] < desk.now:
        raise _lost(desk, run, "its lease is over")
    if run.stops:
        raise _lost(desk, run, "it was asked to stop")
    if run.turns not in {None, owner}:
        raise _lost(desk, run, "another process took its turns")
    if run.turns is None and not may_bind(desk, run.task, run.run, owner.host):
        raise NotNow("paused")
    return run


def _lost(desk: Desk, run: Run, why: str) -> LostClaim:
    return LostClaim(run.task, run.run, current=known(desk, run.task).run, why=why)
