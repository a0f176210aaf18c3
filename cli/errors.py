"""What went wrong, as an exit code and in words or JSON (DESIGN §6): the only place that knows the codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import typer

from cli.output import Out, clean, print_error
from kanban import refusals
from ledger import errors

OK, ERROR, USAGE, CONFLICT, REFUSED, NOT_FOUND, NOTHING_TO_DO, DIVERGENCE, STORE, PAUSED = range(10)
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

EXIT_CODES: Final[Mapping[type[errors.LedgerError], int]] = MappingProxyType(
    {
        errors.LedgerError: ERROR,
        errors.InvalidInput: USAGE,
        errors.NotFound: NOT_FOUND,
        errors.WrongExpectedVersion: CONFLICT,
        errors.StoreFault: STORE,
        errors.Unreadable: STORE,
        errors.Refusal: REFUSED,
        refusals.Contended: CONFLICT,
        refusals.Paused: PAUSED,
        refusals.NothingToDo: NOTHING_TO_DO,
        refusals.ChoiceNeeded: USAGE,
    }
)
"""Class of error → exit code; a class that is not named has its parent's."""

UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""Click's own, which older Typers import and newer ones bring along."""
ClickError: Final[Any] = typer.BadParameter.__mro__[2]


def exit_code(fault: errors.LedgerError) -> int:
    """The exit code of *fault*."""
    return next(EXIT_CODES[kind] for kind in type(fault).__mro__ if kind in EXIT_CODES)


def tell(fault: BaseException, out: Out) -> int:
    """Say what *fault* means, in JSON on stdout or in words on stderr, and answer the exit code."""
    match fault:
        case errors.LedgerError():
            _print(out, code=fault.code, message=fault.message, task=fault.task, remedy=fault.remedy)
            return exit_code(fault)
        case _ if isinstance(fault, UsageError):
            _print(out, code="usage", message=_one_line(fault.format_message()), remedy=_help(fault))
            return USAGE
        case _ if isinstance(fault, ClickError):
            _print(out, code="error", message=_one_line(fault.format_message()))
            return ERROR
        case OSError(strerror=str(), filename=str()):
            _print(out, code="os_error", message=f"{fault.filename}: {fault.strerror}")
            return ERROR
        case _:
            return _internal(fault, out)


def _internal(fault: BaseException, out: Out) -> int:
    if out.verbose:
        traceback.print_exception(fault)
    text = f"internal error: {type(fault).__name__}: {_one_line(str(fault))}"
    if out.json:
        _print(out, code="internal", message=text, remedy="repeat it with --verbose and report what it says")
    else:
        sys.stderr.write(f"{clean(text)}\n")
    return ERROR


def _print(out: Out, *, code: str, message: str, task: str | None = None, remedy: str | None = None) -> None:
    if out.json:
        out.answer({"error": {"code": code, "message": message, "task": task or None, "try": remedy}})
        return
    print_error(clean(message), None if remedy is None else clean(remedy))


def _help(fault: Any) -> str:
    context = getattr(fault, "ctx", None)
    return f"{'ledger' if context is None else context.command_path} --help"


def _one_line(text: str) -> str:
    return " ".join(text.split())
