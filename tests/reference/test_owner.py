"""An owner takes the turns of a claim, and a client waits for them: the reference system's cases, in our words.

The owner's own environment names a foreign claim wherever it could matter: all comes from the frame.
"""

import json
import logging
import subprocess
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import UnixStreamServer
from threading import Event, Thread

import pytest

from kanban.refusals import Forbidden
from kanban.worker.admitting import NotNow, admit, binding_of
from kanban.worker.frame import Frame
from kanban.worker.identity import Identity
from kanban.worker.owner import Owner
from kanban.worker.place import folder_of
from kanban.worker.serving import serve
from kanban.worker.submissions import Client
from ledger.clock import system_clock
from ledger.ids import lock_hash
from tests.fleets import PATIENCE
from tests.owners import CLIENT, own
from tests.reference.workers import (
    BILLING,
    INTERRUPT,
    PARTIAL,
    QUOTA,
    SETTLED,
    SUCCESS,
    TIMEOUT,
    UPSTREAM_QUOTA,
    Turns,
    hold,
    ticking,
)

LOGGER = "kanban.worker.recovery"
FOREIGN = {
    "LEDGER_TASK": "t_foreign",
    "LEDGER_RUN": "9",
    "LEDGER_LOCK": "another-lock",
    "LEDGER_BOARD": "elsewhere",
    "LEDGER_DATABASE_URL": "sqlite:////nowhere/ledger.db",
}
"""A claim that is not the frame's."""


@pytest.fixture
def foreign(monkeypatch):
    """This process's environment names a foreign claim, and a budget of its own."""
    for name, value in {**FOREIGN, "LEDGER_TURN_RECOVERY": "7"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bound(fleet):
    """A claim whose turns this process has taken, its frame, and this process as an owner."""
    held = hold(fleet)
    owner = Owner(lambda *_: None, assignee="w", home=fleet.home)
    ((pid, tick),) = owner.identity.processes
    admit(held.carrier, binding_of(owner.host, pid, tick), "w", system_clock)
    return held, Frame.of("do it", held.environment(LEDGER_TURN_RECOVERY="")), owner.identity


def served(turns, bound, **means):
    """What serving the bound frame comes to."""
    _, frame, identity = bound
    slept = []
    means = {"sleep": slept.append, "clock": system_clock} | means
    return serve(lambda text, _: turns(text), frame, identity, **means)


def answer_of(command, fleet, **environ):
    """A process that ends, in the fleet's environment."""
    given = fleet.environ | environ
    return subprocess.run(
        command, env=given, cwd=fleet.home, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def ledger(*argv):
    """The command line, as a process of its own."""
    return [sys.executable, "-c", "from cli.main import main; main()", *argv]


def test_recovers_in_place(fleet):
    """A real owner and client: two turns in one run; the second text has the phrase and the frame's card alone."""
    owner = own(fleet, TIMEOUT, SUCCESS, **FOREIGN)
    fleet.staff({"w": {"command": CLIENT, "on_success": "complete"}})
    card = fleet.create()
    fleet.finish(card)
    assert [run["outcome"] for run in fleet.runs(card)] == ["ok"]
    first, second = owner.turns
    assert (first["turn"], second["turn"]) == (1, 2)
    assert "Do NOT start over" in second["text"]
    assert card in second["text"]
    assert not set(FOREIGN.values()) & {value for turn in owner.turns for value in turn["environment"].values()}
    assert "t_foreign" not in second["text"]
    assert not FOREIGN.keys() & second["own"].keys()
    assert (second["task"], second["run"], second["environment"]["LEDGER_TASK"]) == (card, 1, card)
    owners = [event.facts["pid"] for event in fleet.events(card, "worker_bound") if event.facts["role"] == "turns"]
    assert owners == [owner.pid]


def test_a_spent_budget_stops_and_releases(fleet):
    """The frame's budget of 1, whatever the owner's own says: two turns, 75, and the card waits for its cooldown."""
    owner = own(fleet, TIMEOUT, LEDGER_TURN_RECOVERY="9", **FOREIGN)
    fleet.staff({"w": {"command": CLIENT, "env": {"LEDGER_TURN_RECOVERY": "1"}}})
    card = fleet.create()
    run = fleet.ended(card)
    assert (run["outcome"], run["code"], len(owner.turns)) == ("rate_limited", 75, 2)
    assert fleet.counters(card) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param(None, 1, id="nothing-settled"),
        pytest.param(PARTIAL, 1, id="denial-unfinished-turn"),
        pytest.param(QUOTA, 75, id="quota-wall"),
        pytest.param(BILLING, 75, id="billing-wall"),
        pytest.param(UPSTREAM_QUOTA, 75, id="upstream-quota-wall"),
        pytest.param(INTERRUPT, 130, id="interrupt"),
        pytest.param(SETTLED, 75, id="terminal-settlement"),
        pytest.param(SUCCESS, 0, id="success"),
    ],
)
def test_one_turn_and_its_code(bound, foreign, said, code):
    """No other turn is taken."""
    turns = Turns([said, SUCCESS])
    assert (served(turns, bound).code, len(turns.texts)) == (code, 1)


def test_the_budget_is_the_frames(bound, foreign):
    """The owner's own says 7; blank in the frame is 3."""
    turns = Turns([TIMEOUT])
    assert (served(turns, bound).code, len(turns.texts)) == (75, 4)
    assert all("t_foreign" not in text for text in turns.texts)


def test_a_lost_claim_stops_before_the_agent_is_entered_again(bound, foreign, caplog):
    """The lease ends with the first turn: 75, since the code follows the result; the log says why."""
    held, _, _ = bound
    turns = Turns([TIMEOUT])
    with caplog.at_level(logging.WARNING, logger=LOGGER):
        ended = served(turns, bound, clock=ticking(held.lease_until, held.lease_until + 1))
    assert (ended.code, len(turns.texts)) == (75, 1)
    assert any("no longer holds a live run/claim" in record.getMessage() for record in caplog.records)


def test_a_turn_is_proved_for_the_process_that_took_the_turns(bound, caplog):
    """Another owner, though it has the lock: no turn, 1."""
    _, frame, identity = bound
    other = Identity(identity.host, identity.boot, identity.namespace, frozenset({(1, 1)}))
    turns = Turns([SUCCESS])
    ended = serve(lambda text, _: turns(text), frame, other)
    assert (ended.code, turns.texts) == (1, [])
    assert "other_worker" in caplog.text


def test_a_frame_without_a_claim_is_never_recovered(foreign):
    """Though the environment names a card: one turn on the text as it is, and the very object that was answered."""
    said = dict(TIMEOUT)
    turns = Turns([said, SUCCESS])
    identity = Identity("h", "b", "n", frozenset())
    ended = serve(lambda text, _: turns(text), Frame.of("what is up?", {}), identity)
    assert ended.said is said
    assert (ended.code, turns.texts) == (1, ["what is up?"])


def test_the_client_reports_the_owners_code_and_reply(fleet):
    """A failure that stays: its text on stdout, the owner's code as the client's own and in its trailer; one turn."""
    owner = own(fleet, TIMEOUT | {"final_response": "the provider is away"}, **FOREIGN)
    fleet.staff({"w": {"command": CLIENT, "env": {"LEDGER_TURN_RECOVERY": "0"}}})
    card = fleet.create()
    run = fleet.ended(card)
    assert (run["outcome"], run["code"], run["last_words"]) == ("rate_limited", 75, "the provider is away")
    said = (fleet.folder(card) / "log").read_text()
    assert said.startswith("the provider is away\n\n[kanban-worker-exit] rc=75 run=1\n")
    assert [turn["text"] for turn in owner.turns] == [(fleet.folder(card) / "prompt.md").read_text()]
    wrote = json.loads((fleet.folder(card) / "owner.json").read_text())
    assert (wrote["task"], wrote["run"], wrote["code"], wrote["pid"]) == (card, 1, 75, owner.pid)


def test_an_error_without_a_reply_is_told(fleet):
    """It stands in the run's log, before the trailer, and so a quota pattern finds it."""
    own(fleet, {"failed": True, "error": "429: come back"})
    fleet.staff({"w": {"command": CLIENT, "quota": ["^429:"]}})
    card = fleet.create()
    run = fleet.ended(card)
    assert (run["outcome"], run["code"], run["last_words"]) == ("rate_limited", 1, "429: come back")
    assert json.loads((fleet.folder(card) / "owner.json").read_text())["reply"] == "429: come back"
    ran = answer_of(ledger("worker", "ask", "what is up?", "--assignee", "w"), fleet)
    assert (ran.returncode, ran.stdout) == (1, "\n")
    assert ran.stderr.startswith("error: 429: come back\nsession_id: ")


def test_what_would_end_a_program_settles_nothing(bound, foreign, caplog):
    """The seat's thread goes on, and the run ends with 1."""

    def leave(*_):
        raise SystemExit(0)

    _, frame, identity = bound
    assert serve(leave, frame, identity).code == 1
    assert "SystemExit" in caplog.text


@pytest.fixture
def taking(fleet):
    """An owner that takes submissions, and a claim's frame."""
    return Owner(lambda *_: None, assignee="w", home=fleet.home), Frame.of("do it", hold(fleet).environment())


def test_nothing_is_taken_for_a_client_that_is_gone(taking, fleet):
    """No binding, and no turn."""
    owner, frame = taking
    ((pid, tick),) = owner.identity.processes
    for asked in (frame, Frame.of("what is up?", {})):
        with pytest.raises(Forbidden, match=f"process {pid} is gone"):
            owner.submit("r1", asked, Client(pid, tick + 1))
        assert owner.known("r1") is None
    assert "worker_bound" not in fleet.kinds(frame.claim.task)


def test_a_client_that_goes_while_it_is_admitted_gets_no_turn(taking, monkeypatch):
    """It is looked at again before its submission is queued."""
    owner, frame = taking
    looks = iter([True, False])
    monkeypatch.setattr(Client, "lives", property(lambda _: next(looks)))
    with pytest.raises(Forbidden):
        owner.submit("r1", frame, Client(1, 1))
    assert owner.known("r1") is None


def test_an_admission_that_takes_long_keeps_nobody_in_line(taking, monkeypatch):
    """Another claim's is not now, before its client gives up; a question needs none."""
    owner, frame = taking
    ((pid, tick),) = owner.identity.processes
    go, begun = Event(), Event()

    def admit_slowly(*_):
        begun.set()
        go.wait(timeout=PATIENCE)
        raise NotNow("paused")

    monkeypatch.setattr("kanban.worker.admitting.admit", admit_slowly)
    monkeypatch.setattr("kanban.worker.owner._LINE", 0.05)

    def submit():
        with suppress(NotNow):
            owner.submit("r1", frame, Client(pid, tick))

    thread = Thread(target=submit)
    thread.start()
    assert begun.wait(timeout=PATIENCE)
    with pytest.raises(NotNow, match="busy"):
        owner.submit("r2", frame, Client(pid, tick))
    assert owner.submit("r3", Frame.of("what is up?", {}), Client(pid, tick)).state == "queued"
    go.set()
    thread.join()


class Door(BaseHTTPRequestHandler):
    """An owner of air: it takes everything, and writes down what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        """A submission."""
        frame = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(("POST", frame))
        self._say(202, {"id": "r1", "state": "queued"})

    def do_GET(self):
        """A reading of the receipt: running, once, then terminal."""
        self.server.asked.append(("GET", self.path.partition("?")[0]))
        self._say(200, {"id": "r1", **self.server.receipts.pop(0)})

    def _say(self, status, said):
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Nothing."""

    def address_string(self):
        """A socket of this machine has none."""
        return ""


@pytest.fixture
def air(fleet, monkeypatch):
    """The door of an owner of `w` that keeps what it is asked, and answers from a list of receipts."""
    folder = folder_of(fleet.home, fleet.board.host.id, "w")
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.chdir(folder)
    server = UnixStreamServer("door", Door)
    server.asked, server.receipts = [], [{"state": "running"}]
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_the_client_submits_exactly_once(fleet, air):
    """One submission of the whole claim, then only readings; the code is what stands in the run's own folder."""
    held = hold(fleet)
    folder = fleet.folder(held.carrier.task)
    folder.mkdir(parents=True)
    (folder / "prompt.md").write_text("mend it")
    claim = {"task": held.carrier.task, "run": 1, "lock_hash": lock_hash(held.carrier.lock)}
    (folder / "owner.json").write_text(json.dumps({"schema": 1, **claim, "code": 75, "signal": None}))
    air.receipts.append({"state": "terminal", "code": 0, "reply": "come back later"})
    environ = held.environment(LEDGER_PROMPT=str(folder / "prompt.md"))
    ran = answer_of(ledger("worker", "client", "--assignee", "w"), fleet, **environ)
    assert (ran.returncode, ran.stdout) == (75, "come back later\n")
    assert ran.stderr.endswith("\n[kanban-worker-exit] rc=75 run=1\n")
    (method, frame), *rest = air.asked
    assert (method, frame["text"]) == ("POST", "mend it")
    assert frame["environment"].items() >= held.carrier.as_environment().items()
    assert rest == [("GET", "/turns/r1")] * 2


def test_a_question_without_a_claim_prints_its_text_and_its_session(fleet, air):
    """A failed turn is 1, for nobody's card; one submission, and only readings of its receipt besides."""
    failed = {"state": "terminal", "code": 1, "reply": "the wall", "result": QUOTA | {"session_id": "s-17"}}
    air.receipts.append(failed)
    ran = answer_of(ledger("worker", "ask", "what is up?", "--assignee", "w"), fleet)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "the wall\n", "session_id: s-17\n")
    assert air.asked == [("POST", {"text": "what is up?", "environment": {}}), *[("GET", "/turns/r1")] * 2]


def test_a_question_is_one_turn_of_the_warm_agent(fleet):
    """A real owner, with a foreign claim of its own: no recovery, exit by the policy of who is no worker."""
    owner = own(fleet, QUOTA | {"final_response": "the wall", "session_id": "s-17"}, SUCCESS, **FOREIGN)
    ran = answer_of(ledger("worker", "ask", "what is up?", "--assignee", "w"), fleet)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "the wall\n", "session_id: s-17\n")
    assert [(turn["text"], turn["task"], turn["environment"]) for turn in owner.turns] == [("what is up?", None, {})]
    told = json.loads(answer_of(ledger("worker", "ask", "again", "--assignee", "w", "--json"), fleet).stdout)
    assert (told["text"], told["code"], told["result"]) == (SUCCESS["final_response"], 0, SUCCESS)
    assert len(told["session_id"]) == 32
