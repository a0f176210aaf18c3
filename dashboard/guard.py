"""The one way in: host, origin, token, form and size are checked here, before any route; every answer gets its headers.

Deny by default: a route cannot forget to ask, because no request reaches one without a token, and none that could
change anything without a write token. Open are `/healthz` and `/readyz`, to this machine alone: they say whether the
server works and nothing of a board.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.faults import Broken, ForeignHost, ForeignOrigin, ReadOnly, StaleForm, TooLarge, Unauthorised, refused
from dashboard.tokens import Grant, Tokens, same
from ledger.errors import LedgerError

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""Answered to this machine without a token."""
LARGEST_BODY: Final = 256 * 1024
"""Bytes of a request that is read."""
FORM: Final = "application/x-www-form-urlencoded"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # not no-referrer: with that a browser says `Origin: null` of the page's own forms, and none could be checked
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
_log = logging.getLogger(__name__)


class Guard:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, *, tokens: Tokens, names: Collection[str] = ()) -> None:
        """*names*: what the server may be called beside `localhost` and IP addresses, which no DNS can rebind."""
        self._app = app
        self._tokens = tokens
        self._names = frozenset({"localhost", *(name.lower() for name in names)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guarded(scope, receive, _Headed(send, scope["path"]))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _guarded(self, scope: Scope, receive: Receive, send: _Headed) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
            await answer(scope, _again(request, receive), send)
        except Exception:  # noqa: BLE001 – told to whoever asked, with the headers, and to the log
            _log.exception("%s %s failed", request.method, request.url.path)
            if not send.begun:
                await refused(request, Broken())(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        """Who answers: the app, or a response of the guard's own."""
        try:
            return await self._checked(request) or self._app
        except LedgerError as fault:
            return refused(request, fault)

    async def _checked(self, request: Request) -> Response | None:
        """None where the request may pass. Raises what it must be refused with."""
        self._check_host(request)
        if request.method == "GET" and "token" in request.query_params:
            return self._exchanged(request)
        grant, by_cookie = self._bearer(request)
        if grant is None:
            if request.url.path in OPEN and _is_local(request):
                return None
            raise Unauthorised
        _admit(request, grant)
        if request.method not in _SAFE:
            if not grant.may_write:
                raise ReadOnly
            await _check_form(request, grant, by_cookie=by_cookie)
        return None

    def _check_host(self, request: Request) -> None:
        """Raises `ForeignHost`, or `ForeignOrigin` where a page of another place asks."""
        hosts, origin = request.headers.getlist("host"), request.headers.get("origin")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise ForeignHost
        if origin is not None and origin.partition("://")[2].lower() != hosts[0].lower():
            raise ForeignOrigin

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or _is_address(name)

    def _bearer(self, request: Request) -> tuple[Grant | None, bool]:
        """Whose request it is, and whether a cookie says so."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme:
            return (self._tokens.of_token(token.strip()) if scheme.lower() == "bearer" else None), False
        return self._tokens.of_cookie(request.cookies.get(self._tokens.cookie_name, "")), True

    def _exchanged(self, request: Request) -> Response:
        """A cookie for the token of the address, until the browser is closed, and away from that address."""
        grant = self._tokens.of_token(request.query_params["token"])
        if grant is None:
            raise Unauthorised
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        path = "/" + quote(request.url.path.lstrip("/"))
        answer = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        answer.set_cookie(
            self._tokens.cookie_name, grant.cookie, httponly=True, samesite="strict",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return answer


def _admit(request: Request, grant: Grant) -> None:
    """Tell the routes who asks."""
    request.state.grant = grant
    request.state.csrf = grant.csrf
    request.state.can_write = grant.may_write


async def _check_form(request: Request, grant: Grant, *, by_cookie: bool) -> None:
    """Read the body, as far as it is not too large; a browser must have got it from a page of this server."""
    body = await _body(request)
    if not by_cookie:
        return
    given = request.headers.get("x-csrf-token")
    if given is None and request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
        given = parse_qs(body.decode("utf-8", "replace")).get("csrf", [""])[0]
    if not same(given or "", grant.csrf):
        raise StaleForm


async def _body(request: Request) -> bytes:
    told = request.headers.get("content-length", "0")
    body, most = b"", TooLarge(LARGEST_BODY)
    if told.isdecimal() and int(told) > LARGEST_BODY:
        raise most
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise most
    request._body = body  # noqa: SLF001 – as Starlette's own `body` keeps it
    return body


def _again(request: Request, receive: Receive) -> Receive:
    """*receive*, for a request whose body may have been read here already: then it comes once more, whole."""
    body: bytes | None = getattr(request, "_body", None)
    if body is None:
        return receive
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def told() -> Message:
        return waiting.pop() if waiting else await receive()

    return told


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_local(request: Request) -> bool:
    """Whether this machine itself asks, and no proxy on it for somebody else."""
    peer = "" if request.client is None else request.client.host
    return _is_address(peer) and ip_address(peer).is_loopback and not any(map(request.headers.get, _FORWARDED))


class _Headed:
    """*send*, with the headers that every answer has."""

    def __init__(self, send: Send, path: str) -> None:
        self._send = send
        self._own = {"cache-control": "private, max-age=300"} if path.startswith("/static/") else {}
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in (HEADERS | self._own).items():
                headers[name] = value
            if message["status"] == 401:  # noqa: PLR2004 – Unauthorised
                headers["www-authenticate"] = 'Bearer realm="ledger"'
        await self._send(message)
