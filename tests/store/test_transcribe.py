"""A log written as it stands elsewhere: verbatim, in pages, and nothing that does not follow (RULES §10)."""

from __future__ import annotations

import pytest

from ledger import chain
from ledger.database import writing
from ledger.errors import UnknownBoard
from ledger.store import create_board, envelope_of
from ledger.transcribe import DoesNotFollow, transcribe
from projections.catching_up import catch_up
from projections.read_models import PROJECTIONS, rebuild
from tests import given, ledgers

C = "c"


@pytest.fixture
def source(store):
    """A board `c` of seven events, one of them a redaction of the second, in the store that is also written to."""
    ledgers.new_board(store, C, "c" * 32)
    for event in (given.created("Secret"), given.claimed(), given.progressed(1, "x"), given.completed(1)):
        store.append(event, board=C)
    store.append(given.reopened(), board=C)
    store.append(given.redacted(2), board=C)
    return store


def chained(events):
    """*events*, each with the hash that fits it behind the one before."""
    previous, linked = chain.first_hash("c" * 32), []
    for event in events:
        previous = chain.next_hash(previous, envelope_of(event), event.facts_text, event.words_digest)
        linked.append(event._replace(hash=previous))
    return linked


@pytest.fixture
def elsewhere(source):
    """The same log under another name, as one that could be transcribed into a board `d` of the same identity."""
    return chained(event._replace(board="d") for event in source.read(board=C))


def copied(store, events, page=3, fold=True):
    """What is written of *events* into the board `d`, in pages; where its log ends then."""
    with writing(store.engine) as tx:
        end = create_board(tx, "d", "c" * 32)
    for start in range(0, len(events), page):
        with writing(store.engine) as tx:
            end = transcribe(tx, "d", events[start : start + page])
            if fold:
                catch_up(tx, "d", events[start : start + page])
    return end


def test_a_log_is_written_as_it_stood(source, elsewhere):
    """RULES §10: positions, instants, facts, words, salts and hashes; but words that were redacted are gone."""
    end = copied(source, elsewhere)
    assert source.head("d") == end
    gone = elsewhere[1]._replace(salt=None, words_text=None)
    assert source.read(board="d") == [elsewhere[0], gone, *elsewhere[2:]]
    assert ledgers.faults(source, "d") == []


@pytest.mark.parametrize("page", [1, 2, 7])
def test_its_projections_come_with_it(source, elsewhere, page):
    """RULES §9: every page leaves rows that are what the log makes them, however it is cut."""
    copied(source, elsewhere, page)
    for table in PROJECTIONS:
        if table.name != "settings":
            assert source.rows(table, "d") == source.rows(table, C)
    rows = [source.rows(table, "d") for table in PROJECTIONS]
    rebuild(source.engine, "d")
    assert rows == [source.rows(table, "d") for table in PROJECTIONS]


def test_they_may_as_well_be_folded_once_all_is_there(source, elsewhere):
    """DESIGN §3: projections are disposable."""
    copied(source, elsewhere, fold=False)
    rebuild(source.engine, "d")
    assert source.rows(PROJECTIONS[0], "d") == source.rows(PROJECTIONS[0], C)


def test_an_empty_page_is_nothing(source, elsewhere):
    """What it continues is where it ends."""
    end = copied(source, elsewhere)
    with writing(source.engine) as tx:
        assert transcribe(tx, "d", []) == end


def test_a_log_that_was_transcribed_goes_on(source, elsewhere):
    """RULES §2: the next append is chained to it, and versions go on."""
    copied(source, elsewhere)
    (event,) = source.append(given.commented("on"), board="d")
    assert (event.position, event.version) == (8, 7)
    assert ledgers.faults(source, "d") == []


def test_an_unknown_board_is_said(source, elsewhere):
    """It must be there, with its identity."""
    with pytest.raises(UnknownBoard), writing(source.engine) as tx:
        transcribe(tx, "nowhere", elsewhere)


def spoilt(name, event):
    """What makes *event* one that does not follow."""
    return {
        "position": {"position": 9},
        "instant": {"at": 5},
        "version": {"version": 9},
        "board": {"board": "z"},
        "words": {"words_text": '{"a":1}'},
        "salt": {"salt": b"short"},
        "a letter": {"salt": event.salt + event.words_text[:1].encode(), "words_text": event.words_text[1:]},
        "facts": {"facts_text": "{}"},
        "actor": {"actor_name": "eve"},
    }[name]


SAID = {
    "position": "position 9 follows 2",
    "instant": "position 3: its instant is before that of the event before it",
    "version": "position 3: version 9 of t_a after 1",
    "board": "position 3 is of board z, not of d",
    "words": "position 3: its words are not those that were hashed",
    "salt": "position 3: its words are not those that were hashed",
    "a letter": "position 3: its words are not those that were hashed",
    "facts": "position 3: its hash is not that of its columns",
    "actor": "position 3: its hash is not that of its columns",
}


@pytest.mark.parametrize("name", SAID)
def test_what_does_not_follow_is_refused_by_its_position(source, elsewhere, name):
    """RULES §2, §10: nothing of that page is written."""
    elsewhere[2] = elsewhere[2]._replace(**spoilt(name, elsewhere[2]))
    if name in {"instant", "version"}:
        elsewhere = chained(elsewhere)
    with pytest.raises(DoesNotFollow, match=SAID[name]) as caught:
        copied(source, elsewhere)
    assert caught.value.position == elsewhere[2].position
    assert source.read(board="d") == []


def test_a_version_must_follow_what_is_there_already(source, elsewhere):
    """RULES §2: also where a page begins in the middle of a stream."""
    copied(source, elsewhere[:4])
    with pytest.raises(DoesNotFollow, match="version 9 of t_a after 3"), writing(source.engine) as tx:
        transcribe(tx, "d", chained([*elsewhere[:4], elsewhere[4]._replace(version=9)])[4:])


def test_what_is_there_already_is_not_written_twice(source, elsewhere):
    """RULES §10: positions have one event each."""
    copied(source, elsewhere)
    with pytest.raises(DoesNotFollow, match="position 1 follows 7"), writing(source.engine) as tx:
        transcribe(tx, "d", elsewhere)


def test_words_that_were_redacted_before_stay_away(source, elsewhere):
    """RULES §10: an event without words is written without; its digest stands."""
    elsewhere[1] = elsewhere[1]._replace(salt=None, words_text=None)
    copied(source, elsewhere)
    assert source.read(board="d") == elsewhere
