"""`ledger`: the console entry. It imports nothing of ours before it has seen that it is ours, and little else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from cli import __version__
from cli.garbage import give_up, postpone

ROOMS = ("ledger", "projections", "kanban", "cli", "dashboard", "migrations")


def main() -> None:
    """Refuse what cannot work in one line, else run the command line. It ends the process."""
    _open_what_is_closed()
    refused = _refusal()
    if refused is not None:
        sys.exit(f"ledger: {refused}")
    if sys.argv[1:] == ["--version"] and _said(f"ledger {__version__}\n"):
        sys.exit()
    postpone()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # they could change what is valid, and take time
    from cli.app import app, run, unwritten

    if "_LEDGER_COMPLETE" in os.environ:  # the shell asks what could come next
        app(prog_name="ledger")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as fault:
        code = code or unwritten(fault)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes, too
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


def _open_what_is_closed() -> None:
    """Where a standard stream is closed, nobody listens there; but the next file that is opened must not become it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def _said(text: str) -> bool:
    """Whether stdout took all of *text*, past its buffer; where it did not, the whole program says why."""
    try:
        return os.write(sys.stdout.fileno(), text.encode()) == len(text)
    except OSError:
        return False
