"""Spans for OpenTelemetry: of ticks, of their parts and of runs. Without a collector that is named, nothing is loaded.

The ids of a run's span are made from the board's id, the card and the run's number, so every process knows them
without a word: the claimer tells them to the worker, and whichever sweep counts the end tells of the whole run.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from ledger.clock import SECOND
from ledger.events import COUNTED

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

    from kanban.desk import Desk
    from kanban.tick import Tick
    from projections.counted import Ended
    from projections.run import Run

EXPORTER: Final = "OTEL_TRACES_EXPORTER"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
LATEST: Final = 86_400 * SECOND
"""A run that ended so long before a sweep counted it is not told of: collectors take no news of old (microseconds)."""
_KNOWN: Final = ("otlp", "console")
_PATIENCE: Final = 3.0  # seconds that the end of a process waits for a collector
_MICRO: Final = 1_000  # nanoseconds


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether *environ* names where spans go."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    named = environ.get(EXPORTER)
    return named != "none" if named else any(environ.get(name) for name in ENDPOINTS)


def hindrance(environ: Mapping[str, str]) -> str | None:
    """Why there will be no spans although they are wanted, in one line; none where there will, or nobody wants any."""
    if not is_wanted(environ):
        return None
    named = environ.get(EXPORTER) or "otlp"
    if named not in _KNOWN:
        return f"no traces: {EXPORTER} is {named!r}; known are {', '.join(_KNOWN)} and none"
    if not _is_installed():
        return "no traces: OpenTelemetry is not installed: pip install 'kanban-ledger[otel]'"
    return None


def tracing_of(environ: Mapping[str, str]) -> Tracing | None:
    """What tells of ticks and runs where *environ* says; none where they are not wanted, or cannot be told."""
    if not is_wanted(environ) or hindrance(environ) is not None:
        return None
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    _quieten()
    tracing = Tracing(BatchSpanProcessor(_exporter(environ)))
    atexit.register(tracing.end)
    return tracing


def ids_of(board_id: str, task: str, run: int) -> tuple[int, int]:
    """The trace and the span of a run: the same in every process, and of no other run."""
    digest = hashlib.sha256("\0".join((board_id, task, str(run))).encode()).digest()
    return int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")


def recent_runs(desk: Desk, ended: Iterable[Ended]) -> list[Run]:
    """Of what has *ended*, the runs that are worth telling of: see `LATEST`."""
    runs = [desk.run(each.task, each.run) for each in ended if each.run is not None]
    return [run for run in runs if run is not None and (run.ended_at or 0) > desk.now - LATEST]


class Tracing:
    """Tells *processor* of ticks and runs, each once it is over."""

    def __init__(self, processor: SpanProcessor) -> None:
        from opentelemetry.sdk.trace import TracerProvider

        self._ids = _ids()
        self._provider = TracerProvider(resource=_resource(), id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("kanban-ledger")

    def traceparent(self, board_id: str, task: str, run: int) -> str:
        """What a worker continues the trace of its run from (W3C Trace Context)."""
        trace, span = ids_of(board_id, task, run)
        decision: Any = self._provider.sampler.should_sample(None, trace, "run").decision
        sampled = decision.is_sampled()
        return f"00-{trace:032x}-{span:016x}-{int(sampled):02x}"

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
        from opentelemetry.trace import set_span_in_context

        span = self._begun("tick", tick.laps.begun, _of_tick(board, host, tick))
        for lap in tick.laps.told:
            part = self._tracer.start_span(f"tick.{lap.phase}", set_span_in_context(span), start_time=lap.begun)
            part.end(lap.ended)
        if fault is not None:
            _failed(span, type(fault).__name__)
        elif tick.errors:
            _failed(span, f"{len(tick.errors)} faults")
        span.end(tick.laps.now)

    def _begun(self, name: str, at: int, attributes: Mapping[str, Any]) -> Any:
        from opentelemetry.context import Context

        told = {key: value for key, value in attributes.items() if value is not None}
        return self._tracer.start_span(name, Context(), attributes=told, start_time=at)


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
        "ledger.skipped": tick.skipped,
        **{f"ledger.{name}": len(getattr(tick, name)) for name in counted},
    }


def _failed(span: Any, why: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, why))


def _is_installed() -> bool:
    try:
        return all(find_spec(f"opentelemetry.{name}") for name in ("sdk.trace", "exporter.otlp.proto.http"))
    except ModuleNotFoundError:
        return False


def _exporter(environ: Mapping[str, str]) -> Any:
    """Where to, by the standard's own variables; what is for eyes goes to stderr, since stdout is for data."""
    if environ.get(EXPORTER) == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _resource() -> Any:
    from opentelemetry.sdk.resources import Resource

    said = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({} if said else {"service.name": "ledger"})


def _ids() -> Any:
    """The ids of the next root span where they are wanted, else such as nobody else has."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        wanted: tuple[int, int] | None = None

        def generate_trace_id(self) -> int:
            return super().generate_trace_id() if self.wanted is None else self.wanted[0]

        def generate_span_id(self) -> int:
            wanted, self.wanted = self.wanted, None
            return super().generate_span_id() if wanted is None else wanted[1]

    return Ids()


def _quieten() -> None:
    """One line for each thing that goes wrong with a collector, and that once: it is no reason to stop."""
    log = logging.getLogger("opentelemetry")
    if log.handlers:
        return
    told: set[str] = set()
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.msg not in told and not told.add(record.msg))  # type: ignore[func-returns-value]
    handler.setFormatter(_OneLine("note: traces: %(message)s"))
    log.addHandler(handler)
    log.propagate = False


class _OneLine(logging.Formatter):
    """A record without the traceback that some carry."""

    def format(self, record: logging.LogRecord) -> str:
        """It, on one line."""
        return " ".join((self._fmt or "").replace("%(message)s", record.getMessage()).split())
