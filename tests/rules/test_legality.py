"""The judge: each rule of §9 has a history that keeps it and one that breaks it, named with card, position and rule."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ledger import events as e
from projections.legality import judge
from projections.policy import Policy, not_before_after
from tests import given

SECOND, NOW = given.SECOND, given.NOW
BOARD, CARD = given.board_created(), given.created()
CLAIM, BOUND = given.claimed(), given.worker_bound()
RUN = (CARD, CLAIM, BOUND)
CRASH = given.exited(code=2, evidence="exit_record")
CLEAN = given.exited(1, "clean", code=0, evidence="exit_record")
OTHER = "t_b"
ACTORS = {
    "claimed": given.SWEEP,
    "worker_bound": given.SWEEP,
    "exited": given.SWEEP,
    "violation": given.SYSTEM,
    "progressed": given.WORKER,
    "review_requested": given.WORKER,
    "late_result": given.WORKER,
}


class By(NamedTuple):
    """A step that another actor than the usual one takes, or another card's."""

    event: Any
    actor: e.Actor | None = None
    task: str = "t_a"


def by_operator(event):
    return By(event, given.OPERATOR)


def by_worker(event, task="t_a"):
    return By(event, given.WORKER, task)


def by_sweep(event):
    return By(event, given.SWEEP)


def of(task, *events):
    return [By(event, None, task) for event in events]


def usual(event):
    if event.kind in {"completed", "blocked", "changes_requested"} and event.run is not None:
        return given.WORKER
    if event.kind == "blocked" and event.cause.endswith("_budget"):
        return given.SYSTEM
    if event.kind == "unblocked" and event.cause != "operator":
        return given.SWEEP
    return ACTORS.get(event.kind, given.OPERATOR)


def told(*steps):
    """The log that *steps* make, each by its usual actor, a second apart, on the board `b`."""
    log = []
    for step in (BOARD, *steps):
        event, actor, task = step if isinstance(step, By) else (step, None, "t_a")
        log += given.history(event, task=task, actor=actor or usual(event), after=log)
    return log


def named(faults):
    return [(fault.task, fault.position, fault.rule) for fault in faults]


class Case(NamedTuple):
    """*before* and *good* are legal; *bad* in place of *good* is not, at its *step*-th event."""

    rule: str
    before: tuple[Any, ...]
    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    task: str = "t_a"
    step: int = 1


def again(*events):
    """The same ending as many times as there are runs: claim, bind, end."""
    steps = []
    for number, event in enumerate(events, 1):
        steps += [given.claimed(number), given.worker_bound(number), event.model_copy(update={"run": number})]
    return tuple(steps)


def waits(position, outcome, neutral=1, reset=None, task="t_a"):
    """What `not_before` has to be at *position*."""
    return not_before_after(
        Policy(), outcome=outcome, neutral=neutral, task=task, now=NOW + (position - 1) * SECOND, reset_asked=reset
    )


def ended(outcome, **fields):
    """An end by exit record, or by none where no code and no signal is given."""
    evidence = "exit_record" if {"code", "signal"} & set(fields) else "none"
    return given.exited(1, outcome, **({"evidence": evidence} | fields))


ONE = given.claimed(1, caps=(given.cap("board", 0, 1),))
ASKED = given.wish("block", kind=None)
TRIPPED = (CARD, *again(CRASH, CRASH))
HELD = (*TRIPPED, given.budget_blocked())
REVIEW = (*RUN, given.review_requested())
ARCHIVED = (CARD, given.archived())
DONE = (CARD, given.completed(None))
WAITING = (CARD, *of(OTHER, given.created(parents=["t_a"])))
FAR = 2 * NOW
HOLD, STOP, LATE = given.blocked(), given.stop_requested(), given.late_result()
MADE_BY = {"made_by": e.RunRef(task="t_a", run=1)}

CASES = {
    # §2, §3: cards
    "a card begins with created": Case("§2", (CARD,), (*of(OTHER, CARD),), (*of(OTHER, given.commented()),), OTHER),
    "created stands once": Case("§2", (CARD,), (given.commented(),), (CARD,)),
    "parents exist": Case("§3", (CARD,), (*of(OTHER, given.created(parents=["t_a"])),),
                          (*of(OTHER, given.created(parents=["t_x"])),), OTHER),
    "no child of a dead parent: archived undone": Case(
        "§3", ARCHIVED, (*of(OTHER, CARD),), (*of(OTHER, given.created(parents=["t_a"])),), OTHER),
    "no child of a dead parent: done otherwise": Case(
        "§3", (CARD, given.completed(None, "fail")), (*of(OTHER, given.created(parents=[("t_a", "any")])),),
        (*of(OTHER, given.created(parents=["t_a"])),), OTHER),
    "a worker's card is made by its run": Case(
        "§8", RUN, (by_worker(given.created(**MADE_BY), OTHER),), (by_worker(CARD, OTHER),), OTHER),
    "only a worker's card is made by a run": Case(
        "§8", RUN, (*of(OTHER, CARD),), (*of(OTHER, given.created(**MADE_BY)),), OTHER),
    "a card is made by a run that was": Case(
        "§8", RUN, (by_worker(given.created(**MADE_BY), OTHER),),
        (by_worker(given.created(made_by=e.RunRef(task="t_a", run=2)), OTHER),), OTHER),
    "a key is one card's": Case("§8", (given.created(key="k"),), (*of(OTHER, given.created(key="l")),),
                                (*of(OTHER, given.created(key="k")),), OTHER),
    "lane of a closed card": Case("§8", DONE, (given.edited(priority=1),), (given.edited(lane="triage"),)),
    "lane while running": Case("§8", RUN, (given.edited(max_runtime=5),), (given.edited(lane="triage"),)),
    "lane review is no edit's": Case("§8", (CARD,), (given.edited(lane="triage"),),
                                     (given.forged_edit(lane="review"),)),
    "lane out of review is no edit's": Case("§8", REVIEW, (given.edited(priority=1),), (given.edited(lane="work"),)),
    "assign a closed card": Case("§8", DONE, (given.commented(),), (given.assigned(),)),
    "assign a running card": Case("§8", RUN, (STOP,), (given.assigned(),)),
    "who had it before": Case("§2", (CARD,), (given.assigned(),), (given.assigned(previous="eve"),)),
    "schedule a closed card": Case("§8", DONE, (given.commented(),), (given.scheduled(),)),
    "schedule a running card": Case("§8", RUN, (given.commented(),), (given.scheduled(),)),
    "link to nobody": Case("§3", WAITING, (given.commented(),), (given.linked("t_x"),)),
    "link to a dead parent": Case("§3", (*of(OTHER, CARD, given.archived()), CARD), (given.commented(),),
                                  (given.linked(OTHER),)),
    "a ring": Case("§3", (*WAITING, *of("t_c", CARD)), (given.linked("t_c"),), (given.linked(OTHER),)),
    "a ring of one": Case("§3", (CARD,), (given.commented(),), (given.linked("t_a"),)),
    "link a closed card": Case("§8", (*of(OTHER, CARD), *DONE), (given.reopened(),), (given.linked(OTHER),)),
    "link a running card": Case("§8", (*of(OTHER, CARD), *RUN), (by_worker(given.linked(OTHER)),),
                                (given.linked(OTHER),)),
    "a worker links its own card": Case("§8", (*of(OTHER, CARD), CARD), (given.linked(OTHER),),
                                        (by_worker(given.linked(OTHER)),)),
    "unlink what is linked": Case("§8", WAITING, (*of(OTHER, given.unlinked("t_a")),),
                                  (*of(OTHER, given.unlinked("t_a", "any")),), OTHER),
    "unlink a closed card": Case("§8", (*WAITING, *of(OTHER, given.archived())), (*of(OTHER, given.reopened()),),
                                 (*of(OTHER, given.unlinked("t_a")),), OTHER),
    "reopen an open card": Case("§8", (CARD,), (given.archived(),), (given.reopened(),)),
    "archive twice": Case("§8", ARCHIVED, (given.reopened(),), (given.archived(),)),
    "archive a running card": Case("§8", RUN, (STOP,), (given.archived(),)),
    "archive with open children": Case("§8", WAITING, (given.archived("keep"),), (given.archived(),)),
    "redact what is to come": Case("§10", (CARD,), (given.redacted(2),), (given.redacted(3),)),
    # §5, §8: holds
    "block a running card": Case("§8", RUN, (STOP,), (HOLD,)),
    "block a closed card": Case("§8", DONE, (given.commented(),), (HOLD,)),
    "block by a sweep": Case("§8", (CARD, given.commented()), (HOLD,), (by_sweep(HOLD),)),
    "an operator's hold is sticky": Case("§4", (CARD,), (HOLD,), (given.blocked(sticky=False),)),
    "a hold of nobody": Case("§2", (CARD,), (HOLD,), (given.blocked(cause="fate"),)),
    "a refused wish was a wish": Case(
        "§7", (*RUN, STOP, ended("interrupted", code=143)), (HOLD,), (given.blocked(block_kind="wish_refused"),)),
    "a refused wish on a closed card": Case(
        "§8", (*RUN, given.stop_requested(wish=ASKED), given.completed()),
        (given.blocked(block_kind="wish_refused"),), (given.blocked(block_kind="needs_input"),)),
    "unblock by a sweep": Case("§8", (CARD, HOLD), (given.unblocked(),), (by_sweep(given.unblocked()),)),
    "unblock what nothing holds": Case("§8", (CARD, HOLD, given.unblocked()), (given.commented(),),
                                       (given.unblocked(),)),
    "unblock a closed card": Case("§8", (CARD, HOLD, given.archived()), (given.reopened(),), (given.unblocked(),)),
    "lift a sticky hold": Case("§5", (CARD, HOLD), (given.unblocked(),), (given.unblocked("limit_raised"),)),
    "lift no hold": Case("§5", (CARD,), (given.commented(),), (given.unblocked("limit_raised"),)),
    "lift in the tick that set it": Case("§5", HELD, (given.unblocked(),), (given.unblocked("limit_raised"),)),
    "lift after a raise that is not enough": Case(
        "§5", (*HELD, given.policy_changed(failure_limit=3)), (given.unblocked("limit_raised"),),
        (given.unblocked("reassigned"),)),
    "lift after a hand-over": Case("§5", (*HELD, given.assigned()), (given.unblocked("reassigned"),),
                                   (given.unblocked("limit_raised"),)),
    "lift after a smaller limit": Case("§5", (*HELD, given.edited(max_retries=1)), (given.unblocked(),),
                                       (given.unblocked("limit_raised"),)),
    # §3, §7, §8: claims
    "claim a closed card": Case("§3", ARCHIVED, (given.reopened(),), (CLAIM,)),
    "claim a done card": Case("§3", DONE, (given.reopened(),), (CLAIM,)),
    "claim a running card": Case("§3", RUN, (given.progressed(),), (given.claimed(2),)),
    "claim a held card": Case("§3", (CARD, HOLD), (given.unblocked(),), (CLAIM,)),
    "claim from triage": Case("§3", (given.created(lane="triage"),), (given.edited(lane="work"),), (CLAIM,)),
    "claim before the parents": Case("§3", WAITING, (CLAIM,), (*of(OTHER, CLAIM),), OTHER),
    "claim before its time": Case("§3", (CARD, given.scheduled(NOW + 4 * SECOND)), (given.commented(),), (CLAIM,)),
    "claim at its time": Case("§1", (CARD, given.scheduled(NOW + 3 * SECOND)), (CLAIM,), (given.claimed(2),)),
    "claim in the cooldown": Case(
        "§3", (*RUN, ended("rate_limited", code=75, not_before=waits(5, "rate_limited"))), (given.unblocked(),),
        (given.claimed(2),)),
    "the next run": Case("§1", (CARD,), (CLAIM,), (given.claimed(2),)),
    "the card's worker": Case("§1", (CARD,), (CLAIM,), (given.claimed(worker="eve"),)),
    "anybody where there is no worker": Case("§1", (given.created(assignee=None),), (given.claimed(worker="eve"),),
                                             (given.claimed(lane="review"),)),
    "the card's lane": Case("§1", REVIEW, (given.claimed(2, worker="critic", lane="review"),),
                            (given.claimed(2, worker="critic"),)),
    "claim on a paused board": Case("§7", (CARD, given.paused()), (given.resumed(),), (CLAIM,)),
    "claim for a paused worker": Case("§7", (given.created(), given.paused("assignee", "builder")),
                                      (given.commented(),), (CLAIM,)),
    "claim on a paused host": Case("§7", (CARD, given.paused("host", "node-1")), (given.claimed(host="node-2"),),
                                   (CLAIM,)),
    "the board's cap is full": Case("§7", (CARD, given.policy_changed(max_running=1)), (ONE,),
                                    (given.claimed(caps=(given.cap("board", 1, 1),)),)),
    "live as the log counts it": Case("§7", (CARD, given.policy_changed(max_running=4)),
                                      (given.claimed(caps=(given.cap("board", 0, 4),)),),
                                      (given.claimed(caps=(given.cap("board", 1, 4),)),)),
    "the second claim counts the first": Case(
        "§7", (CARD, given.policy_changed(max_running=1), ONE, *of(OTHER, CARD)), (given.commented(),),
        (By(ONE, None, OTHER),), OTHER),
    "an ended run is not live": Case(
        "§7", (given.policy_changed(max_running=1), CARD, ONE, BOUND, CRASH, *of(OTHER, CARD)), (By(ONE, None, OTHER),),
        (By(given.claimed(caps=(given.cap("board", 1, 2),)), None, OTHER),), OTHER),
    "live of the worker": Case(
        "§7", (*RUN, *of(OTHER, CARD)), (By(given.claimed(caps=(given.cap("assignee", 1, 2),)), None, OTHER),),
        (By(given.claimed(caps=(given.cap("assignee", 0, 2),)), None, OTHER),), OTHER),
    "the cap of the policy": Case("§7", (CARD, given.policy_changed(max_running=1)), (ONE,),
                                  (given.claimed(caps=(given.cap("board", 0, 2),)),)),
    "the worker's cap may be its own, not more than the policy's": Case(
        "§7", (CARD, given.policy_changed(max_running_per_assignee=2)),
        (given.claimed(caps=(given.cap("assignee", 0, 1),)),), (given.claimed(caps=(given.cap("assignee", 0, 3),)),)),
    "every cap in force is named": Case("§7", (CARD, given.policy_changed(max_running=1)), (ONE,), (CLAIM,)),
    "no cap that is not in force": Case("§7", (CARD,), (given.claimed(caps=(given.cap("host", 9, 10),)),), (ONE,)),
    "the host's cap is kept": Case("§7", (CARD,), (given.claimed(caps=(given.cap("host", 1, 2),)),),
                                   (given.claimed(caps=(given.cap("host", 2, 2),)),)),
    # §2, §7: while it runs
    "bind the open run": Case("§2", (CARD, CLAIM), (BOUND,), (given.worker_bound(2),)),
    "bind without a run": Case("§2", (CARD,), (CLAIM,), (BOUND,)),
    "bind a role once": Case("§2", RUN, (given.worker_bound(role="turns"),), (BOUND,)),
    "bind the turns once": Case("§2", (*RUN, given.worker_bound(role="turns")), (given.progressed(),),
                                (given.worker_bound(role="turns"),)),
    "bind while paused": Case("§7", (CARD, CLAIM, given.paused("assignee", "builder")),
                              (given.resumed("assignee", "builder"),), (BOUND,)),
    "progress of the open run": Case("§2", RUN, (given.progressed(),), (given.progressed(2),)),
    "progress without a run": Case("§2", (CARD,), (CLAIM,), (given.progressed(),)),
    "stop the open run": Case("§2", RUN, (STOP,), (given.stop_requested(2),)),
    "stop once for a cause": Case("§2", (*RUN, STOP, by_sweep(given.stop_requested(cause="drain"))), (STOP,),
                                  (by_sweep(given.stop_requested(cause="drain")),)),
    # §4, §6: how it ends
    "exit of the open run": Case("§2", RUN, (CRASH,), (given.exited(2, code=2, evidence="exit_record"),)),
    "a crash": Case("§6", RUN, (ended("crashed", signal=9),), (ended("interrupted", signal=9),)),
    "75": Case("§6", RUN, (ended("rate_limited", code=75, not_before=waits(5, "rate_limited")),),
               (ended("crashed", code=75),)),
    "78": Case("§6", RUN, (ended("config", code=78),), (ended("crashed", code=78),)),
    "0": Case("§6", RUN, (CLEAN, given.violation()), (ended("crashed", code=0),)),
    "1": Case("§6", RUN, (ended("crashed", code=1),), (ended("clean", code=1),)),
    "quota without patterns": Case(
        "§6", (CARD, given.claimed(quota=("limit",)), BOUND),
        (ended("rate_limited", code=0, not_before=waits(5, "rate_limited")),), (ended("rate_limited", code=2),)),
    "127": Case("§6", RUN, (ended("spawn_failed", code=127),), (ended("crashed", code=127),)),
    "143": Case("§6", RUN, (ended("interrupted", code=143),), (ended("crashed", code=143),)),
    "SIGTERM": Case("§6", RUN, (ended("interrupted", signal=15),), (ended("crashed", signal=15),)),
    "the first stop counts": Case(
        "§6", (*RUN, given.stop_requested(cause="max_runtime"), STOP), (ended("timed_out", signal=15),),
        (ended("interrupted", signal=15),)),
    "a stall": Case("§6", (*RUN, given.stop_requested(cause="stalled")), (ended("stalled", code=0),), (CLEAN,)),
    "success that stands for a verb": Case(
        "§6", (CARD, given.claimed(on_success="complete"), BOUND), (given.completed(),), (CLEAN,)),
    "success of a review is clean": Case(
        "§6", (*REVIEW, given.claimed(2, worker="critic", lane="review", on_success="review"), given.worker_bound(2)),
        (given.exited(2, "clean", code=0, evidence="exit_record"), given.violation(2)),
        (given.exited(2, "crashed", code=0, evidence="exit_record"),)),
    "nothing seen": Case("§6", RUN, (ended("crashed"),), (ended("timed_out"),)),
    "never bound, so nothing crashed": Case("§6", (CARD, CLAIM), (ended("interrupted"),), (ended("crashed"),)),
    "lost once lease and grace are over": Case(
        "§6", RUN, (ended("lost", lease_until=NOW - 56 * SECOND, grace=60),),
        (ended("lost", lease_until=NOW - 55 * SECOND, grace=60),)),
    "lost with its lease": Case("§2", RUN, (ended("lost", lease_until=0, grace=60),), (ended("lost"),)),
    "a lease is a lost run's": Case("§2", RUN, (CRASH,), (ended("crashed", code=2, lease_until=0, grace=60),)),
    "the cooldown": Case("§4", RUN, (ended("rate_limited", code=75, not_before=waits(5, "rate_limited")),),
                         (ended("rate_limited", code=75, not_before=waits(5, "rate_limited") - 1),)),
    "the cooldown of a reset": Case(
        "§4", RUN, (ended("rate_limited", code=75, reset_asked=FAR, not_before=waits(5, "rate_limited", 1, FAR)),),
        (ended("rate_limited", code=75, reset_asked=FAR, not_before=FAR),)),
    "none for the first neutral end": Case("§4", RUN, (ended("interrupted", code=143),),
                                           (ended("interrupted", code=143, not_before=NOW),)),
    "a cooldown for the second": Case(
        "§4", (*RUN, ended("interrupted", code=143), given.claimed(2), given.worker_bound(2)),
        (given.exited(2, "interrupted", code=143, evidence="trailer", not_before=waits(8, "interrupted", 2)),),
        (given.exited(2, "interrupted", code=143, evidence="trailer"),)),
    "no cooldown for a crash": Case("§4", RUN, (CRASH,), (ended("crashed", code=2, not_before=NOW),)),
    "complete the open run": Case("§2", RUN, (given.completed(),), (given.completed(2),)),
    "complete before the parents": Case(
        "§8", (*RUN, *of(OTHER, CARD), by_worker(given.linked(OTHER))), (given.waiting(),), (given.completed(),)),
    "complete by an operator while it runs": Case("§8", RUN, (STOP,), (given.completed(None),)),
    "complete twice": Case("§8", DONE, (given.reopened(),), (given.completed(None),)),
    "complete by an operator before the parents": Case(
        "§8", WAITING, (given.completed(None),), (*of(OTHER, given.completed(None)),), OTHER),
    "ask for a review of the open run": Case("§2", RUN, (given.review_requested(),), (given.review_requested(2),)),
    "changes in review only": Case("§8", RUN, (given.review_requested(),), (given.changes_requested(1),)),
    "changes of the open run": Case(
        "§2", (*REVIEW, given.claimed(2, worker="critic", lane="review")), (given.changes_requested(2),),
        (given.changes_requested(1),)),
    "changes by an operator": Case("§2", REVIEW, (given.changes_requested(),), (given.changes_requested(1),)),
    "changes by an operator in status review": Case("§8", (*REVIEW, HOLD), (given.unblocked(),),
                                                    (given.changes_requested(),)),
    "block of the open run": Case("§2", RUN, (given.blocked(1, "worker"),), (given.blocked(2, "worker"),)),
    "block of a run is its worker's": Case("§2", RUN, (given.blocked(1, "worker"),), (given.blocked(1),)),
    "a worker's hold is sticky": Case("§4", RUN, (given.blocked(1, "worker"),),
                                      (given.blocked(1, "worker", sticky=False),)),
    "a dependency needs an open parent": Case(
        "§8", (*of(OTHER, CARD), *RUN, by_worker(given.linked(OTHER))), (given.waiting(),),
        (given.blocked(1, "worker", block_kind="dependency"),)),
    "a dependency without an open parent": Case("§8", RUN, (given.blocked(1, "worker", block_kind="needs_input"),),
                                                (given.waiting(),)),
    "a late result of a run that was": Case("§2", (*RUN, CRASH), (LATE,), (given.late_result(2),)),
    "a late result once": Case("§8", (*RUN, CRASH, LATE), (given.commented(),), (LATE,)),
    "a late result before its end": Case("§8", (*RUN, *of(OTHER, CARD), by_worker(given.linked(OTHER))),
                                         (LATE, given.waiting()), (LATE, given.commented())),
    # §5: what must follow
    "a violation follows a clean exit": Case("§2", RUN, (CLEAN, given.violation()), (CLEAN, given.commented())),
    "a violation follows nothing else": Case("§2", (*RUN, CRASH), (given.commented(),), (given.violation(),)),
    "a violation's streak": Case("§5", RUN, (CLEAN, given.violation()), (CLEAN, given.violation(streak=2)), step=2),
    "a violation's limit": Case("§5", (given.policy_changed(violation_limit=5), *RUN),
                                (CLEAN, given.violation(limit=5)), (CLEAN, given.violation(limit=3)), step=2),
    "a violation's limit source": Case(
        "§5", (given.created(max_retries=3), CLAIM, BOUND), (CLEAN, given.violation(limit_source="task")),
        (CLEAN, given.violation(limit_source="policy")), step=2),
    "a violation of that run": Case("§2", RUN, (CLEAN, given.violation()), (CLEAN, given.violation(2))),
    "a budget that trips is followed by its hold": Case(
        "§5", TRIPPED[:-1], (TRIPPED[-1], given.budget_blocked()), (TRIPPED[-1], given.commented())),
    "a hold by a budget that did not trip": Case("§5", (*RUN, CRASH), (given.commented(),), (given.budget_blocked(),)),
    "a hold's count": Case("§5", TRIPPED, (given.budget_blocked(),), (given.budget_blocked(count=3),)),
    "a hold's limit": Case("§5", TRIPPED, (given.budget_blocked(),), (given.budget_blocked(limit=1),)),
    "a hold's source": Case("§5", TRIPPED, (given.budget_blocked(),), (given.budget_blocked(limit_source="task"),)),
    "a hold's stickiness": Case("§5", TRIPPED, (given.budget_blocked(),), (given.budget_blocked(sticky=True),)),
    "a hold's cause": Case("§5", TRIPPED, (given.budget_blocked(),), (given.budget_blocked("attempt_budget"),)),
    "the policy then in force": Case(
        "§5", (given.policy_changed(failure_limit=3), *TRIPPED, given.policy_changed(), given.claimed(3),
               given.worker_bound(3), given.exited(3, code=2, evidence="trailer")),
        (given.budget_blocked(count=3),), (given.budget_blocked(count=3, limit=3),)),
    "a violation budget follows the violation": Case(
        "§5", (given.created(max_retries=1), CLAIM, BOUND),
        (CLEAN, given.violation(limit=1, limit_source="task"),
         given.budget_blocked("violation_budget", count=1, limit=1, sticky=True, limit_source="task")),
        (CLEAN, given.violation(limit=1, limit_source="task"), given.commented())),
    "the run budget looks at every end": Case(
        "§5", (given.policy_changed(run_limit=1), *RUN),
        (given.review_requested(), given.budget_blocked("run_budget", count=1, limit=1, sticky=True)),
        (given.review_requested(), given.commented())),
    # §8: who may
    "a worker does not unblock": Case("§8", (CARD, HOLD), (given.unblocked(),), (by_worker(given.unblocked()),)),
    "a worker does not edit": Case("§8", (CARD,), (given.edited(priority=1),), (by_worker(given.edited(priority=1)),)),
    "a worker completes its own run": Case("§8", (CARD,), (given.completed(None),),
                                           (by_worker(given.completed(None)),)),
    "a worker changes its own run": Case("§8", REVIEW, (given.changes_requested(),),
                                         (by_worker(given.changes_requested()),)),
    "a worker blocks its own run": Case("§8", (CARD, given.commented()), (HOLD,), (by_worker(HOLD),)),
    # the board's own stream
    "a pause that was": Case("§8", (given.paused(),), (given.resumed(),), (given.resumed("host", "x"),), ""),
    "one board_created": Case("§2", (CARD,), (given.paused(),), (BOARD,), ""),
    "the board's own kinds": Case("§2", (CARD,), (By(given.redacted(1), None, ""),),
                                  (By(given.commented(), None, ""),), ""),
    "the board's redactions": Case("§10", (CARD,), (By(given.redacted(2), None, ""),),
                                   (By(given.redacted(9), None, ""),), ""),
    "a worker does not pause": Case("§8", (CARD,), (given.paused(),), (by_worker(given.paused(), ""),), ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_the_rules_allow_is_legal(case):
    """RULES §9: each event was legal where it stands, so nothing is said."""
    assert judge(told(*case.before, *case.good)) == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_no_rule_allows_is_named(case):
    """RULES §9: one divergence, with its card, its position and its rule."""
    position = 1 + len(case.before) + case.step
    assert named(judge(told(*case.before, *case.bad))) == [(case.task, position, case.rule)]


def test_a_log_begins_with_its_board():
    """RULES §2: the first event of the board's stream is board_created."""
    assert named(judge(given.history(CARD, given.commented()))) == [("t_a", 1, "§2")]


def test_only_the_first_bad_event_of_a_card_is_named():
    """RULES §9: what follows a bad event may rest on it; other cards are still judged."""
    bad = (given.reopened(), given.reopened(), given.claimed(9))
    faults = judge(told(CARD, *of(OTHER, CARD), *bad, *of(OTHER, given.claimed(2))))
    assert named(faults) == [("t_a", 4, "§8"), (OTHER, 7, "§1")]


@pytest.mark.parametrize(("last", "rule"), [((CLEAN,), "§2"), ((LATE,), "§8"), ((CLEAN, given.violation()), None)])
def test_what_must_follow_is_missed_at_the_end_of_the_log_too(last, rule):
    """RULES §9: in the same append; a log that ends before it was cut off."""
    assert named(judge(told(*RUN, *last))) == ([] if rule is None else [("t_a", 5, rule)])


def test_another_cards_event_between_an_end_and_what_must_follow_is_named_at_the_end():
    """RULES §2: the violation stands in the same append."""
    faults = judge(told(*of(OTHER, CARD), *RUN, CLEAN, *of(OTHER, given.commented()), given.violation()))
    assert named(faults) == [("t_a", 6, "§2")]


def test_a_budget_on_top_of_a_sticky_end_has_no_hold():
    """RULES §5: a budget writes none where the end itself set a sticky hold."""
    config = ended("config", code=78)
    assert judge(told(given.policy_changed(failure_limit=1), *RUN, config)) == []
    held = given.budget_blocked(count=1, limit=1)
    assert named(judge(told(given.policy_changed(failure_limit=1), *RUN, config, held))) == [("t_a", 7, "§5")]


@pytest.mark.parametrize(("early", "unblock", "claim"), [(1, [], ["§3"]), (0, ["§8"], [])])
def test_a_cooldown_is_over_at_its_very_instant(early, unblock, claim):
    """RULES §3, §8: until then a person may lift it, from then on the card can be claimed."""
    wait = waits(5, "rate_limited")
    before = (*RUN, ended("rate_limited", code=75, not_before=wait))
    for event, rules in ((given.unblocked(), unblock), (given.claimed(2), claim)):
        log = told(*before, event)
        log[-1] = log[-1]._replace(at=wait - early)
        assert [fault.rule for fault in judge(log)] == rules


def test_a_card_may_be_born_blocked_by_the_worker_that_makes_it():
    """RULES §8: `create --blocked` is one append, by whoever creates."""
    made = given.created(**MADE_BY)
    assert judge(told(*RUN, by_worker(made, OTHER), by_worker(HOLD, OTHER))) == []
    assert named(judge(told(*RUN, by_worker(made, OTHER), given.progressed(), by_worker(HOLD, OTHER)))) == [
        (OTHER, 7, "§8")
    ]


def test_a_wish_is_applied_by_its_own_actor_after_the_budgets_hold():
    """RULES §7: in the same append, after any budget's `blocked`."""
    history = (
        *TRIPPED[:-1],
        given.stop_requested(2, wish=ASKED),
        given.exited(2, "interrupted", code=143, evidence="trailer"),
        HOLD,
    )
    assert judge(told(*history)) == []


def test_an_archived_card_keeps_its_hold():
    """RULES §8: a closed card is left alone, by the sweep too."""
    lifted = judge(
        told(*HELD, given.archived(), given.policy_changed(failure_limit=9), given.unblocked("limit_raised"))
    )

    assert [fault.rule for fault in lifted] == ["§5"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_ring_is_named_whole(number):
    """RULES §3: the ring is printed whole."""
    chain = [
        By(given.created(parents=[f"t_{each - 1}"] if each else ()), None, f"t_{each}") for each in range(number + 1)
    ]
    (fault,) = judge(told(*chain, By(given.linked(f"t_{number}"), None, "t_0")))
    assert fault.stored == ["t_0", *(f"t_{each}" for each in range(number, 0, -1)), "t_0"]


def test_a_fault_says_what_is_written_and_what_the_rules_make_of_it():
    """RULES §9: stored and computed stand side by side, in words too."""
    (fault,) = judge(told(*TRIPPED, given.budget_blocked(count=3)))
    assert (fault.stored["count"], fault.computed["count"]) == (3, 2)
    assert fault.as_json()["text"] == "blocked: not what the policy then in force makes of it"
