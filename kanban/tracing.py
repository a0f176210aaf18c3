"""Whether spans of ticks and runs are told, and to whom. Without a collector that is named, nothing is loaded.

The ids of a run's span are made from the board's id, the card and the run's number, so every process knows them
without a word: the claimer tells them to the worker, and whichever sweep counts the end tells of the whole run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ledger.clock import SECOND

if TYPE_CHECKING:
    from kanban.desk import Desk
    from kanban.spans import Tracing
    from projections.counted import Ended
    from projections.run import Run

EXPORTER: Final = "OTEL_TRACES_EXPORTER"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
LATEST: Final = 86_400 * SECOND
"""A run that ended so long before a sweep counted it is not told of: collectors take no news of old (microseconds)."""
_KNOWN: Final = ("otlp", "console")


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
    from kanban.spans import to_collector

    return to_collector(console=environ.get(EXPORTER) == "console")


def ids_of(board_id: str, task: str, run: int) -> tuple[int, int]:
    """The trace and the span of a run: the same in every process, and of no other run."""
    digest = hashlib.sha256("\0".join((board_id, task, str(run))).encode()).digest()
    return int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")


def recent_runs(desk: Desk, ended: Iterable[Ended]) -> list[Run]:
    """Of what has *ended*, the runs that are worth telling of: see `LATEST`."""
    runs = [desk.run(each.task, each.run) for each in ended if each.run is not None]
    return [run for run in runs if run is not None and (run.ended_at or 0) > desk.now - LATEST]


def _is_installed() -> bool:
    try:
        return all(find_spec(f"opentelemetry.{name}") for name in ("sdk.trace", "exporter.otlp.proto.http"))
    except ModuleNotFoundError:
        return False
