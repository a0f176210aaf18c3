"""One screen of `ledger watch`, drawn from what is known of the board. No text of a card is ever markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from rich.text import Text

from cli.output import aligned, clean, zone
from cli.times import show_local
from cli.watch_view import HELP, View
from ledger.clock import SECOND, show_age
from ledger.errors import Unreadable
from ledger.recorded import Recorded
from projections.listed import STATUSES, Listed
from projections.sentences import said, sentence
from projections.watched import Held, Live, Watched

QUIET: Final = 60 * SECOND
"""After so long without a sweep the screen says so in red."""
_STYLES: Final = {"running": "green", "blocked": "red", "triage": "dim", "todo": "dim", "scheduled": "dim"}
_FOOT: Final = "q quit  f filter  s status  a assignee  j/k scroll  p pause  ? help"
_FEWEST: Final = 8
"""Lines below which only the cards are shown."""
_BOLD, _DIM, _BAD = "bold", "dim", "bold red"


def chosen(seen: Watched, view: View) -> list[Listed]:
    """The cards that pass the filters: larger priority first, then older, then id. Done ones are not listed."""
    wanted = view.text.casefold()
    found = [
        card
        for card in seen.cards.values()
        if view.status in {None, card.status}
        and view.assignee in {None, worker(card)}
        and (not wanted or wanted in f"{card.title or ''} {card.id}".casefold())
    ]
    return sorted(found, key=lambda card: (-card.priority, card.created_at, card.id))


def worker(card: Listed) -> str:
    """Whose card it is: in lane review its reviewer's."""
    named = card.reviewer or card.assignee if card.lane == "review" else card.assignee
    return named or "nobody"


@dataclass(frozen=True)
class Frame:
    """The screen at *now* (microseconds UTC): *height* lines at the most, or with a *foot* exactly, none too wide."""

    seen: Watched
    view: View
    now: int
    width: int
    height: int
    trouble: str | None = None
    foot: bool = True

    def lines(self) -> list[Text]:
        """The lines, from the top."""
        last = self.height - self.foot
        drawn = [*self._top, *(_help() if self.view.help else self._body())][:last]
        if self.foot:
            drawn += [Text()] * (last - len(drawn)) + [Text(_FOOT, _DIM)]
        for line in drawn:
            line.no_wrap = True
            line.truncate(self.width, overflow="ellipsis")
        return drawn

    @cached_property
    def found(self) -> list[Listed]:
        """The cards that are listed, on this screen or beyond."""
        return chosen(self.seen, self.view)

    @cached_property
    def furthest(self) -> int:
        """How far the list can be scrolled: then its last card is the last on the screen."""
        return max(0, len(self.found) - max(0, self._left - 1))

    @cached_property
    def _top(self) -> list[Text]:
        top = [_head(self.seen, self.view, self.now), _counts(self.seen, self.view), *_waiting(self.seen)]
        if self.trouble is not None:
            top.append(Text(clean(self.trouble), _BAD))
        if self.view.typing or self.view.status or self.view.assignee or self.view.text:
            top.append(_filters(self.view))
        return top

    @property
    def _room(self) -> int:
        return self.height - self.foot - len(self._top)

    @cached_property
    def _sections(self) -> tuple[list[Text], list[Text], list[Text]]:
        """What happens now, what is held, and what happened last; nothing of it where there is hardly any room."""
        if self._room < _FEWEST:
            return [], [], []
        most, seen = self._room // 4, self.seen
        live = _section("live runs", len(seen.live), _live(seen, self.now), most)
        held = _section("held", seen.counts["blocked"], _held(seen), most)
        return live, held, list(_events(seen, max(2, self._room // 5)))

    @property
    def _left(self) -> int:
        """Lines that are left to the cards, with their heading."""
        return self._room - sum(map(len, self._sections))

    def _body(self) -> Iterator[Text]:
        live, held, events = self._sections
        cards = list(_cards(self.seen, self.found, min(self.view.offset, self.furthest), self._left))
        blank = self._left - len(cards) if self.foot else 0
        yield from (*live, *held, *cards, *([Text()] * blank), *events)


def _head(seen: Watched, view: View, now: int) -> Text:
    line = Text().append(clean(seen.board), _BOLD)
    if view.paused:
        line.append("  PAUSED", _BAD)
    line.append_text(_swept(seen, now))
    line.append(f"  last event {_ago(now, seen.at)}  position {seen.position}")
    return line


def _swept(seen: Watched, now: int) -> Text:
    if not seen.ticks:
        return Text("  no sweep ever", _BAD)
    host, at = seen.ticks[0]
    return Text(f"  last sweep {_ago(now, at)} on {clean(host)}", _BAD if now - at >= QUIET else "")


def _counts(seen: Watched, view: View) -> Text:
    line = Text()
    for status in STATUSES:
        if seen.counts[status] or status == view.status:
            style = "reverse" if status == view.status else _STYLES.get(status, "")
            line.append("  " if line else "").append(f"{status} {seen.counts[status]}", style)
    return line or Text("no card yet", _DIM)


def _waiting(seen: Watched) -> list[Text]:
    """Why the last tick did not start the cards that it looked at."""
    reasons = Counter(seen.waiting.values())
    told = "  ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
    return [Text(f"not started: {told}", "yellow")] if told else []


def _filters(view: View) -> Text:
    parts = (("status", view.status), ("assignee", view.assignee), ("text", view.text or None))
    shown = "  ".join(f"{name} {clean(value)}" for name, value in parts if value)
    return Text(f"only: {shown}{'_ (Enter keeps, Esc drops)' if view.typing else ''}", "reverse")


def _help() -> list[Text]:
    return [Text(), *map(Text, aligned(HELP))]


def _section(title: str, count: int, lines: Sequence[Text], most: int) -> list[Text]:
    """A heading and what is below it, in *most* lines; nothing where there is nothing."""
    if not lines or most < 2:  # noqa: PLR2004 – a heading alone says nothing
        return []
    shown = list(lines[: most - 1])
    more = f", {count - len(shown)} more" if count > len(shown) else ""
    return [Text(f"{title}: {count}{more}", _BOLD), *shown]


def _live(seen: Watched, now: int) -> list[Text]:
    rows = [_run(seen, run, now) for run in seen.live]
    late = [run.lease_until < now for run in seen.live]
    return [Text(line, _BAD if is_late else "green") for line, is_late in zip(_table(rows), late, strict=True)]


def _run(seen: Watched, run: Live, now: int) -> tuple[Any, ...]:
    left = run.lease_until - now
    lease = f"lease {show_age(left // SECOND)}" if left >= 0 else f"lease over {_ago(now, run.lease_until)}"
    return (
        run.task,
        f"run {run.run}",
        show_age((now - run.claimed_at) // SECOND),
        lease,
        run.worker,
        _title(seen, run.task),
    )


def _held(seen: Watched) -> list[Text]:
    return [Text(line, "red") for line in _table([_hold(seen, each) for each in seen.held])]


def _hold(seen: Watched, each: Held) -> tuple[Any, ...]:
    counted = "" if each.counted is None else f"{each.counted}/{each.limit}"
    return each.task, each.cause, counted, each.assignee or "nobody", each.reason or _title(seen, each.task)


def _cards(seen: Watched, found: Sequence[Listed], offset: int, room: int) -> Iterator[Text]:
    if room < 2:  # noqa: PLR2004 – as above
        return
    shown = found[offset : offset + room - 1]
    place = f" ({offset + 1}–{offset + len(shown)})" if len(shown) < len(found) else ""
    yield Text(f"cards: {len(found)}{place}", _BOLD)
    rows = [_card(seen, card) for card in shown]
    for card, line in zip(shown, _table(rows), strict=True):
        yield Text(line, _STYLES.get(card.status, ""))


def _card(seen: Watched, card: Listed) -> tuple[Any, ...]:
    note = card.hold or seen.waiting.get(card.id, "")
    return card.id, card.status, worker(card), card.priority or "", note, card.title or "(redacted)"


def _events(seen: Watched, room: int) -> Iterator[Text]:
    shown = list(seen.events)[-(room - 1) :]
    if shown:
        yield Text("events", _BOLD)
    for line in _table([(show_local(each.at, zone())[11:], each.task, _told(each)) for each in shown]):
        yield Text(line)


def _told(event: Recorded) -> str:
    try:
        words = said(event)
        return f"{sentence(event)}{': ' + words if words else ''}"
    except Unreadable:
        return event.kind


def _title(seen: Watched, task: str) -> str:
    card = seen.cards.get(task)
    return "" if card is None else card.title or "(redacted)"


def _table(rows: Iterable[Sequence[Any]]) -> list[str]:
    cells = list(rows)
    return aligned(cells) if cells else []


def _ago(now: int, at: int) -> str:
    return f"{show_age((now - at) // SECOND)} ago"
