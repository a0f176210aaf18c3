"""Old shapes are read through upcasters; the golden file holds a made-up one of two steps and never changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger.errors import NewerSchema, UnknownKind
from ledger.events import KINDS, SCHEMAS
from ledger.upcasters import UPCASTERS, check_readable, check_steps, upcast
from projections.replay_event import FOLDED, decoded, event_of
from tests import given

GOLDEN = json.loads((Path(__file__).parents[1] / "fixtures" / "old_shapes.json").read_text(encoding="utf-8"))
KNOWN = {"parcel_sent": 3, "parcel_lost": 1}
STEPS = {
    ("parcel_sent", 1): lambda facts: {"to": facts["to"], "grams": facts["kilos"] * 1000},
    ("parcel_sent", 2): lambda facts: {"to": {"name": facts["to"]}, "grams": facts["grams"]},
}


def read(kind, schema, facts):
    return upcast(kind, schema, facts, position=7, known=KNOWN, steps=STEPS)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['kind']} {case['schema']}")
def test_an_old_shape_is_read_as_the_newest(case):
    """RULES §2: upcasters, chained, golden files."""
    assert read(case["kind"], case["schema"], json.loads(case["stored"])) == case["read"]


def test_the_golden_file_has_every_schema_of_every_kind():
    """RULES §2: no shape that was ever written is forgotten."""
    wanted = {(kind, schema) for kind, newest in KNOWN.items() for schema in range(1, newest + 1)}
    assert {(case["kind"], case["schema"]) for case in GOLDEN} == wanted


def test_a_step_does_not_change_what_it_was_given():
    """RULES §2: pure, dict → dict."""
    facts = {"to": "ann", "kilos": 2}
    read("parcel_sent", 1, facts)
    assert facts == {"to": "ann", "kilos": 2}


def test_an_event_of_a_replay_reads_an_old_shape_as_any_other_does(monkeypatch):
    """RULES §2: decoded late or at once."""
    told = given.history(given.commented("a word"))[0]._replace(facts_text='{"said":2}')
    row = [getattr(told, name) for name in FOLDED]
    read_by = [lambda: told.facts, lambda: event_of(row).facts, lambda: decoded(row).facts]
    assert [read() for read in read_by] == [{"said": 2}] * 3
    monkeypatch.setitem(SCHEMAS, "commented", 2)
    monkeypatch.setitem(UPCASTERS, ("commented", 1), lambda facts: {"said": str(facts["said"])})
    assert [read() for read in read_by] == [{"said": "2"}] * 3


@pytest.mark.parametrize("schema", [0, 4])
def test_a_schema_out_of_range_is_refused_with_its_position(schema):
    """RULES §2: never skipped in silence."""
    with pytest.raises(NewerSchema, match=f"position 7: parcel_sent has schema {schema}, this program knows up to 3"):
        read("parcel_sent", schema, {})


def test_an_unknown_kind_is_refused_with_its_position():
    """RULES §2: never skipped in silence."""
    with pytest.raises(UnknownKind, match="position 7: unknown event kind 'parcel_found'"):
        read("parcel_found", 1, {})


def test_a_kind_is_readable_up_to_its_newest_schema():
    """RULES §2: folds ask this where they read no facts."""
    assert check_readable("parcel_sent", 2, position=7, known=KNOWN) == 3


def test_a_whole_table_of_steps_has_nothing_wrong():
    """Each schema below the newest has its step."""
    assert check_steps(KNOWN, STEPS) == []


def test_a_gap_in_the_steps_is_found():
    """Found by a test, not by the first old log."""
    steps = {key: step for key, step in STEPS.items() if key[1] == 1}
    assert check_steps(KNOWN, steps) == ["parcel_sent: no step from schema 2"]


def test_a_step_that_leads_nowhere_is_found():
    """A step from the newest schema, or of a kind that does not exist."""
    steps = STEPS | {("parcel_sent", 3): dict, ("parcel_eaten", 1): dict}
    assert check_steps(KNOWN, steps) == [
        "parcel_eaten: a step from schema 1 leads nowhere",
        "parcel_sent: a step from schema 3 leads nowhere",
    ]


def test_the_shipped_table_has_no_gaps_and_no_strays():
    """RULES §2: every shape that this program has ever written can be read."""
    assert check_steps(SCHEMAS, UPCASTERS) == []


def test_every_kind_has_a_schema():
    """RULES §2: the envelope carries it."""
    assert set(SCHEMAS) == set(KINDS)


def test_facts_of_an_unknown_kind_are_refused_with_their_position(store):
    """RULES §2: an event that a newer program wrote."""
    (event,) = store.append(given.commented())
    with pytest.raises(UnknownKind, match="position 2") as caught:
        _ = event._replace(kind="sung").facts
    assert (caught.value.kind, caught.value.position) == ("sung", 2)


def test_facts_of_a_newer_schema_are_refused_with_their_position(store):
    """RULES §2: an event that a newer program wrote."""
    (event,) = store.append(given.commented())
    with pytest.raises(NewerSchema, match="position 2") as caught:
        _ = event._replace(schema=2).facts
    assert (caught.value.kind, caught.value.schema, caught.value.position) == ("commented", 2, 2)
