"""`Worker`, the Python face of a claim: light until a verb is used, and its claim's alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import kanban.worker
from kanban import Worker
from kanban.refusals import Forbidden, LostClaim
from kanban.worker import Lost, Reason, carrier_of
from ledger.errors import InvalidInput
from tests.fleets import PATIENCE

HEAVY = {"sqlalchemy", "pydantic", "typer", "click", "alembic", "psutil", "rich"}
PROBE = """
import json, sys
{script}
print(json.dumps(sorted({watched!r} & set(sys.modules))))
"""


@pytest.fixture
def claimed(fleet):
    """The environment of a worker whose card was claimed by hand."""
    card = fleet.create(assignee=None)
    granted = fleet.board.claim(card, assignee="w")
    carrier = carrier_of(database=fleet.url, board="default", task=card, run=granted.run, lock=granted.lock)
    return {**fleet.environ, **carrier.as_environment()}


def imported(script, environ, watched=frozenset(HEAVY)):
    """Which of *watched* a fresh process has loaded after *script*."""
    probe = PROBE.format(script=script, watched=set(watched))
    command = [sys.executable, "-c", probe]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd="/", timeout=PATIENCE)
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "script",
    [
        "import kanban.worker",
        "from kanban import Worker",
        "from kanban import Worker; Worker.from_environment().task",
        "from kanban import Worker; assert type(Worker.from_environment().proof()).__name__ == 'Live'",
        "from kanban import Worker; assert Worker.from_environment().run(lambda _: {}, 'do it').code == 0",
        "from kanban.worker import exit_turn, recover, result_of_exit",
    ],
)
def test_a_worker_is_light_until_a_verb_is_used(claimed, script):
    """No engine, no model and no command line: neither for a proof nor for turns."""
    assert imported(script, claimed) == []


def test_the_store_is_opened_by_a_verb(claimed):
    """The test above can fail."""
    assert "sqlalchemy" in imported("from kanban import Worker; Worker.from_environment().heartbeat()", claimed)


def test_importing_the_room_loads_none_of_its_parts():
    """Not even a log: the command line imports it too."""
    parts = {"logging", "sqlite3", "kanban.worker.face", "kanban.worker.proof", "kanban.worker.recovery"}
    assert imported("import kanban.worker", {}, parts) == []


def test_what_the_room_names_is_there():
    """And nothing else is."""
    assert all(getattr(kanban.worker, name).__name__ == name for name in kanban.worker.__all__)
    assert sorted(kanban.worker.__all__) == kanban.worker.__all__
    with pytest.raises(AttributeError, match="nothing"):
        kanban.worker.nothing  # noqa: B018 – asking for it is the test


@pytest.mark.parametrize("missing", ["LEDGER_TASK", "LEDGER_LOCK", "LEDGER_BOARD", "LEDGER_DATABASE_URL"])
def test_there_is_no_worker_of_half_a_claim(claimed, missing):
    """Nor of none."""
    with pytest.raises(Forbidden, match=missing):
        Worker.from_environment({name: value for name, value in claimed.items() if name != missing})


def test_an_explicit_carrier_is_the_worker_whatever_the_environment_says(fleet, claimed):
    """Verbs and proof go to the carrier's own card."""
    other = fleet.create("another", assignee=None)
    granted = fleet.board.claim(other, assignee="v")
    carrier = carrier_of(database=fleet.url, board="default", task=other, run=granted.run, lock=granted.lock)
    worker = Worker(carrier, claimed)
    assert worker.task == other
    assert worker.complete("done")["id"] == other
    assert fleet.events(other)[-1].actor_name == "v"
    assert fleet.card(claimed["LEDGER_TASK"])["status"] == "running"


def test_a_worker_asks_for_a_review_and_has_lost_its_claim_then(fleet, claimed):
    """A verb ends the run; what comes after is refused, and the proof says why."""
    worker = Worker.from_environment(claimed)
    assert worker.review("please look", reviewer="dana")["status"] == "review"
    assert worker.proof() == Lost(Reason.NOT_RUNNING, "the card is review")
    with pytest.raises(LostClaim):
        worker.heartbeat()


def test_a_worker_blocks_its_card(fleet, claimed):
    """With a kind of its own."""
    assert Worker.from_environment(claimed).block("which colour?", kind="needs_input")["status"] == "blocked"


def test_a_turn_gets_the_prompt_of_the_card(fleet, claimed, tmp_path):
    """Unless another is given."""
    (tmp_path / "prompt.md").write_text("mend it")
    worker, texts = Worker.from_environment(claimed | {"LEDGER_PROMPT": str(tmp_path / "prompt.md")}), []
    for prompt in (None, "another"):
        worker.run(lambda text: texts.append(text) or {}, prompt)
    assert texts == ["mend it", "another"]


@pytest.mark.parametrize("value", ["", " "])
def test_a_claim_by_hand_has_neither_prompt_nor_workspace(claimed, value):
    """Unset or blank: the refusal names the variable, before a turn."""
    said = {"LEDGER_PROMPT": value, "LEDGER_WORKSPACE": value} if value else {}
    worker, texts = Worker.from_environment(claimed | said), []
    with pytest.raises(InvalidInput, match="LEDGER_PROMPT is not set"):
        worker.run(texts.append)
    with pytest.raises(InvalidInput, match="LEDGER_WORKSPACE is not set"):
        _ = worker.workspace
    assert texts == []


def test_a_prompt_that_is_not_utf_8_is_read(claimed, tmp_path):
    """What cannot be decoded is replaced."""
    (tmp_path / "prompt.md").write_bytes(b"mend the caf\xe9")
    worker = Worker.from_environment(claimed | {"LEDGER_PROMPT": str(tmp_path / "prompt.md")})
    assert worker.prompt == "mend the caf\ufffd"
