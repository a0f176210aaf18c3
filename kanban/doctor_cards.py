"""What is looked at of cards: waits that nothing will end, cards that nobody will start, a sweep that does not come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from sqlalchemy import Column, Connection, Engine, func, select

from kanban.case import Case
from kanban.desk import Desk
from kanban.findings import Finding, counted, info, listed, ok, warning
from ledger.clock import SECOND
from ledger.database import reading
from projections import tables
from projections.graph import dead, satisfied
from projections.queries import claimable_at

CARDS, LINKS, TASKS, SWEEPS = tables.cards, tables.links, tables.tasks, tables.sweeps
QUIET: Final = 600 * SECOND
"""How long no sweep may tick while something could be started."""


def waits(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether a card waits for what no event but a person's can bring."""
    found = []
    with reading(engine) as tx:
        for desk in case.desks(tx):
            found += [*_waits(case, desk.board, _unmet(tx, desk.board))]
    yield from found or [ok("waits", "no card waits for what only a person can bring")]


def _unmet(tx: Connection, board: str) -> list[Any]:
    """The links of open cards whose parent is not satisfied, with what is known of it."""
    child, above = TASKS.alias("child"), CARDS.alias("above")
    same = (child.c.board == LINKS.c.board) & (child.c.task == LINKS.c.child)
    joined = LINKS.join(child, same).outerjoin(
        above, (above.c.board == LINKS.c.board) & (above.c.task == LINKS.c.parent)
    )
    columns = (
        LINKS.c.child, LINKS.c.parent, LINKS.c.require, above.c.status, above.c.outcome, above.c.archived,
        above.c.hold_cause, above.c.hold_sticky,
    )  # fmt: skip
    is_open = (child.c.outcome.is_(None), ~child.c.archived, LINKS.c.board == board)
    rows = tx.execute(select(*columns).select_from(joined).where(*is_open).order_by(LINKS.c.child, LINKS.c.parent))
    return [row for row in rows if not satisfied(row.outcome, row.require)]


def _waits(case: Case, board: str, unmet: Iterable[Any]) -> Iterator[Finding]:
    above: dict[str, set[str]] = defaultdict(set)
    held: dict[tuple[str, str], list[str]] = defaultdict(list)
    on, flag = case.on(board), case.flag(board)
    for row in unmet:
        above[row.child].add(row.parent)
        if dead(row.outcome, row.require, archived=bool(row.archived), known=row.status is not None):
            stands = row.outcome or row.status or "not there"
            text = f"{on}{row.child} waits for ever: {row.parent} is {stands}, the link requires {row.require}"
            again = "" if row.status is None else f"ledger reopen {row.parent}{flag}, or "
            yield warning("waits", text, f"{again}ledger unlink {row.child} {row.parent}{flag}")
        elif row.status == "blocked" and row.hold_sticky:
            held[row.parent, row.hold_cause].append(row.child)
    for ring in rings(above):
        text = f"{on}cards wait for each other: {' → '.join(ring)}"
        yield warning("waits", text, f"ledger unlink {ring[0]} {ring[1]}{flag}")
    for (parent, cause), children in held.items():
        text = f"{on}{parent} is held ({cause}) until a person lifts it; {listed(children)} waits for it"
        yield info("waits", text, f"ledger why {parent}{flag}")


def rings(above: Mapping[str, set[str]]) -> list[list[str]]:
    """Rings of cards that wait for each other, first and last the same; *above*: a card → whom it waits for."""
    found = []
    left = dict(above)
    while stuck := _stuck(left):
        ring = _walked(stuck)
        found.append(ring)
        left = {card: stuck[card] for card in stuck if card not in ring}
    return found


def _stuck(above: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """What is left of *above* once every card that waits for nobody in it is taken out, again and again."""
    below: dict[str, list[str]] = defaultdict(list)
    for card, parents in above.items():
        for parent in parents & above.keys():
            below[parent].append(card)
    waiting = {card: len(parents & above.keys()) for card, parents in above.items()}
    free = [card for card, number in waiting.items() if not number]
    while free:
        for card in below[free.pop()]:
            waiting[card] -= 1
            if not waiting[card]:
                free.append(card)
    stuck = {card for card, number in waiting.items() if number}
    return {card: above[card] & stuck for card in sorted(stuck)}


def _walked(stuck: Mapping[str, set[str]]) -> list[str]:
    """Up from any card until one comes again: everyone in *stuck* waits for somebody in it."""
    path: dict[str, int] = {}
    here = next(iter(stuck))
    while here not in path:
        path[here] = len(path)
        here = min(stuck[here])
    return [*list(path)[path[here] :], here]


def assignees(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether a card waits for a worker that no sweep of this host can start."""
    found = []
    with reading(engine) as tx:
        for desk in case.desks(tx):
            elsewhere = [host for host, _ in _ticks(desk) if host != case.host.id]
            for worker, cards in _waiting(tx, desk.board).items():
                found += [*_unstartable(case, desk.board, worker, cards, swept_elsewhere=bool(elsewhere))]
    yield from found or [ok("assignees", "every card that could start has somebody who is known here")]


def _waiting(tx: Connection, board: str) -> dict[str | None, list[str]]:
    """The cards that only time or a worker holds back, by worker."""
    found: dict[str | None, list[str]] = defaultdict(list)
    for row in _that_wait(tx, board):
        found[row.reviewer if row.lane == "review" else row.assignee].append(row.task)
    return found


def _that_wait(tx: Connection, board: str, *more: Column[Any]) -> Iterable[Any]:
    """The cards that only time, a worker or a host holds back, the oldest first, with what *more* is asked of them."""
    columns = select(CARDS.c.task, CARDS.c.lane, CARDS.c.assignee, CARDS.c.reviewer, *more)
    waiting = columns.where(CARDS.c.board == board, CARDS.c.status.in_(("scheduled", "review", "ready")))
    return tx.execute(waiting.order_by(CARDS.c.created_at, CARDS.c.task))


def _unstartable(
    case: Case, board: str, worker: str | None, cards: list[str], *, swept_elsewhere: bool
) -> Iterator[Finding]:
    known = case.at.loaded.config.assignees
    if worker is None:
        text = f"{case.on(board)}nobody is to do {listed(cards)}: no sweep starts a card without an assignee"
        yield warning("assignees", text, f"ledger assign {cards[0]} NAME{case.flag(board)}")
    elif worker not in known:
        near = get_close_matches(worker, list(known), n=1, cutoff=0.0)
        nearest = f"; the nearest is {near[0]!r}" if near else ""
        text = f"{case.on(board)}no assignee {worker!r} is configured on this host{nearest}: {listed(cards)}"
        mend = f"add [assignees.{worker}] to {case.at.home / 'ledger.toml'}, or ledger assign {cards[0]} NAME"
        yield info("assignees", text, mend) if swept_elsewhere else warning("assignees", text, mend)


def placement(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether a card that could start waits for another host than this one."""
    found = []
    with reading(engine) as tx:
        for desk in case.desks(tx):
            others = any(host != case.host.id for host, _ in _ticks(desk))
            for hosts, cards in _placed(case, tx, desk.board).items():
                text = f"{case.on(desk.board)}{listed(cards)} can start on {' or '.join(hosts)} alone, not on this host"
                mend = f"ledger sweep --every 5s{case.flag(desk.board)}, there"
                found.append(info("placement", text, mend) if others else warning("placement", text, mend))
    yield from found or [ok("placement", "no card that could start is placed on another host")]


def _placed(case: Case, tx: Connection, board: str) -> dict[tuple[str, ...], list[str]]:
    """The cards that may start, but not here: by the hosts that they, or their workers, are placed on."""
    known, found = case.at.loaded.config.assignees, defaultdict(list)
    for row in _that_wait(tx, board, CARDS.c.host):
        worker = known.get(row.reviewer if row.lane == "review" else row.assignee)
        for hosts in ((row.host,) if row.host is not None else (), () if worker is None else worker.hosts):
            if not case.host.is_among(hosts):
                found[hosts].append(row.task)
                break
    return found


def sweeps(case: Case, engine: Engine) -> Iterator[Finding]:
    """Whether somebody comes to start what could be started."""
    missing = []
    with reading(engine) as tx:
        for desk in case.desks(tx):
            last = max((ticked for _, ticked in _ticks(desk)), default=None)
            number, since = _startable(case, desk)
            if number and case.now - max(last or 0, since) > QUIET:
                when = "ever" if last is None else f"for {counted((case.now - last) // (60 * SECOND), 'minute')}"
                text = f"{case.on(desk.board)}{counted(number, 'card')} could start, and no sweep has come {when}"
                missing.append(warning("sweeps", text, f"ledger sweep --every 5s{case.flag(desk.board)}"))
    yield from missing or [ok("sweeps", "nothing that could start waits for a sweep")]


def _ticks(desk: Desk) -> list[tuple[str, int]]:
    """The last tick of each host."""
    rows = desk.tx.execute(select(SWEEPS.c.host, SWEEPS.c.ticked_at).where(SWEEPS.c.board == desk.board))
    return [(host, ticked) for host, ticked in rows]


def _startable(case: Case, desk: Desk) -> tuple[int, int]:
    """How many cards a sweep could start now, and since when the oldest of them could be (µs)."""
    known = case.at.loaded.config.assignees
    number, since = 0, case.now
    query = select(CARDS.c.lane, CARDS.c.assignee, CARDS.c.reviewer, func.min(CARDS.c.updated_at), func.count())
    rows = desk.tx.execute(
        query.where(CARDS.c.board == desk.board, *claimable_at(case.now)).group_by(
            CARDS.c.lane, CARDS.c.assignee, CARDS.c.reviewer
        )
    )
    for lane, assignee, reviewer, oldest, cards in rows:
        worker = reviewer if lane == "review" else assignee
        person = worker in known and known[worker].human
        if worker is not None and not person and desk.settings.pause_of(worker=worker, host=case.host.id) is None:
            number, since = number + cards, min(since, oldest)
    return number, since


CHECKS: Final[tuple[Callable[[Case, Engine], Iterator[Finding]], ...]] = (waits, assignees, placement, sweeps)
