"""A lived-in log, what was changed in it behind its back, and what a replay says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import psycopg

from ledger import chain
from ledger.database import sqlite_module
from ledger.events import Actor, Event
from ledger.store import envelope_of
from projections.replay import Replay, replay
from tests import given, ledgers
from tests.ledgers import Ledger, spoken

TRIGGERS: Final = (
    "events_no_update", "events_no_delete", "events_no_replace", "words_no_update", "boards_head_grows",
    "boards_no_delete",
)  # fmt: skip


def live(store: Ledger) -> None:
    """A board on which things happened, a second apart: 23 events, two cards, three runs."""
    act(store, "", given.policy_changed(failure_limit=1, max_running=3), actor=given.OPERATOR)  # 2
    store.append(given.paused("host", "node-9", reason="WORD"))  # 3
    store.append(given.created("Parent"), task="t_p")  # 4
    made = given.created(
        "Card", body="Do", parents=["t_p"], labels=("red",), tenant="acme", max_runtime=60, goal={"max_turns": 3},
        host="node-1", key="k", priority=2,
    )  # fmt: skip
    store.append(made)  # 5
    caps = (given.cap("board", 0, 3),)
    act(store, "t_p", given.claimed(1, caps=caps, quota=("limit",), reviewer="critic"), given.worker_bound(1))  # 6, 7
    act(store, "t_p", given.progressed(1, "WORD", tokens=5, cost="0.5"), given.worker_bound(1, role="turns"))  # 8, 9
    store.append(given.stop_requested(1), task="t_p")  # 10
    act(store, "t_p", given.completed(1, summary="WORD"), actor=given.WORKER)  # 11
    act(store, "t_a", given.claimed(1, caps=caps, max_runtime=60), given.worker_bound(1))  # 12, 13
    act(store, "t_a", given.review_requested(1), actor=given.WORKER)  # 14
    act(store, "t_a", given.claimed(2, caps=caps, worker="critic", lane="review"), given.worker_bound(2))  # 15, 16
    act(store, "t_a", given.exited(2, "crashed", code=2, evidence="exit_record"),
        given.budget_blocked(count=1, limit=1), actor=given.SYSTEM)  # 17, 18  # fmt: skip
    store.append(given.late_result(2))  # 19
    store.append(given.scheduled(given.NOW))  # 20
    act(store, "t_a", given.commented("Secret"), actor=given.OPERATOR)  # 21
    act(store, "t_a", given.redacted(21), actor=given.OPERATOR)  # 22
    store.append(given.commented("Bye"), task="t_p")  # 23


def act(store: Ledger, task: str, *events: Event, actor: Actor = given.SWEEP) -> None:
    """*events* in one append, a second later."""
    store.clock.advance(1)
    store.append(*events, task=task, actor=actor)


def outside(store: Ledger, *statements: str) -> None:
    """What somebody does who opens the store with another program, and keeps to no rule: all of it or nothing."""
    (_in_file if store.is_file else _at_server)(store, statements)


def _in_file(store: Ledger, statements: Sequence[str]) -> None:
    with sqlite_module().connect(store.path) as raw:
        raw.execute("PRAGMA foreign_keys=OFF")
        for trigger in TRIGGERS:
            raw.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        for statement in statements:
            raw.execute(statement)
    raw.close()


def _at_server(store: Ledger, statements: Sequence[str]) -> None:
    with psycopg.connect(store.url.replace("+psycopg", "")) as raw:
        raw.execute("SET session_replication_role = replica")  # no trigger is heard, no key of another table asked
        for statement in statements:
            raw.execute(spoken(statement).encode())


def blob(data: bytes) -> str:
    """*data* in SQL, as SQLite writes it; `outside` and `Ledger.sql` speak it to PostgreSQL too."""
    return f"x'{data.hex()}'"


ZEROS: Final = blob(bytes(32))
"""A digest, or a hash, of nothing."""


def audit(store: Ledger, **options: Any) -> Replay:
    """What a replay says."""
    return replay(store.engine, ledgers.BOARD, **options)


def named(found: Replay) -> list[tuple[str | None, int | None, str]]:
    """Card, position and rule of each divergence."""
    return [(each.task, each.position, each.rule) for each in found.divergences]


def mend(board: Ledger) -> None:
    """Recompute every hash, and the head."""
    previous, statements = chain.first_hash(ledgers.BOARD_ID), []
    for event in board.read():
        previous = chain.next_hash(previous, envelope_of(event), event.facts_text, event.words_digest)
        statements.append(f"UPDATE events SET hash = {blob(previous)} WHERE position = {event.position}")
    outside(board, *statements, f"UPDATE boards SET head_hash = {blob(previous)}")
