"""How a worker's process ends: the code that says how its last turn did, and the trailer that outlives the process.

The code follows the result alone. Neither the claim nor the attempts that were made take part in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import StrEnum
from typing import Final, NoReturn, TextIO

from kanban.worker.carrier import is_worker, own_run
from kanban.worker.result import Status, TurnResult

DONE, FAILED, COME_BACK, CONFIGURATION, INTERRUPTED = 0, 1, 75, 78, 130
TRANSIENT: Final = frozenset({"rate_limit", "billing", "upstream_rate_limit", "timeout", "overloaded", "server_error"})
"""Reasons that pass by themselves: the board waits, and counts no failure."""
TERMINAL: Final = frozenset({"auth", "auth_permanent", "model_not_found", "ssl_cert_verification", "upstream_blocked"})
"""Reasons that only a change of configuration ends."""
TRAILER: Final = "[kanban-worker-exit]"
_BYTE: Final = 0xFF
_NO_INSTANT: Final = 10**11  # seconds


class Credentials(StrEnum):
    """What is known of the agent's credentials where no turn could begin."""

    FINE = "fine"
    LIMITED = "limited"  # their quota is spent
    REFUSED = "refused"  # somebody must log in again


def exit_code(
    result: TurnResult,
    *,
    is_worker: bool,
    credentials: Credentials = Credentials.FINE,
    transient: AbstractSet[str] = TRANSIENT,
    terminal: AbstractSet[str] = TERMINAL,
) -> int:
    """0, 1, 75, 78 or 130. Outside a worker an unfinished turn is always 1; a result wins over *credentials*."""
    match result.status:
        case Status.INTERRUPTED:
            return INTERRUPTED
        case Status.OK:
            return DONE
        case _ if not is_worker:
            return FAILED
        case Status.UNSETTLED:
            return {Credentials.LIMITED: COME_BACK, Credentials.REFUSED: CONFIGURATION}.get(credentials, FAILED)
        case _ if result.reason in transient:
            return COME_BACK
        case _ if result.reason in terminal:
            return CONFIGURATION
        case _:
            return FAILED


def exit_turn(code: int, *, resets_at: float | None = None, environ: Mapping[str, str] = os.environ) -> NoReturn:
    """End this process with *code*; a worker writes its trailer first (RULES §6), to stderr, after all of stdout.

    *resets_at* (seconds since 1970) is when the wall that a code of 75 stands for is gone. Outside a worker not a byte
    is added. What cannot be written costs the trailer, never the code.
    """
    if is_worker(environ):
        _settle(sys.stdout)
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(trailer(code, own_run(environ), resets_at))
        _settle(sys.stderr)
    raise SystemExit(code)


def trailer(code: int, run: int | None, resets_at: float | None = None) -> str:
    """The lines that `kanban.evidence` reads, from the first column on whatever was written before them.

    Without *run* they count too: a log is one run's own. A *resets_at* that is no instant is left out.
    """
    lines = [f"{TRAILER} rc={code & _BYTE}{'' if run is None else f' run={run}'}"]
    if resets_at is not None and 0 < resets_at < _NO_INSTANT:
        lines.append(f"{TRAILER} reset={resets_at:.6f}")
    return "\n" + "".join(f"{line}\n" for line in lines)


def _settle(stream: TextIO | None) -> None:
    """Write out what *stream* holds; where nobody reads it any more, let the interpreter's own flush not fail on it."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
