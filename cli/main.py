"""`ledger`: the console entry. It imports nothing of ours before it has seen that it is ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NoReturn

ROOMS: Final = ("ledger", "projections", "kanban", "cli", "migrations")


def main() -> NoReturn:
    """Refuse what cannot work in one line, else run the command line."""
    refused = _refusal()
    if refused is not None:
        sys.exit(f"ledger: {refused}")
    from cli.app import app, run
    from cli.errors import PIPE_CLOSED

    if "_LEDGER_COMPLETE" in os.environ:  # the shell asks what could come next
        app(prog_name="ledger")
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = PIPE_CLOSED
    if code == PIPE_CLOSED:  # or the interpreter would complain when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def shadowed(rooms: Sequence[str] = ROOMS) -> str | None:
    """Where a room comes from if not from beside the others: another package of that name. Loads nothing."""
    home = Path(__file__).resolve().parent.parent
    for room in rooms:
        spec = find_spec(room)
        origin = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        if origin is None or origin.parent.parent != home:
            return f"{origin or room + ' (not found)'} stands in the way of {home / room}"
    return None


def _refusal() -> str | None:
    if sys.platform == "win32":
        return "Windows is not supported; it runs in WSL (Windows Subsystem for Linux)"
    return shadowed()
