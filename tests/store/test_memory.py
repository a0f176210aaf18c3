"""What was read is kept until anybody writes: never a day longer, whoever it was."""

from __future__ import annotations

import pytest

from ledger.database import connect, reading, writing
from ledger.memory import Memory
from ledger.standing import head
from projections import leases
from tests import given
from tests.engines import on


class Reader:
    """A reader that counts how often it really looks at the lease of run 1 of `t_a`."""

    def __init__(self, engine):
        self.engine, self.memory, self.looks = engine, Memory(), 0

    def look(self, tx):
        def read():
            self.looks += 1
            return leases.lease_of(tx, "b", "t_a", 1)

        return self.memory.of(tx, "lease", read)

    def __call__(self):
        with reading(self.engine) as tx:
            return self.look(tx)


@pytest.fixture
def reader(store):
    """It has looked once."""
    with writing(store.engine) as tx:
        leases.grant(tx, "b", "t_a", 1, until=1)
    found = Reader(store.engine)
    assert found() == (1, None)
    return found


@on("sqlite")
def test_a_store_that_stands_still_is_looked_at_once(reader):
    """Another tick finds what the last one did."""
    assert [reader(), reader(), reader.looks] == [(1, None), (1, None), 1]


@on("postgresql")
def test_a_server_is_asked_again_each_time(reader):
    """It does not tell whether anybody has written: nothing is kept."""
    assert [reader(), reader(), reader.looks] == [(1, None), (1, None), 3]


def test_each_name_is_kept_for_itself(reader):
    """Two questions have two answers."""
    with reading(reader.engine) as tx:
        assert reader.memory.of(tx, "head", lambda: head(tx, "b").position) == 1
    assert reader() == (1, None)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["through this engine", "through another"])
@pytest.mark.parametrize("how", ["renew", "release"])
def test_whoever_writes_makes_it_look_anew(store, reader, elsewhere, how):
    """A heartbeat is no event and moves no position, and yet it counts."""
    engine = connect(store.url) if elsewhere else store.engine
    with writing(engine) as tx:
        if how == "renew":
            leases.renew(tx, "b", "t_a", 1, until=2)
        else:
            leases.release(tx, "b", "t_a", 1)
    if elsewhere:
        engine.dispose()
    assert reader() == ((2, None) if how == "renew" else None)


def test_the_same_number_of_writes_by_another_connection_is_another_state(store, reader):
    """Not counts are compared, but counts of one connection."""
    store.engine.dispose()
    with writing(store.engine) as tx:
        leases.renew(tx, "b", "t_a", 1, until=2)
    assert reader() == (2, None)


def test_what_was_rolled_back_was_never_seen(store, reader):
    """In a transaction that may write nothing is kept, and nothing that was kept is answered."""

    def fail():
        with writing(store.engine) as tx:
            leases.renew(tx, "b", "t_a", 1, until=2)
            assert reader.look(tx) == (2, None)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert reader() == (1, None)


def test_a_snapshot_is_answered_from_itself(store, reader):
    """What is written after a transaction began is not in it, and is in the next."""
    with reading(store.engine) as tx:
        assert reader.look(tx) == (1, None)
        other = connect(store.url)
        with writing(other) as writer:
            leases.renew(writer, "b", "t_a", 1, until=2)
        other.dispose()
        assert reader.look(tx) == (1, None)
    assert reader() == (2, None)


def test_an_event_makes_it_look_anew(store, reader):
    """So does any append."""
    store.append(given.created(), task="t_new")
    assert (reader(), reader.looks) == ((1, None), 2)
