"""Owners, clients and sweeps as real processes: whatever dies, nothing is lost and nothing is done twice."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.fleets import PATIENCE, busy, is_alive, until
from tests.owners import CLIENT, door, own, start_owner

DONE = {"completed": True, "final_response": "all of it is done"}
LEDGER = [sys.executable, "-c", "from cli.main import main; main()"]


@pytest.fixture
def go(tmp_path):
    """A file that lets a waiting agent answer."""
    return tmp_path / "go"


@pytest.fixture
def staffed(fleet):
    """A fleet whose assignee has an owner; exit 0 completes the card."""
    fleet.staff({"w": {"command": CLIENT, "on_success": "complete"}})
    return fleet


def waiting(go):
    """A turn that is not over before *go* is there."""
    return DONE | {"until": str(go)}


def begun(fleet, owner, times=1):
    """A card whose turn is being taken, and the agent's process."""
    card = fleet.create()
    fleet.sweep()
    return card, owner.asked(times)["pid"]


def client_of(fleet, card):
    """The client of the card's run."""
    (pid,) = fleet.workers(card)
    return pid


def bindings(fleet, card):
    """(run, role, pid) of the card's bindings."""
    return [(e.run, e.facts["role"], e.facts["pid"]) for e in fleet.events(card, "worker_bound")]


def ends_of(fleet, card):
    """How each run of the card ended: outcome, code, signal, witness."""
    return [(e.outcome, e.facts["code"], e.facts["signal"], e.facts["evidence"]) for e in fleet.events(card, "exited")]


def gone(pid):
    """Wait until *pid* is no more."""
    until(lambda: not is_alive(pid))


def test_an_owner_that_is_killed_takes_its_agent_along_and_loses_the_turn(staffed, go):
    """The receipt is unknown: exit 1, booked as a crash; the next run goes to the next owner. No turn is sent again."""
    owner = own(staffed, waiting(go))
    card, agent = begun(staffed, owner)
    owner.process.kill()
    owner.process.wait()
    gone(agent)
    until(lambda: not staffed.members(card))
    staffed.sweep(most=0)
    assert ends_of(staffed, card) == [("crashed", 1, None, "exit_record")]
    assert "is gone, or left it without a result" in staffed.runs(card)[0]["last_words"]
    assert not (staffed.folder(card) / "owner.json").exists()
    later = own(staffed, DONE)
    staffed.finish(card)
    assert [(turn["run"], turn["turn"]) for turn in later.turns] == [(1, 1), (2, 1)]
    assert [(run, pid) for run, role, pid in bindings(staffed, card) if role == "turns"] == [
        (1, owner.pid),
        (2, later.pid),
    ]


def test_a_client_that_is_killed_ends_its_turns(staffed, go):
    """The agent is ended and started anew for the next run; the owner lives on, and bears no witness."""
    owner = own(staffed, waiting(go), DONE)
    card, agent = begun(staffed, owner)
    os.kill(client_of(staffed, card), signal.SIGKILL)
    gone(agent)
    until(lambda: not staffed.members(card))
    staffed.sweep(most=0)
    assert ends_of(staffed, card) == [("crashed", None, 9, "exit_record")]
    staffed.finish(card)
    assert not (staffed.folder(card) / "owner.json").exists()
    assert [turn["run"] for turn in owner.turns] == [1, 2]
    assert owner.turns[1]["pid"] != agent
    assert owner.process.poll() is None
    said = (staffed.home / "owner.log").read_text()
    assert f"[kanban] {card}: the turn broke: the agent ended in the middle of a turn" in said
    assert "Traceback" not in said


def test_a_group_that_is_killed_in_a_turn_leaves_no_witness(staffed, go):
    """Supervisor and client at once: nobody says anything, and the turn ends."""
    owner = own(staffed, waiting(go), DONE)
    card, agent = begun(staffed, owner)
    os.killpg(staffed.supervisor(card), signal.SIGKILL)
    gone(agent)
    until(lambda: not staffed.members(card))
    staffed.sweep(most=0)
    assert ends_of(staffed, card) == [("crashed", None, None, "none")]
    staffed.finish(card)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_owners_result_is_the_second_witness(fleet, go, elsewhere):
    """The turn ends while supervisor and client are stopped, and then they are killed: any sweep books the owner's."""
    fleet.staff({"w": {"command": CLIENT}})
    owner = own(fleet, {"failed": True, "failure_reason": "overloaded", "error": "wait", "until": str(go)})
    card, _ = begun(fleet, owner)
    os.killpg(fleet.supervisor(card), signal.SIGSTOP)
    go.touch()
    until((fleet.folder(card) / "owner.json").exists)
    os.killpg(fleet.supervisor(card), signal.SIGKILL)
    until(lambda: not fleet.members(card))
    if elsewhere:
        assert fleet.outside("board.sweep(most=0)").wait() == 0
    else:
        fleet.sweep(most=0)
    assert ends_of(fleet, card) == [("rate_limited", 75, None, "owner_result")]
    assert fleet.counters(card) == (0, 0, 0, 1)


def test_a_lease_that_is_over_keeps_no_witness_back(staffed, go):
    """The turn outlived its lease: it is not proved again, and its result stands all the same."""
    owner = own(staffed, DONE | {"failed": True, "failure_retryable": True, "until": str(go)})
    staffed.board.set_policy(lease=6, lease_grace=3600)
    card, _ = begun(staffed, owner)
    until(lambda: staffed.clock() > staffed.events(card, "claimed")[0].facts["lease_until"])
    go.touch()
    until(lambda: not staffed.members(card))
    assert (staffed.folder(card) / "owner.json").exists()
    staffed.sweep(most=0)
    assert ends_of(staffed, card) == [("crashed", 1, None, "exit_record")]
    assert len(owner.turns) == 1


def test_an_owner_may_be_restarted_between_two_runs(staffed):
    """The client of the second waits for the new one."""
    first = own(staffed, {"failed": True})
    card = staffed.create()
    staffed.ended(card)
    assert first.ends() == 0
    assert not door(staffed).exists()
    staffed.sweep()
    time.sleep(0.5)
    second = own(staffed, DONE)
    staffed.finish(card)
    turns = [(run, pid) for run, role, pid in bindings(staffed, card) if role == "turns"]
    assert turns == [(1, first.pid), (2, second.pid)]


def test_an_owner_that_drains_ends_what_it_took_and_takes_nothing_more(staffed, go):
    """Its turn ends as if nothing were; who comes meanwhile waits for the next owner."""
    owner = own(staffed, waiting(go))
    card, _ = begun(staffed, owner)
    owner.process.terminate()
    until(lambda: "takes no more turns" in (staffed.home / "owner.log").read_text())
    late = staffed.create()
    staffed.sweep()
    time.sleep(1)
    assert [turn["task"] for turn in owner.turns] == [card]
    go.touch()
    assert owner.process.wait(timeout=PATIENCE) == 0
    staffed.finish(card)
    later = own(staffed, DONE)
    staffed.finish(late)
    assert [turn["task"] for turn in later.turns] == [card, late]


def test_an_owner_that_is_told_twice_ends_at_once(staffed, go):
    """130; its turn is lost, and its agent with it."""
    command = [*LEDGER, "owner", "--assignee", "w", "--", *own_agent(staffed, waiting(go))]
    process = start_owner(staffed, command, {})
    card = staffed.create()
    staffed.sweep()
    agent = until(lambda: (staffed.home / "agent").exists() and int((staffed.home / "agent").read_text()))
    process.terminate()
    until(lambda: "takes no more turns" in (staffed.home / "owner.log").read_text())
    process.terminate()
    assert process.wait(timeout=PATIENCE) == 130
    said = (staffed.home / "owner.log").read_text()
    assert "the owner of w ends at once" in said
    assert "Traceback" not in said
    gone(agent)
    until(lambda: not staffed.members(card))
    staffed.sweep(most=0)
    assert ends_of(staffed, card)[0][:2] == ("crashed", 1)


def own_agent(fleet, answer):
    """A command that writes its pid down and waits."""
    script = (
        "import json, os, sys, time\n"
        "for line in sys.stdin:\n"
        f"    open({str(fleet.home / 'agent')!r}, 'w').write(str(os.getpid()))\n"
        f"    while not os.path.exists({answer['until']!r}): time.sleep(0.02)\n"
        "    print('{\"completed\": true}', flush=True)\n"
    )
    return [sys.executable, "-c", script]


def test_a_second_owner_of_an_assignee_refuses(fleet):
    """While the first lives; once it was killed, its door is no obstacle."""
    owner = own(fleet, DONE)
    command = [*LEDGER, "owner", "--assignee", "w", "--", "cat"]
    second = subprocess.run(command, env=fleet.environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert second.returncode == 3
    assert second.stderr.startswith(f"error: w has an owner on this host already: process {owner.pid}\n")
    owner.process.kill()
    owner.process.wait()
    assert door(fleet).exists()
    third = start_owner(fleet, [*LEDGER, "owner", "--assignee", "w", "--", "cat"], {})
    until(lambda: "takes 1 turns at once" in (fleet.home / "owner.log").read_text())
    assert third.poll() is None


def test_fifty_claims_by_one_owner_four_at_once(fleet):
    """Each card is done, by one run and one turn, by at most four agents, in less than 30 s."""
    fleet.staff({"w": {"command": CLIENT, "on_success": "complete"}}, max_running=8)
    owner = own(fleet, DONE, at_once=4)
    cards = [fleet.create(f"card {number}") for number in range(50)]
    began = time.monotonic()
    until(lambda: fleet.sweep() and all(fleet.card(card)["status"] == "done" for card in cards))
    assert time.monotonic() - began < 30 * busy()
    assert sorted(turn["task"] for turn in owner.turns) == sorted(cards)
    assert 1 < len({turn["pid"] for turn in owner.turns}) <= 4
    for card in cards:
        assert fleet.kinds(card) == ["created", "claimed", "worker_bound", "worker_bound", "completed"]
        assert [role for _, role, _ in bindings(fleet, card)] == ["group", "turns"]


def test_without_an_owner_nothing_is_begun_and_the_card_comes_back(fleet):
    """75 after the wait: neutral, and no turns were bound."""
    fleet.staff({"w": {"command": [*CLIENT[:-1], "1s"]}})
    card = fleet.create()
    fleet.ended(card)
    assert ends_of(fleet, card) == [("rate_limited", 75, None, "exit_record")]
    assert [role for _, role, _ in bindings(fleet, card)] == ["group"]
    assert "no owner of w took the turn: nobody is there" in fleet.runs(card)[0]["last_words"]


def test_a_pause_that_came_between_is_waited_for(staffed):
    """What was let run before it is taken on once the board goes on; nothing is bound while it is paused."""
    card = staffed.create()
    staffed.sweep()
    staffed.board.pause()
    owner = own(staffed, DONE)
    time.sleep(1)
    assert [role for _, role, _ in bindings(staffed, card)] == ["group"]
    staffed.board.resume()
    staffed.finish(card)
    assert len(owner.turns) == 1


def test_an_operators_stop_ends_the_turn_and_never_the_owner(staffed, go):
    """The sweep signals the group that it started; the owner sees its client gone. Booked as interrupted."""
    owner = own(staffed, waiting(go))
    card, agent = begun(staffed, owner)
    told = " ".join(ground["text"] for ground in staffed.board.why(card)["because"])
    assert f"process {owner.pid} takes its turns" in told
    staffed.board.stop(card)
    staffed.finish(card, "blocked")
    gone(agent)
    assert ends_of(staffed, card)[0][0] == "interrupted"
    assert owner.process.poll() is None


def test_an_agent_that_ends_its_run_by_a_verb(staffed):
    """It speaks with what the line says of the claim; what it exits with counts no more."""
    owner = own(staffed, {"verb": ["complete", "did it"], "failed": True})
    card = staffed.create()
    staffed.finish(card)
    until(lambda: not staffed.members(card))
    staffed.sweep()
    assert staffed.kinds(card)[-1] == "completed"
    assert staffed.events(card)[-1].actor_kind == "worker"
    assert len(owner.turns) == 1


def test_an_agent_that_dies_in_a_turn_is_started_anew(staffed):
    """The turn settled nothing: 1. The next run meets another process."""
    owner = own(staffed, {"die": True}, DONE)
    card = staffed.create()
    staffed.finish(card)
    assert ends_of(staffed, card) == [("crashed", 1, None, "exit_record")]
    assert "the agent ended in the middle of a turn, with code 3" in (staffed.home / "owner.log").read_text()
    assert len({turn["pid"] for turn in owner.turns}) == 2


def test_two_clients_of_one_claim_join_the_same_turns(fleet, go):
    """One turn, one binding, and both say the same."""
    owner = own(fleet, waiting(go))
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card, assignee="w")
    prompt = fleet.home / "prompt"
    prompt.write_text("do it")
    environ = fleet.environ | {
        "LEDGER_DATABASE_URL": fleet.url, "LEDGER_BOARD": "default", "LEDGER_TASK": card, "LEDGER_RUN": "1",
        "LEDGER_LOCK": granted.lock, "LEDGER_PROMPT": str(prompt),
    }  # fmt: skip
    command = [*LEDGER, "worker", "client", "--assignee", "w"]
    clients = [
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    owner.asked()
    time.sleep(0.5)
    go.touch()
    for client in clients:
        out, err = client.communicate(timeout=PATIENCE)
        assert (client.returncode, out) == (0, "all of it is done\n")
        assert err.endswith("[kanban-worker-exit] rc=0 run=1\n")
    assert len(owner.turns) == 1
    assert [role for _, role, _ in bindings(fleet, card)] == ["turns"]
    assert json.loads((fleet.folder(card) / "owner.json").read_text())["pid"] == owner.pid
    environ["LEDGER_LOCK"] = "another"
    wrong = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "that is not the lock of run 1" in wrong.stderr


JUDGE = """
import json, sys
asked = json.load(sys.stdin)
print(json.dumps({"verdict": "done" if asked["turn"] == 3 else "continue", "reason": asked["reply"]}))
"""


def test_a_card_with_a_goal_goes_on_in_the_same_run(staffed):
    """The owner's judge is asked after each turn; the owner is told by the command line. Exit 0 closes the card."""
    judge = f"{sys.executable} -c {shlex.quote(JUDGE)}"
    answers = "import json, sys\nfor line in sys.stdin: print(json.dumps({'final_response': json.loads(line)['text']}))"
    agent = ["--", sys.executable, "-u", "-c", answers]
    start_owner(staffed, [*LEDGER, "owner", "--assignee", "w", "--judge", judge, *agent], {})
    card, plain = staffed.create(goal_max_turns=5), staffed.create()
    for each in (card, plain):
        staffed.finish(each)
    log = (staffed.folder(card) / "log").read_text()
    assert f"The goal of card {card} is not met yet" in log
    assert "this is turn 3/5" in log
    assert staffed.kinds(card) == ["created", "claimed", "worker_bound", "worker_bound", "completed"]
    assert "The goal" not in (staffed.folder(plain) / "log").read_text()
