"""The server around the app: where it listens, who may be let near, and how it ends: at once, and with all streams."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from errno import EADDRINUSE
from ipaddress import ip_address
from signal import SIGINT
from types import FrameType
from typing import Final

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI

from ledger.errors import InvalidInput, LedgerError, Refusal

GOODBYE: Final = 3
"""Seconds that answers under way have once the server ends."""
AT_ONCE: Final = 8
"""Requests that read or act at the same time, each with a connection to the store: fewer than its pool has."""
_BACKLOG: Final = 128


class AddressTaken(LedgerError):
    """Another program listens there."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is taken: another program listens there", remedy="ledger serve --port 0")


class Unguarded(Refusal):
    """Whoever can reach the address could ask: only tokens that were set make that safe (they can be revoked)."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} can be reached from other machines, and no tokens are set",
            remedy="ledger serve --tokens FILE, or leave --host out",
        )


def listen(host: str, port: int, *, guarded: bool) -> socket.socket:
    """A socket that listens on *host* and *port* (0: any that is free).

    Raises `Unguarded` for an address of other machines where nobody set tokens (*guarded*), `AddressTaken`,
    `InvalidInput` for an address that is not this machine's.
    """
    family, address = _address(host, port)
    if not (guarded or ip_address(address[0].partition("%")[0]).is_loopback):
        raise Unguarded(host)
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen(_BACKLOG)
    except OSError as fault:
        door.close()
        raise _not_there(f"{host}:{port}", fault) from None
    return door


def _not_there(where: str, fault: OSError) -> LedgerError:
    if fault.errno == EADDRINUSE:
        return AddressTaken(where)
    return InvalidInput(f"nothing can listen on {where}: {fault.strerror}", remedy="choose another --host or --port")


def _address(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InvalidInput(f"{host!r} is no address", remedy="give an IP address of this machine") from None
    family, _, _, _, address = found[0]
    return family, (str(address[0]), port)


def url_of(door: socket.socket) -> str:
    """Where a browser of this machine finds the server that listens at *door*."""
    host, port, *_ = door.getsockname()
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 – to be replaced
    return f"http://[{here}]:{port}/" if ":" in here else f"http://{here}:{port}/"


def serve(app: FastAPI, door: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve *app* at *door* until INT or TERM comes; *ready* is called once requests are answered."""
    with closing(door):
        server_of(app, ready).run(sockets=[door])


def server_of(app: FastAPI, ready: Callable[[], None]) -> uvicorn.Server:
    """A server of *app*, to be run with a socket; in another thread than the main one `should_exit` ends it."""
    config = uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", loop="asyncio", log_config=None, access_log=False,
        server_header=False, proxy_headers=False, timeout_graceful_shutdown=GOODBYE,
    )  # fmt: skip
    return _Server(config, ready, app.state.live.close)


class _Server(uvicorn.Server):
    """One whose signals mean its end and nothing more, and that ends the streams, which never would by themselves."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], close: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._close = ready, close

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so: signals are heard by now."""
        current_default_thread_limiter().total_tokens = AT_ONCE
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams first."""
        self._close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 – as its parent's
        """Not kept, as its parent does, to be raised again at the end; a second INT waits for nobody."""
        self.force_exit = self.should_exit and sig == SIGINT
        self.should_exit = True
