"""The past of a board: a connection on which every read answers as if the log ended at an earlier position.

The last snapshot before it, and what the events between the two moved, stand there as temporary views and tables that
bear the names of the stored ones and hide them. So all that is asked of a store can be asked of its past, by the same
code, and the answer is that of a rebuild which stopped there. What no log tells was not kept: leases, why the last tick
held a card, and measures are none. Words that were redacted since are gone from the past too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, Engine, MetaData, Select, Table, false, insert, or_, select, union_all

from ledger.chain import first_hash
from ledger.database import apart
from ledger.schema import boards, events
from ledger.standing import Head, head
from ledger.store import at_position
from projections import tables
from projections.facts import facts_of
from projections.rows import run_row, settings_row, task_row
from projections.snapshots import newest
from projections.stretch import at_snapshot, moved
from projections.world import World

RUNS, TASKS, LINKS = tables.runs, tables.tasks, tables.links
_UNTOLD: Final = (tables.leases, tables.held, tables.sweeps, tables.measures)
"""What no log tells."""
_CARDS: Final = {
    "sqlite": "SELECT substr(sql, instr(sql, ' AS ') + 4) FROM sqlite_master WHERE name = 'cards'",
    "postgresql": "SELECT rtrim(pg_get_viewdef(to_regclass('cards')), ';')",
}
"""What the view of statuses says, in which every name is to mean what hides it."""


@contextmanager
def past(engine: Engine, board: str, position: int) -> Iterator[Connection]:
    """One snapshot of the store in which *board* stands as it stood at *position* of its log (0: before it began).

    A position behind the end of the log is its end. Only what is told of *board* is so; nothing can be written.
    Raises `UnknownBoard`; `UnknownKind`, `NewerSchema` for events that this program cannot read.
    """
    with apart(engine) as tx:
        end = _end(tx, board, position)
        cards = tx.exec_driver_sql(_CARDS[tx.dialect.name]).scalar_one()
        _hide_cards(tx, board, end.position, early=2 * end.position < head(tx, board).position)
        _hide_runs(tx, board, end.position)
        _hide_log(tx, board, end)
        for table in _UNTOLD:
            _table(tx, table.name, table)
        tx.exec_driver_sql(f"CREATE TEMPORARY VIEW cards AS {cards.replace('%', '%%')}")
        yield tx


def _end(tx: Connection, board: str, position: int) -> Head:
    """Where the log ends for those who look at *position*."""
    last = head(tx, board)
    if position >= last.position:
        return last
    event = at_position(tx, board, position)
    if event is None:
        return Head(last.board_id, 0, 0, first_hash(last.board_id))
    return Head(last.board_id, position, event.at, event.hash)


def _hide_cards(tx: Connection, board: str, until: int, *, early: bool) -> None:
    """Cards and links: those of the last snapshot, but for what has moved since.

    *early*: there are fewer rows from before that than rows which outlasted it.
    """
    snapshot = newest(tx, board, until)
    stretch = moved(tx, board, snapshot, until)
    rows = [{"board": board, **task_row(task), "open_parents": task.open_parents} for task in stretch.tasks]
    new = [_link(board, *link) for link in stretch.linked]
    cards, links = _table(tx, "moved_tasks", TASKS, rows), _table(tx, "moved_links", LINKS, new)
    gone = _table(tx, "gone_links", LINKS, [_link(board, *link) for link in stretch.unlinked])
    was, stood = (
        tables.past_tasks,
        at_snapshot(tables.past_tasks, board, snapshot, scanned="since" if early else "until"),
    )
    _view(tx, TASKS, _like(TASKS, was).where(*stood, was.c.task.not_in(select(cards.c.task))), cards)
    was, stood = tables.past_links, at_snapshot(tables.past_links, board, snapshot)
    ended = select(gone.c.child).where(gone.c.child == was.c.child, gone.c.parent == was.c.parent)
    _view(tx, LINKS, _like(LINKS, was).where(*stood, ~ended.exists()), links)


def _hide_runs(tx: Connection, board: str, until: int) -> None:
    """Runs: those that had ended are what they are; the others are folded from what had happened to their cards."""
    runs = _original(tx, RUNS)
    over = runs.c.ended_position <= until, or_(runs.c.late_position.is_(None), runs.c.late_position <= until)
    live = _pairs(tx, TASKS, TASKS.c.board == board, TASKS.c.run.is_not(None))
    live |= _pairs(tx, RUNS, RUNS.c.board == board, RUNS.c.late_position > until)
    world = World()
    world.take(facts_of(tx, board, until=until, of=sorted({card for card, _ in live})))
    rows = [{"board": board, **run_row(run)} for key, run in world.runs.items() if key in live]
    _view(tx, RUNS, _like(RUNS, runs).where(*over), _table(tx, "moved_runs", RUNS, rows))


def _hide_log(tx: Connection, board: str, end: Head) -> None:
    """The log, its head, and what the board's own stream had made of the board."""
    world = World()
    world.take(facts_of(tx, board, until=end.position, of=[""]))
    settings = [{"board": board, **settings_row(world.settings)}] if world.settings.version else []
    _table(tx, tables.settings.name, tables.settings, settings)
    log = _original(tx, events)
    upto = log.c.position + 0 <= end.position  # so that no engine walks the log to find a few cards in it
    _view(tx, events, _like(events, log).where(upto))
    last = {"board_id": end.board_id, "head_position": end.position, "head_at": end.at, "head_hash": end.hash}
    _table(tx, boards.name, boards, [{"board": board, **last}])


def _pairs(tx: Connection, table: Table, *where: Any) -> set[tuple[str, int]]:
    return {(card, run) for card, run in tx.execute(select(table.c.task, table.c.run).where(*where))}


def _link(board: str, child: str, parent: str, require: str) -> dict[str, str]:
    return {"board": board, "child": child, "parent": parent, "require": require}


# What is made in the transaction


def _original(tx: Connection, table: Table) -> Table:
    """The stored *table*, from within the view that hides it."""
    return table.to_metadata(MetaData(), schema="main") if tx.dialect.name == "sqlite" else table


def _like(table: Table, source: Table) -> Select[Any]:
    """The columns of *table*, from *source*."""
    return select(*(source.c[column.name] for column in table.columns))


def _table(tx: Connection, name: str, like: Table, rows: Iterable[Mapping[str, Any]] = ()) -> Table:
    """A temporary table of that *name*, with the columns of *like* and these *rows*."""
    _make(tx, "TABLE", name, _like(like, like).where(false()))
    made = like.to_metadata(MetaData(), name=name)
    found = list(rows)
    if found:
        tx.execute(insert(made), found)
    return made


def _view(tx: Connection, hidden: Table, stood: Select[Any], *more: Table) -> None:
    """A temporary view that hides the table: what *stood* and what *more* holds."""
    _make(tx, "VIEW", hidden.name, union_all(stood, *(_like(hidden, table) for table in more)) if more else stood)


def _make(tx: Connection, what: str, name: str, query: Any) -> None:
    spoken = query.compile(dialect=tx.dialect, compile_kwargs={"literal_binds": True})
    tx.exec_driver_sql(f"CREATE TEMPORARY {what} {name} AS {spoken}")
