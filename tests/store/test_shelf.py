"""Many appends in one transaction: what is written together at its end is what each alone would have left."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from kanban.at_desk import at_desk
from kanban.commands import Decision
from ledger.writes import Writes
from projections import tables
from tests import given
from tests.sent import sent
from tests.store.test_projections import APPENDS, CARDS, assert_refolded

BETWEEN = st.sampled_from(["", "rows", "tx", "know", "forget"])
"""What else may happen between two appends: somebody reads rows or events, or many cards at once; all is read anew."""


class Undone(Exception):
    """A part of a transaction fails."""


def drafts_of(task, drawn_events, last):
    """Drafts of what was drawn; claims get the card's next number."""
    for event in drawn_events:
        if event != "claim":
            yield given.draft(event, task=task)
            continue
        last[task] += 1
        yield given.draft(given.claimed(last[task], quota=("q",)), task=task)


def do_between(desk, what):
    """One of `BETWEEN`."""
    match what:
        case "rows":
            assert desk.rows is not None
        case "tx":
            assert desk.tx is not None
        case "know":
            desk.know_all(CARDS)
        case "forget":
            desk.flush()
            desk.forget()
        case _:
            pass


def test_any_history_in_one_transaction_is_what_the_log_folds_to(lend, engine_name):
    """RULES §9: whatever is read in between, and whatever part of it fails alone."""

    @settings(max_examples=60 if engine_name == "sqlite" else 20, deadline=None)
    @drawn(APPENDS, st.lists(st.tuples(BETWEEN, st.sampled_from(["", "part", "fails"])), min_size=25, max_size=25))
    def after(appends, steps):
        with lend("founded") as store:
            last = dict.fromkeys(CARDS, 0)
            with at_desk(store.engine, "b", store.clock) as desk:
                for (task, drawn_events), (between, how) in zip(appends, steps, strict=False):
                    do_between(desk, between)
                    decision = Decision(tuple(drafts_of(task, drawn_events, dict(last) if how == "fails" else last)))
                    write(desk, decision, how)
            assert_refolded(store)

    after()


def write(desk, decision, how):
    """Append *decision*: as it is, as a part of its own, or as one that fails."""
    with nullcontext() if not how else suppress(Undone), nullcontext() if not how else desk.part():
        desk.write(decision)
        fail(how)


def fail(how):
    """The part comes to nothing, if it shall."""
    if how == "fails":
        raise Undone


def test_a_card_that_a_parents_end_moved_is_read_anew(store):
    """RULES §3: its number of open parents is the store's, whatever was known of it."""
    store.append(given.created(), task="t_p")
    store.append(given.created(parents=["t_p"]))
    with at_desk(store.engine, "b", store.clock) as desk:
        desk.know_all(["t_a", "t_p"])
        assert desk.task("t_a").open_parents == 1
        desk.write(Decision((given.draft(given.completed(None), task="t_p"),)))
        assert desk.task("t_a").open_parents == 0
        desk.write(Decision((given.draft(given.created(parents=["t_p"]), task="t_b"),)))
        desk.write(Decision((given.draft(given.reopened(), task="t_p"),)))
        assert (desk.task("t_a").open_parents, desk.task("t_b").open_parents) == (1, 1)
    assert_refolded(store)


def test_a_run_is_found_by_its_lock_before_it_is_written(store):
    """As one that was."""
    store.append(given.created())
    with at_desk(store.engine, "b", store.clock) as desk:
        event = given.claimed(1)
        desk.write(Decision((given.draft(event),)))
        assert desk.run_by_lock("t_a", event.lock_hash).run == 1


def test_a_lease_comes_and_goes_with_its_run_in_one_transaction(store):
    """And what held the card is gone."""
    store.append(given.created())
    store.sql("INSERT INTO held VALUES ('b', 't_a', 'at_capacity', NULL, 6)")
    with at_desk(store.engine, "b", store.clock) as desk:
        desk.write(Decision((given.draft(given.claimed(1)),)))
        desk.write(Decision((given.draft(given.exited(1, "crashed", code=3)),)))
        desk.write(Decision((given.draft(given.claimed(2)),)))
    assert [row["run"] for row in store.rows(tables.leases)] == [2]
    assert store.rows(tables.held) == []


@pytest.mark.parametrize("cards", [2, 9, 150])
def test_many_cards_take_no_more_statements_than_a_few(store, cards):
    """Once the writes go out: a statement for all of them at a server, one for each table in a file."""
    with sent(store.engine) as said, at_desk(store.engine, "b", store.clock) as desk:
        for number in range(cards):
            desk.write(Decision((given.draft(given.created(), task=f"t_{number:03}"),)))
        before = len(said)
        desk.flush()
        texts = {statement.text.partition("(")[0] for statement in said[before:]}
    assert len(texts) <= 4
    assert_refolded(store)


def test_texts_of_any_letters_are_written_as_they_are(store):
    """However the rows go to the store: quotes, escapes, and what JSON writes otherwise."""
    odd = ['"', "'", "\\", "\\x00", "%s", "$1", "\n\t\r", "ü€😀", "{}", "[null]", "NULL", "\u2028", "a" * 5_000]
    with at_desk(store.engine, "b", store.clock) as desk:
        for number, title in enumerate(odd):
            event = given.created(title, labels=(title,), tenant=f"x{title}")
            desk.write(Decision((given.draft(event, task=f"t_{number:02}"),)))
    assert [event.words["title"] for event in store.read()[1:]] == odd
    assert_refolded(store)
    assert sorted(row["tenant"] for row in store.rows(tables.tasks)) == sorted(f"x{title}" for title in odd)


def test_nothing_to_write_is_no_statement(store):
    """An empty sheet is sent without a word."""
    with sent(store.engine) as said, at_desk(store.engine, "b", store.clock) as desk:
        before = len(said)
        Writes("b").send(desk.tx)
        desk.flush()
        assert len(said) == before


def test_a_parent_that_is_read_with_others_knows_its_children(store):
    """Its end moves them, though none of them was asked for."""
    store.append(given.created(), task="t_p")
    store.append(given.created(parents=["t_p"]))
    with at_desk(store.engine, "b", store.clock) as desk:
        desk.know_all(["t_p"])
        assert [link.child for link in desk.children("t_p")] == ["t_a"]
        desk.write(Decision((given.draft(given.completed(None), task="t_p"),)))
    assert_refolded(store)


def test_what_waits_of_a_child_is_not_lost_when_its_parents_end_moves_it(store):
    """The child is read anew: so what had happened to it before is in the store by then."""
    store.append(given.created(), task="t_p")
    store.append(given.created(parents=["t_p"]))
    with at_desk(store.engine, "b", store.clock) as desk:
        desk.write(Decision((given.draft(given.claimed(1)), given.draft(given.exited(1, "crashed", code=3)))))
        desk.write(Decision((given.draft(given.completed(None), task="t_p"),)))
        assert desk.task("t_a").failures == 1
        desk.write(Decision((given.draft(given.commented("on we go")),)))
    assert_refolded(store)


def test_a_row_that_the_store_refuses_is_the_fault_of_its_part_alone(store):
    """It goes to the store before the part ends; the others are whole."""
    with at_desk(store.engine, "b", store.clock) as desk:
        with desk.part():
            desk.write(Decision((given.draft(given.created(key="k"), task="t_a"),)))
        with (
            pytest.raises(Exception, match=r"(?i)unique constraint"),
            desk.part(),
        ):  # the driver's own, in a transaction
            desk.write(Decision((given.draft(given.created(key="k"), task="t_b"),)))
        with desk.part():
            desk.write(Decision((given.draft(given.created(), task="t_c"),)))
    assert [row["task"] for row in store.rows(tables.tasks)] == ["t_a", "t_c"]
    assert_refolded(store)
