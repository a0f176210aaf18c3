"""Commands on the board as a whole: sweep, pause, resume, policy, replay."""

import fcntl
import json
import os
import signal
from types import SimpleNamespace

import pytest

from cli import sweeping
from kanban.board import Board
from kanban.sweep import Sweeper
from kanban.tick import Tick
from ledger.errors import StoreBusy, StoreUnreachable
from projections.policy import Policy
from tests.engines import once
from tests.fleets import until

TICK = {
    "schema", "tick", "dry_run", "booked", "stopped", "renewed", "lifted", "claimed", "held", "notes", "errors", "live",
    "position", "next_at",
}  # fmt: skip


def settled(fleet, card):
    """Sweep until *card* is not running any more."""

    def over():
        fleet.ok("sweep", "--quiet")
        return fleet.json("show", card)["task"]["status"] != "running"

    until(over)


def test_a_dry_run_says_what_a_tick_would_do(fleet):
    """And why the others would not start; the position stays."""
    card, nobody = fleet.create("a", "--assignee", "builder"), fleet.create("b")
    before = fleet.position()
    said = fleet.json("sweep", "--dry-run")
    assert said.keys() == TICK
    assert (said["claimed"], said["held"]) == ([{"task": card, "run": 1, "pid": None}], {"no_assignee": [nobody]})
    words = fleet.ok("sweep", "--dry-run").out
    assert words == f"{card} run 1: would be started\nheld, no_assignee: {nobody}\n"
    assert fleet.position() == before


def test_a_tick_starts_and_books(fleet):
    """One line for each thing that happened; the files that gave the assignees are named once, on stderr."""
    card = fleet.create("a", "--assignee", "crasher", "--max-retries", "1")
    said = fleet.ok("sweep")
    assert said.out.startswith(f"{card} run 1: started, pid ")
    assert said.err == f"assignees builder, crasher, dana: from {fleet.home}/ledger.toml\n"
    assert "assignees" not in fleet.ok("sweep", "--quiet").err
    settled(fleet, card)
    assert fleet.json("why", card)["status"] == "blocked"
    assert "exited" in fleet.ok("events", card).out
    assert "boom" in fleet.ok("log", card).out
    assert fleet.json("log", card)["text"].startswith("boom\n")
    assert fleet.ok("replay").out.startswith(f"{fleet.position()} events, 1 cards: no divergence")


def test_until_idle_ends_by_itself(fleet):
    """One JSON object a tick a line; the last claimed nothing and nothing is live."""
    card = fleet.create("a", "--assignee", "crasher")
    fleet.create("for a person", "--assignee", "dana")
    said = fleet.ok("sweep", "--until-idle", "--json")
    ticks = [json.loads(line) for line in said.out.splitlines()]
    assert all(tick.keys() == TICK for tick in ticks)
    assert (ticks[-1]["claimed"], ticks[-1]["live"], ticks[-1]["held"].keys()) == ([], 0, {"waiting_for_person"})
    booked = [each for tick in ticks for each in tick["booked"]]
    assert booked[0].keys() == {"task", "run", "outcome", "evidence", "events"}
    assert [each["outcome"] for each in booked] == ["crashed", "crashed"]
    assert fleet.json("show", card)["task"]["hold"]["cause"] == "failure_budget"


def test_until_idle_says_when_to_come_back(fleet):
    """A card that is parked does not keep it."""
    card = fleet.create("a", "--assignee", "builder")
    fleet.ok("schedule", card, "+2h")
    said = fleet.ok("sweep", "--until-idle")
    assert "next: something can be claimed at " in said.err
    assert "(Europe/Berlin)" in said.err
    assert fleet.json("sweep", "--until-idle")["next_at"] == fleet.json("show", card)["task"]["scheduled"]


def test_an_idle_tick_says_nothing(fleet):
    """But with --verbose it says what is held."""
    card = fleet.create("a")
    assert fleet.ok("sweep").out == ""
    assert fleet.ok("sweep", "--verbose").out == f"held, no_assignee: {card}\n"


def test_max_starts_no_more(fleet):
    """`--max 0` starts none."""
    fleet.create("a", "--assignee", "builder")
    assert fleet.json("sweep", "--max", "0")["claimed"] == []


def test_without_assignees_it_says_so(ledger):
    """Nothing will be started."""
    assert "no assignee is configured" in ledger.ok("sweep").err


def test_a_sweep_at_work_is_skipped(fleet):
    """Exit 0 and `lock held`; 9 only where the caller asked to be told."""
    descriptor = os.open(fleet.home / "sweep.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert fleet.json("sweep")["skipped"] == "lock held"
        assert fleet.ok("sweep").out == "skipped: lock held\n"
        told = fleet("sweep", "--fail-if-locked", "--json")
        assert (told.code, told.json["skipped"]) == (9, "lock held")
        assert fleet("sweep", "--fail-if-locked", "--every", "1s").code == 9
    finally:
        os.close(descriptor)


def test_a_paused_board_is_still_swept(fleet):
    """Exit 0; nothing is claimed."""
    fleet.create("a", "--assignee", "builder")
    fleet.ok("pause")
    assert fleet.json("sweep")["held"].keys() == {"paused"}


def fake_ticks(monkeypatch, *ticks, before_each=lambda: None):
    """Let the sweeper answer *ticks*, one after another."""
    left = list(ticks)

    def tick(**_):
        before_each()
        return left.pop(0)

    monkeypatch.setattr(Board, "sweeper", property(lambda _: SimpleNamespace(tick=tick)))
    monkeypatch.setattr(sweeping, "POLL", 0.001)
    return left


def test_errors_of_a_tick_are_an_exit_code(fleet, monkeypatch):
    """1, in words and in JSON, in a loop too; the fault is told."""
    bad = Tick(0, errors=[{"task": "t_a", "error": "ValueError: no"}])
    fake_ticks(monkeypatch, bad, bad, bad, Tick(0))
    words = fleet("sweep")
    assert (words.code, words.err.splitlines()[-1]) == (1, "error: t_a: ValueError: no")
    assert fleet("sweep", "--json").code == 1
    monkeypatch.setattr(bad, "live", 1)
    assert fleet("sweep", "--until-idle").code == 1


def test_a_skipped_tick_is_not_idle(fleet, monkeypatch):
    """Another sweep may be about to start something."""
    left = fake_ticks(monkeypatch, Tick(0, skipped="lock held"), Tick(0), Tick(0))
    fleet.ok("sweep", "--until-idle")
    assert len(left) == 1


def test_what_a_tick_says(fleet, monkeypatch):
    """A line for each kind of thing; renewals with --verbose only."""
    tick = Tick(
        0,
        booked=[{"task": "t_a", "run": 1, "outcome": "clean", "evidence": "none", "events": ["exited", "violation"]}],
        stopped=[{"task": "t_b", "run": 1, "cause": "max_runtime"}, {"task": "t_b", "run": 1, "signal": 15}],
        renewed=[{"task": "t_c", "run": 1, "lease_until": "x"}],
        lifted=[{"task": "t_d", "cause": "limit_raised"}],
        claimed=[{"task": "t_e", "run": 2, "pid": 7}, {"task": "t_f", "run": 1, "pid": None}],
        notes=["t_g: a note"],
    )
    fake_ticks(monkeypatch, tick, tick)
    lines = [
        "t_a run 1: booked as clean, then violation",
        "t_b run 1: asked to stop (max_runtime)",
        "t_b run 1: sent SIGTERM",
        "t_d: its hold is lifted (limit_raised)",
        "t_e run 2: started, pid 7",
        "t_f run 1: claimed, but not started",
        "t_g: a note",
    ]
    assert fleet.ok("sweep").out.splitlines() == lines
    assert fleet.ok("sweep", "--verbose").out.splitlines() == [*lines[:6], "t_c run 1: lease renewed", lines[6]]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_loop_after_its_tick(fleet, monkeypatch, number, code):
    """The tick at hand is finished and told; the handlers are as before."""
    before = signal.getsignal(number)
    left = fake_ticks(monkeypatch, Tick(0), Tick(0), before_each=lambda: os.kill(os.getpid(), number))
    said = fleet("sweep", "--every", "60s", "--json")
    assert (said.code, said.json["position"], len(left)) == (code, 0, 1)
    assert signal.getsignal(number) is before


def test_pause_and_resume(fleet):
    """The whole board, an assignee, a host by its name; twice changes nothing."""
    said = fleet.json("pause", "for lunch", "--drain")
    (paused,) = said["paused"]
    assert paused.keys() == {"scope", "name", "drain", "position", "at"}
    assert (paused["scope"], paused["name"], paused["drain"]) == ("board", "", True)
    assert said["changed"] is True
    assert fleet.json("pause", "--drain")["changed"] is False
    assert "no assignee 'bilder'" in fleet.ok("pause", "--assignee", "bilder").err
    host = fleet.json("pause", "--host", os.uname().nodename)["paused"][-1]
    assert (host["scope"], host["name"] != os.uname().nodename) == ("host", True)
    words = fleet.ok("resume").out
    assert "assignee  bilder" in words
    fleet.ok("resume", "--host", host["name"])
    assert fleet.json("resume", "--assignee", "bilder") == {"schema": 1, "paused": [], "changed": True, "notes": []}
    assert fleet.ok("resume").out == "nothing changed\nnothing is paused\n"


def test_policy_prints_the_limits(ledger):
    """All of them, the position that set them, and the most runs of a card."""
    said = ledger.json("policy")
    assert said["policy"] == Policy()._asdict()
    assert (said["position"], said["most_runs"], said["changed"]) == (2, 50, False)
    words = ledger.ok("policy").out
    assert "max_runtime               6h\n" in words
    assert words.endswith("set at position 2; a card can use at most 50 runs between two acts of a person\n")


@pytest.mark.parametrize("name", Policy._fields)
def test_every_limit_is_a_flag(ledger, name):
    """Numbers, durations, and `none` where a limit can be unset."""
    flag = f"--{name.replace('_', '-')}"
    said = ledger.json("policy", flag, "77")
    assert (said["policy"][name], said["position"], said["changed"]) == (77, 3, True)
    assert ledger.json("policy", flag, "77")["changed"] is False
    unset = ledger("policy", flag, "none", "--json")
    if Policy._field_defaults[name] is None:
        assert unset.json["policy"][name] is None
    else:
        assert unset.code == 2


def test_durations_of_the_policy(ledger):
    """`5m` is 300 seconds; a grace may be zero; what is printed can be typed."""
    assert ledger.json("policy", "--lease", "1h30m", "--stop-grace", "0")["policy"]["lease"] == 5_400
    words = ledger.ok("policy").out
    assert "lease                     1h30m\n" in words
    assert "stop_grace                0s\n" in words


def test_policy_warns_when_a_raise_lifts_nothing(ledger):
    """The note goes to stderr, and to JSON."""
    said = ledger.json("policy", "--failure-limit", "3")
    assert said["notes"] == []


def test_replay(ledger):
    """Events, cards, time, digest and no divergence; one card only, and strictly."""
    card = ledger.create("a")
    said = ledger.json("replay")
    assert said.keys() >= {"schema", "events", "tasks", "seconds", "events_per_second", "digest", "divergences"}
    assert (said["events"], said["tasks"], said["divergences"]) == (3, 1, [])
    assert ledger.json("replay", "--task", card, "--strict")["divergences"] == []
    assert ledger("replay", "--task", "t_nowhere").code == 5
    assert "note: processes" in ledger.ok("replay", "--verbose").err


def test_replay_in_several_processes(ledger):
    """--jobs: the same answer; for one card, a past and a divergence too."""
    card, timed = ledger.create("a"), {"seconds", "events_per_second"}
    ledger.create("b")
    for more in ((), ("--task", card), ("--strict", "--no-chain"), ("--at", "3")):
        said = [ledger.json("replay", "--jobs", jobs, *more) for jobs in ("1", "2")]
        one, two = ({name: value for name, value in each.items() if name not in timed} for each in said)
        assert one == two
    assert ledger("replay", "--task", "t_nowhere", "--jobs", "2").code == 5
    ledger.outside("UPDATE tasks SET failures = 5")
    assert ledger("replay", "--jobs", "2").code == 7


@once
@pytest.mark.parametrize("wrong", [("--jobs", "0"), ("--jobs", "-1"), ("--jobs", "two"), ("--jobs", "65"),
                                   ("--jobs", "2", "--what-if", "failure_limit=1")])  # fmt: skip
def test_a_number_of_processes_that_cannot_be(ledger, wrong):
    """Exit 2, and nothing is looked at."""
    assert ledger("replay", *wrong).code == 2


@once
@pytest.mark.parametrize(("said", "meant"), [((), None), (("--jobs", "3"), 3)])
def test_as_many_processes_as_are_worth_it_unless_said(ledger, monkeypatch, said, meant):
    """By the length of the log and the processors: see `projections.replay_jobs`."""
    heard, replay = [], Board.replay
    monkeypatch.setattr(Board, "replay", lambda self, **how: heard.append(how["jobs"]) or replay(self))
    ledger.ok("replay", *said)
    assert heard == [meant]


def test_replay_finds_what_somebody_changed(ledger):
    """Exit 7; card, position, rule, what is stored and what the log makes of it."""
    card = ledger.create("a")
    ledger.outside("UPDATE tasks SET failures = 5")
    said = ledger("replay", "--json")
    assert said.code == 7
    (found,) = said.json["divergences"]
    assert found.keys() >= {"task", "position", "rule", "stored", "computed"}
    assert (found["task"], found["stored"], found["computed"]) == (card, 5, 0)
    words = ledger("replay")
    assert (words.code, "1 divergence; digest" in words.out, f"  - {card}" in words.out) == (7, True, True)
    ledger.ok("db", "rebuild")
    ledger.ok("replay")


@once
@pytest.mark.parametrize(
    ("fault", "why"),
    [(StoreBusy("another writer held it"), "store busy"), (StoreUnreachable("no route"), "store unreachable")],
)
def test_a_store_that_is_busy_or_away_does_not_end_a_loop(ledger, monkeypatch, fault, why):
    """The next tick tries again; the exit code says that one could not."""
    tick, calls = Sweeper.tick, []

    def busy_once(self, **how):
        calls.append(how)
        if len(calls) == 1:
            raise fault
        return tick(self, **how)

    monkeypatch.setattr(Sweeper, "tick", busy_once)
    said = ledger("sweep", "--until-idle", "--json")
    first, last = (json.loads(line) for line in said.out.splitlines())

    assert (first["skipped"], first["errors"][0]["error"]) == (why, str(fault))
    assert ("skipped" in last, said.code) == (False, 1)
