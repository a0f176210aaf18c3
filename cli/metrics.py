"""`ledger metrics`: the board's metrics as Prometheus reads them, for a node exporter's textfile collector."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.wiring import Call, call_of, usage, verb
from ledger.errors import LedgerError

if TYPE_CHECKING:
    from projections.measured import Samples

app = typer.Typer()


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
        if output is not None:
            raise usage("--output takes the text of Prometheus: leave out --json")
        call.out.answer({"metrics": list(_as_json(_measured(call)))})
        return
    if find_spec("prometheus_client") is None:
        raise LedgerError(
            "metrics need prometheus_client, which is not installed", remedy="pip install 'kanban-ledger[dashboard]'"
        )
    from dashboard.exposition import exposed

    text, _ = exposed(_measured(call))
    if output is None:
        call.out.line(text.decode().removesuffix("\n"))
    else:
        _write(output, text)


def _measured(call: Call) -> Samples:
    from kanban.measures import last_replay
    from projections.measured import measured

    board = call.questions
    noted = last_replay(board.home, board.name)
    with board.look() as desk:
        own = {} if noted is None else {board.host.id: noted}
        return measured(desk.rows, desk.board, desk.now, noted=own)[1]


def _as_json(samples: Samples) -> Iterator[dict[str, Any]]:
    from projections.measured import FAMILIES

    for family in FAMILIES:
        for labels, value in samples.get(family.name, []):
            told = {"count": value[0], "sum": value[1]} if isinstance(value, tuple) else {"value": value}
            yield {"name": family.name, "labels": dict(zip(family.labels, labels, strict=True)), **told}


def _write(path: Path, text: bytes) -> None:
    """A collector of another user reads it, and never half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(text)
        draft.chmod(0o644)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
