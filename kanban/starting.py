"""From a claim to a running worker: workspace, prompt, supervisor at its gate, binding, gate (RULES §7.7).

Nothing runs before its process is bound in the log. Whatever fails before that leaves a record, so any tick by any
process books it the same way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from kanban.address import address_for_workers
from kanban.admission import claimed
from kanban.at_desk import at_desk, looking
from kanban.commands import Decision, known
from kanban.config import Assignee, resolve_env
from kanban.desk import Desk
from kanban.evidence import write_exit_record
from kanban.failpoints import reach
from kanban.folders import LOG, PROMPT, RESULT, TURNS, make_private, run_folder
from kanban.hosts import Host
from kanban.lease_file import uptime, write_lease
from kanban.prompt import PromptCard, compose, fill, shortened
from kanban.spawn import Children, Launched, Order, close_gate, launch, open_gate
from kanban.worker import resume
from kanban.workspaces import prepare
from ledger import ids
from ledger.clock import Clock
from ledger.database import serves_hosts
from ledger.errors import StoreFault
from ledger.events import Actor, Cap, WorkerBound
from ledger.recorded import Draft
from projections import queries
from projections.policy import Policy
from projections.run import Run
from projections.task import Task

SPAWN_FAILED = 127


@dataclass(frozen=True, slots=True)
class Claim:
    """A card that has just been claimed, and the lock that only its worker will hold."""

    task: Task
    run: int
    worker: Assignee
    lock: str
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A claim whose worker was let run, or why it was not."""

    task: str
    run: int
    pid: int | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class Shop:
    """What starting needs besides the claim."""

    engine: Engine
    board: str
    clock: Clock
    home: Path
    host: Host
    url: str
    environ: Mapping[str, str]
    log_limit: int
    worker_url: str | None = None

    @property
    def shared(self) -> bool:
        """Whether other hosts may share the store, and so take over what this one does not keep."""
        return serves_hosts(self.engine)


def open_run(desk: Desk, task: Task, worker: Assignee, *, caps: Iterable[Cap], host: Host, actor: Actor) -> Claim:
    """Open the next run of *task* for *worker*, to be started on *host*: nobody else will know its lock."""
    lock = ids.lock()
    event = claimed(
        desk,
        known(desk, task.id),
        by="spawn",
        worker=worker.name,
        lock_hash=ids.lock_hash(lock),
        host=host.id,
        boot=host.boot,
        caps=caps,
        on_success=worker.on_success,
        reviewer=worker.reviewer,
        result=worker.result,
        quota=worker.quota,
    )
    desk.write(Decision((Draft.of(task.id, event, actor),)))
    return Claim(task, event.run, worker, lock)


def start(shop: Shop, claims: Iterable[Claim], children: Children, actor: Actor) -> list[Started]:
    """Start a supervisor for each claim, bind them all in one transaction, then open their gates."""
    waiting: list[tuple[Claim, Launched]] = []
    faults: list[Started] = []
    try:
        for claim in claims:
            reach("before-launch")
            try:
                launched = launch(_order(shop, claim))
            except Exception as fault:
                if _is_of_the_store(fault):
                    raise
                faults.append(Started(claim.task.id, claim.run, None, _witness(shop, claim, str(fault))))
                continue
            children.add(launched.pid)
            waiting.append((claim, launched))
            reach("after-launch")
        unbound = _bind(shop, waiting, actor) if waiting else {}
    except BaseException:
        for _, launched in waiting:
            close_gate(launched)
        raise
    return [*faults, *(_let_run(claim, launched, unbound) for claim, launched in waiting)]


def _is_of_the_store(fault: Exception) -> bool:
    """Whether *fault* is no card's: nothing more is started then, and it is charged to none.

    A store that can be asked, but not about this card, raises no more than `StoreFault`: that is the card's.
    """
    return isinstance(fault, StoreFault) and type(fault) is not StoreFault


def _let_run(claim: Claim, launched: Launched, unbound: Mapping[str, str]) -> Started:
    if claim.task.id in unbound:
        close_gate(launched)
        return Started(claim.task.id, claim.run, None, unbound[claim.task.id])
    open_gate(launched)
    reach("after-first-gate")
    return Started(claim.task.id, claim.run, launched.pid, None)


def _bind(shop: Shop, waiting: Iterable[tuple[Claim, Launched]], actor: Actor) -> dict[str, str]:
    """Write `worker_bound` for every supervisor at its gate, then its lease; the cards that may not run, and why."""
    unbound: dict[str, str] = {}
    bound: dict[str, Run] = {}
    read_at = uptime()
    with at_desk(shop.engine, shop.board, shop.clock) as desk:
        for claim, launched in waiting:
            if not may_bind(desk, claim.task.id, claim.run, shop.host.id):
                unbound[claim.task.id] = "not bound: the run had ended, or a pause came between"
                continue
            try:
                with desk.part():
                    desk.write(Decision((Draft.of(claim.task.id, _binding(shop.host, claim.run, launched), actor),)))
            except StoreFault:
                raise
            except Exception as fault:  # noqa: BLE001 – whatever it is, it is this card's, and the others are bound
                unbound[claim.task.id] = f"not bound: {fault}"
                continue
            bound[claim.task.id] = desk.run(claim.task.id, claim.run) or Run(claim.task.id, claim.run)
        reach("before-bind-commit")
        shift, policy = read_at - desk.now, desk.settings.policy
    reach("after-bind-commit")
    return unbound | (_untold(shop, bound.values(), shift, policy) if shop.shared else {})


def _untold(shop: Shop, bound: Iterable[Run], shift: int, policy: Policy) -> dict[str, str]:
    """Write the leases of the *bound* runs where their supervisors look; the cards of which that failed, and why.

    *shift* is what this machine's `uptime` is ahead of the store's clock.
    """
    untold = {}
    for run in bound:
        try:
            folder = run_folder(shop.home, shop.board, run.task, run.run)
            write_lease(folder, run.lease_until + shift, policy)
        except OSError as fault:
            untold[run.task] = f"not let run: its lease could not be written: {fault.strerror}"
    return untold


def may_bind(desk: Desk, task: str, run: int, host: str) -> bool:
    """Whether the run is still open, and neither board, worker nor host is paused (RULES §7.7)."""
    found = desk.run(task, run)
    return found is not None and found.open and desk.settings.pause_of(worker=found.worker, host=host) is None


def _binding(host: Host, run: int, launched: Launched) -> WorkerBound:
    return WorkerBound(
        run=run,
        role="group",
        pid=launched.pid,
        start_tick=launched.start_tick,
        group=launched.pid,
        host=host.id,
        boot=host.boot,
        namespace=host.namespace,
    )


def _order(shop: Shop, claim: Claim) -> Order:
    """Everything on disk that the worker finds, and its command line."""
    folder = make_private(run_folder(shop.home, shop.board, claim.task.id, claim.run))
    env = resolve_env(claim.worker, shop.environ)
    workspace = prepare(shop.home, shop.board, claim.task.id, claim.task.card.workspace)
    with looking(shop.engine, shop.board, shop.clock) as desk:
        card = prompt_card(desk, claim.task)
    text = compose(card)
    prompt_file = folder / PROMPT
    _write_private(prompt_file, text)
    values = {
        "prompt": shortened(text, str(prompt_file)),
        "prompt_file": str(prompt_file),
        "task": claim.task.id,
        "title": card.title,
        "run": str(claim.run),
        "workspace": str(workspace),
        "result_file": str(folder / RESULT),
    }
    return Order(
        folder=folder,
        board=shop.board,
        task=claim.task.id,
        run=claim.run,
        lock=claim.lock,
        command=_command(folder, claim.worker, values, has_goal=card.goal_max_turns is not None),
        workspace=workspace,
        env=env,
        log_limit=shop.log_limit,
        database_url=address_for_workers(shop.url, shop.worker_url),
        home=shop.home,
        goal_max_turns=card.goal_max_turns,
        traceparent=claim.traceparent,
    )


def _command(folder: Path, worker: Assignee, values: Mapping[str, str], *, has_goal: bool) -> tuple[str, ...]:
    """What the supervisor starts: the command, or where that can go on after a failure what runs its turns."""
    command = fill(worker.command, values)
    if not worker.resume:
        return command
    turns = resume.Turns(
        command=command, resume=worker.resume, retry=worker.retry, quota=worker.quota,
        judge=worker.judge if has_goal else (), closes=worker.on_success != "violation", values=values,
    )  # fmt: skip
    _write_private(folder / TURNS, turns.as_json())
    return (sys.executable, "-I", resume.__file__, str(folder.absolute()))


def prompt_card(desk: Desk, task: Task) -> PromptCard:
    """What the worker is told, from the projections."""
    shown = queries.show(desk.tx, desk.board, task.id)
    parents = [queries.show(desk.tx, desk.board, parent["task"]) for parent in shown["parents"]]
    ended = [run for run in shown["runs"] if run["outcome"] is not None]
    changes = [event for event in shown["events"] if event["kind"] == "changes_requested"]
    return PromptCard(
        id=task.id,
        title=shown["task"]["title"] or "",
        body=shown["task"]["body"] or "",
        parents=tuple((p["task"]["id"], p["task"]["title"] or "", _result_of(p)) for p in parents),
        runs=tuple((run["run"], run["assignee"], run["outcome"], run["last_words"] or run["summary"]) for run in ended),
        comments=tuple((c["actor"]["name"], _at(c), c["body"] or "") for c in shown["comments"]),
        reviewing=task.lane == "review",
        goal_max_turns=task.card.goal_max_turns if task.lane == "work" else None,
        rejected=(changes[-1]["words"] or {}).get("reason") if changes and task.lane == "work" else None,
    )


def _result_of(shown: dict[str, Any]) -> str:
    completions = [event for event in shown["events"] if event["kind"] == "completed"]
    if not completions or shown["task"]["outcome"] is None:
        return ""
    words = completions[-1]["words"] or {}
    return words.get("summary") or words.get("result") or ""


def _at(comment: dict[str, Any]) -> int:
    from datetime import datetime

    from ledger.clock import instant

    return instant(datetime.fromisoformat(comment["at"]))


def _witness(shop: Shop, claim: Claim, reason: str) -> str:
    """Nothing could be started: bear witness in the supervisor's place (RULES §6: the claimer writes 127). The reason.

    Where no file can be written there is no evidence either, and the run is booked once its launch grace is over.
    """
    try:
        folder = make_private(run_folder(shop.home, shop.board, claim.task.id, claim.run))
        _write_private(folder / LOG, f"{reason}\n")
        write_exit_record(folder, claim.task.id, claim.run, SPAWN_FAILED)
    except OSError as fault:
        return f"{reason}; and no exit record could be written: {fault.strerror}"
    return reason


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
