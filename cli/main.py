"""`ledger`: the console entry. It imports nothing of ours before it has seen that it is ours, and little else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from cli import __version__
from cli.garbage import give_up, postpone

ROOMS = ("ledger", "projections", "kanban", "cli", "migrations")


def main() -> None:
    """Refuse what cannot work in one line, else run the command line. It ends the process."""
    refused = _refusal()
    if refused is not None:
        sys.exit(f"ledger: {refused}")
    if sys.argv[1:] == ["--version"] and _said(f"ledger {__version__}\n"):
        sys.exit()
    postpone()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # they could change what is valid, and take time
    from cli.app import app, run
    from cli.errors import PIPE_CLOSED

    if "_LEDGER_COMPLETE" in os.environ:  # the shell asks what could come next
        app(prog_name="ledger")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = PIPE_CLOSED
    if code == PIPE_CLOSED:  # or the interpreter would complain when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    give_up()
    sys.exit(code)


def shadowed(rooms: Sequence[str] = ROOMS) -> str | None:
    """Where a room comes from if not from beside the others: another package of that name. Loads nothing."""
    home = _folder_above(__file__)
    for room in rooms:
        spec = find_spec(room)
        origin = None if spec is None or spec.origin is None else os.path.realpath(spec.origin)
        if origin is None or _folder_above(origin) != home:
            return f"{origin or room + ' (not found)'} stands in the way of {home}/{room}"
    return None


def _folder_above(file: str) -> str:
    """The folder that holds the package of *file*."""
    return os.path.realpath(file).rsplit("/", 2)[0]


def _refusal() -> str | None:
    if sys.platform == "win32":
        return "Windows is not supported; it runs in WSL (Windows Subsystem for Linux)"
    return shadowed()


def _said(text: str) -> bool:
    """Whether stdout took *text*; where it did not, the whole program says why."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        return False
    return True
