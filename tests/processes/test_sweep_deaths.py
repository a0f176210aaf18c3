"""The same death, booked by whichever process sees it, is booked alike (RULES §6)."""

import os
import signal
from pathlib import Path

import pytest

from tests import fleets
from tests.fleets import sh, until

STUBBORN = 'trap "" TERM; touch ready; while :; do sleep 0.1; done'
BYE = 'while [ ! -e "$LEDGER_HOME/go" ]; do sleep 0.02; done; echo bye; '
DEATHS = {
    "exits 0": BYE,
    "exits 1": BYE + "exit 1",
    "exits 75": BYE + "echo '[kanban-worker-exit] reset=1'; exit 75",
    "exits 78": BYE + "exit 78",
    "exits 130": BYE + "exit 130",
    "worker killed": "touch ready; exec sleep 300",
    "supervisor killed": STUBBORN,
    "both killed": "touch ready; exec sleep 300",
}
EXPECTED = {
    "exits 0": (["exited", "violation"], "clean", 0, None, "exit_record"),
    "exits 1": (["exited"], "crashed", 1, None, "exit_record"),
    "exits 75": (["exited"], "rate_limited", 75, None, "exit_record"),
    "exits 78": (["exited"], "config", 78, None, "exit_record"),
    "exits 130": (["exited"], "interrupted", 130, None, "exit_record"),
    "worker killed": (["exited"], "crashed", None, 9, "exit_record"),
    "supervisor killed": (["exited"], "crashed", None, None, "none"),
    "both killed": (["exited"], "crashed", None, None, "none"),
}
ONE_TICK = "print(json.dumps(board.sweep(most=8).as_json()), flush=True)\n"
OBSERVERS = ("the sweep that spawned it", "another process beside it", "a fresh process after it")


def start(fleet, observer):
    """Start a worker for each death, by this process or by another that then stays or goes."""
    if observer == OBSERVERS[0]:
        assert len(fleet.sweep().claimed) == len(DEATHS)
        return
    spawner = fleet.outside(ONE_TICK + ("sys.stdin.read()" if observer == OBSERVERS[1] else ""))
    assert spawner.stdout.readline()
    if observer == OBSERVERS[2]:
        assert spawner.wait() == 0


def kill(fleet, cards):
    """Let every worker die its death, and wait until all are dead."""
    for death in ("worker killed", "supervisor killed", "both killed"):
        fleet.in_scratch(cards[death], "ready")
    for pid in fleet.workers(cards["worker killed"]):
        os.kill(pid, signal.SIGKILL)
    (fleet.home / "go").touch()
    os.kill(fleet.supervisor(cards["supervisor killed"]), signal.SIGKILL)
    os.killpg(fleet.supervisor(cards["both killed"]), signal.SIGKILL)
    for card in cards.values():
        until(lambda card=card: not fleets.is_alive(fleet.supervisor(card)))


def book(fleet, cards):
    """Tick until all are booked, the grace passing where a tick waits for it."""
    ticks = [fleet.sweep()]
    left = [death for death, card in cards.items() if not fleet.runs(card)[0]["outcome"]]
    fleet.clock.advance(9)
    ticks.append(fleet.sweep())
    fleet.clock.advance(2)
    ticks += fleet.sweep_until(lambda: all(fleet.runs(card)[0]["outcome"] for card in cards.values()))
    return ticks, left


def said(fleet, card):
    """What was booked, without what the time and the observer are: kind, actor, outcome, facts and words."""
    booked = []
    for event in fleet.events(card):
        if event.kind in {"exited", "violation", "blocked"}:
            facts = {name: fact for name, fact in event.facts.items() if name not in {"observer", "not_before"}}
            booked.append(
                (event.kind, event.actor_kind, event.actor_name, event.run, event.outcome, facts, event.words)
            )
    return booked


def died(fleet, observer):
    """Every death on a fresh board, and what *observer* made of them."""
    workers = {f"w{n}": {"command": sh(script)} for n, script in enumerate(DEATHS.values())}
    fleet.staff(workers, max_running=len(DEATHS))
    cards = {death: fleet.create(death, f"w{n}") for n, death in enumerate(DEATHS)}
    start(fleet, observer)
    kill(fleet, cards)
    zombies = [death for death, card in cards.items() if _is_zombie(fleet.supervisor(card))]
    fleet.board.pause()
    ticks, left = book(fleet, cards)
    return {
        "zombies": zombies,
        "said": {death: said(fleet, card) for death, card in cards.items()},
        "signals": {death: fleets.signals(ticks, card) for death, card in cards.items()},
        "left": left,
    }


@pytest.fixture(scope="module")
def seen(founded, tmp_path_factory):
    """What each observer booked."""
    booked = {}
    for observer in OBSERVERS:
        fleet = fleets.new_fleet(founded, tmp_path_factory.mktemp("deaths") / "home")
        try:
            booked[observer] = died(fleet, observer)
            fleet.audit()
        finally:
            fleet.end()
    return booked


@pytest.mark.parametrize("death", DEATHS)
def test_a_death_is_booked_alike_whoever_sees_it(seen, death):
    """§6: the same death booked by any process gives equal kinds, outcomes and facts but for the observer."""
    first, *others = [by["said"][death] for by in seen.values()]
    kinds, outcome, code, number, evidence = EXPECTED[death]
    assert [event[0] for event in first] == kinds
    facts = first[0][5]
    assert (first[0][4], facts["code"], facts["signal"], facts["evidence"]) == (outcome, code, number, evidence)
    assert others == [first, first]


def test_the_spawner_had_reaped_nothing_that_another_process_booked(seen):
    """§6: zombies are dead, and whose children they are does not matter."""
    assert seen[OBSERVERS[1]]["zombies"] == list(DEATHS)


@pytest.mark.parametrize("observer", OBSERVERS)
def test_only_a_group_that_its_supervisor_left_is_signalled(seen, observer):
    """§6: a supervisor that is gone with members left: TERM, grace, KILL to the group, then book."""
    signals = {death: sent for death, sent in seen[observer]["signals"].items() if sent}
    assert signals == {"supervisor killed": [signal.SIGTERM, signal.SIGKILL]}
    assert seen[observer]["left"] == ["supervisor killed"]


def _is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
