"""The worker's environment: which claim a process speaks for (all of it or nothing)."""

from __future__ import annotations

from collections.abc import Mapping

from kanban.commands import Credential
from kanban.refusals import Forbidden
from ledger.recorded import check_text

TASK, RUN, LOCK = "LEDGER_TASK", "LEDGER_RUN", "LEDGER_LOCK"
_LONGEST_RUN = 9  # digits


def own_claim(environ: Mapping[str, str]) -> tuple[str, Credential] | None:
    """(card, lock) of the worker whose environment this is; none outside of one. Blank means "not a worker".

    Raises `Forbidden` where the card is named but run or lock are missing: half a claim proves nothing.
    """
    task = environ.get(TASK, "").strip()
    if not task:
        return None
    run, lock = environ.get(RUN, "").strip(), environ.get(LOCK, "").strip()
    check_text(TASK, task)
    if not run.isdecimal() or len(run) > _LONGEST_RUN or not lock:
        raise Forbidden(
            f"this is the environment of a worker of {task}, but {RUN} or {LOCK} is missing or no such thing",
            task=task,
            remedy=f"unset {TASK} to act as an operator",
        )
    return task, Credential(lock, int(run))


def operators_only(environ: Mapping[str, str], verb: str) -> None:
    """Raise `Forbidden` inside a worker's environment: *verb* is for operators."""
    own = own_claim(environ)
    if own is not None:
        raise Forbidden(f"{verb} is not a worker's", task=own[0], remedy="ask an operator")
