"""The chain (RULES §10): worked examples that never change, recomputed by two programs, and forgeries named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ledger import chain, standing
from ledger import store as log
from ledger.database import writing
from ledger.events import Actor
from ledger.recorded import Draft
from tests import given, ledgers
from tests.audits import ZEROS, outside

GOLDEN = json.loads((Path(__file__).parents[1] / "fixtures" / "chain.json").read_text(encoding="utf-8"))
EVENTS = GOLDEN["events"]
BOARD = EVENTS[0]["fields"]["board"]
TEXT = st.text(max_size=30)
NUMBER = st.integers(-(2**63), 2**63 - 1)


def sha(data):
    return hashlib.sha256(data).digest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def flat(fields):
    """The arguments of `chain.envelope` for an envelope's fields."""
    actor = {f"actor_{name}": value for name, value in fields["actor"].items()}
    return {name: value for name, value in fields.items() if name != "actor"} | actor


def test_the_worked_examples_follow_from_the_rule_by_hashlib_and_json_alone():
    """RULES §10: hash(n) = SHA-256(hash(n−1) ‖ envelope(n) ‖ SHA-256(facts(n)) ‖ SHA-256(salt(n) ‖ words(n)))."""
    previous, hashes = sha(GOLDEN["board_id"].encode()), []
    for event in EVENTS:
        words = sha(bytes.fromhex(event["salt"]) + event["words"].encode())
        previous = sha(previous + canonical(event["fields"]).encode() + sha(event["facts"].encode()) + words)
        hashes.append(previous.hex())
    assert hashes == [event["hash"] for event in EVENTS]


def test_the_worked_examples_follow_from_the_programs_own_chain():
    """RULES §10: worked examples stand in a golden file and never change."""
    previous, hashes = chain.first_hash(GOLDEN["board_id"]), []
    for event in EVENTS:
        digest = chain.words_digest(bytes.fromhex(event["salt"]), event["words"])
        previous = chain.next_hash(previous, chain.envelope(**flat(event["fields"])), event["facts"], digest)
        hashes.append(previous.hex())
    assert hashes == [event["hash"] for event in EVENTS]


def test_the_first_hash_is_that_of_the_boards_id():
    """RULES §10: hash(0) = SHA-256(board id)."""
    assert chain.first_hash(GOLDEN["board_id"]).hex() == GOLDEN["first_hash"]


@pytest.mark.parametrize("number", range(len(EVENTS)))
def test_every_part_of_an_example_is_what_the_program_makes(number):
    """RULES §10: envelope text and digests, so that a change shows where it happened."""
    event = EVENTS[number]
    assert (
        chain.envelope(**flat(event["fields"])),
        sha(event["facts"].encode()).hex(),
        chain.words_digest(bytes.fromhex(event["salt"]), event["words"]).hex(),
    ) == (event["envelope"], event["facts_digest"], event["words_digest"])


def stored_examples(store):
    """The examples appended to a store, with their own salts."""
    drafts = [
        Draft(
            each["fields"]["task"], each["fields"]["kind"], each["fields"]["run"], each["fields"]["outcome"],
            each["facts"], each["words"], Actor(**each["fields"]["actor"]),
        )
        for each in EVENTS
    ]  # fmt: skip
    with writing(store.engine) as tx:
        log.create_board(tx, BOARD, GOLDEN["board_id"])
        for draft, each in zip(drafts, EVENTS, strict=True):
            fields, salt = each["fields"], bytes.fromhex(each["salt"])
            log.append(
                tx, BOARD, [draft], expected=fields["version"] - 1, at=fields["at"], command_id=fields["command_id"],
                salt=lambda _, salt=salt: salt,
            )  # fmt: skip
    return store.read(board=BOARD)


def test_a_store_writes_the_worked_examples(store):
    """RULES §10: facts and words are hashed as the stored bytes."""
    recorded = stored_examples(store)
    assert [(event.facts_text, event.words_text, event.hash.hex()) for event in recorded] == [
        (event["facts"], event["words"], event["hash"]) for event in EVENTS
    ]


def test_the_worked_examples_are_events_that_encode_to_themselves(store):
    """RULES §10: stored bytes never change: the encoding of facts and words is part of the promise."""
    recorded = stored_examples(store)
    again = [Draft.of(event.task, event.event(), given.OPERATOR) for event in recorded]
    assert [(draft.facts_text, draft.words_text) for draft in again] == [
        (event["facts"], event["words"]) for event in EVENTS
    ]


@drawn(
    st.fixed_dictionaries(
        {
            "board": TEXT,
            "position": NUMBER,
            "task": TEXT,
            "version": NUMBER,
            "kind": TEXT,
            "schema": NUMBER,
            "at": NUMBER,
            "actor": st.fixed_dictionaries({"kind": TEXT, "name": TEXT, "host": TEXT}),
            "run": st.none() | NUMBER,
            "outcome": st.none() | TEXT,
            "command_id": st.none() | TEXT,
        }
    )
)
def test_the_template_writes_canonical_json(fields):
    """RULES §10: written by a fixed template that a test compares with canonical JSON."""
    assert chain.envelope(**flat(fields)) == canonical(fields)


def test_the_envelope_of_an_event_holds_every_column_but_facts_words_and_hash(store):
    """RULES §10: all fields of §2, outcome included."""
    (event,) = store.append(given.exited(1, "clean"), command_id="c-1")
    assert log.envelope_of(event) == ledgers.canonical_envelope(event)


def test_the_head_holds_the_hash_of_the_last_event(store):
    """RULES §10: the next event is chained to it."""
    (event,) = store.append(given.created())
    assert store.head() == standing.Head("b" * 32, 2, event.at, event.hash)


def test_an_empty_board_ends_at_its_first_hash(store):
    """RULES §10: hash(0) = SHA-256(board id)."""
    with writing(store.engine) as tx:
        assert log.create_board(tx, "c", "id") == standing.head(tx, "c") == standing.Head("id", 0, 0, sha(b"id"))


FORGED = {
    "kind": "'reopened'",
    "at": "at + 1",
    "actor_name": "'eve'",
    "actor_host": "'elsewhere'",
    "actor_kind": "'system'",
    "run": "7",
    "outcome": "'ok'",
    "command_id": "'c-9'",
    "schema": "2",
    "facts": "'[]'",
    "words_digest": ZEROS,
    "hash": ZEROS,
}


@pytest.mark.parametrize("column", FORGED)
def test_a_forged_column_breaks_the_chain_at_its_event(store, column):
    """RULES §10: `verify` compares every column; an outsider who drops the trigger is found out."""
    store.append(given.created(), given.commented(), given.commented())
    outside(store, f"UPDATE events SET {column} = {FORGED[column]} WHERE position = 3")
    assert ledgers.faults(store)[0].startswith("3: ")


def test_forged_words_break_their_digest(store):
    """RULES §10: the event's row keeps SHA-256(salt ‖ words)."""
    store.append(given.created(), given.commented())
    outside(store, "UPDATE words SET words = replace(words, 'word', 'lie') WHERE position = 3")
    assert ledgers.faults(store) == ["3: words"]


def test_an_outcome_is_hashed_as_its_text(store):
    """RULES §10: the enumeration is the program's, the text is the log's."""
    (event,) = store.append(given.exited(1, "clean"))
    assert '"outcome":"clean"' in log.envelope_of(event)
