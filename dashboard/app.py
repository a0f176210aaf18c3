"""The app of a board's live page: every route there is, behind the guard."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from dashboard import acts, api, stream
from dashboard.faults import NoSuchPage, refused
from dashboard.guard import Guard
from dashboard.source import Source
from dashboard.tokens import Tokens
from ledger.errors import InvalidInput, LedgerError

STATIC: Final = Path(__file__).parent / "static"


def make_app(source: Source, tokens: Tokens, *, names: Collection[str] = ()) -> FastAPI:
    """The page of *source* for the bearers of *tokens*; it may be called *names* beside IP addresses and `localhost`.

    `app.state` has `source`, `tokens`, and `live`, whose `close` ends every open stream.
    """
    from dashboard import metrics, pages

    app = FastAPI(
        title="kanban-ledger", version="1", openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.source, app.state.tokens, app.state.live = source, tokens, stream.Live(source)
    for router in (api.router, api.acting, acts.router, stream.router, pages.router, metrics.metrics_router):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(LedgerError, _refuse)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _other)
    app.add_middleware(Guard, tokens=tokens, names=names)
    return app


def _refuse(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, LedgerError)
    return refused(request, fault)


def _invalid(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, RequestValidationError)
    first = fault.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return refused(request, InvalidInput(f"{where}: {first['msg']}", remedy="see /api/openapi.json"))


def _other(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    if fault.status_code == HTTPStatus.NOT_FOUND:
        return refused(request, NoSuchPage())
    if fault.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return refused(request, InvalidInput(str(fault.detail), remedy="see /api/openapi.json"))
    answer = refused(request, InvalidInput(f"{request.method} is not for {request.url.path}"))
    answer.status_code = fault.status_code
    answer.headers.update(fault.headers or {})
    return answer
