"""Words apart: kept beside the facts, read by no fold, redactable; what no store can keep is refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ledger.errors import InvalidText
from ledger.events import KINDS, Actor, Wish, words_of
from ledger.recorded import Draft, valid
from tests import given, ledgers

SAID = {"title", "body", "reason", "summary", "metadata", "last_words", "note", "wish_words"}
"""Every field of this name is free text, whatever the kind."""
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", KINDS)
def test_facts_never_hold_words(kind):
    """RULES §2: words are kept apart."""
    assert "WORD" not in given.draft(given.EXAMPLES[kind]).facts_text


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_exactly_the_fields_that_are_marked(kind):
    """RULES §2: facts are what folds read, words are free text."""
    assert set(json.loads(given.draft(given.EXAMPLES[kind]).words_text)) == words_of(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_free_text_is_marked_as_a_word(kind):
    """RULES §2: titles, bodies, reasons, summaries, metadata, last words, notes, comments, those inside a wish."""
    assert SAID & set(KINDS[kind].model_fields) <= words_of(kind)


@pytest.mark.parametrize("kind", ["completed", "late_result"])
def test_a_result_is_a_word(kind):
    """RULES §2: results; the `result` of a claim says how to read one and is a fact."""
    assert "result" in words_of(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_redacted_words_read_as_empty_and_the_event_is_still_valid(kind, store):
    """RULES §2: redacted words equal nothing; §10: both salt and words are deleted."""
    (event,) = store.append(given.EXAMPLES[kind])
    store.sql("DELETE FROM words WHERE position = :position", position=event.position)
    (read,) = store.read(after=1)
    assert (read.words, read.salt, valid(read)) == ({}, None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_redacted_words_leave_the_facts_as_they_were(kind, store):
    """RULES §2: a fold reads the same before and after."""
    (event,) = store.append(given.EXAMPLES[kind])
    store.sql("DELETE FROM words WHERE position = :position", position=event.position)
    assert store.read(after=1)[0].facts == event.facts


def test_a_required_word_that_is_redacted_reads_as_the_empty_text(store):
    """RULES §2: a title must be a text; nothing is left of it."""
    (event,) = store.append(given.created("Secret", body="More"))
    store.sql("DELETE FROM words WHERE position = :position", position=event.position)
    read = store.read(after=1)[0].event()
    assert (read.title, read.body) == ("", None)


def test_the_chain_holds_after_a_redaction(store):
    """RULES §10: the event's row keeps the digest of what was deleted."""
    store.append(given.created("Secret"), given.redacted(2))
    store.sql("DELETE FROM words WHERE position = 2")
    assert ledgers.faults(store) == []


BAD = [
    (given.created("a\0b"), "created.title: a NUL character"),
    (given.created("a\ud800b"), "created.title: a lone surrogate"),
    (given.created(assignee="\udfff"), "created.assignee: a lone surrogate"),
    (given.created(labels=("fine", "\0")), "created.labels: a NUL character"),
    (given.created(parents=["t_\0"]), "created.parents: a NUL character"),
    (given.edited(tenant="\0"), "edited.values: a NUL character"),
    (given.completed(metadata={"a": [1, {"b": "\0"}]}), "completed.metadata: a NUL character"),
    (given.completed(metadata={"a": [1, {"b": "\ud800"}]}), "completed.metadata: a lone surrogate"),
    (given.completed(metadata={"\0": 1}), "completed.metadata: a NUL character"),
    (given.completed(metadata={"a": {"\ud800": 1}}), "completed.metadata: a lone surrogate"),
    (given.edited(tenant="\udc80"), "edited.values: a lone surrogate"),
    (given.stop_requested(wish=Wish(verb="assign", data={"to": "\0"}, actor=given.OPERATOR)), "stop_requested.wish"),
    (given.stop_requested(wish_words={"reason": "\udfff"}), "stop_requested.wish_words: a lone surrogate"),
    (given.claimed(quota=("\0",)), "claimed.quota: a NUL character"),
]


@pytest.mark.parametrize(("event", "said"), BAD)
def test_a_text_that_no_store_can_keep_is_refused_and_its_field_named(event, said):
    """RULES §10: NUL and lone surrogates are refused by name, however deep they stand."""
    with pytest.raises(InvalidText, match=said):
        given.draft(event)


def test_a_refused_text_writes_nothing(store):
    """RULES §10: not even the good event before it."""
    with pytest.raises(InvalidText):
        store.append(given.created(), given.commented("\0"))
    assert store.head().position == 1


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800"])
@pytest.mark.parametrize("field", ["name", "host"])
def test_a_bad_name_of_an_actor_is_refused_by_name(field, bad):
    """RULES §10: the envelope is text, too; a user's name comes from the environment."""
    actor = Actor.model_construct(**{"kind": "operator", "name": "ada", "host": "desk", field: bad})
    with pytest.raises(InvalidText, match=f"actor.{field}"):
        given.draft(given.created(), actor=actor)


def test_a_bad_name_of_a_card_is_refused_by_name():
    """RULES §10: the envelope is text, too."""
    with pytest.raises(InvalidText, match="task: a NUL character"):
        given.draft(given.created(), task="t_\0")


@pytest.mark.parametrize("fine", ["\ufffd", "a\nb\tc", "\u2028", "\x7f\x1b", "\\u0000", "\N{PILE OF POO}", "\ue000"])
def test_other_odd_texts_are_kept(fine, store):
    """RULES §10: only NUL and lone surrogates are refused."""
    store.append(given.completed(None, summary=fine, metadata={fine: fine}))
    event = store.read(after=1)[0].event()
    assert (event.summary, event.metadata) == (fine, {fine: fine})


def test_an_actor_with_an_odd_but_good_name_is_kept():
    """RULES §10: only NUL and lone surrogates are refused."""
    draft = given.draft(given.created(), actor=Actor(kind="operator", name="a\nb", host="é"))
    assert draft.actor.name == "a\nb"


@drawn(TEXT, JSON, st.none() | TEXT)
def test_any_text_and_any_json_reads_back_as_it_was(summary, metadata, result):
    """RULES §10: words are hashed as the stored bytes, and mean what was said."""
    event = given.completed(1, summary=summary, metadata=metadata, result=result)
    assert given.history(event)[0].event() == event


@drawn(TEXT, st.lists(TEXT, max_size=3), st.integers(-1_000_000_000, 1_000_000_000))
def test_any_fact_reads_back_as_it_was(assignee, labels, priority):
    """RULES §2: an event is complete."""
    event = given.created(assignee=assignee, labels=tuple(labels), priority=priority)
    assert given.history(event)[0].event() == event


def test_stored_texts_are_canonical_json():
    """RULES §10: keys sorted, no spaces, UTF-8."""
    draft = given.draft(given.completed(1, summary="é", metadata={"b": 1, "a": 2}))
    assert draft.words_text == '{"metadata":{"a":2,"b":1},"result":null,"summary":"é"}'


def test_a_cost_is_stored_as_the_decimal_that_was_said():
    """RULES §10: integers only; money is no binary fraction."""
    assert given.draft(given.progressed(tokens=1, cost="0.10")).facts_text == '{"usage":{"cost":"0.10","tokens":1}}'


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_event_has_nothing_wrong_with_its_shape(kind):
    """RULES §9: every field through Pydantic."""
    assert valid(given.history(given.EXAMPLES[kind])[0]) is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [('{"not_before":"soon"}', "not_before: Input should be a valid integer"), ("{}", "not_before: Field required"),
     ('{"not_before":1,"more":2}', "more: Extra inputs are not permitted")],
)  # fmt: skip
def test_a_forged_shape_is_named(facts, said):
    """RULES §9: replay says what is wrong with the shape."""
    (event,) = given.history(given.scheduled())
    assert valid(event._replace(facts_text=facts)).startswith(said)


def test_words_that_were_not_read_are_empty():
    """A fold never asks for them."""
    (event,) = given.history(given.created("Title"))
    assert event._replace(words_text=None).words == {}


def test_run_and_outcome_stand_in_the_envelope_and_not_among_the_facts():
    """RULES §2: run and outcome are fields of the envelope."""
    draft = Draft.of("t_a", given.completed(4, "fail"), given.WORKER)
    assert (draft.run, draft.outcome, json.loads(draft.facts_text)) == (4, "fail", {"usage": None})
