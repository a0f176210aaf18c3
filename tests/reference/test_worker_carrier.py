"""Who is a worker, how often its turns may go on, and how long each waits: the reference system's cases, in our words.

Where the reference takes each coordinate from its own place, a claim here is one value, all of it or nothing.
"""

import json
import pickle

import pytest

from kanban.refusals import Forbidden
from kanban.worker import recovery
from kanban.worker.carrier import Carrier, carrier_of, is_worker
from kanban.worker.proof import Live
from kanban.worker.recovery import Recovered, budget_of, delay_before, recover
from kanban.worker.result import result_of
from tests.reference.workers import CARRIER, SUCCESS, TIMEOUT, Turns

WHOLE = CARRIER.as_environment()


def is_enabled(environ):
    """Whether a turn that failed goes on for whoever has this environment, its claim being live."""
    turns, means = Turns([SUCCESS]), {"check": lambda: Live(1), "sleep": lambda _: None}
    return recover(turns, TIMEOUT, carrier_of(environ), environ=environ, **means).attempts == len(turns.texts) == 1


def test_without_a_card_nothing_is_recovered():
    """No environment: no carrier, not enabled; the loop returns the result that it got and never takes a turn."""
    turns = Turns([TIMEOUT])
    assert carrier_of({}) is None
    assert not is_enabled({})
    assert recover(turns, TIMEOUT, carrier_of({}), environ={}) == Recovered(result_of(TIMEOUT), 0)
    assert turns.texts == []


def test_a_budget_of_zero_disables_and_blank_ids_are_no_workers():
    """`0` switches it off; an id of spaces is none; one with spaces around it is the card's."""
    off = WHOLE | {"LEDGER_TURN_RECOVERY": "0"}
    assert is_enabled(WHOLE)
    assert not is_enabled(off)
    for blank in ("", "  ", "\t\n"):
        assert carrier_of(WHOLE | {"LEDGER_TASK": blank}) is None
        assert not is_worker(WHOLE | {"LEDGER_TASK": blank})
        assert not is_enabled(WHOLE | {"LEDGER_TASK": blank})
    assert carrier_of(WHOLE | {"LEDGER_TASK": "  t_bound  "}) == CARRIER


@pytest.mark.parametrize(
    ("said", "budget"),
    [
        (None, 3), ("", 3), ("  ", 3), ("2", 2), (" 2 ", 2), ("99", 10), ("10", 10), ("-4", 0), ("0", 0),
        ("abc", 3), ("1.5", 3), ("9" * 5000, 3), ("false", 0), ("FALSE", 0), ("no", 0), ("Off", 0),
    ],
)  # fmt: skip
def test_the_budget_is_read_and_clamped(said, budget):
    """Unset, blank and what is no number are 3; off words are 0; numbers lie between 0 and 10."""
    assert budget_of({} if said is None else {"LEDGER_TURN_RECOVERY": said}) == budget


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 15), (1, 15), (2, 45), (3, 90), (4, 90), (9, 90), (-1, 15)])
def test_the_last_delay_repeats(attempt, seconds):
    """15, 45 and 90 seconds."""
    assert recovery.DELAYS == (15, 45, 90)
    assert delay_before(attempt) == seconds


def test_the_delays_are_looked_up_when_they_are_needed(monkeypatch):
    """A table of one zero."""
    monkeypatch.setattr(recovery, "DELAYS", (0,))
    assert [delay_before(attempt) for attempt in (0, 1, 7)] == [0, 0, 0]


def test_an_explicit_blank_card_never_falls_back_to_the_environment():
    """Only what was not passed at all is read from there."""
    assert carrier_of(WHOLE, task="") is None
    assert carrier_of(WHOLE, task="   ", database="d", board="b", run=1, lock="l") is None
    other = carrier_of(WHOLE, database=" d ", board=" b ", task="  t_other ", run=" 2 ", lock=" l ")
    assert other == Carrier("d", "b", "t_other", 2, "l")
    assert carrier_of(WHOLE) == CARRIER


@pytest.mark.parametrize("name", ["LEDGER_DATABASE_URL", "LEDGER_BOARD", "LEDGER_RUN", "LEDGER_LOCK"])
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_part_of_a_claim_is_refused(name, value):
    """The reference denies the proof; here there is no such carrier. It is a worker's environment all the same."""
    part = {key: value for key, value in (WHOLE | {name: value}).items() if value is not None}
    with pytest.raises(Forbidden, match=name):
        carrier_of(part)
    assert is_worker(part)


def test_an_explicit_claim_is_not_filled_up_from_the_environment():
    """One of two processes' coordinates: nobody's claim."""
    with pytest.raises(Forbidden):
        carrier_of(WHOLE, task="t_other")


@pytest.mark.parametrize("run", ["one", "1.5", "-1", "9" * 10])
def test_a_run_is_a_number(run):
    """As large as one can be."""
    with pytest.raises(Forbidden, match="LEDGER_RUN"):
        carrier_of(WHOLE | {"LEDGER_RUN": run})


def test_a_carrier_travels_whole_and_shows_no_secret():
    """As JSON, pickled and as an environment; neither its lock nor its address is in what is printed."""
    assert carrier_of({}, **json.loads(json.dumps(CARRIER.as_mapping()))) == CARRIER
    assert carrier_of(CARRIER.as_environment()) == CARRIER
    assert pickle.loads(pickle.dumps(CARRIER)) == CARRIER
    assert CARRIER.lock not in f"{CARRIER!r}{CARRIER!s}"
    assert CARRIER.database not in repr(CARRIER)
    with pytest.raises(AttributeError):
        CARRIER.task = "t_other"  # type: ignore[misc]
