"""What that system stores of its cards and runs, against what the events say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from kanban.foreign.account import Account, Block
from kanban.foreign.findings import NEW, Finding, Sure
from kanban.foreign.kinds import NEWER, OVER, STATUSES, Era
from kanban.foreign.tables import Card, Tables

_UNTOLD: Final = "that system deletes the events of done and archived cards only"
_NAMED: Final = 5  # events that are named where there are many
_BETWEEN: Final = "there a change and its count are two transactions: a kill between them loses the count"
_AT_WORK: Final = "the copy may stand between a change and its count, which are two transactions there"


def against_history(tables: Tables, accounts: Mapping[str, Account], *, newest: int, era: Era) -> Iterator[Finding]:
    """A finding for each card that is stored otherwise than its history says.

    *newest*: the last event of the board; *era*: the versions that may have written it.
    """
    for card in tables.cards.values():
        account = accounts.get(card.id)
        if account is not None:
            yield from _card(tables, card, account, newest, era)
        elif card.status not in OVER:
            yield _untold(card)


def left_open(tables: Tables, claims: Mapping[int, int]) -> Iterator[Finding]:
    """Runs that are open although their card is not running under them, and second open runs of one card.

    *claims*: run → the event that claimed it.
    """
    opened: dict[str, list[int]] = {}
    for run in tables.runs.values():
        card = tables.cards.get(run.task)
        if run.ended_at is not None or card is None:
            continue
        opened.setdefault(run.task, []).append(run.id)
        if card.status != "running" or card.run != run.id:
            at = claims.get(run.id)
            text = f"run {run.id} is open, the card is {card.status or 'without a status'}"
            yield Finding("run_left_open", run.task, text, () if at is None else (at,))
    for task, runs in opened.items():
        if len(runs) > 1:
            text = f"runs {', '.join(map(str, runs))} are open at once"
            events = tuple(claims[run] for run in runs if run in claims)
            yield Finding("two_live_runs", task, text, events, runs=runs[1:])


def overlapping(tables: Tables, accounts: Mapping[str, Account]) -> Iterator[Finding]:
    """Runs of one card that overlap by their times, where the events that would tell are gone."""
    by_card: dict[str, list[tuple[int, int, int]]] = {}
    for run in tables.runs.values():
        account = accounts.get(run.task)
        gone = account is None or not account.whole
        if gone and run.task in tables.cards and run.started_at is not None and run.ended_at is not None:
            by_card.setdefault(run.task, []).append((run.started_at, run.ended_at, run.id))
    for task, spans in by_card.items():
        spans.sort()
        for (_, ended, first), (began, end, second) in pairwise(spans):
            if began < ended and end > began:
                text = f"run {second} began {ended - began} s before run {first} ended"
                because = "by the times in the table of runs alone: the events of that time are gone"
                yield Finding("two_live_runs", task, text, (), Sure.LIKELY, because, runs=[second])


def _card(tables: Tables, card: Card, account: Account, newest: int, era: Era) -> Iterator[Finding]:
    stored: dict[str, Any] = {}
    history: dict[str, Any] = {}
    if card.status not in account.statuses and account.statuses != STATUSES:
        stored["status"], history["status"] = card.status, _one_of(account.statuses)
    if tables.knows("consecutive_failures") and (card.failures or 0) not in account.failures:
        stored["failures"], history["failures"] = card.failures, _count(account)
    block = Block(card.block_kind, card.recurrences or 0, known=True)
    if tables.knows("block_recurrences") and account.block.known and account.block != block:
        stored["block"], history["block"] = _block(block), _block(account.block)
    if tables.knows("current_run_id") and account.status not in {None, "running"} and card.run is not None:
        stored["run"], history["run"] = card.run, None
    if stored:
        yield _finding(card, account, stored, history, _certainty(card, account, stored, newest, era))


def _untold(card: Card) -> Finding:
    text = f"status is {card.status}, and no event tells of the card"
    shown = {"status": card.status}
    return Finding(
        "stored_against_history", card.id, text, (), Sure.LIKELY, _UNTOLD, stored=shown, history={"status": None}
    )


def _block(block: Block) -> dict[str, Any]:
    return {"kind": block.kind, "recurrences": block.recurrences}


def _finding(
    card: Card, account: Account, stored: dict[str, Any], history: dict[str, Any], sure: tuple[Sure, str | None]
) -> Finding:
    said = "; ".join(f"{name} is {_shown(stored[name])}, by its events {_shown(history[name])}" for name in stored)
    events = sorted({account.moved, *(account.counted[-_NAMED:] if "failures" in stored else ())} - {0})
    return Finding("stored_against_history", card.id, said, tuple(events), *sure, stored=stored, history=history)


def _certainty(card: Card, account: Account, stored: dict[str, Any], newest: int, era: Era) -> tuple[Sure, str | None]:
    settled = [account.moved] if stored.keys() - {"failures"} else []
    settled.extend(account.counted[-1:] if "failures" in stored else ())
    if account.strange > min(settled, default=0):
        return Sure.UNKNOWN, f"event {account.strange} is of a kind that is not known"
    if stored.keys() == {"failures"} and _is_between(card, account):
        return (Sure.UNKNOWN, _AT_WORK) if account.counted[-1] == newest else (Sure.LIKELY, _BETWEEN)
    if not account.whole:
        return Sure.LIKELY, f"its history begins in the middle, at event {account.first}"
    return (Sure.LIKELY, NEW) if era.high >= NEWER else (Sure.CERTAIN, None)


def _is_between(card: Card, account: Account) -> bool:
    """Whether the stored counter is one that stands between a change and its count."""
    fewer = account.failures.low - (card.failures or 0)
    return 0 < fewer <= account.unsure or (fewer < 0 and account.counted[-1:] == (account.cleared,))


def _count(account: Account) -> int | str:
    low, high = account.failures
    return low if low == high else f"{low} or more" if high is None else f"{low} to {high}"


def _one_of(statuses: frozenset[str]) -> str:
    return " or ".join(sorted(statuses))


def _shown(value: Any) -> str:
    match value:
        case None:
            return "none"
        case {"kind": kind, "recurrences": recurrences}:
            return f"{kind or 'untyped'} × {recurrences}"
        case _:
            return str(value)
