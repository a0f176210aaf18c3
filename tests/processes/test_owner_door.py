"""The door of an owner: who may come in, what is understood, and what is not."""

import json
import os
import subprocess
import sys
from http.client import HTTPConnection

import pytest

from kanban.worker.place import folder_of, knock
from tests.fleets import PATIENCE, until
from tests.owners import door, own, start_owner

DONE = {"completed": True, "final_response": "all of it is done"}
LEDGER = [sys.executable, "-c", "from cli.main import main; main()"]
HEAVY = ["uvicorn", "starlette", "sqlalchemy", "pydantic", "psutil", "asyncio"]


def ask(fleet, *argv, text="what is up?"):
    """A question to the owner of `w`."""
    command = [*LEDGER, "worker", "ask", text, "--assignee", "w", *argv]
    return subprocess.run(command, env=fleet.environ, capture_output=True, text=True, timeout=PATIENCE, check=False)


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
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
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
                         timeout=PATIENCE, check=True)  # fmt: skip
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
        (["--judge", "'", "--", "cat"], {}, 2, "--judge: No closing quotation"),
    ],
)
def test_an_owner_that_cannot_be_says_why(fleet, argv, environ, code, said):
    """And leaves no door."""
    command = [*LEDGER, "owner", "--assignee", "w", *argv]
    ran = subprocess.run(
        command,
        env=fleet.environ | environ,
        cwd=fleet.home,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
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


@pytest.mark.parametrize(
    "said", [{"final_response": "\ud800"}, {"error": float("nan"), "odd": float("inf")}, {"final_response": "\x1b[1m"}]
)
def test_whatever_an_agent_says_arrives(fleet, said):
    """Though no other encoding could carry it."""
    own(fleet, said)
    assert ask(fleet).returncode == 0
    assert json.loads(ask(fleet, "--json").stdout)["result"].keys() == said.keys()


PASSER_BY = """
import sys
from http.client import HTTPConnection
from pathlib import Path
from kanban.worker.place import knock
connection = HTTPConnection("owner")
connection.sock = knock(Path(sys.argv[1]), 30)
connection.request("POST", "/turns/y", '{"text": "x", "environment": {}}')
print(connection.getresponse().status)
"""


def test_what_waits_is_dropped_once_its_client_is_gone(fleet, tmp_path):
    """Soon, though the one seat is taken."""
    go = tmp_path / "go"
    owner = own(fleet, DONE | {"until": str(go)})
    assert exchanged(fleet, "POST", "/turns/x", '{"text": "x", "environment": {}}')[0] == 202
    owner.asked()
    command = [sys.executable, "-c", PASSER_BY, str(door(fleet).parent)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout == "202\n"
    until(lambda: exchanged(fleet, "GET", "/turns/y?wait=9") == (200, '{"id": "y", "state": "terminal"}'))
    assert json.loads(exchanged(fleet, "GET", "/turns/x")[1])["state"] == "running"
    go.touch()
    assert json.loads(exchanged(fleet, "GET", "/turns/x?wait=9")[1])["code"] == 0
    assert len(owner.turns) == 1


PYTHON = """
import asyncio
from kanban.worker import Owner
def turn(text, frame):
    if text != "go on":
        raise {"exit": SystemExit, "cancel": asyncio.CancelledError, "interrupt": KeyboardInterrupt}[text]
    return {"final_response": "NaN", "odd": float("nan"), "large": [float("inf")]}
Owner(turn, assignee="w").serve()
"""


def test_whatever_an_agent_in_python_raises_or_says_the_next_turn_is_taken(fleet):
    """Nothing of it ends the seat; a number that is none is null."""
    start_owner(fleet, [sys.executable, "-c", PYTHON], {})
    assert [ask(fleet, text=text).returncode for text in ("exit", "cancel", "interrupt")] == [1, 1, 130]
    said = json.loads(ask(fleet, "--json", text="go on").stdout)
    assert said["result"] == {"final_response": "NaN", "odd": None, "large": [None]}


def test_the_client_loads_nothing_heavy():
    """It is started for every run; an owner's libraries are its own alone."""
    for module in ("kanban.worker.client", "kanban.worker.owner", "cli.app", "cli.worker"):
        probe = f"import sys, {module}; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
        ran = subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        assert ran.stdout == "[]\n", module


def test_without_its_libraries_an_owner_says_what_to_install(fleet):
    """One line; nothing is started."""
    hide = "import sys; sys.modules['uvicorn'] = None; from cli.main import main; main()"
    command = [sys.executable, "-c", hide, "owner", "--assignee", "w", "--", "cat"]
    ran = subprocess.run(command, env=fleet.environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 1
    assert ran.stderr.endswith(
        "error: an owner needs uvicorn, which is not installed\ntry: pip install 'kanban-ledger[owner]'\n"
    )


def test_where_nobody_says_who_knocks_there_is_no_owner(fleet):
    """As on macOS."""
    hide = "import socket; del socket.SO_PEERCRED; from cli.main import main; main()"
    command = [sys.executable, "-c", hide, "owner", "--assignee", "w", "--", "cat"]
    ran = subprocess.run(command, env=fleet.environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, "an owner needs Linux" in ran.stderr) == (1, True)
