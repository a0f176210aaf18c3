"""Spans of ticks and runs: told once, by whichever process books the end, and nothing where nobody wants them."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from kanban import tracing
from kanban.spans import Tracing
from kanban.tracing import hindrance, ids_of, is_wanted, tracing_of
from ledger.clock import SECOND
from tests.fleets import PATIENCE, sh, until

SCRIPT = Path(sys.executable).with_name("ledger")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01")
TELLS = sh('printf "%s\\n" "$TRACEPARENT" > part; mv part "traceparent.$LEDGER_RUN"; exit 3')


@pytest.fixture(autouse=True)
def no_collector(monkeypatch):
    """None is named where these tests run."""
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


def traced(board):
    """*board*, whose sweeps tell of what they do; what they told."""
    memory = InMemorySpanExporter()
    board.sweeper.tracing = Tracing(SimpleSpanProcessor(memory))
    return memory


def named(memory, name):
    """The spans of that name."""
    return [span for span in memory.get_finished_spans() if span.name == name]


@pytest.fixture
def crashing(fleet):
    """A fleet whose worker writes its TRACEPARENT down and crashes."""
    fleet.staff({"w": {"command": TELLS}})
    return fleet


# Runs


def test_a_run_is_told_of_once_with_the_ids_that_its_worker_was_given(crashing):
    """From its claim to its end, as the log has them; a second run is a trace of its own."""
    memory = traced(crashing.board)
    card = crashing.create()
    first = crashing.ended(card, 1)
    given = crashing.line_in(card, "traceparent.1").strip()
    crashing.ended(card, 2)
    crashing.sweep_until(lambda: len(named(memory, "run")) == 2)
    one, two = named(memory, "run")
    assert f"00-{one.context.trace_id:032x}-{one.context.span_id:016x}-01" == given
    assert one.context.trace_id != two.context.trace_id
    assert one.parent is None
    claimed, ended = (crashing.events(card, kind)[0].at for kind in ("claimed", "exited"))
    assert (one.start_time, one.end_time) == (claimed * 1_000, ended * 1_000)
    told = {"ledger.task": card, "ledger.run": 1, "ledger.worker": "w", "ledger.outcome": "crashed"}
    assert told.items() <= one.attributes.items()
    assert one.attributes["process.exit.code"] == first["code"] == 3
    assert (one.status.status_code, one.status.description) == (StatusCode.ERROR, "crashed")


def test_a_run_is_told_of_by_whichever_process_counts_its_end(crashing):
    """The claimer is gone by then; both know the ids without a word."""
    gone, other = crashing.board, crashing.another()
    theirs, ours = traced(gone), traced(other)
    card = crashing.create()
    crashing.sweep()
    given = crashing.line_in(card, "traceparent.1").strip()
    until(lambda: other.sweep().errors == [] and named(ours, "run"))
    (run,) = named(ours, "run")
    assert PARENT.fullmatch(given).groups() == (f"{run.context.trace_id:032x}", f"{run.context.span_id:016x}")
    assert named(theirs, "run") == []


def test_a_run_that_its_worker_ended_is_told_of_too(fleet):
    """By the sweep that counts it: the worker itself knows no collector."""
    fleet.staff({"w": {"command": [str(SCRIPT), "complete", "all is well"]}})
    memory = traced(fleet.board)
    fleet.finish(fleet.create())
    fleet.clock.advance(60)  # the sweep's own row is due
    fleet.sweep_until(lambda: named(memory, "run"))
    (run,) = named(memory, "run")
    assert run.attributes["ledger.outcome"] == "ok"
    assert run.status.status_code is StatusCode.UNSET


def test_runs_of_long_ago_are_not_told_of(crashing):
    """A log that was never counted may have thousands, and collectors take no news of old."""
    card = crashing.create()
    granted = crashing.board.claim(card)
    crashing.board.block(card, "cannot", run=granted.run, lock=granted.lock)
    crashing.clock.advance(tracing.LATEST / SECOND + 60)
    memory = traced(crashing.board)
    crashing.sweep()
    assert named(memory, "run") == []
    assert len(named(memory, "tick")) == 1


def test_no_worker_is_given_a_trace_where_nobody_wants_any(crashing, monkeypatch):
    """Nor that of whoever started the sweep: it is none of the run's."""
    monkeypatch.setenv("TRACEPARENT", "00-" + "1" * 32 + "-" + "2" * 16 + "-01")
    card = crashing.create()
    crashing.sweep()
    assert crashing.line_in(card, "traceparent.1") == "\n"


def test_the_ids_of_runs_are_their_own():
    """And they are never 0, which would be no id."""
    runs = [("a", "t_1", 1), ("a", "t_1", 2), ("a", "t_2", 1), ("b", "t_1", 1), ("a", "t_", 11), ("a", "t_11", 1)]
    made = [ids_of(*run) for run in runs]
    assert made == [ids_of(*run) for run in runs]
    assert len({trace for trace, _ in made}) == len({span for _, span in made}) == len(runs)
    assert all(0 < trace < 2**128 and 0 < span < 2**64 for trace, span in made)


def test_a_worker_hears_whether_its_trace_is_kept(monkeypatch):
    """By the standard's own variables for samplers."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    memory = InMemorySpanExporter()
    tracing_ = Tracing(SimpleSpanProcessor(memory))
    assert tracing_.traceparent("b", "t_a", 1).endswith("-00")


# Ticks


def test_a_tick_is_told_of_with_its_parts(crashing):
    """One behind the other, inside the tick; an idle one has two, and says that nothing was done."""
    memory = traced(crashing.board)
    crashing.create()
    crashing.sweep()
    (tick,) = named(memory, "tick")
    parts = [named(memory, f"tick.{phase}")[0] for phase in ("observe", "plan", "apply", "start")]
    assert {part.parent.span_id for part in parts} == {tick.context.span_id}
    assert {part.context.trace_id for part in parts} == {tick.context.trace_id}
    edges = [edge for part in parts for edge in (part.start_time, part.end_time)]
    assert [tick.start_time, *edges, tick.end_time] == sorted([tick.start_time, *edges, tick.end_time])
    assert (tick.attributes["ledger.claimed"], tick.attributes["ledger.board"]) == (1, "default")
    assert tick.resource.attributes["service.name"] == "ledger"


def test_a_tick_that_fails_is_told_of_as_failed(crashing, monkeypatch):
    """And its fault is raised as ever."""
    memory = traced(crashing.board)

    def broken(*_given):
        raise ZeroDivisionError

    monkeypatch.setattr("kanban.sweep.observe", broken)
    with pytest.raises(ZeroDivisionError):
        crashing.board.sweep()
    (tick,) = named(memory, "tick")
    assert (tick.status.status_code, tick.status.description) == (StatusCode.ERROR, "ZeroDivisionError")


def test_a_fault_on_a_card_shows_on_its_tick(crashing, monkeypatch):
    """The others go on, and so does the tick."""
    memory = traced(crashing.board)
    crashing.create()

    def broken(*_given, **_more):
        raise ZeroDivisionError

    monkeypatch.setattr("kanban.sweep.open_run", broken)
    assert len(crashing.board.sweep().errors) == 1
    (tick,) = named(memory, "tick")
    assert (tick.status.status_code, tick.status.description) == (StatusCode.ERROR, "1 faults")


# On and off


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://127.0.0.1:1"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://127.0.0.1:1"}, False),
        ({"OTEL_SDK_DISABLED": "true", ENDPOINT: "http://127.0.0.1:1"}, False),
    ],
    ids=str,
)
def test_traces_are_wanted_where_the_standard_says_so(environ, wanted):
    """An endpoint or an exporter is named."""
    assert is_wanted(environ) is wanted
    assert wanted or hindrance(environ) is None


def test_what_is_wanted_and_cannot_be_is_said_in_one_line(fleet, monkeypatch):
    """The library is missing, or the exporter unknown: then there are no spans, and nothing else is different."""
    assert "known are otlp, console and none" in hindrance({"OTEL_TRACES_EXPORTER": "zipkin"})
    assert tracing_of({"OTEL_TRACES_EXPORTER": "zipkin"}) is None
    monkeypatch.setattr(tracing, "find_spec", lambda _name: None)
    assert tracing_of({ENDPOINT: "http://127.0.0.1:1"}) is None
    ran = _ledger(fleet, "sweep", OTEL_TRACES_EXPORTER="zipkin")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert [line for line in ran.stderr.splitlines() if "traces" in line] == [
        "note: no traces: OTEL_TRACES_EXPORTER is 'zipkin'; known are otlp, console and none"
    ]


def test_without_the_library_the_line_says_what_to_install(monkeypatch):
    """A parent package that is missing is missing, too."""
    for missing in (lambda _name: None, _no_parent):
        monkeypatch.setattr(tracing, "find_spec", missing)
        assert hindrance({ENDPOINT: "http://127.0.0.1:1"}) == (
            "no traces: OpenTelemetry is not installed: pip install 'kanban-ledger[otel]'"
        )


def _no_parent(name):
    raise ModuleNotFoundError(name)


def _ledger(fleet, *argv, **environ):
    return subprocess.run(
        [SCRIPT, *argv],
        env=fleet.environ | environ,
        cwd=fleet.home,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_off_it_costs_nothing(fleet):
    """Nothing of it is loaded by a sweep that starts workers and books their ends."""
    fleet.staff({"w": {"command": sh("exit 3")}})
    fleet.create()
    probe = (
        "import sys\n"
        "from kanban import Board\n"
        "with Board.open() as board:\n"
        "    assert board.sweep().claimed\n"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))"
    )
    command = [sys.executable, "-c", probe]
    ran = subprocess.run(
        command, env=fleet.environ, cwd=fleet.home, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ran.stdout == "[]\n"


# A collector


@pytest.fixture
def collector():
    """A real one, on a port of its own: its address, and what it was sent."""
    sent = []

    class Door(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            sent.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_given):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", sent
    server.shutdown()
    thread.join()
    server.server_close()


def spans_of(sent):
    """All spans that were sent."""
    return [
        span for _, request in sent for resource in request.resource_spans for scope in resource.scope_spans
        for span in scope.spans
    ]  # fmt: skip


def test_a_real_collector_is_told(crashing, collector):
    """By `ledger sweep` as cron runs it: what waits is sent before it ends; its answers stay what they are."""
    url, sent = collector
    card = crashing.create()
    ran = _ledger(crashing, "sweep", "--until-idle", "--json", OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert ran.returncode == 0, ran.stderr
    assert all(json.loads(line)["errors"] == [] for line in ran.stdout.splitlines())
    _ledger(crashing, "sweep", OTEL_EXPORTER_OTLP_ENDPOINT=url)
    names = [span.name for span in spans_of(sent)]
    assert {path for path, _ in sent} == {"/v1/traces"}
    assert {"tick", "tick.observe", "tick.plan", "tick.apply", "tick.start", "run"} <= set(names)
    given = crashing.line_in(card, "traceparent.1").strip()
    traces = {span.trace_id.hex() for span in spans_of(sent) if span.name == "run"}
    assert PARENT.fullmatch(given)[1] in traces


def test_a_collector_that_is_away_changes_nothing(crashing):
    """One line on stderr at most, the same exit code, and an end in a few seconds."""
    crashing.create()
    ran = _ledger(crashing, "sweep", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr
    assert len([line for line in ran.stderr.splitlines() if "traces" in line]) <= 2


def test_spans_for_eyes_go_to_stderr(crashing):
    """Stdout is for data."""
    crashing.create()
    ran = _ledger(crashing, "sweep", "--json", OTEL_TRACES_EXPORTER="console")
    assert len(ran.stdout.splitlines()) == 1
    assert '"name": "tick"' in ran.stderr
