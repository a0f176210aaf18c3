"""The pages for people: the board, a card, a run's log, the pictures, and what changed between two positions.

Every page is a plain address that can be passed on: filters and the position looked at stand in it. All of them read
one short snapshot, of now or of the past, and write nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse

from dashboard.acts import LARGEST_RUN
from dashboard.api import run_of
from dashboard.board_view import BoardView, Column, Wanted, board_view, choices, column_view, counts
from dashboard.card_view import CardView, Kin, card_view
from dashboard.changes import changed
from dashboard.figures import Figures, cards_of, figures
from dashboard.gallery import gallery, headline
from dashboard.log_tail import LogTail, log_tail
from dashboard.pictures import Node, graph
from dashboard.rendered import address, page
from dashboard.source import Source
from dashboard.tiles import Tile, tiles
from ledger.clock import SECOND
from ledger.errors import InvalidInput, NotFound
from ledger.recorded import check_text
from ledger.standing import head
from projections.differences import differences
from projections.listed import STATUSES
from projections.places import Mark, Stretch, instant_of, place_of, position_at
from projections.task import Task

router = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)
MOST_TILES: Final = 200
"""Cards that a page asks for at once after something changed; with more it loads itself anew."""
_DAY: Final = 86_400 * SECOND
MOST_EVENTS: Final = 100_000
"""Events of which pictures are drawn unasked: in about a second."""
RANGES: Final = {
    "1d": ("a day", _DAY), "7d": ("a week", 7 * _DAY), "30d": ("30 days", 30 * _DAY), "all": ("everything", 2**62),
}  # fmt: skip
"""How far back pictures reach: what it is called, and microseconds."""
RECENT: Final = 100
"""Events that what changed is told of where nobody says which."""
WIDEST: Final = 20_000
"""Events between two positions that are compared."""
BACKS: Final = {"10 minutes": _DAY // 144, "an hour": _DAY // 24, "a day": _DAY, "a week": 7 * _DAY}
STACKED: Final = frozenset({"triage", "todo", "scheduled"})
"""Columns that stand above each other, where a screen has no room for all of them: nothing in them can start yet."""
Text = Annotated[str | None, Query()]


class Asked:
    """What the address of a page asks for: filters, the position looked at (none: now), lanes."""

    def __init__(
        self, *, status: Text = None, assignee: Text = None, label: Text = None, tenant: Text = None, q: Text = None,
        at: Text = None, lanes: Text = None, after: Text = None,
    ) -> None:  # fmt: skip
        self.wanted = Wanted(status or None, assignee or None, label or None, tenant or None, q or None)
        self.at = position_of("at", at)
        self.lanes = bool(lanes)
        self.after = after or None

    @property
    def kept(self) -> dict[str, str]:
        """The filters as an address holds them."""
        given = {name: getattr(self.wanted, name) for name in ("q", "assignee", "status", "label", "tenant")}
        return {name: value for name, value in given.items() if value} | ({"lanes": "1"} if self.lanes else {})


def position_of(name: str, given: str | None) -> int | None:
    """The position that an address holds as *name*. Raises `InvalidInput` for what is no position."""
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 19):  # noqa: PLR2004 – longer than any store's number
        raise InvalidInput(f"{name} is no position of the log", remedy="leave it out to see the board as it is now")
    return int(given)


@router.get("/")
def the_board(request: Request, asked: Annotated[Asked, Depends()]) -> HTMLResponse:
    """The board in columns, filtered, now or at a position."""
    source = source_of(request)
    with source.reading(asked.at) as tx:
        view = board_view(tx, source.board, asked.wanted)
        if asked.after is not None:
            column = column_view(tx, source.board, asked.wanted, after=asked.after)
            view = BoardView(view.position, view.at, (column,), view.pauses)
        offered = choices(tx, source.board)
    last, now = _present(source)
    return page(
        request, "board.html", page="Board", view=view, choices=offered, head=last, statuses=STATUSES,
        now=now if asked.at is None else view.at or now, present=now,
        swimming=_lanes(view.columns) if asked.lanes else (),
        stacked=[column for column in view.columns if column.status in STACKED and asked.wanted.status is None],
        **_told(asked),
    )  # fmt: skip


@router.get("/fragments/tiles")
def some_tiles(
    request: Request, asked: Annotated[Asked, Depends()], ids: Annotated[list[str], Query(alias="id")]
) -> HTMLResponse:
    """The tiles of these cards, as far as they pass the filters; with a filter also how many pass it."""
    source = source_of(request)
    for each in ids:
        check_text("id", each)
    with source.reading() as tx:
        found = [card for card in tiles(tx, source.board, ids[:MOST_TILES]) if _passes(card, asked.wanted)]
        counted = counts(tx, source.board, asked.wanted) if asked.wanted != Wanted() else {}
        now = source.now(tx)
    return page(request, "tiles.html", cards=found, counts=counted, now=now)


@router.get("/card/{task}")
def the_card(request: Request, task: str, at: Text = None) -> HTMLResponse:
    """One card whole, now or at a position."""
    position, source = position_of("at", at), source_of(request)
    last, now = _present(source)
    with source.reading(position) as tx:
        then = now if position is None else head(tx, source.board).at
        view = card_view(tx, source.board, task, now=then, then=position is not None)
        workers = choices(tx, source.board).assignees
    return page(
        request, "card.html", page="Card", view=view, card=view.tile, head=last, now=then, present=now, at=position,
        workers=workers, here_now=address(request.url.path, {}), graph=_graph(view, position), proven=_proven(view),
        shown={event.position for event in view.events}, log=_log(source, view) if position is None else None,
    )  # fmt: skip


@router.get("/card/{task}/log/{run}")
def the_log(
    request: Request, task: str, run: Annotated[int, Path(ge=1, le=LARGEST_RUN)], at: Text = None
) -> HTMLResponse:
    """The end of what a run wrote."""
    source = source_of(request)
    with source.reading() as tx:
        run_of(tx, source.board, task, run)
    found = log_tail(source.home, source.board, task, run)
    return page(request, "log.html", task=task, run=run, tail=found, at=position_of("at", at))


@router.get("/changes")
def the_changes(
    request: Request, first: Annotated[str | None, Query(alias="from")] = None,
    last: Annotated[str | None, Query(alias="to")] = None, at: Text = None,
) -> HTMLResponse:  # fmt: skip
    """What changed behind one position up to another: by default the newest events."""
    source = source_of(request)
    with source.reading() as tx:
        end, now = head(tx, source.board).position, source.now(tx)
        stretch = _between(position_of("from", first), position_of("to", last or at), end)
        moved = stretch.after < stretch.until
        span = [instant_of(tx, source.board, place) for place in (stretch.after + 1, stretch.until)] if moved else None
        backs = {words: position_at(tx, source.board, now - ago) for words, ago in BACKS.items()}
    cards, more = changed(differences(source.engine, source.board, *stretch) if moved else [])
    return page(
        request, "changes.html", page="Changes", present=now, head=end, first=stretch.after, last=stretch.until,
        span=span, cards=cards, more=more,
        backs=[(words, place) for words, place in backs.items() if end - place <= WIDEST],
        between=lambda first, last: address("/changes", {"from": first, "to": last}),
    )  # fmt: skip


def _between(first: int | None, last: int | None, end: int) -> Stretch:
    """Raises `InvalidInput` for a stretch that runs back, or is too wide to be compared while somebody waits."""
    until = end if last is None else min(last, end)
    after = max(until - RECENT, 0) if first is None else first
    if after > until:
        raise InvalidInput("that stretch of the log ends before it begins", remedy="give the earlier one first")
    if until - after > WIDEST:
        raise InvalidInput(f"{until - after:,} events stand between them", remedy=f"compare at most {WIDEST:,}")
    return Stretch(after, until)


@router.get("/pictures")
def the_pictures(request: Request, since: Text = None, at: Text = None) -> HTMLResponse:
    """How the board flowed: up to now or to a position, from so far back."""
    position, source = position_of("at", at), source_of(request)
    if since is not None and since not in RANGES:
        raise InvalidInput(f"since {since!r} is unknown", remedy=f"one of: {', '.join(RANGES)}")
    with source.reading() as tx:
        now, until = source.now(tx), place_of(tx, source.board, Mark(number=position))
        last = instant_of(tx, source.board, until) if until else now
        end = last if position is not None else now
        begins = {name: position_at(tx, source.board, end - back) for name, (_, back) in RANGES.items()}
    chosen = since or _usual(begins, until)
    stretch = Stretch(begins[chosen], until)
    drawn = _drawn(source, stretch, end) if stretch.after < until else None
    return page(
        request, "pictures.html", page="Pictures", at=position, present=now, until=last, since=chosen,
        ranges=[(name, words) for name, (words, _) in RANGES.items()], pictures=drawn and gallery(drawn),
        headline=drawn and headline(drawn), here_now=address("/pictures", {"since": since}),
        ranged=lambda name: address("/pictures", {"since": name, "at": position}),
    )  # fmt: skip


def _usual(begins: Mapping[str, int], until: int) -> str:
    """How far back pictures reach where nobody says it: as far as is drawn while somebody waits, 30 days at most."""
    return next((name for name in ("30d", "7d") if until - begins[name] <= MOST_EVENTS), "1d")


def _drawn(source: Source, stretch: Stretch, end: int) -> Figures:
    start: Mapping[str, Task] = {}
    if stretch.after:
        with source.reading(stretch.after) as before:
            start = cards_of(before, source.board)
    with source.reading() as tx:
        span = instant_of(tx, source.board, stretch.after + 1), end
        return figures(tx, source.board, stretch, start=start, span=span)


def source_of(request: Request) -> Source:
    """Which board this server shows."""
    found: Source = request.app.state.source
    return found


def _present(source: Source) -> tuple[int, int]:
    """The last position of the log, and what time it is."""
    with source.reading() as tx:
        return head(tx, source.board).position, source.now(tx)


def _told(asked: Asked) -> dict[str, Any]:
    """What the templates of the board say of the request."""

    def narrowed(**more: Any) -> str:
        return address("/", asked.kept | {"at": asked.at} | more)

    return {
        "wanted": asked.wanted,
        "filtered": asked.wanted != Wanted(),
        "at": asked.at,
        "after": asked.after,
        "lanes": asked.lanes,
        "kept": list(asked.kept.items()),
        "narrowed": narrowed,
        "everything": address("/", {"at": asked.at}),
        "here_now": address("/", asked.kept),
    }


def _lanes(columns: Sequence[Column]) -> list[tuple[str | None, list[tuple[str, list[Tile]]]]]:
    """For each worker its cards by column; nobody's come last. Columns without any card have no place."""
    filled = [column for column in columns if column.count]
    workers = {card.worker for column in filled for card in column.tiles}
    return [
        (worker, [(column.status, [card for card in column.tiles if card.worker == worker]) for column in filled])
        for worker in sorted(workers, key=lambda name: (name is None, name or ""))
    ]


def _passes(card: Tile, wanted: Wanted) -> bool:
    """Whether a card is wanted, as `board_view` has it."""
    needle = (wanted.q or "").casefold()
    return (
        (wanted.status is None or card.status == wanted.status)
        and (wanted.assignee is None or (card.assignee or "none") == wanted.assignee)
        and (wanted.label is None or wanted.label in card.labels)
        and (wanted.tenant is None or card.tenant == wanted.tenant)
        and (needle in (card.title or "").casefold() or needle in card.id)
    )


def _graph(view: CardView, at: int | None) -> Any:
    """The card between those that it waits for and those that wait for it, two generations each."""
    before = [[kin for kin in view.parents if kin.steps == steps] for steps in (2, 1)]
    behind = [[kin for kin in view.children if kin.steps == steps] for steps in (1, 2)]
    columns: Sequence[Sequence[Kin | Tile]] = [*before, [view.tile], *behind]
    nodes = [[_node(each, at) for each in column] for column in columns if column]
    edges = [(kin.task, kin.near) for kin in view.parents] + [(kin.near, kin.task) for kin in view.children]
    return graph("kin", "What waits for what", nodes, edges, here=view.tile.id)


def _node(each: Kin | Tile, at: int | None) -> Node:
    card = each.id if isinstance(each, Tile) else each.task
    return Node(card, each.title or card, each.status, address(f"/card/{card}", {"at": at}))


def _proven(view: CardView) -> set[int]:
    """Where the events stand that prove why the card stands where it stands."""
    proofs: Sequence[Mapping[str, Any]] = view.why["proof"]
    return {event["position"] for proof in proofs for event in proof["events"]}


def _log(source: Source, view: CardView) -> Mapping[str, Any] | None:
    """The end of what the card's last run wrote; none where there was no run."""
    if not view.runs:
        return None
    run = view.runs[-1]["run"]
    tail: LogTail | None
    try:
        tail = log_tail(source.home, source.board, view.tile.id, run)
    except NotFound:
        tail = None
    return {"run": run, "tail": tail}
