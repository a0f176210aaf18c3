"""What is wrong with a request, as typed errors of the ledger's own kind, and the HTTP code of every error."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.responses import Response

from kanban import refusals
from ledger import errors


class Unauthorised(errors.Refusal):
    """Nobody is let in without a token."""

    def __init__(self) -> None:
        super().__init__("a token is needed", remedy="open the address that ledger serve printed")


class ReadOnly(refusals.Forbidden):
    """The token allows to look, not to act."""

    def __init__(self) -> None:
        super().__init__("this token is for reading", remedy="open the write address that ledger serve printed")


class StaleForm(refusals.Forbidden):
    """The form was not made by this page, or before the tokens were changed."""

    def __init__(self) -> None:
        super().__init__("that form was not made by this page, or is too old", remedy="load the page again")


class ForeignHost(errors.InvalidInput):
    """The name by which the server was called is not its own: a rebound DNS name, or one that nobody configured."""

    def __init__(self) -> None:
        super().__init__(
            "the server is not known by that name", remedy="call it by its IP address, or ledger serve --name NAME"
        )


class ForeignOrigin(refusals.Forbidden):
    """The request was made by a page of another site."""

    def __init__(self) -> None:
        super().__init__("a page of another site asked", remedy="open the page itself")


class TooLarge(errors.InvalidInput):
    """The request's body has more bytes than any act needs."""

    def __init__(self, most: int) -> None:
        super().__init__(f"a request has at most {most} bytes", remedy="put long text into a file, and name it")


class NoSuchPage(errors.NotFound):
    """No page is at that address."""

    def __init__(self) -> None:
        super().__init__("no page is at that address", remedy="begin at /")


class Broken(errors.LedgerError):
    """The server itself failed; its log says how."""

    def __init__(self) -> None:
        super().__init__("the server failed at that", remedy="see what ledger serve printed, and report it")


CODES: Final[Mapping[type[errors.LedgerError], int]] = MappingProxyType(
    {
        errors.LedgerError: 500,
        errors.Unreadable: 500,
        errors.StoreFault: 503,
        errors.InvalidInput: 422,
        errors.NotFound: 404,
        errors.WrongExpectedVersion: 409,
        errors.Refusal: 409,
        refusals.Forbidden: 403,
        Unauthorised: 401,
        ForeignHost: 421,
        TooLarge: 413,
    }
)
"""Class of error → HTTP code; a class that is not named has its parent's."""


def http_code(fault: errors.LedgerError) -> int:
    """The HTTP code of *fault*."""
    return next(CODES[kind] for kind in type(fault).__mro__ if kind in CODES)


def fault_json(fault: errors.LedgerError) -> dict[str, Any]:
    """*fault* as every JSON answer of the ledger has it."""
    said = {"code": fault.code, "message": fault.message, "task": fault.task, "try": fault.remedy}
    return {"schema": 1, "error": said}


def refused(request: Request, fault: errors.LedgerError) -> Response:
    """*fault* as a page for browsers, as JSON for everybody else."""
    code = http_code(fault)
    if not _wants_page(request):
        return JSONResponse(fault_json(fault), code)
    from dashboard import rendered

    return rendered.unauthorised(request) if isinstance(fault, Unauthorised) else rendered.refusal(request, fault, code)


def _wants_page(request: Request) -> bool:
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")
