"""Real supervisors behind real gates: what they inherit, and that nothing runs unbound (RULES §7.7, DESIGN §4)."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kanban import spawn
from kanban.evidence import read_evidence, write_exit_record
from kanban.processes import ProcessTable, start_tick
from kanban.spawn import (
    Children,
    Order,
    SpawnFailed,
    close_gate,
    launch,
    ledger_script,
    open_gate,
    worker_environment,
)
from tests.fleets import PATIENCE, until

ROOT = Path(__file__).parents[2]
CLAIM = {
    "LEDGER_DATABASE_URL",
    "LEDGER_BOARD",
    "LEDGER_TASK",
    "LEDGER_RUN",
    "LEDGER_LOCK",
    "LEDGER_WORKSPACE",
    "LEDGER_LOG",
    "LEDGER_PROMPT",
    "LEDGER_BIN",
    "LEDGER_HOME",
}


@pytest.fixture
def order(tmp_path):
    """An order for run 3 of t_1 with a folder and a workspace of its own."""

    def order(*command, run=3, **changes):
        folder, workspace = tmp_path / f"run {run}", tmp_path / "workspace"
        for made in (folder, workspace):
            made.mkdir(exist_ok=True)
        said = {
            "folder": folder,
            "board": "b",
            "task": "t_1",
            "run": run,
            "lock": "secret-lock",
            "command": command,
            "workspace": workspace,
            "env": {},
            "log_limit": 1_000_000,
            "database_url": "sqlite:////nowhere/ledger.db",
            "home": tmp_path,
        }
        return Order(**{**said, **changes})

    return order


@pytest.fixture
def launched():
    """Launch an order; what is left of its session is killed and buried."""
    started = []

    def launched(order):
        started.append(launch(order))
        return started[-1]

    yield launched
    for supervisor in started:
        for process in ProcessTable.snapshot().processes.values():
            if process.session == supervisor.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        until(lambda pid=supervisor.pid: spawn._has_ended(pid))


def exit_record(order):
    file = order.folder / "exit.json"
    return until(lambda: file.exists() and json.loads(file.read_text()))


def test_the_command_runs_once_the_gate_is_open(order, launched):
    """RULES §7.7: claim, start the supervisor at its gate, bind, open the gate."""
    wanted = order("sh", "-c", "pwd; echo done; exit 5")
    supervisor = launched(wanted)
    assert supervisor.start_tick == start_tick(supervisor.pid)
    assert os.getpgid(supervisor.pid) == os.getsid(supervisor.pid) == supervisor.pid
    open_gate(supervisor)
    record = exit_record(wanted)
    assert (record["task"], record["run"], record["code"], record["signal"]) == ("t_1", 3, 5, None)
    found = read_evidence(wanted.folder, 3)
    assert (found.witness, found.code) == ("exit_record", 5)
    assert found.last_words == f"{wanted.workspace}\ndone"


def test_a_gate_that_closes_unopened_means_143_and_nothing_ran(order, launched, tmp_path):
    """RULES §7.7: a run that was never bound never ran."""
    wanted = order("touch", str(tmp_path / "ran"))
    supervisor = launched(wanted)
    close_gate(supervisor)
    assert exit_record(wanted)["code"] == 143
    until(lambda: start_tick(supervisor.pid) is None)
    assert not (tmp_path / "ran").exists()
    assert read_evidence(wanted.folder, 3).code == 143


def test_a_command_waits_for_its_gate(order, launched, tmp_path):
    """RULES §7.7: before the gate opens the supervisor runs nothing, however long the commit takes."""
    supervisor = launched(order("touch", str(tmp_path / "ran")))
    until(lambda: hears_stops(supervisor.pid))
    assert not (tmp_path / "ran").exists()
    open_gate(supervisor)
    until((tmp_path / "ran").exists)


def hears_stops(pid):
    """Whether the supervisor has come as far as its gate: it no longer blocks TERM."""
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
    return not blocked & 1 << signal.SIGTERM - 1


def test_a_claimer_that_is_killed_closes_the_gate(order, tmp_path):
    """RULES §7: a kill between any two steps loses nothing: the gate's only writer is the claimer."""
    wanted = order("touch", str(tmp_path / "ran"))
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom kanban.spawn import Order, launch\n"
        "folder, workspace, mark = sys.argv[2:]\n"
        "order = Order(folder=Path(folder), board='b', task='t_1', run=3, lock='l', command=('touch', mark),\n"
        "    workspace=Path(workspace), env={}, log_limit=1000, database_url='', home=Path(folder))\n"
        "print(launch(order).pid, flush=True)\ntime.sleep(60)\n"
    )
    arguments = (ROOT, wanted.folder, wanted.workspace, tmp_path / "ran")
    claimer = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE)
    supervisor = int(claimer.stdout.readline())
    claimer.kill()
    claimer.communicate(timeout=PATIENCE)
    assert exit_record(wanted)["code"] == 143
    until(lambda: start_tick(supervisor) is None)
    assert not (tmp_path / "ran").exists()


def test_no_supervisor_holds_anothers_gate(order, launched):
    """RULES §7.7: a gate closes when its claimer closes it, whatever else was started meanwhile."""
    first, second = order("true", run=1), order("true", run=2)
    one, two = launched(first), launched(second)
    close_gate(one)
    assert exit_record(first)["code"] == 143
    assert not (second.folder / "exit.json").exists()
    open_gate(two)
    assert exit_record(second)["code"] == 0


def test_a_stop_before_the_interpreter_is_up_is_heard(order, launched, tmp_path):
    """RULES §7.7: a signal at the gate: exit record 143, nothing runs; not even one that comes at once is lost."""
    wanted = order("touch", str(tmp_path / "ran"))
    supervisor = launched(wanted)
    os.killpg(supervisor.pid, signal.SIGTERM)
    open_gate(supervisor)
    assert exit_record(wanted)["code"] == 143
    assert not (tmp_path / "ran").exists()


def test_a_worker_inherits_the_claim_and_little_else(order, launched, monkeypatch):
    """DESIGN §4: the claim, PATH, HOME, LANG, TMPDIR, TERM and the assignee's env; standard input is /dev/null."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the operator's own")
    monkeypatch.setenv("LEDGER_CONFIG", "/nowhere")
    monkeypatch.setenv("TERM", "dumb")
    script = (
        "import os, json; print(json.dumps([dict(os.environ), os.read(0, 9).decode(), os.readlink('/proc/self/fd/0')]))"
    )
    wanted = order(sys.executable, "-I", "-S", "-c", script, env={"MODEL": "large"})
    open_gate(launched(wanted))
    exit_record(wanted)
    said, read, standard_input = json.loads((wanted.folder / "log").read_text().splitlines()[0])
    assert CLAIM | {"PATH", "TERM", "MODEL"} <= set(said)
    assert set(said) <= CLAIM | {"PATH", "HOME", "LANG", "TMPDIR", "TERM", "MODEL", "LC_CTYPE"}
    assert (said["MODEL"], said["LEDGER_LOCK"], said["LEDGER_RUN"]) == ("large", "secret-lock", "3")
    assert (read, standard_input) == ("", "/dev/null")


def test_a_worker_inherits_no_open_file(order, launched, tmp_path):
    """DESIGN §4: `flock 9; ledger sweep` under cron: a worker that kept descriptor 9 would keep cron's lock."""
    with (tmp_path / "cron.lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        script = "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if n > '2'])"
        wanted = order("sh", "-c", f'exec "$0" -I -S -c "{script}" || true', sys.executable)
        supervisor = launched(wanted)
        held = [str(file.readlink()) for file in Path(f"/proc/{supervisor.pid}/fd").iterdir()]
        assert str(tmp_path / "cron.lock") not in held
        open_gate(supervisor)
        exit_record(wanted)
    assert "cron.lock" not in (wanted.folder / "log").read_text()


def test_the_gate_works_with_standard_input_and_output_closed(order):
    """RULES §7.7: `ledger sweep <&- >&-`: the gate's pipe must not be taken for standard input."""
    wanted = order("true")
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom kanban.spawn import Order, launch, open_gate\n"
        "folder, workspace = sys.argv[2:]\n"
        "order = Order(folder=Path(folder), board='b', task='t_1', run=3, lock='l', command=('true',),\n"
        "    workspace=Path(workspace), env={}, log_limit=1000, database_url='', home=Path(folder))\n"
        "for n in range(3): os.close(n)\n"
        "child = launch(order); open_gate(child); os.waitpid(child.pid, 0); os._exit(0)\n"
    )
    arguments = [sys.executable, "-c", script, *map(str, (ROOT, wanted.folder, wanted.workspace))]
    assert subprocess.run(arguments, timeout=PATIENCE, check=False).returncode == 0
    assert exit_record(wanted)["code"] == 0


def test_the_claim_names_absolute_places(order, tmp_path, monkeypatch):
    """DESIGN §4: a worker runs in another folder, so no path of its claim may be relative."""
    monkeypatch.chdir(tmp_path)
    said = worker_environment(order("true", folder=Path("run 3"), workspace=Path("workspace"), home=Path()))
    assert said["LEDGER_LOG"] == str(tmp_path / "run 3" / "log")
    assert said["LEDGER_PROMPT"] == str(tmp_path / "run 3" / "prompt.md")
    assert said["LEDGER_WORKSPACE"] == str(tmp_path / "workspace")
    assert said["LEDGER_HOME"] == str(tmp_path)
    assert Path(said["LEDGER_BIN"]).is_absolute()


def test_the_assignees_env_cannot_change_the_claim(order):
    """DESIGN §4: what names the claim is the claim's; PATH begins with the running script's folder."""
    said = worker_environment(order("true", env={"LEDGER_RUN": "99", "PATH": "/opt/bin", "HOME": "/opt"}))
    assert said["LEDGER_RUN"] == "3"
    assert said["PATH"] == f"{ledger_script().parent}{os.pathsep}/opt/bin"
    assert said["HOME"] == "/opt"


@pytest.mark.parametrize("turns", [None, "wait"])
def test_turn_recovery_is_handed_on_where_set(order, monkeypatch, turns):
    """DESIGN §4: LEDGER_TURN_RECOVERY where set."""
    monkeypatch.delenv("LEDGER_TURN_RECOVERY", raising=False)
    if turns:
        monkeypatch.setenv("LEDGER_TURN_RECOVERY", turns)
    assert worker_environment(order("true")).get("LEDGER_TURN_RECOVERY") == turns


@pytest.mark.parametrize("turns", [None, 7])
def test_the_turns_of_a_goal_are_told_where_there_is_one(order, turns):
    """DESIGN §4: LEDGER_GOAL_MAX_TURNS on cards with a goal."""
    said = worker_environment(order("true", goal_max_turns=turns))
    assert said.get("LEDGER_GOAL_MAX_TURNS") == (None if turns is None else "7")


def test_the_running_script_is_the_workers(tmp_path, monkeypatch):
    """DESIGN §4: a worker calls the `ledger` that started it, not another one on the PATH."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert ledger_script() == Path(sys.executable).parent / "ledger"
    (tmp_path / "ledger").write_text("#!/bin/sh\n")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "ledger")])
    assert ledger_script() == tmp_path / "ledger"


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("changes", "reason"), [({"env": {"A": "x\0"}}, "null"), ({"env": {"A": "x" * 10_000_000}}, "too long")]
)
def test_a_supervisor_that_cannot_start_is_said_so(order, changes, reason):
    """RULES §6: the spawn itself failed: nothing ran, nothing stays open, the claimer writes record 127."""
    before = open_files()
    with pytest.raises(SpawnFailed, match=reason) as refusal:
        launch(order("true", **changes))
    assert refusal.value.task == "t_1"
    assert "secret-lock" not in str(refusal.value)
    assert open_files() == before


def test_a_missing_interpreter_is_a_failed_spawn(order, monkeypatch):
    """RULES §6: an upgrade that moved the interpreter away is a failed spawn, booked as record 127."""
    wanted = order("true")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SpawnFailed, match="No such file"):
        launch(wanted)
    write_exit_record(wanted.folder, "t_1", 3, 127)
    assert read_evidence(wanted.folder, 3).code == 127


def test_a_supervisor_that_ends_at_once_is_a_failed_spawn(order, monkeypatch):
    """RULES §7.7: without a start tick it cannot be bound, so its gate stays shut."""
    started, posix_spawn, before = [], os.posix_spawn, open_files()
    monkeypatch.setattr(spawn.os, "posix_spawn", lambda *a, **k: started.append(posix_spawn(*a, **k)) or started[0])
    monkeypatch.setattr(spawn, "start_tick", lambda _: None)
    with pytest.raises(SpawnFailed, match="before it could be bound"):
        launch(order("true"))
    assert open_files() == before
    assert exit_record(order("true"))["code"] == 143
    until(lambda: spawn._has_ended(started[0]))


def test_opening_the_gate_of_the_dead_is_no_error(order, launched):
    """RULES §7: the next tick books it."""
    supervisor = launched(order("true"))
    os.kill(supervisor.pid, signal.SIGKILL)
    until(lambda: start_tick(supervisor.pid) is None)
    open_gate(supervisor)


def test_secrets_are_not_shown(order):
    """DESIGN §4: URLs and locks are masked wherever they could be printed."""
    shown = repr(order("agent", "the prompt", env={"KEY": "the key"}, database_url="postgresql://u:pw@h/d"))
    assert not [secret for secret in ("secret-lock", "the key", "pw@h", "the prompt") if secret in shown]


def test_reaping_buries_its_own_and_no_others():
    """RULES §6: a status is no evidence, so it is dropped; a library never waits for its user's children."""
    children = Children()
    ours, other, living = (subprocess.Popen(["sh", "-c", script]) for script in ("exit 3", "exit 4", "exec sleep 60"))
    children.add(ours.pid)
    children.add(living.pid)
    until(lambda: start_tick(ours.pid) is None and start_tick(other.pid) is None)
    assert children.reap() == (ours.pid,)
    assert children.reap() == ()
    assert other.wait(timeout=PATIENCE) == 4
    living.kill()
    living.wait(timeout=PATIENCE)
    assert children.reap() == (living.pid,)
    ours.wait(timeout=PATIENCE)
