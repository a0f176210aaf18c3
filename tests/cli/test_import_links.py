"""What waited for what on another system's board, and what of it can be here."""

from __future__ import annotations

import pytest

from tests.cli.imports import AT, Hermes, blocked, brought, by_title, links, note


@pytest.fixture
def board(tmp_path):
    """An empty board of the reference system."""
    return Hermes(tmp_path / "kanban.db")


def test_parents_may_come_after_their_children(ledger, board):
    """The order of the rows says nothing."""
    board.card("t_c", "t_b", title="c", status="todo")
    board.card("t_b", "t_a", title="b", status="todo")
    board.card("t_a", title="a")
    assert brought(ledger, "hermes", board.path)["linked"] == 2
    assert links(ledger) == {("c", "b"), ("b", "a")}


def test_a_ring_is_cut_at_one_link_which_is_named(ledger, board):
    """No card of it may start by itself: the one whose link is cut is held, for a person."""
    for card, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self")):
        board.card(f"t_{card}", f"t_{parent}", title=card, status="todo")
    made = brought(ledger, "hermes", board.path)
    assert made["notes"] == [
        "t_c does not wait for t_a: they wait for each other, t_a → t_b → t_c → t_a",
        "t_self does not wait for t_self: they wait for each other, t_self → t_self",
    ]
    assert links(ledger) == {("a", "b"), ("b", "c")}
    cards = by_title(ledger)
    assert {title: shown["task"]["status"] for title, shown in cards.items()} == {
        "a": "todo", "b": "todo", "c": "blocked", "self": "blocked",
    }  # fmt: skip
    reason = "they wait for each other, t_a → t_b → t_c → t_a"
    assert blocked(ledger, cards["c"]) == ("import", f"it waited for t_a: {reason}", True)
    assert note(cards["c"])["links_left_out"] == {"t_a": reason}


def test_a_link_to_what_is_not_there_is_named_and_its_card_held(ledger, board):
    """Deleted there, or left out here: in either case nobody knows whether it was done."""
    board.card("t_1", "t_gone", title="one", status="todo")
    board.card("t_2", title=" ")
    board.card("t_3", "t_2", title="three", status="todo")
    board.card("t_4", "t_gone", title="four", status="blocked", last_failure_error="its own reason")
    made = brought(ledger, "hermes", board.path)
    assert [each for each in made["notes"] if "wait" in each] == [
        "t_1 does not wait for t_gone: it is not here",
        "t_3 does not wait for t_2: it is not here",
        "t_4 does not wait for t_gone: it is not here",
    ]
    cards = by_title(ledger)
    assert blocked(ledger, cards["one"]) == ("import", "it waited for t_gone: it is not here", True)
    assert blocked(ledger, cards["three"])[1] == "it waited for t_2: it is not here"
    assert blocked(ledger, cards["four"])[1] == "its own reason"


def test_a_parent_that_is_archived_undone_stands_in_nobodys_way(ledger, board):
    """As there; here it would for ever, so that the link is left out and named."""
    board.card("t_1", status="archived")
    board.card("t_2", "t_1")
    board.card("t_3", "t_2", status="archived")
    made = brought(ledger, "hermes", board.path)
    assert made["notes"] == ["t_2 does not wait for t_1: it is archived undone"]
    cards = by_title(ledger)
    assert cards["card t_2"]["task"]["status"] == "ready"
    assert links(ledger) == {("card t_3", "card t_2")}


def test_a_card_done_before_its_parent_stays_done(ledger, board):
    """RULES §8: no completion with an open parent; so the link is left out and named, never the completion."""
    board.card("t_1")
    board.card("t_2", "t_1", status="done", completed_at=AT)
    board.card("t_3", "t_2", status="done", completed_at=AT)
    made = brought(ledger, "hermes", board.path)
    assert made["notes"] == ["t_2 does not wait for t_1: it was done before that one"]
    assert (made["linked"], links(ledger)) == (1, {("card t_3", "card t_2")})


def test_a_chain_of_thousands_is_no_recursion(ledger, board):
    """Links are followed one by one; here the youngest card stands first."""
    board.chain(3_000)
    assert ledger.json("import", "hermes", str(board.path), "--dry-run")["linked"] == 2_999


def test_cards_of_one_moment_are_taken_in_their_old_order(ledger, board):
    """RULES §7: larger priority first, then older, then id: so a page's ids are given in order."""
    titles = [f"card t_{number}" for number in range(20)]
    for number in range(20):
        board.card(f"t_{number}")
    brought(ledger, "hermes", board.path)
    got = [ledger.json("claim", "--next")["task"] for _ in titles]
    shown = by_title(ledger)
    assert got == [shown[title]["task"]["id"] for title in titles]
