"""The door of an owner: HTTP over its Unix socket, for processes of the same user alone. There is no other way in."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from kanban.processes import start_tick
from kanban.refusals import Forbidden
from kanban.worker.admitting import NotNow
from kanban.worker.frame import Frame, read_json
from kanban.worker.place import DOOR, listening
from kanban.worker.submissions import Client, Submission
from ledger.errors import InvalidInput, LedgerError, StoreBusy, StoreUnreachable

if TYPE_CHECKING:
    from kanban.worker.owner import Owner

LARGEST_FRAME: Final = 8 * 1024 * 1024
"""Bytes of a frame that is read."""
LONGEST_WAIT: Final = 20
"""Seconds that an answer is held back while the submission is not terminal."""
_GOODBYE: Final = 5  # seconds that answers under way have once the owner ends
_LINGER: Final = 0.3  # seconds in which those who knocked before the door was gone are told so
_STEP: Final = 0.01
_PATIENCE: Final = 10.0  # seconds until the door's thread must have ended
_PEER: Final = struct.Struct("3i")  # pid, uid, gid
_log = logging.getLogger(__name__)


class _Peer(H11Protocol):
    """A connection whose other end the kernel names: another user's is closed, and not a byte of it is read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its parent's
        super().connection_made(transport)
        pid, uid, _ = peer_of(transport.get_extra_info("socket"))
        self.client = (str(uid), pid)
        if uid != os.getuid() or pid == 0:
            _log.warning("[kanban] a connection of process %d, user %d was refused", pid, uid)
            transport.abort()


def peer_of(connection: socket.socket) -> tuple[int, int, int]:
    """Process, user and group at the other end of *connection*; process 0: one that cannot be seen from here."""
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, gid = _PEER.unpack(said)
    return pid, uid, gid


@contextmanager
def open_door(owner: Owner, folder: Path) -> Iterator[None]:
    """Serve *owner* at the door in *folder*, from a thread of its own, until the end of the block."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    with listening(folder) as door:
        server = uvicorn.Server(
            uvicorn.Config(
                app_of(owner), http=_Peer, ws="none", lifespan="off", loop="asyncio", log_config=None,
                access_log=False, timeout_graceful_shutdown=_GOODBYE,
            )
        )  # fmt: skip
        thread = Thread(target=server.run, args=([door],), daemon=True, name="door")
        thread.start()
        while not server.started:
            thread.join(_STEP)
            if not thread.is_alive():
                raise OSError(f"the door at {folder} could not be opened")
        try:
            yield
        except BaseException:
            server.force_exit = True  # nobody is answered any more
            raise
        finally:
            (folder / DOOR).unlink(missing_ok=True)
            time.sleep(_LINGER)
            server.should_exit = True
            thread.join(_PATIENCE)


def _is_news(record: logging.LogRecord) -> bool:
    """Not that an answer was given up: only an owner that ends at once does that, and it says so itself."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


def app_of(owner: Owner) -> Starlette:
    """The two things that can be asked: to take turns, and what became of them."""

    async def submit(request: Request) -> Response:
        try:
            frame, client = Frame.read(await _body(request)), _client(request)
            taken = await run_in_threadpool(owner.submit, request.path_params["receipt"], frame, client)
        except (NotNow, StoreBusy, StoreUnreachable) as fault:
            return _refused(503, fault)
        except InvalidInput as fault:
            return _refused(400, fault)
        except LedgerError as fault:
            return _refused(409, fault)
        return _answer(202, _shown(taken))

    async def receipt(request: Request) -> Response:
        known = owner.known(request.path_params["receipt"])
        if known is None:
            return _answer(404, {"state": "unknown"})
        wait = request.query_params.get("wait", "")
        seconds = min(int(wait), LONGEST_WAIT) if wait.isdecimal() else 0
        made = asyncio.wrap_future(known.made)
        await asyncio.wait({made}, timeout=seconds)
        return _answer(200, _shown(known))

    path = "/turns/{receipt}"
    return Starlette(routes=[Route(path, submit, methods=["POST"]), Route(path, receipt, methods=["GET"])])


async def _body(request: Request) -> Any:
    """The JSON of a request, as far as it is not too large to be one that was meant."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_FRAME:
            raise InvalidInput(f"a frame has at most {LARGEST_FRAME} bytes")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidInput("that is no JSON") from None


def _client(request: Request) -> Client:
    """The process at the other end, which is looked after while its turns are taken."""
    assert request.client is not None
    pid = request.client.port
    tick = start_tick(pid)
    if tick is None:
        raise Forbidden(f"process {pid} is gone already")
    return Client(pid, tick)


def _shown(submission: Submission) -> dict[str, Any]:
    """Its state, and once that is terminal the receipt."""
    made = submission.made.result() if submission.made.done() else {}
    return {"id": submission.id, "state": submission.state, **made}


def _refused(status: int, fault: LedgerError) -> Response:
    return _answer(status, {"error": {"code": fault.code, "message": fault.message, "try": fault.remedy}})


def _answer(status: int, said: dict[str, Any]) -> Response:
    """*said* as JSON in ASCII, for an agent may have said what no other encoding can; what is no JSON as its text.

    A number that is none is null.
    """
    text = json.dumps(said, default=str)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(read_json(text.encode()))
    return Response(text, status, media_type="application/json")
