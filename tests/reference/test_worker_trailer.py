"""How a worker's process ends: its trailer, and what the board makes of its code. The reference's cases, in our words.

Our trailer names its run (RULES §11); the form without one is read too, since a log is one run's own.
"""

import os
import subprocess
import sys

import pytest

from kanban.evidence import read_evidence
from kanban.folders import LOG
from kanban.worker.exits import trailer
from ledger.clock import SECOND
from tests.fleets import PATIENCE, until
from tests.reference.workers import CARRIER

WHOLE = CARRIER.as_environment()
SCRIPT = "import sys; print('a record'); from kanban.worker import exit_turn; exit_turn({})"


def ended(call, environ, **streams):
    """A real process that ends with `exit_turn`."""
    command = [sys.executable, "-c", SCRIPT.format(call)]
    given = {"PATH": os.environ["PATH"], **environ}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run(command, env=given, cwd="/", check=False, timeout=PATIENCE, **streams)


@pytest.mark.parametrize("code", ["0", "1", "75", "130"])
def test_outside_of_a_worker_not_a_byte_is_added(code):
    """The code alone."""
    for environ in ({}, {"LEDGER_TASK": "  ", "LEDGER_RUN": "1"}):
        ran = ended(f"{code}, resets_at=1700000000", environ)
        assert (ran.returncode, ran.stdout, ran.stderr) == (int(code), b"a record\n", b"")


@pytest.mark.parametrize("code", [0, 1, 75, 78, 130])
def test_a_worker_writes_its_trailer_to_stderr(code):
    """A whole line of its own, that names the run; stdout is as it was."""
    ran = ended(code, WHOLE)
    assert (ran.returncode, ran.stdout) == (code, b"a record\n")
    assert ran.stderr == f"\n[kanban-worker-exit] rc={code} run=1\n".encode()


def test_a_reset_line_follows_when_it_is_known():
    """Seconds since 1970, perhaps with a part of one."""
    assert ended("75, resets_at=1700000000.25", WHOLE).stderr.endswith(
        b"rc=75 run=1\n[kanban-worker-exit] reset=1700000000.250000\n"
    )


def test_the_trailer_stands_after_all_of_stdout(tmp_path):
    """Both go to one file, as they do in a run's log: stdout is written out first."""
    with (tmp_path / "log").open("wb") as log:
        ended(75, WHOLE, stdout=log, stderr=subprocess.STDOUT)
    assert (tmp_path / "log").read_bytes() == b"a record\n\n[kanban-worker-exit] rc=75 run=1\n"


@pytest.mark.parametrize("run", [None, "", "one"])
def test_a_worker_that_does_not_know_its_run_says_so_without_it(run):
    """The form without a run."""
    part = {name: value for name, value in (WHOLE | {"LEDGER_RUN": run}).items() if value is not None}
    assert ended(75, part).stderr == b"\n[kanban-worker-exit] rc=75\n"


@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_a_closed_stream_costs_the_trailer_and_never_the_code(closed):
    """Nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    names = ["stdout", "stderr"] if closed == "both" else [closed]
    try:
        assert ended(75, WHOLE, **dict.fromkeys(names, write)).returncode == 75
    finally:
        os.close(write)


@pytest.mark.parametrize("how", ["sys.stdout = None", "sys.stderr = None", "sys.stdout.close()", "sys.stderr.close()"])
def test_a_stream_that_is_not_there_costs_no_code(how):
    """As under a service that has none."""
    command = [sys.executable, "-c", f"import sys; {how}; from kanban.worker import exit_turn; exit_turn(75)"]
    environ = {"PATH": os.environ["PATH"], **WHOLE}
    assert (
        subprocess.run(command, env=environ, cwd="/", check=False, capture_output=True, timeout=PATIENCE).returncode
        == 75
    )


@pytest.mark.parametrize(
    ("reset", "read"),
    [
        (None, None), (1_700_000_000, 1_700_000_000 * SECOND), (1.5, SECOND + SECOND // 2), (0, None), (-1, None),
        (float("nan"), None), (float("inf"), None), (1e12, None),
    ],
)  # fmt: skip
def test_what_is_written_is_what_is_read(tmp_path, reset, read):
    """By the same reader as the supervisor's; not for another run."""
    (tmp_path / LOG).write_text(f"the end, and no line end{trailer(75, 3, reset)}")
    evidence = read_evidence(tmp_path, 3)
    assert (evidence.witness, evidence.code, evidence.reset_asked) == ("trailer", 75, read)
    assert evidence.last_words == "the end, and no line end"
    assert read_evidence(tmp_path, 4).witness == "none"
    (tmp_path / LOG).write_text(trailer(75, None))
    assert read_evidence(tmp_path, 4).code == 75


def test_a_code_is_what_the_system_shows_of_it():
    """One byte."""
    assert trailer(256 + 75, 1) == "\n[kanban-worker-exit] rc=75 run=1\n"


@pytest.mark.parametrize(
    ("code", "outcome", "failures", "neutral"),
    [(75, "rate_limited", 0, 1), (130, "interrupted", 0, 1), (1, "crashed", 1, 0)],
)
def test_the_board_books_the_code_that_the_turns_came_to(fleet, code, outcome, failures, neutral):
    """A real worker. 130 is booked as interrupted, neutral, because nobody failed; the reference counts a crash."""
    fleet.staff({"w": {"command": [sys.executable, "-c", SCRIPT.format(f"{code}, resets_at=4000000000")]}})
    card = fleet.create()
    run = fleet.ended(card)
    assert (run["outcome"], run["code"], run["last_words"]) == (outcome, code, "a record")
    assert fleet.counters(card)[::3] == (failures, neutral)
    asked = 4_000_000_000 * SECOND if code == 75 else None
    assert fleet.events(card, "exited")[0].facts["reset_asked"] == asked
    until(lambda: not fleet.members(card))
