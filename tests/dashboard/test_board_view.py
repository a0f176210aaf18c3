"""What a page shows of a board: columns and their counts, filters, search, tiles, a card whole; and all of the past."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dashboard.board_view import LONGEST_SEARCH, Wanted, board_view, choices, column_view, counts
from dashboard.card_view import LONGEST_BODY, MOST_EVENTS, card_view
from dashboard.log_tail import TAIL, log_tail
from dashboard.source import Source
from dashboard.tiles import LONGEST, NAMED_WAITS, Tile, tiles
from kanban.board import Board
from kanban.folders import run_folder
from ledger.errors import InvalidInput, InvalidText, NotFound, UnknownTask
from projections.listed import STATUSES


def columns(face: Board, wanted: Wanted | None = None, **more: Any) -> dict[str, list[str]]:
    """The titles in each column that has any."""
    with Source.of(face).reading() as tx:
        view = board_view(tx, face.name, wanted or Wanted(), **more)
    return {column.status: [str(tile.title) for tile in column.tiles] for column in view.columns if column.count}


def tile_of(face: Board, card: str, at: int | None = None) -> Tile:
    """The card as a tile."""
    with Source.of(face).reading(at) as tx:
        (found,) = tiles(tx, face.name, [card])
    return found


def made(face: Board, title: str, **more: Any) -> str:
    """The id of a new card."""
    return str(face.create(title, **more).task["id"])


def failed(face: Board, card: str) -> None:
    """One run of *card* that its worker ended without a word."""
    granted = face.claim(card)
    face.block(card, "cannot go on", run=granted.run, lock=granted.lock)


def test_every_status_but_archived_has_its_column_in_order(face: Board) -> None:
    """Larger priority first, then older; archived cards are there for whoever asks for them."""
    low, high = made(face, "low"), made(face, "high", priority=3)
    made(face, "waits", parents=[low])
    made(face, "parked", blocked="later")
    face.archive(made(face, "gone"))
    face.complete(made(face, "finished"))
    assert columns(face) == {
        "ready": ["high", "low"], "todo": ["waits"], "blocked": ["parked"], "done": ["finished"],
    }  # fmt: skip
    assert columns(face, Wanted(status="archived")) == {"archived": ["gone"]}
    assert high


def test_what_was_done_last_stands_first_among_the_done(face: Board) -> None:
    """In the other columns what will be started first does."""
    older, newer = made(face, "older", priority=9), made(face, "newer")
    face.complete(older)
    face.complete(newer)
    assert columns(face)["done"] == ["newer", "older"]
    assert columns(face, Wanted(q="e"))["done"] == ["newer", "older"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(assignee="ann"), {"ready": ["Anna's", "both"]}),
        (Wanted(assignee="none"), {"ready": ["nobody's"], "blocked": ["Held"]}),
        (Wanted(label="x"), {"ready": ["both"]}),
        (Wanted(tenant="acme"), {"blocked": ["Held"]}),
        (Wanted(status="blocked"), {"blocked": ["Held"]}),
        (Wanted(q="O"), {"ready": ["nobody's", "both"]}),
        (Wanted(q="bo", assignee="ann", label="x"), {"ready": ["both"]}),
        (Wanted(q="no such title"), {}),
        (Wanted(status="done"), {}),
        (Wanted(label="%"), {}),
        (Wanted(q="%"), {}),
    ],
)
def test_filters_narrow_and_counts_follow(face: Board, wanted: Wanted, found: dict[str, list[str]]) -> None:
    """What a filter leaves is counted as it is shown; each text is taken as it is, whatever it means in SQL."""
    made(face, "Anna's", assignee="ann")
    made(face, "nobody's")
    made(face, "both", assignee="ann", labels=["x", "y"])
    made(face, "Held", tenant="acme", blocked="why")
    assert columns(face, wanted) == found
    with Source.of(face).reading() as tx:
        counted = counts(tx, face.name, wanted)
    assert {status: count for status, count in counted.items() if count} == {
        status: len(titles) for status, titles in found.items()
    }
    assert list(counted) == (list(STATUSES) if wanted.status is None else [wanted.status])


def test_a_search_finds_any_part_of_a_title_or_an_id_whatever_its_case(face: Board) -> None:
    """Beyond ASCII too, and the same on every database."""
    card = made(face, "Größe der ÄRMEL ausmessen")
    for needle in ("ärmel", "GRÖSSE", "größe", card[3:9], "ausmess"):
        assert columns(face, Wanted(q=needle)) == {"ready": ["Größe der ÄRMEL ausmessen"]}


def test_columns_are_shown_a_page_at_a_time_and_counted_whole(face: Board) -> None:
    """The next page begins behind the last card, in a search too."""
    for number in range(7):
        made(face, f"card {number}")
    for wanted in (Wanted(status="ready"), Wanted(status="ready", q="card")):
        seen, after = [], None
        for _ in range(3):
            with Source.of(face).reading() as tx:
                page = column_view(tx, face.name, wanted, after=after, limit=3)
            seen += [tile.title for tile in page.tiles]
            after = page.next
            assert page.count == 7
        assert (seen, after) == ([f"card {number}" for number in range(7)], None)


def test_what_cannot_be_wanted_is_refused(face: Board) -> None:
    """Before any database sees it: a status that there is not, what no store can keep, and a novel."""
    with pytest.raises(InvalidInput, match="status 'lost' is unknown"):
        Wanted(status="lost")
    with pytest.raises(InvalidText):
        Wanted(label="a\0b")
    with pytest.raises(InvalidInput, match="at most"):
        Wanted(q="x" * (LONGEST_SEARCH + 1))
    made(face, "a card")
    with Source.of(face).reading() as tx:
        with pytest.raises(InvalidInput, match="which column"):
            column_view(tx, face.name, Wanted())
        with pytest.raises(UnknownTask):
            column_view(tx, face.name, Wanted(status="ready"), after="t_nowhere")


def test_choices_are_those_of_the_cards_that_are_there(face: Board) -> None:
    """Assignees and reviewers, labels and tenants, each once and in order; archived cards do not count."""
    made(face, "a", assignee="zoe", labels=["b", "a"], tenant="acme")
    made(face, "b", assignee="ann", labels=["a"])
    face.archive(made(face, "c", assignee="old", labels=["old"], tenant="old"))
    with Source.of(face).reading() as tx:
        found = choices(tx, face.name)
    assert found == (type(found))(("ann", "zoe"), ("a", "b"), ("acme",))


def test_a_tile_shows_the_run_and_the_gauges(face: Board) -> None:
    """A running card has its run with its lease; every budget its count, its limit and where that comes from."""
    card = made(face, "hard", assignee="ann", max_retries=4)
    granted = face.claim(card)
    tile = tile_of(face, card)
    assert tile.run is not None
    assert (tile.status, tile.worker, tile.run.run, tile.run.worker) == ("running", "ann", 1, "ann")
    assert tile.run.lease_until > tile.run.claimed_at > 0
    gauge = tile.budget("failure_budget")
    assert (gauge.count, gauge.limit, gauge.limit_source) == (0, 4, "task")
    assert (tile.budget("run_budget").count, tile.budget("run_budget").limit) == (1, 50)
    assert granted.run == 1


def test_a_tile_shows_why_it_is_held_and_what_it_waits_for(face: Board) -> None:
    """The hold's reason is read from its event; of the parents the first few are named and all are counted."""
    parents = [made(face, f"parent {number}") for number in range(NAMED_WAITS + 2)]
    done = made(face, "over")
    face.complete(done)
    waiting = tile_of(face, made(face, "waits", parents=[*parents, done]))
    assert (waiting.status, waiting.waits, len(waiting.waits_on)) == ("todo", NAMED_WAITS + 2, NAMED_WAITS)
    assert {wait.task for wait in waiting.waits_on} < set(parents)
    assert waiting.waits_on[0].title is not None
    held = made(face, "held", assignee="ann")
    failed(face, held)
    tile = tile_of(face, held)
    assert tile.hold is not None
    assert (tile.hold.cause, tile.hold.reason, tile.hold.sticky) == ("worker", "cannot go on", True)


def test_tiles_are_bounded_whatever_a_card_holds(face: Board) -> None:
    """A long title and a long reason end with an ellipsis; a body is never there."""
    card = made(face, "t" * 5_000, body="b" * 200_000, blocked="r" * 5_000, labels=[f"l{n}" for n in range(50)])
    tile = tile_of(face, card)
    assert tile.title == "t" * (LONGEST - 1) + "…"
    assert tile.hold is not None
    assert tile.hold.reason == "r" * (LONGEST - 1) + "…"
    assert len(json.dumps(tile.as_json())) < 4_000


def test_tiles_come_in_the_order_that_was_asked_for(face: Board) -> None:
    """Ids that there are not are left out."""
    one, two = made(face, "one"), made(face, "two")
    with Source.of(face).reading() as tx:
        assert [tile.id for tile in tiles(tx, face.name, [two, "t_nowhere", one])] == [two, one]


def test_a_redacted_title_is_none(face: Board) -> None:
    """It is gone from tiles and from the search."""
    card = made(face, "SECRET words")
    face.redact(tile_of(face, card).position, thoroughly=False)
    assert tile_of(face, card).title is None
    assert columns(face, Wanted(q="secret")) == {}


def test_the_past_is_shown_as_it_stood(face: Board) -> None:
    """The same functions answer of an earlier position."""
    first = made(face, "first")
    then = face.stats()["position"]
    made(face, "second")
    face.complete(first)
    with Source.of(face).reading(then) as tx:
        view = board_view(tx, face.name, Wanted())
        whole = card_view(tx, face.name, first, now=view.at)
    assert view.position == then
    assert {column.status: column.count for column in view.columns if column.count} == {"ready": 1}
    assert (whole.tile.status, len(whole.events)) == ("ready", 1)
    assert tile_of(face, first).status == "done"


def test_a_card_is_shown_whole(face: Board) -> None:
    """Body, runs, why, two generations of neighbours, and its events, of which the newest are shown."""
    old, other = made(face, "grandparent"), made(face, "no kin")
    parent = made(face, "parent", parents=[old])
    card = made(face, "card", body="the body", parents=[parent])
    child = made(face, "child", parents=[card])
    grandchild = made(face, "grandchild", parents=[child])
    for number in range(MOST_EVENTS):
        face.comment(card, f"comment {number}")
    with Source.of(face).reading() as tx:
        view = card_view(tx, face.name, card, now=0)
    assert (view.body, view.cut, view.earlier, len(view.events)) == ("the body", False, 1, MOST_EVENTS)
    assert [(kin.task, kin.steps, kin.near) for kin in view.parents] == [(parent, 1, card), (old, 2, parent)]
    assert [(kin.task, kin.steps, kin.near) for kin in view.children] == [(child, 1, card), (grandchild, 2, child)]
    assert view.why["status"] == "todo"
    assert other not in json.dumps(view.as_json())


def test_a_body_is_shown_as_far_as_a_page_has_room(face: Board) -> None:
    """What is longer is cut, and the page is told."""
    card = made(face, "long", body="x" * (LONGEST_BODY + 1))
    with Source.of(face).reading() as tx:
        view = card_view(tx, face.name, card, now=0)
        with pytest.raises(UnknownTask):
            card_view(tx, face.name, "t_nowhere", now=0)
        with pytest.raises(InvalidText):
            card_view(tx, face.name, "\0", now=0)
    assert (len(view.body or ""), view.cut) == (LONGEST_BODY, True)


# Logs


def wrote(home: Path, text: bytes) -> Path:
    """The log of run 1 of card t_a of board b."""
    folder = run_folder(home, "b", "t_a", 1)
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(text)
    return folder / "log"


def test_a_log_is_shown_from_its_end(tmp_path: Path) -> None:
    """The last few KiB, from the beginning of a line, without a terminal's colours."""
    wrote(tmp_path, b"first\n" + b"x" * 60 + b"\n" + b"y" * (TAIL - 30) + b"\n\x1b[31mred\x1b[0m\n\xff\n")
    found = log_tail(tmp_path, "b", "t_a", 1)
    assert found.text == "y" * (TAIL - 30) + "\nred\n�\n"
    assert found.before == len(b"first\n") + 61


def test_a_short_log_is_shown_whole(tmp_path: Path) -> None:
    """Nothing stands before it."""
    wrote(tmp_path, b"all of it")
    found = log_tail(tmp_path, "b", "t_a", 1)
    assert (found.text, found.before) == ("all of it", 0)


def test_no_other_file_is_read_for_a_log(tmp_path: Path) -> None:
    """Whatever an agent puts in its place: a link to a file, a folder, a pipe; or a link where the run's folder was."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    log = wrote(tmp_path, b"")
    log.unlink()
    log.symlink_to(secret)
    with pytest.raises(NotFound, match="no log on this host"):
        log_tail(tmp_path, "b", "t_a", 1)
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(NotFound):
        log_tail(tmp_path, "b", "t_a", 1)
    log.unlink()
    log.mkdir()
    with pytest.raises(NotFound):
        log_tail(tmp_path, "b", "t_a", 1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "log").write_text("hunter2")
    run_folder(tmp_path, "b", "t_a", 2).symlink_to(elsewhere)
    with pytest.raises(NotFound):
        log_tail(tmp_path, "b", "t_a", 2)
    with pytest.raises(InvalidInput):
        log_tail(tmp_path, "b", "../b/runs/t_a", 1)
