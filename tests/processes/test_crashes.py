"""`kill -9` at every point of a tick, of a supervisor and of a verb: nothing is lost, nothing is done twice (RULES §7).

One board stands at a moment when a tick has everything to do. The same moment, with a sweep that dies at each point,
must come to the end that it comes to without: only runs whose workers never ran may be in the log besides.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import select

import kanban
import kanban.starting
from kanban.failpoints import POINTS
from ledger.events import ENDINGS
from projections import tables
from tests import fleets
from tests.fleets import sh, until

SWEEP_POINTS = tuple(point for point in POINTS if "-verb-" not in point)
VERB_POINTS = ("before-verb-commit", "after-verb-commit")
MARK = """
echo "$LEDGER_TASK $LEDGER_RUN" >> "$LEDGER_HOME/effects"
nth=$(grep -c "^$LEDGER_TASK " "$LEDGER_HOME/effects")
"""
"""One line for each run that runs, and how many of the card's have."""


def done(script, **more):
    """A worker that has done its work when it exits 0."""
    return {"command": sh(MARK + script), "on_success": "complete", **more}


STAFF = {
    "finisher": done("exit 0"),
    "flaky": done("exit $((nth < 2))"),
    "thrice": done("exit $((nth < 3))"),
    "sleeper": done("[ $nth -gt 1 ] || exec sleep 300"),
    "steady": done('while [ ! -e "$LEDGER_HOME/go" ]; do sleep 0.05; done'),
    "stubborn": done('trap "" TERM; while :; do sleep 0.1; done'),
    "crasher": done("exit 1"),
    "silent": {"command": sh(MARK)},
    "throttled": done("exit 75"),
}
BEFORE = {"to lift": "thrice", "to tidy": "finisher", "to tidy too": "finisher"}
RUNNING = {
    "to book as failed": "flaky",
    "to book as done": "finisher",
    "to stop": "sleeper",
    "to assign": "sleeper",
    "to archive": "sleeper",
    "to complete": "sleeper",
    "to block": "sleeper",
    "to renew": "steady",
    "left behind": "stubborn",
}
WAITING = {"to start": "finisher", "fails": "crasher", "says nothing": "silent", "has no quota": "throttled"}
END = dict.fromkeys((*BEFORE, *RUNNING, *WAITING, "a child"), "done") | {
    "to archive": "archived",
    "to block": "blocked",
    "fails": "blocked",
    "says nothing": "blocked",
    "has no quota": "ready",
}
"""Every card's last status."""

ZYGOTE = """
import json, os, sys
import kanban.board, kanban.sweep, kanban.failpoints, kanban.spawn, kanban.prompt, kanban.workspaces, kanban.tidy
from kanban import Board
from ledger.clock import system_clock
for line in sys.stdin:
    asked = json.loads(line)
    if (child := os.fork()) == 0:
        os.environ.clear()
        os.environ.update(asked["environ"])
        os.chdir(os.environ["LEDGER_HOME"])
        kanban.failpoints._NAMED = os.environ.get("LEDGER_FAILPOINT")
        board = Board.open(clock=lambda: system_clock() + asked["ahead"])
        exec(asked["script"], {"board": board, **asked["names"]})
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Python with `kanban` loaded costs half a second of a processor to start: this one is forked for each process."""


@dataclass
class Zygote:
    """A warm Python of which each script gets a fork, in an environment of its own."""

    process: subprocess.Popen

    def run(self, fleet, script, *, failpoint=None, **names):
        """Run *script* in a process of its own, made to die at *failpoint*; its exit status."""
        environ = fleet.environ | ({} if failpoint is None else {"LEDGER_FAILPOINT": failpoint})
        asked = {"environ": environ, "script": script, "ahead": fleet.clock.ahead, "names": names}
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def zygote():
    """One for all; it has opened no store, so that its forks may."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ZYGOTE], stdin=pipe, stdout=pipe, text=True) as process:
        yield Zygote(process)
        process.stdin.close()


def effects(fleet):
    """How often each run has run, by the lines that workers wrote."""
    path = fleet.home / "effects"
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter((task, int(run)) for task, run in map(str.split, lines))


def has_died(fleet, card):
    """Whether the card's worker has died and its supervisor after it."""
    return (fleet.folder(card) / "exit.json").exists() and not fleet.members(card)


def at_the_moment(fleet):
    """A board at the moment when a tick has everything to do: book, stop, signal, renew, lift, claim, tidy."""
    fleet.staff(STAFF, max_running=40)
    cards = {"to lift": fleet.create("to lift", "thrice")}
    fleet.finish(cards["to lift"], "blocked")
    cards |= {title: fleet.create(title, worker) for title, worker in BEFORE.items() if title not in cards}
    fleet.sweep()
    for title in ("to tidy", "to tidy too"):
        until(lambda title=title: has_died(fleet, cards[title]))
    for title, worker in RUNNING.items():
        cards[title] = fleet.create(title, worker, max_runtime=300 if title == "to stop" else None)
    fleet.sweep()
    until(lambda: all(effects(fleet)[card, 1] for card in cards.values()))
    _wish(fleet, cards)
    fleet.board.edit(cards["to lift"], max_retries=5)
    fleet.board.complete(cards["left behind"], "made it", lock=fleet.lock(cards["left behind"]))
    os.kill(fleet.workers(cards["to block"])[0], signal.SIGKILL)
    for title in ("to book as failed", "to book as done", "to block"):
        until(lambda title=title: has_died(fleet, cards[title]))
    cards |= {title: fleet.create(title, worker) for title, worker in WAITING.items()}
    cards["a child"] = fleet.create("a child", "finisher", parents=[cards["to start"]])
    fleet.clock.advance(500)
    return cards


def _wish(fleet, cards):
    """What operators want done once the runs end."""
    fleet.board.assign(cards["to assign"], "finisher", force=True)
    fleet.board.archive(cards["to archive"], force=True)
    fleet.board.complete(cards["to complete"], "by hand", force=True)
    fleet.board.stop(cards["to block"], reason="enough")


def to_the_end(fleet, cards):
    """Tick, by a process that has started none of them, until every card is where it belongs and nothing runs."""
    fleet.another()
    fleet.boards.reverse()
    fleet.sweep()
    (fleet.home / "go").touch()
    fleet.clock.advance(31)

    def over():
        last = fleet.sweep()
        at = {title: fleet.card(card)["status"] for title, card in cards.items()}
        limited = fleet.card(cards["has no quota"])["not_before"]
        return at == END and limited and (last.live, last.present) == (0, 0)

    until(over)
    fleet.sweep()


@dataclass
class History:
    """What came of one board: by card what happened in runs that ran, and the counters; and the runs that never ran."""

    kinds: dict
    ends: dict
    counters: dict
    unrun: Counter
    words: dict


def history(fleet, cards):
    """Read it off the log and the lines that workers wrote, checking that nothing was done twice."""
    events, ran = list(fleet.board.events()), effects(fleet)
    titles = {card: title for title, card in cards.items()}
    by_run = {kind: Counter() for kind in ("claimed", "worker_bound", "end")}
    ends = {}
    for event in events:
        name = "end" if event.kind in ENDINGS and event.run is not None else event.kind
        if name in by_run:
            by_run[name][event.task, event.run] += 1
        if name == "end":
            ends[event.task, event.run] = event
    assert set(by_run["claimed"].values()) == set(by_run["end"].values()) == set(ran.values()) == {1}
    assert by_run["claimed"].keys() == by_run["end"].keys()
    assert ran.keys() <= by_run["worker_bound"].keys()
    unrun = {run: end for run, end in ends.items() if run not in ran}
    for run, end in unrun.items():
        assert end.outcome == "interrupted"
        assert run not in by_run["worker_bound"] or end.facts["code"] == 143
    assert fleet.board.replay(strict=True).divergences == ()
    return History(
        {
            title: Counter(e.kind for e in events if e.task == card and (card, e.run) not in unrun)
            for title, card in cards.items()
        },
        {title: [(e.kind, e.outcome) for run, e in ends.items() if run[0] == card and run not in unrun]
         for title, card in cards.items()},
        {title: (*fleet.counters(card), fleet.card(card)["runs_used"]) for title, card in cards.items()},
        Counter(titles[card] for card, _ in unrun),
        {
            title: [e.words for e in events if e.task == card and e.kind in {"completed", "blocked", "archived"}]
            for title, card in cards.items()
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(founded, tmp_path_factory, zygote):
    """What comes of the board when no process dies."""
    fleet = fleets.new_fleet(founded, tmp_path_factory.mktemp("undisturbed") / "home")
    try:
        cards = at_the_moment(fleet)
        assert zygote.run(fleet, "board.sweep()") == 0
        to_the_end(fleet, cards)
        yield history(fleet, cards)
    finally:
        fleet.end()


def test_the_moment_has_something_of_everything(undisturbed):
    """The history that all others are compared with is the one that was meant, and holds no run that never ran."""
    assert undisturbed.unrun == Counter()
    assert undisturbed.ends["to stop"] == [("exited", "timed_out"), ("completed", "ok")]
    assert undisturbed.ends["to assign"] == [("exited", "interrupted"), ("completed", "ok")]
    assert undisturbed.ends["to lift"] == [("exited", "crashed")] * 2 + [("completed", "ok")]
    assert undisturbed.kinds["to lift"]["unblocked"] == undisturbed.kinds["to assign"]["assigned"] == 1
    assert undisturbed.counters["fails"] == (2, 0, 2, 0, 2)
    assert undisturbed.counters["says nothing"] == (0, 3, 3, 0, 3)
    assert undisturbed.counters["has no quota"] == (0, 0, 0, 1, 1)


@pytest.mark.parametrize("point", SWEEP_POINTS)
def test_a_sweep_that_is_killed_loses_nothing_and_does_nothing_twice(fleet, zygote, undisturbed, point):
    """§7: a kill between any two steps loses nothing; §7.7: a run that was never bound never ran."""
    cards = at_the_moment(fleet)
    assert zygote.run(fleet, "board.sweep()", failpoint=point) == -signal.SIGKILL
    to_the_end(fleet, cards)
    found = history(fleet, cards)
    assert (found.kinds, found.ends, found.words) == (undisturbed.kinds, undisturbed.ends, undisturbed.words)
    for title, (failures, streak, spent, neutral, runs) in undisturbed.counters.items():
        unrun = found.unrun[title] if runs else 0
        expected = (failures, streak, spent, neutral + (unrun if neutral else 0), runs + unrun)
        assert (title, found.counters[title]) == (title, expected)
    assert set(found.unrun) <= {"to lift", "to book as failed", *WAITING}
    assert _rows(fleet, tables.leases) == []
    needed = {cards[title] for title, status in END.items() if status in {"blocked", "ready"}}
    assert {folder.name for folder in fleet.scratch("x").parent.iterdir()} <= needed


def test_the_command_line_dies_and_recovers_alike(fleet):
    """§7.7: `ledger sweep` killed between binding and gate; another `ledger sweep` books it and starts again."""
    fleet.staff({"finisher": STAFF["finisher"]})
    card = fleet.create(assignee="finisher")
    command = [str(Path(sys.executable).parent / "ledger"), "sweep"]
    dying = fleet.environ | {"LEDGER_FAILPOINT": "after-bind-commit"}
    assert subprocess.run(command, env=dying, cwd=fleet.home, check=False).returncode == -signal.SIGKILL
    until(lambda: has_died(fleet, card))
    subprocess.run(command, env=fleet.environ, cwd=fleet.home, capture_output=True, check=True)
    until(lambda: effects(fleet))
    fleet.finish(card)
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "exited", "claimed", "worker_bound", "completed"]
    assert effects(fleet) == {(card, 2): 1}


def test_a_sweep_that_dies_again_and_again_only_delays(fleet, zygote):
    """§7: a kill at each point in turn on one board, each tick taking up what the one before left."""
    fleet.staff(STAFF, max_running=40)
    fleet.board.set_policy(cooldown=1)
    cards = [fleet.create(str(n), worker) for n, worker in enumerate(("finisher", "flaky", "flaky", "finisher"))]
    for _ in range(2):
        for point in SWEEP_POINTS:
            zygote.run(fleet, "board.sweep(most=1)", failpoint=point)
            fleet.clock.advance(31)
    fleet.sweep_until(lambda: all(fleet.card(card)["status"] == "done" for card in cards))
    assert set(effects(fleet).values()) == {1}
    claimed = Counter((e.task, e.run) for e in fleet.board.events() if e.kind == "claimed")
    assert set(claimed.values()) == {1}


# The supervisor


def test_a_supervisor_that_dies_before_its_gate_has_run_nothing(fleet, monkeypatch):
    """§6: bound to a process that is gone, without evidence: crashed; its command never ran, the next run's does."""
    launch = kanban.starting.launch

    def launch_and_kill(order):
        launched = launch(order)
        os.kill(launched.pid, signal.SIGKILL)
        until(lambda: not fleets.is_alive(launched.pid))
        return launched

    fleet.staff({"w": done("exit 0")})
    card = fleet.create()
    monkeypatch.setattr(kanban.starting, "launch", launch_and_kill)
    fleet.sweep()
    monkeypatch.undo()
    assert_recovered(fleet, card, evidence="none", code=None, ran=False)


def test_a_supervisor_that_dies_as_its_gate_opens_leaves_no_second_life(fleet, monkeypatch):
    """§6: killed right after the gate: whether its command ran or not, it is booked once, and once gone."""
    open_gate = kanban.starting.open_gate

    def open_and_kill(launched):
        open_gate(launched)
        os.kill(launched.pid, signal.SIGKILL)

    fleet.staff({"w": done("[ $nth -gt 1 ] || exec sleep 300")})
    card = fleet.create()
    monkeypatch.setattr(kanban.starting, "open_gate", open_and_kill)
    fleet.sweep()
    monkeypatch.undo()
    run = fleet.ended(card)
    assert (run["outcome"], run["evidence"]) == ("crashed", "none")
    fleet.sweep_until(lambda: len(fleet.runs(card)) > 1)
    assert set(effects(fleet).values()) <= {1}
    assert fleet.kinds(card)[:4] == ["created", "claimed", "worker_bound", "exited"]


def test_a_supervisor_that_dies_while_its_command_runs_keeps_the_claim_until_that_is_gone(fleet):
    """§6: a supervisor that is gone with members left: TERM, grace, KILL, then book: never two live runs."""
    fleet.staff({"w": done('[ $nth -gt 1 ] && exit 0; trap "" TERM; touch ready; while :; do sleep 0.1; done')})
    card = fleet.create()
    fleet.sweep()
    fleet.in_scratch(card, "ready")
    os.kill(fleet.supervisor(card), signal.SIGKILL)
    until(lambda: not fleets.is_alive(fleet.supervisor(card)))
    assert fleets.signals([fleet.sweep(), fleet.sweep()], card) == [signal.SIGTERM]
    assert fleet.card(card)["status"] == "running"
    fleet.clock.advance(11)
    assert_recovered(fleet, card, evidence="none", code=None, ran=True)


def test_a_supervisor_that_dies_right_after_its_command_leaves_no_evidence(fleet):
    """§6: the command has ended, but nobody was there to say how: none, same boot, process gone: crashed."""
    fleet.staff({"w": done("[ $nth -gt 1 ] && exit 0; kill -STOP $PPID; exit 75")})
    card = fleet.create()
    fleet.sweep()
    until(lambda: effects(fleet) and fleet.members(card) == [fleet.supervisor(card)])
    os.kill(fleet.supervisor(card), signal.SIGKILL)
    assert_recovered(fleet, card, evidence="none", code=None, ran=True)


def test_a_supervisor_that_dies_before_its_exit_record_has_left_the_trailer(fleet):
    """§6: trailer first, exit record last: the third witness is there when the first is not."""
    block = 'mkfifo "$(dirname "$LEDGER_LOG")/exit.json.tmp"'  # the supervisor waits there for a reader
    fleet.staff({"w": done(f"[ $nth -gt 1 ] && exit 0; {block}; exit 3")})
    card = fleet.create()
    fleet.sweep()
    until(lambda: (fleet.folder(card) / "log").exists() and b" rc=3 " in (fleet.folder(card) / "log").read_bytes())
    os.kill(fleet.supervisor(card), signal.SIGKILL)
    assert_recovered(fleet, card, evidence="trailer", code=3, ran=True)


def assert_recovered(fleet, card, *, evidence, code, ran):
    """The run is booked as crashed, once; the next one does the work, once."""
    run = fleet.ended(card)
    assert (run["outcome"], run["evidence"], run["code"]) == ("crashed", evidence, code)
    fleet.finish(card)
    assert effects(fleet) == ({(card, 1): 1, (card, 2): 1} if ran else {(card, 2): 1})
    kinds = ["created", "claimed", "worker_bound", "exited", "claimed", "worker_bound", "completed"]
    assert fleet.kinds(card) == kinds


# The verbs


def test_a_worker_that_dies_before_its_verb_is_in_the_log_did_not_use_it(fleet):
    """§6: `ledger complete` killed before its commit: the run ends by its signal, and the work is done again."""
    dying = 'export LEDGER_FAILPOINT=before-verb-commit; [ $nth -gt 1 ] && unset LEDGER_FAILPOINT; exec "$LEDGER_BIN"'
    fleet.staff({"w": {"command": sh(f'{MARK}{dying} complete "$LEDGER_TASK" made-it')}})
    card = fleet.create()
    fleet.finish(card)
    first, second = fleet.runs(card)
    assert (first["outcome"], first["signal"], first["evidence"]) == ("crashed", 9, "exit_record")
    assert second["summary"] == "made-it"
    assert len(fleet.events(card, "completed")) == 1
    assert effects(fleet) == {(card, 1): 1, (card, 2): 1}


def test_a_worker_that_dies_after_its_verb_is_in_the_log_is_done(fleet):
    """§6: a worker that used its verb is done, however it exits; §8: said again it is no event and no error."""
    dying = '(export LEDGER_FAILPOINT=after-verb-commit; exec "$LEDGER_BIN" complete "$LEDGER_TASK" made-it); first=$?'
    again = '"$LEDGER_BIN" complete "$LEDGER_TASK" made-it; echo $first $? > "$LEDGER_HOME/said"; kill -9 $$'
    fleet.staff({"w": {"command": sh(f"{MARK}{dying}; {again}")}})
    card = fleet.create()
    fleet.sweep()
    until((fleet.home / "said").exists)
    until(lambda: not fleet.members(card))
    fleet.sweep()
    assert (fleet.home / "said").read_text().split() == ["137", "0"]
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "completed"]
    assert (fleet.counters(card), effects(fleet)) == ((0, 0, 0, 0), {(card, 1): 1})
    assert _rows(fleet, tables.leases) == []


@pytest.mark.parametrize("point", VERB_POINTS)
def test_a_create_that_dies_is_there_or_not_and_its_key_tells(fleet, zygote, point):
    """§8: new key, or same key and same request (first answer, `replayed`): one card whenever the first one died."""
    assert zygote.run(fleet, "board.create('a card', key='k')", failpoint=point) == -signal.SIGKILL
    there = point == "after-verb-commit"
    assert len(fleet.board.tasks()["tasks"]) == there
    again = fleet.board.create("a card", key="k")
    assert (again.replayed, again.changed) == (there, not there)
    assert [event.kind for event in fleet.board.events() if event.task] == ["created"]


@pytest.mark.parametrize("point", VERB_POINTS)
def test_a_claim_by_hand_that_dies_is_none_or_is_lost_in_time(fleet, zygote, point):
    """§6: whoever held the only copy of the lock is gone: lease + grace over: lost, neutral, claimable again."""
    card = fleet.create()
    assert zygote.run(fleet, f"board.claim({card!r})", failpoint=point) == -signal.SIGKILL
    if point == "before-verb-commit":
        assert fleet.kinds(card) == ["created"]
    else:
        fleet.clock.advance(961)
        assert fleet.ended(card)["outcome"] == "lost"
        assert fleet.counters(card) == (0, 0, 0, 1)
    assert _rows(fleet, tables.leases) == []
    assert fleet.board.claim(card).run == 1 + (point == "after-verb-commit")


@pytest.mark.parametrize("point", VERB_POINTS)
def test_a_beat_that_dies_is_one_or_none(fleet, zygote, point):
    """§2: heartbeats are not events: the lease has moved or it has not, and the run goes on."""
    card = fleet.create()
    granted = fleet.board.claim(card)
    fleet.clock.advance(100)
    beat = f"board.heartbeat({card!r}, lock={granted.lock!r})"
    assert zygote.run(fleet, beat, failpoint=point) == -signal.SIGKILL
    (lease,) = _rows(fleet, tables.leases)
    assert (lease["last_beat"] is not None) == (lease["lease_until"] > granted.lease_until) == point.startswith("after")
    assert fleet.board.complete(card, "made it", lock=granted.lock).changed
    assert fleet.runs(card)[0]["outcome"] == "ok"


def _rows(fleet, table):
    with fleet.board.look() as desk:
        return [dict(row) for row in desk.tx.execute(select(table)).mappings()]


# The points themselves


def test_every_point_that_is_reached_has_a_name_in_the_list_and_a_test_here():
    """A point that nobody is killed at proves nothing."""
    folder = Path(kanban.__file__).parent
    reached = [name for file in folder.rglob("*.py") for name in re.findall(r'\breach\("(.+?)"\)', file.read_text())]
    assert set(reached) == set(POINTS) == {*SWEEP_POINTS, *VERB_POINTS}


@pytest.mark.parametrize("named", [None, "", "nosuch"])
def test_a_point_that_is_not_named_does_nothing(named):
    """Without `LEDGER_FAILPOINT`, or with a name that is no point's, every point is passed."""
    environ = {"PATH": os.environ["PATH"]} | ({} if named is None else {"LEDGER_FAILPOINT": named})
    script = "from kanban.failpoints import POINTS, reach\nfor point in POINTS: reach(point)\nprint('alive')"
    said = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert said.stdout == "alive\n"
