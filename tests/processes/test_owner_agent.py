"""The agent that an owner keeps warm: its lines, its conversations, and its end."""

import sys
from pathlib import Path

import pytest

from kanban.worker.frame import Frame
from kanban.worker.warm import LARGEST_LINE, AgentDied, WarmAgent
from tests.fleets import is_alive, until
from tests.owners import start_owner

LEDGER = [sys.executable, "-c", "from cli.main import main; main()"]


def gone(pid):
    """Wait until *pid* is no more."""
    until(lambda: not is_alive(pid))


class Warm:
    """A warm agent that is a Python script, and the shortest way to a turn of it."""

    def __init__(self, script, folder):
        self.agent = WarmAgent((sys.executable, "-c", script), folder)

    def turn(self, text="x"):
        """One turn of a conversation of its own."""
        return self.agent(text, Frame.of(text, {}))


@pytest.fixture
def warm(tmp_path):
    """Agents by script; none outlives the test."""
    made = []

    def of(script):
        made.append(Warm(script, tmp_path))
        return made[-1]

    yield of
    for each in made:
        each.agent.close()


def test_what_is_no_object_is_no_answer(warm, capfd):
    """Nor an object of which nothing is read: it goes where the agent's complaints go, and the turn waits on."""
    agent = warm(
        "import sys\nfor line in sys.stdin:\n"
        "    print('hm', 1, [], 'null', '{', '{}', '{\"level\": \"info\"}', sep='\\n')\n"
        '    print(\'{"error": NaN, "a": 1e999}\', flush=True)'
    )
    assert agent.turn() == {"error": None, "a": None}
    assert capfd.readouterr().err == 'hm\n1\n[]\nnull\n{\n{}\n{"level": "info"}\n'


def test_what_an_agent_says_between_two_turns_answers_neither(warm, tmp_path, capfd):
    """Though it looks like an answer, and whether it was read with the one before or came later."""
    agent = warm(
        "import json, os, sys, time\nfor line in sys.stdin:\n"
        "    said = json.dumps({'final_response': json.loads(line)['text']})\n"
        "    print(said, '{\"completed\": true}', sep='\\n', flush=True)\n"
        '    print(\'{"final_response": "late"}\', flush=True)\n'
        f"    open({str(tmp_path / 'said')!r}, 'a').write(line)"
    )
    for number in range(3):
        assert agent.turn(f"{number}") == {"final_response": f"{number}"}
        until(lambda so_far=number: (tmp_path / "said").exists() and said_by(tmp_path) == so_far + 1)
    assert capfd.readouterr().err == '{"completed": true}\n{"final_response": "late"}\n' * 2


def said_by(folder):
    """How many turns the agent has come to the end of."""
    return len((folder / "said").read_text().splitlines())


def test_a_conversation_ends_with_its_process(warm):
    """It does not go on in another one, which knows nothing of it; another conversation does."""
    agent = warm(
        "import json, os, sys\nline = sys.stdin.readline()\n"
        "print(json.dumps({'session_id': os.getpid()}), flush=True)\nos._exit(0)"
    )
    frame = Frame.of("x", {})
    gone(agent.agent("x", frame)["session_id"])
    for _ in range(2):
        with pytest.raises(AgentDied, match="a conversation, which is lost with it"):
            agent.agent("go on", frame)
    assert agent.turn().keys() == {"session_id"}


def test_a_conversation_is_counted_from_one(warm):
    """The turns of one frame are one conversation in one process, another frame's is a new one."""
    agent = warm(
        "import sys\nfor line in sys.stdin: print(line.replace('{', '{\"error\": 1, ', 1), end='', flush=True)"
    )
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
