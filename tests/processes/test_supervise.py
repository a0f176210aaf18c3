"""The supervisor as real processes: gate, group, log, trailer and exit record (RULES §6, §7.7)."""

import json
import os
import resource
import runpy
import shlex
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.supervisors import MIB, PYTHON, SUPERVISE, TASK, names, script, wait_until

LOADED = f"""
import os, sys, time, _signal, _thread
before, module = set(sys.modules), {{"__name__": "supervise"}}
exec(compile(open({str(SUPERVISE)!r}).read(), "supervise", "exec"), module)
"""
HEAD = 1024 * 1024


def numbered(count: int) -> bytes:
    return b"".join(b"%09d\n" % n for n in range(count))


def numbers(count: int) -> list[str]:
    """A command that says what numbered() returns."""
    return script(f"import sys\nfor n in range({count}): sys.stdout.write('%09d\\n' % n)\n")


# --- how a run ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 75, 78, 130])
def test_an_exit_code_is_recorded_said_in_the_trailer_and_returned(run, code):
    """The three places agree on the command's code."""
    before = time.time_ns() // 1000
    assert run.complete("sh", "-c", f"exit {code}") == code
    assert run.record == {
        "schema": 1, "task": TASK, "run": 3, "code": code, "signal": None, "ended_at": run.record["ended_at"],
    }  # fmt: skip
    assert before <= run.record["ended_at"] <= time.time_ns() // 1000
    assert run.trailer == f"[kanban-worker-exit] rc={code} run=3".encode()


def test_a_death_by_signal_is_recorded_as_the_signal(run):
    """A command that kills itself with 9 has no code; the trailer says 137."""
    assert run.complete("sh", "-c", "kill -9 $$") == 137
    assert run.end == (None, 9)
    assert run.trailer == b"[kanban-worker-exit] rc=137 run=3"


def test_the_record_is_one_line_and_nothing_temporary_is_left(run):
    """The run's folder holds the log and the record, the latter as one line of compact JSON."""
    run.complete("true")
    assert names(run.folder) == ["exit.json", "log"]
    text = (run.folder / "exit.json").read_text()
    assert text.count("\n") == 1
    assert text == json.dumps(run.record, separators=(",", ":")) + "\n"


def test_a_strange_task_is_escaped(make):
    """Quotes, backslashes and control characters do not break the record."""
    strange = make(task='t_"\\\n\x7f')
    strange.complete("true")
    assert strange.record["task"] == 't_"\\\n\x7f'


def test_log_and_record_are_private(run):
    """Both have mode 0600."""
    run.complete("true")
    assert [stat.S_IMODE((run.folder / name).stat().st_mode) for name in ("log", "exit.json")] == [0o600, 0o600]


def test_whoever_sees_the_record_finds_the_log_whole(run):
    """The trailer stands in the log before the record appears."""
    run.start("sh", "-c", "echo last words")
    wait_until((run.folder / "exit.json").exists)
    assert run.log == b"last words\n[kanban-worker-exit] rc=0 run=3\n"


def test_a_record_that_cannot_be_written_is_said_and_the_trailer_stays(run):
    """Without an exit record the supervisor ends in 74 and says why; the log's trailer is the witness."""
    (run.folder / "exit.json.tmp").mkdir()
    assert run.complete("true") == 74
    assert "no exit record" in run.complaint()
    assert run.trailer == b"[kanban-worker-exit] rc=0 run=3"


# --- the gate -------------------------------------------------------------------------------------------------------


def test_a_gate_that_closes_unopened_runs_nothing(run):
    """The claimer died before the claim was bound: 143, and the command never ran."""
    run.spawn("touch", "ran")
    run.shut()
    assert run.wait() == 143
    assert run.end == (143, None)
    assert run.log == b"[kanban-worker-exit] rc=143 run=3\n"
    assert names(run.workspace) == []


def test_another_byte_does_not_open_the_gate(run):
    """Only the agreed byte is a yes."""
    run.spawn("touch", "ran")
    run.open(b"x")
    assert (run.wait(), names(run.workspace)) == (143, [])


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_at_the_gate_runs_nothing(run, number):
    """Stopped before it was bound: 143, although the gate never closed."""
    run.spawn("touch", "ran")
    wait_until(run.at_gate)
    run.signal(number)
    assert run.wait() == 143
    assert run.end == (143, None)
    assert names(run.workspace) == []


def test_a_signal_before_the_gate_opens_wins(run):
    """Signal, then gate: the order in which they came decides."""
    run.spawn("touch", "ran")
    wait_until(run.at_gate)
    run.process.send_signal(signal.SIGSTOP)
    run.signal(signal.SIGTERM)
    run.open()
    run.process.send_signal(signal.SIGCONT)
    assert (run.wait(), names(run.workspace)) == (143, [])


def test_a_signal_between_the_gate_and_the_start_runs_nothing(run):
    """It came too late for the gate and too early for the group: planted where no timing would hit it."""
    planted = (
        "module['_Gate'].opened = lambda *_: os.kill(os.getpid(), 15) or True; os._exit(module['main'](sys.argv[1:]))"
    )
    run.spawn("touch", "ran", program=("-c", LOADED + planted))
    assert (run.wait(), names(run.workspace)) == (143, [])
    assert run.end == (143, None)


def test_a_signal_blocked_while_the_supervisor_started_is_not_lost(make):
    """A sweep may block the three signals in the spawn; one sent at once is then found at the gate."""
    blocked = make(preexec=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]))
    blocked.spawn("touch", "ran")
    blocked.signal(signal.SIGTERM)
    assert blocked.wait() == 143
    assert blocked.end == (143, None)


def test_nothing_runs_while_the_gate_is_shut(run):
    """At the gate there is a log without a word and no command."""
    run.spawn("touch", "ran")
    wait_until(run.at_gate)
    assert names(run.workspace) == []
    assert run.log == b""
    run.open()
    assert (run.wait(), names(run.workspace)) == (0, ["ran"])


# --- the group ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_group_kills_the_command_and_is_recorded(run, number):
    """The supervisor outlives the group's signal and records the command's own death."""
    run.start("sh", "-c", "echo up; exec sleep 60")
    wait_until(run.says(b"up\n"))
    run.signal(number)
    assert run.wait() == 128 + number
    assert run.end == (None, number)


def test_a_command_that_ignores_the_signal_goes_on_and_so_does_the_supervisor(run):
    """TERM is a request: the command that declines it ends in its own time and code."""
    run.start("sh", "-c", "trap '' TERM; echo up; while [ ! -e end ]; do sleep 0.02; done; exit 7")
    wait_until(run.says(b"up\n"))
    run.signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        run.process.wait(timeout=0.2)
    (run.workspace / "end").touch()
    assert run.wait() == 7
    assert run.end == (7, None)


def test_a_signal_reaches_the_command_once(run):
    """It came through the group; the supervisor does not send it again, though the command outlives it."""
    text = (
        "import os, signal, time\n"
        # Not print: where the signal comes before print has returned, a handler that prints is a reentrant call.
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'term\\n'))\n"
        "os.write(1, b'up\\n')\n"
        "for name in ('said', 'heard'):\n"
        "    while not os.path.exists(name): time.sleep(0.01)\n"
        "    os.write(1, name.encode() + b'\\n')\n"
    )
    run.start(*script(text))
    wait_until(run.says(b"up\n"))
    run.signal(signal.SIGTERM)
    wait_until(run.says(b"term\n"))
    (run.workspace / "said").touch()
    wait_until(run.says(b"said\n"))  # the supervisor has read on: what it does about its own signal is done
    (run.workspace / "heard").touch()
    run.wait()
    assert run.output == b"up\nterm\nsaid\nheard\n"


def test_the_command_starts_in_the_supervisors_session_and_group_with_clean_signals(make):
    """Nothing of the interpreter's or the sweep's signal state reaches the command."""

    def spoil() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1])
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    inherited = make(preexec=spoil)
    inherited.complete("sh", "-c", "echo $(ps -o sid=,pgid= -p $$); exec grep Sig /proc/self/status")
    words = inherited.output.split()
    assert words[:2] == [str(inherited.process.pid).encode()] * 2
    masks = {name: int(mask, 16) for name, mask in zip(words[2::2], words[3::2], strict=True) if b"/" not in mask}
    ours = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)
    assert masks[b"SigBlk:"] == 0
    assert masks[b"SigIgn:"] & sum(1 << (number - 1) for number in ours) == 0


def test_a_supervisor_started_by_hand_makes_its_own_group(run):
    """Without setsid from outside it leads a session all the same."""
    gate, mine = os.pipe()
    os.write(mine, b"g")
    arguments = map(
        str, [run.folder, TASK, 3, gate, 0, run.workspace, "--", "sh", "-c", "ps -o sid= -p $$; echo $PPID"]
    )
    run.process = subprocess.Popen([*PYTHON, SUPERVISE, *arguments], pass_fds=[gate], stderr=subprocess.PIPE)
    os.close(gate)
    os.close(mine)
    assert run.wait() == 0
    assert run.output.split() == [str(run.process.pid).encode()] * 2


def test_a_status_is_not_lost_where_children_are_ignored(make):
    """SIGCHLD inherited as ignored would reap the command unseen."""
    ignoring = make(preexec=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    ignoring.complete("sh", "-c", "exit 75")
    assert ignoring.end == (75, None)


# --- the start ------------------------------------------------------------------------------------------------------


def test_a_command_that_is_not_there_is_127(run):
    """The record says 127, the log says why in a line."""
    assert run.complete("no-such-command-here") == 127
    assert run.end == (127, None)
    assert run.output == b"cannot start 'no-such-command-here': No such file or directory\n"


@pytest.mark.parametrize(("text", "mode"), [("#!/bin/sh\n", 0o644), ("no program\n", 0o755)])
def test_a_command_that_cannot_be_executed_is_126(run, text, mode):
    """No execute permission, and no format the kernel knows."""
    file = run.workspace / "command"
    file.write_text(text)
    file.chmod(mode)
    assert run.complete("./command") == 126
    assert run.end == (126, None)
    assert run.output.startswith(b"cannot start './command': ")


def test_a_missing_workspace_is_126(run):
    """The command is not started somewhere else instead."""
    run.workspace.rmdir()
    assert run.complete("true") == 126
    assert run.end == (126, None)
    assert run.output.startswith(b"cannot enter workspace ")


def test_arguments_arrive_as_given_and_input_is_at_its_end(run):
    """Blanks, empty words and bytes that are no UTF-8 pass; reading stdin ends at once."""
    odd = os.fsdecode(b"\xff\xfe")
    text = "import os, sys; print(sys.stdin.read() == '', [os.fsencode(a) for a in sys.argv[1:]], os.getcwd())"
    run.complete(*script(text), "a b", "", "--", odd)
    expected = f"True {[b'a b', b'', b'--', os.fsencode(odd)]} {run.workspace}\n"
    assert run.output.decode() == expected


def test_the_command_inherits_no_descriptor_but_the_three(run):
    """Gate, log and the supervisor's pipes stay the supervisor's."""
    run.complete(*script("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"))
    assert run.output == b"[0, 1, 2]\n"


@pytest.mark.parametrize(
    "line",
    [
        "",
        ". t 1 0 0 .",
        ". t 1 0 0 . --",
        ". t 1 0 0 . - true",
        ". t x 0 0 . -- true",
        ". t 1 99 0 . -- true",
        ". t 1 99999999999999999999 0 . -- true",
        ". t 1 0 -1 . -- true",
        ". ä 1 0 0 . -- true",
        "missing t 1 0 0 . -- true",
    ],
)
def test_bad_arguments_are_refused_in_one_line(tmp_path, line):
    """Exit 2, a line on stderr, no file."""
    call = [*PYTHON, SUPERVISE, *line.split()]
    done = subprocess.run(call, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("supervise: ")
    assert done.stderr.count("\n") == 1
    assert names(tmp_path) == []


# --- the log --------------------------------------------------------------------------------------------------------


def test_output_is_complete_and_in_order_when_the_command_exits_at_once(run):
    """3 MB in one go, last byte and exit together: nothing is missing and no mark is in the log."""
    run.complete(*numbers(300_000))
    assert run.output == numbered(300_000)


def test_stdout_and_stderr_share_one_order(run):
    """Both go into the same pipe."""
    run.complete("sh", "-c", "for i in 1 2 3; do echo out $i; echo err $i >&2; done; printf end")
    assert run.log.splitlines()[-2:] == [b"end", b"[kanban-worker-exit] rc=0 run=3"]
    assert run.output == b"out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nend\n"


def test_output_can_be_read_while_the_command_runs(run):
    """Every byte is in the log as it comes, also one that looks like the start of a mark."""
    run.start("sh", "-c", r"printf 'half a line\0x'; while [ ! -e end ]; do sleep 0.02; done; printf '\0'")
    wait_until(run.says(b"half a line\0x"))
    (run.workspace / "end").touch()
    run.wait()
    assert run.output == b"half a line\0x\0\n"


@pytest.mark.parametrize("extra", [-10, 0, 10, 20])
def test_little_too_much_is_kept(make, extra):
    """Nothing is dropped where the line about it would be longer."""
    count = (HEAD + 4 + 100_000 + extra) // 10
    long = make(limit=100_000)
    long.complete(*numbers(count))
    assert long.output == numbered(count)


@pytest.mark.parametrize("extra", [50, 5_000, 99_990, 100_000, 150_000, 200_010, 1_000_000])
def test_head_and_tail_are_kept_and_the_dropped_bytes_counted(make, extra):
    """The three parts add up to what the command said, however far past the limits it went."""
    limit, count = 100_000, (HEAD + 4 + 100_000 + extra) // 10
    long = make(limit=limit)
    long.complete(*numbers(count))
    said = numbered(count)
    line = b"\n[... %d bytes dropped ...]\n" % (len(said) - HEAD - limit)
    assert long.output == said[:HEAD] + line + said[-limit:]


@pytest.mark.parametrize("limit", [0, 1, 70_000])
def test_a_small_limit_is_kept_too(make, limit):
    """Also where a chunk is longer than the tail, and where there is none."""
    said = numbered(200_000)
    short = make(limit=limit)
    short.complete(*numbers(200_000))
    dropped = b"\n[... %d bytes dropped ...]\n" % (len(said) - HEAD - limit)
    tail = said[len(said) - limit :]
    assert short.output == said[:HEAD] + dropped + tail + (b"\n" if tail[-1:] not in (b"", b"\n") else b"")


def peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def test_200_mb_of_output_take_neither_memory_nor_disk(make):
    """Peak memory ≤ 12 MB, the log never over its bound, head and tail kept."""
    limit = 2 * MIB
    loud = make(limit=limit)
    text = (
        "import os, time\n"
        "os.write(1, b'first')\n"
        "for _ in range(3125): os.write(1, b'x' * 64_000)\n"
        "os.write(1, b'last')\n"
        "while not os.path.exists('end'): time.sleep(0.01)\n"
    )
    loud.start(*script(text))
    log, sizes = loud.folder / "log", []
    wait_until(log.exists)

    def all_said() -> bool:
        with log.open("rb") as file:
            sizes.append(file.seek(0, os.SEEK_END))
            file.seek(max(0, sizes[-1] - 4))
            return file.read(4) == b"last"

    wait_until(all_said)
    peak = peak_kib(loud.process.pid)
    (loud.workspace / "end").touch()
    loud.wait()
    assert peak <= 12_000
    assert max(sizes) <= HEAD + 2 * limit + 2 * 64 * 1024
    assert loud.output.startswith(b"firstx")
    assert loud.output.endswith(b"xlast\n")
    assert b"\n[... %d bytes dropped ...]\n" % (200_000_009 - HEAD - limit) in loud.output
    assert len(loud.output) < HEAD + limit + 100


def test_the_mark_is_found_however_the_reads_cut_it():
    """Wherever two reads part the mark, output before it comes out whole and nothing of the mark does."""
    split = runpy.run_path(str(SUPERVISE))["_split"]
    mark, said = b"\0abcdef", b"said\0abc\0"
    whole = said + mark + b"after"
    for cut in range(len(whole) + 1):
        first, held, found = split(whole[:cut], mark)
        assert found == (cut >= len(said + mark))
        assert len(held) < len(mark)
        assert first + held == (said if found else whole[:cut])
        if not found:
            rest, held, found = split(held + whole[cut:], mark)
            assert (first + rest, held, found) == (said, b"", True)


@pytest.mark.parametrize("child", ["sleep 600 &", "yes &"])
def test_a_child_that_keeps_the_output_open_does_not_delay_the_record(make, child):
    """Silent or flooding, it belongs to the group, not to the run's end."""
    left = make(limit=1000)
    assert left.complete("sh", "-c", f"{child} echo said; exit 5") == 5  # the child lasts longer than `complete` waits
    assert left.end == (5, None)
    assert left.trailer == b"[kanban-worker-exit] rc=5 run=3"


def test_a_command_that_makes_its_output_non_blocking_ends_like_any_other(make):
    """The mark goes into the same open file, whose pipe a child of the command keeps full."""
    flood = (
        "import os\n"
        "while True:\n"
        "    os.set_blocking(1, False)\n"
        "    try: os.write(1, b'x' * 4096)\n"
        "    except BlockingIOError: os.close(os.open('full', os.O_CREAT))\n"
    )
    text = (
        f"import os, sys\nos.posix_spawn(sys.executable, {script(flood)!r}, os.environ)\n"
        "while not os.path.exists('full'): pass\n"
        "sys.exit(6)"
    )
    left = make(limit=1000)
    assert left.complete(*script(text)) == 6
    assert left.end == (6, None)


def limited(size: int) -> Callable[[], None]:
    """The nearest to a full disk: no file may grow beyond *size*. The command hears nothing of SIGXFSZ either."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_does_not_harm_the_command(make):
    """Output is dropped and counted, the command ends as it would, trailer and record find room."""
    full = make(preexec=limited(300_000))
    assert full.complete("sh", "-c", shlex.join(numbers(200_000)) + " && exit 75") == 75
    assert full.end == (75, None)
    kept, lost = full.output.split(b"[... ")
    said = numbered(200_000)
    assert kept in (said[: len(kept)], said[: len(kept) - 1] + b"\n")
    assert len(kept) > 280_000
    assert lost == b"%d bytes lost: the log could not be written ...]\n" % (len(said) - 300_000 + 8 * 1024)


def test_a_disk_without_room_for_the_record_is_said(make):
    """The missing record has a line on stderr and an exit code of its own, and no half of it is to be seen."""
    full = make(preexec=limited(80))
    assert full.complete("sh", "-c", "seq 1 1000; exit 75") == 74
    assert "no exit record" in full.complaint()
    assert not (full.folder / "exit.json").exists()


def test_a_log_that_cannot_be_opened_costs_the_output_only(run):
    """The exit record does not depend on the log."""
    (run.folder / "log").mkdir()
    assert run.complete("sh", "-c", "echo lost; exit 3") == 3
    assert run.end == (3, None)


def test_what_stands_in_the_log_already_is_kept(run):
    """The log is appended to, also by others."""
    (run.folder / "log").write_bytes(b"before\n")
    run.complete("sh", "-c", f"echo by hand >> '{run.folder}/log'; echo said")
    assert run.output == b"before\nby hand\nsaid\n"


# --- the file -------------------------------------------------------------------------------------------------------


def test_loading_the_file_imports_no_further_module():
    """Its start is the interpreter's: nothing besides what `os`, `sys` and `time` bring."""
    text = LOADED + "print(sorted(set(sys.modules) - before))"
    done = subprocess.run([*PYTHON, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
