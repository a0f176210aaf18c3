"""`ledger serve`: the live page of a board, for eyes and, with a write token, a few hands."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.wiring import Call, call_of, verb
from ledger.errors import LedgerError

if TYPE_CHECKING:
    from dashboard.tokens import Tokens

app = typer.Typer()
PORT: Final = 8420
_NEEDED: Final = ("fastapi", "jinja2", "prometheus_client", "uvicorn")


class PageMissing(LedgerError):
    """The page needs libraries that are installed on demand."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the page needs {name}, which is not installed", remedy="pip install 'kanban-ledger[dashboard]'"
        )


@verb(app)
def serve(
    ctx: typer.Context,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on; others than this machine's need --tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0: any that is free.")] = PORT,
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who may look and act: TOML, [read] and [write], each with NAME = TOKEN. Else LEDGER_READ_TOKEN and "
            "LEDGER_WRITE_TOKEN; without any, a fresh pair is made and printed.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A name by which the server is called, as behind a proxy; may be repeated."),
    ] = None,
) -> None:
    """Serve the board's live page until INT or TERM comes. Nothing can be dispatched from it."""
    from kanban.worker.carrier import operators_only

    call = call_of(ctx)
    operators_only(call.environ, "serve")
    for needed in _NEEDED:
        if find_spec(needed) is None:
            raise PageMissing(needed)
    from dashboard.tokens import configured

    _serve(call, host, port, configured(tokens, call.environ), name or [])


def _serve(call: Call, host: str, port: int, set_tokens: Tokens | None, names: list[str]) -> None:
    from dashboard.app import make_app
    from dashboard.serving import listen, serve, url_of
    from dashboard.source import Source
    from dashboard.tokens import Tokens

    source, tokens = Source.of(call.board), set_tokens or Tokens.fresh()
    door = listen(host, port, guarded=set_tokens is not None)
    urls = _urls(url_of(door), None if set_tokens else tokens)
    serve(make_app(source, tokens, names=[*names, host]), door, ready=lambda: _say(call, urls))


def _urls(url: str, fresh: Tokens | None) -> Mapping[str, str | None]:
    """Where to look and where to act; tokens that somebody set are not printed."""
    if fresh is None:
        return {"url": url, "write_url": None}
    return {"url": f"{url}?token={fresh.token_for('read')}", "write_url": f"{url}?token={fresh.token_for('write')}"}


def _say(call: Call, urls: Mapping[str, str | None]) -> None:
    if call.out.json:
        call.out.answer({**urls, "board": call.address.board})
        return
    call.out.line(f"to look: {urls['url']}")
    if urls["write_url"] is not None:
        call.out.line(f"to act:  {urls['write_url']}")
    else:
        call.out.note("note: open it with ?token=TOKEN, once; the browser keeps a cookie")
    call.out.note("INT or TERM ends it")
