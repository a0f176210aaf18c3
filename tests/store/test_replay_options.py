"""What a replay looks at when it is asked for more or less: shapes, the chain; and how it compares rows by the page."""

from __future__ import annotations

import pytest

from ledger.events import KINDS
from ledger.recorded import valid
from projections.compared import SHAPES, Comparison, rows
from tests import given
from tests.audits import ZEROS, audit, mend, named, outside

SKIPPED = "hashes and words were not looked at"


def test_without_the_chain_the_same_is_folded(board):
    """CLI: replay --no-chain."""
    whole, less = audit(board), audit(board, chain=False)
    assert (less.divergences, less.digest, less.position) == ((), whole.digest, whole.position)
    assert (less.hash, SKIPPED in less.notes, SKIPPED in whole.notes) == ("", True, False)


def test_without_the_chain_what_was_folded_is_still_judged(board):
    """RULES §9: holes, legality and stored columns."""
    outside(
        board,
        "UPDATE tasks SET failures = 9 WHERE task = 't_p'",
        "UPDATE events SET version = 9 WHERE position = 23",
        "UPDATE events SET outcome = 'clean' WHERE position = 17",
    )
    found = {(each.task, each.rule) for each in audit(board, chain=False).divergences}
    assert {("t_p", "§9 stored"), ("t_p", "§2 version"), ("t_a", "§6")} <= found


def test_without_the_chain_a_forged_hash_and_other_words_are_not_seen(board):
    """RULES §10: that is what the chain is for."""
    outside(
        board,
        f"UPDATE events SET hash = {ZEROS} WHERE position = 21",
        "UPDATE words SET words = replace(words, 'Secret', 'Lie') WHERE position = 21",
    )
    assert audit(board, chain=False).divergences == ()
    assert len(audit(board).divergences) == 2


def test_a_head_that_stands_elsewhere_is_seen_without_the_chain(board):
    """RULES §9: the head."""
    outside(board, "UPDATE boards SET head_at = head_at + 1")
    assert named(audit(board, chain=False)) == [(None, 23, "§9 head")]


@pytest.mark.parametrize("chained", [True, False])
def test_a_strict_reader_reads_words_with_and_without_the_chain(board, chained):
    """RULES §2: words have shapes, too."""
    outside(board, "UPDATE words SET words = '{\"body\":7}' WHERE position = 21")
    assert ("t_a", 21, "§2 shape") in named(audit(board, strict=True, chain=chained))
    assert ("t_a", 21, "§2 shape") not in named(audit(board, chain=chained))


def test_a_forged_fact_that_is_no_text_is_digested_all_the_same(board):
    """RULES §10: a lone surrogate, which no store writes, is read as it stands."""
    outside(board, "UPDATE events SET facts = replace(facts, '\"builder\"', '\"\\ud800\"') WHERE position = 12")
    mend(board)
    found = audit(board)
    assert ("t_a", 12, "§1") in named(found)
    assert found.digest != audit(board, until=11).digest


def test_a_pause_that_ends_is_legal(board):
    """RULES §8: `resumed` names a pause that is in force."""
    board.append(given.resumed("host", "node-9"))
    assert audit(board).divergences == ()


# Shapes


def stored(event, **columns):
    whole = given.draft(event).as_if(position=2, version=1, at=1)
    return whole._replace(**columns)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_valid_as_it_is_stored(kind):
    """RULES §2: one definition of each event, whichever way it is read."""
    assert valid(stored(given.EXAMPLES[kind])) is None


@pytest.mark.parametrize(
    "columns",
    [
        {"facts_text": '{"usage":null', "words_text": '"note":"x"}'},  # two halves of one object
        {"facts_text": '{"usage":null,"note":"a', "words_text": '{b"}'},
        {"words_text": '["note":"x"]'},
        {"words_text": '{"note":7}'},
        {"words_text": '{"note":"x"} {}'},
        {"words_text": ""},
        {"facts_text": '{"usage":7}'},
        {"facts_text": "{}"},
        {"facts_text": '{"usage":null,"more":1}'},
        {"facts_text": "[]"},
        {"run": 0},
        {"run": None},
    ],
)
def test_what_is_not_valid_is_not_valid_joined(columns):
    """RULES §2: what is wrong is said, or the text is none at all."""
    event = stored(given.progressed(1, "x"), **columns)
    try:
        assert valid(event) is not None
    except (ValueError, TypeError):
        return


def test_what_pydantic_accepts_it_accepts_with_spaces_and_in_any_order():
    """RULES §2: shape, not bytes: those are the chain's."""
    event = stored(given.progressed(1, "x"))
    assert valid(event._replace(facts_text=' { "usage" : null } ')) is None
    assert valid(event._replace(words_text=None)) is None


# Rows by the page


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(("gone", "stray"), [(0, None), (None, 0), (1, 3), (2, 0), (None, None)])
def test_a_row_too_few_or_too_many_is_named_wherever_pages_end(board, size, gone, stray):
    """RULES §9: after a gap the pages of both sides are no longer the same; only what differs is told."""
    world = board.world()
    odd = {shape.table.name: list(rows(world, shape.table.name)) for shape in SHAPES}
    expected = set()
    runs = odd["runs"]
    if gone is not None:
        expected.add((runs.pop(gone)[:2], "missing"))
    if stray is not None:
        runs.insert(0, ("t_0", stray + 1, *runs[0][2:]))
        expected.add((("t_0", stray + 1), "without an event"))

    def pages(query):
        whole = [("b", *row) for row in odd[query.get_final_froms()[0].name]]
        return (whole[start : start + size] for start in range(0, len(whole), size))

    comparison = Comparison(world, task=None, unread=frozenset())
    digest = comparison.run(pages, "b")
    assert digest == Comparison(world, task=None, unread=frozenset()).run(None, "b")
    told = [each.text for each in comparison.found]
    assert len(told) == len(expected)
    for key, how in expected:
        assert any(f"runs: the row {key[0]} {key[1]}" in text and how in text for text in told), told
