"""The JSON routes: what the page shows, for programs; and the acts. `/api/openapi.json` describes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.requests import Request

from dashboard import acts, stream
from dashboard.acts import LARGEST_RUN, Ask, perform
from dashboard.board_view import LARGEST_PAGE, PAGE, Wanted, board_view, choices, column_view, counts
from dashboard.card_view import card_view
from dashboard.log_tail import log_tail
from dashboard.source import Source
from ledger.errors import UnknownRun, UnknownTask
from ledger.recorded import check_text
from ledger.standing import head
from projections.read_models import load_run, load_task

SCHEMA: Final = 1


class Fault(BaseModel):
    """What is wrong: *code* is what programs compare, *try* what to run next."""

    code: str
    message: str
    task: str | None
    try_: Annotated[str | None, Field(alias="try")]


class Refused(BaseModel):
    """Every error is one of these."""

    schema_: Annotated[int, Field(alias="schema")]
    error: Fault


class Answered(BaseModel):
    """Every other answer: more fields than these."""

    model_config = ConfigDict(extra="allow")
    schema_: Annotated[int, Field(alias="schema")]
    position: int


_READING: Final[dict[int | str, dict[str, Any]]] = {code: {"model": Refused} for code in (401, 404, 413, 421, 422, 503)}
_ACTING: Final = {**_READING, 403: {"model": Refused}, 409: {"model": Refused}}
router = APIRouter(prefix="/api", responses=_READING)
acting = APIRouter(prefix="/api", responses=_ACTING)

At = Annotated[int | None, Query(ge=0, le=stream.LATEST, description="a position of the log: the board as it stood")]
Card = Annotated[str, Path(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE)]
Text = Annotated[str | None, Query(max_length=500)]


def wanted_of(
    status: Text = None, assignee: Text = None, label: Text = None, tenant: Text = None, q: Text = None
) -> Wanted:
    """Which cards a request is about: `q` is any part of a title or an id."""
    return Wanted(status, assignee, label, tenant, q)


Filtered = Annotated[Wanted, Depends(wanted_of)]


def _answer(position: int, said: dict[str, Any]) -> JSONResponse:
    return JSONResponse({"schema": SCHEMA, **said, "position": position})


def _source(request: Request) -> Source:
    source: Source = request.app.state.source
    return source


@contextmanager
def _read(request: Request, at: int | None) -> Iterator[tuple[Connection, str, Source]]:
    source = _source(request)
    with source.reading(at) as tx:
        yield tx, source.board, source


@router.get("/board", response_model=Answered)
def board(request: Request, wanted: Filtered, *, limit: Limit = PAGE, at: At = None) -> JSONResponse:
    """The board in columns: how many cards each has, and the first of them."""
    with _read(request, at) as (tx, name, _):
        found = board_view(tx, name, wanted, limit=limit)
    return _answer(found.position, found.as_json())


@router.get("/tasks", response_model=Answered)
def tasks(
    request: Request, wanted: Filtered, *, after: Text = None, limit: Limit = PAGE, at: At = None
) -> JSONResponse:
    """The column of a status, a page at a time: `next` is what to give as *after*."""
    with _read(request, at) as (tx, name, _):
        found, position = column_view(tx, name, wanted, after=after, limit=limit), head(tx, name).position
    return _answer(position, found.as_json())


@router.get("/counts", response_model=Answered)
def how_many(request: Request, wanted: Filtered, *, at: At = None) -> JSONResponse:
    """How many cards stand in each status."""
    with _read(request, at) as (tx, name, _):
        found, position = counts(tx, name, wanted), head(tx, name).position
    return _answer(position, {"counts": found})


@router.get("/choices", response_model=Answered)
def can_be_chosen(request: Request, at: At = None) -> JSONResponse:
    """What the cards can be filtered by."""
    with _read(request, at) as (tx, name, _):
        found, position = choices(tx, name), head(tx, name).position
    said = {"assignees": found.assignees, "labels": found.labels, "tenants": found.tenants}
    return _answer(position, said)


@router.get("/tasks/{task}", response_model=Answered)
def one(request: Request, task: Card, at: At = None) -> JSONResponse:
    """One card whole."""
    with _read(request, at) as (tx, name, source):
        now = source.now(tx) if at is None else head(tx, name).at
        found = card_view(tx, name, task, now=now, then=at is not None)
    return _answer(found.position, found.as_json())


@router.get("/tasks/{task}/runs/{run}/log", response_model=Answered)
def log(request: Request, task: Card, run: Annotated[int, Path(ge=1, le=LARGEST_RUN)]) -> JSONResponse:
    """The end of the log of a run of this host; *before*: how many bytes stand before it."""
    with _read(request, None) as (tx, name, source):
        position = run_of(tx, name, task, run)
    found = log_tail(source.home, name, task, run)
    return _answer(position, {"task": task, "run": run, "text": found.text, "before": found.before})


def run_of(tx: Connection, board: str, task: str, run: int) -> int:
    """The log's position, where the board has that run. Raises `UnknownTask`, `UnknownRun`."""
    check_text("task", task)
    if load_task(tx, board, task) is None:
        raise UnknownTask(task)
    if load_run(tx, board, task, run) is None:
        raise UnknownRun(task, run)
    return head(tx, board).position


# Acts


def _done(request: Request, verb: str, task: str, ask: Ask) -> JSONResponse:
    answer = perform(_source(request), request.state.grant, verb, task, ask)
    said = {"task": answer.task or None, "changed": answer.changed, "replayed": answer.replayed}
    return _answer(answer.position, {**said, "notes": list(answer.notes)})


@acting.post("/tasks/{task}/unblock", response_model=Answered)
def unblock(request: Request, task: Card, ask: acts.Unblock) -> JSONResponse:
    """Lift the hold or the cooldown; counters from zero."""
    return _done(request, "unblock", task, ask)


@acting.post("/tasks/{task}/block", response_model=Answered)
def block(request: Request, task: Card, ask: acts.Block) -> JSONResponse:
    """Keep the card back until a person unblocks it."""
    return _done(request, "block", task, ask)


@acting.post("/tasks/{task}/stop", response_model=Answered)
def stop(request: Request, task: Card, ask: acts.Stop) -> JSONResponse:
    """End the card's run, and keep the card back."""
    return _done(request, "stop", task, ask)


@acting.post("/tasks/{task}/assign", response_model=Answered)
def assign(request: Request, task: Card, ask: acts.Assign) -> JSONResponse:
    """Give the card to somebody, or to nobody."""
    return _done(request, "assign", task, ask)


@acting.post("/tasks/{task}/comment", response_model=Answered)
def comment(request: Request, task: Card, ask: acts.Comment) -> JSONResponse:
    """Say something on the card."""
    return _done(request, "comment", task, ask)


@acting.post("/tasks/{task}/archive", response_model=Answered)
def archive(request: Request, task: Card, ask: acts.Archive) -> JSONResponse:
    """Put the card away."""
    return _done(request, "archive", task, ask)


@acting.post("/pause", response_model=Answered)
def pause(request: Request, ask: acts.Pause) -> JSONResponse:
    """Claim nothing any more on the board, for an assignee, or on a host."""
    return _done(request, "pause", "", ask)


@acting.post("/resume", response_model=Answered)
def resume(request: Request, ask: acts.Resume) -> JSONResponse:
    """End a pause."""
    return _done(request, "resume", "", ask)
