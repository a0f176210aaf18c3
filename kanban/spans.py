"""Spans for OpenTelemetry: of ticks, of their parts and of runs, each told once it is over. Loads the extra `otel`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

from kanban.tick import Tick
from kanban.tracing import ids_of
from ledger.events import COUNTED
from projections.run import Run

_PATIENCE: Final = 3.0  # seconds that the end of a process waits for a collector
_MICRO: Final = 1_000  # nanoseconds


class Tracing:
    """Tells *processor* of ticks and runs."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._ids = _Ids()
        self._provider = TracerProvider(resource=_resource(), id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("kanban-ledger")

    def traceparent(self, board_id: str, task: str, run: int) -> str:
        """What a worker continues the trace of its run from (W3C Trace Context)."""
        trace, span = ids_of(board_id, task, run)
        decision: Any = self._provider.sampler.should_sample(None, trace, "run").decision
        return f"00-{trace:032x}-{span:016x}-{int(decision.is_sampled()):02x}"

    @contextmanager
    def ticking(self, board: str, host: str, tick: Tick) -> Iterator[None]:
        """Tell of *tick* and its parts when the block ends, however it does."""
        fault: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            fault = raised
            raise
        finally:
            self._tick(board, host, tick, fault)

    def runs(self, board: str, board_id: str, ended: Iterable[Run]) -> None:
        """Tell of *ended* runs, from their claim to their end."""
        for run in ended:
            self._ids.wanted = ids_of(board_id, run.task, run.run)
            span = self._begun("run", run.claimed_at * _MICRO, _of_run(board, run))
            if run.outcome in COUNTED:
                _failed(span, str(run.outcome))
            span.end((run.ended_at or run.claimed_at) * _MICRO)

    def end(self) -> None:
        """Send what waits; a collector that does not answer is given a few seconds."""
        sending = Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(_PATIENCE)

    def _tick(self, board: str, host: str, tick: Tick, fault: BaseException | None) -> None:
        span = self._begun("tick", tick.laps.begun, _of_tick(board, host, tick))
        for lap in tick.laps.told:
            part = self._tracer.start_span(f"tick.{lap.phase}", set_span_in_context(span), start_time=lap.begun)
            part.end(lap.ended)
        if fault is not None:
            _failed(span, type(fault).__name__)
        elif tick.errors:
            _failed(span, f"{len(tick.errors)} faults")
        span.end(tick.laps.now)

    def _begun(self, name: str, at: int, attributes: Mapping[str, Any]) -> Span:
        told = {key: value for key, value in attributes.items() if value is not None}
        return self._tracer.start_span(name, Context(), attributes=told, start_time=at)


def to_collector(*, console: bool) -> Tracing:
    """Tell whom the standard's own variables name, in the background; what is for eyes goes to stderr."""
    _quieten()
    tracing = Tracing(BatchSpanProcessor(ConsoleSpanExporter(out=sys.stderr) if console else OTLPSpanExporter()))
    atexit.register(tracing.end)
    return tracing


class _Ids(RandomIdGenerator):
    """The ids of the next root span where they are wanted, else such as nobody else has."""

    wanted: tuple[int, int] | None = None

    def generate_trace_id(self) -> int:
        """The trace's; the span's is asked for next."""
        return super().generate_trace_id() if self.wanted is None else self.wanted[0]

    def generate_span_id(self) -> int:
        """The span's."""
        wanted, self.wanted = self.wanted, None
        return super().generate_span_id() if wanted is None else wanted[1]


def _of_run(board: str, run: Run) -> dict[str, Any]:
    return {
        "ledger.board": board,
        "ledger.task": run.task,
        "ledger.run": run.run,
        "ledger.worker": run.worker,
        "ledger.lane": run.lane,
        "ledger.outcome": run.outcome,
        "ledger.tokens": run.tokens,
        "ledger.cost": run.cost,
        "process.exit.code": run.code,
        "host.id": run.host,
    }


def _of_tick(board: str, host: str, tick: Tick) -> dict[str, Any]:
    counted = ("booked", "stopped", "renewed", "lifted", "claimed", "errors")
    return {
        "ledger.board": board,
        "host.id": host,
        **{f"ledger.{name}": len(getattr(tick, name)) for name in counted},
    }


def _failed(span: Span, why: str) -> None:
    span.set_status(Status(StatusCode.ERROR, why))


def _resource() -> Resource:
    said = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({} if said else {"service.name": "ledger"})


def _quieten() -> None:
    """One line for each thing that goes wrong with a collector, and that once: it is no reason to stop."""
    log = logging.getLogger("opentelemetry")
    if log.handlers:
        return
    handler = logging.StreamHandler()
    handler.addFilter(_Once())
    handler.setFormatter(_OneLine())
    log.addHandler(handler)
    log.propagate = False


class _Once(logging.Filter):
    """Lets each message pass once, whatever it names."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is new."""
        new = record.msg not in self._told
        self._told.add(record.msg)
        return new


class _OneLine(logging.Formatter):
    """A record without the traceback that some carry."""

    def format(self, record: logging.LogRecord) -> str:
        """It, on one line."""
        return f"note: traces: {' '.join(record.getMessage().split())}"
