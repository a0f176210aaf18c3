"""`ledger worker run`: a worker in the foreground, booked as a sweep would book it, whoever is first (RULES §6–8)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kanban.starting import start
from kanban.worker import attend
from kanban.worker.ears import hearing
from ledger.clock import SECOND
from ledger.errors import StoreBusy, StoreFault, StoreUnreachable
from tests import hasty
from tests.fleets import PATIENCE, sh, until

SCRIPT = Path(sys.executable).with_name("ledger")
HASTY = """
import sys
import kanban.worker.resume
kanban.worker.resume.__file__ = sys.argv.pop(1)
from cli.main import main
main()
"""
STUBBORN = "trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done"
PASSING = '{"failed": true, "failure_retryable": true, "failure_reason": "timeout"}'


@pytest.fixture
def attended(fleet):
    """Start `ledger worker run` with these words, in a process of its own."""

    def start(*words, runner=None, **environ):
        command = [SCRIPT] if runner is None else [sys.executable, "-c", HASTY, runner]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        begun = subprocess.Popen(
            [*command, "worker", "run", *words], env=fleet.environ | environ, cwd=fleet.home, text=True, **pipes
        )
        fleet.others.append(begun)
        return begun

    return start


@pytest.fixture
def ran(attended):
    """The same, once it has ended: its exit code, and what it said."""

    def run(*words, **more):
        process = attended(*words, **more)
        said, words_about_it = process.communicate(timeout=PATIENCE)
        return process.returncode, said, words_about_it

    return run


def log(fleet, card, run=1):
    """The run's log, as far as it is written."""
    path = fleet.folder(card, run) / "log"
    return path.read_text() if path.exists() else ""


def speaks(fleet, card, words):
    """Wait until the run's log holds *words*."""
    until(lambda: words in log(fleet, card))


def ended(fleet, card):
    """How each of the card's runs ended: outcome, code, signal."""
    return [(run["outcome"], run["code"], run["signal"]) for run in fleet.runs(card)]


# From the claim to the booking


def test_a_command_that_completes_its_card(fleet, ran):
    """The carrier is in its environment: no id, no lock; the places in the command are filled as an assignee's."""
    card = fleet.create("say it", assignee=None)
    code, said, about = ran(card, "--", *sh('echo "{task} run {run}: $LEDGER_PROMPT"; "$LEDGER_BIN" complete "did it"'))
    assert (code, said) == (0, f"{card} run 1: completed\n")
    assert about == f"{card} run 1: its log is {fleet.folder(card)}/log\n"
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "completed"]
    assert f"{card} run 1: {fleet.folder(card)}/prompt.md" in log(fleet, card)
    claimed, bound = fleet.events(card, "claimed")[0], fleet.events(card, "worker_bound")[0]
    assert (claimed.facts["by"], claimed.facts["worker"], claimed.actor_kind) == ("spawn", "ada", "operator")
    assert bound.facts["pid"] == bound.facts["group"]
    assert not fleet.scratch(card).exists()


@pytest.mark.parametrize(
    ("script", "expected", "booked"),
    [
        ("true", 0, ("clean", 0, None)),
        ("exit 75", 75, ("rate_limited", 75, None)),
        ("exit 78", 78, ("config", 78, None)),
        ("exit 130", 130, ("interrupted", 130, None)),
        ("exit 3", 1, ("crashed", 3, None)),
        ("kill -9 $$", 1, ("crashed", None, 9)),
        ("kill -15 $$", 130, ("interrupted", None, 15)),
        ("exec /no/such/program", 78, ("spawn_failed", 127, None)),
    ],
)
def test_the_exit_code_says_how_the_run_was_booked(fleet, ran, script, expected, booked):
    """README: what a dispatcher of one's own can rely on."""
    card = fleet.create(assignee=None)
    code, said, _ = ran(card, "--json", "--", *sh(script))
    assert (code, ended(fleet, card)) == (expected, [booked])
    told = {"schema": 1, "task": card, "run": 1, "outcome": booked[0], "code": booked[1], "signal": booked[2]}
    assert json.loads(said) == told | {"lost": False, "log": f"{fleet.folder(card)}/log", "notes": []}


def test_a_command_that_does_not_exist(fleet, ran):
    """§6: 127 by the supervisor: the command could not be started, which no other attempt will mend."""
    card = fleet.create(assignee=None)
    code, _, _ = ran(card, "--", "no-such-agent")
    assert (code, ended(fleet, card)) == (78, [("spawn_failed", 127, None)])
    assert "cannot start 'no-such-agent'" in log(fleet, card)


def test_a_workspace_that_cannot_be_made_is_booked_at_once(fleet, ran):
    """§6: the claimer writes record 127, and the same process books it."""
    card = fleet.create(assignee=None, workspace="dir:/no/such/folder")
    code, _, about = ran(card, "--", "true")
    assert (code, ended(fleet, card)) == (78, [("spawn_failed", 127, None)])
    assert "/no/such/folder" in about


def test_a_clean_exit_without_a_word_is_a_violation(fleet, ran):
    """§4: counted as ever, and the third in a row holds the card."""
    card = fleet.create(assignee=None)
    assert [ran(card, "--", "true")[0] for _ in range(3)] == [0, 0, 0]
    assert fleet.kinds(card)[-3:] == ["exited", "violation", "blocked"]
    assert fleet.card(card)["hold"]["cause"] == "violation_budget"
    code, _, about = ran(card, "--", "true")
    assert (code, "cannot be claimed: blocked" in about) == (4, True)


def test_without_a_command_the_assignees_own_is_run(fleet, ran):
    """With all that its section says: environment, quota, on_success."""
    script = 'echo "$GREETING"; exit 0'
    fleet.staff({"w": {"command": sh(script), "on_success": "complete", "env": {"GREETING": "hello from w"}}})
    card = fleet.create()
    assert ran(card)[0] == 0
    assert (fleet.card(card)["status"], fleet.runs(card)[0]["summary"]) == ("done", "hello from w")


def test_a_command_takes_the_place_of_the_assignees_but_not_of_its_section(fleet, ran):
    """Its quota patterns hold; its resume would go on with another tool's conversation."""
    fleet.staff({"w": {"command": ["false"], "resume": ["false", "{prompt}"], "quota": ["^limit"]}})
    card = fleet.create()
    assert ran(card, "--", *sh("echo limit; exit 1"))[0] == 75
    assert not (fleet.folder(card) / "turns.json").exists()


@pytest.mark.parametrize(("goal", "status"), [(5, "ready"), (None, "done")])
def test_a_command_that_no_judge_looks_at_does_not_close_a_goal_by_its_code(fleet, ran, goal, status):
    """It takes the place of judge and retry too: its exit 0 is a violation, and that is told."""
    fleet.staff({"w": {"command": ["false"], "on_success": "complete"}})
    card = fleet.create(goal_max_turns=goal)
    code, _, about = ran(card, "--", "true")
    assert (code, fleet.card(card)["status"], "no judge looks at" in about) == (0, status, goal is not None)
    assert ran(card, "--", *sh('"$LEDGER_BIN" complete'))[0] == (4 if goal is None else 0)
    assert fleet.card(card)["status"] == "done"


def test_a_working_folder_that_was_removed_keeps_no_verb_from_its_card(fleet, ran):
    """The worker tidied up before it closed: there is no ./ledger.toml, and the environment says the rest."""
    card = fleet.create(assignee=None)
    ran(card, "--", *sh('mkdir g; cd g; rmdir ../g; "$LEDGER_BIN" complete "did it"'))
    assert (fleet.card(card)["status"], fleet.runs(card)[0]["summary"]) == ("done", "did it")


@pytest.mark.parametrize(
    ("script", "flags", "expected"),
    [("true", "", 0), ("exit 3", "--json", 1), ('mv "$LEDGER_HOME/ledger.db" "$LEDGER_HOME/away.db"', "", 8)],
)
def test_a_stderr_that_takes_nothing_changes_no_run_and_no_code(fleet, script, flags, expected):
    """Where the log lies and what is to be noted is for whoever listens; the wait is the caller's."""
    card = fleet.create(assignee=None)
    line = f'{SCRIPT} worker run {card} {flags} -- sh -c "$0" 2> /dev/full'
    done = subprocess.run(
        ["sh", "-c", line, script], env=fleet.environ, cwd=fleet.home, stdout=subprocess.PIPE, check=False
    )
    if expected == 8:
        (fleet.home / "away.db").rename(fleet.home / "ledger.db")
        fleet.ended(card)
    assert (done.returncode, len(fleet.events(card, "exited"))) == (expected, 1)


def test_a_caller_that_cannot_say_that_it_began_waits_all_the_same(fleet):
    """Its stream is closed, or full."""

    def begun(*_):
        raise ValueError("I/O operation on closed file")

    card = fleet.create(assignee=None)
    assert attend.attend(fleet.board, attend.Ask(card, None, ("true",)), begun).run.outcome == "clean"


# Refused before the start


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--assignee", "somebody", "--", "touch", "started"), "other_assignee"),
        ((), "unknown_assignee"),
    ],
)
def test_what_cannot_be_claimed_is_not_started(fleet, ran, words, reason):
    """Exit code 4, the reason, and no event."""
    card = fleet.create(assignee="nobody")
    code, _, about = ran(card, *words)
    assert (code, reason in about) == (4, True)
    assert fleet.kinds(card) == ["created"]


def test_a_person_has_no_command_of_their_own(fleet, ran):
    """But may run one."""
    fleet.staff({"dana": {"human": True}})
    card = fleet.create(assignee="dana")
    assert ran(card)[0] == 4
    assert ran(card, "--", *sh('"$LEDGER_BIN" complete'))[0] == 0
    assert fleet.runs(card)[0]["assignee"] == "dana"


def test_the_hosts_cap_counts(fleet, ran):
    """§7.6: it is spawned, and shares the host with what the sweep starts."""
    fleet.staff({"w": {"command": sh("sleep 30")}}, max_running=1)
    fleet.create(priority=1)
    fleet.sweep()
    card = fleet.create(assignee=None)
    code, _, about = ran(card, "--", "true")
    assert (code, "at_capacity" in about) == (4, True)


def test_a_pause_holds_it_back(fleet, ran):
    """Exit code 9, as for a claim by hand."""
    card = fleet.create(assignee=None)
    fleet.board.pause()
    assert ran(card, "--", "true")[0] == 9


def test_inside_a_worker_it_is_refused(fleet, ran):
    """§8: an operator's, whatever the flags say."""
    card, other = fleet.create(assignee=None), fleet.create(assignee=None)
    code, _, _ = ran(card, "--", *sh(f'"$LEDGER_BIN" worker run {other} -- touch /tmp/never; echo "code $?"'))
    assert "code 4" in log(fleet, card)
    assert (code, fleet.kinds(other)) == (0, ["created"])


def test_of_two_at_once_one_claims_and_the_other_starts_nothing(fleet, attended):
    """Exit code 3, `taken`."""
    card = fleet.create(assignee=None, workspace=f"dir:{fleet.home}")
    words = (card, "--json", "--", *sh("echo x >> started; until [ -f go ]; do sleep 0.05; done"))
    both = [attended(*words), attended(*words)]
    until(lambda: any(process.poll() is not None for process in both))
    (fleet.home / "go").touch()
    said = {process.wait(timeout=PATIENCE): process.communicate()[0] for process in both}
    assert set(said) == {0, 3}
    assert json.loads(said[3])["error"]["code"] == "taken"
    assert ((fleet.home / "started").read_text(), len(fleet.runs(card))) == ("x\n", 1)


def test_a_signal_before_the_claim_begins_nothing(fleet):
    """Somebody thought better of it while the board's lock was waited for."""
    card, board = fleet.create(assignee=None), fleet.board
    with hearing(signal.SIGTERM) as ears:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            attend._claimed(board.sweeper, attend.Ask(card, None, ("true",)), board.actor, ears)
    assert fleet.kinds(card) == ["created"]


# While it runs


@pytest.fixture
def attendant(fleet):
    """An attendant in this process, at the fleet's time, of a worker that sleeps; and its card."""
    card, sweeper = fleet.create(assignee=None), fleet.board.sweeper
    with hearing() as ears:
        claim = attend._claimed(sweeper, attend.Ask(card, None, ("sleep", "60")), fleet.board.actor, ears)
    start(sweeper.shop, [claim], sweeper.children, fleet.board.actor)
    return attend.Attendant.of(sweeper, claim, fleet.board.actor), card


def test_the_lease_is_renewed_whenever_a_third_of_it_has_passed(fleet, attendant):
    """900 s, from outside: the worker says nothing, and nothing is written to the log."""
    attending, card = attendant
    with hearing() as ears:
        first = fleet.runs(card)[0]["lease_until"]
        fleet.clock.advance(290)
        assert attending._is_over(ears) is False
        assert fleet.runs(card)[0]["lease_until"] == first
        fleet.clock.advance(11)
        assert attending._is_over(ears) is False
    assert fleet.runs(card)[0]["lease_until"] > first
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound"]


def test_a_run_with_another_lock_is_not_this_one(fleet, attendant):
    """As after a restore: the same number, another claim. Its processes are ended, and nothing is written."""
    attending, card = attendant
    attending.lock = "another"
    with hearing() as ears:
        until(lambda: attending._is_over(ears))
    assert (attending.lost, fleet.members(card)) == (True, [])
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_handed_on_and_the_run_is_interrupted(fleet, attended, number):
    """§7.2: the stop stands before the signal; so neutral, though this agent ends with 0 and would complete."""
    fleet.staff(
        {
            "w": {
                "command": sh("trap 'exit 0' INT TERM HUP; echo ready; while :; do sleep 0.05; done"),
                "on_success": "complete",
            }
        }
    )
    card = fleet.create()
    process = attended(card)
    speaks(fleet, card, "ready")
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE) == 130
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "stop_requested", "exited"]
    assert (ended(fleet, card), fleet.counters(card)) == ([("interrupted", 0, None)], (0, 0, 0, 1))


def test_a_signal_that_this_process_was_started_to_ignore_is_ignored(fleet):
    """As under nohup: the terminal goes, the run stays."""
    card = fleet.create(assignee=None)
    wait = "echo ready; until [ -f go ]; do sleep 0.05; done"
    words = ["sh", "-c", 'trap "" HUP; exec "$0" "$@"', str(SCRIPT), "worker", "run", card, "--", *sh(wait)]
    process = subprocess.Popen(words, env=fleet.environ, cwd=fleet.home, stderr=subprocess.DEVNULL, text=True)
    fleet.others.append(process)
    speaks(fleet, card, "ready")
    process.send_signal(signal.SIGHUP)
    (fleet.scratch(card) / "go").touch()
    assert (process.wait(timeout=PATIENCE), ended(fleet, card)) == (0, [("clean", 0, None)])


def test_a_child_that_ignores_every_signal_is_killed_after_the_grace(fleet, attended):
    """Its supervisor and what it started: nobody of the group is left, and the end is neutral still."""
    fleet.board.set_policy(stop_grace=1)
    card = fleet.create(assignee=None)
    process = attended(card, "--", *sh(STUBBORN))
    speaks(fleet, card, "ready")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 130
    assert fleet.members(card) == []
    assert ended(fleet, card) == [("interrupted", None, None)]


def test_a_run_that_takes_too_long_is_stopped_without_a_sweep(fleet, attended):
    """§7.2: asked by the same plan, in the sweep's name, and counted."""
    card = fleet.create(assignee=None, max_runtime=4)
    process = attended(card, "--", *sh("sleep 600"))
    assert process.wait(timeout=PATIENCE) == 1
    assert (ended(fleet, card), fleet.counters(card)) == ([("timed_out", None, 15)], (1, 0, 1, 0))
    assert fleet.events(card, "stop_requested")[0].actor_kind == "sweep"


def test_a_stop_by_an_operator_is_carried_out_here(fleet, attended):
    """TERM, grace, KILL without any sweep, and the wish is granted at the end: the card is blocked."""
    fleet.board.set_policy(stop_grace=1)
    card = fleet.create(assignee=None)
    process = attended(card, "--", *sh(STUBBORN))
    speaks(fleet, card, "ready")
    fleet.board.stop(card, reason="enough")
    assert process.wait(timeout=PATIENCE) == 130
    assert fleet.kinds(card)[-3:] == ["stop_requested", "exited", "blocked"]
    assert fleet.members(card) == []


def test_what_is_left_after_the_workers_own_verb_is_ended(fleet, attended):
    """§7.7: the run is done, but its card is not free and nobody goes home while its processes are there."""
    fleet.board.set_policy(stop_grace=1)
    card = fleet.create(assignee=None)
    process = attended(card, "--", *sh('"$LEDGER_BIN" complete; sleep 60'))
    assert process.wait(timeout=PATIENCE) == 0
    assert fleet.members(card) == []


def lost_elsewhere(fleet, card):
    """Another host takes the card: it cannot see the process, and lease and grace are over."""
    fleet.clock.advance(2000)
    elsewhere = fleet.on_host(fleet.another(), id="elsewhere")
    elsewhere.sweep(most=0)
    return elsewhere.claim(card).run


def test_a_lost_claim_ends_the_child_and_writes_nothing(fleet, attended):
    """TERM, grace, KILL; the run that has the card now is not touched."""
    fleet.board.set_policy(stop_grace=1)
    card = fleet.create(assignee=None)
    process = attended(card, "--json", "--", *sh(STUBBORN))
    speaks(fleet, card, "ready")
    assert lost_elsewhere(fleet, card) == 2
    position = fleet.events(card)[-1].position
    said, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, json.loads(said)["lost"], json.loads(said)["outcome"]) == (1, True, "lost")
    assert (fleet.members(card), fleet.events(card)[-1].position) == ([], position)
    assert fleet.runs(card)[1]["outcome"] is None


def test_a_claim_that_is_lost_between_two_turns_ends_with_what_the_last_one_said(fleet, attended):
    """No further turn; its failure may pass, so 75: a dispatcher may ask again."""
    command = sh(f"echo turn >> turns; printf '%s' '{PASSING}' > \"$LEDGER_TURN_RESULT\"; exit 1")
    fleet.staff({"w": {"command": command, "resume": [*command, "{prompt}"]}})
    card = fleet.create(workspace=f"dir:{fleet.home}")
    process = attended(card, runner=hasty.runner(fleet.home / "runner.py", 60))
    speaks(fleet, card, "attempt 1/3")
    lost_elsewhere(fleet, card)
    assert process.wait(timeout=PATIENCE) == 75
    assert ((fleet.home / "turns").read_text(), fleet.runs(card)[1]["outcome"]) == ("turn\n", None)


def test_turns_go_on_in_the_same_run(fleet, attended):
    """The sweep and the foreground start the same runner."""
    fail = f"printf '%s' '{PASSING}' > \"$LEDGER_TURN_RESULT\"; exit 1"
    script = f'[ -f twice ] && exec "$LEDGER_BIN" complete; touch twice; {fail}'
    fleet.staff({"w": {"command": sh(script), "resume": [*sh(script), "{prompt}"]}})
    card = fleet.create(workspace=f"dir:{fleet.home}")
    assert attended(card, runner=hasty.runner(fleet.home / "runner.py", 0.05)).wait(timeout=PATIENCE) == 0
    assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "completed"]


# Whoever is first


def test_a_wrapper_that_is_killed_leaves_the_booking_to_the_sweep(fleet, attended):
    """§6: the same evidence, the same end; the worker had not noticed."""
    card = fleet.create(assignee=None)
    process = attended(card, "--", *sh("echo ready; until [ -f go ]; do sleep 0.05; done; exit 3"))
    speaks(fleet, card, "ready")
    process.kill()
    process.wait(timeout=PATIENCE)
    fleet.sweep()
    assert ended(fleet, card) == [(None, None, None)]
    (fleet.scratch(card) / "go").touch()
    assert (fleet.ended(card)["outcome"], fleet.events(card, "exited")[0].facts["evidence"]) == (
        "crashed",
        "exit_record",
    )


def test_a_sweep_that_was_first_is_believed(fleet, attended):
    """One end in the log; the wrapper tells what it finds."""
    card = fleet.create(assignee=None)
    process = attended(card, "--", *sh("echo ready; until [ -f go ]; do sleep 0.05; done; exit 78"))
    speaks(fleet, card, "ready")
    process.send_signal(signal.SIGSTOP)
    (fleet.scratch(card) / "go").touch()
    fleet.ended(card)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=PATIENCE) == 78
    assert fleet.kinds(card).count("exited") == 1


def test_both_book_a_death_alike(fleet, ran):
    """§6: equal kinds, outcomes and facts but for the observer, and the same actor."""
    fleet.staff({"w": {"command": sh("echo gone; exit 9")}})
    here, there = fleet.create(), fleet.create()
    ran(here)
    fleet.sweep()
    fleet.ended(there)
    seen = [fleet.events(card, "exited")[0] for card in (here, there)]
    here, there = [(e.actor_kind, e.actor_name, e.words, {**e.facts, "observer": None}) for e in seen]
    assert here == there


# The store


def test_a_signal_is_handed_on_while_the_store_is_busy(fleet, attendant, monkeypatch):
    """Whoever presses Ctrl-C does not wait for another writer."""
    attending, card = attendant

    def busy(*_):
        raise StoreBusy("another writer held the store")

    until(lambda: len(fleet.members(card)) > 1)
    with hearing(signal.SIGTERM) as ears:
        with monkeypatch.context() as patched:
            patched.setattr(attend, "looking", busy)
            assert attending._is_over(ears) is False
            signal.raise_signal(signal.SIGTERM)
            assert attending._is_over(ears) is False
            until(lambda: not fleet.members(card))
        until(lambda: attending._is_over(ears))
    assert ended(fleet, card) == [("interrupted", None, signal.SIGTERM)]


def test_an_end_is_kept_for_a_server_that_is_away_for_a_moment(fleet, attendant, monkeypatch):
    """A restart of the server between two looks: whoever waits books the end when it is back."""
    attending, card = attendant

    def away(*_):
        raise StoreUnreachable("no answer")

    until(lambda: len(fleet.members(card)) > 1)
    os.killpg(fleet.supervisor(card), signal.SIGKILL)
    with hearing() as ears:
        with monkeypatch.context() as patched:
            patched.setattr(attend, "looking", away)
            until(lambda: not fleet.members(card))
            assert attending._is_over(ears) is False
            now = attend.uptime
            patched.setattr(attend, "uptime", lambda: now() + 15 * SECOND)
            with pytest.raises(StoreFault, match="has ended and is not booked"):
                attending._is_over(ears)
        until(lambda: attending._is_over(ears))
    assert ended(fleet, card) == [("crashed", None, None)]


def test_without_its_store_a_run_goes_on_until_its_lease_is_over(fleet, attended):
    """Nobody can say that the claim holds: closed, and the next sweep books it from the exit record."""
    fleet.board.set_policy(lease=2)
    card = fleet.create(assignee=None)
    process = attended(card, "--", *sh("echo ready; sleep 60"))
    speaks(fleet, card, "ready")
    away = fleet.home / "away.db"
    (fleet.home / "ledger.db").rename(away)
    assert process.wait(timeout=PATIENCE) == 1
    away.rename(fleet.home / "ledger.db")
    assert (fleet.ended(card)["outcome"], fleet.members(card)) == ("interrupted", [])


def test_an_end_that_cannot_be_booked_is_the_stores_fault(fleet, attended):
    """Exit code 8, and the next sweep books it."""
    card = fleet.create(assignee=None)
    process = attended(card, "--", *sh("echo ready; until [ -f go ]; do sleep 0.05; done; exit 3"))
    speaks(fleet, card, "ready")
    away = fleet.home / "away.db"
    (fleet.home / "ledger.db").rename(away)
    (fleet.home / "boards/default/scratch" / card / "go").touch()
    assert process.wait(timeout=PATIENCE) == 8
    told = process.stderr.read()
    assert f"{card} run 1 has ended and is not booked: no ledger at" in told
    assert told.endswith("try: bring the store back, then ledger sweep\n")
    away.rename(fleet.home / "ledger.db")
    assert fleet.ended(card)["outcome"] == "crashed"
