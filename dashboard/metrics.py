"""What a monitoring system asks of the server: its metrics, whether it lives, whether its store can be read."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from kanban.measures import last_replay
from ledger.errors import LedgerError
from ledger.standing import head
from ledger.upgrade import check_revision
from projections.measured import Known, measured

metrics_router = APIRouter(tags=["monitoring"])


@metrics_router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    """Every metric of the board, for Prometheus. What only events move is read again only where the log has grown."""
    from dashboard.exposition import exposed

    source, state = request.app.state.source, request.app.state
    known: Known | None = getattr(state, "known", None)
    with source.reading() as tx:
        noted = last_replay(source.home, source.board)
        own = {} if noted is None else {source.face.host.id: noted}
        state.known, samples = measured(tx, source.board, source.now(tx), known, noted=own)
    text, content_type = exposed(samples, request.headers.get("accept", ""))
    return Response(text, media_type=content_type)


@metrics_router.get("/healthz", response_class=PlainTextResponse)
def healthz() -> str:
    """The process answers."""
    return "ok\n"


@metrics_router.get("/readyz", response_class=PlainTextResponse, responses={503: {"description": "not ready"}})
def readyz(request: Request) -> PlainTextResponse:
    """The store can be read, and its tables are those of this program; else 503, and why, in one line."""
    source = request.app.state.source
    try:
        with source.reading() as tx:
            head(tx, source.board)
        check_revision(source.engine, source.engine.url.render_as_string())
    except LedgerError as fault:
        return PlainTextResponse(f"{' '.join(fault.message.split())}\n", 503)
    except OSError as fault:  # the file went while it was looked at
        return PlainTextResponse(f"the store cannot be read: {fault.strerror}\n", 503)
    return PlainTextResponse("ok\n")
