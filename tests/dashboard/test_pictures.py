"""Pictures: what is drawn of which numbers, that nothing in them is markup, and the numbers themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from dashboard import pictures
from dashboard.figures import BANDS, ENDS, SAMPLES, Figures, band, cards_of, figures
from dashboard.gallery import cost, cumulative_flow, cycle_time, gallery, headline, outcomes
from dashboard.pictures import Area, Bar, Node, Stack
from ledger.clock import SECOND
from ledger.database import reading
from projections.past import past
from projections.places import Stretch
from projections.statistics import flow
from projections.task import Task
from tests import given
from tests.dashboard.conftest import Site
from tests.engines import once
from tests.ledgers import BOARD, Ledger, new_ledger

EVIL = '"><script>alert(1)</script>'
SVG = "{http://www.w3.org/2000/svg}"


def parsed(markup: str) -> ET.Element:
    """*markup* as XML: an element that is not closed or a text that is not escaped would not be."""
    return ET.fromstring(markup)


def parts(markup: str, name: str, cls: str = "") -> list[ET.Element]:
    """The elements of that name, and of that class where one is given."""
    return [each for each in parsed(markup).iter(name) if cls in each.get("class", "").split() or not cls]


# Charts


@drawn(st.lists(st.tuples(st.text(max_size=8), st.floats(0, 1e9)), max_size=40))
def test_bars_stand_on_the_ground_and_stay_below_the_top(found: list[tuple[str, float]]) -> None:
    """Whatever the numbers; a bar of nothing has no height, one of anything at least a pixel."""
    markup = pictures.bars("x", "Title", "Desc", [Bar("label", value, "said") for _, value in found])
    rects = parts(markup, "rect", "bar")
    assert len(rects) == len(found)
    for rect, (_, value) in zip(rects, found, strict=True):
        tall, y = float(rect.get("height") or 0), float(rect.get("y") or 0)
        assert y >= 9.9
        assert abs(y + tall - 214) < 0.2
        assert (tall == 0) == (value == 0)


def test_a_bar_is_as_high_as_its_number() -> None:
    """Half the number is half the height."""
    rects = parts(pictures.bars("x", "t", "d", [Bar("a", 4, ""), Bar("b", 2, ""), Bar("c", 0, "")]), "rect", "bar")
    one, half, none = (float(rect.get("height") or 0) for rect in rects)
    assert one == pytest.approx(2 * half, abs=0.2)
    assert none == 0


@drawn(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(st.integers(0, 99), min_size=n, max_size=n), max_size=5)))
def test_areas_lie_on_each_other_without_a_gap(found: list[list[int]]) -> None:
    """The lower edge of each band is the upper edge of the one below it."""
    places = len(found[0]) if found else 3
    markup = pictures.areas("x", "t", "d", [Area("done", values) for values in found], ["now"] * places)
    edges = [each.get("points", "").split() for each in parts(markup, "polygon")]
    assert len(edges) == len(found)
    assert all(point.endswith(",214") for lowest in edges[:1] for point in lowest[places:])
    for below, above in pairwise(edges):
        assert list(reversed(above[places:])) == below[:places]


def test_a_stack_has_a_part_for_each_number_that_is_not_nothing() -> None:
    """As wide as its share, coloured by its name, with its number to be read."""
    markup = pictures.stacks("x", "t", "d", [Stack("builder", {"completed": 6, "clean": 0, "failed": 3})])
    good, bad = parts(markup, "rect")
    assert (good.get("class"), bad.get("class")) == ("part completed", "part failed")
    assert float(good.get("width") or 0) == pytest.approx(2 * float(bad.get("width") or 0), abs=2)
    assert [each.text for each in parts(markup, "title")[1:]] == ["builder: completed 6", "builder: failed 3"]


@pytest.mark.parametrize(
    ("count", "limit", "level", "on", "off"),
    [(0, 2, "none", 0, 2), (1, 3, "some", 1, 2), (1, 2, "near", 1, 1), (2, 2, "full", 2, 0), (5, 3, "full", 3, 0),
     (3, 50, "some", 1, 1), (0, 50, "none", 0, 1), (1, 1, "full", 1, 0)],
)  # fmt: skip
def test_a_gauge_shows_each_step_of_a_small_limit(count: int, limit: int, level: str, on: int, off: int) -> None:
    """Its level says how near the limit is; a large limit has a bar."""
    markup = pictures.gauge(count, limit, "failures")
    assert parsed(markup).get("class") == f"gauge {level}"
    assert parsed(markup).get("aria-label") == "failures"
    assert (len(parts(markup, "rect", "on")), len(parts(markup, "rect", "off"))) == (on, off)


def test_a_graph_links_every_card_but_the_one_that_is_looked_at() -> None:
    """In columns, with a line for each edge whose cards are there."""
    columns = [[Node("t_p", "Parent", "done", "/card/t_p")], [Node("t_a", "Here", "todo", "/card/t_a")]]
    markup = pictures.graph("kin", "t", columns, [("t_p", "t_a"), ("t_gone", "t_a")], here="t_a")
    assert [each.get("href") for each in parts(markup, "a")] == ["/card/t_p"]
    assert [each.get("data-card") for each in parts(markup, "g")] == ["t_a"]
    assert len(parts(markup, "path", "edge")) == 1


@pytest.mark.parametrize(
    "markup",
    [
        pictures.bars(EVIL, EVIL, EVIL, [Bar(EVIL, 1, EVIL)]),
        pictures.areas(EVIL, EVIL, EVIL, [Area(EVIL, [1])], [EVIL]),
        pictures.stacks(EVIL, EVIL, EVIL, [Stack(EVIL, {EVIL: 1})]),
        pictures.gauge(1, 2, EVIL),
        pictures.graph(EVIL, EVIL, [[Node(EVIL, EVIL, EVIL, EVIL), Node("t_a", "A", "todo", "")]], [], here="t_a"),
    ],
)
def test_no_text_is_ever_markup(markup: str) -> None:
    """Not as a label, a name, a class, a link or a description."""
    assert "<script" not in markup
    assert not parts(markup, "script")
    assert any(EVIL in (each.text or "") or EVIL in each.attrib.values() for each in parsed(markup).iter())


def test_a_picture_is_named_and_described() -> None:
    """For those who cannot see it."""
    markup = pictures.bars("cost", "Cost", "What it cost", [])
    assert parsed(markup).get("aria-labelledby") == "cost-title cost-desc"
    told = {each.get("id"): each.text for each in parsed(markup)[:2]}
    assert told == {"cost-title": "Cost", "cost-desc": "What it cost"}


# Numbers


@pytest.fixture
def store(tmp_path: Path) -> Ledger:
    """A board in which a minute passes between two events."""
    return new_ledger(tmp_path / "ledger.db")


def told(store: Ledger, *, after: int = 0) -> Figures:
    """The numbers of its log behind *after*."""
    until = store.head().position
    with past(store.engine, BOARD, after) as before:
        start = cards_of(before, BOARD)
    with reading(store.engine) as tx:
        span = given.NOW, given.NOW + (SAMPLES - 1) * 60 * SECOND
        return figures(tx, BOARD, Stretch(after, until), start=start, span=span)


def lived(store: Ledger) -> None:
    """A card that crashes once and is done, one that is blocked, one that waits for review, and one put away."""
    minute = iter(range(given.NOW, given.NOW + 10**12, 60 * SECOND))

    def say(task: str, *events: given.e.Event) -> None:
        store.append(*events, task=task, at=next(minute))

    say("t_a", given.created("A"))
    say("t_a", given.claimed(1))
    say("t_a", given.exited(1, "crashed"))
    say("t_a", given.claimed(2, worker="coder"))
    say("t_a", given.completed(2, usage=given.usage(10, "0.50")))
    say("t_b", given.created("B"))
    say("t_b", given.blocked())
    say("t_c", given.created("C"))
    say("t_c", given.claimed(1))
    say("t_c", given.review_requested(1))
    say("t_d", given.created("D"))
    say("t_d", given.archived())


def test_a_cumulative_flow_counts_cards_where_they_stood(store: Ledger) -> None:
    """At each instant, by the status that the fold gives them; an archived card is nowhere."""
    lived(store)
    stood = [dict(zip(BANDS, sample.counts, strict=True)) for sample in told(store).samples]
    assert len(stood) == SAMPLES
    assert [sum(each.values()) for each in stood[:12]] == [1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4, 3]
    assert [each["running"] for each in stood[:12]] == [0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0]
    assert stood[-1] == {"done": 1, "review": 1, "running": 0, "blocked": 1, "waiting": 0}


def test_a_flow_that_begins_later_begins_with_the_cards_as_they_stood(store: Ledger) -> None:
    """What was there before the stretch is counted from its first instant."""
    lived(store)
    before = store.head().position
    store.append(given.created("E"), task="t_e", at=given.NOW + 30 * 60 * SECOND)
    samples = told(store, after=before).samples
    assert [sum(sample.counts) for sample in (samples[0], samples[-1])] == [3, 4]


def test_runs_are_counted_by_worker_and_by_what_they_came_to(store: Ledger) -> None:
    """Those who ran most come first."""
    lived(store)
    found = told(store).outcomes
    assert list(found) == ["builder", "coder"]
    assert found["builder"] == {"completed": 0, "handed_on": 1, "neutral": 0, "clean": 0, "failed": 1}
    assert found["coder"]["completed"] == 1


def test_cycle_times_are_counted_by_their_bounds(store: Ledger) -> None:
    """The first claim stands at minute 1, the completion at minute 4."""
    lived(store)
    found = told(store)
    assert found.cycles["≤ 5m"] == 1
    assert sum(found.cycles.values()) == found.flow["completed"] == 1


def test_a_stretch_of_the_log_is_told_without_what_lies_outside(store: Ledger) -> None:
    """The pictures and `ledger flow` say the same."""
    lived(store)
    with reading(store.engine) as tx:
        assert told(store).flow == flow(tx, BOARD, Stretch(0, store.head().position))


def test_every_card_of_a_board_is_in_a_band() -> None:
    """But for those that are put away."""
    assert band(Task("t_a")) == "waiting"
    assert band(Task("t_a")._replace(archived=True)) is None
    assert band(Task("t_a")._replace(outcome="ok")) == "done"


def test_pictures_are_made_of_these_numbers(store: Ledger) -> None:
    """Each with its table, whose first column names the row."""
    lived(store)
    found = told(store)
    shown = gallery(found)
    assert [each.title for each in shown] == [
        "Cumulative flow", "Cycle time", "Runs per completion", "Outcomes by worker", "Cost",
    ]  # fmt: skip
    assert all(each.drawn is not None for each in shown)
    assert all(len(row) == len(each.headings) for each in shown for row in each.rows)
    assert ("builder", "0", "1", "0", "0", "1") in outcomes(found).rows
    assert [name for name, _ in cumulative_flow(found).key] == ["waiting", "blocked", "running", "review", "done"]
    assert "half within 3m" in cycle_time(found).said
    assert "0.50 in all" in cost(found).said
    assert dict(headline(found))["Tokens"] == "10"


def test_nothing_is_drawn_of_what_nobody_told(store: Ledger) -> None:
    """A board on which no run said what it cost has no picture of cost."""
    store.append(given.created("A"))
    found = told(store)
    assert [each.name for each in gallery(found) if each.drawn is None] == ["cycle", "needed", "ends", "cost"]
    assert dict(headline(found))["Cost"] == "–"


@once
def test_the_order_of_ends_is_that_of_the_key(site: Site) -> None:
    """Colours are named in the order in which they are drawn."""
    card = site.create("A", assignee="builder")
    granted = site.board.claim(card)
    site.board.complete(card, lock=granted.lock)
    page = site.reader.get("/pictures").text
    names: Sequence[str] = re.findall(r'<li><i class="(\w+)">', page)
    assert [name for name in names if name in ENDS] == ["completed"]
