"""Charts as SVG, drawn here and coloured by the page's style sheet. Pure: numbers in, markup out, nothing of it raw.

Every chart has a title and a description for those who cannot see it; the page shows its numbers as a table beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from math import floor, log10
from typing import Final, NamedTuple

from markupsafe import Markup

from dashboard.svg import element, number, picture

BROAD, NARROW = 1_120, 520
"""Widths of charts, in the page's own pixels where there is room."""
_GRIDS: Final = 4
_LEAST: Final = 1e-9
_STEPS: Final = (1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0)


class Bar(NamedTuple):
    """A bar of a chart: what stands below it, how much it is, and what it says when it is pointed at."""

    label: str
    value: float
    said: str


class Stack(NamedTuple):
    """A row of a chart: whose it is, and its parts in order, by the class that colours them."""

    label: str
    parts: Mapping[str, int]


class Area(NamedTuple):
    """A band of an area chart: the class that colours it, and its thickness at each place."""

    name: str
    values: Sequence[int]


def bars(name: str, title: str, desc: str, found: Sequence[Bar]) -> Markup:
    """Upright bars, one beside the other, from 0 up."""
    frame = _Frame(NARROW, _rounded(max((bar.value for bar in found), default=0)))
    step = frame.inner / max(len(found), 1)
    every = int(_LABEL // step) + 1  # so that labels do not touch
    drawn = [_bar(bar, frame, place * step, step, labelled=place % every == 0) for place, bar in enumerate(found)]
    return picture(name, title, desc, (NARROW, _TALL), [*_grid(frame), *drawn])


def areas(name: str, title: str, desc: str, found: Sequence[Area], labels: Sequence[str]) -> Markup:
    """Bands stacked on each other, the first at the bottom, over places at equal distances."""
    ground = [0] * len(labels)
    tops = list(accumulate((area.values for area in found), _on_top, initial=ground))
    frame = _Frame(BROAD, _rounded(max(tops[-1], default=0)))
    drawn = [_area(area.name, frame, below, top) for area, (below, top) in zip(found, pairwise(tops), strict=True)]
    return picture(name, title, desc, (BROAD, _TALL), [*drawn, *_grid(frame), *_places(frame, labels)])


def stacks(name: str, title: str, desc: str, found: Sequence[Stack]) -> Markup:
    """Lying bars, one below the other, each cut into its parts."""
    most = max((sum(stack.parts.values()) for stack in found), default=0) or 1
    drawn = [piece for row, stack in enumerate(found) for piece in _stack(stack, row, most)]
    return picture(name, title, desc, (NARROW, max(len(found), 1) * _ROW), drawn)


# The frame: axes, grid, labels

_LEFT, _RIGHT, _TOP, _BOTTOM, _TALL = 40, 8, 10, 26, 240
_LABEL: Final = 52
"""Room that a label below a chart needs."""


class _Frame(NamedTuple):
    """A chart's width, and the number at the top of its scale."""

    wide: int
    most: float

    @property
    def inner(self) -> int:
        """What the axis is long."""
        return self.wide - _LEFT - _RIGHT

    def y(self, value: float) -> float:
        """How far down *value* stands."""
        return _TALL - _BOTTOM - value / self.most * (_TALL - _TOP - _BOTTOM)

    def xs(self, count: int) -> list[float]:
        """So many places at equal distances, from the first pixel to the last."""
        return [_LEFT + self.inner * place / max(count - 1, 1) for place in range(count)]


def _grid(frame: _Frame) -> Iterator[Markup]:
    for step in range(_GRIDS + 1):
        value = frame.most * step / _GRIDS
        y = frame.y(value)
        cls = "grid" if step else "grid base"
        yield element("line", x1=_LEFT, x2=frame.wide - _RIGHT, y1=number(y), y2=number(y), cls=cls)
        yield element("text", _figure(value), x=_LEFT - 8, y=number(y + 4), cls="tick end")


def _places(frame: _Frame, labels: Sequence[str]) -> Iterator[Markup]:
    every = max(1, len(labels) * 2 * _LABEL // frame.inner + 1)
    for place, (x, label) in enumerate(zip(frame.xs(len(labels)), labels, strict=True)):
        if place % every == 0:
            side = "start" if place == 0 else "end" if x + _LABEL / 2 > frame.wide else "middle"
            yield _below(label, x, side)


def _below(label: str, x: float, side: str = "middle") -> Markup:
    return element("text", label, x=number(x), y=_TALL - _BOTTOM + 18, cls=f"tick {side}")


def _rounded(value: float) -> float:
    """The next number above *value* whose quarters are easy to read; next to nothing is drawn beside 4."""
    if value < _LEAST:
        return _GRIDS
    power: float = 10 ** floor(log10(value))
    return next((step * power for step in _STEPS if step * power >= value), 10 * power)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}".rstrip("0")


# What stands in it

_WIDEST_BAR: Final = 64
_ROW, _THICK, _NAMES, _TOTALS = 32, 20, 96, 36


def _bar(bar: Bar, frame: _Frame, x: float, step: float, *, labelled: bool) -> Markup:
    wide, middle = min(step * 0.72, _WIDEST_BAR), _LEFT + x + step / 2
    tall = max(frame.y(0) - frame.y(bar.value), 1 if bar.value else 0)
    place = {"x": number(middle - wide / 2), "y": number(frame.y(0) - tall)}
    said = element("title", bar.said)
    shape = element("rect", said, **place, width=number(wide), height=number(tall), rx=2, cls="bar")
    return shape + _below(bar.label, middle) if labelled else shape


def _on_top(below: Sequence[int], here: Sequence[int]) -> list[int]:
    return [low + thick for low, thick in zip(below, here, strict=True)]


def _area(name: str, frame: _Frame, below: Sequence[int], top: Sequence[int]) -> Markup:
    xs = frame.xs(len(top))
    there = [f"{number(x)},{number(frame.y(value))}" for x, value in zip(xs, top, strict=True)]
    back = [f"{number(x)},{number(frame.y(value))}" for x, value in zip(xs, below, strict=True)]
    return element("polygon", points=" ".join([*there, *reversed(back)]), cls=f"band {name}")


def _stack(stack: Stack, row: int, most: int) -> Iterator[Markup]:
    x, y = float(_NAMES), row * _ROW + (_ROW - _THICK) / 2
    under = number(y + 14)
    yield element("text", _short(stack.label, 14), x=_NAMES - 10, y=under, cls="tick end strong")
    for name, count in stack.parts.items():
        if count:
            wide = count / most * (NARROW - _NAMES - _TOTALS)
            said = element("title", f"{stack.label}: {name.replace('_', ' ')} {count}")
            size = {"width": number(max(wide - 1, 1)), "height": _THICK}
            yield element("rect", said, x=number(x), y=number(y), **size, rx=2, cls=f"part {name}")
            x += wide
    yield element("text", str(sum(stack.parts.values())), x=number(x + 7), y=under, cls="tick")


# Gauges

_GAUGE: Final = 40
_MARKS: Final = 8
"""The largest limit of which every step is drawn."""


def gauge(count: int, limit: int, said: str) -> Markup:
    """A count beside its limit: a mark for each step where the limit is small, else a bar. *said* is its text."""
    inside = Markup().join(_marks(count, limit) if limit <= _MARKS else _filled(count, limit))
    size = {"viewBox": f"0 0 {_GAUGE} 6", "width": _GAUGE, "height": 6}
    return element("svg", inside, cls=f"gauge {_level(count, limit)}", **size, role="img", aria_label=said)


def _marks(count: int, limit: int) -> Iterator[Markup]:
    each = (_GAUGE + 2) / limit
    for place in range(limit):
        yield _piece(place * each, each - 2, "on" if place < count else "off")


def _filled(count: int, limit: int) -> Iterator[Markup]:
    yield _piece(0, _GAUGE, "off")
    if count:
        yield _piece(0, max(min(count / limit, 1) * _GAUGE, 2), "on")


def _piece(x: float, wide: float, cls: str) -> Markup:
    return element("rect", x=number(x), y=0, width=number(wide), height=6, rx=1.5, cls=cls)


def _level(count: int, limit: int) -> str:
    if count == 0:
        return "none"
    return "full" if count >= limit else "near" if count >= limit - 1 else "some"


# Graphs

_NODE_WIDE, _NODE_TALL, _NODE_STEP, _COLUMN_STEP = 172, 42, 52, 196
_NODE_LETTERS: Final = 22


class Node(NamedTuple):
    """A card in a graph: its id, what to call it, its status, and where its page is."""

    card: str
    title: str
    status: str
    href: str


Place = tuple[float, float]


def graph(
    name: str, title: str, columns: Sequence[Sequence[Node]], edges: Iterable[tuple[str, str]], *, here: str
) -> Markup:
    """Cards in columns; an edge leads from a card to one that waits for it. *here* is the one that is looked at."""
    tall = max(map(len, columns)) * _NODE_STEP + 2
    places = {node.card: place for row, column in enumerate(columns) for node, place in _column(column, row, tall)}
    lines = [_edge(places[left], places[right]) for left, right in edges if left in places and right in places]
    nodes = [_node(node, places[node.card], here=node.card == here) for column in columns for node in column]
    desc = f"{len(nodes)} cards; each waits for those on its left that a line leads to"
    size = (len(columns) - 1) * _COLUMN_STEP + _NODE_WIDE, tall
    return picture(name, title, desc, size, [*lines, *nodes], role="group", width=size[0], height=size[1])


def _column(nodes: Sequence[Node], column: int, tall: int) -> list[tuple[Node, Place]]:
    first = tall / 2 - (len(nodes) - 1) * _NODE_STEP / 2
    return [(node, (column * _COLUMN_STEP, first + row * _NODE_STEP)) for row, node in enumerate(nodes)]


def _edge(left: Place, right: Place) -> Markup:
    (x1, y1), (x2, y2) = left, right
    x1 += _NODE_WIDE
    middle = number((x1 + x2) / 2)
    path = f"M{number(x1)},{number(y1)} C{middle},{number(y1)} {middle},{number(y2)} {number(x2)},{number(y2)}"
    return element("path", d=path, cls="edge")


def _node(node: Node, place: Place, *, here: bool) -> Markup:
    x, y = place
    corner = {"x": number(x + 0.5), "y": number(y - _NODE_TALL / 2 + 0.5)}
    box = element("rect", **corner, width=_NODE_WIDE - 1, height=_NODE_TALL - 1, rx=6, cls="box")
    dot = element("circle", cx=number(x + 15), cy=number(y - 6), r=4, cls=f"dot {node.status}")
    name = element("text", _short(node.title, _NODE_LETTERS), x=number(x + 27), y=number(y - 2), cls="name")
    under = element("text", f"{node.status} · {_short(node.card, 18)}", x=number(x + 27), y=number(y + 13), cls="tick")
    whole = element("title", f"{node.title} ({node.status})") + box + dot + name + under
    if here:
        return element("g", whole, cls="node here", data_card=node.card)
    return element("a", whole, href=node.href, cls="node", data_card=node.card)


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"
