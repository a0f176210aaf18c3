"""The door of an owner and the lines of its agent: who may come in, what is understood, and what is not."""

import json
import os
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from kanban.worker.frame import Frame
from kanban.worker.place import folder_of, knock
from kanban.worker.warm import LARGEST_LINE, AgentDied, WarmAgent
from tests.fleets import is_alive, until
from tests.owners import door, own, start_owner

DONE = {"completed": True, "final_response": "all of it is done"}
LEDGER = [sys.executable, "-c", "from cli.main import main; main()"]
HEAVY = ["uvicorn", "starlette", "sqlalchemy", "pydantic", "psutil", "asyncio"]


def gone(pid):
    """Wait until *pid* is no more."""
    until(lambda: not is_alive(pid))


def ask(fleet, *argv, text="what is up?"):
    """A question to the owner of `w`."""
    command = [*LEDGER, "worker", "ask", text, "--assignee", "w", *argv]
    return subprocess.run(command, env=fleet.environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"LEDGER_LOCK": ""}, "LEDGER_RUN or LEDGER_LOCK is missing"),
        ({"LEDGER_RUN": "7"}, "no run 7"),
        ({"LEDGER_PROMPT": "/nowhere"}, "/nowhere"),
        ({"LEDGER_DATABASE_URL": "sqlite:////nowhere/ledger.db"}, "nowhere/ledger.db"),
        ({"worker": "other"}, "is other's, not w's"),
    ],
)
def test_a_claim_that_does_not_hold_is_refused_at_once(fleet, changes, said):
    """1 and the trailer; no turn."""
    owner = own(fleet, DONE)
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card, assignee=changes.pop("worker", "w"))
    prompt = fleet.home / "prompt"
    prompt.write_text("do it")
    environ = fleet.environ | {
        "LEDGER_DATABASE_URL": fleet.url, "LEDGER_BOARD": "default", "LEDGER_TASK": card, "LEDGER_RUN": "1",
        "LEDGER_LOCK": granted.lock, "LEDGER_PROMPT": str(prompt), **changes,
    }  # fmt: skip
    command = [*LEDGER, "worker", "client", "--assignee", "w"]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert said in ran.stderr
    assert "\n[kanban-worker-exit] rc=1" in ran.stderr
    assert owner.turns == []


def test_the_door_is_this_users_alone(fleet):
    """File mode 0600 in a folder of mode 0700, and the kernel says whose the other end is."""
    own(fleet, DONE)
    assert door(fleet).stat().st_mode & 0o777 == 0o600
    assert door(fleet).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_users_process_is_hung_up_on(fleet):
    """Even where the file's mode would let it in: not a byte is answered."""
    owner = own(fleet, DONE)
    folder = door(fleet).parent
    door(fleet).chmod(0o666)
    folder.chmod(0o755)
    script = (
        "import os, socket\n"
        "os.setuid(65534)\n"
        "caller = socket.socket(socket.AF_UNIX)\n"
        "caller.connect('door')\n"
        "try:\n"
        "    caller.sendall(b'GET /turns/x HTTP/1.1\\r\\nHost: owner\\r\\n\\r\\n')\n"
        "    print(caller.recv(100))\n"
        "except OSError as fault:\n"
        "    print(b'')\n"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", script], cwd=folder, capture_output=True, text=True,
                         timeout=60, check=True)  # fmt: skip
    assert ran.stdout == "b''\n"
    assert "user 65534 was refused" in (fleet.home / "owner.log").read_text()
    assert owner.turns == []


@pytest.mark.parametrize(
    ("argv", "environ", "code", "said"),
    [
        (["--", "no-such-agent"], {}, 1, "no-such-agent: No such file"),
        (["--", "cat"], {"LEDGER_TASK": "t_1", "LEDGER_RUN": "1", "LEDGER_LOCK": "x"}, 4, "owner is not a worker's"),
        (["--at-once", "0", "--", "cat"], {}, 2, "at-once"),
        ([], {}, 2, "COMMAND"),
    ],
)
def test_an_owner_that_cannot_be_says_why(fleet, argv, environ, code, said):
    """And leaves no door."""
    command = [*LEDGER, "owner", "--assignee", "w", *argv]
    ran = subprocess.run(
        command, env=fleet.environ | environ, cwd=fleet.home, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == code
    assert said in ran.stderr
    assert not door(fleet).exists()


def exchanged(fleet, method, path, body=None):
    """One request at the door, by this process: status and answer."""
    connection = HTTPConnection("owner")
    connection.sock = knock(folder_of(fleet.home, fleet.board.host.id, "w"), 30)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "body",
    [
        "", "{", "[]", "null", "{}", '{"text": 1, "environment": {}}', '{"text": "x"}',
        '{"text": "x", "environment": {"PATH": "/"}}', '{"text": "x", "environment": {"LEDGER_TASK": 1}}',
        "[" * 100_000, " " * (8 * 1024 * 1024 + 1),
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused(fleet, body):
    """400, and no turn."""
    owner = own(fleet, DONE)
    status, said = exchanged(fleet, "POST", "/turns/x", body)
    assert (status, json.loads(said)["error"]["code"]) == (400, "invalid_input")
    assert exchanged(fleet, "GET", "/turns/x?wait=0") == (404, '{"state": "unknown"}')
    assert owner.turns == []


def test_half_a_claim_is_refused(fleet):
    """409: it proves nothing, and is no question without a claim either."""
    owner = own(fleet, DONE)
    frame = {"text": "x", "environment": {"LEDGER_TASK": "t_1", "LEDGER_RUN": "1"}}
    status, said = exchanged(fleet, "POST", "/turns/x", json.dumps(frame))
    assert (status, json.loads(said)["error"]["code"]) == (409, "forbidden")
    assert owner.turns == []


def test_the_same_submission_is_taken_once(fleet):
    """Under its own name: the receipt of the first is the answer."""
    owner = own(fleet, DONE)
    frame = json.dumps({"text": "x", "environment": {}})
    for _ in range(2):
        assert exchanged(fleet, "POST", "/turns/x", frame)[0] == 202
    status, said = exchanged(fleet, "GET", "/turns/x?wait=9")
    assert (status, json.loads(said)) == (200, {
        "id": "x", "state": "terminal", "code": 0, "reply": DONE["final_response"], "result": DONE,
    })  # fmt: skip
    assert len(owner.turns) == 1
    for odd in ("", "?wait=", "?wait=soon", "?wait=-1", "?wait=nan"):
        assert exchanged(fleet, "GET", f"/turns/x{odd}")[0] == 200


def test_a_question_that_nobody_takes_is_an_error(fleet):
    """After the wait; it says how to start an owner."""
    ran = ask(fleet, "--wait", "0")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: no owner of w took the turn: nobody is there\ntry: ledger owner --assignee w -- COMMAND\n"
    )


@pytest.mark.parametrize("said", [{"final_response": "\ud800"}, {"odd": float("nan")}, {"final_response": "\x1b[1m"}])
def test_whatever_an_agent_says_arrives(fleet, said):
    """Though no other encoding could carry it."""
    own(fleet, said)
    assert ask(fleet).returncode == 0
    assert json.loads(ask(fleet, "--json").stdout)["result"].keys() == said.keys()


def test_the_client_loads_nothing_heavy():
    """It is started for every run; an owner's libraries are its own alone."""
    for module in ("kanban.worker.client", "kanban.worker.owner", "cli.app", "cli.worker"):
        probe = f"import sys, {module}; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
        ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60)
        assert ran.stdout == "[]\n", module


def test_without_its_libraries_an_owner_says_what_to_install(fleet):
    """One line; nothing is started."""
    hide = "import sys; sys.modules['uvicorn'] = None; from cli.main import main; main()"
    command = [sys.executable, "-c", hide, "owner", "--assignee", "w", "--", "cat"]
    ran = subprocess.run(command, env=fleet.environ, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert ran.stderr.endswith(
        "error: an owner needs uvicorn, which is not installed\ntry: pip install 'kanban-ledger[owner]'\n"
    )


def test_where_nobody_says_who_knocks_there_is_no_owner(fleet):
    """As on macOS."""
    hide = "import socket; del socket.SO_PEERCRED; from cli.main import main; main()"
    command = [sys.executable, "-c", hide, "owner", "--assignee", "w", "--", "cat"]
    ran = subprocess.run(command, env=fleet.environ, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, "an owner needs Linux" in ran.stderr) == (1, True)


class Warm:
    """A warm agent that is a Python script, and the shortest way to a turn of it."""

    def __init__(self, script):
        self.agent = WarmAgent((sys.executable, "-c", script))

    def turn(self, text="x"):
        """One turn of a conversation of its own."""
        return self.agent(text, Frame.of(text, {}))


@pytest.fixture
def warm():
    """Agents by script; none outlives the test."""
    made = []

    def of(script):
        made.append(Warm(script))
        return made[-1]

    yield of
    for each in made:
        each.agent.close()


def test_what_is_no_object_is_no_answer(warm, capfd):
    """It goes where the agent's complaints go; the turn waits on."""
    agent = warm(
        "import sys\nfor line in sys.stdin: print('hm', 1, [], 'null', '{', '{\"a\": 1}', sep='\\n', flush=True)"
    )
    assert agent.turn() == {"a": 1}
    assert capfd.readouterr().err == "hm\n1\n[]\nnull\n{\n"


def test_a_conversation_is_counted_from_one(warm):
    """The turns of one frame are one conversation in one process, another frame's is a new one."""
    agent = warm("import sys\nfor line in sys.stdin: print(line, end='', flush=True)")
    frame = Frame.of("x", {})
    assert [agent.agent("x", frame)["turn"] for _ in range(3)] == [1, 2, 3]
    assert [agent.turn()["turn"], agent.agent("x", frame)["turn"]] == [1, 1]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import sys; sys.exit(7)", "with code 7"),
        ("import sys; sys.stdin.readline(); sys.exit(7)", "with code 7"),
        ("import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 9)", "with code 137"),
        ("import os, sys, time; sys.stdin.readline(); os.close(1); time.sleep(60)", "with code 143"),
        (f"import sys; sys.stdin.readline(); print('x' * {LARGEST_LINE + 2}, flush=True)", "a line of more than"),
    ],
)
def test_an_agent_that_cannot_answer_has_died(warm, script, why):
    """Nothing is settled, and it is started anew for the next turn."""
    agent = warm(script)
    for _ in range(2):
        with pytest.raises(AgentDied, match=why):
            agent.turn()


def test_what_an_agent_left_behind_ends_with_it(warm, tmp_path):
    """Even where that holds the agent's output open."""
    agent = warm(
        "import subprocess, sys; sys.stdin.readline(); child = subprocess.Popen(['sleep', '300'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))"
    )
    with pytest.raises(AgentDied):
        agent.turn()
    gone(int((tmp_path / "pid").read_text()))


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "300"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
while True:
    time.sleep(1)
"""


def test_an_agent_that_ignores_term_is_killed_with_its_children(fleet):
    """Whatever became of the owner: TERM, and KILL 5 s later."""
    pids = fleet.home / "pids"
    command = [*LEDGER, "owner", "--assignee", "w", "--", sys.executable, "-c", STUBBORN, str(pids)]
    process = start_owner(fleet, command, {})
    agent, child = map(int, until(lambda: pids.exists() and pids.read_text()).split())
    process.kill()
    process.wait()
    gone(child)
    gone(agent)
    assert not any(Path(f"/proc/{pid}").exists() and is_alive(pid) for pid in (agent, child))
