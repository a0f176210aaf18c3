"""`ledger metrics`: the board's metrics as Prometheus reads them, for a node exporter's textfile collector."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cli.wiring import call_of, usage, verb
from ledger.errors import LedgerError

app = typer.Typer()


class MetricsMissing(LedgerError):
    """Metrics are written by a library that is installed on demand."""

    def __init__(self) -> None:
        super().__init__(
            "metrics need prometheus_client, which is not installed", remedy="pip install 'kanban-ledger[dashboard]'"
        )


@verb(app)
def metrics(
    ctx: typer.Context,
    *,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write there, whole or not at all, and print nothing.", show_default=False),
    ] = None,
) -> None:
    """Print the board's metrics as Prometheus reads them; ledger serve answers the same at /metrics.

    From cron, for a node exporter: ledger metrics --output /var/lib/node_exporter/ledger.prom
    """
    call = call_of(ctx)
    if call.out.json:
        raise usage("metrics are text for Prometheus: leave out --json (ledger stats has JSON)")
    if find_spec("prometheus_client") is None:
        raise MetricsMissing
    from dashboard.exposition import exposed
    from projections.measured import measured

    with call.questions.look() as desk:
        _, samples = measured(desk.rows, desk.board, desk.now)
    text, _ = exposed(samples)
    if output is None:
        call.out.line(text.decode().removesuffix("\n"))
    else:
        _write(output, text)


def _write(path: Path, text: bytes) -> None:
    """A collector of another user reads it, and never half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(text)
        draft.chmod(0o644)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
